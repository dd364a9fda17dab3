//! The far end of load: plain sockets that send back what comes, over UDP and TCP at one address, and as frames on an interface.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use forebay_ledger::{Leak, Reason};
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, System};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::process::raise_open_files;
use forebay_sys::socket::{UdpOptions, bind_udp, mem_info, raise_receive_buffer};
use forebay_sys::udp_batch::{Ancillary, BatchTag, Outgoing, RecvBatch, SendBatch, SendStop};
use serde::Serialize;

use crate::LoadError;
use crate::books::{EchoBooks, EchoCounts, EchoDrop, Echoed};
use crate::end::RingCounts;
use crate::ipbench::Control;
use crate::raw::{Fault, RawEcho, RawPlan};

/// Room for datagrams that wait, in bytes of payload, where the host allows it.
const BUFFER_BYTES: usize = 4 << 20;
/// Datagrams of one call.
const SLOTS: usize = 64;
/// Bytes of one read of a connection.
const CHUNK_BYTES: usize = 64 << 10;
/// Most connections at a time.
const CONNECTIONS_MAX: usize = 1 << 10;
/// Books are shown so often.
const SHOW: Duration = Duration::from_millis(100);
/// Tries to find a port that is free over both protocols.
const PORTS_TRIED: usize = 16;

const UDP: u64 = 0;
const LISTENER: u64 = 1;
const STOP: u64 = 2;
const CONTROL: u64 = 3;
const RAW: u64 = 4;
const FIRST_CONNECTION: u64 = 5;

/// An echo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EchoPlan {
    /// Where it listens; port 0 stands for one that is free. None: nowhere.
    pub listen: Option<SocketAddr>,
    /// The interface whose frames it sends back; none: no frames.
    pub raw: Option<RawPlan>,
    /// Where controllers of ipbench ask how busy this host is; none: nowhere.
    pub ipbench: Option<SocketAddr>,
    /// Ends after so long; none: when it is told to.
    pub duration: Option<Duration>,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
}

/// What an echo did.
#[derive(Clone, Debug, Serialize)]
pub struct EchoSummary {
    /// Where it listened, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Datagrams.
    pub udp: Echoed,
    /// Reads of connections.
    pub tcp: Echoed,
    /// Frames, if it took some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawEchoSummary>,
    /// Connections that were accepted.
    pub connections: u64,
    /// Datagrams that the kernel dropped in front of it, as it did not take them in time.
    pub socket_drops: u64,
    /// Tests that controllers of ipbench have brought to their end; none where none is listened for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipbench_tests: Option<u64>,
}

/// What an echo did with frames.
#[derive(Clone, Debug, Serialize)]
pub struct RawEchoSummary {
    /// The interface.
    pub interface: String,
    /// Its address.
    pub mac: String,
    /// The frames.
    #[serde(flatten)]
    pub echoed: Echoed,
    /// Frames that the kernel dropped in front of it, as it did not take them in time.
    pub ring_drops: u64,
}

impl System for EchoPlan {
    const HOPS: &'static [&'static str] = &[ECHO, RING];
    type Summary = EchoSummary;
    type Error = LoadError;

    fn run(self, host: &Host) -> Result<Record<EchoSummary>, LoadError> {
        let mut tell = |text: &str| host.warn(text);
        // With fewer descriptors some connections are not taken in.
        let _ = raise_open_files();
        let mut echo = Echo::open(&self)?;
        echo.leak = host.leak.clone();
        let control = self.ipbench.map(Control::open).transpose()?;
        let mut books = EchoBooks::open(self.raw.is_some(), self.out.as_deref(), &mut tell)?;
        if let Some(duration) = self.duration {
            host.stop.end_after(duration);
        }
        if let Some(Sockets { address, .. }) = &echo.sockets {
            host.say(format_args!("the echo listens on {address} (UDP and TCP)"));
        }
        if let Some(RawEcho { place, .. }) = &echo.raw {
            host.say(format_args!(
                "the echo takes frames of type {:#06x} for {} on {}",
                place.ethertype, place.mac, place.interface,
            ));
        }
        if let Some(control) = control {
            host.say(format_args!(
                "controllers of ipbench are answered at {}",
                control.address
            ));
            echo.poller
                .add(&control, CONTROL, Interest::Readable, Trigger::Level)?;
            echo.control = Some(control);
        }
        echo.poller
            .add(&host.stop, STOP, Interest::Readable, Trigger::Level)?;
        let mut failed = None;
        while !host.stop.is_asked() && failed.is_none() {
            let until_ns = monotonic_ns() + SHOW.as_nanos() as u64;
            while monotonic_ns() < until_ns && !host.stop.is_asked() {
                match echo.turn()? {
                    Some(Fault::Down(why)) => host.warn(&why),
                    Some(Fault::Gone(why)) => {
                        failed = Some(why);
                        break;
                    }
                    None => {}
                }
            }
            books.show(echo.counts(), echo.raw_counts());
        }
        echo.disconnect_all();
        books.show(echo.counts(), echo.raw_counts());
        let mut end = RunEnd::in_order(host.stop.reason().unwrap_or(Reason::Requested));
        end.failed = failed;
        Ok(books.close(end, echo.summary())?)
    }
}

