//! Whole heaps as messages to another process: a thread of its own sends them, so that a receiver that takes little holds no window up.

use std::sync::mpsc::{
    Receiver as Heaps, RecvTimeoutError, Sender as Tell, SyncSender, channel, sync_channel,
};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_run_net::{Address, Config, NetError, NetRecord, Sender, Settings};
use forebay_tdm::heaps::Heap;
use forebay_wire::heap::HEAP_BYTES_MAX;
use forebay_wire::netio3::HEAD_BYTES_MAX;

use super::{HeapTally, Sum, Unplaced};
use crate::TdmError;

/// Heaps that may wait, and bytes of them.
const WAITING_MAX: usize = 4096;
const WAITING_BYTES_MAX: u64 = 64 << 20;
/// One wait for a heap; then the connection is looked after.
const WAIT: Duration = Duration::from_millis(20);
/// How long the end may take.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What became of one, with its bytes.
enum Outcome {
    Sent(u64),
    Dropped(u64, Unplaced),
    /// Nothing more can be sent.
    Failed(String),
}

pub(super) struct HandOn {
    give: Option<SyncSender<Heap>>,
    outcomes: Heaps<Outcome>,
    /// Those of which nobody has said what became of them.
    waiting: Sum,
    thread: Option<JoinHandle<Option<NetRecord>>>,
    failed: Option<String>,
}

impl HandOn {
    pub(super) fn connect(address: &str) -> Result<Self, TdmError> {
        let failed = |source| TdmError::Messages {
            what: "handing heaps on to",
            address: address.to_owned(),
            source: Box::new(source),
        };
        let parsed: Address = address.parse().map_err(|source| TdmError::Address {
            address: address.to_owned(),
            source,
        })?;
        let settings = Settings {
            messages: Config {
                // The receiver that takes them says what it has room for.
                buffer_bytes: HEAP_BYTES_MAX - HEAD_BYTES_MAX as u32,
                ..Config::default()
            },
            spin_ns: 0,
            ..Settings::default()
        };
        let sender = Sender::connect(&parsed, &settings).map_err(failed)?;
        let (give, heaps) = sync_channel(WAITING_MAX);
        let (tell, outcomes) = channel();
        let carrier = Carrier {
            sender,
            tell,
            address: address.to_owned(),
            failed: false,
        };
        let thread = std::thread::Builder::new()
            .name("tdm messages".to_owned())
            .spawn(move || carrier.run(&heaps))
            .map_err(TdmError::file("starting a thread for", address))?;
        Ok(Self {
            give: Some(give),
            outcomes,
            waiting: Sum::default(),
            thread: Some(thread),
            failed: None,
        })
    }

    /// Takes a heap, if there is room for it.
    pub(super) fn give(&mut self, heap: Heap) -> bool {
        let bytes = heap.bytes.len() as u64;
        let waiting = self.waiting.bytes;
        let fits = waiting == 0 || waiting + bytes <= WAITING_BYTES_MAX;
        let given = fits
            && self
                .give
                .as_ref()
                .is_some_and(|give| give.try_send(heap).is_ok());
        if given {
            self.waiting.add(1, bytes);
        }
        given
    }

    /// Those that were given and of which nothing was heard.
    pub(super) const fn held(&self) -> Sum {
        self.waiting
    }

    fn settled(&mut self, bytes: u64) {
        self.waiting.heaps -= 1;
        self.waiting.bytes -= bytes;
    }

    pub(super) fn became(&mut self, tally: &mut HeapTally) {
        while let Ok(outcome) = self.outcomes.try_recv() {
            match outcome {
                Outcome::Sent(bytes) => {
                    self.settled(bytes);
                    tally.whole.add(1, bytes);
                }
                Outcome::Dropped(bytes, why) => {
                    self.settled(bytes);
                    tally.drop(why, 1, bytes);
                }
                Outcome::Failed(why) => self.failed = Some(why),
            }
        }
    }

    pub(super) fn failure(&mut self) -> Option<String> {
        self.failed.take()
    }

