//! To-flx: messages from the network into the from-host buffers of cards.
//!
//! A message's tag is a 64-bit fid: detector and connector name the card, link and number the E-link, and the bit of the direction says that it goes to the front end.
//! Stream and protocol are not looked at. A message goes into its card's ring whole or not at all, so that a to-flx which is killed leaves no half of one there.
//!
//! A ring without room holds up what comes: it is put aside, nothing more is read, and senders run out of credit. What is for a card that is not there is lost by name, and
//! holds nobody up.

mod books;
mod card;
mod summary;

use std::time::{Duration, Instant};

use forebay_ledger::{Condition, Reason};
use forebay_run::record::Record;
use forebay_run::{Host, Stop, System};
use forebay_run_net::{Address, Delivered, NetRecord, Receiver, Settings};
use forebay_sys::clock;
use forebay_wire::felix::Fid;

use crate::config::ToFlxSettings;
use crate::device::DeviceError;
use crate::error::ReadoutError;
use crate::hops::TOFLX;
use books::{Books, Unrouted, Unwritten};
use card::Card;
pub use card::CardTarget;
pub use summary::{ToFlxCardSummary, ToFlxSummary};

/// Longest wait for messages: so long after its end a card that was killed is noticed.
const WAIT: Duration = Duration::from_millis(20);
/// Longest wait for room in a ring, before senders are told that somebody is there.
const ROOM_WAIT: Duration = Duration::from_millis(5);
/// Cards are looked after so often, in ns.
const TEND_NS: u64 = 2_000_000;
/// Detector, connector, link, E-link and direction of a fid, and its version; not stream and protocol.
const ROUTED_BITS: u64 = !0x7fff;

/// What to-flx does.
#[derive(Clone, Debug)]
pub struct ToFlxPlan {
    /// The section of the whole.
    pub said: ToFlxSettings,
    /// The cards.
    pub cards: Vec<CardTarget>,
    /// Where senders connect.
    pub address: Address,
    /// How.
    pub settings: Settings,
}

impl ToFlxPlan {
    fn card_wait(&self) -> Duration {
        Duration::from_secs(self.said.card_wait_s)
    }
}

/// To-flx at work.
struct ToFlx<'a> {
    plan: &'a ToFlxPlan,
    cards: Vec<Card>,
    books: Books,
    came: [u64; 2],
    /// As much of it was acknowledged.
    acknowledged: [u64; 2],
    held_up_ns: u64,
    tended_ns: u64,
}

/// Opens the cards and writes what comes, until the cards end.
impl System for ToFlxPlan {
    const HOPS: &'static [&'static str] = TOFLX;
    type Summary = ToFlxSummary;
    type Error = ReadoutError;

    fn run(mut self, host: &Host) -> Result<Record<ToFlxSummary>, ReadoutError> {
        self.settings.leak = host.leak.clone();
        self.settings.stop = Some(host.stop.clone());
        write_out(&self, host)
    }
}

fn write_out(plan: &ToFlxPlan, host: &Host) -> Result<Record<ToFlxSummary>, ReadoutError> {
    let stop = &host.stop;
    let directory = Some(plan.said.directory.as_path());
    let mut warn = |warning: &str| host.warn(warning);
    let mut books = Books::open(directory, plan.cards.len(), host.leak.clone(), &mut warn)?;
    let shown = books.ledger.page(plan.said.metrics)?;
    let cards = plan.cards.iter().cloned().enumerate();
    let cards = cards.map(|(number, card)| Card::new(number, card, plan.said.message_bytes_max));
    let cards: Vec<Card> = cards.collect();
    for (number, card) in cards.iter().enumerate() {
        let (elinks, owner) = (card.by_elink(), format!("card{number}"));
        shown.add_table(move || elinks.families(&owner));
    }
    let mut toflx = ToFlx {
        plan,
        cards,
        books,
        came: [0; 2],
        acknowledged: [0; 2],
        held_up_ns: 0,
        tended_ns: 0,
    };
    toflx.open(stop)?;
    let mut settings = plan.settings.clone();
    settings.gathers = true;
    settings.shown = Some(shown.labelled("receiver", "toflx"));
    let mut receiver = Receiver::listen(&plan.address, &settings)?;
    host.say(format_args!(
        "messages are taken at {}",
        receiver.address()?
    ));
    if let Some(seconds) = plan.said.duration_s {
        stop.end_after(Duration::from_secs(seconds));
    }
    let over = || stop.is_asked();
    let worked = toflx.work(&mut receiver, &over);
    let ended = worked.and(toflx.finish(receiver, stop, &mut warn));
    toflx.conclude(ended, stop.reason())
}

