//! The ledger of an end point.
//!
//! ```text
//! caller ─▶ publish ─▶ send (one account per place of a connection) ─▶ link … link ─▶ receive (the same) ─▶ deliver ─▶ caller
//! ```
//!
//! `publish` counts messages by what their caller is told of them, each as often as its tag is wanted, and the copies that connections took or dropped where
//! they did so; what nobody wants is the engine's count.
//! `send` is the engine's count, and what of it is confirmed is its peers'. `receive` has what the engine found in the buffers, and what was given on from
//! there, counted where it is given on. `deliver` counts what is on its way to the caller, and what the caller was called with beside the call. A caller
//! that gathers says itself what it took and what it threw away; what is held goes down with the list of messages that it has not accounted for.
//!
//! What a peer says that it sent has one observer, its own totals: what never came (`gap`) and what could not be read (`broken`) are inferred from
//! them. They stand in `told`, which is not balanced. Nor is `answers`: of an answer that is given up, its caller alone knows.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_ledger::{
    Account, Book, Condition, GroupId, GroupWriter, Leak, LedgerReader, LinkSpec, Reason, Schema,
    SchemaBuilder, Taint, Tally, Unit, Verdict, reasons,
};
use forebay_msg::Pushed;
use forebay_run::error::RunError;
use forebay_run::record::Envelope;
use forebay_run::removed::{Removed, RemovedWords};
use forebay_run::run_dir::KeptLedger;
use forebay_sys::clock;

use crate::buffers::Outbound;
use crate::counts::Counts;
use crate::sender::Sent;
use crate::settings::Settings;
use crate::summary::NetRecord;
use crate::tags::{TagSummary, Tags};

reasons! {
    /// Why a connection loses messages that go out.
    pub(crate) enum SendDrop {
        /// Its policy for slow receivers.
        SlowReceiver = "slow_receiver",
        /// The connection was lost.
        ConnectionLost = "connection_lost",
        /// The peer takes none of that length.
        TooLong = "too_long",
    }
}

reasons! {
    /// What a peer says of itself and never came, or could not be read.
    pub(crate) enum ToldDrop {
        /// It never came.
        Gap = "gap",
        /// It could not be read.
        Broken = "broken",
    }
}

reasons! {
    /// Of the account in front.
    pub(crate) enum PublishDrop {
        /// Nobody wants it.
        NoSubscriber = forebay_ledger::NO_SUBSCRIBER,
    }
}

reasons! {
    /// What its caller alone knows.
    pub(crate) enum AnswerDrop {
        /// It was given up before a connection had it.
        NotAnswered = "not_answered",
    }
}

/// Books are shown so often, in ns.
const COMMIT_NS: u64 = 100_000_000;

reasons! {
    /// Why a caller that [gathers](Settings::gathers) threw away what was delivered to it.
    pub enum Untaken {
        /// It had enough, or the reader of its output has gone.
        NotWanted = "not_wanted",
        /// It could not be written to where it belongs.
        NotWritten = "not_written",
    }
}

/// Accounts of one place.
struct Slot {
    send: Account<SendDrop>,
    /// What the peer said of what was sent.
    confirmed: Tally,
    receive: Account,
    /// What the peer says that it sent.
    told: Account<ToldDrop>,
}

/// The books and where they lie.
pub(super) struct Books {
    ledger: KeptLedger,
    group: GroupWriter,
    book: Book,
    slots: Vec<Slot>,
    publish: Account<PublishDrop>,
    answers: Account<AnswerDrop>,
    deliver: Account<Untaken>,
    removed: RemovedWords,
    next_commit_ns: u64,
    tags: Tags,
    /// The fault switch of the tests: where it says, a message vanishes without being counted.
    leak: Leak,
}

/// What is declared, but for the schema itself.
struct Declared {
    group: GroupId,
    slots: Vec<Slot>,
    publish: Account<PublishDrop>,
    answers: Account<AnswerDrop>,
    deliver: Account<Untaken>,
    removed: RemovedWords,
}

impl std::fmt::Debug for Books {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Books")
            .field("ledger", &self.ledger)
            .finish_non_exhaustive()
    }
}

fn declare(run_id: &str, places: usize) -> Result<(Schema, Declared), RunError> {
    let mut builder = SchemaBuilder::new(run_id);
    builder.program("net");
    let group = builder.group("end_point");
    let unit = Unit::Messages;
    let (published, publish) = builder.account(group, "publish", "all", unit);
    let (_, answers) = builder.unbalanced_account(group, "answers", "all", unit);
    let (delivered, deliver) = builder.account(group, "deliver", "all", unit);
    let removed = RemovedWords::declare(&mut builder, group, "", &["messages"]);
    let mut copies = LinkSpec::new("copies", "all").from(published);
    let mut read = LinkSpec::new("read", "all").to(delivered);
    let mut slots = Vec::with_capacity(places);
    for place in 0..places {
        let owner = format!("connection{place}");
        let (sent, send) = builder.account(group, "send", &owner, unit);
        let (received, receive) = builder.account(group, "receive", &owner, unit);
        let (_, told) = builder.unbalanced_account(group, "told", &owner, unit);
        builder.headline(sent);
        builder.headline(received);
        copies = copies.to(sent);
        let confirmed = builder.confirmed(sent);
        read = read.from(received);
        slots.push(Slot {
            send,
            confirmed,
            receive,
            told,
        });
    }
    builder.link(copies);
    builder.link(read);
    let declared = Declared {
        group,
        slots,
        publish,
        answers,
        deliver,
        removed,
    };
    Ok((builder.finish()?, declared))
}

