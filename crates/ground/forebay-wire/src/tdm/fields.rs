//! The fields of each kind.

use core::fmt;

use super::cursor::{Put, Take};
use super::{DATAGRAM_BYTES_MAX, NAME_BYTES_MAX, SENDERS_MAX, TdmError};

/// Most that is counted of anything: sums of several stay far below what 64 bits hold.
pub(super) const COUNT_MAX: u64 = u64::MAX / 4;
/// Least bytes of a full data datagram: heads, hash and a little.
const PACKET_BYTES_MIN: u64 = 128;

/// The schedule of those that share the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// No schedule: all at once, for comparison.
    Incast = 1,
    /// A slot for each sender, flat out inside it.
    Slots = 2,
    /// A slot for each sender, paced at the port's rate inside it.
    SlotsPaced = 3,
    /// The receiver grants window after window.
    Credit = 4,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Incast, Self::Slots, Self::SlotsPaced, Self::Credit];

    /// Its name in files and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incast => "incast",
            Self::Slots => "slots",
            Self::SlotsPaced => "slots-paced",
            Self::Credit => "credit",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A sender asks to take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Another number for each start of this sender.
    pub nonce: u64,
    /// Its part of the port against those of others, 1 to 65,535.
    pub share: u16,
    /// Most bytes of a datagram that reach the receiver in one piece.
    pub packet_bytes_max: u16,
    /// What its stream holds.
    pub carries: Carries,
    /// Its name, 1 to 64 bytes of UTF-8 without control characters.
    pub name: &'a str,
}

impl<'a> Hello<'a> {
    pub(super) fn take(take: &mut Take<'a>) -> Result<Self, TdmError> {
        let nonce = take.u64()?;
        let share = take.u16()?;
        let share = take.within("share", share, 1, u64::from(u16::MAX))?;
        let bytes = take.u16()?;
        let most = DATAGRAM_BYTES_MAX as u64;
        let packet_bytes_max = take.within("packet_bytes_max", bytes, PACKET_BYTES_MIN, most)?;
        let carries = Carries::take(take)?;
        let length = take.u8()?;
        let length = take.within("name length", length, 1, NAME_BYTES_MAX as u64)?;
        let name = take.bytes(usize::from(length))?;
        let named = core::str::from_utf8(name).ok();
        let name = named
            .filter(|name| !name.chars().any(char::is_control))
            .ok_or_else(|| take.field("name", u64::from(length)))?;
        Ok(Self {
            nonce,
            share,
            packet_bytes_max,
            carries,
            name,
        })
    }

    pub(super) fn put(&self, put: &mut Put<'_>) {
        put.u64(self.nonce);
        put.u16(self.share);
        put.u16(self.packet_bytes_max);
        put.u8(self.carries as u8);
        put.u8(self.name.len().min(NAME_BYTES_MAX) as u8);
        put.bytes(self.name.as_bytes());
    }
}

/// The receiver's configuration. The sender's index stands in the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The sender's own number, back.
    pub nonce: u64,
    /// The schedule of those that share the port.
    pub mode: Mode,
    /// Senders of the session.
    pub senders: u16,
    /// Bytes of a full data datagram: heads, payload and hash.
    pub packet_bytes: u16,
    /// Most packets that are sent at once.
    pub burst_packets: u16,
    /// Most packets by which a sender that was held up may run after its schedule.
    pub catch_up_packets: u16,
    /// Most packets of one window.
    pub window_packets: u32,
    /// Windows of each sender; 0: until its input ends.
    pub windows: u32,
    /// Start of the sender's window 0; 0: not known yet.
    pub start_ns: u64,
    /// Length of its windows, in ns.
    pub window_ns: u64,
    /// From the start of a window to that of the next, in ns.
    pub cycle_ns: u64,
    /// Nothing is sent for so long after a window, in ns.
    pub guard_ns: u64,
    /// From packet to packet inside a window, in ps; 0: flat out.
    pub pace_ps: u64,
    /// One that says nothing for so long is taken for dead, in ns.
    pub silence_ns: u64,
    /// What its wall clock shows more than its time base, in ns, as two's complement.
    pub wall_ns: u64,
    /// Bound of its wall clock's error against UTC where another program disciplines it, in ns; 0: nobody does.
    pub wall_error_ns: u64,
}

