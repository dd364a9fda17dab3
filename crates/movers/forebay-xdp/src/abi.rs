//! What the program of the kernel and user space share; `connections.bpf.h` has the same in C.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What may be copied to and from bytes.
///
/// # Safety
/// All of its bytes are fields, without padding, and every value of them is valid.
pub(crate) unsafe trait Plain: Copy {
    const ZERO: Self;
}

/// An address as a number in two halves, the more significant one first; one of IPv4 is that of `::ffff:a.b.c.d`.
const fn halves(address: IpAddr) -> [u64; 2] {
    let number = match address {
        IpAddr::V4(four) => 0xffff_0000_0000 | four.to_bits() as u128,
        IpAddr::V6(six) => six.to_bits(),
    };
    [(number >> 64) as u64, number as u64]
}

/// What the frames of a flow have in common, both ways: of its two ends the one with the lesser address (at one address, with the lesser port) is `low`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct Key {
    low: [u64; 2],
    high: [u64; 2],
    low_port: u16,
    high_port: u16,
    vlan: u16,
    protocol: u8,
    version: u8,
}

impl Key {
    /// The key of a packet, and whether the packet goes from high to low. Both addresses are of one version.
    pub fn of(
        source: (IpAddr, u16),
        destination: (IpAddr, u16),
        vlan: u16,
        protocol: u8,
    ) -> (Self, bool) {
        let from = (halves(source.0), source.1);
        let to = (halves(destination.0), destination.1);
        let turned = from > to;
        let (low, high) = if turned { (to, from) } else { (from, to) };
        let key = Self {
            low: low.0,
            high: high.0,
            low_port: low.1,
            high_port: high.1,
            vlan,
            protocol,
            version: if source.0.is_ipv4() { 4 } else { 6 },
        };
        (key, turned)
    }

    /// Address and port of the lesser end.
    pub fn low(&self) -> (IpAddr, u16) {
        (self.address(self.low), self.low_port)
    }

    /// Address and port of the greater end.
    pub fn high(&self) -> (IpAddr, u16) {
        (self.address(self.high), self.high_port)
    }

    /// Number of the VLAN, 0 where it is no part of the key.
    pub const fn vlan(&self) -> u16 {
        self.vlan
    }

