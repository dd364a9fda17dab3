//! An IP stack at its place: device, interface and sockets, and the turns that they take. What programs, the libraries for C and Python and
//! `forebay mux client` have of a stack is done here.
//!
//! A socket of UDP is emptied after each frame, so that none finds it full, and has room for one datagram to be sent: so it is known of each datagram whether it went.
//! One whose receiver nobody knows holds up those of its port behind it, for [`PATIENCE_NS`] at most.
//!
//! smoltcp asks for one neighbour in a second, for that of its first socket that has something to send. The stack asks for the others itself, each once in a second,
//! and the time of a datagram begins with a question for its own neighbour.

mod neighbours;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use smoltcp::iface::{Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::Device;
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::IpCidr;

use super::frame::Inside;
use super::{IpDevice, Noted};
use crate::{Client, ClientError};
use neighbours::{ASK_NS, Clock};

/// Longest that a receiver's Ethernet address is asked for, ns.
pub const PATIENCE_NS: u64 = 3_000_000_000;
/// Datagrams that one frame can leave in a socket, with room to see that it is one.
const RECEIVE_SLOTS: usize = 4;

/// The network in which the addresses of a client are: the multiplexer says the addresses alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Bits of an address of version 4 that name the network, 0 to 32.
    pub prefix_v4: u8,
    /// Bits of an address of version 6 that name the network, 0 to 128.
    pub prefix_v6: u8,
    /// The way to other networks of version 4; none: there is none.
    pub gateway_v4: Option<Ipv4Addr>,
    /// The way to other networks of version 6; none: there is none.
    pub gateway_v6: Option<Ipv6Addr>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            prefix_v4: 24,
            prefix_v6: 64,
            gateway_v4: None,
            gateway_v6: None,
        }
    }
}

/// Both ends of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The other station.
    pub remote: SocketAddr,
    /// The client's address; none: the stack chooses one.
    pub local: Option<IpAddr>,
}

/// A port of UDP of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId(usize);

/// A datagram that the stack has, and that has not gone.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Its receiver.
    pub to: IpAddr,
    /// Bytes of its payload.
    pub bytes: usize,
    /// When it was put into its port, ns.
    put_ns: u64,
    /// The neighbour that it goes to, if one is to be asked for; it is looked for when the datagram does not go at once.
    hop: Option<IpAddr>,
    /// Whether somebody was asked since it was put, or nobody is to be asked.
    is_asked: bool,
    clock: Clock,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in a frame that the multiplexer was handed.
    Sent,
    /// The stack did not send it: there is no way to its receiver, or it is longer than the link takes.
    NoWay,
    /// Nobody said which Ethernet address its receiver has, for [`PATIENCE_NS`].
    Unresolved,
}

#[derive(Debug)]
struct Port {
    socket: SocketHandle,
    number: u16,
    waiting: Option<Waiting>,
}

/// A segment of TCP that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The end at this side, and its sender.
    pub(super) ends: [SocketAddr; 2],
    /// Up to where its sender has what this side sent.
    pub(super) confirms: Option<u32>,
    /// Whether it asks for a connection.
    pub(super) is_call: bool,
}

/// A stack at its place.
pub struct Stack {
    device: IpDevice,
    interface: Interface,
    sockets: SocketSet<'static>,
    ports: Vec<Option<Port>>,
    /// Neighbours that were asked for within [`ASK_NS`], and when, ns.
    asked: Vec<(IpAddr, u64)>,
    unclaimed: u64,
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Stack");
        shown.field("device", &self.device);
        shown.field("ports", &self.ports).finish_non_exhaustive()
    }
}

fn instant(now_ns: u64) -> Instant {
    Instant::from_micros((now_ns / 1000) as i64)
}

