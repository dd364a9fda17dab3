//! One card that is written: its ring, what waits for room in it, and what happens when the card goes.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

use forebay_ring::RingError;
use forebay_wire::felix::{ELINKS, Elink, PACKET_BYTES, PacketWriter, packets_of};

use super::books::{Books, Untaken, Unwritten};
use super::summary::ToFlxCardSummary;
use crate::buffer_summary::CardEnd;
use crate::device::{DeviceError, FromHostDevice};
use crate::elink_table::ElinkTable;

/// A card that is not there is asked for so often.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A card, and which fids are its own.
#[derive(Clone, Debug)]
pub struct CardTarget {
    /// Where it is opened.
    pub socket: PathBuf,
    /// Detector in its fids.
    pub detector: u8,
    /// Connector in its fids.
    pub connector: u16,
}

enum State {
    /// It is not there; when it was asked for last.
    Away(Instant),
    /// It is being asked: it may take its time.
    Asked(mpsc::Receiver<Result<FromHostDevice, DeviceError>>),
    /// It is there.
    Here(Box<FromHostDevice>),
}

/// A card at work.
pub(super) struct Card {
    number: usize,
    pub(super) target: CardTarget,
    state: State,
    elinks: Box<[bool]>,
    message_bytes_max: usize,
    limit: Option<usize>,
    /// Messages for which there was no room, in order; their memory is used again.
    waiting: VecDeque<(Elink, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// Packets of messages in the ring that were not seen taken, those that are not shown included.
    in_ring: u64,
    /// How many packets the card has taken in all, by its index; those that a predecessor wrote are as if it had.
    taken: u64,
    /// Something was written and not shown.
    fresh: bool,
    /// Since when it is gone, if it was there.
    gone: Option<Instant>,
    pub(super) summary: ToFlxCardSummary,
    /// Messages by E-link, for the thread that is asked for metrics.
    by_elink: Arc<ElinkTable>,
    /// Why the last attempt to open it failed.
    failed: Option<DeviceError>,
}

impl Card {
    pub(super) fn new(number: usize, target: CardTarget, limit: Option<usize>) -> Self {
        let summary = ToFlxCardSummary::of(&target.socket);
        Self {
            number,
            target,
            state: State::Away(Instant::now()),
            elinks: vec![false; ELINKS].into(),
            message_bytes_max: 0,
            limit,
            waiting: VecDeque::new(),
            spare: Vec::new(),
            in_ring: 0,
            taken: 0,
            fresh: false,
            gone: None,
            summary,
            by_elink: Arc::new(ElinkTable::of_messages()),
            failed: None,
        }
    }

    /// Messages by E-link.
    pub(super) fn by_elink(&self) -> Arc<ElinkTable> {
        Arc::clone(&self.by_elink)
    }

    pub(super) fn is_here(&self) -> bool {
        matches!(self.state, State::Here(_))
    }

    /// Whether it has been there, and is gone for good: it ended in order, or has not come back for so long.
    pub(super) fn is_over(&self, wait: Duration) -> bool {
        let in_order = self.summary.end == CardEnd::InOrder;
        self.gone
            .is_some_and(|since| in_order || since.elapsed() >= wait)
    }

    /// Why it could not be opened.
    pub(super) fn take_failure(&mut self) -> Option<DeviceError> {
        self.failed.take()
    }

    /// Whether that may change when it is waited for.
    pub(super) fn may_come(&self) -> bool {
        let failed = self.failed.as_ref();
        failed.is_none_or(|failed| {
            matches!(
                failed,
                DeviceError::NotThere { .. } | DeviceError::Refused { .. }
            )
        })
    }

    /// Messages that wait for room.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Packets that it has not taken.
    pub(super) fn in_ring(&self) -> u64 {
        self.in_ring
    }

