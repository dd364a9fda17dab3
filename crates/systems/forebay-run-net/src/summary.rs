//! What an end point has to say at its end.

use std::collections::BTreeMap;

use forebay_ledger::{Taint, TaintKind, Verdict};
use forebay_run::record::Record;
use forebay_run::removed::Removed;
use serde::Serialize;

use crate::counts::Counts;
use crate::tags::TagSummary;

/// One connection, from its begin to its end.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionSummary {
    /// The peer.
    pub peer: String,
    /// How it ended: `over` in order, else why not.
    pub end: &'static str,
    /// Messages handed to the link.
    pub messages_sent: u64,
    /// Bytes of their payloads.
    pub bytes_sent: u64,
    /// Messages that were read.
    pub messages_received: u64,
    /// Bytes of their payloads.
    pub bytes_received: u64,
    /// Messages dropped here, as by the policy for a slow receiver.
    pub dropped: u64,
    /// Messages that the peer sent and that never came or could not be read.
    pub lost: u64,
    /// Messages sent of which the peer did not say what became of them.
    pub unconfirmed: u64,
    /// Bytes of their payloads.
    pub unconfirmed_bytes: u64,
    /// Messages for this side that the peer says it dropped, as this side was too slow for its policy or they were longer than its buffers; none when it
    /// did not say.
    pub dropped_at_peer: Option<u64>,
    /// Messages sent less those that the peer says it took; none when it did not say, or said more than was sent, which ends the connection.
    pub missing_at_peer: Option<u64>,
    /// Bytes of their payloads.
    pub missing_bytes_at_peer: Option<u64>,
}

impl ConnectionSummary {
    /// How it ended when it did so in order.
    pub const IN_ORDER: &str = "over";
}

/// What an end point did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NetSummary {
    /// Messages sent, in all copies, and received.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Messages lost by name, here or on the way here.
    pub dropped: u64,
    /// Messages that are still inside: at an end that gathers, those that its caller has not taken.
    pub held: u64,
    /// Connections that were made.
    pub connections_made: u64,
    /// Attempts to connect.
    pub attempts: u64,
    /// Addresses on the bus beyond those that are followed, 4,096; the most at a time.
    pub not_followed: u64,
    /// Connections that ended otherwise than in order, by reason.
    pub parted: BTreeMap<&'static str, u64>,
    /// Those that came to the door and were not let in, by reason.
    pub turned_away: BTreeMap<&'static str, u64>,
    /// How often the system refused to take a connection in.
    pub accept_errors: u64,
    /// Messages sent of which the receivers did not say what became of them.
    pub unconfirmed: u64,
    /// Bytes of their payloads.
    pub unconfirmed_bytes: u64,
    /// Messages for this side that the senders say they dropped, where they said it. They are in the senders' books, not in these.
    pub dropped_at_peers: u64,
    /// Messages sent less those that the receivers say they took, where they said it.
    pub missing_at_peers: u64,
    /// Bytes of their payloads.
    pub missing_bytes_at_peers: u64,
    /// The last connections.
    pub connections: Vec<ConnectionSummary>,
    /// Connections before these.
    pub unlisted_connections: u64,
    /// Messages that were written, and went with files that somebody removed or cut.
    #[serde(skip_serializing_if = "Removed::is_none")]
    pub output_removed: Removed,
    /// Messages and bytes by tag, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<TagSummary>>,
}

/// The record of an end point.
pub type NetRecord = Record<NetSummary>;

/// Connections whose summary is kept.
const LISTED_MAX: usize = 1000;

