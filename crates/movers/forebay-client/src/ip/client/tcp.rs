//! Connections of TCP of a client.

use std::net::SocketAddr;

use forebay_sys::clock::monotonic_ns;
use smoltcp::socket::tcp::State;

use super::{IpClient, PORTS_OWN, SOCKETS_MAX, SocketId};
use crate::ip::stack::Segment;
use crate::ip::tcp::{Listener, Tcp};
use crate::ip::{IpError, TcpCounts, TcpLimits};

/// Most connections that the program has closed and that are not at their end.
const CLOSING_MAX: usize = 64;

impl IpClient {
    /// Begins a connection to a host: [`Self::tcp_is_connected`] says whether it is made. It has a port of its own, from 49,152.
    ///
    /// # Errors
    /// It cannot go there, or there are too many sockets, or a limit is none; or the multiplexer is gone.
    pub fn tcp_connect(&mut self, to: SocketAddr, limits: TcpLimits) -> Result<SocketId, IpError> {
        limits.check()?;
        self.may_open()?;
        if to.port() == 0 {
            return Err(IpError::NoPort { to: to.ip() });
        }
        if !self.stack.has_way(to.ip()) || to.ip().is_multicast() {
            return Err(IpError::NoWay { to: to.ip() });
        }
        let number = self.free_port().ok_or(IpError::PortTaken { port: 0 })?;
        let handle = self.stack.add_tcp(limits.socket());
        let (socket, interface) = self.stack.tcp(handle);
        let called = socket.connect(interface.context(), to, number).ok();
        let ends = socket.local_endpoint().zip(socket.remote_endpoint());
        let Some((local, peer)) = called.and(ends) else {
            self.stack.remove_tcp(handle);
            return Err(IpError::NoWay { to: to.ip() });
        };
        let id = self.new_id();
        let made = Tcp::new(handle, [local.into(), peer.into()], limits, State::SynSent);
        self.tcp.insert(id, made);
        self.send(monotonic_ns())?;
        Ok(id)
    }

    /// Whether a connection is made, or was before it came to its end.
    ///
    /// # Errors
    /// It was refused, is at its end by a reset or a time-out; or there is no such connection.
    pub fn tcp_is_connected(&self, id: SocketId) -> Result<bool, IpError> {
        let tcp = self.connection(id)?;
        tcp.error().map_or(Ok(!tcp.is_connecting()), Err)
    }

