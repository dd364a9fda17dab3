//! The books of several parties joined: what one host says it sent, held against what another one says it received.
//!
//! Each party has a ledger of its own. A link whose sender is foreign to a ledger has an unknown residual there; with the sender's books beside it, it is
//! known. The two ends are told apart by what both books say: datagrams by the port that they were sent to, streams to a mover by the run and the sink,
//! messages, packets of time-division UDP and blocks in the memory of cards all together.

mod sheet;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::audit::{Phase, Verdict, may_be_underway};
use crate::balance::{AccountLine, Amount, DropLine, Level, LinkLine, Residual, link_residual};
use crate::snapshot::Snapshot;
use crate::unit::Unit;

/// The gauge by which a sender says where its datagrams go.
pub const DESTINATION_PORT: &str = "destination_port";
/// The counter by which a card says how many blocks it has shown to the reader of a DMA buffer.
pub const SHOWN_BLOCKS: &str = "blocks";
/// The gauge by which a card says how many of them its reader has not given back.
pub const UNREAD_BLOCKS: &str = "unread_blocks";
/// The group that a card has these in, and the place of its account where it replays a file.
pub const CARD: &str = "card";
/// The place of the reader's account of the blocks in a DMA buffer.
pub const DMA: &str = "dma";
/// The gauge that each socket of a receiver has; its group has the port's number in its name.
const SOCKET_GAUGE: &str = "socket_buffer_capacity_bytes";
const SOCKET_GROUP: &str = "receiver.port";
/// The name of a link that has no parts.
const ALL: &str = "all";
/// Why a sink gives events up that its mover may have written.
const GIVEN_UP: [&str; 2] = ["peer_lost", "stalled"];
/// Links without books of their own at either end: name, unit, the sender's place, the receiver's.
const WHOLE: [(&str, Unit, &str, &str); 2] = [
    ("messaging", Unit::Messages, "send", "receive"),
    ("tdm", Unit::Packets, "send", "windows"),
];

/// The books of one party.
#[derive(Clone, Debug, Serialize)]
pub struct Party {
    /// Where they are from.
    pub name: String,
    /// They alone.
    pub verdict: Verdict,
    /// What its own audit says beside its tables: lines for people.
    #[serde(skip)]
    lines: Vec<String>,
    /// What is gone, missing, incomplete, lost or unconfirmed there, for the last words.
    #[serde(skip)]
    said: Vec<String>,
    /// Port that each owner sends to.
    #[serde(skip)]
    sends_to: BTreeMap<String, u64>,
    /// Port that each owner's socket is bound to.
    #[serde(skip)]
    listens_at: BTreeMap<String, u64>,
    /// Blocks that a card has shown, and those not given back.
    #[serde(skip)]
    shown_blocks: u64,
    #[serde(skip)]
    unread_blocks: u64,
    #[serde(skip)]
    meets: Meets,
}

/// By what a party meets others whose books are there.
#[derive(Clone, Copy, Debug)]
pub struct Meets {
    /// Datagrams, messages, packets or events go between them.
    pub by_network: bool,
    /// One reads the memory that the other one, a card, writes.
    pub by_memory: bool,
}

impl Default for Meets {
    fn default() -> Self {
        Self {
            by_network: true,
            by_memory: true,
        }
    }
}

impl Party {
    /// The party `name` with its books.
    #[must_use]
    pub fn new(name: &str, snapshot: &Snapshot, verdict: Verdict) -> Self {
        let (mut sends_to, mut listens_at) = (BTreeMap::new(), BTreeMap::new());
        let (mut shown_blocks, mut unread_blocks) = (0, 0);
        for line in snapshot.metrics() {
            let owner = line.owner.to_owned();
            if line.name == DESTINATION_PORT {
                sends_to.insert(owner, line.value);
            } else if line.group == CARD && line.name == SHOWN_BLOCKS {
                shown_blocks += line.value;
            } else if line.group == CARD && line.name == UNREAD_BLOCKS {
                unread_blocks += line.value;
            } else if line.name == SOCKET_GAUGE
                && let Some(port) = line.group.strip_prefix(SOCKET_GROUP)
                && let Ok(port) = port.parse()
            {
                listens_at.insert(owner, port);
            }
        }
        Self {
            name: name.to_owned(),
            said: verdict.said(),
            verdict,
            lines: Vec::new(),
            sends_to,
            listens_at,
            shown_blocks,
            unread_blocks,
            meets: Meets::default(),
        }
    }