    /// Opens it if it is not there, and notices that it is gone.
    pub(super) fn tend(&mut self, books: &mut Books) {
        match &self.state {
            State::Away(asked) if asked.elapsed() >= ASK_EVERY => self.ask(),
            State::Away(_) => {}
            State::Asked(answer) => match answer.try_recv() {
                Ok(Ok(device)) => self.opened(device, books),
                Ok(Err(failed)) => {
                    self.failed = Some(failed);
                    self.state = State::Away(Instant::now());
                }
                Err(TryRecvError::Disconnected) => self.state = State::Away(Instant::now()),
                Err(TryRecvError::Empty) => {}
            },
            State::Here(device) => {
                // The mark first: what it took before it made it is seen then.
                let in_order = device.packets.is_read_no_more();
                let fault = device.packets.fault();
                if let Some(fault) = fault {
                    self.summary.broken = Some(fault.to_string());
                }
                if in_order || device.is_gone() || fault.is_some() {
                    self.gone(in_order, books);
                }
            }
        }
    }

    /// Asks for it now.
    pub(super) fn ask(&mut self) {
        let (answers, answer) = mpsc::channel();
        let path = self.target.socket.clone();
        // A card that stands still must not hold up what is for others.
        std::thread::spawn(move || {
            // Nobody may want it any more.
            let _ = answers.send(FromHostDevice::open(&path));
        });
        self.state = State::Asked(answer);
    }

    fn opened(&mut self, mut device: FromHostDevice, books: &mut Books) {
        self.elinks.fill(false);
        for number in device.info.elinks.iter().flatten() {
            if let Some(has) = self.elinks.get_mut(usize::from(*number)) {
                *has = true;
            }
        }
        let most = device.message_bytes_max as usize;
        self.message_bytes_max = self.limit.map_or(most, |limit| limit.min(most));
        // What a predecessor wrote is in that one's books.
        self.in_ring = 0;
        self.taken = written_of(&device);
        self.summary.packets_before += device.packets.blocks() - device.packets.free_blocks();
        self.gone = None;
        self.failed = None;
        self.summary.opened += 1;
        self.summary.end = CardEnd::Stopped;
        books.opened(self.number);
        self.state = State::Here(Box::new(device));
    }

    /// The card is gone: what is in its ring is lost, and so is what waits.
    fn gone(&mut self, in_order: bool, books: &mut Books) {
        self.see(books);
        let lost = self.empty(Untaken::CardGone, books);
        self.summary.packets_lost += lost;
        self.fresh = false;
        books.fill(self.number, [0, 0]);
        self.give_up(Unwritten::CardGone, books);
        self.summary.end = if in_order {
            CardEnd::InOrder
        } else {
            self.summary.times_lost += 1;
            CardEnd::Lost
        };
        self.gone = Some(Instant::now());
        self.state = State::Away(Instant::now());
    }

    /// What the card has not taken is not waited for any more: how many packets that is, by the ring.
    fn empty(&mut self, why: Untaken, books: &mut Books) -> u64 {
        let State::Here(device) = &self.state else {
            return 0;
        };
        let untaken = written_of(device).saturating_sub(self.taken);
        books.untaken(self.number, why, untaken);
        self.taken += untaken;
        books.emptied(self.number, std::mem::take(&mut self.in_ring));
        untaken
    }

    /// The run is over: what is in the ring is the card's own to take.
    pub(super) fn leave(&mut self, books: &mut Books) {
        self.see(books);
        self.summary.packets_left = self.empty(Untaken::NotTaken, books);
    }

    /// Messages that wait are lost.
    pub(super) fn give_up(&mut self, why: Unwritten, books: &mut Books) {
        while let Some((elink, message)) = self.waiting.pop_front() {
            let bytes = message.len() as u64;
            books.waits_no_more(self.number, bytes);
            self.lose(why, elink, bytes, books);
            self.spare.push(message);
        }
    }

    fn lose(&mut self, why: Unwritten, elink: Elink, bytes: u64, books: &mut Books) {
        books.unwritten(self.number, why, bytes);
        self.by_elink.lost(elink);
        self.summary.lose(why);
    }

