use std::net::IpAddr;

use forebay_flow::offload::{Answer, Counted, Loan, Lower};
use forebay_ledger::Leak;
use forebay_run::{Host, Stop};

use super::lender::key;
use super::*;
use crate::flows::Flows;
use crate::queue::Queue;
use crate::run::ProbePlan;

#[test]
fn a_key_below_is_that_of_its_flow() {
    let pairs: [[IpAddr; 2]; 3] = [
        [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        [[200, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        [
            "2001:db8::9".parse().unwrap(),
            "2001:db8::1".parse().unwrap(),
        ],
    ];
    for [source, destination] in pairs {
        let mut flow = FlowKey::new(source, destination, 6).with_ports(50_000, 443);
        flow.vlan = 7;
        let (flow, _) = flow.canonical();
        assert_eq!(flow_key(&key(&flow)), flow);
    }
}

/// A frame of 10.0.0.1:50000 → 10.0.0.2:50001, "hi", and its flow.
fn frame() -> ([u8; 44], FlowKey) {
    let mut frame = [0; 44];
    frame[12] = 8;
    frame[14..].copy_from_slice(&crate::books::DATAGRAM);
    let flow = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17);
    (frame, flow.with_ports(50_000, 50_001))
}

/// A segment of 10.0.0.1:50000 → 10.0.0.2:50001 with ACK, and its flow.
fn tcp_frame() -> ([u8; 54], FlowKey) {
    let (datagram, mut flow) = frame();
    let mut frame = [0; 54];
    frame[..38].copy_from_slice(&datagram[..38]);
    // Octets, protocol, words of the header, flags.
    for (at, byte) in [(17, 40), (23, 6), (46, 0x50), (47, 0x10)] {
        frame[at] = byte;
    }
    flow.protocol = 6;
    (frame, flow)
}

fn takes(below: &Below, bytes: &[u8], time_ns: u64) -> bool {
    let frame = Frame {
        time_ns,
        link: Some(LinkType::Ethernet),
        bytes,
        wire_bytes: bytes.len() as u32,
    };
    match below.leaves(&frame) {
        None => true,
        Some(left) => {
            assert_eq!(left, bytes.len());
            false
        }
    }
}

/// Nothing is told.
const NONE: [VecDeque<FlowKey>; 2] = [none(), none()];

const fn none() -> VecDeque<FlowKey> {
    VecDeque::new()
}

const fn loan(active_due_ns: u64) -> Loan {
    Loan {
        heard_ns: 1,
        active_due_ns,
    }
}

/// A table in software with room for one flow, in which that was counted twice.
pub(crate) fn counted_twice() -> (Vec<Below>, impl FnMut()) {
    let settings = ProbeSettings {
        offload: OffloadChoice::Software,
        offload_flows: 1,
        offload_limit_packets: Some(2),
        ..ProbeSettings::default()
    };
    let tables = Below::open(&settings, 1, &Leak::off()).unwrap();
    let (frame, flow) = frame();
    let below = tables[0].clone();
    let mut lender = Lender(below.clone());
    let loan = loan(u64::MAX);
    assert!(!takes(&below, &frame, 1));
    assert_eq!(lender.watch(&flow, &loan), Answer::Since(1));
    for _ in 0..3 {
        assert_eq!(lender.watch(&flow, &loan), Answer::Elsewhere);
    }
    let mut other = flow;
    other.vlan = 1;
    for _ in 0..2 {
        assert_eq!(lender.watch(&other, &loan), Answer::Full);
    }
    assert!(!takes(&below, &frame, 2));
    assert!(lender.count(&flow, &loan));
    assert!(takes(&below, &frame, 3) && takes(&below, &frame, 4));
    let take = move || {
        let counted = lender.take(&flow).unwrap();
        assert_eq!(counted.packets, [2, 0]);
        assert_eq!((counted.first_ns, counted.last_ns), (3, 4));
        assert_eq!(lender.take(&flow), None);
    };
    (tables, take)
}

#[test]
fn what_is_taken_is_counted_by_both_sides() {
    let (tables, mut take) = counted_twice();
    let before = tables[0].look();
    take();
    let after = [tables[0].look(), tables[0].end()];
    let two = Volume {
        packets: 2,
        octets: 60,
    };
    let none = Volume::default();
    assert_eq!((before.taken, before.held()), (none, two));
    for after in after {
        assert_eq!((after.taken, after.held()), (two, none));
        assert_eq!((after.frames, after.told()), (4, 4));
    }
}

#[test]
fn what_is_collected_is_counted_by_both_sides_and_the_flow_stays() {
    let (tables, mut take) = counted_twice();
    let (_, flow) = frame();
    let counted = Lender(tables[0].clone()).collect(&flow).unwrap();
    assert_eq!((counted.packets, counted.octets), ([2, 0], [60, 0]));
    let seen = tables[0].look();
    let two = counted.volume();
    assert_eq!((seen.taken, seen.held()), (two, Volume::default()));
    // It is there, without what was collected.
    let (bytes, _) = frame();
    assert!(takes(&tables[0], &bytes, 3) && takes(&tables[0], &bytes, 4));
    take();
    assert_eq!(tables[0].end().taken, two + two);
    assert_eq!(Lender(tables[0].clone()).collect(&flow), None);
}

#[test]
fn a_flow_that_is_lent_to_be_cut_goes_up_without_its_payload() {
    for offload_trim in [false, true] {
        let settings = ProbeSettings {
            offload: OffloadChoice::Software,
            offload_trim,
            ..ProbeSettings::default()
        };
        let tables = Below::open(&settings, 1, &Leak::off()).unwrap();
        let mut lender = Lender(tables[0].clone());
        assert_eq!(lender.trims(), offload_trim);
        let (bytes, flow) = frame();
        let loan = loan(u64::MAX);
        assert!(matches!(lender.trim(&flow, &loan), Answer::Since(_)));
        let frame = Frame {
            time_ns: 2,
            link: Some(LinkType::Ethernet),
            bytes: &bytes,
            wire_bytes: bytes.len() as u32,
        };
        // Headers of Ethernet, IPv4 and UDP.
        assert_eq!(tables[0].leaves(&frame), Some(14 + 20 + 8));
        assert_eq!(tables[0].look().counts.of(Term::Trimmed).frames, 1);
    }
}

/// How often the table told of a flow, by the names of the reasons, where it did.
fn told_of(below: &Below) -> Vec<(&'static str, u64)> {
    let exports = below.look().exports;
    let all = Reason::ALL.into_iter().zip(exports);
    all.filter(|(_, times)| *times > 0)
        .map(|(reason, times)| (reason.name(), times))
        .collect()
}

#[test]
fn a_flow_that_is_closed_or_ahead_is_told_to_the_thread() {
    let settings = ProbeSettings {
        offload: OffloadChoice::Software,
        offload_limit_packets: Some(2),
        ..ProbeSettings::default()
    };
    let tables = Below::open(&settings, 1, &Leak::off()).unwrap();
    let below = &tables[0];
    let mut lender = Lender(below.clone());
    let (idle_frame, idle) = frame();
    let (mut active_frame, mut active) = (idle_frame, idle);
    (active_frame[35], active.source_port) = (0x51, 50_001);
    let (tcp_frame, tcp) = tcp_frame();
    for (flow, active_due_ns) in [(idle, u64::MAX), (active, 9), (tcp, u64::MAX)] {
        let loan = loan(active_due_ns);
        assert_eq!(lender.watch(&flow, &loan), Answer::Since(0));
        assert!(lender.count(&flow, &loan));
    }
    assert!(takes(below, &idle_frame, 2));
    assert_eq!(below.told(), NONE);
    // It has counted as many as it tells of, and then one more.
    assert!(takes(below, &idle_frame, 3) && takes(below, &idle_frame, 4));
    assert_eq!(below.told(), [none(), [idle].into()]);
    assert_eq!(below.told(), NONE);
    assert_eq!(told_of(below), [("limit", 1)]);
    assert!(takes(below, &active_frame, 8) && !takes(below, &active_frame, 9));
    assert_eq!(below.told(), [[active].into(), none()]);
    assert_eq!(told_of(below), [("active", 1), ("limit", 1)]);
    // ACK, and FIN with it.
    let mut fin = tcp_frame;
    fin[47] |= 1;
    assert!(takes(below, &tcp_frame, 10) && !takes(below, &fin, 11));
    assert_eq!(below.told(), [[tcp].into(), none()]);
    assert!(!takes(below, &idle_frame, 100_000_000_000));
    assert_eq!(below.told(), [[idle].into(), none()]);
    assert_eq!(below.told(), NONE);
    let all = [("tcp_eof", 1), ("active", 1), ("idle", 1), ("limit", 1)];
    assert_eq!(told_of(below), all);
}

#[test]
fn many_flows_that_are_told_at_once_are_taken_a_few_at_a_time_and_each_once() {
    let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
    let mut plan = ProbePlan::default();
    plan.settings.offload = OffloadChoice::Software;
    (
        plan.settings.offload_after_packets,
        plan.settings.offload_limit_packets,
    ) = (1, Some(2));
    let queue = Queue::new(1, 256);
    let below = Below::open(&plan.settings, 1, &Leak::off())
        .unwrap()
        .remove(0);
    let mut flows = Flows::new(&plan, &queue, (0, 7), Some(below), &host).unwrap();
    let (mut bytes, _) = frame();
    // Of each flow packets that come up, and as many as it tells of when they are counted below.
    for second in 1..9 {
        for port in 50_000_u16..50_150 {
            bytes[34..36].copy_from_slice(&port.to_be_bytes());
            flows.take(&Frame {
                time_ns: second * 1_000_000_000,
                link: Some(LinkType::Ethernet),
                bytes: &bytes,
                wire_bytes: bytes.len() as u32,
            });
        }
        flows.settle();
    }
    let collected = |flows: &Flows<'_>| flows.table.offload_counts().collected;
    let mut steps = Vec::new();
    flows.look_below();
    while flows.has_told() {
        // More is asked for only when all of it is taken.
        flows.look_below();
        flows.hear_below();
        steps.push(collected(&flows));
    }
    assert_eq!(steps, [64, 128, 150]);
    flows.look_below();
    assert!(!flows.has_told());
    flows.end_all();
    assert_eq!(flows.formed.volume.packets, 8 * 150);
}

#[test]
fn a_thread_is_told_of_the_flows_that_it_lent_and_a_flow_once_at_a_time() {
    let (tables, _) = counted_twice();
    let below = &tables[0];
    below.shared().lanes.push(super::Lane::default());
    let other = Below {
        lane: 1,
        ..below.clone()
    };
    let (bytes, flow) = frame();
    for time_ns in [5, 7, 9] {
        // Whichever of them looks first.
        assert_eq!(other.told(), NONE);
        assert_eq!(below.told(), [none(), [flow].into()]);
        assert!(takes(below, &bytes, time_ns));
        assert_eq!(below.told(), NONE);
        assert!(Lender(below.clone()).collect(&flow).is_some());
        assert!(takes(below, &bytes, time_ns) && takes(below, &bytes, time_ns + 1));
    }
    // What was said of one that is taken out is nobody's.
    assert!(Lender(below.clone()).take(&flow).is_some());
    assert_eq!([other.told(), below.told()], [NONE, NONE]);
    assert_eq!(told_of(below), [("limit", 4)]);
}

#[test]
fn a_flow_with_nothing_leaves_the_leak_for_one_with_something() {
    let (tables, mut take) = counted_twice();
    let (bytes, flow) = frame();
    let two = Lender(tables[0].clone()).collect(&flow).unwrap().volume();
    tables[0].shared().leak = "offload:1".parse().unwrap();
    let none = Lender(tables[0].clone()).collect(&flow).unwrap();
    assert_eq!(none.volume(), Volume::default());
    assert!(tables[0].shared().leak.is_armed());
    assert!(takes(&tables[0], &bytes, 5));
    assert_eq!(
        Lender(tables[0].clone()).collect(&flow),
        Some(Counted::default())
    );
    assert!(!tables[0].shared().leak.is_armed());
    // It is in nobody's books.
    assert!(takes(&tables[0], &bytes, 3) && takes(&tables[0], &bytes, 4));
    take();
    assert_eq!(tables[0].end().taken, two + two);
}

#[test]
fn a_refused_call_does_not_say_that_the_program_is_off_and_hides_nothing_else() {
    let (tables, _) = counted_twice();
    let below = &tables[0];
    let refused = || Err(XdpError::EntryInUse { tries: 3 });
    below.shared().hear_whether_there(Ok(true));
    assert_eq!(below.trouble(), Vec::<String>::new());
    below.shared().hear_whether_there(refused());
    assert!(!below.look().is_taken_off);
    let told = below.trouble();
    assert!(
        told.len() == 1 && told[0].contains("all of 3 tries"),
        "{told:?}"
    );
    // All of it is told, a lasting refusal of the table as well.
    below.shared().has_others = true;
    below.shared().failed = Some(XdpError::EntryInUse { tries: 4 });
    let told = below.trouble().join(" | ");
    for wanted in ["all of 3 tries", "all of 4 tries", "Ethernet alone"] {
        assert!(told.contains(wanted), "{told}");
    }
    // It does not come back.
    for is_there in [Ok(false), Ok(true), refused()] {
        below.shared().hear_whether_there(is_there);
        assert!(below.look().is_taken_off);
    }
    let told = below.trouble().join(" | ");
    assert!(told.contains(" no longer has the XDP program"), "{told}");
}

#[test]
fn what_is_read_at_the_end_has_come_to_rest_or_was_read_often() {
    let mut reads = [3, 5, 5, 8].into_iter();
    assert_eq!(at_rest(1, |_| reads.next().unwrap()), 5);
    assert_eq!(reads.next(), Some(8));
    assert_eq!(at_rest(0, |last| last + 1), END_LOOKS);
}

/// The clock of a table in the kernel, which was off by all that the wall clock shows.
#[test]
fn a_clock_in_the_kernel_is_set_by_that_of_the_host() {
    let below = match Below::open(&settings(OffloadChoice::Filter), 1, &Leak::off()) {
        Ok(mut tables) => tables.remove(0),
        Err(error) => {
            assert!(matches!(error, ProbeError::Offload(_)), "{error}");
            return forebay_testing::skip!("{error}");
        }
    };
    below.shared().offset_ns = 0;
    // A reading that was not certain is not believed.
    for _ in 0..1_000 {
        below.keep_time();
    }
    let is_ns = clock::realtime_minus_monotonic_ns().offset_ns;
    let set_ns = below.shared().offset_ns;
    assert!(set_ns.abs_diff(is_ns) < 1_000_000_000, "{set_ns}");
}

/// Settings of an interface with this offload.
fn settings(offload: OffloadChoice) -> ProbeSettings {
    ProbeSettings {
        interface: Some("eth0".into()),
        offload,
        ..ProbeSettings::default()
    }
}

#[test]
fn what_an_offload_cannot_do_is_refused_and_nothing_else() {
    use OffloadChoice::{Filter, Off, Software, Xdp};
    type Change = fn(&mut ProbeSettings);
    type Wrong = fn(&ProbeError) -> bool;
    let rows: [(Change, [bool; 4], Wrong); 8] = [
        (|_| {}, [true; 4], |_| false),
        (
            |it| it.uniflow = true,
            [true, false, false, false],
            |error| matches!(error, ProbeError::OneWay),
        ),
        (
            |it| it.export_packets = Some("p.pcapng".into()),
            [true, false, false, false],
            |error| matches!(error, ProbeError::NotThere),
        ),
        (
            |it| it.interface = None,
            [true, true, false, false],
            |error| matches!(error, ProbeError::NothingBelow("xdp" | "filter")),
        ),
        (
            |it| it.offload_trim = true,
            [false, true, true, false],
            |error| matches!(error, ProbeError::NotCut | ProbeError::NothingCut),
        ),
        (
            |it| it.offload_limit_packets = Some(9),
            [false, true, true, true],
            |error| matches!(error, ProbeError::NothingCounted),
        ),
        (
            |it| it.vlan_in_key = true,
            [true, true, true, false],
            |error| matches!(error, ProbeError::TagsMayBeHidden),
        ),
        (
            |it| it.filter = vec!["drop src-port 53".parse().unwrap()],
            [true, false, false, false],
            |error| matches!(error, ProbeError::TellsApart(rule) if rule == "drop src-port 53"),
        ),
    ];
    for (row, (change, may, is_right)) in rows.iter().enumerate() {
        for (offload, may) in [Off, Software, Filter, Xdp].into_iter().zip(may) {
            let mut settings = settings(offload);
            change(&mut settings);
            match check(&settings) {
                Ok(()) => assert!(may, "{row}: {offload:?}"),
                Err(error) => assert!(!may && is_right(&error), "{row}: {offload:?}: {error}"),
            }
        }
    }
}

#[test]
fn the_table_below_is_as_the_settings_say() {
    let said = ProbeSettings {
        offload_flows: 77,
        offload_limit_packets: Some(5_000),
        idle_timeout_s: 3,
        vlan_in_key: true,
        tunnel_depth: 1,
        ..ProbeSettings::default()
    };
    let wanted = Config {
        flows: 77,
        idle_timeout_ns: 3_000_000_000,
        export_limit_frames: 5_000,
        vlan_in_key: true,
        look_into_tunnels: true,
        clock_offset_ns: 5,
        ..Config::default()
    };
    assert_eq!(config(&said, 5), wanted);
    let flat = ProbeSettings {
        tunnel_depth: 0,
        offload_limit_packets: None,
        ..said
    };
    let flat = config(&flat, 5);
    assert_eq!(
        (flat.look_into_tunnels, flat.export_limit_frames),
        (false, 0)
    );
}

#[test]
fn policies_are_as_the_settings_say() {
    for (choice, wanted) in [
        (PolicyChoice::Packets, format!("{:?}", AfterPackets(9))),
        (
            PolicyChoice::Rate,
            format!(
                "{:?}",
                Rate {
                    packets_min: 9,
                    rate_hz: 1_000
                }
            ),
        ),
        (
            PolicyChoice::HeavyHitter,
            format!("{:?}", HeavyHitter::new(1_000, 131_072, 4)),
        ),
    ] {
        let settings = ProbeSettings {
            offload_policy: choice,
            offload_after_packets: 9,
            ..ProbeSettings::default()
        };
        assert_eq!(format!("{:?}", policy(&settings, 4)), wanted);
    }
}

#[test]
fn a_table_of_all_threads_is_looked_at_once_and_one_of_each_by_each() {
    let (own, _) = counted_twice();
    let two: Vec<Below> = [&own[0], &own[0]].map(Clone::clone).into();
    assert_eq!(Below::tables(&two).len(), 2);
    let shared = Arc::clone(&own[0].shared);
    let hands = Below::of_all(&shared, 3, false);
    let lanes: Vec<_> = hands.iter().map(|hand| hand.lane).collect();
    assert_eq!(lanes, [0, 1, 2]);
    assert!(hands.iter().all(|hand| Arc::ptr_eq(&hand.shared, &shared)));
    assert_eq!(Below::tables(&hands).len(), 1);
    assert!(Below::tables(&[]).is_empty());
}

#[test]
fn frames_of_another_link_are_told_and_go_up() {
    let (tables, _) = counted_twice();
    assert_eq!(tables[0].trouble(), Vec::<String>::new());
    let (bytes, _) = frame();
    let other = Frame {
        time_ns: 5,
        link: None,
        bytes: &bytes,
        wire_bytes: bytes.len() as u32,
    };
    assert_eq!(tables[0].leaves(&other), Some(bytes.len()));
    let told = tables[0].trouble();
    assert!(told[0].contains("Ethernet alone"), "{told:?}");
    assert_eq!(tables[0].kind(), "software");
}

#[test]
fn a_thread_that_has_left_is_told_of_no_flow() {
    let (tables, _) = counted_twice();
    let (frame, _) = frame();
    tables[0].leave();
    assert!(!takes(&tables[0], &frame, 100_000_000_000));
    assert_eq!(tables[0].told(), NONE);
}

#[test]
fn a_clock_below_is_set_when_that_of_the_host_was_and_the_reading_is_certain() {
    let found = |offset_ns, half_width_ns| ClockDifference {
        offset_ns,
        half_width_ns,
    };
    for step_ns in [1_000_001, -1_000_001, i64::MAX] {
        assert_eq!(offset_to_set(0, &found(step_ns, 500_000)), Some(step_ns));
        assert_eq!(offset_to_set(0, &found(step_ns, 500_001)), None);
    }
    for step_ns in [1_000_000, -1_000_000] {
        assert_eq!(offset_to_set(7, &found(7 + step_ns, 0)), None);
    }
}
