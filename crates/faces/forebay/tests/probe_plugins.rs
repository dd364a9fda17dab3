//! Plugins of the flow probe: what they say of packets that the test made.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::{Path, PathBuf};

use forebay_wire::ipfix::{Element, Messages, Record, SetKind, TemplateCache};
use rig::{Ended, forebay, start};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A capture file of raw IP packets, 1 ms after each other.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    const RAW_IP: u32 = 101;
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, RAW_IP] {
        file.extend(u32::to_le_bytes(word));
    }
    for (n, packet) in packets.iter().enumerate() {
        let length = packet.len() as u32;
        for word in [1_700_000_000, 1_000 * n as u32, length, length] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(packet);
    }
    file
}

/// A packet of IPv4 from 192.0.2.1 to 192.0.2.2, or back.
fn ip(protocol: u8, is_back: bool, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    let mut ends = [[192, 0, 2, 1], [192, 0, 2, 2]];
    if is_back {
        ends.reverse();
    }
    packet.extend(ends.concat());
    packet.extend(body);
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet
}

fn ports(port: u16, is_back: bool) -> Vec<u8> {
    let mut ports = [40_000 + port, port];
    if is_back {
        ports.reverse();
    }
    ports.map(u16::to_be_bytes).concat()
}

fn udp(port: u16, is_back: bool, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    let body = [&ports(port, is_back)[..], &length, &[0, 0], payload].concat();
    ip(17, is_back, &body)
}

fn tcp(port: u16, is_back: bool, flags: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let acknowledgement: u32 = if is_back { 101 } else { 501 };
    let numbers = [sequence, acknowledgement].map(u32::to_be_bytes).concat();
    let rest = [5 << 4, flags, 4, 0, 0, 0, 0, 0];
    ip(
        6,
        is_back,
        &[&ports(port, is_back)[..], &numbers, &rest, payload].concat(),
    )
}

/// A connection on which both sides say something, the client in several segments.
fn connection(port: u16, said: &[&[u8]], answer: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = vec![
        tcp(port, false, 0x02, 100, &[]),
        tcp(port, true, 0x12, 500, &[]),
        tcp(port, false, 0x10, 101, &[]),
    ];
    let mut sequence = 101;
    for segment in said {
        packets.push(tcp(port, false, 0x18, sequence, segment));
        sequence += segment.len() as u32;
    }
    packets.push(tcp(port, true, 0x18, 501, answer));
    packets.push(tcp(port, false, 0x11, sequence, &[]));
    packets.push(tcp(port, true, 0x11, 501 + answer.len() as u32, &[]));
    packets
}

