//! Plugins on a table, with packets as they come from the decoder.

mod garbage;
mod streams;

use std::collections::BTreeMap;

use forebay_wire::packet::{TCP, UDP};

use super::*;
use crate::config::{Config, DecodeConfig};
use crate::decode::{Decoder, Frame};
use crate::table::Table;
use forebay_wire::packet::link::LinkType;

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 50_000);

/// A packet of IPv4: where from, where to, protocol, what it carries.
fn ip4(from: [u8; 4], to: [u8; 4], protocol: u8, ttl: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 7, 0x40, 0, ttl, protocol, 0, 0];
    packet.extend([from, to].concat());
    packet.extend(body);
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet
}

/// A segment of a connection to port `port` of 10.0.0.2.
struct Segment<'a> {
    port: u16,
    is_reverse: bool,
    flags: u8,
    sequence: u32,
    acknowledgement: u32,
    options: &'a [u8],
    payload: &'a [u8],
}

impl Default for Segment<'_> {
    fn default() -> Self {
        Self {
            port: 443,
            is_reverse: false,
            flags: 0x18,
            sequence: 1001,
            acknowledgement: 0,
            options: &[],
            payload: &[],
        }
    }
}

impl Segment<'_> {
    fn packet(&self) -> Vec<u8> {
        let mut ends = [CLIENT, ([10, 0, 0, 2], self.port)];
        if self.is_reverse {
            ends.reverse();
        }
        let [(from, source), (to, destination)] = ends;
        let mut body = [source.to_be_bytes(), destination.to_be_bytes()].concat();
        body.extend(self.sequence.to_be_bytes());
        body.extend(self.acknowledgement.to_be_bytes());
        let offset = (20 + self.options.len() as u8) << 2;
        body.extend([offset, self.flags, 0x12, 0x34, 0, 0, 0, 0]);
        body.extend(self.options);
        body.extend(self.payload);
        ip4(from, to, TCP, if self.is_reverse { 57 } else { 64 }, &body)
    }
}

fn datagram(ports: (u16, u16), is_reverse: bool, payload: &[u8]) -> Vec<u8> {
    let mut ends = [([10, 0, 0, 1], ports.0), ([10, 0, 0, 2], ports.1)];
    if is_reverse {
        ends.reverse();
    }
    let [(from, source), (to, destination)] = ends;
    let length = (8 + payload.len() as u16).to_be_bytes();
    let head = [
        source.to_be_bytes(),
        destination.to_be_bytes(),
        length,
        [0; 2],
    ];
    ip4(from, to, UDP, 64, &[&head.concat(), payload].concat())
}

/// A table with plugins, and what came out.
struct Rig {
    decoder: Decoder,
    table: Table,
    plugins: Plugins,
    batch: Batch,
    time_ns: u64,
    out: Vec<(FlowRecord, Fields)>,
}

impl Rig {
    fn new(kinds: &[PluginKind]) -> Self {
        let config = Config {
            flows: 64,
            ..Config::default()
        };
        let table = Table::new(&config).unwrap();
        Self {
            decoder: Decoder::new(&DecodeConfig::default()).unwrap(),
            plugins: Plugins::new(kinds, table.places()),
            table,
            batch: Batch::new(5),
            time_ns: 0,
            out: Vec::new(),
        }
    }

    fn all() -> Self {
        Self::new(&PluginKind::ALL)
    }

    /// A packet, 1 ms behind the one before.
    fn take(&mut self, bytes: &[u8]) {
        self.time_ns += 1_000_000;
        let frame = Frame {
            time_ns: self.time_ns,
            link: Some(LinkType::RawIp),
            bytes,
            wire_bytes: bytes.len() as u32,
        };
        let packet = self.decoder.handle_frame(&frame).unwrap();
        self.plugins.batch(&mut self.batch, &packet);
        if self.batch.is_full() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let out = &mut self.out;
        let mut ended = |record: &FlowRecord, fields| out.push((*record, fields));
        let mut watch = self.plugins.watch(&mut ended);
        self.table.handle_batch(&self.batch, &mut watch);
        self.batch.clear();
    }

