//! The client under an IP stack: two of them in one process, with a daemon between that is only as much of one as a test needs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod place;

use forebay_client::ip::IpDevice;
use place::{FRAMES, Place, place};
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::IpEndpoint;

const PORT: u16 = 9500;

/// A station: a client under a stack.
struct Station {
    place: Place,
    device: IpDevice,
    interface: Interface,
    sockets: SocketSet<'static>,
}

impl Station {
    fn new(number: u8, vlan: Option<u16>, address: &str) -> Self {
        let (client, place) = place(number, vlan, &[address]);
        let mut device = IpDevice::new(client);
        let interface = device.interface([24, 64], 7, Instant::ZERO);
        Self {
            place,
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
        }
    }

    fn udp(&mut self, packets: usize) -> SocketHandle {
        let buffer = || {
            let empty = vec![udp::PacketMetadata::EMPTY; packets];
            udp::PacketBuffer::new(empty, vec![0; packets * 2048])
        };
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(PORT).unwrap();
        self.sockets.add(socket)
    }

    fn tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 4096]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }

    /// The stack's turn, and what it sent.
    fn turn(&mut self, ms: i64) -> Vec<Vec<u8>> {
        let now = Instant::from_millis(ms);
        self.interface
            .poll(now, &mut self.device, &mut self.sockets);
        self.device.check().unwrap();
        self.device.client_mut().flush();
        self.place.taken()
    }
}

/// Carries frames both ways until none goes, with the time in ms.
fn carry(a: &mut Station, b: &mut Station, ms: i64) {
    loop {
        let (from_a, from_b) = (a.turn(ms), b.turn(ms));
        if from_a.is_empty() && from_b.is_empty() {
            break;
        }
        from_a.iter().for_each(|frame| b.place.give(frame));
        from_b.iter().for_each(|frame| a.place.give(frame));
    }
}

fn endpoint(address: &str) -> IpEndpoint {
    IpEndpoint::new(address.parse::<std::net::IpAddr>().unwrap().into(), PORT)
}

fn there_and_back(vlan: Option<u16>, addresses: [&str; 2]) {
    let mut a = Station::new(1, vlan, addresses[0]);
    let mut b = Station::new(2, vlan, addresses[1]);
    let (of_a, of_b) = (a.udp(4), b.udp(4));
    let sent = vec![7; 1400];
    let socket = a.sockets.get_mut::<udp::Socket<'_>>(of_a);
    socket.send_slice(&sent, endpoint(addresses[1])).unwrap();
    carry(&mut a, &mut b, 0);
    let socket = b.sockets.get_mut::<udp::Socket<'_>>(of_b);
    let (bytes, from) = socket.recv().unwrap();
    assert_eq!((bytes, from.endpoint), (&sent[..], endpoint(addresses[0])));
    let answer = [&b"back "[..], bytes].concat();
    socket.send_slice(&answer, from).unwrap();
    carry(&mut a, &mut b, 0);
    let socket = a.sockets.get_mut::<udp::Socket<'_>>(of_a);
    assert_eq!(socket.recv().unwrap().0, answer);
    for (device, bytes) in [(&a.device, 1400), (&b.device, 1405)] {
        let (frames, ip) = (device.client().counts(), device.counts());
        assert_eq!(
            (ip.datagrams_sent, ip.datagrams_sent_bytes),
            (1, bytes),
            "questions for neighbours are none"
        );
        assert!(frames.sent >= 2 && frames.received >= 2, "{frames:?}");
        assert_eq!(ip.answers_lost + ip.foreign_tag + ip.no_room, 0);
    }
}

