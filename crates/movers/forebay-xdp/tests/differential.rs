//! Random frames: the tables in the kernel against the one in software, both against the decoder of flows, and records of a flow table that lends its flows to one of them
//! against those of one that sees all packets itself.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and says what it skips"
)]

mod frames;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use forebay_flow::offload::Packets;
use forebay_flow::{DecodeConfig, Decoder, FlowRecord, Table as Flows};
use forebay_xdp::{
    Config, Connections, Key, Programs, Reason, Seed, Software, State, Term, Verdict,
};
use frames::below::{Below, captured, flow_key, key};
use frames::{ACK, FIN, Made, RST, SYN, TCP, Table, UDP, filter_in_kernel, in_kernel};
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestRunner};

const SECOND_NS: u64 = 1_000_000_000;
/// An hour, so that no time is 0.
const T: u64 = 3600 * SECOND_NS;

#[derive(Clone, Debug)]
struct Step {
    frame: Vec<u8>,
    key: Key,
    ns: u64,
    what: u8,
    state: State,
    handles: usize,
}

fn made() -> impl Strategy<Value = Made> {
    let flags = prop_oneof![30 => Just(ACK), 1 => Just(FIN), 1 => Just(SYN), 1 => Just(RST), 1 => any::<u8>()];
    let tags = prop_oneof![5 => Just(vec![]), 1 => proptest::collection::vec(any::<u16>(), 1..6)];
    let hosts = (1..4_u8, any::<bool>(), any::<bool>(), any::<bool>());
    (hosts, flags, tags, 0..300_usize).prop_map(
        |((host, is_six, is_udp, is_turned), tcp_flags, tags, payload_bytes)| {
            let address = |host: u8| match is_six {
                true => std::net::Ipv6Addr::from([host; 16]).into(),
                false => std::net::IpAddr::from([10, 0, 0, host]),
            };
            let made = Made {
                source: address(host),
                destination: address(2),
                ports: [50_000, 443],
                protocol: if is_udp { UDP } else { TCP },
                tcp_flags,
                tags,
                payload_bytes,
            };
            if is_turned { made.turned() } else { made }
        },
    )
}

/// Most frames are whole; of some a byte of the headers is another one, and some are cut.
fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let times = prop_oneof![
        4 => Just(0_u64),
        12 => 0..5_000_000_u64,
        6 => 0..SECOND_NS,
        1 => 4 * SECOND_NS - 2..4 * SECOND_NS + 2,
        1 => 9 * SECOND_NS - 2..9 * SECOND_NS + 2,
    ];
    let damage = prop_oneof![
        12 => Just(None),
        1 => (12..75_usize, any::<u8>()).prop_map(Some),
    ];
    let cut = prop_oneof![15 => Just(None), 1 => (14..80_usize).prop_map(Some)];
    let state = prop_oneof![
        3 => Just(State::Stat), 1 => Just(State::Data), 1 => Just(State::NoData), 1 => Just(State::Trim)
    ];
    let step = (made(), damage, cut, times, 0..24_u8, state, 0..6_usize);
    let step = step.prop_map(|(made, damage, cut, ns, what, state, handles)| {
        let mut frame = made.frame();
        if let Some((at, byte)) = damage
            && let Some(place) = frame.get_mut(at)
        {
            *place = byte;
        }
        frame.truncate(cut.unwrap_or(frame.len()));
        Step {
            frame,
            key: made.key(),
            ns,
            what,
            state,
            handles,
        }
    });
    proptest::collection::vec(step, 1..most)
}

fn config() -> Config {
    Config {
        flows: 6,
        idle_timeout_ns: 4 * SECOND_NS,
        export_limit_frames: 5,
        trim_bytes: 61,
        ..Config::default()
    }
}

