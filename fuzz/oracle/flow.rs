//! What must hold of flows for any frames at any times. Shared by the fuzz target and by the test that replays its corpus.
//!
//! No panic; every frame is a packet or refused, and what was taken is what records had and what is held, after every step.
//!
//! The first byte says how flows are kept. Then come steps: what is done and how far the time moves, bytes that the capture cut off, length of the frame, frame.

use forebay_flow::{
    Config, DecodeConfig, Decoder, EndReason, Eviction, FlowRecord, Frame, LinkType, Table, Volume,
};
use forebay_ledger::DropReason;

/// The time moves by one of these, ns: within a tick of the wheel, near time-outs, by hours, to the end.
const MOVES_NS: [u64; 8] = [
    0,
    1,
    50_000_000,
    900_000_000,
    999_999_999,
    30_000_000_000,
    40_000_000_000_000,
    u64::MAX / 2,
];
const IS_BACK: u8 = 0x08;
const IS_TICK: u8 = 0x10;
const IS_RAW: u8 = 0x20;

/// What came out, as the receiver of the records adds it up.
#[derive(Default)]
struct Seen {
    records: u64,
    volume: Volume,
}

impl Seen {
    fn take(&mut self, record: &FlowRecord) {
        assert!(record.packets > 0 && record.start_ns <= record.end_ns);
        assert_eq!(record.packets_rev == 0, record.octets_rev == 0);
        self.records += 1;
        self.volume += Volume {
            packets: record.packets + record.packets_rev,
            octets: record.octets + record.octets_rev,
        };
    }
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Some((&how, mut steps)) = bytes.split_first() else {
        return;
    };
    let config = Config {
        flows: 16,
        biflow: how & 1 == 0,
        eviction: if how & 2 == 0 {
            Eviction::Oldest
        } else {
            Eviction::LineLru
        },
        ..Config::default()
    };
    let decoding = DecodeConfig {
        vlan_in_key: how & 4 == 0,
        tunnel_depth: how >> 3 & 3,
        fragments: 4,
        ..DecodeConfig::default()
    };
    let mut table = Table::new(&config).expect("sound");
    let mut decoder = Decoder::new(&decoding).expect("sound");
    let (mut seen, mut frames, mut time_ns) = (Seen::default(), 0, 0_u64);
    while let Some((&[what, cut, length], rest)) = steps.split_first_chunk() {
        let (bytes, rest) = rest.split_at(usize::from(length).min(rest.len()));
        steps = rest;
        let by_ns = MOVES_NS[usize::from(what) % MOVES_NS.len()];
        time_ns = if what & IS_BACK == 0 {
            time_ns.saturating_add(by_ns)
        } else {
            time_ns.saturating_sub(by_ns)
        };
        if what & IS_TICK != 0 {
            table.tick(time_ns, &mut |record| seen.take(record));
        } else {
            frames += 1;
            let frame = Frame {
                time_ns,
                link: Some(if what & IS_RAW == 0 {
                    LinkType::Ethernet
                } else {
                    LinkType::RawIp
                }),
                bytes,
                wire_bytes: bytes.len() as u32 + u32::from(cut),
            };
            if let Ok(packet) = decoder.handle_frame(&frame) {
                assert!(packet.octets <= frame.wire_bytes);
                assert!(packet.payload.len() <= bytes.len());
                table.handle_packet(&packet, &mut |record| seen.take(record));
            }
        }
        close(&table, &decoder, &seen, frames);
    }
    table.end_all(&mut |record| seen.take(record));
    close(&table, &decoder, &seen, frames);
    assert_eq!((table.flows(), table.held()), (0, Volume::default()));
}

fn close(table: &Table, decoder: &Decoder, seen: &Seen, frames: u64) {
    let refused = forebay_flow::PacketDrop::all().map(|reason| decoder.refused()[reason].packets);
    assert_eq!(refused.sum::<u64>() + table.taken().packets, frames);
    assert_eq!(table.exported(), seen.volume);
    assert_eq!(table.exported() + table.held(), table.taken());
    let counts = table.counts();
    let ended: u64 = EndReason::ALL
        .iter()
        .map(|reason| counts.ended(*reason))
        .sum();
    assert_eq!(ended, seen.records);
    assert_eq!(counts.begun, ended + table.flows() as u64);
    assert_eq!(table.poll_timeout().is_some(), table.flows() > 0);
}
