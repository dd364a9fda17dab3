use forebay_flow::{Frame, LinkType};
use forebay_ledger::{Leak, Snapshot};
use forebay_link::packet::KernelCounts;
use forebay_run::{Host, Stop};

use super::packet_file::PacketFileDrop;
use super::*;
use crate::export::tests::row_of;
use crate::export::{Export, Exporter, Judged, Losses, Row};
use crate::offload::Below;
use crate::packets::Tap;
use crate::packets::{Lane, Written};
use crate::queue::Found;
use crate::run::ProbePlan;

const LIVE: Declared = Declared {
    is_live: true,
    has_filter: true,
    has_packet_file: true,
    lanes: 2,
    offload: OffloadChoice::Xdp,
    exporters: 2,
};
const FILE: Declared = Declared {
    is_live: false,
    has_filter: true,
    has_packet_file: true,
    lanes: 1,
    offload: OffloadChoice::Software,
    exporters: 1,
};

#[test]
fn the_page_of_accounts_has_this_ledger() {
    let outlines = [FILE, LIVE].map(|declared| declare("probe-1", declared).unwrap().0.outline());
    forebay_testing::accounts::assert_section("probe", &outlines);
}

/// 10.0.0.1:50000 → 10.0.0.2:50001, "hi".
pub(crate) const DATAGRAM: [u8; 30] = [
    0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3, 0x51,
    0, 10, 0, 0, b'h', b'i',
];

fn row() -> Row {
    row_of([3, 4], [300, 44], [1, 2])
}

/// A plan of a live input whose queue takes so many records.
fn plan(queue_flows: u32) -> ProbePlan {
    let mut plan = ProbePlan::default();
    plan.settings.interface = Some("none".into());
    plan.settings.queue_flows = queue_flows;
    plan.settings.filter = vec!["drop src-port 50002".parse().unwrap()];
    plan
}

/// A packet that a rule drops; two that are held, the second one earlier; a later fragment; and three that are refused.
fn take_packets(flows: &mut Flows<'_>) {
    let mut later = DATAGRAM;
    later[7] = 1;
    let ip = Some(LinkType::RawIp);
    let mut dropped = DATAGRAM;
    dropped[21] += 2;
    let frames: [(u64, _, &[u8]); 7] = [
        (9, ip, &dropped),
        (9, ip, &DATAGRAM),
        (8, ip, &DATAGRAM),
        (9, ip, &later),
        (9, ip, &[0x50; 40]),
        (9, ip, &DATAGRAM[..9]),
        (9, None, &DATAGRAM),
    ];
    for (time_ns, link, bytes) in frames {
        flows.take(&Frame {
            time_ns,
            link,
            bytes,
            wire_bytes: 40,
        });
    }
    flows.settle();
}

fn assert_filtered(shown: &Snapshot, filter: &Account<Lossless>) {
    assert_eq!(shown.tally(filter.incoming), (1, 30));
    assert_eq!(shown.tally(filter.outgoing), (7, 77));
    assert_eq!(shown.tally(filter.held), (0, 0));
}

fn assert_ring(shown: &Snapshot, words: &RingWords) {
    let of_ring = [
        words.account.incoming,
        words.account.outgoing,
        words.account.held,
        words.account.lost(RingDrop::KernelRingFull),
        words.account.lost(RingDrop::KernelNoBuffer),
        words.account.lost(RingDrop::BrokenBlock),
    ];
    let of_ring = of_ring.map(|tally| shown.tally(tally));
    assert_eq!(
        of_ring,
        [(100, 0), (8, 0), (5, 0), (20, 0), (7, 0), (15, 0)]
    );
}

fn assert_tapped(shown: &Snapshot, tap: &TapWords) {
    assert_eq!(shown.tally(tap.account.incoming), (21, 230));
    assert_eq!(shown.tally(tap.account.outgoing), (8, 80));
    assert_eq!(shown.tally(tap.account.held), (1, 30));
    let full = tap.account.lost(TapDrop::QueueFull);
    assert_eq!(
        (shown.tally(full), shown.tally(tap.put)),
        ((9, 99), (3, 90))
    );
}

