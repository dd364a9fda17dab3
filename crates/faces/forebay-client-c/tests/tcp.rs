//! Connections of TCP over the stack of a client and sockets of Linux at the other end of a virtual wire, with a daemon between; in Rust, and in C.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../systems/forebay-run-mux/tests/world/mod.rs"]
mod world;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use forebay_client::ip::{IpClient, IpError, IpTotals, Network, SocketId, TcpLimits};
use forebay_testing::wire::{carries, is_inside, lay, sh};
use world::{LONG, Peer, World, mac};

const PORT: u16 = 9500;
/// More than the windows of both ends hold.
const STREAM_BYTES: usize = 3 << 20;

fn is_on_wire(test: &str) -> bool {
    let is_inside = is_inside(test);
    if is_inside {
        lay();
        sh("ip address add 10.0.0.9/24 dev near");
        // No card cuts what Linux would have a card cut.
        sh("ip link set near gso_max_segs 1");
        carries();
    }
    is_inside
}

fn stack(world: &World) -> IpClient {
    IpClient::open(world.connect("a").unwrap(), &Network::default()).unwrap()
}

fn own() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 10], PORT))
}

fn stream() -> Vec<u8> {
    (0..STREAM_BYTES).map(|at| (at % 251) as u8).collect()
}

/// Has the stack work until something is there.
fn until<T>(
    ip: &mut IpClient,
    mut look: impl FnMut(&mut IpClient) -> Result<Option<T>, IpError>,
) -> Result<T, IpError> {
    let most = Instant::now() + LONG;
    loop {
        if let Some(found) = look(ip)? {
            return Ok(found);
        }
        assert!(Instant::now() < most, "{:?}", ip.counts());
        ip.step(Instant::now() + Duration::from_millis(100))?;
    }
}

fn accepted(ip: &mut IpClient, listener: SocketId) -> SocketId {
    until(ip, |ip| ip.tcp_accept(listener)).unwrap()
}

/// Sends back what comes, until the peer has said all.
fn echo(ip: &mut IpClient, id: SocketId) -> usize {
    let mut room = vec![0; 100_000];
    let mut echoed = 0;
    loop {
        let came = until(ip, |ip| ip.tcp_receive(id, &mut room)).unwrap();
        if came == 0 {
            return echoed;
        }
        put_all(ip, id, &room[..came]);
        echoed += came;
    }
}

fn put_all(ip: &mut IpClient, id: SocketId, mut bytes: &[u8]) {
    until(ip, |ip| {
        bytes = &bytes[ip.tcp_send(id, bytes)?..];
        Ok(bytes.is_empty().then_some(()))
    })
    .unwrap();
}

/// Works until all that the program has closed is at its end.
fn settle(ip: &mut IpClient) {
    until(ip, |ip| {
        let of = ip.counts().tcp;
        Ok((of.unacknowledged_bytes == 0).then_some(()))
    })
    .unwrap();
}