impl Welcome {
    pub(super) fn take(take: &mut Take<'_>) -> Result<Self, TdmError> {
        let nonce = take.u64()?;
        let mode = take.u8()?;
        let mode = Mode::ALL
            .into_iter()
            .find(|known| *known as u8 == mode)
            .ok_or_else(|| take.field("mode", u64::from(mode)))?;
        let senders = take.u16()?;
        let senders = take.within("senders", senders, 1, u64::from(SENDERS_MAX))?;
        let bytes = take.u16()?;
        let most = DATAGRAM_BYTES_MAX as u64;
        let packet_bytes = take.within("packet_bytes", bytes, PACKET_BYTES_MIN, most)?;
        let burst = take.u16()?;
        let burst_packets = take.within("burst_packets", burst, 1, u64::from(u16::MAX))?;
        let catch_up_packets = take.u16()?;
        let packets = take.u32()?;
        let window_packets = take.within("window_packets", packets, 1, u64::from(u32::MAX))?;
        let windows = take.u32()?;
        let start_ns = take.u64()?;
        // An hour: times that are sums of these stay far below what 64 bits hold.
        let hour_ns = 3_600_000_000_000;
        let mut span = |field, least| {
            let value = take.u64()?;
            take.within(field, value, least, hour_ns)
        };
        let window_ns = span("window_ns", 1)?;
        let cycle_ns = span("cycle_ns", window_ns)?;
        let guard_ns = span("guard_ns", 0)?;
        let pace_ps = span("pace_ps", 0)?;
        let silence_ns = span("silence_ns", 1)?;
        let start_ns = take.within("start_ns", start_ns, 0, COUNT_MAX)?;
        let (wall_ns, wall_error_ns) = (take.u64()?, take.u64()?);
        Ok(Self {
            nonce,
            mode,
            senders,
            packet_bytes,
            burst_packets,
            catch_up_packets,
            window_packets,
            windows,
            start_ns,
            window_ns,
            cycle_ns,
            guard_ns,
            pace_ps,
            silence_ns,
            wall_ns,
            wall_error_ns,
        })
    }

    pub(super) fn put(&self, put: &mut Put<'_>) {
        put.u64(self.nonce);
        put.u8(self.mode as u8);
        put.u16(self.senders);
        put.u16(self.packet_bytes);
        put.u16(self.burst_packets);
        put.u16(self.catch_up_packets);
        put.u32(self.window_packets);
        put.u32(self.windows);
        put.u64(self.start_ns);
        put.u64(self.window_ns);
        put.u64(self.cycle_ns);
        put.u64(self.guard_ns);
        put.u64(self.pace_ps);
        put.u64(self.silence_ns);
        put.u64(self.wall_ns);
        put.u64(self.wall_error_ns);
    }
}

/// Declares an enum of one byte with the names that people read.
macro_rules! byte_enum {
    ($(#[$about:meta])* $name:ident, $field:literal: $($(#[$doc:meta])* $variant:ident = $number:literal, $text:literal;)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $number,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// What it says to people.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            fn take(take: &mut Take<'_>) -> Result<Self, TdmError> {
                let found = take.u8()?;
                match found {
                    $($number => Ok(Self::$variant),)+
                    _ => Err(take.field($field, u64::from(found))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}

byte_enum! {
    /// Why a sender may not take part.
    RefuseReason, "reason":
    /// As many senders as were planned are there.
    Full = 1, "all places are taken";
    /// A sender of that name is alive.
    NameTaken = 2, "a sender of that name is taking part";
    /// The receiver holds a key and the hash is wrong or absent.
    Key = 3, "the key is not the receiver's";
    /// Its datagrams are too small for the plan.
    PacketBytes = 4, "its path carries smaller packets than the plan has";
    /// The session is over, or this one is not known.
    NoSession = 5, "the receiver does not know this session";
}

byte_enum! {
    /// What a sender's stream holds.
    #[derive(Default)]
    Carries, "carries":
    /// Bytes, without any boundary.
    #[default]
    Bytes = 1, "bytes";
    /// Pieces of heaps (see [`mod@crate::heap`]): every packet begins with one.
    Heaps = 2, "heaps";
}

byte_enum! {
    /// Why an end came.
    EndReason, "reason":
    /// All windows, or the input's end.
    Complete = 1, "complete";
    /// Somebody asked for it.
    Interrupted = 2, "interrupted";
    /// Something failed.
    Failed = 3, "failed";
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The sender's own number, back; 0 where it is not known.
    pub nonce: u64,
    /// Why.
    pub reason: RefuseReason,
}

impl Refusal {
    pub(super) fn take(take: &mut Take<'_>) -> Result<Self, TdmError> {
        Ok(Self {
            nonce: take.u64()?,
            reason: RefuseReason::take(take)?,
        })
    }

    pub(super) fn put(&self, put: &mut Put<'_>) {
        put.u64(self.nonce);
        put.u8(self.reason as u8);
    }
}

/// The session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: EndReason,
}

impl Stop {
    pub(super) fn take(take: &mut Take<'_>) -> Result<Self, TdmError> {
        let reason = EndReason::take(take)?;
        Ok(Self { reason })
    }

    pub(super) fn put(&self, put: &mut Put<'_>) {
        put.u8(self.reason as u8);
    }
}

/// Declares a struct of fixed fields.
macro_rules! plain {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)+ }

        impl $name {
            pub(super) fn take(take: &mut Take<'_>) -> Result<Self, TdmError> {
                Ok(Self { $($field: take.$kind()?,)+ })
            }

            pub(super) fn put(&self, put: &mut Put<'_>) {
                $(put.$kind(self.$field);)+
            }
        }
    };
}

