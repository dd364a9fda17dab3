//! A builder with its queues, its ledger and a bounded output, all in memory.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what must not be"
)]

pub(crate) mod arena;
pub(crate) mod check;
pub(crate) mod sink;
pub(crate) mod world;

use arena::{Arena, append};
use check::Check;
use forebay_evb::{
    Accounts, Builder, Config, Dropped, LostRange, Message, Poll, TriggerGap, declare,
};
use forebay_ledger::{GroupWriter, RunWriter, Schema, SchemaBuilder, Words};
use forebay_wire::subevent::SubEventRepr;
use sink::Sink;

/// One sub-event to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sub {
    pub(crate) trigger: u32,
    pub(crate) tag: u8,
    /// With its header of 16 bytes.
    pub(crate) bytes: u32,
    pub(crate) data_error: bool,
}

/// A sub-event of 40 bytes with the tag that all sources give this trigger.
pub(crate) fn sub(trigger: u32) -> Sub {
    Sub {
        trigger,
        tag: trigger.wrapping_mul(73) as u8,
        bytes: 40,
        data_error: false,
    }
}

/// Sub-events for a range of triggers.
pub(crate) fn subs(triggers: std::ops::Range<u32>) -> Vec<Sub> {
    triggers.map(sub).collect()
}

pub(crate) const MS: u64 = 1_000_000;
/// Room of the output in bytes, unless a test says otherwise: small, so that it fills often.
const ROOM_BYTES: usize = 64 << 10;
/// Polls in a row that may drop without anything being built before a test gives up.
const POLLS_MAX: usize = 10_000_000;

pub(crate) struct Rig {
    pub(crate) config: Config,
    pub(crate) arena: Arena,
    pub(crate) sink: Sink,
    pub(crate) builder: Builder,
    pub(crate) now_ns: u64,
    pub(crate) lost: Vec<LostRange>,
    lost_committed: usize,
    pub(crate) gaps: Vec<TriggerGap>,
    gaps_committed: usize,
    /// All messages so far, by source.
    messages: Vec<Vec<Message>>,
    schema: Schema,
    words: Words,
    accounts: Accounts,
    writer: GroupWriter,
    serial: u64,
    /// Payloads begin with numbers that no other sub-event has.
    pub(crate) serials: bool,
    closed: Vec<bool>,
    /// What the receiver dropped of each source since its last message, and in all.
    unsaid: Vec<Dropped>,
    pub(crate) dropped: Vec<u64>,
}

impl Rig {
    pub(crate) fn new(config: Config) -> Self {
        let n = config.sources;
        let owners: Vec<String> = (0..n).map(|source| format!("source{source}")).collect();
        let mut schema = SchemaBuilder::new("test");
        let accounts = declare(&mut schema, &owners);
        let schema = schema.finish().unwrap();
        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let writer = GroupWriter::attach(&schema, &words, accounts.group).unwrap();
        let builder = Builder::new(config.clone(), accounts.clone(), writer.restore()).unwrap();
        Self {
            arena: Arena::new(n),
            sink: Sink::new(ROOM_BYTES),
            builder,
            now_ns: 0,
            lost: Vec::new(),
            lost_committed: 0,
            gaps: Vec::new(),
            gaps_committed: 0,
            messages: vec![Vec::new(); n],
            schema,
            words,
            accounts,
            writer,
            serial: 0,
            serials: true,
            closed: vec![false; n],
            unsaid: vec![Dropped::default(); n],
            dropped: vec![0; n],
            config,
        }
    }

    /// Sends one message of `source`.
    pub(crate) fn send(&mut self, source: usize, subs: &[Sub]) {
        let mut body = Vec::new();
        for sub in subs {
            self.append(&mut body, source, sub);
        }
        self.send_raw(source, &body, subs.len() as u32);
    }

    /// Sends the same message of every source.
    pub(crate) fn send_all(&mut self, subs: &[Sub]) {
        (0..self.config.sources).for_each(|source| self.send(source, subs));
    }

    /// Puts a sub-event behind `body`; its payload begins with a number that no other one has.
    pub(crate) fn append(&mut self, body: &mut Vec<u8>, source: usize, sub: &Sub) {
        let repr = SubEventRepr {
            id: 0x8000 + source as u32 + (u32::from(sub.data_error) << 31),
            trigger_word: sub.trigger << 8 | u32::from(sub.tag),
            ..SubEventRepr::default()
        };
        let start = body.len() + 16;
        append(body, &repr, sub.bytes, 0x5a);
        if let Some(place) = body.get_mut(start..start + 8) {
            self.serial += 1;
            place.copy_from_slice(&self.serial.to_be_bytes());
        }
    }

    /// The receiver drops so many sub-events of `source` whose numbers it does not know, which its next message says.
    pub(crate) fn drop_before(&mut self, source: usize, items: u32) {
        self.unsaid[source].add_unnumbered(items.into());
        self.dropped[source] += u64::from(items);
    }

    /// The receiver drops this sub-event of `source`: a note before its next message says its number.
    pub(crate) fn drop_sub(&mut self, source: usize, sub: &Sub) {
        let mut body = Vec::new();
        self.append(&mut body, source, sub);
        self.unsaid[source].append(&Dropped::of(&body));
        self.dropped[source] += 1;
    }

    /// What the receiver says at the end of a run, or when it has time to.
    pub(crate) fn say_dropped(&mut self, source: usize) {
        while let Some(run) = self.unsaid[source].take_run() {
            let note = Message {
                dropped: run.items,
                numbers: Some(run),
                ..self.arena.push(source, &[], 0, 0)
            };
            self.hand_in(source, note);
        }
    }

