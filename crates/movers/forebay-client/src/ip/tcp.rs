//! A connection of TCP, and what listens for them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};

use super::stack::Segment;
use super::{IpError, SocketId, Stack, TcpCounts};

/// Least and most bytes that a connection keeps each way.
const BUFFER_BYTES: core::ops::RangeInclusive<usize> = 2_048..=16 << 20;
/// Shortest and longest that a peer may say nothing.
const TIMEOUT: core::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3_600);
/// So often a peer that says nothing is asked within the time-out whether it is there.
const PROBES: u32 = 3;

/// What a connection keeps, and how long its peer may say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpLimits {
    /// Bytes that came and wait for the program, 2,048 to 16 Mi: the window.
    pub receive_bytes: usize,
    /// Bytes that the peer has not acknowledged, 2,048 to 16 Mi.
    pub send_bytes: usize,
    /// Longest that the peer may say nothing, 0.1 s to 1 h, also while the connection is made: it is asked three times meanwhile, and given up then. The stack hears and asks in calls of the client alone: a program that makes none for so long loses connections that were well.
    pub timeout: Duration,
}

impl Default for TcpLimits {
    fn default() -> Self {
        Self {
            receive_bytes: 256 << 10,
            send_bytes: 256 << 10,
            timeout: Duration::from_secs(30),
        }
    }
}

impl TcpLimits {
    pub(super) fn check(&self) -> Result<(), IpError> {
        for found in [self.receive_bytes, self.send_bytes] {
            if !BUFFER_BYTES.contains(&found) {
                let (least, most) = (*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
                return Err(IpError::Buffer { found, least, most });
            }
        }
        if TIMEOUT.contains(&self.timeout) {
            Ok(())
        } else {
            let found_ms = self.timeout.as_millis();
            Err(IpError::Timeout { found_ms })
        }
    }

    /// A socket of smoltcp. Small segments go at once, without Nagle's wait (RFC 896): a program that wants few of them hands over more at a time.
    pub(super) fn socket(&self) -> Socket<'static> {
        let buffer = |bytes| SocketBuffer::new(vec![0; bytes]);
        let mut socket = Socket::new(buffer(self.receive_bytes), buffer(self.send_bytes));
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Cubic);
        let ms = |of: Duration| smoltcp::time::Duration::from_millis(of.as_millis() as u64);
        socket.set_timeout(Some(ms(self.timeout)));
        socket.set_keep_alive(Some(ms(self.timeout / PROBES)));
        socket
    }
}

/// What ended a connection before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Refused,
    Reset,
    TimedOut,
}

/// Whether a segment between these states confirmed the end of what this side sends, which has a number of its own behind all bytes (RFC 9293, 3.3.2).
const fn has_end(before: State, now: State) -> bool {
    matches!(
        (before, now),
        (State::FinWait1, State::FinWait2 | State::TimeWait)
            | (State::Closing, State::TimeWait)
            | (State::LastAck, State::Closed)
    )
}

/// What listens at a port.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) number: u16,
    pub(super) limits: TcpLimits,
    /// Sockets that wait for a connection, or in which one is made.
    pub(super) waiting: Vec<SocketHandle>,
    /// Most connections that wait for the program.
    pub(super) backlog: usize,
    /// Connections that wait for the program.
    pub(super) made: VecDeque<SocketId>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Tcp {
    pub(super) socket: SocketHandle,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) limits: TcpLimits,
    pub(super) state: State,
    pub(super) end: Option<End>,
    /// Whether a segment of it has gone: the peer's Ethernet address is known.
    pub(super) has_sent: bool,
    /// Whether the program wants to know when it is made, or has room.
    pub(super) is_awaited: bool,
    /// Whether the program knows that nothing more comes.
    pub(super) is_end_told: bool,
    /// When a connection that the program has closed is given up, ns.
    pub(super) until_ns: Option<u64>,
    pub(super) counts: TcpCounts,
    /// Bytes in the socket each way, by what was put in and taken out.
    unread: usize,
    unacknowledged: usize,
    /// Up to where the peer has confirmed what was sent, by its own word; none: it has not confirmed the beginning.
    confirmed: Option<u32>,
    /// What was in the socket unread when smoltcp was about to forget it.
    rest: VecDeque<u8>,
}

impl Tcp {
    pub(super) const fn new(
        socket: SocketHandle,
        [local, peer]: [SocketAddr; 2],
        limits: TcpLimits,
        state: State,
    ) -> Self {
        Self {
            socket,
            local,
            peer,
            limits,
            state,
            end: None,
            has_sent: false,
            is_awaited: matches!(state, State::SynSent),
            is_end_told: false,
            until_ns: None,
            counts: TcpCounts::NONE,
            unread: 0,
            unacknowledged: 0,
            confirmed: None,
            rest: VecDeque::new(),
        }
    }

