use forebay_ledger::Leak;

use super::*;

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

fn takes(below: &Below, bytes: &[u8], time_ns: u64) -> bool {
    below.takes(&Frame {
        time_ns,
        link: Some(LinkType::Ethernet),
        bytes,
        wire_bytes: bytes.len() as u32,
    })
}

/// A table in software with room for one flow, in which that was counted twice.
pub(crate) fn counted_twice() -> (Vec<Below>, impl FnMut()) {
    let settings = ProbeSettings {
        offload: OffloadChoice::Software,
        offload_flows: 1,
        ..ProbeSettings::default()
    };
    let tables = Below::open(&settings, 1, &Leak::off()).unwrap();
    let (frame, flow) = frame();
    let below = tables[0].clone();
    let mut lender = Lender(below.clone());
    let loan = Loan {
        heard_ns: 1,
        active_due_ns: u64::MAX,
    };
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
fn a_flow_that_is_closed_is_told_to_the_thread() {
    let (tables, _) = counted_twice();
    let (frame, flow) = frame();
    assert_eq!(tables[0].closed(), []);
    // The idle time-out is over.
    assert!(!takes(&tables[0], &frame, 100_000_000_000));
    assert_eq!(tables[0].closed(), [flow]);
    assert_eq!(tables[0].closed(), []);
}