impl NetSummary {
    /// What a user of the data must know beside its own books: `wrote_all` says that its caller could write what came, and `in_order` that no connection was lost.
    pub(super) fn taints(&self, wrote_all: bool, in_order: bool) -> Vec<Taint> {
        let mut taints = Vec::new();
        let mut add = |is_so: bool, kind, text: &dyn Fn() -> String| {
            if is_so {
                taints.push(Taint::new(kind, text()));
            }
        };
        let [missing, bytes] = [self.missing_at_peers, self.missing_bytes_at_peers];
        let is_missing = missing > 0 || bytes > 0;
        add(is_missing, TaintKind::Residual, &|| {
            format!(
                "receivers say that they took {missing} messages, {bytes} bytes less than was sent"
            )
        });
        add(self.output_removed.any(), TaintKind::OutputRemoved, &|| {
            let messages = self.output_removed.messages.unwrap_or(0);
            format!("{messages} messages that were written are gone")
        });
        add(!wrote_all, TaintKind::WriteError, &|| {
            "not everything that came could be written".into()
        });
        add(!in_order, TaintKind::PeerLost, &|| {
            "a connection did not end in order".into()
        });
        let unconfirmed = self.unconfirmed;
        add(unconfirmed > 0, TaintKind::Unconfirmed, &|| {
            format!("nobody has said what became of {unconfirmed} messages")
        });
        taints
    }

    pub(super) fn add(&mut self, one: ConnectionSummary) {
        if one.end != "over" {
            *self.parted.entry(one.end).or_default() += 1;
        }
        self.unconfirmed += one.unconfirmed;
        self.unconfirmed_bytes += one.unconfirmed_bytes;
        // What peers say is not ours to believe: it may be any number.
        add(&mut self.dropped_at_peers, one.dropped_at_peer);
        add(&mut self.missing_at_peers, one.missing_at_peer);
        add(&mut self.missing_bytes_at_peers, one.missing_bytes_at_peer);
        self.list(one);
    }

    fn list(&mut self, one: ConnectionSummary) {
        if self.connections.len() == LISTED_MAX {
            self.connections.remove(0);
            self.unlisted_connections += 1;
        }
        self.connections.push(one);
    }

    /// Takes in what another end point of this process did. Tags are not told apart over several.
    fn absorb(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
        self.held += other.held;
        self.connections_made += other.connections_made;
        self.attempts += other.attempts;
        self.not_followed = self.not_followed.max(other.not_followed);
        for (reason, count) in other.parted {
            *self.parted.entry(reason).or_default() += count;
        }
        self.unconfirmed += other.unconfirmed;
        self.unconfirmed_bytes += other.unconfirmed_bytes;
        add(&mut self.dropped_at_peers, Some(other.dropped_at_peers));
        add(&mut self.missing_at_peers, Some(other.missing_at_peers));
        let bytes = other.missing_bytes_at_peers;
        add(&mut self.missing_bytes_at_peers, Some(bytes));
        self.unlisted_connections += other.unlisted_connections;
        other.connections.into_iter().for_each(|one| self.list(one));
        self.tags = None;
    }

    /// Takes the sums from the books.
    pub(super) fn take(&mut self, verdict: &Verdict) {
        for line in &verdict.balance.accounts {
            self.held += line.held.items.unsigned_abs();
            if line.place == "send" || line.place == "receive" {
                self.messages += line.outgoing.items;
                self.bytes += line.outgoing.bytes;
            }
            self.dropped += line.dropped.iter().map(|lost| lost.items).sum::<u64>();
        }
    }
}

/// Takes in the record of another end point of this process.
pub fn absorb(into: &mut NetRecord, mut other: NetRecord) {
    into.envelope.include(&mut other.envelope, |_| false);
    into.summary.absorb(other.summary);
}

fn add(sum: &mut u64, one: Option<u64>) {
    *sum = sum.saturating_add(one.unwrap_or(0));
}

impl ConnectionSummary {
    pub(super) fn of(peer: &str, end: &'static str, counts: &Counts) -> Self {
        Self {
            peer: peer.to_owned(),
            end,
            messages_sent: counts.sent[0],
            bytes_sent: counts.sent[1],
            messages_received: counts.read[0],
            bytes_received: counts.read[1],
            dropped: counts.slow[0] + counts.lost[0] + counts.too_long[0],
            lost: counts.gap[0] + counts.broken[0],
            unconfirmed: 0,
            unconfirmed_bytes: 0,
            dropped_at_peer: None,
            missing_at_peer: None,
            missing_bytes_at_peer: None,
        }
    }
}
