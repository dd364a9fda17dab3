//! An IP stack over the client library: one socket of UDP for the workload, and connections of TCP that send back what comes.
//!
//! The socket of UDP is emptied after each frame, so that none finds it full, and has room for one datagram to be sent: whether that went is seen by the
//! frames that the device handed over. A datagram whose receiver nobody knows holds up those behind it, for [`PATIENCE_NS`] at most.

use std::net::IpAddr;
use std::time::Duration;

use forebay_client::ip::IpDevice;
use forebay_client::ip::smoltcp::iface::{
    Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet,
};
use forebay_client::ip::smoltcp::socket::{tcp, udp};
use forebay_client::ip::smoltcp::time::Instant;
use forebay_client::{Client, ClientError};
use forebay_sys::clock::monotonic_ns;

use crate::counts::{Amount, SendCounts, SendDrop, TcpCounts, TcpDrop};
use crate::workload::{Ends, Kind, Workload};

/// Frames of one turn each way: then the other side is told.
const BATCH: usize = 256;
/// Longest that a receiver's Ethernet address is asked for. The stack asks once a second.
const PATIENCE_NS: u64 = 3_000_000_000;
/// Connections of TCP at a time.
const CONNECTIONS: usize = 16;
/// Bytes that wait in each direction of a connection.
const STREAM_BYTES: usize = 64 << 10;
/// Longest payload of a datagram.
const DATAGRAM_BYTES: usize = 65_535;
/// Datagrams that one frame can leave in the socket, with room to see that it is one.
const RECEIVE_SLOTS: usize = 4;

/// The datagram that the stack has.
#[derive(Clone, Copy, Debug)]
struct Slot {
    to: IpAddr,
    bytes: usize,
    since_ns: u64,
}

/// A stack at its place.
pub(crate) struct Stack {
    device: IpDevice,
    interface: Interface,
    sockets: SocketSet<'static>,
    udp: SocketHandle,
    tcp: Vec<SocketHandle>,
    port: u16,
    slot: Option<Slot>,
    chunk: Vec<u8>,
}

fn instant(now_ns: u64) -> Instant {
    Instant::from_micros((now_ns / 1000) as i64)
}

fn udp_socket() -> udp::Socket<'static> {
    let buffer = |slots: usize| {
        let empty = vec![udp::PacketMetadata::EMPTY; slots];
        udp::PacketBuffer::new(empty, vec![0; slots * DATAGRAM_BYTES])
    };
    udp::Socket::new(buffer(RECEIVE_SLOTS), buffer(1))
}

fn tcp_socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; STREAM_BYTES]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket
}

impl Stack {
    /// Listens at a port, 1 to 65,535, of all addresses of the client; over TCP for the echo alone.
    pub(crate) fn open(client: Client, port: u16, prefixes: [u8; 2], kind: Kind) -> Self {
        let now_ns = monotonic_ns();
        let mut device = IpDevice::new(client);
        // The first numbers of connections must differ from those of the run before.
        let seed = now_ns ^ (u64::from(std::process::id()) << 32);
        let interface = device.interface(prefixes, seed, instant(now_ns));
        let mut sockets = SocketSet::new(Vec::new());
        let udp = sockets.add(udp_socket());
        let connections = if kind == Kind::Echo { CONNECTIONS } else { 0 };
        let tcp = (0..connections).map(|_| sockets.add(tcp_socket()));
        let mut stack = Self {
            tcp: tcp.collect(),
            device,
            interface,
            sockets,
            udp,
            port,
            slot: None,
            chunk: Vec::new(),
        };
        stack.bind();
        stack
    }

    /// Binds the socket of UDP, which is closed.
    fn bind(&mut self) {
        // Refused are a port of 0 and a socket that is bound.
        let _ = self
            .sockets
            .get_mut::<udp::Socket<'_>>(self.udp)
            .bind(self.port);
    }

    pub(crate) const fn device(&self) -> &IpDevice {
        &self.device
    }

    pub(crate) const fn client_mut(&mut self) -> &mut Client {
        self.device.client_mut()
    }

    /// Receives and sends what there is, a batch at most; whether there was something.
    pub(crate) fn turn(
        &mut self,
        now_ns: u64,
        workload: &mut Workload,
        send: &mut SendCounts,
        tcp: &mut TcpCounts,
    ) -> Result<bool, ClientError> {
        let has_come = self.receive(now_ns, workload);
        for at in 0..self.tcp.len() {
            self.serve(self.tcp[at], tcp);
        }
        let has_gone = self.send(now_ns, workload, send);
        self.device.check()?;
        Ok(has_come || has_gone)
    }

