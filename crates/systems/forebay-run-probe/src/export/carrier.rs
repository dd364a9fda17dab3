//! What carries IPFIX messages: a file, datagrams, or a connection.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_link::collector::{GoesOn, Lasting, Pace, Place, Tcp, Turn, first};
use forebay_run::stop::{Stop, Urgency};
use forebay_run::whole_file::{BeginError, WholeFile};
use forebay_sys::{clock, wait};
use forebay_wire::ipfix::udp_message_bytes_max;

use super::begin;
use crate::error::ProbeError;

/// Message in a file or over TCP, in bytes.
const MESSAGE_BYTES: usize = 32 << 10;
/// What every path of IPv6 carries (RFC 8200, section 5), in bytes.
const MTU_BYTES_IPV6: usize = 1_280;
/// Most that is taken of a path that carries more, as loopback, in bytes.
const MTU_BYTES_MAX: usize = 9_000;
/// Over UDP templates are sent again after so many messages.
const REFRESH_MESSAGES: u64 = 1_000;
/// And after so long, in ns.
const REFRESH_NS: u64 = 60_000_000_000;
/// One look at whether to go on waiting.
const LOOK: Duration = Duration::from_millis(100);

pub(super) enum Carrier {
    File { file: WholeFile, to: File },
    Udp(Udp),
    Tcp(Tcp),
    Lasting(Lasting),
}

pub(super) struct Udp {
    socket: UdpSocket,
    message_bytes: usize,
    stop: Stop,
    /// It waits for its turn itself, and so holds back a reader of a file; else it is asked.
    waits: bool,
    pace: Pace,
    /// Since templates were sent, and when that was; none: they never were, or were refused.
    messages: u64,
    told_ns: Option<u64>,
}

impl Carrier {
    pub(super) fn file(path: &Path) -> Result<Self, BeginError> {
        let (file, to) = begin(path)?;
        Ok(Self::File { file, to })
    }

    /// Datagrams, each at its turn: where it `waits`, a call of [`send`](Self::send) takes so long; else [`turn`](Self::turn) says so.
    pub(super) fn udp(collector: &str, waits: bool, stop: &Stop) -> Result<Self, ProbeError> {
        let open = |address: SocketAddr| {
            let any: IpAddr = if address.is_ipv4() {
                Ipv4Addr::UNSPECIFIED.into()
            } else {
                Ipv6Addr::UNSPECIFIED.into()
            };
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(address)?;
            // Of IPv4 the kernel says what the way to there carries.
            let mtu_bytes = match address.is_ipv4() {
                true => rustix::net::sockopt::ip_mtu(&socket)? as usize,
                false => MTU_BYTES_IPV6,
            };
            let mtu_bytes = mtu_bytes.min(MTU_BYTES_MAX);
            let message_bytes = udp_message_bytes_max(mtu_bytes, address.is_ipv6());
            Ok((socket, message_bytes))
        };
        let opened = first(collector, open);
        let (socket, message_bytes) =
            opened.map_err(|error| ProbeError::collector(collector, error))?;
        Ok(Self::Udp(Udp {
            socket,
            message_bytes,
            stop: stop.clone(),
            waits,
            pace: Pace::new(),
            messages: 0,
            told_ns: None,
        }))
    }

    /// A connection, which is made again when it is lost if it `lasts`.
    pub(super) fn stream(place: Place, lasts: bool, stop: &Stop) -> Result<Self, ProbeError> {
        let urgent = stop.clone();
        let goes_on: GoesOn = Arc::new(move || urgent.urgency() < Urgency::Hurry);
        let opened = place.dial(&|| !stop.is_asked()).and_then(|stream| {
            Ok(match lasts {
                true => Self::Lasting(Lasting::new(&place, stream, goes_on)),
                false => Self::Tcp(Tcp::of(stream, goes_on)?),
            })
        });
        opened.map_err(|error| ProbeError::collector(&place.collector, error))
    }