    /// Without links of a kind by which it meets nobody whose books are there.
    #[must_use]
    pub const fn meeting(mut self, meets: Meets) -> Self {
        self.meets = meets;
        self
    }

    /// With what its own audit says: lines for people, and what comes first in its last words (gone, missing, incomplete).
    #[must_use]
    pub fn told(mut self, lines: Vec<String>, mut first: Vec<String>) -> Self {
        self.lines = lines;
        first.append(&mut self.said);
        self.said = first;
        self
    }

    /// When its books begin and end, in ns since the Unix epoch: the end of the run, or its last sign of life.
    fn span_ns(&self) -> [u64; 2] {
        let run = self.verdict.balance.run;
        match run.end_ns {
            0 => [run.start_ns, run.heartbeat_ns],
            end_ns => [run.start_ns, end_ns],
        }
    }

    fn accounts(&self, place: &str, unit: Unit) -> impl Iterator<Item = &AccountLine> {
        let accounts = self.verdict.balance.accounts.iter();
        accounts.filter(move |line| line.place == place && line.unit == unit)
    }
}

/// A link between two parties.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JoinedLink {
    /// What it is: `socket`, `messaging`, `tdm`, `stream` or `dma`.
    pub place: String,
    /// Which one: a port, a run and its sink, or `all`.
    pub which: String,
    /// What an item is.
    pub unit: Option<Unit>,
    /// Parties that say what they sent.
    pub senders: Vec<String>,
    /// Parties that say what they received.
    pub receivers: Vec<String>,
    /// What the senders say.
    pub sent: Amount,
    /// What the receivers say.
    pub received: Amount,
    /// Losses of the link that have a name, as the party that saw them counted them.
    pub dropped: Vec<DropLine>,
    /// Of what the senders sent and no peer has acknowledged to them, that which is in no receiver's books either.
    pub unconfirmed: Amount,
    /// What nobody explains: positive when it vanished, negative when it appeared. None where one end has no books here.
    pub unexplained: Option<Residual>,
    /// It may be on its way still, or was when a party was killed: no more than can be where nobody counts.
    pub underway: bool,
    /// For how long senders were at work before the first receiver began, by the clocks of both, in s: what they sent then is unexplained.
    pub sent_before_s: f64,
    /// For how long they went on when the last receiver had ended.
    pub sent_after_s: f64,
    /// What the senders were not told of, whether it is in a receiver's books or not.
    #[serde(skip)]
    unacknowledged: Amount,
    /// What the senders gave up, and a receiver may have.
    #[serde(skip)]
    given_up: Amount,
    /// Of the senders and of the receivers.
    #[serde(skip)]
    spans_ns: [Option<[u64; 2]>; 2],
    #[serde(skip)]
    bound_items: u64,
    #[serde(skip)]
    open: bool,
}

/// The books of all parties, link by link.
#[derive(Clone, Debug, Serialize)]
pub struct Joined {
    /// Whether every party's own books close, every link balances, and no sender is without a receiver.
    pub closed: bool,
    /// All links that have an end here.
    pub links: Vec<JoinedLink>,
    /// The parties.
    pub parties: Vec<Party>,
}

/// Joins the books of all parties.
#[must_use]
pub fn join(parties: Vec<Party>) -> Joined {
    let mut sheet = Links::default();
    for party in parties.iter().filter(|party| party.meets.by_network) {
        sheet.sockets(party);
        sheet.whole(party);
    }
    for party in parties.iter().filter(|party| party.meets.by_memory) {
        sheet.memory(party);
    }
    sheet.streams(&parties);
    let links: Vec<_> = sheet.0.into_values().map(JoinedLink::settle).collect();
    let joined = links.iter().any(|link| link.unexplained.is_some());
    let own = parties.iter().all(|party| party.verdict.closed);
    Joined {
        closed: own && joined && links.iter().all(JoinedLink::is_closed),
        links,
        parties,
    }
}

