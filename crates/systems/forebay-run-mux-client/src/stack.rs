//! The workload over a stack: one socket of UDP for it, and connections of TCP that send back what comes.
//!
//! The stack takes one datagram at a time, and tells what became of it. A datagram whose receiver nobody knows holds up those behind it, for
//! [`PATIENCE_NS`](forebay_client::ip::PATIENCE_NS) at most.

use std::time::Duration;

use forebay_client::ip::smoltcp::iface::SocketHandle;
use forebay_client::ip::smoltcp::socket::tcp;
use forebay_client::ip::{Ends as IpEnds, Fate, IpDevice, Network, PortId, Stack as IpStack};
use forebay_client::{Client, ClientError};
use forebay_ledger::Leak;
use forebay_sys::clock::monotonic_ns;

use crate::counts::{Amount, SendCounts, SendDrop, TcpCounts, TcpDrop};
use crate::workload::{Ends, Kind, TCP, Workload};

/// Frames of one turn each way: then the other side is told.
const BATCH: usize = 256;
/// Connections of TCP at a time.
const CONNECTIONS: usize = 16;
/// Bytes that wait in each direction of a connection.
const STREAM_BYTES: usize = 64 << 10;

/// A stack at its place.
pub(crate) struct Stack {
    stack: IpStack,
    /// None: a port of 0, which is refused before.
    udp: Option<PortId>,
    tcp: Vec<SocketHandle>,
    port: u16,
    chunk: Vec<u8>,
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
        let [prefix_v4, prefix_v6] = prefixes;
        let network = Network {
            prefix_v4: prefix_v4.min(32),
            prefix_v6: prefix_v6.min(128),
            ..Network::default()
        };
        let mut stack = IpStack::open(client, &network, monotonic_ns());
        let connections = if kind == Kind::Echo { CONNECTIONS } else { 0 };
        let tcp = (0..connections).map(|_| stack.add_tcp(tcp_socket()));
        Self {
            tcp: tcp.collect(),
            udp: stack.bind(port),
            stack,
            port,
            chunk: Vec::new(),
        }
    }

    pub(crate) const fn device(&self) -> &IpDevice {
        self.stack.device()
    }

    pub(crate) const fn client_mut(&mut self) -> &mut Client {
        self.stack.client_mut()
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
            self.serve(self.tcp[at], tcp, workload.leak_mut());
        }
        let has_gone = self.send(now_ns, workload, send);
        self.stack.check()?;
        Ok(has_come || has_gone)
    }

    fn receive(&mut self, now_ns: u64, workload: &mut Workload) -> bool {
        let frames = self.stack.receive(now_ns, BATCH, |_, ends, payload| {
            let Some(local) = ends.local else { return };
            let remote = ends.remote;
            workload.handle_datagram(Ends { remote, local }, payload);
        });
        frames > 0
    }

    /// Sends back what came on a connection, as much as finds room.
    fn serve(&mut self, handle: SocketHandle, counts: &mut TcpCounts, leak: &mut Leak) {
        let (socket, _) = self.stack.tcp(handle);
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
            if leak.take(TCP) {
                continue;
            }
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
            let mut has_ended = false;
            let has_gone = self.stack.egress(now_ns, |_, datagram, fate| {
                has_ended = true;
                match fate {
                    Fate::Sent => {}
                    Fate::NoWay => counts.dropped[SendDrop::NoWay].add(1, datagram.bytes),
                    Fate::Unresolved => {
                        let lost = &mut counts.dropped[SendDrop::Unresolved];
                        lost.add(1, datagram.bytes);
                        *lost += workload.forget(Some(datagram.to));
                    }
                }
            });
            let is_stuck = self.held().packets > 0;
            // Connections of TCP send a segment each at a time.
            if is_stuck || !(has_ended || has_gone) {
                break;
            }
            sent += 1;
        }
        sent > 0
    }

    /// Hands the next datagram that is due to the stack, if that has none.
    fn fill(&mut self, now_ns: u64, workload: &mut Workload) {
        let Some(port) = self.udp.filter(|port| self.stack.is_free(*port)) else {
            return;
        };
        let Some((to, payload)) = workload.next_due() else {
            return;
        };
        let ends = IpEnds {
            remote: to.remote,
            local: Some(to.local),
        };
        self.stack.put(port, ends, payload, now_ns);
        workload.advance();
    }

    /// Datagrams that the stack has.
    pub(crate) fn held(&self) -> Amount {
        let mut held = Amount::default();
        let waiting = self.udp.and_then(|port| self.stack.waiting(port));
        if let Some(datagram) = waiting {
            held.add(1, datagram.bytes);
        }
        held
    }

    /// Datagrams that were handed to the multiplexer.
    pub(crate) const fn sent(&self) -> Amount {
        let counts = self.device().counts();
        Amount {
            packets: counts.datagrams_sent,
            bytes: counts.datagrams_sent_bytes,
        }
    }

    /// How long the stack has nothing to do by itself, at most `most`.
    pub(crate) fn patience(&mut self, now_ns: u64, most: Duration) -> Duration {
        self.stack.patience(now_ns, most)
    }
}
