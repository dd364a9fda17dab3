//! A thread that captures from an interface: frames from its ring into its flows, by the host's clock.

use std::os::fd::AsFd;

use forebay_flow::{Frame, LinkType};
use forebay_link::packet::{Event, KernelCounts, PacketPort, PortOptions, RingError, RingSize};
use forebay_run::stop::{Stop, Urgency};
use forebay_sys::{SysError, clock, wait};

use crate::books::CaptureBook;
use crate::config::ProbeSettings;
use crate::error::ProbeError;
use crate::flows::Flows;

/// Books are shown and records handed over so often, in ns.
const LOOK_NS: u64 = 100_000_000;
/// A block that has a packet is handed over after so long, in ms.
const BLOCK_TIMEOUT_MS: u32 = 10;
/// When the ring is empty no packet has a time before that of the clock less this, in ns: a block's time-out, and as much as its timer may be late.
const LATE_NS: u64 = 100_000_000;
/// The clock was set back when it is so much behind the time of the table, which never goes back, in ns.
const SET_BACK_NS: u64 = 1_000_000_000;
/// A block, in bytes: each takes any frame of an interface.
const BLOCK_BYTES: u32 = 256 << 10;
/// At the end, packets that the kernel has counted are waited for so long, in ns.
const DRAIN_NS: u64 = 1_000_000_000;
/// One look at whether they have come, in ns.
const DRAIN_LOOK_NS: u64 = 1_000_000;

/// Opens a port for each thread.
pub(crate) fn open(
    interface: &str,
    settings: &ProbeSettings,
) -> Result<Vec<PacketPort>, ProbeError> {
    let blocks = settings.ring_bytes / u64::from(BLOCK_BYTES);
    let options = PortOptions {
        queues: settings.queues,
        ring: RingSize {
            block_bytes: BLOCK_BYTES,
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            block_timeout_ms: BLOCK_TIMEOUT_MS,
        },
        snap_bytes: settings.snap_bytes,
        promiscuous: settings.promiscuous,
    };
    Ok(PacketPort::open(interface, &options)?)
}

/// What is known of a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingCounts {
    /// By the kernel.
    pub(crate) kernel: KernelCounts,
    /// Frames of blocks that contradict themselves.
    pub(crate) broken: u64,
    /// By the heads of its blocks.
    pub(crate) held: u64,
    /// How often the interface went down.
    pub(crate) downs: u64,
}

pub(crate) struct Live<'a> {
    port: PacketPort,
    link: Option<LinkType>,
    flows: Flows<'a>,
    ring: RingCounts,
    interface: String,
    is_down: bool,
    stop: Stop,
    book: CaptureBook,
}

impl<'a> Live<'a> {
    pub(crate) fn new(port: PacketPort, flows: Flows<'a>, book: CaptureBook, stop: &Stop) -> Self {
        Self {
            link: LinkType::of(port.link_type()),
            interface: port.interface().to_owned(),
            port,
            flows,
            ring: RingCounts::default(),
            is_down: false,
            stop: stop.clone(),
            book,
        }
    }

    /// Captures until it shall end or the interface is gone: what broke it, and what was counted.
    pub(crate) fn run(mut self, note: &dyn Fn(String)) -> (Option<String>, Flows<'a>, RingCounts) {
        let broken = match self.capture(note) {
            Ok(()) if self.stop.is_asked() => None,
            Ok(()) => Some(format!("{} is there no more", self.interface)),
            Err(error) => {
                // Without this port its flows would go to the others, and half of each be in two tables.
                note(error.to_string());
                self.stop.order(Urgency::Drain);
                Some(error.to_string())
            }
        };
        let broken = broken.or(self.drain().err().map(|error| error.to_string()));
        self.flows.end_all();
        let shown = self.look().err().map(|error| error.to_string());
        self.book.show_end(&self.flows, Some(&self.ring));
        (broken.or(shown), self.flows, self.ring)
    }

    /// Until it shall end, or there is no interface.
    fn capture(&mut self, note: &dyn Fn(String)) -> Result<(), SysError> {
        let mut look_ns = clock::monotonic_ns() + LOOK_NS;
        while !self.stop.is_asked() {
            let event = self.port.wait(self.stop.as_fd(), look_ns)?;
            match event {
                Event::Block => {
                    self.read();
                }
                Event::Quiet => self.quiet(),
                Event::Down if self.is_down => self.quiet(),
                Event::Down => {
                    self.ring.downs += 1;
                    note(format!(
                        "{} is down; its packets are awaited",
                        self.interface
                    ));
                }
                Event::Gone => return Ok(()),
            }
            // A block that was being filled comes behind the news that the interface is down.
            if event != Event::Block {
                self.is_down = event == Event::Down;
            }
            let now_ns = clock::monotonic_ns();
            if now_ns >= look_ns {
                look_ns = now_ns + LOOK_NS;
                self.look()?;
                if clock::realtime_ns() + SET_BACK_NS < self.flows.table.clock_ns() {
                    note(
                        "the clock of this host was set back: all flows end, and begin anew"
                            .to_owned(),
                    );
                    self.flows.set_back();
                }
                self.book.show(&self.flows, Some(&self.ring));
            }
        }
        Ok(())
    }

    /// Takes the frames of a block; whether there was one.
    fn read(&mut self) -> bool {
        let Self {
            port,
            link,
            flows,
            ring,
            ..
        } = self;
        let Some(mut block) = port.take() else {
            return false;
        };
        let frames = block.frames();
        let packets = frames.packets();
        let mut read = 0;
        for frame in frames {
            match frame {
                Ok(frame) => {
                    read += 1;
                    if flows.leak.take("ring") {
                        continue;
                    }
                    flows.take(&Frame {
                        time_ns: frame.timestamp_ns,
                        link: *link,
                        bytes: frame.bytes,
                        wire_bytes: frame.wire_bytes,
                    });
                }
                // The rest of the block is not believed.
                Err(RingError { .. }) => ring.broken += u64::from(packets - read),
            }
        }
        flows.settle();
        true
    }

    /// Nothing is in the ring: what is over by the clock ends.
    fn quiet(&mut self) {
        self.flows
            .tick(clock::realtime_ns().saturating_sub(LATE_NS));
    }

    fn look(&mut self) -> Result<(), SysError> {
        self.flows.take_back_closed();
        self.flows.hand_over();
        // What is held is read first: a packet that comes in between is not counted as one too many.
        self.ring.held = self.port.held();
        self.ring.kernel = self.port.kernel_counts()?;
        Ok(())
    }

    /// Takes what the kernel had counted when the order came.
    fn drain(&mut self) -> Result<(), SysError> {
        self.port.close()?;
        let mut until_ns = clock::monotonic_ns() + DRAIN_NS;
        while self.stop.urgency() < Urgency::Hurry {
            let now_ns = clock::monotonic_ns();
            if self.read() {
                until_ns = now_ns + DRAIN_NS;
            }
            self.look()?;
            if self.ring.held == 0 || now_ns >= until_ns {
                break;
            }
            if !self.port.is_ready() {
                wait::sleep_until(now_ns + DRAIN_LOOK_NS, 0);
            }
        }
        Ok(())
    }
}