/// Sends all in a thread of its own, and reads all that comes back.
fn ask(mut far: TcpStream) -> Vec<u8> {
    let mut sends = far.try_clone().unwrap();
    let thread = thread::spawn(move || {
        sends.write_all(&stream()).unwrap();
        sends.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    far.read_to_end(&mut back).unwrap();
    thread.join().unwrap();
    back
}

#[track_caller]
fn assert_closed(last: &IpTotals) {
    let of = last.tcp;
    assert_eq!(
        of.received_bytes,
        of.taken_bytes + of.closed_unread_bytes,
        "{of:?}"
    );
    assert_eq!(
        of.asked_bytes,
        of.acknowledged_bytes + of.closed_unacknowledged_bytes,
        "{of:?}"
    );
    assert_eq!(of.unread_bytes + of.unacknowledged_bytes, 0);
}

/// The daemon's frames are the client's, of which the stack's counts are parts.
#[track_caller]
fn ended(mut ip: IpClient, world: World) -> IpTotals {
    let last = ip.close_all();
    assert_closed(&last);
    let sent = ip.client().counts().sent;
    let parts = last.udp.sent.items + last.device.segments_sent + last.device.others_sent;
    assert_eq!(sent, parts, "{last:?}");
    drop(ip);
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    let of = &record.summary.clients[0];
    assert_eq!((of.packets_asked, of.packets_sent), (sent, sent));
    assert!(of.lies.is_empty(), "{:?}", of.lies);
    last
}

#[test]
fn a_socket_of_linux_connects_and_has_all_back_whoever_closes_first() {
    if !is_on_wire("a_socket_of_linux_connects_and_has_all_back_whoever_closes_first") {
        return;
    }
    let world = World::start("");
    let mut ip = stack(&world);
    let listener = ip.tcp_listen(PORT, 2, TcpLimits::default()).unwrap();
    let peer = thread::spawn(|| ask(TcpStream::connect(own()).unwrap()));
    let id = accepted(&mut ip, listener);
    assert_eq!(ip.tcp_peer(id).unwrap().ip().to_string(), "10.0.0.9");
    assert_eq!(echo(&mut ip, id), STREAM_BYTES);
    ip.tcp_close(id).unwrap();
    settle(&mut ip);
    assert!(peer.join().unwrap() == stream());
    // This side closes first.
    let peer = thread::spawn(|| {
        let mut far = TcpStream::connect(own()).unwrap();
        let mut said = Vec::new();
        far.read_to_end(&mut said).unwrap();
        far.write_all(b"and you").unwrap();
        said
    });
    let id = accepted(&mut ip, listener);
    put_all(&mut ip, id, b"that was all");
    ip.tcp_shut_down(id).unwrap();
    let mut room = [0; 100];
    let came = until(&mut ip, |ip| ip.tcp_receive(id, &mut room)).unwrap();
    assert_eq!(room[..came], *b"and you");
    assert_eq!(
        until(&mut ip, |ip| ip.tcp_receive(id, &mut room)).unwrap(),
        0
    );
    assert_eq!(peer.join().unwrap(), b"that was all");
    ip.tcp_close(id).unwrap();
    let last = ended(ip, world);
    let of = last.tcp;
    assert_eq!(of.taken_bytes, STREAM_BYTES as u64 + 7);
    assert_eq!(of.acknowledged_bytes, STREAM_BYTES as u64 + 12);
    assert!(last.device.segments_received_bytes >= of.received_bytes);
    assert_eq!([of.refused, of.reset, of.timed_out], [0; 3]);
}

#[test]
fn a_connection_to_a_socket_of_linux_carries_all_there_and_back() {
    if !is_on_wire("a_connection_to_a_socket_of_linux_carries_all_there_and_back") {
        return;
    }
    let world = World::start("");
    let mut ip = stack(&world);
    let far = TcpListener::bind("10.0.0.9:0").unwrap();
    let to = far.local_addr().unwrap();
    let peer = thread::spawn(move || {
        let (mut reads, _) = far.accept().unwrap();
        let mut writes = reads.try_clone().unwrap();
        std::io::copy(&mut reads, &mut writes).unwrap()
    });
    let id = ip.tcp_connect(to, TcpLimits::default()).unwrap();
    until(&mut ip, |ip| Ok(ip.tcp_is_connected(id)?.then_some(()))).unwrap();
    let (sent, mut put, mut came) = (stream(), 0, Vec::new());
    let mut room = vec![0; 100_000];
    until(&mut ip, |ip| {
        if put < sent.len() {
            put += ip.tcp_send(id, &sent[put..])?;
            if put == sent.len() {
                ip.tcp_shut_down(id)?;
            }
        }
        while let Some(bytes) = ip.tcp_receive(id, &mut room)? {
            came.extend_from_slice(&room[..bytes]);
            if bytes == 0 {
                return Ok(Some(()));
            }
        }
        Ok(None)
    })
    .unwrap();
    assert!(came == sent, "{} of {} bytes", came.len(), sent.len());
    assert_eq!(peer.join().unwrap(), STREAM_BYTES as u64);
    ip.tcp_close(id).unwrap();
    // Nobody listens at that port of Linux.
    let none = ip.tcp_connect(SocketAddr::from(([10, 0, 0, 9], 1)), TcpLimits::default());
    let none = none.unwrap();
    let refused = until(&mut ip, |ip| Ok(ip.tcp_is_connected(none)?.then_some(())));
    assert!(
        matches!(refused, Err(IpError::Refused { .. })),
        "{refused:?}"
    );
    let of = ended(ip, world).tcp;
    assert_eq!(
        [of.acknowledged_bytes, of.taken_bytes],
        [STREAM_BYTES as u64; 2]
    );
    assert_eq!([of.refused, of.reset, of.timed_out], [1, 0, 0]);
}

#[test]
fn a_peer_that_resets_or_goes_away_is_an_error_with_its_name() {
    if !is_on_wire("a_peer_that_resets_or_goes_away_is_an_error_with_its_name") {
        return;
    }
    let world = World::start("");
    let mut ip = stack(&world);
    let brief = TcpLimits {
        timeout: Duration::from_secs(2),
        ..TcpLimits::default()
    };
    let listener = ip.tcp_listen(PORT, 2, brief).unwrap();
    // Linux resets a connection that is closed with something unread.
    let peer = thread::spawn(|| {
        let far = TcpStream::connect(own()).unwrap();
        while far.peek(&mut [0]).unwrap() == 0 {}
    });
    let id = accepted(&mut ip, listener);
    put_all(&mut ip, id, b"unread");
    let mut room = [0; 100];
    let reset = until(&mut ip, |ip| ip.tcp_receive(id, &mut room));
    assert!(matches!(reset, Err(IpError::Reset { .. })), "{reset:?}");
    peer.join().unwrap();
    ip.tcp_close(id).unwrap();
    let (say, hear) = std::sync::mpsc::channel::<()>();
    let peer = thread::spawn(move || {
        let far = TcpStream::connect(own()).unwrap();
        // It is there, and cannot be reached.
        hear.recv().unwrap();
        drop(far);
    });
    let id = accepted(&mut ip, listener);
    sh("ip link set near down");
    ip.tcp_send(id, b"into the dark").unwrap();
    let silent = until(&mut ip, |ip| ip.tcp_receive(id, &mut room));
    assert!(
        matches!(silent, Err(IpError::TimedOut { .. })),
        "{silent:?}"
    );
    ip.tcp_close(id).unwrap();
    say.send(()).unwrap();
    peer.join().unwrap();
    let of = ip.close_all().tcp;
    assert_closed(&ip.counts());
    assert_eq!([of.refused, of.reset, of.timed_out], [0, 1, 1]);
    assert_eq!(of.closed_unacknowledged_bytes, 13);
    drop(ip);
    world.end();
}

/// A segment of TCP in a frame, with any bytes behind its ports.
fn garbage(ports: [u16; 2], seed: u32) -> Vec<u8> {
    let mut next = seed | 1;
    let mut noise = || {
        next ^= next << 13;
        next ^= next >> 17;
        next ^= next << 5;
        next as u8
    };
    let mut frame = [&mac(0)[..], &[2, 0, 0, 0, 0, 9], &[8, 0]].concat();
    let payload: Vec<u8> = (0..4 + noise() % 60).map(|_| noise()).collect();
    let bytes = (40 + payload.len()) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
    header[2..4].copy_from_slice(&bytes.to_be_bytes());
    header.extend([10, 0, 0, 9, 10, 0, 0, 10]);
    let sum = check_sum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut segment = [ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat();
    segment.extend((0..8).map(|_| noise()));
    // A reset with a number of the window would be one.
    segment.extend([0x50, noise() & !0x04, noise(), noise(), 0, 0, 0, 0]);
    segment.extend(payload);
    // Every other one has a right check sum.
    if seed.is_multiple_of(2) {
        let length = (segment.len() as u16).to_be_bytes();
        let pseudo = [&header[12..20], &[0, 6], &length].concat();
        let sum = check_sum(&[&pseudo, &segment]);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
    }
    frame.extend(header);
    frame.extend(segment);
    frame
}

/// RFC 1071, of parts of which all but the last one have an even length.
fn check_sum(parts: &[&[u8]]) -> u16 {
    let all = parts.concat();
    let words = all.chunks(2);
    let of = |word: &[u8]| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
    let mut sum: u32 = words.map(of).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn segments_that_are_none_harm_no_connection() {
    if !is_on_wire("segments_that_are_none_harm_no_connection") {
        return;
    }
    let world = World::start("");
    let mut ip = stack(&world);
    let listener = ip.tcp_listen(PORT, 2, TcpLimits::default()).unwrap();
    let peer = thread::spawn(|| {
        let far = TcpStream::connect(own()).unwrap();
        let port = far.local_addr().unwrap().port();
        let noise = thread::spawn(move || {
            let mut wire = Peer::open();
            for seed in 0..2_000 {
                // At the connection, at the listener, and at nobody.
                let ports = [[port, PORT], [port ^ 1, PORT], [port, 9]][seed as usize % 3];
                wire.send(&garbage(ports, seed));
            }
        });
        let back = ask(far);
        noise.join().unwrap();
        back
    });
    let id = accepted(&mut ip, listener);
    assert_eq!(echo(&mut ip, id), STREAM_BYTES);
    ip.tcp_close(id).unwrap();
    until(&mut ip, |_| Ok(peer.is_finished().then_some(()))).unwrap();
    assert!(peer.join().unwrap() == stream());
    settle(&mut ip);
    let last = ip.close_all();
    assert_closed(&last);
    assert_eq!(last.tcp.taken_bytes, STREAM_BYTES as u64);
    assert_eq!(last.tcp.acknowledged_bytes, STREAM_BYTES as u64);
    assert!(last.segments_unclaimed > 0, "{last:?}");
    drop(ip);
    assert!(world.end().is_closed());
}