/// No other end point has it, in this process or in another one that lives.
fn run_id(role: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    run_id_of(
        role,
        std::process::id(),
        MADE.fetch_add(1, Ordering::Relaxed),
    )
}

/// The id of an end point of process `pid` in which so many were made before it.
fn run_id_of(role: &str, pid: u32, before: u64) -> String {
    match before {
        0 => format!("net-{role}-{pid}"),
        _ => format!("net-{role}-{pid}.{before}"),
    }
}

impl Books {
    /// Books for so many connections at a time; in the run directory `out`, or nowhere but here.
    pub(super) fn open(role: &str, places: usize, settings: &Settings) -> Result<Self, RunError> {
        let run_id = run_id(role);
        let (schema, declared) = declare(&run_id, places)?;
        let out = settings.out.as_deref();
        let mut warn = |warning: &str| tracing::warn!("{warning}");
        let ledger = KeptLedger::open(&schema, &run_id, out, places, &mut warn)?;
        let group = GroupWriter::attach(&schema, ledger.words(), declared.group)?;
        Ok(Self {
            book: group.restore(),
            ledger,
            group,
            slots: declared.slots,
            publish: declared.publish,
            answers: declared.answers,
            deliver: declared.deliver,
            removed: declared.removed,
            next_commit_ns: 0,
            tags: Tags::new(settings.per_tag),
            leak: settings.leak.clone(),
        })
    }

    /// Adds what a connection has counted since `before`.
    pub(super) fn settle(&mut self, slot: usize, before: &Counts, now: &Counts) {
        let Some(slot) = self.slots.get(slot) else {
            return;
        };
        let Slot {
            send,
            receive,
            told,
            ..
        } = slot;
        let book = &mut self.book;
        let terms = [
            (send.incoming, before.pushed, now.pushed),
            (send.outgoing, before.sent, now.sent),
            (slot.confirmed, before.confirmed, now.confirmed),
            (send.lost(SendDrop::SlowReceiver), before.slow, now.slow),
            (send.lost(SendDrop::ConnectionLost), before.lost, now.lost),
            (send.lost(SendDrop::TooLong), before.too_long, now.too_long),
            (receive.incoming, before.read, now.read),
            (receive.outgoing, before.handed, now.handed),
            (told.incoming, before.told, now.told),
            (told.outgoing, before.read, now.read),
            (told.lost(ToldDrop::Gap), before.gap, now.gap),
            (told.lost(ToldDrop::Broken), before.broken, now.broken),
        ];
        for (tally, before, now) in terms {
            book.add_tally(tally, now[0] - before[0], now[1] - before[1]);
        }
        // In buffers: goes up and down.
        let (held, was, is) = (send.held, before.held, now.held);
        book.add_tally(held, is[0], is[1]);
        book.sub_tally(held, was[0], was[1]);
    }

    /// Whether a message shall vanish at `hop` without a trace.
    #[inline]
    pub(super) fn leaks(&mut self, hop: &str) -> bool {
        self.leak.take(hop)
    }

    /// For tests of the books: whether a message vanishes before, between or in the two accounts that it comes into.
    #[inline]
    pub(super) fn vanishes(&mut self, to: &mut Outbound, tag: u64, bytes: usize) -> bool {
        if !self.leak.is_armed() {
            return false;
        }
        let hops = ["publish", "copies", "send"];
        let Some(hop) = hops.into_iter().find(|hop| self.leaks(hop)) else {
            return false;
        };
        if hop != "publish" {
            self.copied(tag, 1, bytes as u64);
        }
        if hop == "send" {
            to.vanish(bytes);
        }
        true
    }

    /// A message of so many bytes was handed in for one connection, whose caller is told that; it is not if he has to hand it in again.
    #[inline]
    pub(super) fn told(&mut self, sent: Sent, bytes: usize) -> Sent {
        if sent != Sent::NotNow {
            self.handed_in(1, bytes as u64);
        }
        sent
    }

    /// A message of so many bytes was handed in, for so many connections; for one where nobody wants it.
    #[inline]
    pub(super) fn handed_in(&mut self, copies: u64, bytes: u64) {
        self.book
            .add_tally(self.publish.incoming, copies, bytes * copies);
    }

    /// So many connections have a message of a tag and of so many bytes in their books.
    #[inline]
    pub(super) fn copied(&mut self, tag: u64, copies: u64, bytes: u64) {
        self.tags.count(tag, copies, bytes);
        self.book
            .add_tally(self.publish.outgoing, copies, bytes * copies);
    }