    /// Ends all flows, and says what was found of each.
    fn end(&mut self) -> Vec<BTreeMap<&'static str, String>> {
        self.flush();
        let out = &mut self.out;
        let mut ended = |record: &FlowRecord, fields| out.push((*record, fields));
        self.table
            .end_all_watched(&mut self.plugins.watch(&mut ended));
        let found = self.out.drain(..).map(|(_, fields)| told(&fields));
        found.collect()
    }

    fn of(kinds: &[PluginKind], packets: &[Vec<u8>]) -> Vec<BTreeMap<&'static str, String>> {
        let mut rig = Self::new(kinds);
        packets.iter().for_each(|packet| rig.take(packet));
        rig.end()
    }

    /// Of packets of one flow.
    fn one(kind: PluginKind, packets: &[Vec<u8>]) -> BTreeMap<&'static str, String> {
        let mut found = Self::of(&[kind], packets);
        assert_eq!(found.len(), 1);
        found.remove(0)
    }
}

/// Values as texts, by their columns.
fn told(fields: &Fields) -> BTreeMap<&'static str, String> {
    let mut told = BTreeMap::new();
    for (column, value) in fields.values() {
        let Some(value) = value else { continue };
        let text = match column.kind {
            Kind::Unsigned(bytes) => {
                assert_eq!(value.bytes().len(), usize::from(bytes), "{}", column.name);
                value.unsigned().to_string()
            }
            Kind::Float => format!("{:.3}", value.float()),
            Kind::Text => value.text().into_owned(),
            Kind::Octets => value.bytes().iter().map(|b| format!("{b:02x}")).collect(),
            Kind::Unsigneds(bytes) => {
                let all: Vec<u64> = value.unsigneds(bytes).collect();
                format!("{all:?}")
            }
            Kind::Signeds => {
                let all: Vec<i8> = value.bytes().iter().map(|b| *b as i8).collect();
                format!("{all:?}")
            }
        };
        told.insert(column.name, text);
    }
    told
}

fn is(found: &BTreeMap<&'static str, String>, expected: &[(&'static str, &str)]) {
    let expected = expected
        .iter()
        .map(|(key, text)| (*key, (*text).to_owned()));
    assert_eq!(*found, expected.collect::<BTreeMap<_, _>>());
}

/// A handshake, with 1 ms between its packets.
fn handshake(port: u16) -> Vec<Vec<u8>> {
    let syn = Segment {
        port,
        flags: 2,
        sequence: 1000,
        options: &[
            2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
        ],
        ..Segment::default()
    };
    let answer = Segment {
        is_reverse: true,
        flags: 0x12,
        sequence: 7000,
        acknowledgement: 1001,
        options: &[2, 4, 5, 0x78],
        ..syn
    };
    let last = Segment {
        port,
        flags: 0x10,
        acknowledgement: 7001,
        ..Segment::default()
    };
    [syn.packet(), answer.packet(), last.packet()].into()
}

#[test]
fn names_are_those_of_one_plugin_each_and_lead_back() {
    let mut columns: Vec<&str> = Vec::new();
    let mut elements = Vec::new();
    for kind in PluginKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert!(!kind.columns().is_empty());
        columns.extend(kind.columns().iter().map(|column| column.name));
        elements.extend(kind.columns().iter().map(|column| column.element));
    }
    for (n, column) in columns.iter().enumerate() {
        assert!(!columns[..n].contains(column), "{column} is there twice");
        let element = elements[n];
        assert!(!elements[..n].contains(&element), "{element} of {column}");
    }
    assert!("tsl".parse::<PluginKind>().unwrap_err().contains("tls"));
}

#[test]
fn basic_has_the_headers_of_the_first_packet_each_way() {
    let found = Rig::one(PluginKind::Basic, &handshake(443));
    is(
        &found,
        &[
            ("ip_ttl", "64"),
            ("ip_ttl_rev", "57"),
            ("tcp_window", "4660"),
            ("tcp_window_rev", "4660"),
            // Kinds 2, 3, 4 and 8.
            ("tcp_options", "284"),
            ("tcp_options_rev", "4"),
            ("tcp_window_scale", "7"),
            ("tcp_mss_bytes", "1460"),
            ("tcp_mss_bytes_rev", "1400"),
            ("tcp_syn_octets", "60"),
        ],
    );
    let found = Rig::one(PluginKind::Basic, &[datagram((1, 2), false, b"x")]);
    is(&found, &[("ip_ttl", "64")]);
}

