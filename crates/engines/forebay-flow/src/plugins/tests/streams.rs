//! What comes in several packets.

use super::super::hello::tests::message;
use super::super::quic::initial::tests::{example_frames, seal};
use super::*;

fn record(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u16).to_be_bytes();
    [&[22, 3, 1], &length[..], message].concat()
}

/// A stream in segments that end at these places, behind a handshake.
fn segments(port: u16, stream: &[u8], ends: &[usize]) -> Vec<Vec<u8>> {
    let mut from = 0;
    let mut packets = Vec::new();
    for end in ends.iter().copied().chain([stream.len()]) {
        let segment = Segment {
            port,
            sequence: 1001 + from as u32,
            payload: &stream[from..end],
            ..Segment::default()
        };
        packets.push(segment.packet());
        from = end;
    }
    packets
}

fn tls(name: &str) -> BTreeMap<&'static str, String> {
    let stream = record(&message(name));
    let packets = [handshake(443), segments(443, &stream, &[])].concat();
    Rig::one(PluginKind::Tls, &packets)
}

#[test]
fn tls_has_what_the_client_says() {
    let found = tls("example.org");
    assert_eq!(found["tls_sni"], "example.org");
    assert_eq!(found["tls_alpn"], "h2,http/1.1");
    assert_eq!(found["tls_version"], "772");
    assert!(found["tls_ja4"].starts_with("t13d0203h2_"), "{found:?}");
    assert_eq!(found["tls_ja3"].len(), 32);
    // A connection of which the handshake was not seen, and one whose server was seen first.
    let alone = segments(443, &record(&message("example.org")), &[]);
    assert_eq!(Rig::one(PluginKind::Tls, &alone), found);
    let turned = [handshake(443)[1..2].to_vec(), alone].concat();
    assert_eq!(Rig::one(PluginKind::Tls, &turned), found);
}

#[test]
fn tls_is_put_together_from_segments_in_any_order() {
    let found = tls("example.org");
    let stream = record(&message("example.org"));
    for end in 1..stream.len() {
        let parts = segments(443, &stream, &[end]);
        let packets = [handshake(443), parts.clone()].concat();
        assert_eq!(Rig::one(PluginKind::Tls, &packets), found, "{end}");
        let turned = [handshake(443), vec![parts[1].clone(), parts[0].clone()]].concat();
        assert_eq!(Rig::one(PluginKind::Tls, &turned), found, "{end}, turned");
        let twice = [handshake(443), vec![parts[0].clone(); 2], parts].concat();
        assert_eq!(Rig::one(PluginKind::Tls, &twice), found, "{end}, twice");
    }
    // One that is lost.
    let parts = segments(443, &stream, &[20, 40]);
    let packets = [handshake(443), vec![parts[0].clone(), parts[2].clone()]].concat();
    is(&Rig::one(PluginKind::Tls, &packets), &[]);
}

#[test]
fn tls_is_put_together_from_records() {
    let message = message("example.org");
    let found = tls("example.org");
    for at in [1, 4, 50, message.len() - 1] {
        let stream = [record(&message[..at]), record(&message[at..])].concat();
        for end in [3, at, at + 5, at + 7, stream.len() - 1] {
            let packets = [handshake(443), segments(443, &stream, &[end])].concat();
            assert_eq!(Rig::one(PluginKind::Tls, &packets), found, "{at} {end}");
        }
    }
}

#[test]
fn names_are_bounded_and_of_utf8() {
    let found = tls(&"a".repeat(300));
    assert_eq!(found["tls_sni"], "a".repeat(255));
    let mut bytes = message("abcdefgh\u{e9}");
    let at = bytes.windows(4).position(|part| part == b"efgh").unwrap();
    bytes[at] = 0xff;
    let packets = segments(443, &record(&bytes), &[]);
    let found = Rig::one(PluginKind::Tls, &packets);
    assert_eq!(found["tls_sni"], "abcd\u{fffd}fgh\u{e9}");
}

/// More half messages than there are buffers: those that find none are counted, and all buffers come back.
#[test]
fn buffers_come_back_whatever_becomes_of_a_flow() {
    let stream = record(&message("example.org"));
    for kind in [PluginKind::Tls, PluginKind::Http] {
        let mut rig = Rig::new(&[kind]);
        for round in 0..200 {
            let begin = match kind {
                PluginKind::Tls => stream[..30].to_vec(),
                _ => b"GET /half HTTP/1.1\r\nHost".to_vec(),
            };
            let mut packets = segments(443, &begin, &[]);
            if round % 2 == 0 {
                // What contradicts its begin, or another side that speaks.
                packets.extend(segments(443, &[0; 60], &[30]).split_off(1));
                let segment = Segment {
                    is_reverse: true,
                    payload: b"220 hello",
                    ..Segment::default()
                };
                packets.push(segment.packet());
            }
            packets.iter().for_each(|packet| rig.take(packet));
            rig.end();
        }
        assert_eq!(rig.plugins.no_room(), 0, "{kind}");
    }
}