/// What came of a connection and has not gone back.
struct Connection {
    stream: TcpStream,
    chunk: Box<[u8]>,
    filled: usize,
    written: usize,
}

/// Both sockets at one address.
struct Sockets {
    address: SocketAddr,
    socket: OwnedFd,
    listener: TcpListener,
}

struct Echo {
    sockets: Option<Sockets>,
    raw: Option<RawEcho>,
    control: Option<Control>,
    poller: Poller,
    received: RecvBatch,
    out: SendBatch,
    connections: HashMap<u64, Connection>,
    accepted: u64,
    udp: EchoCounts,
    tcp: EchoCounts,
    leak: Leak,
}

/// The accounts at which something can be made to vanish: of what goes back, and of frames in the ring.
pub(crate) const ECHO: &str = "echo";
pub(crate) const RING: &str = "echo_ring";

/// Opens them.
fn listen(address: SocketAddr) -> Result<Sockets, LoadError> {
    let failed = |source| LoadError::Listen { address, source };
    let mut tried = 0;
    loop {
        let udp = bind_udp(address, &UdpOptions::default())?;
        match TcpListener::bind(udp.address) {
            Ok(listener) => {
                listener.set_nonblocking(true).map_err(failed)?;
                raise_receive_buffer(&udp.fd, BUFFER_BYTES)?;
                return Ok(Sockets {
                    address: udp.address,
                    socket: udp.fd,
                    listener,
                });
            }
            Err(_) if address.port() == 0 && tried < PORTS_TRIED => tried += 1,
            Err(error) => return Err(failed(error)),
        }
    }
}

impl Echo {
    fn open(plan: &EchoPlan) -> Result<Self, LoadError> {
        if plan.listen.is_none() && plan.raw.is_none() {
            return Err(LoadError::Nowhere);
        }
        let sockets = plan.listen.map(listen).transpose()?;
        let raw = plan.raw.as_ref().map(RawEcho::open).transpose()?;
        let poller = Poller::create(SLOTS)?;
        let (interest, trigger) = (Interest::Readable, Trigger::Level);
        if let Some(sockets) = &sockets {
            poller.add(&sockets.socket, UDP, interest, trigger)?;
            poller.add(&sockets.listener, LISTENER, interest, trigger)?;
        }
        if let Some(raw) = &raw {
            poller.add(raw, RAW, interest, trigger)?;
        }
        let ancillary = Ancillary {
            addresses: true,
            control: false,
        };
        Ok(Self {
            sockets,
            raw,
            control: None,
            poller,
            received: RecvBatch::private(SLOTS, ancillary)?,
            out: SendBatch::new(SLOTS),
            connections: HashMap::new(),
            accepted: 0,
            udp: EchoCounts::default(),
            tcp: EchoCounts::default(),
            leak: Leak::off(),
        })
    }

    /// Waits for what comes, and sends it back; why no frames come, once.
    fn turn(&mut self) -> Result<Option<Fault>, LoadError> {
        let mut fault = None;
        let ready = self.poller.wait(Some(SHOW), Duration::ZERO)?;
        let tokens: Vec<u64> = ready.map(|ready| ready.token).collect();
        for token in tokens {
            match token {
                UDP => self.datagrams(),
                LISTENER => self.accept(),
                STOP => {}
                CONTROL => {
                    if let Some(control) = &mut self.control {
                        control.turn()?;
                    }
                }
                RAW => {
                    let leak = &mut self.leak;
                    fault = self.raw.as_mut().and_then(|raw| raw.turn(leak));
                }
                token => self.serve(token),
            }
        }
        Ok(fault)
    }

    fn datagrams(&mut self) {
        let Some(sockets) = &self.sockets else {
            return;
        };
        let (socket, tag) = (sockets.socket.as_fd(), BatchTag::default());
        // An error of the socket is that of a datagram which went back before.
        let datagrams = self.received.receive_scratch(socket, SLOTS, tag);
        let datagrams = datagrams.unwrap_or(0);
        let mut outgoing = Vec::with_capacity(datagrams);
        for index in 0..datagrams {
            let payload = self.received.payload(index);
            self.udp.came.add(payload.len());
            if self.leak.take(ECHO) {
                continue;
            }
            match self.received.datagram(index).from {
                Some(from) => outgoing.push(Outgoing::addressed(payload, from)),
                None => self.udp.lose(EchoDrop::Refused, payload.len()),
            }
        }
        send_back(&mut self.out, socket, &outgoing, &mut self.udp);
    }

    fn accept(&mut self) {
        let Some(sockets) = &self.sockets else {
            return;
        };
        while let Ok((stream, _)) = sockets.listener.accept() {
            let token = FIRST_CONNECTION + self.accepted;
            // One that is not taken in is closed, which its sender sees.
            let is_one_too_many = self.connections.len() == CONNECTIONS_MAX;
            if !is_one_too_many && take_in(&self.poller, &stream, token) {
                self.accepted += 1;
                let connection = Connection {
                    stream,
                    chunk: vec![0; CHUNK_BYTES].into(),
                    filled: 0,
                    written: 0,
                };
                self.connections.insert(token, connection);
            }
        }
    }

