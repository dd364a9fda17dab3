//! Records as IPFIX messages (RFC 7011), both directions of a flow in one record (RFC 5103).
//!
//! Times are in milliseconds, which every collector reads. Templates stand in front of a file or a connection, and over UDP again after so many messages and so much time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::time::Duration;

use forebay_flow::FlowRecord;
use forebay_run::whole_file::{BeginError, WholeFile};
use forebay_sys::{clock, wait};
use forebay_wire::ipfix::elements::{
    DESTINATION_IPV4_ADDRESS, DESTINATION_IPV6_ADDRESS, DESTINATION_TRANSPORT_PORT,
    FLOW_END_MILLISECONDS, FLOW_END_REASON, FLOW_START_MILLISECONDS, OCTET_DELTA_COUNT,
    PACKET_DELTA_COUNT, PROTOCOL_IDENTIFIER, SOURCE_IPV4_ADDRESS, SOURCE_IPV6_ADDRESS,
    SOURCE_TRANSPORT_PORT, TCP_CONTROL_BITS, VLAN_ID,
};
use forebay_wire::ipfix::{
    ElementInfo, FieldSpec, MessageWriter, RecordWriter, WriteError, udp_message_bytes_max,
};

use super::{Output, Unwritten, begin};
use crate::error::ProbeError;

/// Template of flows of IPv4, and of IPv6.
const TEMPLATES: [u16; 2] = [256, 257];
/// Observation domain.
const DOMAIN: u32 = 1;
/// Message in a file or over TCP, in bytes.
const MESSAGE_BYTES: usize = 32 << 10;
/// What any path carries, in bytes.
const MTU_BYTES: usize = 1_500;
/// Over UDP templates are sent again after so many messages.
const REFRESH_MESSAGES: u64 = 1_000;
/// And after so long, in ns.
const REFRESH_NS: u64 = 60_000_000_000;
/// Flows in a second that are sent over UDP, which has nothing that holds a sender back: nfcapd loses none of so many.
const UDP_FLOWS_HZ: u64 = 20_000;
const SECOND_NS: u64 = 1_000_000_000;
/// How long a collector is waited for, to take a connection or what is sent over it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fields of a record in front of those of the reverse direction.
fn fields(is_ipv6: bool, uniflow: bool) -> Vec<FieldSpec> {
    let addresses = if is_ipv6 {
        [SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS]
    } else {
        [SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS]
    };
    let whole = [
        FLOW_START_MILLISECONDS,
        FLOW_END_MILLISECONDS,
        SOURCE_TRANSPORT_PORT,
        DESTINATION_TRANSPORT_PORT,
        PROTOCOL_IDENTIFIER,
        VLAN_ID,
        FLOW_END_REASON,
    ];
    let counts = [PACKET_DELTA_COUNT, OCTET_DELTA_COUNT, TCP_CONTROL_BITS];
    let reverse = |info: ElementInfo| {
        let element = info.element.reverse()?;
        Some(FieldSpec::whole(ElementInfo { element, ..info }))
    };
    let specs = addresses.into_iter().chain(whole).chain(counts);
    let mut specs: Vec<_> = specs.map(FieldSpec::whole).collect();
    if !uniflow {
        specs.extend(counts.into_iter().filter_map(reverse));
    }
    specs
}

fn write_record(to: &mut RecordWriter<'_>, record: &FlowRecord, uniflow: bool) {
    let key = &record.key;
    for address in [key.source(), key.destination()] {
        match address {
            IpAddr::V4(four) => to.bytes(&four.octets()),
            IpAddr::V6(six) => to.bytes(&six.octets()),
        }
    }
    for ns in [record.start_ns, record.end_ns] {
        to.u64(ns / 1_000_000);
    }
    to.u16(key.source_port);
    to.u16(key.destination_port);
    to.u8(key.protocol);
    to.u16(key.vlan);
    to.u8(record.end_reason as u8);
    let forward = (record.packets, record.octets, record.tcp_flags);
    let reverse = (record.packets_rev, record.octets_rev, record.tcp_flags_rev);
    let directions = if uniflow { 1 } else { 2 };
    for (packets, octets, tcp_flags) in [forward, reverse].into_iter().take(directions) {
        to.u64(packets);
        to.u64(octets);
        to.u16(tcp_flags.into());
    }
}

/// What carries messages.
enum Carrier {
    File { file: WholeFile, to: File },
    Udp(Udp),
    Tcp(TcpStream),
}

struct Udp {
    socket: UdpSocket,
    /// When the next message may go.
    next_ns: u64,
    messages: u64,
    /// When templates went last.
    told_ns: u64,
}

pub(super) struct Ipfix {
    carrier: Carrier,
    room: Vec<u8>,
    templates: [Vec<FieldSpec>; 2],
    uniflow: bool,
    sequence: u32,
    /// Templates stand in the next message.
    tells: bool,
}

impl Ipfix {
    fn new(carrier: Carrier, message_bytes: usize, uniflow: bool) -> Self {
        Self {
            carrier,
            room: vec![0; message_bytes],
            templates: [false, true].map(|is_ipv6| fields(is_ipv6, uniflow)),
            uniflow,
            sequence: 0,
            tells: true,
        }
    }