    /// The far end of a connection.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn tcp_peer(&self, id: SocketId) -> Result<SocketAddr, IpError> {
        Ok(self.connection(id)?.peer)
    }

    /// The port of a connection or of a listener.
    ///
    /// # Errors
    /// There is no such one.
    pub fn tcp_port(&self, id: SocketId) -> Result<u16, IpError> {
        let listener = self.listeners.get(&id).map(|listener| listener.number);
        listener.map_or_else(|| Ok(self.connection(id)?.local.port()), Ok)
    }

    /// Hands bytes over, as many as there is room for: 0 while there is none, or the connection is not made. They go at once if they can, and are shown to the
    /// multiplexer with the next flush or wait.
    ///
    /// # Errors
    /// The connection is at its end, or the program has said that it sends no more; there is no such connection, or the multiplexer is gone.
    pub fn tcp_send(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize, IpError> {
        self.connection(id)?;
        let Some(tcp) = self.tcp.get_mut(&id) else {
            return Ok(0);
        };
        if let Some(error) = tcp.error() {
            tcp.is_end_told = true;
            return Err(error);
        }
        if !tcp.is_connecting() && !self.stack.tcp_of(tcp.socket).may_send() {
            return Err(IpError::ShutDown { peer: tcp.peer });
        }
        let put = tcp.put(&mut self.stack, bytes);
        tcp.is_awaited = put < bytes.len();
        if put > 0 {
            self.send(monotonic_ns())?;
        }
        Ok(put)
    }

    /// Copies bytes that came, as many as there are and `to` has room for; none: nothing has come yet, 0: the peer has said all that it will say.
    ///
    /// # Errors
    /// The connection is at its end by a reset or a time-out, behind all that came; there is no such connection, or the multiplexer is gone.
    pub fn tcp_receive(&mut self, id: SocketId, to: &mut [u8]) -> Result<Option<usize>, IpError> {
        self.connection(id)?;
        let Some(tcp) = self.tcp.get_mut(&id) else {
            return Ok(None);
        };
        if to.is_empty() {
            return Ok(Some(0));
        }
        let taken = tcp.take(&mut self.stack, to);
        if taken == Some(0) {
            tcp.is_end_told = true;
            return tcp.error().map_or(Ok(taken), Err);
        }
        // The peer is told that there is room again.
        if taken.is_some() {
            self.send(monotonic_ns())?;
        }
        Ok(taken)
    }

    /// Whether a call that sends would hand over something, or fail.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn tcp_has_room(&self, id: SocketId) -> Result<bool, IpError> {
        Ok(self.connection(id)?.has_room(&self.stack))
    }

    /// Whether a call that receives would give bytes, the end or an error; of a listener, whether it has a connection.
    ///
    /// # Errors
    /// There is no such connection or listener.
    pub fn tcp_is_readable(&self, id: SocketId) -> Result<bool, IpError> {
        let listener = self.listeners.get(&id);
        if let Some(listener) = listener {
            return Ok(!listener.made.is_empty());
        }
        Ok(self.connection(id)?.is_readable(&self.stack))
    }

    /// Says that the program sends no more on a connection: the peer is told behind all that was handed over.
    ///
    /// # Errors
    /// There is no such connection, it is not made or is at its end; or the multiplexer is gone.
    pub fn tcp_shut_down(&mut self, id: SocketId) -> Result<(), IpError> {
        let tcp = self.connection(id)?;
        if let Some(error) = tcp.error() {
            return Err(error);
        }
        let (handle, peer) = (tcp.socket, tcp.peer);
        if tcp.is_connecting() {
            return Err(IpError::Connecting { peer });
        }
        self.stack.tcp(handle).0.close();
        self.look(id, None);
        Ok(self.send(monotonic_ns()).map(drop)?)
    }

    /// Closes a connection or a listener. What was handed over goes on to the peer, for as long as its time-out says; if something is unread, or comes after that,
    /// the peer is told by a reset. Connections that a listener has and the program has not accepted are closed as well.
    ///
    /// # Errors
    /// There is no such one, or the multiplexer is gone.
    pub fn tcp_close(&mut self, id: SocketId) -> Result<(), IpError> {
        if let Some(listener) = self.listeners.remove(&id) {
            for handle in listener.waiting {
                self.stack.remove_tcp(handle);
            }
            for made in listener.made {
                self.close_connection(made, false);
            }
            return Ok(self.send(monotonic_ns()).map(drop)?);
        }
        self.connection(id)?;
        self.close_connection(id, false);
        Ok(self.send(monotonic_ns()).map(drop)?)
    }

    /// What a connection has counted so far.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn tcp_counts(&self, id: SocketId) -> Result<TcpCounts, IpError> {
        Ok(self.connection(id)?.now(&self.stack))
    }

    /// What all connections have counted.
    pub(super) fn all_tcp(&self) -> TcpCounts {
        let mut all = self.closed_tcp;
        self.tcp
            .values()
            .for_each(|tcp| all += tcp.now(&self.stack));
        all
    }

    /// Whether a connection or a listener has something for the program.
    pub(super) fn is_tcp_ready(&self) -> bool {
        let has_made = |listener: &Listener| !listener.made.is_empty();
        let mut own = self.tcp.values().filter(|tcp| tcp.until_ns.is_none());
        self.listeners.values().any(has_made) || own.any(|tcp| tcp.is_news(&self.stack))
    }

    /// Notes that the program was told of what has room.
    pub(super) fn tell_tcp(&mut self) {
        for tcp in self.tcp.values_mut() {
            tcp.is_awaited &= !tcp.has_room(&self.stack);
        }
    }

    /// Ends all connections and listeners at once: what waits in them is counted as closed.
    pub(super) fn end_tcp(&mut self) {
        for id in self.listeners.keys().copied().collect::<Vec<_>>() {
            // It is there.
            let _ = self.tcp_close(id);
        }
        for id in self.tcp.keys().copied().collect::<Vec<_>>() {
            self.close_connection(id, true);
        }
        // Resets that find no buffer are not sent: the multiplexer ends the place.
        let _ = self.send(monotonic_ns());
        for id in self.tcp.keys().copied().collect::<Vec<_>>() {
            self.forget_tcp(id);
        }
    }

    fn connection(&self, id: SocketId) -> Result<&Tcp, IpError> {
        let tcp = self.tcp.get(&id).filter(|tcp| tcp.until_ns.is_none());
        let kind = "connection of TCP";
        let number = id.0;
        tcp.ok_or(IpError::NoSocket { number, kind })
    }

    fn is_tcp_port(&self, number: u16) -> bool {
        let mut all = self.tcp.values();
        self.is_listened(number) || all.any(|one| one.local.port() == number)
    }

    /// A port of the client's own that is free, behind that of the connection before.
    pub(super) fn free_port(&mut self) -> Option<u16> {
        let (first, last) = (*PORTS_OWN.start(), *PORTS_OWN.end());
        for _ in PORTS_OWN {
            let next = self.port.wrapping_add(1);
            self.port = if next < first {
                first | (next & (last - first))
            } else {
                next
            };
            if !self.is_tcp_port(self.port) {
                return Some(self.port);
            }
        }
        None
    }

    /// Sockets, listeners and connections that the program has not closed, those among them that it has not accepted or that are being made.
    pub(super) fn opened(&self) -> usize {
        let closing = self.tcp.values().filter(|tcp| tcp.until_ns.is_some());
        let tcp = self.tcp.len() - closing.count();
        self.udp.len() + self.listeners.len() + tcp + self.calling()
    }

    /// Whether one socket more can be opened.
    pub(super) fn may_open(&self) -> Result<(), IpError> {
        if self.opened() < SOCKETS_MAX {
            return Ok(());
        }
        Err(IpError::TooMany { most: SOCKETS_MAX })
    }

    fn close_connection(&mut self, id: SocketId, at_once: bool) {
        let Some(tcp) = self.tcp.get_mut(&id) else {
            return;
        };
        let is_unread = tcp.now(&self.stack).unread_bytes > 0;
        let (socket, _) = self.stack.tcp(tcp.socket);
        let limit_ns = tcp.limits.timeout.as_nanos() as u64;
        tcp.until_ns.get_or_insert(monotonic_ns() + limit_ns);
        // One that is given up by its own program is no time-out.
        if at_once || is_unread {
            socket.abort();
            tcp.state = State::Closed;
        } else {
            socket.close();
            tcp.state = socket.state();
        }
    }

    /// Removes a connection that is at its end, and counts what waited in it as closed.
    fn forget_tcp(&mut self, id: SocketId) {
        let Some(tcp) = self.tcp.remove(&id) else {
            return;
        };
        let mut counts = tcp.now(&self.stack);
        counts.closed_unread_bytes = std::mem::take(&mut counts.unread_bytes);
        counts.closed_unacknowledged_bytes = std::mem::take(&mut counts.unacknowledged_bytes);
        self.closed_tcp += counts;
        self.stack.remove_tcp(tcp.socket);
    }

    /// Looks at what the last frame that came has changed.
    pub(super) fn look_at_segment(&mut self) {
        let Some(segment) = self.stack.segment() else {
            return;
        };
        // A connection at its end may have had the same ends before.
        let is_of = |tcp: &Tcp| [tcp.local, tcp.peer] == segment.ends && tcp.state != State::Closed;
        let found = self.tcp.iter().rev().find(|(_, tcp)| is_of(tcp));
        let is_later = |tcp: &Tcp| tcp.state == State::TimeWait && self.is_calling(segment.ends);
        let found = found.filter(|(_, tcp)| !is_later(tcp));
        if let Some(id) = found.map(|(id, _)| *id) {
            return self.look(id, Some(&segment));
        }
        let number = segment.ends[0].port();
        let mut listeners = self.listeners.iter();
        let Some(id) = listeners.find(|(_, one)| one.number == number) else {
            self.segments_unclaimed += 1;
            return;
        };
        self.look_at_call(*id.0, &segment);
    }

    fn look(&mut self, id: SocketId, segment: Option<&Segment>) {
        if let Some(tcp) = self.tcp.get_mut(&id) {
            tcp.observe(&mut self.stack, segment);
        }
    }

    /// What time does to connections: they are given up, or forgotten at their end; and peers that are to be reached are asked for.
    pub(super) fn tend_tcp(&mut self, now_ns: u64) {
        if self.tcp.is_empty() && self.listeners.is_empty() {
            return;
        }
        for id in self.listeners.keys().copied().collect::<Vec<_>>() {
            self.look_at_listener(id, None);
            self.ask_for_callers(id, now_ns);
        }
        let closing = self.tcp.values().filter(|tcp| tcp.until_ns.is_some());
        let mut crowd = closing.count().saturating_sub(CLOSING_MAX);
        let mut ended = Vec::new();
        for (id, tcp) in &mut self.tcp {
            tcp.has_sent |= self.stack.has_sent_segment([tcp.local, tcp.peer]);
            if tcp.is_connecting() && !tcp.has_sent {
                self.stack.ask_for(tcp.peer.ip(), now_ns);
            }
            tcp.observe(&mut self.stack, None);
            let Some(until_ns) = tcp.until_ns else {
                continue;
            };
            let (socket, _) = self.stack.tcp(tcp.socket);
            let is_late = now_ns >= until_ns && tcp.state != State::TimeWait;
            // Nobody reads what comes now.
            if is_late || socket.recv_queue() > 0 {
                tcp.counts.given_up += u64::from(is_late && tcp.state != State::Closed);
                socket.abort();
                tcp.state = State::Closed;
            }
            // A reset that is still to be sent has its ends.
            let is_said = socket.remote_endpoint().is_none() || now_ns >= until_ns;
            let is_done = tcp.state == State::Closed && is_said;
            if is_done || crowd > 0 {
                tcp.counts.given_up += u64::from(tcp.is_open());
                crowd = crowd.saturating_sub(1);
                ended.push(*id);
            }
        }
        self.stack.forget_segments();
        ended.into_iter().for_each(|id| self.forget_tcp(id));
    }
}
