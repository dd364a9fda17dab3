//! Listeners of TCP of a client, and the connections that come to them.

use std::collections::VecDeque;
use std::net::SocketAddr;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;

use super::{IpClient, SOCKETS_MAX, SocketId};
use crate::ip::stack::{Segment, Stack};
use crate::ip::tcp::{Listener, Tcp};
use crate::ip::{IpError, TcpLimits};

/// Most connections that a listener keeps for the program.
const BACKLOG_MAX: usize = 64;

/// Whether a socket waits for a call.
fn is_listening(stack: &Stack, handle: SocketHandle) -> bool {
    stack.tcp_of(handle).state() == State::Listen
}

impl IpClient {
    /// Listens at a port of all addresses of the client, and keeps so many connections for the program, 1 to 64: one that comes then is refused, and counted as
    /// `backlog_full`. So is one for which the client has no socket.
    ///
    /// # Errors
    /// The port is taken, or there are too many sockets, or a limit is none.
    pub fn tcp_listen(
        &mut self,
        port: u16,
        backlog: usize,
        limits: TcpLimits,
    ) -> Result<SocketId, IpError> {
        limits.check()?;
        self.may_open()?;
        if !(1..=BACKLOG_MAX).contains(&backlog) {
            let (found, most) = (backlog, BACKLOG_MAX);
            return Err(IpError::Queue { found, most });
        }
        let number = match port {
            0 => self.free_port(),
            // Connections that a listener before had are those of their peers.
            port => Some(port).filter(|port| !self.is_listened(*port)),
        };
        let number = number.ok_or(IpError::PortTaken { port })?;
        let id = self.new_id();
        let listener = Listener {
            number,
            limits,
            waiting: Vec::new(),
            backlog,
            made: VecDeque::new(),
        };
        self.listeners.insert(id, listener);
        self.listen(id);
        Ok(id)
    }

    /// The next connection that was made at a listener, if there is one.
    ///
    /// # Errors
    /// There is no such listener.
    pub fn tcp_accept(&mut self, listener: SocketId) -> Result<Option<SocketId>, IpError> {
        let of = self.listeners.get_mut(&listener);
        let of = of.ok_or_else(|| no_listener(listener))?;
        let made = of.made.pop_front();
        self.listen(listener);
        Ok(made)
    }

    pub(super) fn is_listened(&self, number: u16) -> bool {
        let mut listeners = self.listeners.values();
        listeners.any(|one| one.number == number)
    }

    /// Connections that are being made at listeners.
    pub(super) fn calling(&self) -> usize {
        let all = self.listeners.values().flat_map(|one| &one.waiting);
        let calling = all.filter(|handle| !is_listening(&self.stack, **handle));
        calling.count()
    }

    /// Has each listener, before frames are taken, as many sockets that listen as connections may come: those that it has to keep, and those that the client may have in all.
    pub(super) fn listen_all(&mut self) {
        for id in self.listeners.keys().copied().collect::<Vec<_>>() {
            self.listen(id);
        }
    }

    fn listen(&mut self, id: SocketId) {
        let free = SOCKETS_MAX.saturating_sub(self.opened());
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let all = listener.waiting.iter();
        let calling = all.filter(|one| !is_listening(&self.stack, **one)).count();
        let mut listening = listener.waiting.len() - calling;
        let kept = listener.made.len() + calling;
        let wanted = listener.backlog.saturating_sub(kept).min(free);
        while listening < wanted {
            let mut socket = listener.limits.socket();
            // Refused are a port of 0 and a socket that is open.
            let _ = socket.listen(listener.number);
            listener.waiting.push(self.stack.add_tcp(socket));
            listening += 1;
        }
        listener.waiting.retain(|handle| {
            let stays = listening <= wanted || !is_listening(&self.stack, *handle);
            if !stays {
                self.stack.remove_tcp(*handle);
                listening -= 1;
            }
            stays
        });
    }

    /// Whether a connection with these ends is being made at a listener.
    pub(super) fn is_calling(&self, [local, peer]: [SocketAddr; 2]) -> bool {
        let ends = Some((local.into(), peer.into()));
        let mut all = self.listeners.values().flat_map(|one| &one.waiting);
        all.any(|handle| {
            let socket = self.stack.tcp_of(*handle);
            socket.local_endpoint().zip(socket.remote_endpoint()) == ends
        })
    }

    /// Looks at what a segment to a listener's port has changed, which is of no connection.
    pub(super) fn look_at_call(&mut self, id: SocketId, segment: &Segment) {
        let is_taken = self.is_calling(segment.ends);
        // The stack answers a call that it refuses by a reset.
        if segment.is_call && !is_taken && self.stack.has_sent_segment(segment.ends) {
            self.closed_tcp.backlog_full += 1;
        }
        self.look_at_listener(id, Some(segment));
        if segment.is_call {
            self.listen_all();
        }
    }

    /// Takes the connections over that were made at a listener, by this segment if there is one.
    pub(super) fn look_at_listener(&mut self, id: SocketId, segment: Option<&Segment>) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let (number, limits) = (listener.number, listener.limits);
        for at in (0..listener.waiting.len()).rev() {
            let handle = listener.waiting[at];
            let (socket, _) = self.stack.tcp(handle);
            let ends = socket.local_endpoint().zip(socket.remote_endpoint());
            match (socket.state(), ends) {
                (State::Listen | State::SynReceived, _) => {}
                (State::Closed, _) | (_, None) => {
                    let _ = socket.listen(number);
                }
                (state, Some((local, peer))) => {
                    listener.waiting.swap_remove(at);
                    let made = SocketId(self.next);
                    self.next += 1;
                    let mut tcp = Tcp::new(handle, [local.into(), peer.into()], limits, state);
                    tcp.has_sent = true;
                    tcp.observe(&mut self.stack, segment);
                    listener.made.push_back(made);
                    self.tcp.insert(made, tcp);
                }
            }
        }
    }

    /// Asks for those that a listener has to answer.
    pub(super) fn ask_for_callers(&mut self, id: SocketId, now_ns: u64) {
        let waiting = self.listeners.get(&id).map(|one| &one.waiting);
        for handle in waiting.into_iter().flatten() {
            let socket = self.stack.tcp_of(*handle);
            let is_calling = socket.state() == State::SynReceived;
            let ends = socket.local_endpoint().zip(socket.remote_endpoint());
            let Some((local, peer)) = ends.filter(|_| is_calling) else {
                continue;
            };
            if !self.stack.has_sent_segment([local.into(), peer.into()]) {
                self.stack.ask_for(peer.addr.into(), now_ns);
            }
        }
    }
}

fn no_listener(id: SocketId) -> IpError {
    let kind = "listener of TCP";
    let number = id.0;
    IpError::NoSocket { number, kind }
}
