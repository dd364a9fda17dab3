//! The functions for a client with an IP stack. The test `header` makes the header of this file as well: the documentation here is for people who write C.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use forebay_client::ip::{Datagrams, IpClient, IpError, IpTotals, Network, SocketId, UdpLimits};

use crate::error::{Failure, guarded};
use crate::handle::{ForebayClient, Parts, address, present, put};
use crate::ip_types::*;
use crate::tcp::tcp_counts;
use crate::types::*;

/// Gives the client's frames to an IP stack with the addresses that the multiplexer gave: from now on the program has sockets, and calls that receive or send
/// frames are FOREBAY_CLIENT_STACK. NULL in the place of the network is 24 bits for version 4, 64 for version 6, and no gateway. After an error the client
/// is as it was.
///
/// # Safety
/// `client` is NULL or connected; `network` is NULL or one of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_ip_open(
    client: *mut ForebayClient,
    network: *const ForebayClientNetwork,
) -> i32 {
    guarded(|| {
        let network = if network.is_null() {
            Network::default()
        } else {
            // SAFETY: it is not null, and the caller's.
            let network = unsafe { present(network, "network")?.read() };
            network_of(&network)?
        };
        let open = |parts: &mut Parts| {
            parts.open_ip(&network)?;
            Ok(FOREBAY_CLIENT_OK)
        };
        // SAFETY: a client that is connected, or null.
        unsafe { ForebayClient::enter(client, open) }
    })
}

/// Opens a socket of UDP at a port of all addresses of the client; port 0: at one that is free. It keeps 1,024 datagrams that came and 256 that wait to be sent.
/// `*socket` is its number.
///
/// # Safety
/// `client` is NULL or connected; `socket` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_udp_open(
    client: *mut ForebayClient,
    port: u16,
    socket: *mut u32,
) -> i32 {
    guarded(|| {
        present(socket, "socket")?;
        let open = |parts: &mut Parts| Ok(parts.ip()?.udp(port, UdpLimits::default())?);
        // SAFETY: a client that is connected, or null.
        let opened = unsafe { ForebayClient::enter(client, open)? };
        // SAFETY: memory of the caller's.
        unsafe { put(socket, "socket", opened.0)? };
        Ok(FOREBAY_CLIENT_OK)
    })
}

/// The port of a socket of UDP, 1 to 65535.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_udp_port(client: *mut ForebayClient, socket: u32) -> i32 {
    let port = |parts: &mut Parts| Ok(parts.ip()?.port(SocketId(socket))?.into());
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, port) })
}

/// Closes a socket of UDP. What waited in it is counted as closed_unread and closed_unsent.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_udp_close(client: *mut ForebayClient, socket: u32) -> i32 {
    let close = |parts: &mut Parts| {
        parts.ip()?.close(SocketId(socket))?;
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, close) })
}

/// Closes all sockets, and flushes: what waited in them is counted as closed_unread and closed_unsent. Connections are reset, also those that
/// were closed and have bytes that their peers have not acknowledged. Called before forebay_client_disconnect(), it leaves
/// nothing in the counts that has no end.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_ip_close(client: *mut ForebayClient) -> i32 {
    let close = |parts: &mut Parts| {
        parts.ip()?.close_all();
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, close) })
}

/// Sends a copy of a datagram, with the next forebay_client_flush() or call that waits. It waits in the socket while its receiver's Ethernet address is asked
/// for, up to 3 s, or while all buffers are on their way; FOREBAY_CLIENT_FULL: as many wait there as it keeps.
///
/// # Safety
/// `client` is NULL or connected; `to` is NULL or one of the caller's; `data` is NULL or `bytes` bytes of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_udp_send(
    client: *mut ForebayClient,
    socket: u32,
    to: *const ForebayClientEndpoint,
    data: *const u8,
    bytes: usize,
) -> i32 {
    let send = |parts: &mut Parts| {
        // SAFETY: one of the caller's, if it is present.
        let to = unsafe { present(to, "to")?.read() };
        let to = endpoint_of(&to)?;
        let data = present(data, "data")?;
        let ip = parts.ip()?;
        // A length that is none is told before it is believed.
        if bytes > usize::from(u16::MAX) {
            let text = format!("a datagram of {bytes} bytes, which none has");
            return Err(Failure::new(FOREBAY_CLIENT_LENGTH, text));
        }
        // SAFETY: so many bytes of the caller's.
        let payload = unsafe { std::slice::from_raw_parts(data, bytes) };
        ip.send_to(SocketId(socket), to, payload)?;
        Ok(FOREBAY_CLIENT_OK)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, send) })
}