impl Joined {
    /// The same for the members of a chain: without links of which one end has its books elsewhere, and with parties that are at work or were killed, whose books are some time behind what
    /// went between them. What is left over there is under way.
    #[must_use]
    pub fn of_chain(mut self) -> Self {
        self.links.retain(|link| link.unexplained.is_some());
        for link in &mut self.links {
            link.underway |= link.open && link.unexplained.is_some_and(|left| !left.is_zero());
        }
        self.closed = self.parties.iter().all(|party| party.verdict.closed)
            && self.links.iter().all(JoinedLink::is_closed);
        self
    }
}

#[derive(Default)]
struct Links(BTreeMap<(&'static str, String), JoinedLink>);

impl Links {
    fn link(&mut self, place: &'static str, which: &str, unit: Unit) -> &mut JoinedLink {
        let link = self.0.entry((place, which.to_owned())).or_default();
        place.clone_into(&mut link.place);
        which.clone_into(&mut link.which);
        link.unit = Some(unit);
        link
    }

    /// Sockets: a sender's account of datagrams, and a receiver's link whose sender is foreign to it.
    fn sockets(&mut self, party: &Party) {
        for line in party.accounts("generator", Unit::Datagrams) {
            if let Some(port) = party.sends_to.get(&line.owner) {
                let link = self.link("socket", &of_port(*port), line.unit);
                link.sent(party, line.outgoing);
            }
        }
        for line in &party.verdict.balance.links {
            if line.place == "socket"
                && line.sent.is_none()
                && let Some(port) = party.listens_at.get(&line.owner)
            {
                self.link("socket", &of_port(*port), line.unit)
                    .arrived(party, line);
            }
        }
    }

    fn whole(&mut self, party: &Party) {
        for (place, unit, from, to) in WHOLE {
            for line in party.accounts(from, unit) {
                if line.outgoing != Amount::default() {
                    let link = self.link(place, ALL, unit);
                    link.sent(party, line.outgoing);
                    link.unacknowledged
                        .add(line.unconfirmed.unwrap_or_default());
                }
            }
            for line in party.accounts(to, unit) {
                if line.incoming != Amount::default() {
                    self.link(place, ALL, unit).taken(party, line);
                }
            }
        }
    }
}

impl Links {
    /// Memory of cards: what a card has shown, by its own count, and what the reader of its buffers took. What was not given back may have been taken, or not.
    fn memory(&mut self, party: &Party) {
        let accounts = party.accounts(CARD, Unit::Blocks);
        let replayed: u64 = accounts.map(|line| line.outgoing.items).sum();
        let shown = party.shown_blocks + replayed;
        if shown > 0 {
            let amount = |items| Amount { items, bytes: 0 };
            let link = self.link(DMA, ALL, Unit::Blocks);
            link.sent(party, amount(shown));
            link.unacknowledged.add(amount(party.unread_blocks));
        }
        for line in party.accounts(DMA, Unit::Blocks) {
            self.link(DMA, ALL, Unit::Blocks)
                .read(party, line.incoming.items);
        }
    }
}

/// Streams of events from a sink to a mover: the mover keeps books of each, which have the run of the sender, and the name of its sink.
impl Links {
    fn streams(&mut self, parties: &[Party]) {
        let mut streams: BTreeMap<(&str, &str), Vec<(&Party, &AccountLine)>> = BTreeMap::new();
        let parties = || parties.iter().filter(|party| party.meets.by_network);
        for mover in parties() {
            for line in mover.accounts("mover", Unit::Events) {
                let stream = (&*mover.verdict.balance.run_id, &*line.owner);
                streams.entry(stream).or_default().push((mover, line));
            }
        }
        for ((run, sink), movers) in streams {
            let link = self.link("stream", &format!("{run} {sink}"), Unit::Events);
            for party in parties() {
                if party.verdict.balance.run_id == run {
                    let sinks = party.accounts("sink", Unit::Events);
                    for line in sinks.filter(|line| line.owner == sink) {
                        link.sent(party, line.outgoing);
                        link.given_up(&line.dropped);
                    }
                }
            }
            for (mover, line) in &movers {
                note(&mut link.receivers, mover);
                widen(&mut link.spans_ns[1], mover);
                link.received.add(line.incoming);
                link.open |= mover.verdict.phase != Phase::Ended;
            }
            // What came before one of several movers may be in the books of another one.
            if let [(mover, _)] = &movers[..] {
                let links = mover.verdict.balance.links.iter();
                let own = links.filter(|of| of.place == "stream" && of.owner == sink);
                own.for_each(|of| link.lost(&of.dropped));
            }
        }
    }
}

fn of_port(port: u64) -> String {
    format!("port {port}")
}

impl JoinedLink {
    /// What the sender gave up when its peer was gone: it is there, or not.
    fn given_up(&mut self, dropped: &[DropLine]) {
        for line in dropped
            .iter()
            .filter(|line| GIVEN_UP.contains(&&*line.reason))
        {
            self.given_up.add(Amount {
                items: line.items,
                bytes: line.bytes_max,
            });
        }
    }

    fn sent(&mut self, party: &Party, sent: Amount) {
        note(&mut self.senders, party);
        widen(&mut self.spans_ns[0], party);
        self.sent.add(sent);
        self.open |= party.verdict.phase != Phase::Ended;
    }

    fn arrived(&mut self, party: &Party, line: &LinkLine) {
        note(&mut self.receivers, party);
        widen(&mut self.spans_ns[1], party);
        self.received.add(line.received);
        self.lost(&line.dropped);
        self.bound_items = self.bound_items.saturating_add(line.bound_items);
        self.open |= party.verdict.phase != Phase::Ended;
    }

    /// So many items were read out of memory.
    fn read(&mut self, party: &Party, items: u64) {
        note(&mut self.receivers, party);
        widen(&mut self.spans_ns[1], party);
        self.received.add(Amount { items, bytes: 0 });
        self.open |= party.verdict.phase != Phase::Ended;
    }

    /// What an account took from the link, and what it says was lost there.
    fn taken(&mut self, party: &Party, line: &AccountLine) {
        note(&mut self.receivers, party);
        widen(&mut self.spans_ns[1], party);
        self.received.add(line.outgoing);
        let held = |level: i64| u64::try_from(level).unwrap_or(0);
        let held = Amount {
            items: held(line.held.items),
            bytes: held(line.held.bytes),
        };
        self.received.add(held);
        self.lost(&line.dropped);
        self.open |= party.verdict.phase != Phase::Ended;
    }

    fn lost(&mut self, dropped: &[DropLine]) {
        for line in dropped {
            match self
                .dropped
                .iter_mut()
                .find(|own| own.reason == line.reason)
            {
                Some(own) => {
                    own.items += line.items;
                    own.items_max += line.items_max;
                    own.bytes_min += line.bytes_min;
                    own.bytes_max += line.bytes_max;
                }
                None => self.dropped.push(line.clone()),
            }
        }
    }

    /// Compares the two ends, where both are here.
    fn settle(mut self) -> Self {
        if self.senders.is_empty() || self.receivers.is_empty() {
            self.unconfirmed = self.unacknowledged;
            return self;
        }
        if let [Some(sent), Some(received)] = self.spans_ns {
            let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
            self.sent_before_s = seconds(sent[0], received[0]);
            self.sent_after_s = seconds(received[1], sent[1]);
        }
        if self.unit == Some(Unit::Packets) {
            // Of packets that were lost nobody knows the bytes.
            (self.sent.bytes, self.received.bytes) = (0, 0);
            self.unacknowledged.bytes = 0;
        }
        let level = Level::default();
        let mut residual = link_residual(self.sent, self.received, &self.dropped, level);
        // What a receiver has in its books and had not acknowledged yet is there, and not missing.
        let take = |left: &mut i128, most: u64| {
            let part = (*left).clamp(0, most.into());
            *left -= part;
            part as u64
        };
        self.unconfirmed = Amount {
            items: take(&mut residual.items, self.unacknowledged.items),
            bytes: take(&mut residual.bytes, self.unacknowledged.bytes),
        };
        let found = |left: &mut i128, most: u64| *left += (-*left).clamp(0, most.into());
        found(&mut residual.items, self.given_up.items);
        found(&mut residual.bytes, self.given_up.bytes);
        self.underway =
            self.open && !residual.is_zero() && may_be_underway(residual, self.bound_items);
        self.unexplained = Some(residual);
        self
    }

    /// Whether it balances. A receiver alone says nothing of what was sent; a sender alone has sent to no party that says so.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self.unexplained {
            Some(residual) => residual.is_zero() || self.underway,
            None => self.senders.is_empty() || self.sent.items == 0,
        }
    }
}