/// What a table answers to one step.
fn answer(table: &mut dyn Table, step: &Step, now_ns: u64) -> String {
    let seed = Seed {
        heard_ns: now_ns,
        active_due_ns: now_ns + 9 * SECOND_NS,
    };
    table.clock(now_ns);
    let key = &step.key;
    let hand = match step.what {
        0..=4 => format!("{:?}", table.insert(key, step.state, &seed).unwrap()),
        5..=6 => format!("{:?}", table.set(key, step.state, &seed).unwrap()),
        7 => format!("{:?}", table.remove(key).unwrap()),
        8 => format!("{:?}", table.read(key).unwrap()),
        9 => format!("{:?}", table.collect(key).unwrap()),
        _ => String::new(),
    };
    let frame = table.frame(&step.frame, now_ns);
    let (mut exports, mut told) = (Vec::new(), Vec::new());
    table.poll_exports(99, &mut |export| exports.push(*export));
    table.poll_metadata(99, &mut |metadata| told.push(*metadata));
    let counts = table.counts().unwrap();
    assert_eq!((counts.residual_frames(), counts.residual_octets()), (0, 0));
    // What was counted is in the table, or was taken out of it.
    let mut all = table.held().unwrap();
    all += counts.removed;
    assert_eq!(all, counts.of(Term::Counted));
    format!("{hand} {frame:?} {exports:?} {told:?} {counts:?}")
}

/// Of both kinds of programs.
fn does_what_the_software_does(kind: fn(&Config) -> Option<Programs>) {
    if kind(&config()).is_none() {
        return;
    }
    let mut runner = TestRunner::new(Runs {
        cases: 60,
        failure_persistence: None,
        ..Runs::default()
    });
    let run = |steps: Vec<Step>| {
        let mut software = Software::new(&config()).unwrap();
        let mut kernel = kind(&config()).unwrap();
        let mut now_ns = T;
        for step in &steps {
            now_ns += step.ns;
            let answers = [
                answer(&mut software, step, now_ns),
                answer(&mut kernel, step, now_ns),
            ];
            prop_assert_eq!(&answers[0], &answers[1], "{:02x?}", step);
        }
        Ok(())
    };
    runner.run(&steps(80), run).unwrap();
}

#[test]
fn the_kernel_does_what_the_software_does() {
    does_what_the_software_does(in_kernel);
}

#[test]
fn the_socket_filter_does_what_the_software_does() {
    does_what_the_software_does(filter_in_kernel);
}

proptest! {
    #![proptest_config(Runs { cases: 1000, failure_persistence: None, ..Runs::default() })]

    /// A frame that is told of is one that the decoder of flows reads, with the same key, direction, octets and flags.
    #[test]
    fn what_is_counted_is_what_the_decoder_reads(steps in steps(20)) {
        let mut decoder = Decoder::new(&DecodeConfig::default()).unwrap();
        for step in &steps {
            let packet = decoder.handle_frame(&captured(&step.frame, T));
            let mut table = Software::new(&config()).unwrap();
            let seed = Seed { heard_ns: T, active_due_ns: u64::MAX };
            let Ok(packet) = packet else {
                // Of any key: the frame is of none.
                table.insert(&step.key, State::NoData, &seed).unwrap();
                prop_assert_eq!(table.handle_frame(&step.frame, T).0, Verdict::Pass);
                continue;
            };
            let (flow, turned) = packet.key.canonical();
            table.insert(&key(&flow), State::NoData, &seed).unwrap();
            table.handle_frame(&step.frame, T);
            let mut told = Vec::new();
            table.poll_metadata(2, &mut |metadata| told.push(*metadata));
            for metadata in &told {
                prop_assert_eq!(flow_key(&metadata.key), flow);
                prop_assert_eq!((metadata.turned, metadata.octets), (turned, packet.octets));
                prop_assert_eq!(metadata.tcp_flags, packet.tcp_flags);
            }
            let is_plain = [TCP, UDP].contains(&flow.protocol) && packet.fragment.is_none();
            let counts = table.counts().unwrap();
            let others = [Term::Closed, Term::Options, Term::Extensions, Term::Malformed, Term::Truncated];
            let other = others.iter().any(|term| counts.of(*term).frames == 1);
            prop_assert!(told.len() == 1 || other || !is_plain, "{:?}", counts);
        }
    }
}