#[test]
fn pstats_are_of_the_first_thirty_packets() {
    let mut packets = handshake(443);
    let data = Segment {
        is_reverse: true,
        payload: &[9; 500],
        ..Segment::default()
    };
    packets.push(data.packet());
    let found = Rig::one(PluginKind::Pstats, &packets);
    is(
        &found,
        &[
            ("pstats_payload_bytes", "[0, 0, 0, 500]"),
            ("pstats_offsets_us", "[0, 1000, 2000, 3000]"),
            ("pstats_tcp_flags", "[2, 18, 16, 24]"),
            ("pstats_directions", "[1, -1, 1, -1]"),
        ],
    );
    let mut rig = Rig::new(&[PluginKind::Pstats]);
    for n in 0..40 {
        rig.take(&datagram((5, 6), n == 29, &[0; 77]));
        rig.flush();
        assert_eq!(rig.plugins.is_satisfied(first_place(&rig)), n >= 29, "{n}");
    }
    let found = rig.end().remove(0);
    let ways = vec![1; 29].into_iter().chain([-1]).collect::<Vec<i8>>();
    assert_eq!(found["pstats_directions"], format!("{ways:?}"));
    assert_eq!(found["pstats_payload_bytes"], format!("{:?}", [77; 30]));
}

/// The place of the only flow.
fn first_place(rig: &Rig) -> u32 {
    let open = |place: &usize| rig.plugins.flows[*place].told != 0;
    (0..rig.plugins.flows.len()).find(open).unwrap() as u32
}

#[test]
fn rtt_is_measured_once_and_only_without_doubt() {
    let packets = handshake(443);
    let found = Rig::one(PluginKind::Rtt, &packets);
    is(
        &found,
        &[
            ("tcp_rtt_ns", "2000000"),
            ("tcp_rtt_server_ns", "1000000"),
            ("tcp_rtt_client_ns", "1000000"),
        ],
    );
    let repeated = [&packets[..1], &packets[..]].concat();
    is(&Rig::one(PluginKind::Rtt, &repeated), &[]);
    is(&Rig::one(PluginKind::Rtt, &packets[1..]), &[]);
    let mut other = packets;
    // The answer acknowledges something else.
    other[1][31] ^= 1;
    is(&Rig::one(PluginKind::Rtt, &other), &[]);
}

#[test]
fn bursts_are_three_packets_without_a_second_between_them() {
    let mut rig = Rig::new(&[PluginKind::Bursts]);
    for count in [3, 2, 4] {
        for _ in 0..count {
            rig.take(&datagram((5, 6), false, &[0; 12]));
        }
        rig.time_ns += 2_000_000_000;
    }
    is(
        &rig.end()[0],
        &[
            ("bursts_packets", "[3, 4]"),
            ("bursts_octets", "[120, 160]"),
            ("bursts_start_us", "[0, 4005000]"),
            ("bursts_end_us", "[2000, 4008000]"),
            ("bursts_packets_rev", "[]"),
            ("bursts_octets_rev", "[]"),
            ("bursts_start_us_rev", "[]"),
            ("bursts_end_us_rev", "[]"),
        ],
    );
    // More than there is room for.
    for _ in 0..12 {
        (0..3).for_each(|_| rig.take(&datagram((5, 6), false, &[0; 12])));
        rig.time_ns += 2_000_000_000;
    }
    assert_eq!(rig.end()[0]["bursts_packets"], format!("{:?}", [3; 8]));
}

#[test]
fn entropy_is_that_of_the_bytes() {
    let all: Vec<u8> = (0..=255).collect();
    let mut packets = vec![
        datagram((5, 6), false, &all),
        datagram((5, 6), true, b"aaaa"),
    ];
    let found = Rig::one(PluginKind::Entropy, &packets);
    is(
        &found,
        &[
            ("entropy_bits", "8.000"),
            ("entropy_bits_rev", "0.000"),
            ("entropy_bytes", "256"),
            ("entropy_bytes_rev", "4"),
        ],
    );
    packets[1] = datagram((5, 6), true, b"abababac");
    let found = Rig::one(PluginKind::Entropy, &packets);
    // 1/2, 3/8, 1/8.
    assert_eq!(found["entropy_bits_rev"], "1.406");
    is(&Rig::one(PluginKind::Entropy, &handshake(443)), &[]);
}

