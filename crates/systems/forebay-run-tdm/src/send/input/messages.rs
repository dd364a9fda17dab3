//! Messages as input: a thread of its own receives them, so that a window never waits for the process that sends them.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Blocks, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_run_net::{Address, Config, NetError, NetRecord, Receiver, Settings, Untaken};
use forebay_sys::eventfd::EventFd;
use forebay_sys::{clock, wait};
use forebay_tdm::heaps::Heap;
use forebay_wire::heap::HEAP_BYTES_MAX;
use forebay_wire::netio3::{HEAD_BYTES_MAX, Message};

use crate::TdmError;

/// Blocks that are read ahead.
const BLOCKS: usize = 2;
/// With so much gathered, in bytes, nothing more is taken from the process that sends it.
const GATHERED_BYTES: usize = 4 << 20;
/// Nothing is waited for longer than this at once: an order to end costs as much.
const WAIT: Duration = Duration::from_millis(20);
/// The same while messages wait for room.
const WAIT_FOR_ROOM: Duration = Duration::from_millis(1);
/// How long those that send messages have for their end.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Longest message: the longest heap, and the longest buffer of messaging.
const MESSAGE_BYTES_MAX: u32 = HEAP_BYTES_MAX - HEAD_BYTES_MAX as u32;
/// What a sender of messages may have on its way; it asks for less.
const BUFFERS_MAX: u32 = 65_536;

/// What messages are gathered in.
pub(super) trait Gather: Default + Send + 'static {
    fn add(&mut self, message: &Message<'_>);
}

/// Their payloads, one after the other.
impl Gather for Vec<u8> {
    fn add(&mut self, message: &Message<'_>) {
        self.extend_from_slice(message.payload);
    }
}

/// Each with its boundaries, tag and status.
impl Gather for Vec<Heap> {
    fn add(&mut self, message: &Message<'_>) {
        self.push(Heap {
            tag: message.tag,
            status: message.status,
            bytes: message.payload.to_vec(),
        });
    }
}

/// The thread that receives messages, and what wakes it.
pub(super) struct Messages {
    stop: Arc<AtomicBool>,
    room: EventFd,
    thread: JoinHandle<Option<NetRecord>>,
}

impl Messages {
    /// Listens at an address.
    pub(super) fn listen<B: Gather>(
        address: &Address,
        arrived: &EventFd,
    ) -> Result<(Self, Blocks<io::Result<B>>), TdmError> {
        let settings = Settings {
            messages: Config {
                buffer_bytes: MESSAGE_BYTES_MAX,
                buffer_count: BUFFERS_MAX,
                ..Config::default()
            },
            gathers: true,
            spin_ns: 0,
            ..Settings::default()
        };
        let failed = |source| TdmError::Messages {
            what: "receiving messages at",
            address: address.to_string(),
            source: Box::new(source),
        };
        let receiver = Receiver::listen(address, &settings).map_err(failed)?;
        let room = EventFd::create()?;
        let (give, blocks) = sync_channel(BLOCKS);
        let stop = Arc::new(AtomicBool::new(false));
        let carrier = Carrier {
            receiver,
            arrived: EventFd::from_fd(arrived.share_fd()?),
            room: EventFd::from_fd(room.share_fd()?),
            stop: Arc::clone(&stop),
            gathered: B::default(),
            messages: 0,
            bytes: 0,
        };
        let thread = std::thread::Builder::new()
            .name("tdm messages".to_owned())
            .spawn(move || carrier.run(give))
            .map_err(TdmError::file("starting a thread for", address.to_string()))?;
        let messages = Self { stop, room, thread };
        Ok((messages, blocks))
    }

    /// A block was taken: there is room for another.
    pub(super) fn room(&self) {
        self.room.signal();
    }

    /// Nothing more is wanted; tells what the end of messaging has to say.
    pub(super) fn end(self) -> Option<NetRecord> {
        self.stop.store(true, Ordering::Release);
        self.room.signal();
        // A thread that panicked has nothing to say.
        self.thread.join().ok().flatten()
    }
}

struct Carrier<B> {
    receiver: Receiver,
    arrived: EventFd,
    room: EventFd,
    stop: Arc<AtomicBool>,
    gathered: B,
    messages: u64,
    bytes: u64,
}

impl<B: Gather> Carrier<B> {
    fn run(mut self, give: SyncSender<io::Result<B>>) -> Option<NetRecord> {
        loop {
            if self.messages > 0 && !self.give(&give) {
                break;
            }
            let ended = self.messages == 0 && self.receiver.has_ended();
            if ended || self.stop.load(Ordering::Acquire) {
                break;
            }
            if let Err(error) = self.turn() {
                // The thread that took blocks has gone, or is told with the next one that it takes.
                let _ = give.try_send(Err(io::Error::other(error.to_string())));
                break;
            }
        }
        // A thread that waits for more sees that there is none.
        drop(give);
        self.arrived.signal();
        let (messages, bytes) = (self.messages, self.bytes);
        self.receiver
            .acknowledge()
            .untaken(Untaken::NotWanted, messages, bytes);
        self.receiver.acknowledge().decline();
        let summary = self.receiver.finish(END_LIMIT, |_| {});
        summary.ok()
    }

    /// Hands on what is gathered, if there is room for it. False when nobody wants it.
    fn give(&mut self, give: &SyncSender<io::Result<B>>) -> bool {
        match give.try_send(Ok(std::mem::take(&mut self.gathered))) {
            Ok(()) => {
                self.receiver.acknowledge().taken(self.messages, self.bytes);
                (self.messages, self.bytes) = (0, 0);
                self.arrived.signal();
                true
            }
            Err(TrySendError::Full(Ok(back))) => {
                self.gathered = back;
                true
            }
            Err(_) => false,
        }
    }

    fn turn(&mut self) -> Result<(), NetError> {
        if self.bytes >= GATHERED_BYTES as u64 {
            self.receiver.stay()?;
            let until_ns = clock::monotonic_ns() + WAIT.as_nanos() as u64;
            wait::sleep_until_or([self.room.as_fd()], until_ns, 0)?;
            self.room.drain();
            return Ok(());
        }
        // What could not be handed on yet is tried again soon.
        let most = if self.messages > 0 {
            WAIT_FOR_ROOM
        } else {
            WAIT
        };
        let (gathered, messages, bytes) = (&mut self.gathered, &mut self.messages, &mut self.bytes);
        self.receiver.poll(most, |delivered| {
            gathered.add(&delivered.message);
            *messages += 1;
            *bytes += delivered.message.payload.len() as u64;
        })?;
        Ok(())
    }
}