    /// Counts what a segment that came has changed, or the time if none has.
    pub(super) fn observe(&mut self, stack: &mut Stack, segment: Option<&Segment>) {
        let (socket, _) = stack.tcp(self.socket);
        let came = socket.recv_queue().saturating_sub(self.unread);
        let is_less = socket.send_queue() < self.unacknowledged;
        self.unread += came;
        self.unacknowledged = socket.send_queue().min(self.unacknowledged);
        self.counts.received_bytes += came as u64;
        let (before, now) = (self.state, socket.state());
        self.state = now;
        let confirms = segment.and_then(|segment| segment.confirms);
        if let Some(confirms) = confirms.filter(|_| !self.is_connecting()) {
            self.note_confirmed(confirms, is_less, has_end(before, now));
        }
        let by_frame = segment.is_some();
        match (before, now) {
            (State::Closed | State::TimeWait, State::Closed) => {}
            (State::LastAck, State::Closed) if self.unacknowledged == 0 => {}
            (_, State::Closed) => self.fail(before, by_frame),
            // smoltcp forgets it when it has waited.
            (_, State::TimeWait) => {
                while let Ok(bytes @ 1..) = socket.recv(|bytes| {
                    self.rest.extend(&*bytes);
                    (bytes.len(), bytes.len())
                }) {
                    self.unread -= bytes;
                }
            }
            _ => {}
        }
    }

    /// Counts what the peer has confirmed by the number that it says, where the stack believed it and let go of something. Nothing was sent when it confirmed the
    /// beginning.
    fn note_confirmed(&mut self, confirms: u32, is_believed: bool, has_end: bool) {
        let before = *self.confirmed.get_or_insert(confirms);
        if is_believed {
            let numbers = confirms.wrapping_sub(before);
            let bytes = numbers.saturating_sub(u32::from(has_end));
            self.counts.acknowledged_bytes += u64::from(bytes);
            self.confirmed = Some(confirms);
        }
    }

    /// Counts an end that nobody at this side asked for.
    fn fail(&mut self, before: State, by_frame: bool) {
        self.end = Some(match before {
            State::SynSent if by_frame => {
                self.counts.refused += 1;
                End::Refused
            }
            _ if by_frame => {
                self.counts.reset += 1;
                End::Reset
            }
            _ => {
                self.counts.timed_out += 1;
                End::TimedOut
            }
        });
    }

    /// What ended it, if something did that the program did not ask for.
    pub(super) fn error(&self) -> Option<IpError> {
        let peer = self.peer;
        Some(match self.end? {
            End::Refused => IpError::Refused { peer },
            End::Reset => IpError::Reset { peer },
            End::TimedOut => {
                let waited_ms = self.limits.timeout.as_millis();
                IpError::TimedOut { peer, waited_ms }
            }
        })
    }

    /// Whether its end is not agreed with the peer.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed | State::TimeWait)
    }

    /// Whether it is not made yet.
    pub(super) const fn is_connecting(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived)
    }

    /// Whether a call with bytes to send would end at once: with room, or with an error.
    pub(super) fn has_room(&self, stack: &Stack) -> bool {
        let socket = stack.tcp_of(self.socket);
        !self.is_connecting() && (!socket.may_send() || socket.can_send())
    }

    /// Whether nothing comes behind what is here: the peer has said all, or the connection is at its end.
    fn is_at_end(&self) -> bool {
        !matches!(
            self.state,
            State::SynSent
                | State::SynReceived
                | State::Established
                | State::FinWait1
                | State::FinWait2
        )
    }

    /// Whether a call that receives would end at once: with bytes, the end or an error.
    pub(super) fn is_readable(&self, stack: &Stack) -> bool {
        self.unread(stack) > 0 || self.is_at_end()
    }

    /// Whether there is something that the program has not been told.
    pub(super) fn is_news(&self, stack: &Stack) -> bool {
        let is_end = self.is_at_end() && !self.is_end_told;
        self.unread(stack) > 0 || is_end || (self.is_awaited && self.has_room(stack))
    }

    fn unread(&self, stack: &Stack) -> usize {
        stack.tcp_of(self.socket).recv_queue() + self.rest.len()
    }

    /// Copies what fits into the socket, and says how much that was.
    pub(super) fn put(&mut self, stack: &mut Stack, bytes: &[u8]) -> usize {
        let (socket, _) = stack.tcp(self.socket);
        let put = socket.send_slice(bytes).unwrap_or(0);
        self.unacknowledged += put;
        self.counts.asked_bytes += put as u64;
        put
    }

    /// Copies what is there to the program, and says how much that was; none: nothing has come yet, 0: nothing will.
    pub(super) fn take(&mut self, stack: &mut Stack, to: &mut [u8]) -> Option<usize> {
        let (socket, _) = stack.tcp(self.socket);
        let mut taken = socket.recv_slice(to).unwrap_or(0);
        self.unread -= taken;
        let kept = self.rest.len().min(to.len() - taken);
        for (to, from) in to[taken..].iter_mut().zip(self.rest.drain(..kept)) {
            *to = from;
        }
        taken += kept;
        self.counts.taken_bytes += taken as u64;
        (taken > 0 || self.is_at_end()).then_some(taken)
    }

    /// What it has counted, with what waits now.
    pub(super) fn now(&self, stack: &Stack) -> TcpCounts {
        let mut counts = self.counts;
        counts.unread_bytes = self.unread(stack) as u64;
        let socket = stack.tcp_of(self.socket);
        counts.unacknowledged_bytes = socket.send_queue() as u64;
        counts
    }
}