plain! {
    /// An exchange of clock readings begins. It is as long as [`Reply`] and [`FollowUp`], so that both ways take the same time.
    Probe {
        /// Which exchange of this sender.
        sequence: u32,
        /// 0.
        reserved: u32,
        /// 0.
        unused_ns: u64,
    }
}

plain! {
    /// When the probe came.
    Reply {
        /// The exchange.
        sequence: u32,
        /// Which answer: a probe that came twice has two, and a follow up is of one of them.
        answer: u32,
        /// The kernel's stamp of the probe's arrival.
        came_ns: u64,
    }
}

plain! {
    /// When the reply left.
    FollowUp {
        /// The exchange.
        sequence: u32,
        /// The reply's.
        answer: u32,
        /// The kernel's stamp of the reply's departure.
        left_ns: u64,
    }
}

plain! {
    /// A sender knows its clock.
    Ready {
        /// Bound of the error of its clock against the receiver's, in ns.
        clock_error_ns: u64,
        /// How late it wakes up, in ns: 99 % of trials are better.
        lateness_ns: u64,
        /// One way of the path, in ns: half of the shortest exchange.
        delay_ns: u64,
        /// What its clock gains on the receiver's, in 10^-9, as two's complement.
        skew_ppb: u32,
        /// Where its stream stands, in bytes: what it sent in earlier sessions.
        offset: u64,
        /// 1: it runs at real-time priority.
        real_time: u8,
        /// 1: that bound of the clock's error is that of both wall clocks, which another program disciplines; 0: it is that of exchanges.
        disciplined: u8,
    }
}

plain! {
    /// Send a window now.
    Grant {
        /// Which window of this sender.
        window: u32,
        /// Most packets.
        packets: u32,
        /// Not before this time.
        start_ns: u64,
    }
}

plain! {
    /// What a window was, told at its end.
    Report {
        /// The window.
        window: u32,
        /// Packets that were given to the kernel, failed ones included.
        packets: u32,
        /// Of them, those that the kernel refused.
        errors: u32,
        /// Packets that no longer fitted and wait for a later window.
        carried: u32,
        /// Windows before this one in which nothing could be sent, since the last report.
        preempted: u32,
        /// How late the first packet was, in ns.
        lateness_ns: u32,
        /// Bound of the clock's error, in ns.
        clock_error_ns: u32,
        /// Number of its first packet.
        first_packet: u64,
        /// Bytes of payload in it.
        payload_bytes: u64,
        /// When its first packet was given to the kernel.
        first_ns: u64,
        /// When its last packet was.
        last_ns: u64,
    }
}

plain! {
    /// The reports that have come.
    Reported {
        /// All windows below this one.
        next: u32,
        /// The highest window whose report has come.
        highest: u32,
    }
}

/// Totals of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Why it ends.
    pub reason: EndReason,
    /// Windows with at least one packet.
    pub windows: u32,
    /// Packets given to the kernel; in the answer those that came.
    pub packets: u64,
    /// Of them, those that the kernel refused; in the answer those that were lost.
    pub errors: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Length of the stream, from the first byte of the input to the last.
    pub stream_bytes: u64,
    /// Heaps of which at least a piece was given to the kernel, since the stream began; 0 in the answer, and where the stream is of bytes.
    pub heaps: u64,
}

impl End {
    pub(super) fn take(take: &mut Take<'_>) -> Result<Self, TdmError> {
        let end = Self {
            reason: EndReason::take(take)?,
            windows: take.u32()?,
            packets: take.u64()?,
            errors: take.u64()?,
            payload_bytes: take.u64()?,
            stream_bytes: take.u64()?,
            heaps: take.u64()?,
        };
        for (field, count) in [
            ("packets", end.packets),
            ("errors", end.errors),
            ("payload_bytes", end.payload_bytes),
            ("stream_bytes", end.stream_bytes),
            ("heaps", end.heaps),
        ] {
            take.within(field, count, 0, COUNT_MAX)?;
        }
        Ok(end)
    }

    pub(super) fn put(&self, put: &mut Put<'_>) {
        put.u8(self.reason as u8);
        put.u32(self.windows);
        put.u64(self.packets);
        put.u64(self.errors);
        put.u64(self.payload_bytes);
        put.u64(self.stream_bytes);
        put.u64(self.heaps);
    }
}