    fn receive(&mut self, now_ns: u64, workload: &mut Workload) -> bool {
        let now = instant(now_ns);
        for frame in 0..BATCH {
            let came = self
                .interface
                .poll_ingress_single(now, &mut self.device, &mut self.sockets);
            if came == PollIngressSingleResult::None {
                return frame > 0;
            }
            let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.udp);
            while let Ok((payload, from)) = socket.recv() {
                let Some(local) = from.local_address else {
                    continue;
                };
                let ends = Ends {
                    remote: from.endpoint.into(),
                    local: local.into(),
                };
                workload.handle_datagram(ends, payload);
            }
        }
        true
    }

    /// Sends back what came on a connection, as much as finds room.
    fn serve(&mut self, handle: SocketHandle, counts: &mut TcpCounts) {
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        if !socket.is_open() {
            let _ = socket.listen(self.port);
        }
        while socket.can_recv() && socket.can_send() {
            let room = socket.send_capacity() - socket.send_queue();
            let chunk = &mut self.chunk;
            let read = socket.recv(|bytes| {
                let taken = bytes.len().min(room);
                chunk.clear();
                chunk.extend_from_slice(&bytes[..taken]);
                (taken, taken)
            });
            let Ok(bytes @ 1..) = read else { break };
            counts.came.add(1, bytes);
            match socket.send_slice(&self.chunk) {
                Ok(sent) if sent == bytes => counts.returned.add(1, sent),
                _ => counts.dropped[TcpDrop::Disconnected].add(1, bytes),
            }
        }
        // The far end has said all that it will say, and has it back.
        if socket.state() == tcp::State::CloseWait && socket.recv_queue() == 0 {
            socket.close();
        }
    }

    fn send(&mut self, now_ns: u64, workload: &mut Workload, counts: &mut SendCounts) -> bool {
        let mut sent = 0;
        while sent < BATCH {
            self.fill(now_ns, workload);
            let before = self.device.counts().datagrams_sent;
            let now = instant(now_ns);
            let polled = self
                .interface
                .poll_egress(now, &mut self.device, &mut self.sockets);
            let Some(slot) = self.slot else {
                // Connections of TCP send a segment each at a time.
                if polled == PollResult::None {
                    break;
                }
                sent += 1;
                continue;
            };
            if self.queued() > 0 {
                self.give_up(slot, now_ns, workload, counts);
                break;
            }
            self.slot = None;
            sent += 1;
            if self.device.counts().datagrams_sent == before {
                counts.dropped[SendDrop::NoWay].add(1, slot.bytes);
            }
        }
        sent > 0
    }

    /// Datagrams in the stack's hand: none or one.
    fn queued(&self) -> usize {
        let socket = self.sockets.get::<udp::Socket<'_>>(self.udp);
        usize::from(!socket.can_send())
    }

    /// Hands the next datagram that is due to the stack, if that has none.
    fn fill(&mut self, now_ns: u64, workload: &mut Workload) {
        if self.slot.is_some() {
            return;
        }
        let Some((to, payload)) = workload.next_due() else {
            return;
        };
        let mut meta = udp::UdpMetadata::from(to.remote);
        meta.local_address = Some(to.local.into());
        let bytes = payload.len();
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.udp);
        // A datagram to port 0, say, is not taken: it is found neither in the socket nor sent.
        let _ = socket.send_slice(payload, meta);
        self.slot = Some(Slot {
            to: to.remote.ip(),
            bytes,
            since_ns: now_ns,
        });
        workload.advance();
    }

    /// Forgets a datagram whose receiver was asked for in vain, and all that is due to the same one.
    fn give_up(
        &mut self,
        slot: Slot,
        now_ns: u64,
        workload: &mut Workload,
        counts: &mut SendCounts,
    ) {
        let is_ready = self.device.client_mut().is_ready().unwrap_or(false);
        if !is_ready || now_ns - slot.since_ns < PATIENCE_NS {
            return;
        }
        let lost = &mut counts.dropped[SendDrop::Unresolved];
        lost.add(1, slot.bytes);
        *lost += workload.forget(Some(slot.to));
        self.slot = None;
        self.sockets.get_mut::<udp::Socket<'_>>(self.udp).close();
        self.bind();
    }

    /// Datagrams that the stack has.
    pub(crate) fn held(&self) -> Amount {
        let mut held = Amount::default();
        if let Some(slot) = self.slot {
            held.add(self.queued() as u64, slot.bytes);
        }
        held
    }

    /// Datagrams that were handed to the multiplexer.
    pub(crate) const fn sent(&self) -> Amount {
        let counts = self.device.counts();
        Amount {
            packets: counts.datagrams_sent,
            bytes: counts.datagrams_sent_bytes,
        }
    }

    /// How long the stack has nothing to do by itself, at most `most`.
    pub(crate) fn patience(&mut self, now_ns: u64, most: Duration) -> Duration {
        // Without a buffer it is the multiplexer's turn, which ends the sleep.
        if !self.device.client_mut().is_ready().unwrap_or(false) {
            return most;
        }
        let delay = self.interface.poll_delay(instant(now_ns), &self.sockets);
        delay.map_or(most, |delay| {
            Duration::from_micros(delay.total_micros()).min(most)
        })
    }
}