/// Copies the next datagram of a socket into `data`, its length into `*bytes` and its sender into `*from`: FOREBAY_CLIENT_READY. Waits for it up to `timeout_ns`
/// (FOREBAY_CLIENT_DUE). With FOREBAY_CLIENT_LENGTH it has more than `bytes_max` bytes, which `*bytes` says, and stays where it is.
///
/// # Safety
/// `client` is NULL or connected; `data` is NULL or `bytes_max` bytes of the caller's; `bytes` and `from` are NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_udp_receive(
    client: *mut ForebayClient,
    socket: u32,
    data: *mut u8,
    bytes_max: usize,
    bytes: *mut usize,
    from: *mut ForebayClientEndpoint,
    timeout_ns: u64,
) -> i32 {
    let until = until(timeout_ns);
    let receive = |parts: &mut Parts| {
        present(data, "data")?;
        present(bytes, "bytes")?;
        present(from, "from")?;
        let (ip, id) = (parts.ip()?, SocketId(socket));
        let Some(found) = stepped(ip, until, |ip| ip.next_bytes(id))? else {
            return Ok(FOREBAY_CLIENT_DUE);
        };
        // SAFETY: memory of the caller's.
        unsafe { put(bytes, "bytes", found)? };
        if found > bytes_max {
            let text = format!("a datagram of {found} bytes, and room for {bytes_max}");
            return Err(Failure::new(FOREBAY_CLIENT_LENGTH, text));
        }
        let Some(datagram) = ip.take(id)? else {
            return Ok(FOREBAY_CLIENT_DUE);
        };
        // SAFETY: the caller has room for `bytes_max` bytes there, which are no fewer.
        unsafe { data.copy_from_nonoverlapping(datagram.payload.as_ptr(), found) };
        let sender = endpoint(datagram.from);
        // SAFETY: memory of the caller's.
        unsafe { put(from, "from", sender)? };
        Ok(FOREBAY_CLIENT_READY)
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, receive) })
}

/// Has the stack work until a socket has something for the program (FOREBAY_CLIENT_READY), or so many nanoseconds are over (FOREBAY_CLIENT_DUE).
/// A signal does not end it.
///
/// # Safety
/// `client` is NULL or connected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_ip_wait(
    client: *mut ForebayClient,
    timeout_ns: u64,
) -> i32 {
    let wait = |parts: &mut Parts| {
        let until = until(timeout_ns);
        Ok(code(parts.ip()?.wait(until)?))
    };
    // SAFETY: a client that is connected, or null.
    guarded(|| unsafe { ForebayClient::enter(client, wait) })
}

/// Has the stack work, and asks to be woken by forebay_client_descriptor(): FOREBAY_CLIENT_READY if a socket has something already. With FOREBAY_CLIENT_OK poll
/// the descriptor, for `*sleep_ns` at most, as something of the stack's is due then, and call forebay_client_ip_wait() with 0 behind that.
///
/// # Safety
/// `client` is NULL or connected; `sleep_ns` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_ip_arm(
    client: *mut ForebayClient,
    sleep_ns: *mut u64,
) -> i32 {
    guarded(|| {
        present(sleep_ns, "sleep_ns")?;
        let arm = |parts: &mut Parts| Ok(parts.ip()?.arm(Duration::from_secs(3_600))?);
        // SAFETY: a client that is connected, or null.
        let armed = unsafe { ForebayClient::enter(client, arm)? };
        let sleep = armed.unwrap_or_default().as_nanos() as u64;
        // SAFETY: memory of the caller's.
        unsafe { put(sleep_ns, "sleep_ns", sleep)? };
        Ok(match armed {
            None => FOREBAY_CLIENT_READY,
            Some(_) => FOREBAY_CLIENT_OK,
        })
    })
}

/// What became of all datagrams and connections of the client so far.
///
/// # Safety
/// `client` is NULL or connected; `counts` is NULL or memory of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_client_ip_get_counts(
    client: *const ForebayClient,
    counts: *mut ForebayClientIpCounts,
) -> i32 {
    guarded(|| {
        // SAFETY: a client that is connected, or null.
        let totals = unsafe { ForebayClient::enter(client, |parts| Ok(parts.ip()?.counts()))? };
        // SAFETY: memory of the caller's, or null.
        unsafe { put(counts, "counts", counts_of(&totals))? };
        Ok(FOREBAY_CLIENT_OK)
    })
}