/// A question for `www.example.org`, and what is behind it.
fn dns(flags: [u8; 2], answers: u8, behind: &[u8]) -> Vec<u8> {
    let head = [0x12, 0x34, flags[0], flags[1], 0, 1, 0, answers, 0, 0, 0, 0];
    let question = b"\x03www\x07example\x03org\0\0\x01\0\x01";
    [&head[..], question, behind].concat()
}

const ANSWER: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04\xc0\0\x02\x07";

#[test]
fn dns_has_question_and_first_answer() {
    let packets = [
        datagram((50_000, 53), false, &dns([1, 0], 0, b"")),
        datagram((50_000, 53), true, &dns([0x81, 0x80], 1, ANSWER)),
    ];
    let expected = [
        ("dns_id", "4660"),
        ("dns_name", "www.example.org"),
        ("dns_type", "1"),
        ("dns_class", "1"),
        ("dns_rcode", "0"),
        ("dns_answers", "1"),
        ("dns_answer_type", "1"),
        ("dns_ttl_s", "3600"),
        ("dns_answer", "192.0.2.7"),
    ];
    is(&Rig::one(PluginKind::Dns, &packets), &expected);
    is(&Rig::one(PluginKind::Dns, &packets[1..]), &expected);
    is(&Rig::one(PluginKind::Dns, &packets[..1]), &expected[..4]);
    // An answer to somebody else's question.
    let mut other = dns([0x81, 0x80], 1, ANSWER);
    other[0] = 9;
    let packets = [packets[0].clone(), datagram((50_000, 53), true, &other)];
    is(&Rig::one(PluginKind::Dns, &packets), &expected[..4]);
    // Over TCP.
    let mut packets = handshake(53);
    for (is_reverse, message) in [
        (false, dns([1, 0], 0, b"")),
        (true, dns([0x81, 0x80], 1, ANSWER)),
    ] {
        let payload = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
        let segment = Segment {
            port: 53,
            is_reverse,
            payload: &payload,
            ..Segment::default()
        };
        packets.push(segment.packet());
    }
    is(&Rig::one(PluginKind::Dns, &packets), &expected);
}

#[test]
fn mdns_has_names_of_the_link() {
    let packets = [
        datagram((5353, 5353), false, &dns([0, 0], 0, b"")),
        datagram((5353, 5353), false, &dns([0x84, 0], 1, ANSWER)),
    ];
    is(
        &Rig::one(PluginKind::Mdns, &packets),
        &[
            ("mdns_name", "www.example.org"),
            ("mdns_type", "1"),
            ("mdns_answers", "1"),
            ("mdns_answer_name", "www.example.org"),
            ("mdns_answer_type", "1"),
            ("mdns_answer", "192.0.2.7"),
        ],
    );
}

#[test]
fn ssdp_has_what_is_announced() {
    let notify = b"NOTIFY * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nLocation: http://10.0.0.9:5431/d.xml\r\n\
        NT: upnp:rootdevice\r\nSERVER: Linux UPnP/1.0\r\n\r\n";
    is(
        &Rig::one(PluginKind::Ssdp, &[datagram((1900, 1900), false, notify)]),
        &[
            ("ssdp_method", "NOTIFY"),
            ("ssdp_location_port", "5431"),
            ("ssdp_server", "Linux UPnP/1.0"),
            ("ssdp_nt", "upnp:rootdevice"),
        ],
    );
    let other = datagram((1900, 1900), false, b"GET / HTTP/1.1\r\n");
    is(&Rig::one(PluginKind::Ssdp, &[other]), &[]);
}