    /// Whether a message may be sent now.
    pub(super) fn turn(&mut self) -> Turn {
        match self {
            Self::Lasting(lasting) => lasting.turn(),
            Self::Udp(udp) if !udp.waits && clock::monotonic_ns() < udp.pace.next_ns() => {
                Turn::Wait
            }
            _ => Turn::Send,
        }
    }

    /// So many records wait for their turn, which shall come in time.
    pub(super) fn load(&mut self, waiting: usize) {
        if let Self::Udp(udp) = self
            && !udp.waits
        {
            udp.pace.load(waiting);
        }
    }

    /// When there is a turn for what waits, if that is known.
    pub(super) const fn next_ns(&self) -> Option<u64> {
        match self {
            Self::Udp(udp) if !udp.waits => Some(udp.pace.next_ns()),
            _ => None,
        }
    }

    /// Whether it is there, and nothing is under way.
    pub(super) const fn is_idle(&self) -> bool {
        match self {
            Self::Lasting(lasting) => lasting.is_idle(),
            _ => true,
        }
    }

    /// Why the collector is looked for, if it is.
    pub(super) fn away(&self) -> Option<&str> {
        match self {
            Self::Lasting(lasting) => lasting.away(),
            _ => None,
        }
    }

    /// Most bytes of a message.
    pub(super) const fn message_bytes(&self) -> usize {
        match self {
            Self::File { .. } | Self::Tcp(_) | Self::Lasting(_) => MESSAGE_BYTES,
            Self::Udp(udp) => udp.message_bytes,
        }
    }

    /// Whether templates stand in the next message with records, when they were sent before or not.
    pub(super) fn tells(&self, has_told: bool) -> bool {
        match self {
            Self::File { .. } | Self::Tcp(_) | Self::Lasting(_) => !has_told,
            Self::Udp(udp) => udp.told_ns.is_none_or(|told_ns| {
                let age_ns = clock::monotonic_ns().saturating_sub(told_ns);
                udp.messages >= REFRESH_MESSAGES || age_ns >= REFRESH_NS
            }),
        }
    }

    /// Sends a message with so many records, and with the templates or not: how many of them are sent now. Those of a message that is under way are told by [`Self::turn`].
    pub(super) fn send(
        &mut self,
        message: &[u8],
        records: usize,
        with_templates: bool,
    ) -> io::Result<usize> {
        match self {
            Self::File { to, .. } => to.write_all(message)?,
            Self::Tcp(tcp) => tcp.send(message)?,
            Self::Udp(udp) => udp.send(message, records, with_templates)?,
            Self::Lasting(lasting) => return Ok(lasting.send(message, records)),
        }
        Ok(records)
    }

    /// Whether a message may go behind one that failed: of a stream the collector has lost its place.
    pub(super) const fn goes_on(&self) -> bool {
        matches!(self, Self::Udp(_) | Self::Lasting(_))
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::File { file, .. } => file.finish(),
            Self::Udp(_) => Ok(()),
            Self::Tcp(tcp) => tcp.finish(),
            Self::Lasting(lasting) => lasting.finish(),
        }
    }
}

impl Udp {
    /// Sends a message when its turn has come; when nothing is waited for any longer, one whose turn has not come is not sent.
    fn send(&mut self, message: &[u8], records: usize, with_templates: bool) -> io::Result<()> {
        while self.waits && clock::monotonic_ns() < self.pace.next_ns() {
            if self.stop.urgency() >= Urgency::Hurry {
                let text = "there is no time left to send them";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            let look_ns = clock::monotonic_ns() + LOOK.as_nanos() as u64;
            wait::sleep_until(self.pace.next_ns().min(look_ns), 0);
        }
        let now_ns = clock::monotonic_ns();
        self.pace.went(now_ns, records);
        let sent = self.socket.send(message);
        if sent.is_err() {
            // A collector that comes later has not seen them.
            self.told_ns = None;
        } else if with_templates {
            (self.told_ns, self.messages) = (Some(now_ns), 0);
        }
        self.messages += 1;
        sent.map(drop)
    }
}
