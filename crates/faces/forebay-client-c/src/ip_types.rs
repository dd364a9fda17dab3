//! What goes over the border by value with an IP stack. The test `header` makes the header of this file as well: the documentation here is for people who write C.

use crate::types::ForebayClientAddress;

/// The network of a client: the multiplexer says its addresses alone. A prefix of 0 bits is a network of all addresses, and no gateway is used then; NULL in place of all is 24 and 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForebayClientNetwork {
    /// Bits of an address of version 4 that name the network, 0 to 32.
    pub prefix_v4: u8,
    /// Bits of an address of version 6 that name the network, 0 to 128.
    pub prefix_v6: u8,
    /// The way to other networks of version 4; version 0: there is none.
    pub gateway_v4: ForebayClientAddress,
    /// The way to other networks of version 6; version 0: there is none.
    pub gateway_v6: ForebayClientAddress,
}

/// An address and a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForebayClientEndpoint {
    /// The address.
    pub address: ForebayClientAddress,
    /// The port, as a number of this host.
    pub port: u16,
}

/// Datagrams, and bytes of their payload.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForebayClientDatagrams {
    /// Datagrams.
    pub items: u64,
    /// Bytes of their payload.
    pub bytes: u64,
}

/// Bytes of all connections of TCP of a client, those that were closed among them: received_bytes = taken_bytes + unread_bytes + closed_unread_bytes, and
/// asked_bytes = acknowledged_bytes + unacknowledged_bytes + closed_unacknowledged_bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForebayClientTcpCounts {
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

/// Datagrams of all sockets of a client, those that were closed among them: received = taken + queue_full + unread + closed_unread, and
/// asked = sent + unresolved + no_way + unsent + closed_unsent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForebayClientIpCounts {
    /// Those that came for a socket.
    pub received: ForebayClientDatagrams,
    /// Those that the program has taken.
    pub taken: ForebayClientDatagrams,
    /// Those that were dropped, as many waited for the program as the socket keeps.
    pub queue_full: ForebayClientDatagrams,
    /// Those that wait for the program now.
    pub unread: ForebayClientDatagrams,
    /// Those that waited for the program when it closed their socket.
    pub closed_unread: ForebayClientDatagrams,
    /// Those that the program handed over.
    pub asked: ForebayClientDatagrams,
    /// Those in frames that the multiplexer was handed.
    pub sent: ForebayClientDatagrams,
    /// Those that were given up, as nobody said for 3 s which Ethernet address their receiver has.
    pub unresolved: ForebayClientDatagrams,
    /// Those that the stack refused to send.
    pub no_way: ForebayClientDatagrams,
    /// Those that wait to be sent now.
    pub unsent: ForebayClientDatagrams,
    /// Those that waited to be sent when the program closed their socket.
    pub closed_unsent: ForebayClientDatagrams,
    /// Frames that the multiplexer was handed, as the client counted them, less those without a datagram: the second party of what was sent.
    pub frames_sent: ForebayClientDatagrams,
    /// Segments of TCP that the multiplexer was handed, and bytes of their payload, those that were sent again among them.
    pub segments_sent: ForebayClientDatagrams,
    /// Segments of TCP that came, and bytes of their payload.
    pub segments_received: ForebayClientDatagrams,
    /// What connections of TCP have counted.
    pub tcp: ForebayClientTcpCounts,
    /// Segments of TCP that came for no connection and no listener: their sender was told by a reset.
    pub segments_unclaimed: u64,
    /// Datagrams that came and that no socket took: none has their port, or the stack refuses them, for their check sum, say.
    pub unclaimed: u64,
    /// Calls that found as many waiting as the socket keeps (FOREBAY_CLIENT_FULL).
    pub refused_full: u64,
    /// Times that the stack had something to send and all buffers were on their way.
    pub no_room: u64,
    /// Answers of the stack (to a neighbour's question, say) that were lost, as all buffers were on their way.
    pub answers_lost: u64,
    /// Frames that came with another tag than that of the client's VLAN.
    pub foreign_tag: u64,
}
