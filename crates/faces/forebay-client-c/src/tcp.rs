//! The functions for connections of TCP. The test `header` makes the header of this file as well: the documentation here is that of the C header.

use forebay_client::ip::{SocketId, TcpCounts, TcpLimits};

use crate::error::{Failure, guarded};
use crate::handle::{ForebayClient, Parts, present, put};
use crate::ip::{code, endpoint, endpoint_of, stepped, until};
use crate::ip_types::*;
use crate::types::*;

/// Opens a connection to a host, from a port of its own, and waits up to `timeout_ns` until it is made: FOREBAY_CLIENT_READY, or FOREBAY_CLIENT_DUE while it is
/// not. `*socket` is its number, and 0 after an error: FOREBAY_CLIENT_PEER_REFUSED, _PEER_RESET, _PEER_SILENT, _NO_WAY or _TAKEN. It keeps 256 KiB each way.
///
/// # Safety
/// `client` is NULL or connected; `to` is NULL or one of the caller's; `socket` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_tcp_connect(
    client: *mut ForebayClient,
    to: *const ForebayClientEndpoint,
    timeout_ns: u64,
    socket: *mut u32,
) -> i32 {
    let until = until(timeout_ns);
    guarded(|| {
        // SAFETY: memory of the caller's, or null.
        unsafe { put(socket, "socket", 0)? };
        let connect = |parts: &mut Parts| {
            // SAFETY: one of the caller's, if it is present.
            let to = unsafe { present(to, "to")?.read() };
            let to = endpoint_of(&to)?;
            let ip = parts.ip()?;
            let id = ip.tcp_connect(to, TcpLimits::default())?;
            let made = stepped(ip, until, |ip| Ok(ip.tcp_is_connected(id)?.then_some(())));
            if made.is_err() {
                ip.tcp_close(id)?;
            }
            Ok((id, made?))
        };
        // SAFETY: a client that is connected, or null.
        let (id, made) = unsafe { ForebayClient::enter(client, connect)? };
        // SAFETY: memory of the caller's, which was written above.
        unsafe { put(socket, "socket", id.0)? };
        Ok(code(made.is_some()))
    })
}

/// Listens at a port of all addresses of the client; port 0: at one that is free. So many connections wait for the program, 1 to 64; one that comes then is
/// refused. `*socket` is the number of the listener.
///
/// # Safety
/// `client` is NULL or connected; `socket` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_tcp_listen(
    client: *mut ForebayClient,
    port: u16,
    backlog: u32,
    socket: *mut u32,
) -> i32 {
    guarded(|| {
        present(socket, "socket")?;
        let limits = TcpLimits::default();
        let listen =
            |parts: &mut Parts| Ok(parts.ip()?.tcp_listen(port, backlog as usize, limits)?);
        // SAFETY: a client that is connected, or null.
        let id = unsafe { ForebayClient::enter(client, listen)? };
        // SAFETY: memory of the caller's.
        unsafe { put(socket, "socket", id.0)? };
        Ok(FOREBAY_CLIENT_OK)
    })
}

/// The next connection of a listener, which is waited for up to `timeout_ns`: FOREBAY_CLIENT_READY with its number in `*socket` and its far end in `*from`, or
/// FOREBAY_CLIENT_DUE.
///
/// # Safety
/// `client` is NULL or connected; `socket` and `from` are NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_tcp_accept(
    client: *mut ForebayClient,
    listener: u32,
    socket: *mut u32,
    from: *mut ForebayClientEndpoint,
    timeout_ns: u64,
) -> i32 {
    let until = until(timeout_ns);
    guarded(|| {
        present(socket, "socket")?;
        present(from, "from")?;
        let accept = |parts: &mut Parts| {
            let ip = parts.ip()?;
            let came = stepped(ip, until, |ip| ip.tcp_accept(SocketId(listener)))?;
            let with_peer = |id| Ok((id, ip.tcp_peer(id)?));
            came.map(with_peer).transpose()
        };
        // SAFETY: a client that is connected, or null.
        let Some((id, peer)) = (unsafe { ForebayClient::enter(client, accept)? }) else {
            return Ok(FOREBAY_CLIENT_DUE);
        };
        // SAFETY: memory of the caller's.
        unsafe { put(from, "from", endpoint(peer))? };
        // SAFETY: memory of the caller's.
        unsafe { put(socket, "socket", id.0)? };
        Ok(FOREBAY_CLIENT_READY)
    })
}

/// The port of a connection or of a listener, 1 to 65535.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_tcp_port(client: *mut ForebayClient, socket: u32) -> i32 {
    let port = |parts: &mut Parts| Ok(parts.ip()?.tcp_port(SocketId(socket))?.into());
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, port) })
}

