//! A thread that captures from an interface: frames from its ring into its flows, by the host's clock.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use forebay_flow::{Frame, LinkType};
use forebay_link::packet::{Event, KernelCounts};
use forebay_run::stop::{Stop, Urgency};
use forebay_sys::clock;

use crate::books::CaptureBook;
use crate::error::ProbeError;
use crate::flows::Flows;
use crate::port::Port;

/// Books are shown and records handed over so often, in ns.
const LOOK_NS: u64 = 100_000_000;
/// When the ring is empty no packet has a time before that of the clock less this, in ns: a block's time-out, and as much as its timer may be late.
const LATE_NS: u64 = 100_000_000;
/// The clock was set back when it is so much behind the time of the table, which never goes back, in ns.
const SET_BACK_NS: u64 = 1_000_000_000;
/// At the end, packets that the kernel has counted are waited for so long since some came.
const DRAIN: Duration = Duration::from_secs(1);
/// One look at whether they have come.
const DRAIN_LOOK: Duration = Duration::from_millis(1);

/// What is known of a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingCounts {
    /// What fills it, for people and scripts.
    pub(crate) kind: &'static str,
    /// By the kernel.
    pub(crate) kernel: KernelCounts,
    /// Frames that the kernel found no buffer for, of AF_XDP.
    pub(crate) no_buffer: u64,
    /// Frames of queues without a thread, which went on to the kernel's stack, of AF_XDP.
    pub(crate) passed: u64,
    /// Frames of blocks that contradict themselves.
    pub(crate) broken: u64,
    /// By the heads of its blocks.
    pub(crate) held: u64,
    /// How often the interface went down.
    pub(crate) downs: u64,
}

impl RingCounts {
    /// Packets that the kernel had no room for.
    pub(crate) const fn lost(&self) -> u64 {
        self.kernel.drops + self.no_buffer
    }

    /// That packets of an interface are not read, if it is so.
    fn passes_by(&self, interface: &str) -> Option<String> {
        (self.passed > 0).then(|| {
            format!(
                "packets come by queues of {interface} that no thread reads, and go on to the kernel's stack: give --queues as many as it has"
            )
        })
    }

    /// Packets that did not come from the interface to the decoder.
    const fn unread(&self) -> u64 {
        self.lost() + self.broken
    }

    /// Whether packets that the kernel has counted are still on their way to the ring, or in it, when so many were read.
    const fn has_more(&self, read: u64) -> bool {
        self.held > 0 || self.kernel.packets > read + self.unread()
    }

    /// Whether they are waited for at the end, where none came for so long.
    fn is_awaited(&self, read: u64, quiet: Duration, urgency: Urgency) -> bool {
        self.has_more(read) && quiet < DRAIN && urgency < Urgency::Hurry
    }
}

pub(crate) struct Live<'a> {
    port: Port,
    link: Option<LinkType>,
    flows: Flows<'a>,
    ring: RingCounts,
    interface: String,
    is_down: bool,
    /// What is wrong with the interface, as far as it was told.
    told: Vec<String>,
    stop: Stop,
    book: CaptureBook,
}