impl ToFlx<'_> {
    /// Opens every card, waiting for those that are not there yet.
    fn open(&mut self, stop: &Stop) -> Result<(), ReadoutError> {
        let begun = Instant::now();
        self.cards.iter_mut().for_each(Card::ask);
        while !self.cards.iter().all(Card::is_here) {
            for card in &mut self.cards {
                card.tend(&mut self.books);
            }
            let stops = stop.is_asked();
            let gives_up = stops || begun.elapsed() >= self.plan.card_wait();
            for card in &mut self.cards {
                if (gives_up || !card.may_come())
                    && let Some(failed) = card.take_failure()
                {
                    return Err(failed.into());
                }
            }
            // One that is asked and says nothing has not failed yet, and nobody wants to know any more.
            let silent = self.cards.iter().find(|card| !card.is_here());
            if let Some(silent) = silent.filter(|_| stops) {
                let path = silent.socket().to_path_buf();
                let waited = begun.elapsed();
                return Err(DeviceError::Left { path, waited }.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.books.commit();
        Ok(())
    }

    fn work(
        &mut self,
        receiver: &mut Receiver,
        over: &dyn Fn() -> bool,
    ) -> Result<(), ReadoutError> {
        while !over() {
            self.turn(receiver)?;
            let wait = self.plan.card_wait();
            if self.cards.iter().all(|card| card.is_over(wait)) {
                break;
            }
        }
        Ok(())
    }

    /// Reads what comes; or, while a ring has no room for what has come, waits for that.
    fn turn(&mut self, receiver: &mut Receiver) -> Result<(), ReadoutError> {
        if self.cards.iter().any(Card::waits) {
            self.wait_for_room(receiver)?;
        } else {
            let most = if self.cards.iter().any(|card| card.in_ring() > 0) {
                ROOM_WAIT
            } else {
                WAIT
            };
            receiver.poll(most, |delivered| self.take(&delivered))?;
        }
        self.pass_on();
        self.acknowledge(receiver);
        Ok(())
    }

    /// What came is in rings and books, or lost by name, unless some of it waits for room: senders are told of no part of it before.
    fn acknowledge(&mut self, receiver: &mut Receiver) {
        if self.cards.iter().any(Card::waits) {
            return;
        }
        let [messages, bytes] = self.came;
        let [before, before_bytes] = std::mem::replace(&mut self.acknowledged, self.came);
        receiver
            .acknowledge()
            .taken(messages - before, bytes - before_bytes);
    }

    fn wait_for_room(&mut self, receiver: &mut Receiver) -> Result<(), ReadoutError> {
        let begun_ns = clock::monotonic_ns();
        receiver.stay()?;
        if let Some(card) = self.cards.iter_mut().find(|card| card.waits()) {
            // A card that writes what cannot be is found out when it is tended.
            let _ = card.wait(ROOM_WAIT);
        }
        let ns = clock::monotonic_ns() - begun_ns;
        self.held_up_ns += ns;
        self.books.held_up(ns);
        Ok(())
    }

    /// Into rings what has room there, into the books what was done, and then to the cards.
    fn pass_on(&mut self) {
        let now_ns = clock::monotonic_ns();
        let tends = now_ns >= self.tended_ns + TEND_NS;
        for card in &mut self.cards {
            card.see(&mut self.books);
            card.drain(&mut self.books);
            if tends {
                card.tend(&mut self.books);
            }
        }
        self.books.commit();
        self.cards.iter_mut().for_each(Card::show);
        if tends {
            self.tended_ns = now_ns;
            self.books.ledger.heartbeat();
        }
    }

    /// A message has come.
    fn take(&mut self, delivered: &Delivered<'_>) {
        let message = &delivered.message;
        let bytes = message.payload.len() as u64;
        self.came[0] += 1;
        self.came[1] += bytes;
        self.books.came(bytes);
        if self.books.leaks("route") {
            return;
        }
        let fid = Fid(message.tag);
        if !fid.is_from_host() && fid.version() == 1 {
            return self.books.unrouted(Unrouted::WrongDirection, bytes);
        }
        let elink = fid.elink();
        let is_of = |card: &&mut Card| {
            let target = &card.target;
            let own = Fid::to_host(target.detector, target.connector, elink).from_host();
            own.0 == fid.0 & ROUTED_BITS
        };
        match self.cards.iter_mut().find(is_of) {
            Some(card) => {
                self.books.routed(bytes);
                card.take(elink, message.payload, &mut self.books);
            }
            None => self.books.unrouted(Unrouted::UnknownFid, bytes),
        }
    }

    /// Senders are told, and cards take what is in their rings, as long as that may take.
    fn finish(
        &mut self,
        mut receiver: Receiver,
        stop: &Stop,
        warn: &mut dyn FnMut(&str),
    ) -> Result<NetRecord, ReadoutError> {
        let (begun, before) = (Instant::now(), stop.urgency());
        let drain = Duration::from_secs(self.plan.said.drain_s);
        let goes_on = || begun.elapsed() < drain && stop.urgency().is_still(before);
        receiver.begin_end();
        while receiver.senders() > 0 && goes_on() {
            self.turn(&mut receiver)?;
        }
        let unfinished = |card: &Card| card.waits() || card.is_here() && card.in_ring() > 0;
        while self.cards.iter().any(unfinished) && goes_on() {
            std::thread::sleep(Duration::from_millis(1));
            self.pass_on();
        }
        for card in &mut self.cards {
            if card.waits() {
                warn(&format!(
                    "the card at {} had no room for what was still to be written to it",
                    card.socket().display()
                ));
            }
            card.give_up(Unwritten::Stopped, &mut self.books);
            card.leave(&mut self.books);
        }
        // In rings or lost by name, all of it: a sender that still waits for that is told. What comes now goes nowhere.
        self.books.commit();
        self.acknowledge(&mut receiver);
        receiver.acknowledge().decline();
        Ok(receiver.finish(Duration::ZERO, |_| {})?)
    }

    fn conclude(
        mut self,
        ended: Result<NetRecord, ReadoutError>,
        asked: Option<Reason>,
    ) -> Result<Record<ToFlxSummary>, ReadoutError> {
        self.books.commit();
        let lost = self.cards.iter().filter(|card| card.summary.times_lost > 0);
        let lost: Vec<&str> = lost.map(|card| &*card.summary.socket).collect();
        let lost = (!lost.is_empty()).then(|| {
            format!(
                "the card at {} went without a farewell; what was in its buffer is lost, and the books are closed",
                lost.join(" and at ")
            )
        });
        let (mut receiver, failed) = match ended {
            Ok(receiver) => (Some(receiver), lost),
            Err(error) => (None, Some(error.to_string())),
        };
        let (condition, reason) = match &failed {
            Some(_) => (Condition::Interrupted, Reason::ConnectionLost),
            None => (Condition::Ended, asked.unwrap_or(Reason::InputEnded)),
        };
        let ledger = &mut self.books.ledger;
        let (_, mut envelope) = ledger.end(condition, reason, Vec::new())?;
        envelope.failed = failed;
        if let Some(receiver) = &mut receiver {
            envelope.include(&mut receiver.envelope, |_| false);
        }
        let cards: Vec<_> = self.cards.into_iter().map(|card| card.summary).collect();
        let mut record = Record {
            envelope,
            summary: ToFlxSummary {
                messages: self.came[0],
                bytes: self.came[1],
                written: cards.iter().map(|card| card.written).sum(),
                packets: cards.iter().map(|card| card.packets).sum(),
                held_up_s: self.held_up_ns as f64 / 1e9,
                cards,
                receiver,
            },
        };
        ledger.keep(&mut record)?;
        Ok(record)
    }
}