/// Hands over as many of these bytes as there is room for, which `*sent` says; they go with the next forebay_client_flush() or call that waits. While there is no
/// room it is waited for up to `timeout_ns`: FOREBAY_CLIENT_DUE. FOREBAY_CLIENT_READY: some were handed over. A connection at its end is
/// FOREBAY_CLIENT_PEER_RESET, _PEER_SILENT, _PEER_REFUSED or _SHUT_DOWN.
///
/// # Safety
/// `client` is NULL or connected; `data` is NULL or `bytes` bytes of the caller's; `sent` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_tcp_send(
    client: *mut ForebayClient,
    socket: u32,
    data: *const u8,
    bytes: usize,
    sent: *mut usize,
    timeout_ns: u64,
) -> i32 {
    let until = until(timeout_ns);
    guarded(|| {
        // SAFETY: memory of the caller's, or null.
        unsafe { put(sent, "sent", 0)? };
        let send = |parts: &mut Parts| {
            let data = present(data, "data")?;
            if isize::try_from(bytes).is_err() {
                let text = format!("{bytes} bytes, which no memory has");
                return Err(Failure::new(FOREBAY_CLIENT_LENGTH, text));
            }
            let id = SocketId(socket);
            let ip = parts.ip()?;
            if bytes == 0 {
                ip.tcp_is_connected(id)?;
                return Ok(Some(0));
            }
            // SAFETY: so many bytes of the caller's.
            let payload = unsafe { std::slice::from_raw_parts(data, bytes) };
            stepped(ip, until, |ip| {
                Ok(Some(ip.tcp_send(id, payload)?).filter(|put| *put > 0))
            })
        };
        // SAFETY: a client that is connected, or null.
        let put_bytes = unsafe { ForebayClient::enter(client, send)? };
        // SAFETY: memory of the caller's, which was written above.
        unsafe { put(sent, "sent", put_bytes.unwrap_or(0))? };
        Ok(code(put_bytes.is_some()))
    })
}

/// Copies bytes that came into `data`, `bytes_max` of them at most, and says in `*bytes` how many: FOREBAY_CLIENT_READY, with 0 when the peer has said all that it
/// will say. While none are there they are waited for up to `timeout_ns`: FOREBAY_CLIENT_DUE. A connection at its end is FOREBAY_CLIENT_PEER_RESET, _PEER_SILENT
/// or _PEER_REFUSED, behind all that came.
///
/// # Safety
/// `client` is NULL or connected; `data` is NULL or `bytes_max` bytes of the caller's, 1 at least; `bytes` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_tcp_receive(
    client: *mut ForebayClient,
    socket: u32,
    data: *mut u8,
    bytes_max: usize,
    bytes: *mut usize,
    timeout_ns: u64,
) -> i32 {
    let until = until(timeout_ns);
    guarded(|| {
        // SAFETY: memory of the caller's, or null.
        unsafe { put(bytes, "bytes", 0)? };
        let receive = |parts: &mut Parts| {
            let data = present(data, "data")?.cast_mut();
            let most = bytes_max.min(isize::MAX as usize);
            if most == 0 {
                return Err(Failure::argument("bytes_max is 0"));
            }
            let ip = parts.ip()?;
            // SAFETY: room of the caller's, which nothing else has meanwhile, as it promises.
            let room = unsafe { std::slice::from_raw_parts_mut(data, most) };
            stepped(ip, until, |ip| ip.tcp_receive(SocketId(socket), room))
        };
        // SAFETY: a client that is connected, or null.
        let taken = unsafe { ForebayClient::enter(client, receive)? };
        // SAFETY: memory of the caller's, which was written above.
        unsafe { put(bytes, "bytes", taken.unwrap_or(0))? };
        Ok(code(taken.is_some()))
    })
}

/// Says that the program sends no more on a connection: the peer is told behind all that was handed over. Receiving goes on.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_tcp_shut_down(
    client: *mut ForebayClient,
    socket: u32,
) -> i32 {
    let shut = |parts: &mut Parts| {
        parts.ip()?.tcp_shut_down(SocketId(socket))?;
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, shut) })
}

/// Closes a connection or a listener. What was handed over still goes to the peer, within calls that wait; if something is unread, or comes after this, the peer is
/// told by a reset.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_tcp_close(client: *mut ForebayClient, socket: u32) -> i32 {
    let close = |parts: &mut Parts| {
        parts.ip()?.tcp_close(SocketId(socket))?;
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, close) })
}

pub(crate) const fn tcp_counts(of: &TcpCounts) -> ForebayClientTcpCounts {
    ForebayClientTcpCounts {
        received_bytes: of.received_bytes,
        taken_bytes: of.taken_bytes,
        unread_bytes: of.unread_bytes,
        closed_unread_bytes: of.closed_unread_bytes,
        asked_bytes: of.asked_bytes,
        acknowledged_bytes: of.acknowledged_bytes,
        unacknowledged_bytes: of.unacknowledged_bytes,
        closed_unacknowledged_bytes: of.closed_unacknowledged_bytes,
        refused: of.refused,
        reset: of.reset,
        timed_out: of.timed_out,
        given_up: of.given_up,
        backlog_full: of.backlog_full,
    }
}