    /// What a connection did with a message that was to be pushed into it; none for one that is too long, which is not counted.
    #[inline]
    pub(super) fn pushed(&mut self, pushed: Pushed, tag: u64, bytes: u64) -> Option<Sent> {
        let sent = match pushed {
            Pushed::TooLong => return None,
            Pushed::Wait => return Some(Sent::NotNow),
            Pushed::Taken => Sent::Taken,
            Pushed::Dropped | Pushed::GivenUp => Sent::Dropped,
        };
        self.copied(tag, 1, bytes);
        Some(sent)
    }

    /// So many messages and bytes were wanted by nobody, as the engine has counted.
    #[inline]
    pub(super) fn unheard(&mut self, [messages, bytes]: [u64; 2]) {
        self.book.add_tally(
            self.publish.lost(PublishDrop::NoSubscriber),
            messages,
            bytes,
        );
    }

    /// An answer is given up before a connection has it.
    pub(super) fn given_up(&mut self, bytes: u64) {
        self.book.add_tally(self.answers.incoming, 1, bytes);
        self.book
            .add_tally(self.answers.lost(AnswerDrop::NotAnswered), 1, bytes);
    }

    /// A message is on its way to the caller.
    #[inline]
    pub(super) fn arrived(&mut self, tag: u64, bytes: u64) {
        self.tags.count(tag, 1, bytes);
        self.book.add_tally(self.deliver.incoming, 1, bytes);
    }

    /// The caller was called with so many messages and bytes: he has them, and will say what became of them if he gathers.
    #[inline]
    pub(super) fn delivered(&mut self, [messages, bytes]: [u64; 2], gathers: bool) {
        let term = if gathers {
            self.deliver.held
        } else {
            self.deliver.outgoing
        };
        self.book.add_tally(term, messages, bytes);
    }

    /// The caller takes nothing more.
    pub(super) fn declined(&mut self, bytes: u64) {
        let dropped = self.deliver.lost(Untaken::NotWanted);
        self.book.add_tally(dropped, 1, bytes);
    }

    /// So many messages that were gathered have taken effect, as the caller says.
    pub(super) fn taken(&mut self, messages: u64, bytes: u64) {
        self.book.add_tally(self.deliver.outgoing, messages, bytes);
    }

    /// So many messages that were gathered were thrown away, as the caller says.
    pub(super) fn untaken(&mut self, why: Untaken, messages: u64, bytes: u64) {
        let dropped = self.deliver.lost(why);
        self.book.add_tally(dropped, messages, bytes);
    }

    /// So many messages have left the list of those that the caller has not accounted for.
    pub(super) fn released(&mut self, messages: u64, bytes: u64) {
        self.book.sub_tally(self.deliver.held, messages, bytes);
    }

    /// Somebody removed or cut so many files, and so many messages that were taken went with them.
    pub(super) fn removed(&mut self, files: u64, messages: u64, bytes: u64) {
        self.removed
            .add(&mut self.book, (files, bytes), (0, messages));
    }

    /// What was counted by tag, if that was asked for.
    pub(super) fn tags(&mut self) -> Option<Vec<TagSummary>> {
        self.tags.take()
    }

    /// Whether it is time to show them.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_commit_ns
    }

    pub(super) fn next_commit_ns(&self) -> u64 {
        self.next_commit_ns
    }

    /// Shows them.
    pub(super) fn commit(&mut self, now_ns: u64) {
        self.group.commit(&self.book);
        self.ledger.heartbeat();
        self.next_commit_ns = now_ns + COMMIT_NS;
    }

    /// For code that shows them.
    pub(super) fn reader(&self) -> Result<LedgerReader, RunError> {
        self.ledger.reader()
    }

    /// What the audit will say of the books, as they were last shown, when they are [closed](Self::close).
    pub(super) fn verdict_at_end(&self) -> Result<Verdict, RunError> {
        self.ledger.verdict_at_end()
    }

    /// What of the caller's files is gone, as the books were last shown.
    pub(super) fn removed_output(&self) -> Result<Removed, RunError> {
        Ok(Removed::of(&self.ledger.reader()?.snapshot()?))
    }

    /// Closes them.
    pub(super) fn close(&mut self, taints: Vec<Taint>) -> Result<Envelope, RunError> {
        self.commit(clock::monotonic_ns());
        let ended = self
            .ledger
            .end(Condition::Ended, Reason::Requested, taints)?;
        Ok(ended.1)
    }

    /// Leaves the ledger and the record in the run's directory, if there is one.
    pub(super) fn keep(&mut self, record: &mut NetRecord) -> Result<(), RunError> {
        self.ledger.keep(record)
    }
}

#[cfg(test)]
mod page {
    use super::*;

    #[test]
    fn the_page_of_accounts_has_this_ledger() {
        let (schema, _) = declare("net-peer-1", 2).unwrap();
        forebay_testing::accounts::assert_section("messaging", &[schema.outline()]);
    }
}

#[cfg(test)]
#[path = "books_tests.rs"]
mod tests;