/// The span of all parties at one end.
fn widen(span: &mut Option<[u64; 2]>, party: &Party) {
    let [start, end] = party.span_ns();
    let [first, last] = span.unwrap_or([start, end]);
    *span = Some([first.min(start), last.max(end)]);
}

fn note(names: &mut Vec<String>, party: &Party) {
    if !names.contains(&party.name) {
        names.push(party.name.clone());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;
    use crate::{
        Condition, GroupWriter, LedgerReader, LinkSpec, Lossless, Reason, RunWriter, SchemaBuilder,
        Supervisor, Words, audit, reasons,
    };

    fn party(name: &str, schema: &crate::Schema, words: &Words, condition: Condition) -> Party {
        let run = RunWriter::attach(schema, words, 1).unwrap();
        run.finish(condition, Reason::Requested, 5);
        let snapshot = LedgerReader::open(words).unwrap().snapshot().unwrap();
        let verdict = audit(&snapshot, Supervisor::Gone);
        Party::new(name, &snapshot, verdict)
    }

    /// A sender of one source that sent so many datagrams of 100 bytes to a port.
    fn sender(name: &str, port: u64, sent: u64) -> Party {
        let mut schema = SchemaBuilder::new(name);
        let group = schema.group("generator");
        let (_, account) =
            schema.account::<Lossless>(group, "generator", "source0", Unit::Datagrams);
        let to = schema.gauge(group, DESTINATION_PORT, "source0", "where they go");
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
        let mut book = writer.restore();
        book.set(to, port);
        book.add_tally(account.incoming, sent, sent * 100);
        book.add_tally(account.outgoing, sent, sent * 100);
        writer.commit(&book);
        party(name, &schema, &words, Condition::Ended)
    }

    /// A receiver at a port that got so many, and whose kernel dropped so many.
    fn receiver(port: u64, got: u64, overflowed: u64, condition: Condition) -> Party {
        let mut schema = SchemaBuilder::new("evb");
        let group = schema.group(&format!("receiver.port{port}"));
        let (id, account) = schema.account::<Lossless>(group, "receiver", "north", Unit::Datagrams);
        let drops = schema.kernel_drop(group);
        schema.gauge(group, SOCKET_GAUGE, "north", "room");
        let link = LinkSpec::new("socket", "north").to(id);
        schema.link(
            link.kernel_drops("buffer_full", drops, 0, 1000)
                .bound_items(50),
        );
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
        let mut book = writer.restore();
        book.add_tally(account.incoming, got, got * 100);
        book.add_tally(account.outgoing, got, got * 100);
        book.set(drops, overflowed);
        writer.commit(&book);
        party("evb", &schema, &words, condition)
    }

    #[test]
    fn what_was_sent_is_what_came_and_what_was_lost_by_name() {
        let joined = join(vec![
            sender("emu", 50000, 100),
            receiver(50000, 90, 10, Condition::Ended),
        ]);
        assert!(joined.closed, "{}", joined.sheet());
        let [link] = joined.links.as_slice() else {
            panic!("{joined:?}")
        };
        assert_eq!((link.sent.items, link.received.items), (100, 90));
        assert_eq!(link.dropped[0].items, 10);
    }

    /// Books of run `run` with one account of events of the sink `tcp`: so many came in, and so many were given up as the peer was gone.
    fn events(name: &str, place: &str, run: &str, came: u64, given_up: u64) -> Party {
        let mut schema = SchemaBuilder::new(run);
        let group = schema.group("sink");
        let (_, account) = schema.account::<GivenUp>(group, place, "tcp", Unit::Events);
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
        let mut book = writer.restore();
        book.add_tally(account.incoming, came, came * 100);
        book.add_tally(account.outgoing, came - given_up, (came - given_up) * 100);
        book.add_tally(account.lost(GivenUp::PeerLost), given_up, given_up * 100);
        writer.commit(&book);
        party(name, &schema, &words, Condition::Ended)
    }

    reasons! {
        /// Why a sink gives up.
        enum GivenUp {
            PeerLost = "peer_lost",
        }
    }

    #[test]
    fn a_stream_to_a_mover_is_held_against_the_sink_of_its_run() {
        let unexplained = |sent, given_up, came, run| {
            let joined = join(vec![
                events("evb", "sink", "run-1", sent, given_up),
                events("mover", "mover", run, came, 0),
            ]);
            let mut links = joined.links.iter().filter(|link| link.place == "stream");
            let left = links.next().and_then(|link| link.unexplained);
            (left.map(|left| (left.items, left.bytes)), joined.closed)
        };
        assert_eq!(unexplained(50, 0, 50, "run-1"), (Some((0, 0)), true));
        assert_eq!(unexplained(50, 0, 48, "run-1"), (Some((2, 200)), false));
        assert_eq!(unexplained(50, 0, 51, "run-1"), (Some((-1, -100)), false));
        // What was given up has come, in part or all, or not.
        for came in 40..=50 {
            assert_eq!(unexplained(50, 10, came, "run-1"), (Some((0, 0)), true));
        }
        assert_eq!(unexplained(50, 10, 39, "run-1"), (Some((1, 100)), false));
        assert_eq!(unexplained(50, 10, 51, "run-1"), (Some((-1, -100)), false));
        assert_eq!(unexplained(50, 0, 50, "run-2"), (None, false));
        // Two movers, one after the other.
        let joined = join(vec![
            events("evb", "sink", "run-1", 50, 0),
            events("first", "mover", "run-1", 20, 0),
            events("second", "mover", "run-1", 30, 0),
        ]);
        assert!(joined.closed, "{}", joined.sheet());
    }

    /// Books of a card that has shown so many blocks of a buffer and was not given so many back, with a counter as a card or with an account as a replay.
    fn card(shown: u64, unread: u64, replays: bool) -> Party {
        let mut schema = SchemaBuilder::new("card");
        let group = schema.group(CARD);
        let account = replays.then(|| {
            let account = schema.account::<Lossless>(group, CARD, "dma0", Unit::Blocks);
            account.1
        });
        let counter =
            (!replays).then(|| schema.counter(group, SHOWN_BLOCKS, "dma0", "blocks shown"));
        let fill = schema.gauge(group, UNREAD_BLOCKS, "dma0", "blocks not given back");
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
        let mut book = writer.restore();
        if let Some(account) = account {
            book.add_tally(account.incoming, shown, shown * 4096);
            book.add_tally(account.outgoing, shown, shown * 4096);
        }
        if let Some(counter) = counter {
            book.add(counter, shown);
        }
        book.set(fill, unread);
        writer.commit(&book);
        party("card", &schema, &words, Condition::Ended)
    }

    /// Books of one that read so many blocks of a card's buffer.
    fn reader(read: u64) -> Party {
        let mut schema = SchemaBuilder::new("tohost");
        let group = schema.group("dma0");
        let (_, account) = schema.account::<Lossless>(group, DMA, "dma0", Unit::Blocks);
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let mut writer = GroupWriter::attach(&schema, &words, group).unwrap();
        let mut book = writer.restore();
        book.add_tally(account.incoming, read, read * 4096);
        book.add_tally(account.outgoing, read, read * 4096);
        writer.commit(&book);
        party("tohost", &schema, &words, Condition::Ended)
    }

    #[test]
    fn a_card_is_held_against_the_reader_of_its_memory() {
        for replays in [false, true] {
            for (shown, unread, read, left) in [
                (100, 0, 100, 0),
                (100, 0, 99, 1),
                (100, 0, 101, -1),
                // What was not given back was read, or not.
                (100, 7, 100, 0),
                (100, 7, 93, 0),
                (100, 7, 92, 1),
                (100, 7, 101, -1),
            ] {
                let joined = join(vec![card(shown, unread, replays), reader(read)]);
                let [link] = joined.links.as_slice() else {
                    panic!("{joined:?}")
                };
                let told = (link.place.as_str(), link.sent.items, link.received.items);
                assert_eq!(told, (DMA, shown, read));
                let unexplained = link.unexplained.unwrap();
                assert_eq!((unexplained.items, unexplained.bytes), (left, 0));
                assert_eq!(joined.closed, left == 0, "{}", joined.sheet());
            }
            // Its reader's books are elsewhere.
            assert!(!join(vec![card(100, 0, replays)]).closed);
            let apart = Meets {
                by_memory: false,
                ..Meets::default()
            };
            let parties = vec![card(100, 0, replays).meeting(apart), reader(9)];
            assert!(join(parties).of_chain().links.is_empty());
        }
    }

    #[test]
    fn what_is_left_over_between_members_of_a_chain_at_work_is_under_way() {
        for (condition, closed) in [(Condition::Running, true), (Condition::Ended, false)] {
            let receiver = receiver(50000, 90, 0, condition);
            let sender = sender("emu", 50000, 1000);
            assert!(!join(vec![sender.clone(), receiver.clone()]).closed);
            let joined = join(vec![sender, receiver]).of_chain();
            assert_eq!(joined.links[0].underway, closed, "{condition:?}");
        }
    }

    #[test]
    fn what_nobody_explains_is_told_exactly() {
        let joined = join(vec![
            sender("emu", 50000, 100),
            receiver(50000, 90, 3, Condition::Ended),
        ]);
        assert!(!joined.closed);
        let unexplained = joined.links[0].unexplained.unwrap();
        assert_eq!(unexplained.items, 7);
        let sheet = joined.sheet();
        assert!(sheet.contains("socket port 50000: 7 datagrams"), "{sheet}");
        // Of more that came than was sent, too.
        let joined = join(vec![
            sender("emu", 50000, 80),
            receiver(50000, 90, 0, Condition::Ended),
        ]);
        assert!(!joined.closed);
        assert_eq!(joined.links[0].unexplained.unwrap().items, -10);
    }

    #[test]
    fn several_senders_to_one_port_add_up() {
        let joined = join(vec![
            sender("one", 50000, 60),
            sender("two", 50000, 40),
            receiver(50000, 100, 0, Condition::Ended),
        ]);
        assert!(joined.closed, "{}", joined.sheet());
        assert_eq!(joined.links[0].senders, ["one", "two"]);
    }

    #[test]
    fn books_that_have_no_link_in_common_do_not_balance() {
        let joined = join(vec![
            sender("emu", 50000, 100),
            receiver(50001, 0, 0, Condition::Ended),
        ]);
        assert!(!joined.closed);
        let sheet = joined.sheet();
        assert!(
            sheet.contains("nobody's books here say what came of it"),
            "{sheet}"
        );
        let alone = join(vec![receiver(50001, 0, 0, Condition::Ended)]);
        assert!(!alone.closed, "{}", alone.sheet());
    }

    #[test]
    fn what_was_on_its_way_to_one_that_was_killed_is_bounded() {
        let killed = Condition::Interrupted;
        let joined = join(vec![
            sender("emu", 50000, 100),
            receiver(50000, 60, 0, killed),
        ]);
        assert!(
            joined.closed && joined.links[0].underway,
            "{}",
            joined.sheet()
        );
        let joined = join(vec![
            sender("emu", 50000, 200),
            receiver(50000, 60, 0, killed),
        ]);
        assert!(!joined.closed, "{}", joined.sheet());
    }
}