fn sorted(records: &[FlowRecord]) -> Vec<String> {
    let texts = records.iter().map(|record| format!("{record:?}"));
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

/// Frames go by the table below and then, some later, to the flow table. Exports are taken when they come, or left where they are.
fn records_agree<T: Table + Debug + Send + 'static>(
    below: T,
    steps: &[Step],
) -> Result<u64, TestCaseError> {
    let flows = forebay_flow::Config {
        flows: 512,
        idle_timeout_ns: 4 * SECOND_NS,
        active_timeout_ns: 9 * SECOND_NS,
        ..forebay_flow::Config::default()
    };
    let below = Arc::new(Mutex::new(below));
    let (mut alone, mut lending) = (Flows::new(&flows).unwrap(), Flows::new(&flows).unwrap());
    let lower = Box::new(Below::new(&below, false));
    lending.set_offload(lower, Box::new(Packets(1))).unwrap();
    let mut decoders = [0, 1].map(|_| Decoder::new(&DecodeConfig::default()).unwrap());
    let (mut all, mut records) = (Vec::new(), Vec::new());
    let mut way: VecDeque<(u64, &[u8])> = VecDeque::new();
    let mut now_ns = T;
    for step in steps {
        now_ns += step.ns;
        let bytes = &step.frame[..];
        if let Ok(packet) = decoders[0].handle_frame(&captured(bytes, now_ns)) {
            alone.handle_packet(&packet, &mut |record| all.push(*record));
        }
        let verdict = below.lock().unwrap().frame(bytes, now_ns).0;
        if verdict == Verdict::Pass {
            way.push_back((now_ns, bytes));
        }
        for _ in 0..step.handles {
            let Some((time_ns, bytes)) = way.pop_front() else {
                break;
            };
            if let Ok(packet) = decoders[1].handle_frame(&captured(bytes, time_ns)) {
                lending.handle_packet(&packet, &mut |record| records.push(*record));
            }
        }
        if step.what < 6 {
            let mut exports = Vec::new();
            let taken = &mut |export: &_| exports.push(*export);
            below.lock().unwrap().poll_exports(99, taken);
            for export in &exports {
                let flow = flow_key(&export.entry.key);
                match export.reason {
                    Reason::Limit => lending.collect(&flow),
                    _ => lending.take_back(&flow),
                };
            }
        }
    }
    for (time_ns, bytes) in way {
        if let Ok(packet) = decoders[1].handle_frame(&captured(bytes, time_ns)) {
            lending.handle_packet(&packet, &mut |record| records.push(*record));
        }
    }
    lending.tick(now_ns, &mut |record| records.push(*record));
    lending.end_all(&mut |record| records.push(*record));
    // A frame that is no packet moves no clock.
    alone.tick(now_ns, &mut |record| all.push(*record));
    alone.end_all(&mut |record| all.push(*record));
    prop_assert_eq!(sorted(&records), sorted(&all));
    let counts = below.lock().unwrap().counts().unwrap();
    let counted = counts.of(Term::Counted);
    prop_assert_eq!(lending.offloaded().packets, counted.frames);
    prop_assert_eq!(lending.offloaded().octets, counted.octets);
    prop_assert_eq!(lending.offload_counts().missing, 0);
    prop_assert_eq!(counts.held, 0);
    Ok(counted.frames)
}

/// Many runs; something must have been counted below in them.
fn many(cases: u32, run: impl Fn(&[Step]) -> Result<u64, TestCaseError>) {
    let mut runner = TestRunner::new(Runs {
        cases,
        failure_persistence: None,
        ..Runs::default()
    });
    let counted = std::cell::Cell::new(0);
    let all = runner.run(&steps(150), |steps| {
        counted.set(counted.get() + run(&steps)?);
        Ok(())
    });
    all.unwrap();
    assert!(counted.get() > u64::from(cases));
}

#[test]
fn records_are_the_same_with_the_software_below() {
    many(400, |steps| {
        records_agree(Software::new(&config()).unwrap(), steps)
    });
}

#[test]
fn records_are_the_same_with_the_kernel_below() {
    if in_kernel(&config()).is_none() {
        return;
    }
    many(40, |steps| {
        records_agree(in_kernel(&config()).unwrap(), steps)
    });
}

#[test]
fn records_are_the_same_with_the_socket_filter_below() {
    if filter_in_kernel(&config()).is_none() {
        return;
    }
    many(40, |steps| {
        records_agree(filter_in_kernel(&config()).unwrap(), steps)
    });
}