    /// What waits is sent, and the connection ends in order.
    pub(super) fn end(&mut self) -> Option<NetRecord> {
        drop(self.give.take());
        let Ok(summary) = self.thread.take()?.join() else {
            self.failed = Some("the thread that hands heaps on has panicked".to_owned());
            return None;
        };
        summary
    }
}

struct Carrier {
    sender: Sender,
    tell: Tell<Outcome>,
    address: String,
    failed: bool,
}

impl Carrier {
    fn run(mut self, heaps: &Heaps<Heap>) -> Option<NetRecord> {
        loop {
            let heap = match heaps.try_recv() {
                Ok(heap) => Ok(heap),
                Err(_) => {
                    self.tend();
                    heaps.recv_timeout(WAIT)
                }
            };
            match heap {
                Ok(heap) => self.send(&heap),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match self.sender.finish(END_LIMIT) {
            Ok(summary) => Some(summary),
            Err(error) => {
                if !self.failed {
                    let _ = self.tell.send(failed(&self.address, &error));
                }
                None
            }
        }
    }

    fn send(&mut self, heap: &Heap) {
        let bytes = heap.bytes.len() as u64;
        let sent = if self.failed {
            Err(NetError::Left)
        } else {
            self.sender.send(heap.tag, heap.status, &heap.bytes)
        };
        let outcome = match sent {
            Ok(()) => Outcome::Sent(bytes),
            Err(NetError::TooLong { .. }) => Outcome::Dropped(bytes, Unplaced::TooLong),
            Err(error) => {
                self.fail(&error);
                Outcome::Dropped(bytes, Unplaced::NotWritten)
            }
        };
        // Nobody asks any more when the session is over.
        let _ = self.tell.send(outcome);
    }

    /// Nothing waits: what lies in buffers goes out, and the other side hears that somebody is here.
    fn tend(&mut self) {
        if self.failed || !self.sender.is_connected() {
            return;
        }
        let flushed = self.sender.flush();
        let polled = flushed.and_then(|()| self.sender.poll(Duration::ZERO, |_| {}));
        if let Err(error) = polled {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &NetError) {
        if !std::mem::replace(&mut self.failed, true) {
            let _ = self.tell.send(failed(&self.address, error));
        }
    }
}

fn failed(address: &str, error: &NetError) -> Outcome {
    Outcome::Failed(format!("handing heaps on to {address}: {error}"))
}

#[cfg(test)]
mod tests {
    use forebay_ledger::OneOf;

    use super::super::{HeapStream, To};
    use super::*;

    #[test]
    fn what_was_given_lies_here_until_its_end_is_told() {
        // Nobody takes any, and there is room for two.
        let (give, _heaps) = sync_channel(2);
        let (tell, outcomes) = channel();
        let hand_on = HandOn {
            give: Some(give),
            outcomes,
            waiting: Sum::default(),
            thread: None,
            failed: None,
        };
        let mut stream = HeapStream::to(To::Messages(hand_on), "nowhere".to_owned());
        let mut all = HeapTally::default();
        let mut now = |stream: &mut HeapStream| {
            all.add(&stream.became());
            let held = stream.held();
            let mut ended = all.ended();
            ended.add(held.heaps, held.bytes);
            assert_eq!(ended, all.sent, "{all:?}");
            let [full, long] = [Unplaced::OutputFull, Unplaced::TooLong]
                .map(|why| all.dropped[OneOf::Second(why)].heaps);
            (all.whole.heaps, full, long, held.heaps, held.bytes)
        };
        for heap in 0..3_u8 {
            let bytes = vec![heap; 10 + usize::from(heap)];
            let piece = forebay_wire::heap::Piece {
                heap: heap.into(),
                tag: 1,
                status: 0,
                heap_bytes: bytes.len() as u32,
                offset: 0,
                bytes: &bytes,
            };
            stream.write(u64::from(heap) * 100, &[&piece.head()[..], &bytes].concat());
        }
        assert_eq!(now(&mut stream), (0, 1, 0, 2, 21));
        tell.send(Outcome::Sent(10)).unwrap();
        assert_eq!(now(&mut stream), (1, 1, 0, 1, 11));
        tell.send(Outcome::Dropped(11, Unplaced::TooLong)).unwrap();
        assert_eq!(now(&mut stream), (1, 1, 1, 0, 0));
    }
}
