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

/// Bytes of a connection of TCP, or of all that a client had.
///
/// `received_bytes` = `taken_bytes` + `unread_bytes` + `closed_unread_bytes`, and `asked_bytes` = `acknowledged_bytes` + `unacknowledged_bytes` +
/// `closed_unacknowledged_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Those that came, in order and once.
    pub received_bytes: u64,
    /// Those that the program has taken.
    pub taken_bytes: u64,
    /// Those that wait for the program now.
    pub unread_bytes: u64,
    /// Those that waited for the program when it closed the connection, or came after that.
    pub closed_unread_bytes: u64,
    /// Those that the program handed over.
    pub asked_bytes: u64,
    /// Those whose receipt the peer has confirmed, by the numbers in its segments.
    pub acknowledged_bytes: u64,
    /// Those that the stack keeps, as their receipt is not confirmed: they wait, or are on their way.
    pub unacknowledged_bytes: u64,
    /// Those whose receipt it had not confirmed when the connection was closed and at its end.
    pub closed_unacknowledged_bytes: u64,
    /// Connections that the peer refused.
    pub refused: u64,
    /// Connections that the peer ended by a reset.
    pub reset: u64,
    /// Connections whose peer said nothing for too long.
    pub timed_out: u64,
    /// Connections that the program closed and that were given up before their end: their time was over, or too many of them waited for it.
    pub given_up: u64,
    /// Calls to a listener that were refused, as nothing waited for them there: the program has not accepted those before. Of all listeners; 0 for a connection.
    pub backlog_full: u64,
}

impl TcpCounts {
    pub(super) const NONE: Self = Self {
        received_bytes: 0,
        taken_bytes: 0,
        unread_bytes: 0,
        closed_unread_bytes: 0,
        asked_bytes: 0,
        acknowledged_bytes: 0,
        unacknowledged_bytes: 0,
        closed_unacknowledged_bytes: 0,
        refused: 0,
        reset: 0,
        timed_out: 0,
        given_up: 0,
        backlog_full: 0,
    };
}

impl core::ops::AddAssign for TcpCounts {
    fn add_assign(&mut self, more: Self) {
        self.received_bytes += more.received_bytes;
        self.taken_bytes += more.taken_bytes;
        self.unread_bytes += more.unread_bytes;
        self.closed_unread_bytes += more.closed_unread_bytes;
        self.asked_bytes += more.asked_bytes;
        self.acknowledged_bytes += more.acknowledged_bytes;
        self.unacknowledged_bytes += more.unacknowledged_bytes;
        self.closed_unacknowledged_bytes += more.closed_unacknowledged_bytes;
        self.refused += more.refused;
        self.reset += more.reset;
        self.timed_out += more.timed_out;
        self.given_up += more.given_up;
        self.backlog_full += more.backlog_full;
    }
}

/// What a client under a stack has counted in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpTotals {
    /// Of all sockets of UDP, those that were closed among them.
    pub udp: UdpCounts,
    /// Of all connections of TCP, those that were closed among them.
    pub tcp: TcpCounts,
    /// Segments of TCP that came for no connection and no listener: their sender is told by a reset.
    pub segments_unclaimed: u64,
    /// Datagrams that came and that no socket took: none has their port, or the stack refuses them, for their check sum, say.
    pub unclaimed: u64,
    /// What the device has counted, and the client below it: the second party of what was sent.
    pub device: IpCounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_of_a_connection_is_added_to_its_own() {
        let of = |factor: u64| TcpCounts {
            received_bytes: 2 * factor,
            taken_bytes: 3 * factor,
            unread_bytes: 4 * factor,
            closed_unread_bytes: 5 * factor,
            asked_bytes: 6 * factor,
            acknowledged_bytes: 7 * factor,
            unacknowledged_bytes: 8 * factor,
            closed_unacknowledged_bytes: 9 * factor,
            refused: 10 * factor,
            reset: 11 * factor,
            timed_out: 12 * factor,
            given_up: 13 * factor,
            backlog_full: 14 * factor,
        };
        let mut sum = of(1);
        sum += of(100);
        assert_eq!(sum, of(101));
    }
}