fn with_length(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

/// What a client of TLS says first, in its record.
fn client_hello(name: &str) -> Vec<u8> {
    let extension =
        |number: u16, body: &[u8]| [&number.to_be_bytes()[..], &with_length(body)].concat();
    let host = [&[0], &with_length(name.as_bytes())[..]].concat();
    let extensions = [
        extension(0, &with_length(&host)),
        extension(16, &with_length(b"\x02h2")),
        extension(43, &[2, 3, 4]),
    ];
    let mut body = vec![3, 3];
    body.extend([5; 32]);
    body.push(0);
    body.extend(with_length(&[0x13, 0x01, 0x13, 0x02]));
    body.extend([1, 0]);
    body.extend(with_length(&extensions.concat()));
    let message = [&[1, 0], &with_length(&body)[..]].concat();
    [&[22, 3, 1], &with_length(&message)[..]].concat()
}

fn dns(flags: u16, answers: u16, behind: &[u8]) -> Vec<u8> {
    let head = [0xbeef, flags, 1, answers, 0, 0]
        .map(u16::to_be_bytes)
        .concat();
    [
        &head,
        &b"\x03www\x07example\x03org\0\0\x1c\0\x01"[..],
        behind,
    ]
    .concat()
}

const NAME: &str = "tls.example.org";
const REQUEST: &[&[u8]] = &[
    b"GET /a?q=\"x\" HTTP/1.1\r\nHost: www.exam",
    b"ple.org\r\nUser-Agent: test \x01\xff\r\n\r\n",
];
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nhello";

/// The capture of three conversations, one behind the other.
fn captured(folder: &Path) -> PathBuf {
    let answer = b"\xc0\x0c\0\x1c\0\x01\0\0\0\x3c\0\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07";
    let hello = client_hello(NAME);
    let packets = [
        vec![
            udp(53, false, &dns(0x0100, 0, b"")),
            udp(53, true, &dns(0x8180, 1, answer)),
        ],
        connection(443, &[&hello[..50], &hello[50..]], b"\x16\x03\x03"),
        connection(80, REQUEST, RESPONSE),
    ];
    let path = folder.join("it.pcap");
    fs::write(&path, pcap(&packets.concat())).unwrap();
    path
}

fn probe(pcap: &Path, args: &[&str]) -> Ended {
    let mut command = forebay();
    command.arg("probe").arg("--read").arg(pcap).args(args);
    start(command.args(["--format", "json"])).end()
}

/// The lines of a probe with plugins, by the port of the server.
fn lines(folder: &Path, plugins: &str) -> [Value; 3] {
    let jsonl = folder.join("flows.jsonl");
    let export = jsonl.display().to_string();
    let args = ["--plugins", plugins, "--export", &export];
    let json = probe(&captured(folder), &args).json_of(0);
    assert_eq!(json["flows_exported"], 3, "{json}");
    assert_eq!(json["residual_packets"], 0, "{json}");
    let text = fs::read_to_string(&jsonl).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |port: u16| lines.iter().find(|line| line["dst_port"] == port);
    [53, 443, 80].map(|port| of(port).unwrap().clone())
}

/// All keys with one of these begins, which are all that are there.
fn is(line: &Value, begins: &[&str], expected: &Value) {
    let mut found = line.clone();
    let is_of = |key: &str| begins.iter().any(|begin| key.starts_with(begin));
    found.as_object_mut().unwrap().retain(|key, _| is_of(key));
    assert_eq!(&found, expected, "{line}");
}

#[test]
fn lines_have_what_was_said() {
    let folder = TempDir::new().unwrap();
    let [dns, tls, http] = lines(folder.path(), "tls,http,dns,pstats,rtt,basic");
    let protocols = ["dns_", "tls_", "http_"];
    is(
        &dns,
        &protocols,
        &json!({
            "dns_id": 0xbeef, "dns_name": "www.example.org", "dns_type": 28, "dns_class": 1, "dns_rcode": 0,
            "dns_answers": 1, "dns_answer_type": 28, "dns_ttl_s": 60, "dns_answer": "2001:db8::7",
        }),
    );
    is(
        &tls,
        &["tls_version", "tls_sni", "tls_alpn", "dns_", "http_"],
        &json!({"tls_version": 0x0304, "tls_sni": NAME, "tls_alpn": "h2"}),
    );
    // MD5 of 771,4865-4866,0-16-43,, and the two lists of JA4, made with other programs.
    assert_eq!(tls["tls_ja3"], "1dae9c1bb9ff5e63c969a12a81eed58d");
    assert_eq!(tls["tls_ja4"], "t13d0203h2_62ed6f6ca7ad_b9a491fefe05");
    is(
        &http,
        &protocols,
        &json!({
            "http_method": "GET", "http_host": "www.example.org", "http_uri": "/a?q=\"x\"",
            "http_user_agent": "test \u{1}\u{fffd}", "http_status": 200, "http_content_type": "text/plain",
        }),
    );
    for line in [&tls, &http] {
        let answer_bytes = if line["dst_port"] == 80 {
            RESPONSE.len()
        } else {
            3
        };
        let lengths = line["pstats_payload_bytes"].as_array().unwrap();
        assert_eq!(lengths[5], answer_bytes, "{line}");
        assert_eq!(
            line["pstats_directions"],
            json!([1, -1, 1, 1, 1, -1, 1, -1])
        );
        assert_eq!(
            line["pstats_tcp_flags"],
            json!([2, 18, 16, 24, 24, 24, 17, 17])
        );
        assert_eq!(line["tcp_rtt_ns"], 2_000_000);
        assert_eq!(
            (&line["ip_ttl"], &line["tcp_window"]),
            (&json!(64), &json!(1024))
        );
    }
}

#[test]
fn without_plugins_lines_have_counts_alone() {
    let folder = TempDir::new().unwrap();
    let jsonl = folder.path().join("flows.jsonl");
    let args = ["--export", &jsonl.display().to_string()];
    probe(&captured(folder.path()), &args).json_of(0);
    let text = fs::read_to_string(&jsonl).unwrap();
    assert_eq!(text.lines().count(), 3);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line.as_object().unwrap().len(), 14, "{line}");
    }
}

#[test]
fn a_plugin_that_is_not_there_is_named() {
    let folder = TempDir::new().unwrap();
    let ended = probe(&captured(folder.path()), &["--plugins", "tls,smtp"]);
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    let told = ended.stderr;
    assert!(told.contains("smtp") && told.contains("pstats"), "{told}");
}

/// A value that a plugin has found, of an element of CESNET's, or of IANA's.
fn text(record: &Record<'_, '_>, enterprise: u32, id: u16) -> Option<String> {
    let value = record.value(Element { enterprise, id })?;
    Some(String::from_utf8(value.0.to_vec()).unwrap())
}

#[test]
fn ipfix_has_a_template_for_each_set_of_plugins() {
    const CESNET: u32 = 8_057;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("flows.ipfix");
    let export = path.display().to_string();
    let args = ["--plugins", "tls,http,dns,pstats", "--export", &export];
    probe(&captured(folder.path()), &args).json_of(0);
    let file = fs::read(&path).unwrap();
    let mut cache = TemplateCache::new(100, 10_000);
    let mut ports = Vec::new();
    for message in Messages::new(&file) {
        let message = message.unwrap();
        for set in message.sets() {
            for template in set.templates() {
                cache.learn(1, template.unwrap(), 0).unwrap();
            }
            let SetKind::Data(id) = set.kind() else {
                continue;
            };
            for record in cache.template(1, id).unwrap().records(set.body()) {
                let record = record.unwrap();
                let Some(port) = record.value(Element::iana(11)) else {
                    continue;
                };
                let port = port.unsigned().unwrap();
                ports.push(port);
                let told = (
                    text(&record, CESNET, 2),
                    text(&record, CESNET, 808),
                    text(&record, 0, 460),
                );
                let name = |is: bool, name: &str| is.then(|| name.to_owned());
                let expected = (
                    name(port == 53, "www.example.org"),
                    name(port == 443, NAME),
                    name(port == 80, "www.example.org"),
                );
                assert_eq!(told, expected, "{port}");
                // A list in order, of CESNET's element 1013, with numbers of two bytes.
                let lengths = record.value(Element::iana(291)).unwrap().0;
                assert_eq!(lengths[..9], [4, 0x83, 0xf5, 0, 2, 0, 0, 0x1f, 0x79]);
                let packets = if port == 53 { 2 } else { 8 };
                assert_eq!(lengths.len(), 9 + 2 * packets, "{port}");
            }
        }
    }
    ports.sort_unstable();
    assert_eq!(ports, [53, 80, 443]);
}