impl<'a> Live<'a> {
    pub(crate) fn new(port: Port, flows: Flows<'a>, book: CaptureBook, stop: &Stop) -> Self {
        Self {
            link: LinkType::of(port.link_type()),
            interface: port.interface().to_owned(),
            ring: RingCounts {
                kind: port.kind(),
                ..RingCounts::default()
            },
            port,
            flows,
            is_down: false,
            told: Vec::new(),
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
        // What is told of losses with the last records is what it came to.
        let seen = self.look().err().map(|error| error.to_string());
        let broken = broken.or(seen);
        self.flows.end_all();
        let shown = self.look().err().map(|error| error.to_string());
        self.book.show_end(&self.flows, Some(&self.ring));
        (broken.or(shown), self.flows, self.ring)
    }

    /// Until it shall end, or there is no interface.
    fn capture(&mut self, note: &dyn Fn(String)) -> Result<(), ProbeError> {
        let mut look_ns = clock::monotonic_ns() + LOOK_NS;
        while !self.stop.is_asked() {
            let until_ns = if self.flows.has_told() { 0 } else { look_ns };
            let event = self.port.wait(self.stop.as_fd(), until_ns)?;
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
            self.flows.hear_below();
            let now_ns = clock::monotonic_ns();
            if now_ns >= look_ns {
                look_ns = now_ns + LOOK_NS;
                self.look()?;
                self.tell_trouble(note);
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
        let Self { port, flows, .. } = self;
        let link = self.link;
        let broken = port.read(|(time_ns, wire_bytes, bytes)| {
            if flows.leak.take("ring") {
                return;
            }
            flows.take(&Frame {
                time_ns,
                link,
                bytes,
                wire_bytes,
            });
        });
        let Some(broken) = broken else {
            return false;
        };
        self.ring.broken += broken;
        self.flows.settle();
        true
    }

    /// Nothing is in the ring: what is over by the clock ends.
    fn quiet(&mut self) {
        let now_ns = clock::realtime_ns().saturating_sub(LATE_NS);
        let Self { flows, port, .. } = self;
        flows.tick(now_ns, || port.is_ready());
    }

    fn look(&mut self) -> Result<(), ProbeError> {
        self.flows.look_below();
        self.flows.hear_below();
        self.port.count(&mut self.ring)?;
        self.flows.unread = self.ring.unread();
        self.flows.hand_over();
        self.flows.came_up(self.ring.kernel.packets);
        Ok(())
    }

    /// Tells once that a part of the packets is not read, or none any more.
    fn tell_trouble(&mut self, note: &dyn Fn(String)) {
        let interface = &self.interface;
        let off = (!self.port.is_steered()).then(|| {
            format!(
                "the program that steers packets of {interface} to this process was taken off: none come any more; begin anew"
            )
        });
        for text in [off, self.ring.passes_by(interface)].into_iter().flatten() {
            if !self.told.contains(&text) {
                note(text.clone());
                self.told.push(text);
            }
        }
    }

    /// Takes what the kernel had counted when the order came.
    fn drain(&mut self) -> Result<(), ProbeError> {
        self.port.close()?;
        let mut came = Instant::now();
        loop {
            match self.read() {
                true => came = Instant::now(),
                false => std::thread::sleep(DRAIN_LOOK),
            }
            self.look()?;
            let urgency = self.stop.urgency();
            if !self
                .ring
                .is_awaited(self.flows.read, came.elapsed(), urgency)
            {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_lost_broken_or_still_to_come() {
        let mut ring = RingCounts {
            kernel: KernelCounts {
                packets: 100,
                drops: 20,
                freezes: 1_000,
            },
            no_buffer: 7,
            passed: 2_000,
            broken: 15,
            downs: 3_000,
            ..RingCounts::default()
        };
        assert_eq!((ring.lost(), ring.unread()), (27, 42));
        let more = [57, 58, 59].map(|read| ring.has_more(read));
        assert_eq!(more, [true, false, false]);
        ring.held = 1;
        assert!(ring.has_more(58));
        let awaited = |quiet, urgency| ring.is_awaited(58, quiet, urgency);
        let just = DRAIN - Duration::from_nanos(1);
        assert!(awaited(just, Urgency::Drain) && !awaited(DRAIN, Urgency::Drain));
        assert!(!awaited(just, Urgency::Hurry) && !awaited(just, Urgency::Now));
        assert!(
            ring.passes_by("far")
                .is_some_and(|text| text.contains("of far "))
        );
        assert_eq!(RingCounts::default().passes_by("far"), None);
        ring.held = 0;
        assert!(!ring.is_awaited(58, just, Urgency::Drain));
    }
}
