//! A client with sockets: what the libraries for C and Python give.

mod listener;
mod tcp;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use forebay_sys::clock::monotonic_ns;
use smoltcp::socket::tcp::State;

use super::counts::Datagrams;
use super::stack::seed;
use super::tcp::{Listener, Tcp};
use super::udp::{Datagram, Udp, UdpLimits};
use super::{Ends, Fate, IpError, IpTotals, Network, Stack, TcpCounts, UdpCounts};
use crate::{Client, ClientError};

/// Most sockets of a client.
const SOCKETS_MAX: usize = 64;
/// Most datagrams of a queue.
const QUEUE_MAX: usize = 65_536;
/// Ports of sockets for which none is asked.
const PORTS_OWN: core::ops::RangeInclusive<u16> = 49_152..=65_535;
/// Frames of one turn each way: then the other side is told.
const BATCH: usize = 256;

/// Whether it is an address of one host (RFC 1122, RFC 4291).
fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || is_broadcast)
}

/// A socket, by a number that no other one of the client has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketId(pub u32);

/// A client under a stack, with sockets of its own.
///
/// The stack works while it is called: what is due meanwhile is done by the next call. The multiplexer answers for the client's addresses all the time.
#[derive(Debug)]
pub struct IpClient {
    stack: Stack,
    udp: BTreeMap<SocketId, Udp>,
    next: u32,
    /// Of sockets that were closed.
    closed: UdpCounts,
    tcp: BTreeMap<SocketId, Tcp>,
    listeners: BTreeMap<SocketId, Listener>,
    /// Of connections that were closed and are at their end.
    closed_tcp: TcpCounts,
    segments_unclaimed: u64,
    /// Where the next port of a connection is looked for.
    port: u16,
}

impl IpClient {
    /// Whether such a client can have a stack in such a network.
    ///
    /// # Errors
    /// It has no address, a prefix is longer than an address, or a gateway is no address of one host.
    pub fn check(client: &Client, network: &Network) -> Result<(), IpError> {
        if client.welcome().addresses.is_empty() {
            return Err(IpError::NoAddress);
        }
        for (version, found, most) in [(4, network.prefix_v4, 32), (6, network.prefix_v6, 128)] {
            if found > most {
                return Err(IpError::Prefix {
                    version,
                    found,
                    most,
                });
            }
        }
        let v4 = network.gateway_v4.map(IpAddr::V4);
        let v6 = network.gateway_v6.map(IpAddr::V6);
        match [v4, v6].into_iter().flatten().find(|way| !is_unicast(*way)) {
            Some(gateway) => Err(IpError::Gateway { gateway }),
            None => Ok(()),
        }
    }

    /// With the addresses that the multiplexer gave.
    ///
    /// # Errors
    /// As [`Self::check`]: the client is gone then.
    pub fn open(client: Client, network: &Network) -> Result<Self, IpError> {
        Self::check(&client, network)?;
        Ok(Self {
            stack: Stack::open(client, network, monotonic_ns()),
            udp: BTreeMap::new(),
            next: 1,
            closed: UdpCounts::default(),
            tcp: BTreeMap::new(),
            listeners: BTreeMap::new(),
            closed_tcp: TcpCounts::default(),
            segments_unclaimed: 0,
            // Another one than that of a run before, whose connections a peer may remember (RFC 6056).
            port: seed() as u16,
        })
    }

    /// The client.
    #[must_use]
    pub const fn client(&self) -> &Client {
        self.stack.device().client()
    }

    /// The client, to flush it, say.
    pub const fn client_mut(&mut self) -> &mut Client {
        self.stack.client_mut()
    }

    /// What all sockets have counted so far.
    #[must_use]
    pub fn counts(&self) -> IpTotals {
        let mut udp = self.closed;
        self.udp.values().for_each(|socket| udp += self.now(socket));
        IpTotals {
            udp,
            tcp: self.all_tcp(),
            segments_unclaimed: self.segments_unclaimed,
            unclaimed: self.stack.unclaimed(),
            device: self.stack.device().counts(),
        }
    }