/// Chooses the first numbers of connections, which must differ from those of a run before, and be no one's guess (RFC 6528): made of random keys of the system.
pub(super) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Stack {
    /// Over this client. The time is that of all turns, ns, and never goes back.
    #[must_use]
    pub fn open(client: Client, network: &Network, now_ns: u64) -> Self {
        let mut device = IpDevice::new(client);
        device.noted = Some(Noted::default());
        let prefixes = [network.prefix_v4, network.prefix_v6];
        let mut interface = device.interface(prefixes, seed(), instant(now_ns));
        let routes = interface.routes_mut();
        // There is room for one of each version.
        if let Some(gateway) = network.gateway_v4 {
            let _ = routes.add_default_ipv4_route(gateway);
        }
        if let Some(gateway) = network.gateway_v6 {
            let _ = routes.add_default_ipv6_route(gateway);
        }
        Self {
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
            ports: Vec::new(),
            asked: Vec::new(),
            unclaimed: 0,
        }
    }

    /// The device, with what it has counted.
    #[must_use]
    pub const fn device(&self) -> &IpDevice {
        &self.device
    }

    /// The client, to wait for it.
    pub const fn client_mut(&mut self) -> &mut Client {
        self.device.client_mut()
    }

    /// Datagrams that came and that no port took: it is not bound, or the stack refuses them, for their check sum, say.
    #[must_use]
    pub const fn unclaimed(&self) -> u64 {
        self.unclaimed
    }

    /// What failed since this was last asked.
    ///
    /// # Errors
    /// The daemon is gone, or its memory has what an honest one does not write.
    pub fn check(&mut self) -> Result<(), ClientError> {
        self.device.check()
    }

    /// Longest payload of a datagram to an address of that version, in bytes: there are no fragments.
    #[must_use]
    pub fn datagram_bytes_max(&self, to: IpAddr) -> usize {
        let headers = if to.is_ipv4() { 20 + 8 } else { 40 + 8 };
        let ethernet = crate::protocol::HEADER_BYTES;
        let frame = self.device.capabilities().max_transmission_unit;
        frame.saturating_sub(ethernet + headers)
    }

    /// Whether there is a way to this address: it is in a network of the client's, or a gateway leads there.
    #[must_use]
    pub fn has_way(&self, to: IpAddr) -> bool {
        let (all, to_ip) = (self.interface.ip_addrs(), to.into());
        let is_near = all.iter().any(|own| own.contains_addr(&to_ip));
        let of_version = |own: &IpCidr| match own.address() {
            smoltcp::wire::IpAddress::Ipv4(_) => to.is_ipv4(),
            smoltcp::wire::IpAddress::Ipv6(_) => to.is_ipv6(),
        };
        let routes = self.interface.routes();
        let is_far = match to {
            IpAddr::V4(to) => {
                to.is_multicast() || to.is_broadcast() || routes.get_default_ipv4_route().is_some()
            }
            IpAddr::V6(to) => to.is_multicast() || routes.get_default_ipv6_route().is_some(),
        };
        !to.is_unspecified() && all.iter().any(of_version) && (is_near || is_far)
    }

    /// Binds a port of UDP, 1 to 65,535, of all addresses of the client; none: it is bound already.
    pub fn bind(&mut self, number: u16) -> Option<PortId> {
        if number == 0 || self.is_bound(number) {
            return None;
        }
        let socket = self.sockets.add(self.udp_socket(number));
        let port = Port {
            socket,
            number,
            waiting: None,
        };
        let free = self.ports.iter().position(Option::is_none);
        let at = free.unwrap_or(self.ports.len());
        match self.ports.get_mut(at) {
            Some(place) => *place = Some(port),
            None => self.ports.push(Some(port)),
        }
        Some(PortId(at))
    }

    /// Whether a port of UDP is bound.
    #[must_use]
    pub fn is_bound(&self, number: u16) -> bool {
        let mut bound = self.ports.iter().flatten();
        bound.any(|port| port.number == number)
    }

    /// Frees a port; the datagram that it had and that did not go.
    pub fn unbind(&mut self, port: PortId) -> Option<Waiting> {
        let port = self.ports.get_mut(port.0)?.take()?;
        self.sockets.remove(port.socket);
        port.waiting
    }

    fn udp_socket(&self, number: u16) -> udp::Socket<'static> {
        let most = self.device.client.welcome().receive.frame_bytes as usize;
        let most = most.max(self.device.client.frame_bytes_max());
        let buffer = |slots: usize| {
            let empty = vec![udp::PacketMetadata::EMPTY; slots];
            udp::PacketBuffer::new(empty, vec![0; slots * most])
        };
        let mut socket = udp::Socket::new(buffer(RECEIVE_SLOTS), buffer(1));
        // Refused are a port of 0 and a socket that is bound.
        let _ = socket.bind(number);
        socket
    }

    /// Adds a socket of TCP.
    pub fn add_tcp(&mut self, socket: tcp::Socket<'static>) -> SocketHandle {
        self.sockets.add(socket)
    }

    /// A socket of TCP, and what it needs to connect.
    pub fn tcp(&mut self, handle: SocketHandle) -> (&mut tcp::Socket<'static>, &mut Interface) {
        (self.sockets.get_mut(handle), &mut self.interface)
    }

    /// A socket of TCP, to look at.
    pub(super) fn tcp_of(&self, handle: SocketHandle) -> &tcp::Socket<'static> {
        self.sockets.get(handle)
    }

    /// The segment of TCP in the last frame that came, if it has one.
    pub(super) const fn segment(&self) -> Option<Segment> {
        match self.device.brought {
            Inside::Segment {
                from,
                to,
                confirms,
                is_call,
                ..
            } => Some(Segment {
                ends: [to, from],
                confirms,
                is_call,
            }),
            _ => None,
        }
    }

    /// Whether a segment went from the first of these ends to the second since they were forgotten.
    pub(super) fn has_sent_segment(&self, ends: [SocketAddr; 2]) -> bool {
        let noted = self.device.noted.as_ref();
        noted.is_some_and(|noted| noted.segments.contains(&ends))
    }

    /// Forgets which segments went.
    pub(super) fn forget_segments(&mut self) {
        if let Some(noted) = &mut self.device.noted {
            noted.segments.clear();
        }
    }

    /// Removes a socket of TCP.
    pub fn remove_tcp(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }

    /// Receives so many frames at most, and gives the datagrams in them; how many frames came.
    pub fn receive(
        &mut self,
        now_ns: u64,
        frames_max: usize,
        mut take: impl FnMut(PortId, Ends, &[u8]),
    ) -> usize {
        let now = instant(now_ns);
        for frame in 0..frames_max {
            let came = self
                .interface
                .poll_ingress_single(now, &mut self.device, &mut self.sockets);
            if came == PollIngressSingleResult::None {
                return frame;
            }
            let mut is_taken = false;
            for (at, port) in self.ports.iter().enumerate() {
                let Some(port) = port else { continue };
                let socket = self.sockets.get_mut::<udp::Socket<'_>>(port.socket);
                while let Ok((payload, from)) = socket.recv() {
                    let ends = Ends {
                        remote: from.endpoint.into(),
                        local: from.local_address.map(Into::into),
                    };
                    take(PortId(at), ends, payload);
                    is_taken = true;
                }
            }
            self.unclaimed += u64::from(!is_taken && self.device.brought.is_datagram());
        }
        frames_max
    }

    /// Whether the port takes a datagram to be sent: it has none that waits.
    #[must_use]
    pub fn is_free(&self, port: PortId) -> bool {
        self.waiting(port).is_none()
    }

    /// The datagram that a port has and that has not gone.
    #[must_use]
    pub fn waiting(&self, port: PortId) -> Option<Waiting> {
        self.ports.get(port.0)?.as_ref()?.waiting
    }

    /// Puts a datagram into a port that is free: what becomes of it is told by [`Self::egress`]. False: the port is not free.
    pub fn put(&mut self, port: PortId, ends: Ends, payload: &[u8], now_ns: u64) -> bool {
        let Some(Some(port)) = self.ports.get_mut(port.0) else {
            return false;
        };
        if port.waiting.is_some() {
            return false;
        }
        let mut meta = udp::UdpMetadata::from(ends.remote);
        meta.local_address = ends.local.map(Into::into);
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(port.socket);
        // A datagram to port 0, say, is not taken: it is found neither in the socket nor sent.
        let _ = socket.send_slice(payload, meta);
        port.waiting = Some(Waiting {
            to: ends.remote.ip(),
            bytes: payload.len(),
            put_ns: now_ns,
            hop: None,
            is_asked: false,
            clock: Clock::NEW,
        });
        true
    }

    /// Sends what sockets have, one packet of each at most, and tells what became of datagrams; whether a socket sent something.
    pub fn egress(&mut self, now_ns: u64, mut tell: impl FnMut(PortId, Waiting, Fate)) -> bool {
        if let Some(noted) = &mut self.device.noted {
            noted.from_ports.clear();
        }
        let now = instant(now_ns);
        let polled = self
            .interface
            .poll_egress(now, &mut self.device, &mut self.sockets);
        let is_old = |at: u64| now_ns.saturating_sub(at) >= ASK_NS;
        self.asked.retain(|(_, at)| !is_old(*at));
        self.note_asked(now_ns);
        for at in 0..self.ports.len() {
            if let Some((waiting, fate)) = self.gone(at).or_else(|| self.given_up(at, now_ns)) {
                tell(PortId(at), waiting, fate);
            }
        }
        polled != PollResult::None
    }

    /// What became of the datagram of a port, if smoltcp has it no more.
    fn gone(&mut self, at: usize) -> Option<(Waiting, Fate)> {
        let port = self.ports.get_mut(at)?.as_mut()?;
        let waiting = port.waiting?;
        if !self.sockets.get::<udp::Socket<'_>>(port.socket).can_send() {
            return None;
        }
        port.waiting = None;
        let noted = self.device.noted.as_ref()?;
        let has_gone = noted.from_ports.contains(&port.number);
        let fate = if has_gone { Fate::Sent } else { Fate::NoWay };
        Some((waiting, fate))
    }

    /// Asks for the neighbour of a datagram that did not go, and gives it up when its time is over.
    fn given_up(&mut self, at: usize, now_ns: u64) -> Option<(Waiting, Fate)> {
        let mut waiting = self.ports.get(at)?.as_ref()?.waiting?;
        // Without a buffer for a frame nobody can be asked.
        let is_ready = self.device.client.is_ready().unwrap_or(false);
        if is_ready && !waiting.is_asked {
            waiting.hop = self.hop(waiting.to);
        }
        if let Some(hop) = waiting.hop.filter(|_| is_ready) {
            self.ask(hop, now_ns);
        }
        let asked = waiting.hop.is_none_or(|hop| {
            let mut all = self.asked.iter();
            all.any(|(one, at_ns)| *one == hop && *at_ns >= waiting.put_ns)
        });
        waiting.is_asked |= is_ready && asked;
        let is_over = waiting.clock.tick(now_ns, is_ready && waiting.is_asked);
        let port = self.ports.get_mut(at)?.as_mut()?;
        if !is_over {
            port.waiting = Some(waiting);
            return None;
        }
        port.waiting = None;
        let (number, old) = (port.number, port.socket);
        // A socket of smoltcp keeps the receiver that it waits for.
        self.sockets.remove(old);
        let new = self.sockets.add(self.udp_socket(number));
        self.ports.get_mut(at)?.as_mut()?.socket = new;
        Some((waiting, Fate::Unresolved))
    }

    /// How long the stack has nothing to do by itself, at most `most`.
    pub fn patience(&mut self, now_ns: u64, most: Duration) -> Duration {
        // Without a buffer it is the multiplexer's turn, which ends the sleep.
        if !self.device.client.is_ready().unwrap_or(false) {
            return most;
        }
        let delay = self.interface.poll_delay(instant(now_ns), &self.sockets);
        let delay = delay.map_or(most, |delay| Duration::from_micros(delay.total_micros()));
        let waiting = self.ports.iter().flatten().filter_map(|port| port.waiting);
        let due_ns = waiting.map(|waiting| self.due_ns(&waiting, now_ns)).min();
        let until = due_ns.map_or(most, |due_ns| {
            Duration::from_nanos(due_ns.saturating_sub(now_ns))
        });
        most.min(delay).min(until)
    }

    /// When a datagram that waits is to be looked at, ns: its neighbour is asked for again, or it is given up.
    fn due_ns(&self, waiting: &Waiting, now_ns: u64) -> u64 {
        let hop = |asked: &&(IpAddr, u64)| Some(asked.0) == waiting.hop;
        let again_ns = self.asked.iter().find(hop).map(|(_, at)| at + ASK_NS);
        let Some(since_ns) = waiting.clock.runs_since_ns else {
            // The neighbour was asked for just before: nobody asks anew until that is old.
            return again_ns.unwrap_or(now_ns);
        };
        let over_ns = since_ns + waiting.clock.left_ns;
        again_ns.map_or(over_ns, |again_ns| over_ns.min(again_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_of_connections_are_chosen_anew() {
        assert_ne!(seed(), seed());
    }

    #[test]
    fn time_is_told_in_microseconds() {
        assert_eq!(instant(7_654_321_987), Instant::from_micros(7_654_321));
    }
}