fn crypto(offset: usize, piece: &[u8]) -> Vec<u8> {
    let number = |n: usize| (0x4000 | n as u16).to_be_bytes();
    [&[6], &number(offset)[..], &number(piece.len()), piece].concat()
}

const ID: &[u8] = b"whatever";

fn quic(version: u32, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let sealed = datagrams.iter().enumerate().map(|(n, frames)| {
        let mut frames = frames.clone();
        frames.resize(1162, 0);
        datagram((50_000, 443), false, &seal(n as u32, version, ID, &frames))
    });
    sealed.collect()
}

#[test]
fn quic_has_what_the_client_says() {
    for version in [1, 0x6b33_43cf] {
        let packets = quic(version, &[example_frames()]);
        let found = Rig::one(PluginKind::Quic, &packets);
        assert_eq!(found["quic_version"], version.to_string());
        assert_eq!(found["quic_sni"], "example.com");
        assert_eq!(found["quic_alpn"], "alpn");
        assert_eq!(found["quic_tls_version"], "772");
        assert!(found["quic_ja4"].starts_with("q13d0211an_"), "{found:?}");
        // The first packet is lost, or another one: nothing is known of it.
        is(
            &Rig::one(
                PluginKind::Quic,
                &[datagram((50_000, 443), false, &[0x40; 50])],
            ),
            &[],
        );
    }
}

#[test]
fn quic_is_put_together_from_pieces_in_any_order() {
    let message = message("example.org");
    let whole = Rig::one(PluginKind::Quic, &quic(1, &[crypto(0, &message)]));
    assert_eq!(whole["quic_sni"], "example.org");
    for at in [1, 10, message.len() - 1] {
        let (a, b) = (crypto(0, &message[..at]), crypto(at, &message[at..]));
        let orders = [
            vec![[b.clone(), vec![1, 0, 0], a.clone()].concat()],
            vec![a.clone(), b.clone()],
            vec![b.clone(), a.clone()],
            vec![a.clone(), a, b],
        ];
        for order in orders {
            assert_eq!(Rig::one(PluginKind::Quic, &quic(1, &order)), whole, "{at}");
        }
    }
    // What the server says between them, and a packet that nobody can open.
    let parts = quic(1, &[crypto(0, &message[..9]), crypto(9, &message[9..])]);
    let server = datagram((50_000, 443), true, &parts[0][28..]);
    let packets = [parts[0].clone(), server, parts[1].clone()];
    assert_eq!(Rig::one(PluginKind::Quic, &packets), whole);
}

const REQUEST: &[u8] = b"POST /a/b?c=d HTTP/1.1\r\nAccept: */*\r\nhost: www.example.org\r\n\
    User-Agent: \"test\" 1.0\r\n\r\nbody";
const RESPONSE: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html; charset=utf-8\r\n\r\n";

#[test]
fn http_has_request_and_response() {
    let response = Segment {
        port: 80,
        is_reverse: true,
        payload: RESPONSE,
        ..Segment::default()
    };
    let expected = [
        ("http_method", "POST"),
        ("http_host", "www.example.org"),
        ("http_uri", "/a/b?c=d"),
        ("http_user_agent", "\"test\" 1.0"),
        ("http_status", "404"),
        ("http_content_type", "text/html; charset=utf-8"),
    ];
    for end in 1..REQUEST.len() {
        let parts = segments(80, REQUEST, &[end]);
        let packets = [handshake(80), parts, vec![response.packet()]].concat();
        let found = Rig::one(PluginKind::Http, &packets);
        is(&found, &expected);
    }
    let packets = [handshake(80), segments(80, REQUEST, &[])].concat();
    is(&Rig::one(PluginKind::Http, &packets), &expected[..4]);
    is(
        &Rig::one(PluginKind::Http, &[response.packet()]),
        &expected[4..],
    );
    let other = segments(80, b"SSH-2.0-OpenSSH", &[]);
    is(&Rig::one(PluginKind::Http, &other), &[]);
}