    /// A message for one of its E-links.
    #[inline]
    pub(super) fn take(&mut self, elink: Elink, message: &[u8], books: &mut Books) {
        let bytes = message.len() as u64;
        books.given(self.number, bytes);
        self.summary.messages += 1;
        self.by_elink.came(elink, bytes);
        if books.leaks("encode") {
            return;
        }
        let State::Here(device) = &self.state else {
            return self.lose(Unwritten::NoCard, elink, bytes, books);
        };
        let packets = packets_of(message.len()) as u64;
        let why = if !self.elinks[usize::from(elink.number())] {
            Unwritten::UnknownElink
        } else if message.len() > self.message_bytes_max || packets > device.packets.blocks() {
            Unwritten::TooLong
        } else if PacketWriter::begin(device.format, elink, message).is_err() {
            Unwritten::OddLength
        } else {
            if !self.waiting.is_empty() || !self.write(elink, message, books) {
                self.put_aside(elink, message, books);
            }
            return;
        };
        self.lose(why, elink, bytes, books);
    }

    fn put_aside(&mut self, elink: Elink, message: &[u8], books: &mut Books) {
        let mut aside = self.spare.pop().unwrap_or_default();
        aside.clear();
        aside.extend_from_slice(message);
        books.waits(self.number, aside.len() as u64);
        self.waiting.push_back((elink, aside));
    }

    /// Writes a message into the ring, all of it or nothing.
    #[inline]
    fn write(&mut self, elink: Elink, message: &[u8], books: &mut Books) -> bool {
        let State::Here(device) = &mut self.state else {
            return false;
        };
        let packets = packets_of(message.len()) as u64;
        if device.packets.free_blocks() < packets {
            return false;
        }
        let Ok(mut writer) = PacketWriter::begin(device.format, elink, message) else {
            return false;
        };
        let mut written = 0;
        for _ in 0..packets {
            // There is room for all of them.
            let Ok(Ok(packet)) = device
                .packets
                .reserve()
                .map(<&mut [u8; PACKET_BYTES]>::try_from)
            else {
                break;
            };
            writer.emit(packet);
            written += u64::from(device.packets.commit());
        }
        books.packets(self.number, written);
        books.written(self.number, message.len() as u64);
        books.filled(self.number, packets);
        self.in_ring += packets;
        self.summary.written += 1;
        self.summary.written_bytes += message.len() as u64;
        self.summary.packets += packets;
        self.fresh = true;
        true
    }

    /// Writes what waits, as far as there is room.
    pub(super) fn drain(&mut self, books: &mut Books) {
        while let Some((elink, message)) = self.waiting.pop_front() {
            if !self.write(elink, &message, books) {
                self.waiting.push_front((elink, message));
                break;
            }
            books.waits_no_more(self.number, message.len() as u64);
            self.spare.push(message);
        }
    }

    /// Looks what the card has taken.
    #[inline]
    pub(super) fn see(&mut self, books: &mut Books) {
        let State::Here(device) = &mut self.state else {
            return;
        };
        let all = device.packets.blocks();
        let unread = all - device.packets.free_blocks();
        if device.packets.fault().is_some() {
            // What it has taken since it broke nobody knows.
            return;
        }
        // What a predecessor wrote is taken before anything of ours.
        let position = written_of(device).saturating_sub(unread);
        if position > self.taken {
            let taken = position - self.taken;
            self.taken = position;
            books.taken(self.number, taken);
            self.summary.packets_taken += taken;
            books.emptied(self.number, taken);
            self.in_ring = self.in_ring.saturating_sub(taken);
        }
        books.fill(self.number, [unread, all]);
    }

    /// Shows the card what was written.
    #[inline]
    pub(super) fn show(&mut self) {
        if let State::Here(device) = &mut self.state
            && std::mem::take(&mut self.fresh)
        {
            device.packets.publish();
            device.packets.notify();
        }
    }

    /// Sleeps until the first message that waits has room, at most so long.
    pub(super) fn wait(&mut self, most: Duration) -> Result<(), RingError> {
        let needed = self
            .waiting
            .front()
            .map(|(_, bytes)| packets_of(bytes.len()));
        match (&mut self.state, needed) {
            (State::Here(device), Some(packets)) => {
                device.packets.wait_blocks(packets as u64, most).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Where it is opened.
    pub(super) fn socket(&self) -> &Path {
        &self.target.socket
    }
}

/// How many packets were ever written into its ring.
fn written_of(device: &FromHostDevice) -> u64 {
    device.packets.position() / PACKET_BYTES as u64
}

#[cfg(test)]
#[path = "card_tests.rs"]
mod tests;
