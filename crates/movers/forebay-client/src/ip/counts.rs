//! What sockets count, each term where it happens.

use super::IpCounts;

/// Datagrams and bytes of their payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Datagrams.
    pub items: u64,
    /// Bytes of their payload.
    pub bytes: u64,
}

impl Datagrams {
    /// One more, of so many bytes.
    pub(super) const fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes as u64;
    }
}

impl core::ops::AddAssign for Datagrams {
    fn add_assign(&mut self, more: Self) {
        self.items += more.items;
        self.bytes += more.bytes;
    }
}

/// Datagrams of a socket of UDP, or of all that a client had.
///
/// `received` = `taken` + `queue_full` + `unread` + `closed_unread`, and `asked` = `sent` + `unresolved` + `no_way` + `unsent` + `closed_unsent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Those that came for the socket.
    pub received: Datagrams,
    /// Those that the program has taken.
    pub taken: Datagrams,
    /// Those that were dropped, as many waited for the program as the socket keeps.
    pub queue_full: Datagrams,
    /// Those that wait for the program now.
    pub unread: Datagrams,
    /// Those that waited for the program when it closed the socket.
    pub closed_unread: Datagrams,
    /// Those that the program handed over.
    pub asked: Datagrams,
    /// Those in frames that the multiplexer was handed.
    pub sent: Datagrams,
    /// Those that were given up, as nobody said for 3 s which Ethernet address their receiver has.
    pub unresolved: Datagrams,
    /// Those that the stack refused to send.
    pub no_way: Datagrams,
    /// Those that wait to be sent now.
    pub unsent: Datagrams,
    /// Those that waited to be sent when the program closed the socket.
    pub closed_unsent: Datagrams,
    /// Calls that found as many waiting as the socket keeps, and handed over nothing.
    pub refused_full: u64,
}

impl core::ops::AddAssign for UdpCounts {
    fn add_assign(&mut self, more: Self) {
        self.received += more.received;
        self.taken += more.taken;
        self.queue_full += more.queue_full;
        self.unread += more.unread;
        self.closed_unread += more.closed_unread;
        self.asked += more.asked;
        self.sent += more.sent;
        self.unresolved += more.unresolved;
        self.no_way += more.no_way;
        self.unsent += more.unsent;
        self.closed_unsent += more.closed_unsent;
        self.refused_full += more.refused_full;
    }
}

/// What a client under a stack has counted in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpTotals {
    /// Of all sockets of UDP, those that were closed among them.
    pub udp: UdpCounts,
    /// Datagrams that came and that no socket took: none has their port, or the stack refuses them, for their check sum, say.
    pub unclaimed: u64,
    /// What the device has counted, and the client below it: the second party of what was sent.
    pub device: IpCounts,
}