    /// Sends bytes that need not be sub-events.
    pub(crate) fn send_raw(&mut self, source: usize, body: &[u8], items: u32) {
        self.say_dropped(source);
        let message = Message {
            dropped: self.unsaid[source].take_unnumbered(),
            ..self.arena.push(source, body, items, self.now_ns + 1)
        };
        self.hand_in(source, message);
    }

    fn hand_in(&mut self, source: usize, message: Message) {
        self.messages[source].push(message);
        let now_ns = self.now_ns;
        self.builder
            .handle_message(now_ns, source, message, &self.arena);
    }

    /// Builds all that can be built now.
    pub(crate) fn poll(&mut self) {
        for _ in 0..POLLS_MAX {
            match self.builder.poll(self.now_ns, &self.arena, &mut self.sink) {
                Poll::Built | Poll::Dropped => {}
                Poll::Full => self.sink.drain(),
                Poll::Idle => return,
            }
        }
        panic!("the builder never came to rest");
    }

    /// One step only; what it did.
    pub(crate) fn poll_once(&mut self) -> Poll {
        let poll = self.builder.poll(self.now_ns, &self.arena, &mut self.sink);
        if poll == Poll::Full {
            self.sink.drain();
        }
        poll
    }

    pub(crate) fn send_and_poll(&mut self, source: usize, subs: &[Sub]) {
        self.send(source, subs);
        self.poll();
    }

    /// Lets time pass, waking the builder when it asks to be woken.
    pub(crate) fn pass(&mut self, ns: u64) {
        let end = self.now_ns + ns;
        self.poll();
        while let Some(wake) = self.builder.poll_timeout().filter(|wake| *wake <= end) {
            assert!(wake > self.now_ns, "woken at {wake}, now {}", self.now_ns);
            self.now_ns = wake;
            self.poll();
        }
        self.now_ns = end;
        self.poll();
    }

    pub(crate) fn close(&mut self, source: usize) {
        self.closed[source] = true;
        self.builder.handle_close(source);
    }

    /// Commits as the builder stage does: losses, output, book, then the queues.
    pub(crate) fn commit(&mut self) {
        while let Some(range) = self.builder.poll_loss() {
            self.lost.push(range);
        }
        self.lost_committed = self.lost.len();
        while let Some(gap) = self.builder.poll_gap() {
            self.gaps.push(gap);
        }
        self.gaps_committed = self.gaps.len();
        self.sink.commit_all();
        let book = self.builder.save();
        self.writer.commit(book);
        for source in 0..self.config.sources {
            self.arena.free(source, self.builder.released(source));
        }
    }

    /// Kills the builder: a new one goes on from the last commit and what is not released.
    pub(crate) fn restart(&mut self) {
        self.restart_with(|_| {});
    }

    /// The same with messages that are no longer what they were.
    pub(crate) fn restart_with(&mut self, spoil: impl Fn(&mut Message)) {
        self.rebuild();
        for source in 0..self.config.sources {
            for mut message in self.unreleased(source) {
                spoil(&mut message);
                let now_ns = self.now_ns;
                self.builder
                    .handle_message(now_ns, source, message, &self.arena);
            }
        }
    }

    /// The same with events built between any two messages.
    pub(crate) fn restart_slowly(&mut self) {
        self.rebuild();
        for source in 0..self.config.sources {
            for message in self.unreleased(source) {
                let now_ns = self.now_ns;
                self.builder
                    .handle_message(now_ns, source, message, &self.arena);
                self.poll();
            }
        }
    }

    /// The same with queues that show nothing.
    pub(crate) fn restart_with_nothing(&mut self) {
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.sink.roll_back();
        self.lost.truncate(self.lost_committed);
        self.gaps.truncate(self.gaps_committed);
        let book = self.writer.restore();
        self.builder = Builder::new(self.config.clone(), self.accounts.clone(), book).unwrap();
        let closed = (0..self.config.sources).filter(|source| self.closed[*source]);
        closed.for_each(|source| self.builder.handle_close(source));
    }

    fn unreleased(&self, source: usize) -> Vec<Message> {
        let released = self.builder.released(source);
        let messages = self.messages[source].iter().copied();
        messages.filter(|message| message.end > released).collect()
    }

    /// Ends the run: all sources close, nothing may remain. Checks everything and gives it.
    pub(crate) fn finish(mut self) -> Check {
        self.come_to_an_end();
        Check::new(&self)
    }

    /// The same when what was sent need not be sound.
    pub(crate) fn finish_hostile(mut self) -> Check {
        self.come_to_an_end();
        Check::hostile(&self)
    }

    fn come_to_an_end(&mut self) {
        (0..self.config.sources).for_each(|source| self.close(source));
        self.poll();
        for source in 0..self.config.sources {
            assert_eq!(self.builder.held(source), 0, "source {source} still holds");
        }
        assert_eq!(self.builder.poll_timeout(), None, "nothing to wait for");
        self.builder.finish();
        self.commit();
    }

    /// Checks everything as it is now.
    pub(crate) fn check(&mut self) -> Check {
        self.builder.finish();
        self.commit();
        Check::new(self)
    }

    /// A committed value of the ledger.
    pub(crate) fn book(&self) -> (forebay_ledger::Book, &Accounts) {
        (self.writer.restore(), &self.accounts)
    }

    /// Messages and bytes that were handed in.
    pub(crate) fn sent(&self, source: usize) -> (u64, u64) {
        let messages = &self.messages[source];
        let items = messages
            .iter()
            .map(|message| u64::from(message.items))
            .sum();
        (
            items,
            messages.iter().map(|message| u64::from(message.len)).sum(),
        )
    }

    pub(crate) fn schema(&self) -> (&Schema, &Words) {
        (&self.schema, &self.words)
    }
}
