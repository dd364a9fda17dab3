//! Packets as frames of Ethernet on an interface: each target has a packet socket of its own, whose filter takes the frames of that station alone, and whose ring the kernel
//! fills and stamps.

mod echo;
mod place;

use std::os::fd::{AsFd as _, BorrowedFd};

use forebay_link::packet::{FramePort, InterfaceState, KernelCounts};
use forebay_load::{Load, SendDrop};
use forebay_sys::SysError;
use forebay_sys::clock::monotonic_ns;
use forebay_sys::socket::raise_send_buffer;
use forebay_sys::udp_batch::SendStop;

pub(crate) use echo::RawEcho;
pub use place::RawPlan;
pub(crate) use place::{FRAME_BYTES_MIN, HEADER_BYTES, Place};

use crate::LoadError;
use crate::address::Station;
use crate::end::{End, RingCounts, Seen, Trouble};
use crate::sender::{EMSGSIZE, Sender};

/// Room for frames that have not left, in bytes, where the host allows it.
const BUFFER_BYTES: usize = 4 << 20;
/// Frames that are taken by one look at the clock.
const SLOTS: usize = 64;
/// Such looks before the others have their turn.
const ROUNDS: usize = 4;

pub(crate) struct Raw {
    port: FramePort,
    sender: Sender,
    taken: u64,
    kernel: KernelCounts,
    is_shut: bool,
    trouble: Trouble,
    fault: Option<String>,
}

/// A second descriptor of a port, which sends.
fn sending_fd(port: &FramePort) -> Result<std::os::fd::OwnedFd, SysError> {
    let fd = port.as_fd().try_clone_to_owned();
    fd.map_err(|why| SysError::new("dup", port.interface(), why))
}

/// Why frames go and come no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The interface is down, and they come again when it is up.
    Down(String),
    /// The interface is there no more.
    Gone(String),
}

impl Fault {
    /// That of a port's interface, if it is not up.
    fn of(port: &mut FramePort) -> Option<Self> {
        let state = port.state();
        let name = port.interface();
        match state {
            InterfaceState::Up => None,
            InterfaceState::Down => Some(Self::Down(format!(
                "{name} went down: `ip link set {name} up`"
            ))),
            InterfaceState::Gone => Some(Self::Gone(format!("{name} is there no more"))),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Down(text) | Self::Gone(text) => text,
        }
    }
}

impl Raw {
    /// The way to a station, one of so many, for frames of at most so many bytes.
    pub(crate) fn open(
        place: &Place,
        to: Station,
        targets: usize,
        frame_bytes_max: usize,
    ) -> Result<Self, LoadError> {
        let port = place.port(Some(to), targets, frame_bytes_max)?;
        let fd = sending_fd(&port)?;
        raise_send_buffer(&fd, BUFFER_BYTES)?;
        Ok(Self {
            sender: Sender::new(fd, frame_bytes_max, &place.header(to))?,
            port,
            taken: 0,
            kernel: KernelCounts::default(),
            is_shut: false,
            trouble: Trouble::default(),
            fault: None,
        })
    }

    /// Takes up to so many frames: how many there were.
    fn take(&mut self, load: &mut Load, at: usize, seen: &mut Seen) -> usize {
        let now_ns = monotonic_ns();
        let mut taken = 0;
        while taken < SLOTS
            && let Some(mut place) = self.port.take()
        {
            taken += 1;
            if load.take_ring_leak() {
                continue;
            }
            self.taken += 1;
            // A head that contradicts itself is one of no frame of ours.
            let (frame, stamp_ns) = match place.frame() {
                Ok(frame) => (frame.bytes, Some(frame.timestamp_ns)),
                Err(_) => (&[][..], None),
            };
            let came = load.handle_packet(at, frame, now_ns, stamp_ns);
            seen.take(at, came);
        }
        taken
    }

    /// What woke it was no frame and no stamp: the interface may be down.
    fn look(&mut self, load: &mut Load, at: usize) {
        if let Some(fault) = Fault::of(&mut self.port) {
            self.lose(load, at, fault);
        }
    }

    fn lose(&mut self, load: &mut Load, at: usize, fault: Fault) {
        let fault = fault.text();
        self.trouble.note(&fault);
        self.fault = Some(fault);
        load.handle_lost(at);
    }
}

/// The frame at which a call stopped; whether others can be sent now. Nothing is settled of one that the interface's state may explain.
fn settle(trouble: &mut Trouble, load: &mut Load, at: usize, stop: &SendStop) -> Option<bool> {
    match stop {
        SendStop::WouldBlock => return Some(false),
        SendStop::NoBuffers => load.handle_refused(at, SendDrop::NoBuffer),
        SendStop::Failed(error) if error.raw_os_error() == Some(EMSGSIZE) => {
            trouble.note(error);
            load.handle_refused(at, SendDrop::TooLong);
        }
        SendStop::Refused | SendStop::Failed(_) => return None,
    }
    Some(true)
}

impl End for Raw {
    fn fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }

    fn send(&mut self, load: &mut Load, at: usize) -> bool {
        let Self {
            port,
            sender,
            trouble,
            ..
        } = self;
        let mut lost = None;
        let mut settle = |load: &mut Load, stop: &SendStop| {
            let settled = settle(trouble, load, at, stop);
            settled.unwrap_or_else(|| {
                lost = Fault::of(port);
                if lost.is_none() {
                    let number = stop.errno().unwrap_or(0);
                    trouble.note(std::io::Error::from_raw_os_error(number));
                    load.handle_refused(at, SendDrop::Refused);
                }
                lost.is_none()
            })
        };
        let had_room = sender.send(load, at, &mut settle);
        if let Some(fault) = lost {
            self.lose(load, at, fault);
        }
        had_room
    }

    fn receive(&mut self, load: &mut Load, at: usize, seen: &mut Seen) {
        let has_stamps = self.sender.take_stamps(load, at, &mut self.trouble);
        for round in 0..ROUNDS {
            let taken = self.take(load, at, seen);
            if taken == 0 && round == 0 && !has_stamps {
                self.look(load, at);
            }
            if taken < SLOTS {
                return;
            }
        }
    }

    fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    fn is_lost(&self) -> bool {
        self.fault.is_some()
    }

    fn dropped(&self) -> u64 {
        self.kernel.drops
    }

    fn ring(&mut self) -> Option<RingCounts> {
        Some(ring_counts(
            &mut self.port,
            &mut self.kernel,
            self.taken,
            self.is_shut,
        ))
    }

    fn shut(&mut self, load: &mut Load, at: usize, seen: &mut Seen) {
        // A ring that cannot be shut goes on, and its account says so.
        self.is_shut = self.port.close().is_ok();
        while self.is_shut && self.take(load, at, seen) > 0 {}
    }

    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}

/// What was counted at the ring of a port, of which so many frames were taken: all of it is looked at where nothing comes any more.
fn ring_counts(
    port: &mut FramePort,
    kernel: &mut KernelCounts,
    taken: u64,
    is_shut: bool,
) -> RingCounts {
    // What is held is read first: a frame that comes in between is not counted as one too many.
    let held = if is_shut { port.held() } else { port.waiting() };
    // Of an answer that does not come the one before stands.
    *kernel = port.kernel_counts().unwrap_or(*kernel);
    RingCounts {
        came: kernel.packets,
        dropped: kernel.drops,
        taken,
        held,
    }
}