    /// What a socket of UDP has counted so far.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn udp_counts(&self, id: SocketId) -> Result<UdpCounts, IpError> {
        let socket = self.udp.get(&id).ok_or_else(|| no_udp(id))?;
        Ok(self.now(socket))
    }

    /// With what waits now.
    fn now(&self, socket: &Udp) -> UdpCounts {
        let mut counts = socket.counts;
        for datagram in &socket.unread {
            counts.unread.add(datagram.payload.len());
        }
        counts.unsent = self.unsent(socket);
        counts
    }

    fn unsent(&self, socket: &Udp) -> Datagrams {
        let mut unsent = Datagrams::default();
        let queued = socket.unsent.iter().map(|(_, payload)| payload.len());
        let waiting = self.stack.waiting(socket.port).map(|one| one.bytes);
        queued.chain(waiting).for_each(|bytes| unsent.add(bytes));
        unsent
    }

    /// A socket of UDP at a port of all addresses of the client; 0: at one that is free, from 49,152.
    ///
    /// # Errors
    /// The port is taken, or there are too many sockets, or a queue is none.
    pub fn udp(&mut self, port: u16, limits: UdpLimits) -> Result<SocketId, IpError> {
        for found in [limits.unread_max, limits.unsent_max] {
            if !(1..=QUEUE_MAX).contains(&found) {
                let most = QUEUE_MAX;
                return Err(IpError::Queue { found, most });
            }
        }
        self.may_open()?;
        let number = match port {
            0 => PORTS_OWN
                .into_iter()
                .find(|port| !self.stack.is_bound(*port)),
            port => Some(port),
        };
        let number = number.unwrap_or_default();
        let bound = self.stack.bind(number);
        let port = bound.ok_or(IpError::PortTaken { port: number })?;
        let id = self.new_id();
        let socket = Udp {
            port,
            number,
            limits,
            unread: VecDeque::new(),
            unsent: VecDeque::new(),
            counts: UdpCounts::default(),
            is_awaited: false,
        };
        self.udp.insert(id, socket);
        Ok(id)
    }

    const fn new_id(&mut self) -> SocketId {
        let id = SocketId(self.next);
        self.next += 1;
        id
    }

    /// The port of a socket of UDP.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn port(&self, id: SocketId) -> Result<u16, IpError> {
        let socket = self.udp.get(&id).ok_or_else(|| no_udp(id))?;
        Ok(socket.number)
    }

    /// Closes a socket; what it has counted, with what waited for the program or to be sent.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn close(&mut self, id: SocketId) -> Result<UdpCounts, IpError> {
        let mut counts = self.udp_counts(id)?;
        counts.closed_unread = std::mem::take(&mut counts.unread);
        counts.closed_unsent = std::mem::take(&mut counts.unsent);
        if let Some(socket) = self.udp.remove(&id) {
            self.stack.unbind(socket.port);
        }
        self.closed += counts;
        Ok(counts)
    }

    /// Closes all sockets and connections, at once, before the client ends: what waited is `closed_unread` and `closed_unsent` in what it gives, which is the client's whole account.
    ///
    /// Connections are reset, also those that were closed in order and have bytes that their peers have not acknowledged (`closed_unacknowledged_bytes`). A program that wants them
    /// there waits until `unacknowledged_bytes` is 0 first.
    pub fn close_all(&mut self) -> IpTotals {
        for id in self.udp.keys().copied().collect::<Vec<_>>() {
            // It is there.
            let _ = self.close(id);
        }
        self.end_tcp();
        self.client_mut().flush();
        self.counts()
    }

    /// Hands a datagram over, which goes at once if it can, and is shown to the multiplexer with the next flush or wait.
    ///
    /// # Errors
    /// It cannot go there, it is too long, as many wait as the socket keeps, or the multiplexer is gone.
    pub fn send_to(&mut self, id: SocketId, to: SocketAddr, payload: &[u8]) -> Result<(), IpError> {
        let most = self.stack.datagram_bytes_max(to.ip());
        let has_way = self.stack.has_way(to.ip());
        let socket = self.udp.get(&id).ok_or_else(|| no_udp(id))?;
        if to.port() == 0 {
            return Err(IpError::NoPort { to: to.ip() });
        }
        if !has_way {
            return Err(IpError::NoWay { to: to.ip() });
        }
        let found = payload.len();
        if found > most {
            let to = to.ip();
            return Err(IpError::Length { found, most, to });
        }
        // What was sent before goes first, and may leave room.
        if !self.stack.is_free(socket.port) {
            self.send(monotonic_ns())?;
        }
        let Some(socket) = self.udp.get_mut(&id) else {
            return Err(no_udp(id));
        };
        if !socket.has_room(&self.stack) {
            socket.counts.refused_full += 1;
            socket.is_awaited = true;
            let most = socket.limits.unsent_max;
            return Err(IpError::Full { most });
        }
        socket.counts.asked.add(found);
        let ends = Ends {
            remote: to,
            local: None,
        };
        let now_ns = monotonic_ns();
        let is_first = socket.unsent.is_empty();
        if !(is_first && self.stack.put(socket.port, ends, payload, now_ns)) {
            socket.unsent.push_back((to, payload.to_vec()));
            return Ok(());
        }
        Ok(self.send(now_ns).map(drop)?)
    }

    /// The next datagram that waits for the program.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn take(&mut self, id: SocketId) -> Result<Option<Datagram>, IpError> {
        let socket = self.udp.get_mut(&id).ok_or_else(|| no_udp(id))?;
        let taken = socket.unread.pop_front();
        if let Some(datagram) = &taken {
            socket.counts.taken.add(datagram.payload.len());
        }
        Ok(taken)
    }

    /// Bytes of the payload of the next datagram that waits for the program.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn next_bytes(&self, id: SocketId) -> Result<Option<usize>, IpError> {
        let socket = self.udp.get(&id).ok_or_else(|| no_udp(id))?;
        Ok(socket.unread.front().map(|one| one.payload.len()))
    }

    /// Whether the socket keeps one datagram more to be sent.
    ///
    /// # Errors
    /// There is no such socket.
    pub fn has_room(&self, id: SocketId) -> Result<bool, IpError> {
        let socket = self.udp.get(&id).ok_or_else(|| no_udp(id))?;
        Ok(socket.has_room(&self.stack))
    }

    /// Whether there is something for the program: a datagram, bytes or the end of a connection, one that was made, or room in a socket that had none.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut all = self.udp.values();
        let has_datagrams = all.any(|socket| {
            !socket.unread.is_empty() || (socket.is_awaited && socket.has_room(&self.stack))
        });
        has_datagrams || self.is_tcp_ready()
    }

    /// Receives and sends what there is, a batch at most; whether there was something.
    ///
    /// # Errors
    /// The multiplexer is gone, or its memory has what an honest one does not write.
    pub fn turn(&mut self) -> Result<bool, ClientError> {
        let now_ns = monotonic_ns();
        // The program may have opened sockets since.
        self.listen_all();
        let mut frames = 0;
        while frames < BATCH && self.receive(now_ns) {
            frames += 1;
        }
        let has_sent = self.send(now_ns)?;
        Ok(frames > 0 || has_sent)
    }

    /// Receives one frame; false: there is none.
    fn receive(&mut self, now_ns: u64) -> bool {
        let udp = &mut self.udp;
        let frames = self.stack.receive(now_ns, 1, |port, ends, payload| {
            let Some(socket) = udp.values_mut().find(|socket| socket.port == port) else {
                return;
            };
            socket.counts.received.add(payload.len());
            if socket.unread.len() >= socket.limits.unread_max {
                socket.counts.queue_full.add(payload.len());
                return;
            }
            socket.unread.push_back(Datagram {
                from: ends.remote,
                to: ends.local,
                payload: payload.to_vec(),
            });
        });
        if frames > 0 {
            self.look_at_segment();
        }
        frames > 0
    }

    /// Sends what waits, as long as it goes; whether something went.
    fn send(&mut self, now_ns: u64) -> Result<bool, ClientError> {
        let mut has_sent = false;
        for _ in 0..BATCH {
            for socket in self.udp.values_mut() {
                if !self.stack.is_free(socket.port) {
                    continue;
                }
                let Some((remote, payload)) = socket.unsent.pop_front() else {
                    continue;
                };
                let local = None;
                let ends = Ends { remote, local };
                self.stack.put(socket.port, ends, &payload, now_ns);
            }
            let (udp, mut has_ended) = (&mut self.udp, false);
            let has_gone = self.stack.egress(now_ns, |port, waiting, fate| {
                has_ended = true;
                let Some(socket) = udp.values_mut().find(|socket| socket.port == port) else {
                    return;
                };
                match fate {
                    Fate::Sent => socket.counts.sent.add(waiting.bytes),
                    Fate::NoWay => socket.counts.no_way.add(waiting.bytes),
                    Fate::Unresolved => {
                        socket.counts.unresolved.add(waiting.bytes);
                        socket.forget(waiting.to);
                    }
                }
            });
            has_sent |= has_gone || has_ended;
            if !(has_gone || has_ended) {
                break;
            }
        }
        self.tend_tcp(now_ns);
        self.stack.check()?;
        Ok(has_sent)
    }

    /// Takes turns, and sleeps, until there is something for the program, or that time has come; whether there is something. A signal does not end it.
    ///
    /// # Errors
    /// The multiplexer is gone, behind all that it gave; or its memory has what an honest one does not write.
    pub fn wait(&mut self, until: Instant) -> Result<bool, ClientError> {
        let mut worked = self.turn()?;
        while !self.is_ready() && Instant::now() < until {
            if worked {
                self.client_mut().flush();
            } else {
                let left = until.saturating_duration_since(Instant::now());
                let most = self.patience(left);
                self.client_mut().wait(Instant::now() + most)?;
            }
            worked = self.turn()?;
        }
        self.client_mut().flush();
        Ok(self.tell())
    }

    /// One slice of a wait for a socket: a turn, and a sleep until something has come, if the turn found nothing.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn step(&mut self, until: Instant) -> Result<(), ClientError> {
        if self.turn()? {
            self.client_mut().flush();
            return Ok(());
        }
        let left = until.saturating_duration_since(Instant::now());
        let most = self.patience(left);
        self.client_mut().wait(Instant::now() + most)?;
        self.turn()?;
        self.client_mut().flush();
        Ok(())
    }

    /// Takes a turn, and asks to be woken, for a program that waits for more than this client: none if there is something for the program already. Else the
    /// longest that it may sleep, at most `most`, unless the descriptor ([`AsFd`]) becomes readable; call [`Self::wait`] behind that, with a time that has come.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn arm(&mut self, most: Duration) -> Result<Option<Duration>, ClientError> {
        loop {
            let worked = self.turn()?;
            if self.tell() {
                self.client_mut().flush();
                return Ok(None);
            }
            if worked {
                continue;
            }
            let most = self.patience(most);
            if self.client_mut().arm()?.is_none() {
                return Ok(Some(most));
            }
        }
    }

    /// How long there is nothing to do by itself, at most `most`.
    fn patience(&mut self, most: Duration) -> Duration {
        let now_ns = monotonic_ns();
        let most = self.stack.patience(now_ns, most);
        // One that only waits for late segments of its peer is ended by smoltcp.
        let ending = self.tcp.values().filter(|tcp| tcp.state != State::TimeWait);
        let until_ns = ending.filter_map(|tcp| tcp.until_ns).min();
        until_ns.map_or(most, |until_ns| {
            // What is given up late enough is given up once.
            most.min(Duration::from_nanos(until_ns.saturating_sub(now_ns)))
        })
    }

    /// Whether there is something for the program, to which room that it waited for is told once.
    fn tell(&mut self) -> bool {
        let (is_ready, stack) = (self.is_ready(), &self.stack);
        for socket in self.udp.values_mut() {
            socket.is_awaited &= !socket.has_room(stack);
        }
        self.tell_tcp();
        is_ready
    }
}

impl AsFd for IpClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client().as_fd()
    }
}

fn no_udp(id: SocketId) -> IpError {
    IpError::NoSocket {
        number: id.0,
        kind: "socket of UDP",
    }
}
