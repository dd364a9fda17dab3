//! What goes over the border by value. The test `header` makes the header of this file and of `abi.rs`: the documentation here is for people who write C.

/// Version of this interface: forebay_client_abi() says that of the library that was loaded.
pub const FOREBAY_CLIENT_ABI: u32 = 3;

/// It is done; where something may be there or not, nothing is.
pub const FOREBAY_CLIENT_OK: i32 = 0;

/// A frame is there.
pub const FOREBAY_CLIENT_FRAME: i32 = 1;
/// Buffers for frames to be sent are back, after FOREBAY_CLIENT_FULL.
pub const FOREBAY_CLIENT_ROOM: i32 = 2;
/// The time has come.
pub const FOREBAY_CLIENT_DUE: i32 = 3;
/// A signal was handled by this thread, or the bell rang for what was taken already: wait again.
pub const FOREBAY_CLIENT_EARLY: i32 = 4;
/// A socket has something for the program: a datagram, bytes, the end of a connection, a new one, or room that was waited for.
pub const FOREBAY_CLIENT_READY: i32 = 5;

/// An argument is NULL, or not what it must be.
pub const FOREBAY_CLIENT_ARGUMENT: i32 = -1;
/// The system refuses: nobody listens there, say.
pub const FOREBAY_CLIENT_SYSTEM: i32 = -2;
/// The multiplexer refuses, with a reason.
pub const FOREBAY_CLIENT_REFUSED: i32 = -3;
/// The multiplexer has not answered in time.
pub const FOREBAY_CLIENT_SILENT: i32 = -4;
/// The multiplexer has ended the connection, or is dead: disconnect and connect again.
pub const FOREBAY_CLIENT_GONE: i32 = -5;
/// What came is not what a multiplexer sends, or its memory not what it should be.
pub const FOREBAY_CLIENT_PROTOCOL: i32 = -6;
/// All buffers are on their way, or as many datagrams wait as a socket keeps: wait until some are back, or sent.
pub const FOREBAY_CLIENT_FULL: i32 = -7;
/// A frame or datagram of a length that the link does not take, or a datagram for which the program has too little room.
pub const FOREBAY_CLIENT_LENGTH: i32 = -8;
/// A number of no frame that this program has: out of range, never given, or given back before.
pub const FOREBAY_CLIENT_NO_FRAME: i32 = -9;
/// Another thread is in a call with this client.
pub const FOREBAY_CLIENT_BUSY: i32 = -10;
/// A defect of the library, whose text is for its makers. The client can only be disconnected.
pub const FOREBAY_CLIENT_DEFECT: i32 = -11;
/// The client has an IP stack, and its frames are the stack's; or it has none, and the call is for one that has.
pub const FOREBAY_CLIENT_STACK: i32 = -12;
/// A number of no socket that is open.
pub const FOREBAY_CLIENT_NO_SOCKET: i32 = -13;
/// The port has a socket of this client, or it has as many sockets as it may have (64).
pub const FOREBAY_CLIENT_TAKEN: i32 = -14;
/// There is no way to that address: it is in no network of the client, and there is no gateway.
pub const FOREBAY_CLIENT_NO_WAY: i32 = -15;
/// The place has no IP address in the multiplexer's file.
pub const FOREBAY_CLIENT_NO_ADDRESS: i32 = -16;

/// The peer has nothing that listens there.
pub const FOREBAY_CLIENT_PEER_REFUSED: i32 = -17;
/// The peer has reset the connection.
pub const FOREBAY_CLIENT_PEER_RESET: i32 = -18;
/// The peer has said nothing for too long, 30 s: the connection is given up.
pub const FOREBAY_CLIENT_PEER_SILENT: i32 = -19;
/// The program has said that it sends no more on this connection.
pub const FOREBAY_CLIENT_SHUT_DOWN: i32 = -20;
/// The connection is not made yet.
pub const FOREBAY_CLIENT_CONNECTING: i32 = -21;

/// Most addresses of a client.
pub const FOREBAY_CLIENT_ADDRESSES_MAX: usize = 8;

/// An IP address of a client, for which the multiplexer answers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForebayClientAddress {
    /// 4 or 6.
    pub version: u8,
    /// The address, the most significant byte first: 4 bytes and 12 zeroes, or 16 bytes.
    pub bytes: [u8; 16],
}

/// What the multiplexer gave.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForebayClientProperties {
    /// MTU of the link in bytes, without the header of a frame.
    pub mtu_bytes: u32,
    /// Most bytes of a frame that can be sent; the least are 14.
    pub frame_bytes_max: u32,
    /// Buffers in which frames come, of all clients.
    pub receive_frames: u32,
    /// Bytes of each.
    pub receive_frame_bytes: u32,
    /// Buffers in which frames go.
    pub transmit_frames: u32,
    /// Bytes of each.
    pub transmit_frame_bytes: u32,
    /// The client's VLAN, 1 to 4094; 0: none of its own.
    pub vlan: u16,
    /// The Ethernet address, which frames that are sent must name as their sender.
    pub mac: [u8; 6],
    /// Number of the client.
    pub number: u8,
    /// How many addresses there are.
    pub address_count: u8,
    /// The addresses.
    pub addresses: [ForebayClientAddress; FOREBAY_CLIENT_ADDRESSES_MAX],
}

/// A received frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ForebayClientFrame {
    /// Its bytes, for reading alone, until forebay_client_release(). The multiplexer could write them meanwhile, if it were not honest: copy what is checked.
    pub data: *const u8,
    /// How many they are.
    pub bytes: u32,
    /// Its number, for forebay_client_release().
    pub number: u32,
}

/// A buffer in which a frame is made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ForebayClientBuffer {
    /// Where the frame goes, until forebay_client_send() or forebay_client_put_back(). What was sent before is still there.
    pub data: *mut u8,
    /// Most bytes of the frame.
    pub bytes_max: u32,
    /// Its number, for these two.
    pub number: u32,
}

/// What a client has counted: the second party of its account at the multiplexer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ForebayClientCounts {
    /// Frames received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames handed over to be sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Calls that found all buffers on their way (FOREBAY_CLIENT_FULL).
    pub refused_full: u64,
}