    /// Number of the protocol in the IP packet.
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    fn address(&self, [more, less]: [u64; 2]) -> IpAddr {
        if self.version == 4 {
            IpAddr::V4(Ipv4Addr::from_bits(less as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(
                u128::from(more) << 64 | u128::from(less),
            ))
        }
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawEntry {
    pub(crate) key: Key,
    pub(crate) frames: [u64; 2],
    pub(crate) octets: [u64; 2],
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) heard_ns: u64,
    pub(crate) active_due_ns: u64,
    pub(crate) export_at: u64,
    pub(crate) tcp_flags: [u8; 2],
    pub(crate) state: u8,
    pub(crate) reason: u8,
    pub(crate) published: u8,
    pub(crate) unused: [u8; 3],
    pub(crate) lock: u32,
    pub(crate) contended: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawSettings {
    pub(crate) held: u64,
    pub(crate) capacity: u64,
    pub(crate) idle_ns: u64,
    pub(crate) limit: u64,
    pub(crate) clock_offset_ns: u64,
    pub(crate) clock_held_ns: u64,
    pub(crate) trim_bytes: u32,
    pub(crate) vlan_in_key: u8,
    pub(crate) tunnels: u8,
    pub(crate) unused: [u8; 2],
    pub(crate) snap_bytes: u32,
    pub(crate) unused_too: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawExport {
    pub(crate) key: Key,
    pub(crate) frames: [u64; 2],
    pub(crate) octets: [u64; 2],
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) now_ns: u64,
    pub(crate) tcp_flags: [u8; 2],
    pub(crate) state: u8,
    pub(crate) reason: u8,
    pub(crate) unused: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawMetadata {
    pub(crate) key: Key,
    pub(crate) time_ns: u64,
    pub(crate) octets: u32,
    pub(crate) tcp_flags: u8,
    pub(crate) turned: u8,
    pub(crate) unused: [u8; 2],
}

/// Operations of `control`, and how they ended.
pub(crate) mod control {
    pub(crate) const INSERT: u32 = 1;
    pub(crate) const SET: u32 = 2;
    pub(crate) const REMOVE: u32 = 3;
    pub(crate) const READ: u32 = 4;
    pub(crate) const CLOCK: u32 = 5;
    pub(crate) const COLLECT: u32 = 6;
    pub(crate) const DONE: u32 = 1;
    pub(crate) const EXISTS: u32 = 2;
    pub(crate) const FULL: u32 = 3;
    pub(crate) const ABSENT: u32 = 4;
    pub(crate) const IS_CLOSED: u32 = 5;
    pub(crate) const BUSY: u32 = 6;
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawCommand {
    pub(crate) operation: u32,
    pub(crate) outcome: u32,
    pub(crate) now_ns: u64,
    pub(crate) heard_ns: u64,
    pub(crate) active_due_ns: u64,
    pub(crate) state: u32,
    pub(crate) slot: u32,
    pub(crate) key: Key,
    pub(crate) entry: RawEntry,
}

pub(crate) const TERMS: usize = 18;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawCounters {
    pub(crate) of: [[u64; 2]; TERMS],
    pub(crate) exports_deferred: u64,
    pub(crate) removed: [u64; 2],
}

/// When repeated frames are sent; as in `repeat.bpf.c`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawSchedule {
    /// Of a frame, in ns / 1024.
    pub(crate) period: u64,
    pub(crate) wanted: u64,
    pub(crate) begun_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) sent: u64,
    pub(crate) interface: u32,
    pub(crate) first_port: u16,
    pub(crate) flows: u16,
}

/// Queues that the program which steers frames knows one by one; as in `redirect.bpf.c`.
pub(crate) const QUEUES: usize = 64;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawSteered {
    pub(crate) redirected: [[u64; 2]; QUEUES],
    pub(crate) passed: [[u64; 2]; QUEUES + 1],
}

macro_rules! plain {
    ($($name:ty, $bytes:literal;)*) => { $(
        const _: () = assert!(size_of::<$name>() == $bytes, "as in connections.bpf.h");
        // SAFETY: integers and arrays of them, without padding: their sizes, added up by hand, are the size that is checked above.
        unsafe impl Plain for $name {
            // SAFETY: every value of its bytes is valid, as said above.
            const ZERO: Self = unsafe { std::mem::zeroed() };
        }
    )* };
}

plain! {
    u32, 4;
    Key, 40;
    RawEntry, 128;
    RawSettings, 64;
    RawExport, 104;
    RawMetadata, 56;
    RawCommand, 208;
    RawCounters, 312;
    RawSchedule, 48;
    RawSteered, 2064;
}

const _: () = {
    assert!(std::mem::offset_of!(RawEntry, lock) == 120);
    assert!(std::mem::offset_of!(RawEntry, tcp_flags) == 112);
    assert!(std::mem::offset_of!(RawCommand, entry) == 80);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn both_directions_have_one_key() {
        let (a, b) = (address("10.0.0.2"), address("10.0.0.1"));
        let (there, turned) = Key::of((a, 443), (b, 50_000), 7, 6);
        assert!(turned);
        assert_eq!(Key::of((b, 50_000), (a, 443), 7, 6), (there, false));
        assert_eq!((there.low(), there.high()), ((b, 50_000), (a, 443)));
        assert_eq!((there.vlan(), there.protocol()), (7, 6));
        assert_ne!(Key::of((b, 50_000), (a, 443), 8, 6).0, there);
        let (six, _) = Key::of(
            (address("2001:db8::1"), 1),
            (address("::ffff:10.0.0.2"), 2),
            0,
            17,
        );
        assert_eq!(six.low(), (address("::ffff:10.0.0.2"), 2));
    }
}