#[test]
fn datagrams_go_there_and_back_by_both_versions_of_ip_and_in_a_vlan() {
    there_and_back(None, ["10.0.0.1", "10.0.0.2"]);
    there_and_back(None, ["fd00::1", "fd00::2"]);
    there_and_back(Some(7), ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn a_connection_of_tcp_carries_more_than_the_pools_hold() {
    let mut a = Station::new(1, None, "10.0.0.1");
    let mut b = Station::new(2, None, "10.0.0.2");
    let (of_a, of_b) = (a.tcp(), b.tcp());
    let listening = b.sockets.get_mut::<tcp::Socket<'_>>(of_b);
    listening.listen(PORT).unwrap();
    let socket = a.sockets.get_mut::<tcp::Socket<'_>>(of_a);
    let context = a.interface.context();
    socket
        .connect(context, endpoint("10.0.0.2"), 50_000)
        .unwrap();
    let sent: Vec<u8> = (0..50_000u32).map(|at| (at % 251) as u8).collect();
    let (mut given, mut came, mut ms) = (0, Vec::new(), 0);
    while came.len() < sent.len() {
        assert!(ms < 100_000, "{} of {} bytes", came.len(), sent.len());
        let socket = a.sockets.get_mut::<tcp::Socket<'_>>(of_a);
        if socket.can_send() {
            given += socket.send_slice(&sent[given..]).unwrap();
        }
        carry(&mut a, &mut b, ms);
        let socket = b.sockets.get_mut::<tcp::Socket<'_>>(of_b);
        if socket.can_recv() {
            let taken = socket.recv(|bytes| (bytes.len(), bytes.to_vec())).unwrap();
            came.extend(taken);
        }
        ms += 20;
    }
    assert_eq!(came, sent);
}

#[test]
fn without_a_buffer_the_stack_keeps_what_it_has_and_sends_it_later() {
    let mut a = Station::new(1, None, "10.0.0.1");
    let mut b = Station::new(2, None, "10.0.0.2");
    let (of_a, of_b) = (a.udp(8), b.udp(8));
    let socket = a.sockets.get_mut::<udp::Socket<'_>>(of_a);
    socket.send_slice(b"first", endpoint("10.0.0.2")).unwrap();
    carry(&mut a, &mut b, 0);
    let socket = a.sockets.get_mut::<udp::Socket<'_>>(of_a);
    for number in 0..6u8 {
        socket
            .send_slice(&[number; 9], endpoint("10.0.0.2"))
            .unwrap();
    }
    let now = Instant::from_millis(1);
    a.interface.poll(now, &mut a.device, &mut a.sockets);
    assert_eq!(a.device.counts().datagrams_sent, 1 + u64::from(FRAMES));
    assert!(a.device.counts().no_room > 0);
    a.device.client_mut().flush();
    let on_their_way = a.device.client_mut().frames_on_their_way().unwrap();
    assert_eq!(on_their_way, FRAMES as usize);
    for frame in a.place.taken() {
        b.place.give(&frame);
    }
    carry(&mut a, &mut b, 2);
    assert_eq!(a.device.client_mut().frames_on_their_way().unwrap(), 0);
    let socket = b.sockets.get_mut::<udp::Socket<'_>>(of_b);
    let mut came = Vec::new();
    while let Ok((bytes, _)) = socket.recv() {
        came.push(bytes.to_vec());
    }
    let numbers = (0..6u8).map(|number| vec![number; 9]);
    let all: Vec<_> = [b"first".to_vec()].into_iter().chain(numbers).collect();
    assert_eq!(came, all);
    assert_eq!(a.device.counts().datagrams_sent, 7);
}

#[test]
fn an_answer_without_a_buffer_is_lost_by_name_and_what_is_behind_it_comes() {
    let mut a = Station::new(1, None, "10.0.0.1");
    let mut b = Station::new(2, None, "10.0.0.2");
    let (of_a, of_b) = (a.udp(8), b.udp(8));
    let socket = a.sockets.get_mut::<udp::Socket<'_>>(of_a);
    socket.send_slice(b"first", endpoint("10.0.0.2")).unwrap();
    // A question for the neighbour, for which `b` has no buffer.
    for _ in 0..FRAMES {
        b.device.client_mut().send(&[2; 60]).unwrap();
    }
    for frame in a.turn(0) {
        b.place.give(&frame);
    }
    let now = Instant::from_millis(1);
    b.interface.poll(now, &mut b.device, &mut b.sockets);
    assert_eq!(b.device.counts().answers_lost, 1);
    // It asks again when it has waited.
    b.turn(2);
    carry(&mut a, &mut b, 5_000);
    let socket = b.sockets.get_mut::<udp::Socket<'_>>(of_b);
    assert_eq!(socket.recv().unwrap().0, b"first");
}

#[test]
fn a_frame_with_another_tag_does_not_reach_the_stack() {
    let mut a = Station::new(1, Some(7), "10.0.0.1");
    let own = [2, 0, 0, 0, 0, 1];
    let other = [&own[..], &[2; 6], &[0x81, 0, 0, 8, 8, 0], &[0; 46]].concat();
    let none = [&own[..], &[2; 6], &[8, 0], &[0; 46]].concat();
    for frame in [&other[..], &none, &own[..4]] {
        a.place.give(frame);
    }
    assert!(a.turn(0).is_empty());
    assert_eq!(a.device.counts().foreign_tag, 3);
    assert_eq!(a.device.client().counts().received, 3);
}
