//! Whatever comes, nothing goes wrong.

use proptest::prelude::*;

use super::super::hello::tests::message;
use super::super::quic::initial::tests::seal;
use super::*;

const PORTS: [u16; 9] = [53, 5353, 443, 80, 1900, 123, 67, 68, 5000];

/// Something that a plugin reads, of which a part may be replaced.
fn begin() -> impl Strategy<Value = Vec<u8>> {
    let sealed = proptest::collection::vec(0..9_u8, 0..300);
    prop_oneof![
        Just(dns([0x81, 0x80], 1, ANSWER)),
        Just([&[22, 3, 1, 0, 200], &message("example.org")[..]].concat()),
        Just(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        Just(b"NOTIFY * HTTP/1.1\r\nLOCATION: http://a:1/\r\n".to_vec()),
        Just([&[0x23, 2, 3], &[9; 60][..]].concat()),
        sealed.prop_map(|frames| seal(0, 1, b"whatever", &frames)),
        proptest::collection::vec(any::<u8>(), 0..400),
    ]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let garbage = proptest::collection::vec(any::<u8>(), 0..12);
    (begin(), any::<prop::sample::Index>(), garbage).prop_map(|(mut bytes, at, garbage)| {
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            let end = (at + garbage.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&garbage[..end - at]);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fields_are_within_their_columns(
        steps in proptest::collection::vec(
            (0..9_usize, any::<bool>(), any::<bool>(), any::<u8>(), 0..40_u32, payload()),
            1..30,
        ),
    ) {
        let mut rig = Rig::all();
        let packets = steps.len() as u64;
        for (port, is_tcp, is_reverse, flags, sequence, payload) in steps {
            let port = PORTS[port];
            let packet = if is_tcp {
                let sequence = 1001 + sequence;
                let segment = Segment { port, is_reverse, flags, sequence, payload: &payload, ..Segment::default() };
                segment.packet()
            } else {
                datagram((50_000, port), is_reverse, &payload)
            };
            rig.take(&packet);
        }
        rig.flush();
        let out = &mut rig.out;
        let mut ended = |record: &FlowRecord, fields| out.push((*record, fields));
        rig.table.end_all_watched(&mut rig.plugins.watch(&mut ended));
        prop_assert_eq!(rig.plugins.no_room(), 0);
        let mut seen = 0;
        for (record, fields) in &rig.out {
            seen += record.packets + record.packets_rev;
            prop_assert!(told(fields).values().all(|text| text.len() <= 3 * 255));
            prop_assert_eq!(fields.values().count(), PluginKind::columns_of(fields.set()).count());
        }
        prop_assert_eq!(seen, packets);
    }
}