    fn serve(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(&token) else {
            return;
        };
        let before = connection.waits();
        match connection.serve(&mut self.tcp, &mut self.leak) {
            Ok(()) => {
                if before != connection.waits() {
                    let interest = connection.waits();
                    let stream = &connection.stream;
                    let _ = self.poller.modify(stream, token, interest, Trigger::Level);
                }
                self.connections.insert(token, connection);
            }
            Err(_) => connection.part(&mut self.tcp),
        }
    }

    /// Ends all connections, and takes no frame more.
    fn disconnect_all(&mut self) {
        for (_, connection) in std::mem::take(&mut self.connections) {
            connection.part(&mut self.tcp);
        }
        if let Some(raw) = &mut self.raw {
            raw.shut(&mut self.leak);
        }
    }

    fn raw_counts(&mut self) -> Option<(EchoCounts, RingCounts)> {
        let raw = self.raw.as_mut()?;
        Some((raw.counts(), raw.ring()))
    }

    fn summary(&mut self) -> EchoSummary {
        let ([udp, tcp], frames) = (self.counts(), self.raw_counts());
        let sockets = self.sockets.as_ref();
        let drops = |it: &Sockets| mem_info(&it.socket).map_or(0, |info| info.drops.into());
        let raw = self.raw.as_ref().zip(frames);
        EchoSummary {
            address: sockets.map(|it| it.address),
            udp: (&udp).into(),
            tcp: (&tcp).into(),
            raw: raw.map(|(raw, (counts, ring))| RawEchoSummary {
                interface: raw.place.interface.clone(),
                mac: raw.place.mac.to_string(),
                echoed: (&counts).into(),
                ring_drops: ring.dropped,
            }),
            connections: self.accepted,
            socket_drops: sockets.map_or(0, drops),
            ipbench_tests: self.control.as_ref().map(|control| control.tests),
        }
    }

    /// Of UDP and of TCP; what is held is counted anew.
    fn counts(&self) -> [EchoCounts; 2] {
        let mut tcp = self.tcp;
        for connection in self.connections.values() {
            if connection.filled > 0 {
                tcp.held.add(connection.filled);
            }
        }
        [self.udp, tcp]
    }
}

impl Connection {
    /// What it waits for: room while something of it has not gone back, and else more of it.
    const fn waits(&self) -> Interest {
        match self.filled {
            0 => Interest::Readable,
            _ => Interest::Writable,
        }
    }

    /// Sends back what came before, and one chunk more.
    fn serve(&mut self, counts: &mut EchoCounts, leak: &mut Leak) -> io::Result<()> {
        if self.filled == 0 {
            self.read(counts, leak)?;
        }
        self.write(counts)
    }

    fn read(&mut self, counts: &mut EchoCounts, leak: &mut Leak) -> io::Result<()> {
        match self.stream.read(&mut self.chunk) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                counts.came.add(bytes);
                if !leak.take(ECHO) {
                    (self.filled, self.written) = (bytes, 0);
                }
                Ok(())
            }
            Err(error) => is_later(error),
        }
    }

    fn write(&mut self, counts: &mut EchoCounts) -> io::Result<()> {
        while self.written < self.filled {
            match self.stream.write(&self.chunk[self.written..self.filled]) {
                Ok(bytes) => self.written += bytes,
                Err(error) => return is_later(error),
            }
        }
        if self.filled > 0 {
            counts.returned.add(self.filled);
            self.filled = 0;
        }
        Ok(())
    }

    /// What has not gone back is lost with it.
    fn part(self, counts: &mut EchoCounts) {
        if self.filled > 0 {
            counts.lose(EchoDrop::Disconnected, self.filled);
        }
    }
}

/// Makes a connection ready to be waited for, if it can be.
pub(crate) fn take_in(poller: &Poller, stream: &TcpStream, token: u64) -> bool {
    let is_ready = stream
        .set_nonblocking(true)
        .and(stream.set_nodelay(true))
        .is_ok();
    let added = poller.add(stream, token, Interest::Readable, Trigger::Level);
    is_ready && added.is_ok()
}

/// Sends datagrams back to their senders; one that is not taken is lost.
pub(crate) fn send_back(
    out: &mut SendBatch,
    socket: BorrowedFd<'_>,
    outgoing: &[Outgoing<'_>],
    counts: &mut EchoCounts,
) {
    let mut left = outgoing;
    while !left.is_empty() {
        let sent = out.send(socket, left);
        let (back, rest) = left.split_at(sent.count);
        for datagram in back {
            counts.returned.add(datagram.payload.len());
        }
        left = rest;
        if let (Some(stop), Some((first, behind))) = (sent.stopped, rest.split_first()) {
            let why = match stop {
                SendStop::WouldBlock | SendStop::NoBuffers => EchoDrop::NoRoom,
                SendStop::Refused | SendStop::Failed(_) => EchoDrop::Refused,
            };
            counts.lose(why, first.payload.len());
            left = behind;
        }
    }
}

/// Not an error, but to be tried again.
pub(crate) fn is_later(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}