#[test]
fn each_count_of_a_capture_is_in_its_own_term() {
    let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
    let (plan, queue) = (plan(256), Queue::new(2, 1));
    let (books, mut captures, ..) = Books::open(None, LIVE, &mut |_| {}).unwrap();
    let (lane, (to, _from)) = (Lane::default(), std::sync::mpsc::sync_channel(1));
    let mut flows = Flows::new(&plan, &queue, (1, 7), None, &host).unwrap();
    flows.tap = Some(Tap::new((1, &lane), to, false));
    take_packets(&mut flows);
    flows.formed = Amount {
        flows: 9,
        volume: Volume {
            packets: 5,
            octets: 50,
        },
    };
    assert_eq!((flows.filtered.packets, flows.filtered.octets), (1, 30));
    flows.filtered = Volume {
        packets: 7,
        octets: 77,
    };
    // One is handed over, one finds no room, and one waits.
    for _ in 0..2 {
        flows.outlet.push(row());
        flows.hand_over();
    }
    flows.outlet.push(row());
    let bulk = |packets, bytes| Bulk { packets, bytes };
    let tap = flows.tap.as_mut().unwrap();
    assert_eq!((tap.came, tap.given), (bulk(3, 90), bulk(3, 90)));
    (tap.came, tap.given, tap.full) = (bulk(20, 200), bulk(8, 80), bulk(9, 99));
    flows.take(&Frame {
        time_ns: 9,
        link: Some(LinkType::RawIp),
        bytes: &DATAGRAM,
        wire_bytes: 40,
    });
    let ring = RingCounts {
        kind: "xdp",
        kernel: KernelCounts {
            packets: 100,
            drops: 20,
            freezes: 2,
        },
        no_buffer: 7,
        passed: 3,
        broken: 15,
        held: 5,
        downs: 1,
    };
    let book = &mut captures[1];
    for (formed, at_end) in [(9, false), (10, true)] {
        flows.formed.flows = formed;
        match at_end {
            true => book.show_end(&flows, Some(&ring)),
            false => book.show(&flows, Some(&ring)),
        }
        let shown = books.ledger.reader().unwrap().snapshot().unwrap();
        let LaneWords {
            packets, records, ..
        } = &book.words;
        assert_eq!(shown.tally(packets.incoming), (8, 270));
        assert_eq!(shown.tally(packets.outgoing), (5, 50));
        assert_eq!(shown.tally(packets.held), (3, 90));
        for why in [
            PacketDrop::NotIp,
            PacketDrop::Truncated,
            PacketDrop::LinkType,
        ] {
            assert_eq!(
                shown.tally(packets.lost(OneOf::First(why))),
                (1, 40),
                "{why:?}"
            );
        }
        let malformed = OneOf::First(PacketDrop::Malformed);
        assert_eq!(shown.tally(packets.lost(malformed)), (0, 0));
        // The rules' own counts are what the filter told, and the others what was not handed on.
        let filtered = OneOf::Second(FilterDrop::Filtered);
        assert_eq!(shown.tally(packets.lost(filtered)), (7, 77));
        assert_filtered(&shown, book.words.filter.as_ref().unwrap());
        assert_tapped(&shown, book.words.tap.as_ref().unwrap());
        assert_eq!(shown.tally(records.incoming), (formed, 50));
        for tally in [
            records.outgoing,
            records.held,
            records.lost(RecordDrop::QueueFull),
            book.words.put,
        ] {
            assert_eq!(shown.tally(tally), (1, 344));
        }
        let words = book.words.ring.as_ref().unwrap();
        assert_ring(&shown, words);
        assert_eq!(
            [words.freezes, words.downs, words.passed].map(|word| shown.value(word)),
            [2, 1, 3]
        );
        let metrics = book.words.metrics.map(|counter| shown.value(counter));
        assert_eq!(
            (metrics, shown.value(book.words.live)),
            ([0, 1, 1, 0, 0, 0], 2)
        );
    }
}

/// What a collector is told of losses is what the books have of them.
#[test]
fn what_was_lost_in_front_of_a_lane_is_told_with_its_records() {
    let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
    let (plan, queue) = (plan(256), Queue::new(1, 1));
    let mut flows = Flows::new(&plan, &queue, (0, 7), None, &host).unwrap();
    take_packets(&mut flows);
    flows.unread = 11;
    for _ in 0..3 {
        flows.outlet.push(row());
        flows.hand_over();
    }
    let volume = |packets, octets| Volume { packets, octets };
    let expected = Losses {
        unread_packets: 11,
        ignored: volume(3, 120),
        filter: Some(Judged {
            came_packets: 4,
            discarded: volume(1, 30),
        }),
        no_room: Amount {
            flows: 2,
            volume: volume(14, 688),
        },
    };
    assert_eq!(queue.losses(), expected);
}

#[test]
fn a_sign_of_life_is_in_the_ledger() {
    let (books, ..) = Books::open(None, LIVE, &mut |_| {}).unwrap();
    let reader = books.ledger.reader().unwrap();
    let before = reader.run_status().unwrap().heartbeat_ns;
    books.heartbeat();
    assert!(reader.run_status().unwrap().heartbeat_ns > before);
}