    pub(super) fn to_file(path: &Path, uniflow: bool) -> Result<Self, BeginError> {
        let (file, to) = begin(path)?;
        Ok(Self::new(
            Carrier::File { file, to },
            MESSAGE_BYTES,
            uniflow,
        ))
    }

    pub(super) fn over_udp(collector: &str, uniflow: bool) -> Result<Self, ProbeError> {
        let open = |address: SocketAddr| {
            let own: SocketAddr = if address.is_ipv4() {
                (Ipv4Addr::UNSPECIFIED, 0).into()
            } else {
                (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
            };
            let socket = UdpSocket::bind(own)?;
            socket.connect(address)?;
            Ok((socket, address.is_ipv6()))
        };
        let (socket, is_ipv6) = first(collector, open)?;
        let carrier = Carrier::Udp(Udp {
            socket,
            next_ns: 0,
            messages: 0,
            told_ns: 0,
        });
        let message_bytes = udp_message_bytes_max(MTU_BYTES, is_ipv6);
        Ok(Self::new(carrier, message_bytes, uniflow))
    }

    pub(super) fn over_tcp(collector: &str, uniflow: bool) -> Result<Self, ProbeError> {
        let open = |address: SocketAddr| {
            let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let socket = first(collector, open)?;
        Ok(Self::new(Carrier::Tcp(socket), MESSAGE_BYTES, uniflow))
    }
}

/// What `open` makes of the first address of a collector that it takes.
fn first<T>(collector: &str, open: impl Fn(SocketAddr) -> io::Result<T>) -> Result<T, ProbeError> {
    let failed = |source| ProbeError::Collector {
        collector: collector.to_owned(),
        source,
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in collector.to_socket_addrs().map_err(failed)? {
        match open(address) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

impl Output for Ipfix {
    fn write(&mut self, records: &[FlowRecord]) -> Result<usize, Unwritten> {
        let Self {
            carrier,
            room,
            templates,
            uniflow,
            sequence,
            tells,
        } = self;
        let told = fill(
            room,
            (*sequence, *uniflow),
            records,
            tells.then_some(&*templates),
        );
        let message = told.map_err(|error| {
            Unwritten::for_good(records.len(), io::Error::other(error.to_string()))
        })?;
        let count = message.records as usize;
        *sequence = message.next_sequence;
        let (bytes, fewer) = (message.bytes, count);
        match carrier {
            Carrier::File { to, .. } => to
                .write_all(bytes)
                .map_err(|why| Unwritten::for_good(fewer, why))?,
            Carrier::Tcp(socket) => socket
                .write_all(bytes)
                .map_err(|why| Unwritten::for_good(fewer, why))?,
            Carrier::Udp(udp) => {
                let sent = udp.send(bytes, count);
                *tells = udp.is_due();
                sent.map_err(|why| Unwritten {
                    records: count,
                    why,
                    goes_on: true,
                })?;
                return Ok(count);
            }
        }
        *tells = false;
        Ok(count)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        match self.carrier {
            Carrier::File { file, .. } => file.finish(),
            Carrier::Udp(_) => Ok(()),
            Carrier::Tcp(mut socket) => {
                socket.shutdown(Shutdown::Write)?;
                // A collector that closes has read to the end.
                io::copy(&mut (&mut socket).take(1 << 20), &mut io::sink()).map(drop)
            }
        }
    }
}

/// Fills a message with as many of the first records as it takes.
fn fill<'a>(
    room: &'a mut [u8],
    (sequence, uniflow): (u32, bool),
    records: &[FlowRecord],
    templates: Option<&[Vec<FieldSpec>; 2]>,
) -> Result<forebay_wire::ipfix::Finished<'a>, WriteError> {
    let mut writer = MessageWriter::new(room, DOMAIN, sequence)?;
    for (id, specs) in TEMPLATES.iter().zip(templates.into_iter().flatten()) {
        writer.push_template(*id, specs)?;
    }
    for record in records {
        let id = TEMPLATES[usize::from(record.key.version() == 6)];
        let pushed = writer.push_record(id, |to| write_record(to, record, uniflow));
        match pushed {
            Ok(()) => {}
            Err(_) if writer.records() > 0 => break,
            Err(error) => return Err(error),
        }
    }
    let now_s = clock::realtime_ns() / SECOND_NS;
    Ok(writer.finish(now_s as u32))
}

impl Udp {
    /// Sends a message when its turn has come.
    fn send(&mut self, message: &[u8], flows: usize) -> io::Result<()> {
        let now_ns = wait::sleep_until(self.next_ns, 0);
        self.next_ns = now_ns.max(self.next_ns) + flows as u64 * SECOND_NS / UDP_FLOWS_HZ;
        self.messages += 1;
        if self.told_ns == 0 || self.is_due() {
            (self.told_ns, self.messages) = (now_ns, 0);
        }
        self.socket.send(message).map(drop)
    }

    /// Whether the next message has the templates, too.
    fn is_due(&self) -> bool {
        let age_ns = clock::monotonic_ns().saturating_sub(self.told_ns);
        self.messages >= REFRESH_MESSAGES || age_ns >= REFRESH_NS
    }
}