#[test]
fn ntp_has_the_answer_of_the_server() {
    let mut message = [0; 48];
    message[..4].copy_from_slice(&[0x23, 0, 6, 0xec]);
    let request = datagram((40_000, 123), false, &message);
    message[..12].copy_from_slice(&[0x64, 2, 6, 0xec, 0, 0, 0x80, 0, 0, 1, 0, 0]);
    message[12..16].copy_from_slice(&[10, 9, 8, 7]);
    let answer = datagram((40_000, 123), true, &message);
    is(
        &Rig::one(PluginKind::Ntp, &[request, answer]),
        &[
            ("ntp_leap", "1"),
            ("ntp_version", "4"),
            ("ntp_mode", "4"),
            ("ntp_stratum", "2"),
            ("ntp_poll", "6"),
            ("ntp_root_delay_us", "500000"),
            ("ntp_root_dispersion_us", "1000000"),
            ("ntp_reference_id", "0a090807"),
        ],
    );
}

#[test]
fn dhcp_has_client_and_address() {
    let message = |op: u8, yours: [u8; 4], options: &[u8]| {
        let mut bytes = vec![op, 1, 6, 0];
        bytes.extend([0; 12]);
        bytes.extend(yours);
        bytes.extend([0; 8]);
        bytes.extend([2, 0, 0, 0, 0, 9]);
        bytes.extend([0; 202]);
        bytes.extend([99, 130, 83, 99]);
        bytes.extend(options);
        bytes
    };
    let options = b"\x35\x01\x03\0\x0c\x04host\x3c\x03abc\x32\x04\x0a\0\0\x63\xff";
    let request = message(1, [0; 4], options);
    let answer = message(2, [10, 0, 0, 99], b"\x35\x01\x05\x33\x04\0\0\x0e\x10\xff");
    let packets = [
        datagram((68, 67), false, &request),
        datagram((68, 67), true, &answer),
    ];
    is(
        &Rig::one(PluginKind::Dhcp, &packets),
        &[
            ("dhcp_message", "5"),
            ("dhcp_client_mac", "020000000009"),
            ("dhcp_host_name", "host"),
            ("dhcp_vendor_class", "abc"),
            ("dhcp_requested_address", "10.0.0.99"),
            ("dhcp_your_address", "10.0.0.99"),
            ("dhcp_lease_s", "3600"),
        ],
    );
}

/// No plugin sees what another flow had at its place, and records are the same with plugins as without.
#[test]
fn a_place_that_is_used_again_has_nothing_of_the_flow_before() {
    let mut rig = Rig::all();
    for round in 0..3 {
        for host in 0..60_u16 {
            let packet = match (host + round) % 3 {
                0 => datagram((host, 53), false, &dns([1, 0], 0, b"")),
                1 => datagram((host, 5000), false, b"x"),
                _ => datagram((host, 443), false, &[0xc0; 100]),
            };
            rig.take(&packet);
        }
        let found = rig.end();
        assert_eq!(found.len(), 60);
        let with_name = found.iter().filter(|row| row.contains_key("dns_name"));
        assert_eq!(with_name.count(), 20);
        let others = found.iter().filter(|row| row.contains_key("tls_version"));
        assert_eq!(others.count(), 0);
    }
}

/// What says that it reads headers alone reads no payload of any packet, and each other plugin does of some.
#[test]
fn plugins_that_read_payload_say_so() {
    let long_header = [0xc0, 0, 0, 0, 1];
    let mut packets: Vec<Vec<u8>> = [53, 5353, 1900, 123, 67, 9_000]
        .into_iter()
        .map(|port| datagram((50_000, port), false, &long_header))
        .collect();
    let segment = Segment {
        payload: b"GET / HTTP/1.1",
        ..Segment::default()
    };
    packets.push(segment.packet());
    for kind in PluginKind::ALL {
        let plugin = kind.make(1);
        let mut decoder = Decoder::new(&DecodeConfig::default()).unwrap();
        let reads = packets.iter().any(|bytes| {
            let frame = Frame {
                time_ns: 1,
                link: Some(LinkType::RawIp),
                bytes,
                wire_bytes: bytes.len() as u32,
            };
            plugin.wants_bytes(&decoder.handle_frame(&frame).unwrap()) > 0
        });
        assert_eq!(reads, kind.reads_payload(), "{kind}");
    }
}
