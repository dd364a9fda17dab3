//! What came of each sender.

use std::collections::BTreeMap;

use forebay_ledger::DropReason;
use forebay_run_net::NetRecord;
use forebay_tdm::receiver::{PeerState, PeerTotals, Receiver};
use forebay_wire::tdm::Carries;
use serde::Serialize;

use super::super::heaps::HeapTally;
use super::{Host, Sums, by_cause};

/// What came of one sender.
#[derive(Clone, Debug, Serialize)]
pub struct SenderSummary {
    /// Its name.
    pub name: String,
    /// `ended`, `dead`, or how far it came.
    pub state: &'static str,
    /// Somebody there asked for its end before the input's, as by Ctrl-C.
    pub interrupted: bool,
    /// Whether `sent` is all that it sent: one that ends without its totals may have sent more than what was reported or came, and that is in no account.
    pub sent_known: bool,
    /// The last window that is known of; none where there was none.
    pub last_window: Option<u32>,
    /// Starts before the last one that never told their totals.
    pub starts_untold: u32,
    /// What is not known of it, in words.
    pub not_known: Option<String>,
    /// Starts under that name before the last one.
    pub restarts: u32,
    /// Windows that were closed.
    pub windows: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that came.
    pub received: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Packets that did not come, by cause.
    pub lost: BTreeMap<&'static str, u64>,
    /// Packets that came and are not in what was written, by reason.
    pub not_written: BTreeMap<&'static str, u64>,
    /// Packets that came of windows that were not closed at the end.
    pub held: u64,
    /// Sent and held less received less lost.
    pub residual_items: i64,
    /// Packets that came more than once.
    pub duplicates: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets that went with a later window.
    pub carried: u64,
    /// Windows in which nothing was sent.
    pub preempted: u64,
    /// Packets that came between those of another window.
    pub overlaps: u64,
    /// Windows whose reports never came: what they sent is known by numbers, and no further than the last that came or the sender's own end says.
    pub unreported: u64,
    /// Bound of the error of its clock, in ns.
    pub clock_error_ns: u64,
    /// How late it wakes up, in ns.
    pub lateness_ns: u64,
    /// It runs at real-time priority.
    pub real_time: bool,
    /// Heaps, where its stream is of heaps.
    pub heaps: Option<HeapSummary>,
    /// What the end of messaging has to say, where its heaps go on as messages.
    pub handed_on: Option<NetRecord>,
}

/// What became of a sender's heaps.
#[derive(Clone, Debug, Serialize)]
pub struct HeapSummary {
    /// Heaps that it began, as far as is known: from its end, or by the numbers of those that came.
    pub sent: u64,
    /// Heaps that are whole, and written or handed on.
    pub whole: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The others, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that were not pieces of heaps to their end; what they hid is dropped as holes.
    pub broken_packets: u64,
    /// Sent less whole less dropped.
    pub residual_items: i64,
}

impl HeapSummary {
    fn of(tally: &HeapTally) -> Self {
        let dropped = tally
            .dropped
            .iter()
            .map(|(why, sum)| (why.name(), sum.heaps));
        let dropped: BTreeMap<&'static str, u64> = dropped.collect();
        let lost: u64 = dropped.values().sum();
        let left = tally.sent.heaps.cast_signed() - tally.whole.heaps.cast_signed();
        Self {
            sent: tally.sent.heaps,
            whole: tally.whole.heaps,
            bytes: tally.whole.bytes,
            dropped,
            broken_packets: tally.broken_packets,
            residual_items: left - lost.cast_signed(),
        }
    }
}

pub(super) fn by_sender(receiver: &Receiver, sums: &Sums, host: &Host<'_>) -> Vec<SenderSummary> {
    let peers = receiver.peers().enumerate();
    let summaries = peers.map(|(at, peer)| SenderSummary {
        heaps: (peer.carries == Carries::Heaps)
            .then(|| host.heaps.get(at).map(HeapSummary::of))
            .flatten(),
        not_written: host.not_written.get(at).cloned().unwrap_or_default(),
        handed_on: host.handed_on.get(at).cloned().flatten(),
        ..sender(peer, sums.held(at, peer))
    });
    summaries.collect()
}

fn not_known(peer: &PeerTotals) -> Option<String> {
    let name = &peer.name;
    match peer.last_window {
        _ if peer.sent_is_known() => None,
        _ if peer.has_told() => Some(format!(
            "an earlier start of {name} ended without a report: what it sent last is not known"
        )),
        Some(window) => Some(format!(
            "{name} ended without a report: what it sent after window {window} is not known"
        )),
        None => Some(format!(
            "{name} ended without a report: what it sent is not known"
        )),
    }
}

fn sender(peer: &PeerTotals, held: u64) -> SenderSummary {
    SenderSummary {
        name: peer.name.clone(),
        state: match peer.state {
            PeerState::Joined => "joined",
            PeerState::Ready => "ready",
            PeerState::Ended => "ended",
            PeerState::Dead => "dead",
        },
        interrupted: peer.interrupted,
        sent_known: peer.sent_is_known(),
        last_window: peer.last_window,
        starts_untold: peer.starts_untold,
        not_known: not_known(peer),
        restarts: peer.restarts,
        windows: peer.windows,
        sent: peer.sent,
        received: peer.received,
        payload_bytes: peer.payload_bytes,
        lost: by_cause(&peer.lost),
        not_written: BTreeMap::new(),
        held,
        residual_items: peer.residual() + held.cast_signed(),
        duplicates: peer.duplicates,
        reordered: peer.reordered,
        carried: peer.carried,
        preempted: peer.preempted,
        overlaps: peer.overlaps,
        unreported: peer.unreported,
        clock_error_ns: peer.ready.clock_error_ns,
        lateness_ns: peer.ready.lateness_ns,
        real_time: peer.ready.real_time == 1,
        heaps: None,
        handed_on: None,
    }
}