#[test]
fn each_count_of_the_exporters_is_in_its_own_term() {
    let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
    let plan = plan(256);
    let (books, _, mut book, _) = Books::open(None, LIVE, &mut |_| {}).unwrap();
    let mut exporters = Exporters::begin(&plan, &host).unwrap();
    exporters
        .all
        .push(Exporter::begin(&Export::None, &plan.settings, None, &host.stop).unwrap());
    for (exporter, written) in exporters.all.iter_mut().zip([1, 3]) {
        (0..written).for_each(|_| exporter.export(&row()));
        exporter.write();
        exporter.export(&row());
        (exporter.full.flows, exporter.unwritten.flows) = (10 * written, 20 * written);
    }
    let amount = |flows| Amount {
        flows,
        volume: Volume {
            packets: 0,
            octets: flows,
        },
    };
    exporters.lanes = [(1, 2), (3, 4)]
        .map(|(came, went)| Passed {
            came: amount(came),
            went: amount(went),
        })
        .into();
    let queue = Queue::new(2, 9);
    let mut flows = Flows::new(&plan, &queue, (1, 7), None, &host).unwrap();
    flows.outlet.push(row());
    flows.hand_over();
    assert!(matches!(
        queue.take(std::time::Duration::ZERO),
        Found::Records(1, _)
    ));
    book.show(&queue, &exporters);
    let shown = books.ledger.reader().unwrap().snapshot().unwrap();
    let lanes = book
        .words
        .lanes
        .iter()
        .zip([[(1, 1), (2, 2), (0, 0)], [(3, 3), (4, 4), (1, 344)]]);
    for ((account, taken), right) in lanes {
        let tallies = [account.incoming, account.outgoing, *taken];
        assert_eq!(tallies.map(|tally| shown.tally(tally)), right);
    }
    for (account, written) in book.words.exports.iter().zip([1, 3]) {
        let all = written + 1;
        assert_eq!(shown.tally(account.incoming), (all, 344 * all));
        assert_eq!(shown.tally(account.outgoing), (written, 344 * written));
        assert_eq!(shown.tally(account.held), (1, 344));
        let lost = [ExportDrop::QueueFull, ExportDrop::NotWritten]
            .map(|why| shown.tally(account.lost(why)).0);
        assert_eq!(lost, [10 * written, 20 * written]);
    }
}

#[test]
fn each_count_below_is_in_its_own_term() {
    let (mut books, ..) = Books::open(None, FILE, &mut |_| {}).unwrap();
    let (tables, mut take) = crate::offload::tests::counted_twice();
    for (is_taken, is_end) in [(false, false), (false, true), (true, false), (true, true)] {
        if is_taken && !is_end {
            take();
        }
        let seen = tables
            .iter()
            .map(if is_end { Below::end } else { Below::look });
        books.show_below(&seen.collect::<Vec<_>>());
        let shown = books.ledger.reader().unwrap().snapshot().unwrap();
        let words = &books.below.as_ref().unwrap().words.tables[0];
        let (frames, offload) = (&words.frames, &words.offload);
        let tallies = [frames.incoming, frames.outgoing].map(|tally| shown.tally(tally));
        assert_eq!(tallies, [(4, 0), (4, 0)]);
        assert_eq!(shown.tally(offload.incoming), (2, 60));
        let (taken, held) = (shown.tally(offload.outgoing), shown.tally(offload.held));
        let right = [(0, 0), (2, 60)];
        assert_eq!(
            [taken, held],
            if is_taken {
                [right[1], right[0]]
            } else {
                right
            }
        );
        let counts = [words.flows, words.refused, words.elsewhere, words.deferred];
        let values = counts.map(|counter| shown.value(counter));
        assert_eq!(values, [1, 2, 3, 0]);
        // At the end it is read that the table has counted as much as it tells of.
        let exports = words.exports.map(|counter| shown.value(counter));
        let was_ended = is_end || is_taken;
        assert_eq!(exports, [0, 0, 0, u64::from(was_ended), 0]);
        let terms = words.terms.map(|counter| shown.value(counter));
        assert_eq!(terms.iter().sum::<u64>(), 8);
        // Seen, counted, of a flow that is not in the table, and watched.
        assert_eq!([terms[0], terms[1], terms[3], terms[5]], [4, 2, 1, 1]);
    }
}

#[test]
fn each_count_of_written_packets_is_in_its_own_term() {
    let (books, .., book) = Books::open(None, LIVE, &mut |_| {}).unwrap();
    let mut book = book.unwrap();
    let bulk = |packets| Bulk {
        packets,
        bytes: 10 * packets,
    };
    let written = [1, 4].map(|n| Written {
        came: bulk(n),
        written: bulk(n + 1),
        unwritten: bulk(n + 2),
    });
    book.show(&[Lane::default(), Lane::default()], &written);
    let shown = books.ledger.reader().unwrap().snapshot().unwrap();
    for ((account, taken), n) in book.words.lanes.iter().zip([1, 4]) {
        let lost = account.lost(PacketFileDrop::NotWritten);
        let terms = [
            account.incoming,
            account.outgoing,
            lost,
            account.held,
            *taken,
        ];
        let right = [n, n + 1, n + 2, 0, 0].map(|n| (n, 10 * n));
        assert_eq!(terms.map(|tally| shown.tally(tally)), right);
    }
}