const fn datagrams(of: Datagrams) -> ForebayClientDatagrams {
    ForebayClientDatagrams {
        items: of.items,
        bytes: of.bytes,
    }
}

const fn counts_of(totals: &IpTotals) -> ForebayClientIpCounts {
    let (udp, device) = (totals.udp, totals.device);
    ForebayClientIpCounts {
        received: datagrams(udp.received),
        taken: datagrams(udp.taken),
        queue_full: datagrams(udp.queue_full),
        unread: datagrams(udp.unread),
        closed_unread: datagrams(udp.closed_unread),
        asked: datagrams(udp.asked),
        sent: datagrams(udp.sent),
        unresolved: datagrams(udp.unresolved),
        no_way: datagrams(udp.no_way),
        unsent: datagrams(udp.unsent),
        closed_unsent: datagrams(udp.closed_unsent),
        frames_sent: ForebayClientDatagrams {
            items: device.datagrams_sent,
            bytes: device.datagrams_sent_bytes,
        },
        segments_sent: ForebayClientDatagrams {
            items: device.segments_sent,
            bytes: device.segments_sent_bytes,
        },
        segments_received: ForebayClientDatagrams {
            items: device.segments_received,
            bytes: device.segments_received_bytes,
        },
        tcp: tcp_counts(&totals.tcp),
        segments_unclaimed: totals.segments_unclaimed,
        unclaimed: totals.unclaimed,
        refused_full: udp.refused_full,
        no_room: device.no_room,
        answers_lost: device.answers_lost,
        foreign_tag: device.foreign_tag,
    }
}

/// An address of the caller's; none: of version 0.
fn address_of(from: &ForebayClientAddress) -> Result<Option<IpAddr>, Failure> {
    match (from.version, from.bytes) {
        (0, _) => Ok(None),
        (4, [a, b, c, d, ..]) => Ok(Some(Ipv4Addr::new(a, b, c, d).into())),
        (6, bytes) => Ok(Some(Ipv6Addr::from(bytes).into())),
        (version, _) => Err(Failure::argument(format!(
            "an address of version {version}; there are 4 and 6"
        ))),
    }
}

pub(crate) fn endpoint_of(from: &ForebayClientEndpoint) -> Result<SocketAddr, Failure> {
    let address = address_of(&from.address)?;
    let address = address.ok_or_else(|| Failure::argument("to has no address: version 0"))?;
    Ok(SocketAddr::new(address, from.port))
}

fn network_of(from: &ForebayClientNetwork) -> Result<Network, Failure> {
    let wrong = |name| Failure::argument(format!("{name} is of the other version of IP"));
    let gateway_v4 = match address_of(&from.gateway_v4)? {
        None => None,
        Some(IpAddr::V4(gateway)) => Some(gateway),
        Some(IpAddr::V6(_)) => return Err(wrong("gateway_v4")),
    };
    let gateway_v6 = match address_of(&from.gateway_v6)? {
        None => None,
        Some(IpAddr::V6(gateway)) => Some(gateway),
        Some(IpAddr::V4(_)) => return Err(wrong("gateway_v6")),
    };
    Ok(Network {
        prefix_v4: from.prefix_v4,
        prefix_v6: from.prefix_v6,
        gateway_v4,
        gateway_v6,
    })
}

pub(crate) fn until(timeout_ns: u64) -> Instant {
    Instant::now() + Duration::from_nanos(timeout_ns)
}

pub(crate) const fn code(is_ready: bool) -> i32 {
    if is_ready {
        FOREBAY_CLIENT_READY
    } else {
        FOREBAY_CLIENT_DUE
    }
}

/// Has the stack work until something is there, or that time has come: none.
pub(crate) fn stepped<T>(
    ip: &mut IpClient,
    until: Instant,
    mut look: impl FnMut(&mut IpClient) -> Result<Option<T>, IpError>,
) -> Result<Option<T>, Failure> {
    let mut has_looked = false;
    loop {
        if let Some(found) = look(ip)? {
            return Ok(Some(found));
        }
        if has_looked && Instant::now() >= until {
            return Ok(None);
        }
        ip.step(until)?;
        has_looked = true;
    }
}

pub(crate) fn endpoint(from: SocketAddr) -> ForebayClientEndpoint {
    ForebayClientEndpoint {
        address: address(from.ip()),
        port: from.port(),
    }
}
