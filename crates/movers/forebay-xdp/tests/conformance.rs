//! What a table of connections promises, held by the one in software, and by both in the kernel (on frames that they are handed): for interfaces and for packet sockets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by a panic and says what it skips"
)]

mod frames;

use forebay_xdp::{
    Changed, Config, Connections, Counts, Export, Inserted, Metadata, Programs, Reason, Seed,
    Software, State, Tally, Term, Verdict,
};
use frames::{ACK, FIN, Made, RST, SYN, Table, UDP, filter_in_kernel, in_kernel};

const SECOND_NS: u64 = 1_000_000_000;
const T: u64 = 1_000 * SECOND_NS;
const SEED: Seed = Seed {
    heard_ns: T,
    active_due_ns: T + 300 * SECOND_NS,
};

/// Runs a test on all tables.
fn on_all(config: Config, test: impl Fn(&mut dyn Table)) {
    test(&mut Software::new(&config).unwrap());
    for kind in [in_kernel, filter_in_kernel] {
        if let Some(mut programs) = kind(&config) {
            test(&mut programs);
        }
    }
}

fn exports(table: &mut dyn Table) -> Vec<Export> {
    let mut all = Vec::new();
    table.poll_exports(usize::MAX, &mut |export| all.push(*export));
    all
}

fn told(table: &mut dyn Table) -> Vec<Metadata> {
    let mut all = Vec::new();
    table.poll_metadata(usize::MAX, &mut |metadata| all.push(*metadata));
    all
}

/// The counts, whose books must close.
fn counts(table: &mut dyn Table) -> Counts {
    let counts = table.counts().unwrap();
    assert_eq!((counts.residual_frames(), counts.residual_octets()), (0, 0));
    counts
}

fn term(table: &mut dyn Table, term: Term) -> Tally {
    counts(table).of(term)
}

#[test]
fn frames_of_no_flow_go_up() {
    on_all(Config::default(), |table| {
        let frame = Made::new().frame();
        assert_eq!(table.frame(&frame, T), (Verdict::Pass, frame.len()));
        let one = Tally {
            frames: 1,
            octets: 50,
        };
        assert_eq!(term(table, Term::NewFlow), one);
        assert_eq!(term(table, Term::Seen), one);
        assert_eq!(table.remove(&Made::new().key()).unwrap(), None);
    });
}

#[test]
fn frames_of_a_flow_are_counted_both_ways_and_taken_out_once() {
    on_all(Config::default(), |table| {
        let (there, back) = (Made::new(), Made::new().turned().flags(ACK | 8));
        let key = there.key();
        assert_eq!(back.key(), key);
        table.clock(T);
        let inserted = table.insert(&key, State::Stat, &SEED).unwrap();
        assert_eq!(inserted, Inserted::At(T));
        assert_eq!(
            table.insert(&key, State::Stat, &SEED).unwrap(),
            Inserted::Exists
        );
        for second in 1..=3 {
            let now_ns = T + second * SECOND_NS;
            assert_eq!(table.frame(&there.frame(), now_ns).0, Verdict::Drop);
        }
        let now_ns = T + 4 * SECOND_NS;
        assert_eq!(table.frame(&back.frame(), now_ns).0, Verdict::Drop);
        assert_eq!(counts(table).held, 1);
        let counted = Tally {
            frames: 4,
            octets: 200,
        };
        assert_eq!(table.held().unwrap(), counted);
        let read = table.read(&key).unwrap();
        let entry = table.remove(&key).unwrap().unwrap();
        assert_eq!(read, Some(entry));
        assert_eq!(table.read(&key).unwrap(), None);
        assert_eq!((entry.frames, entry.octets), ([3, 1], [150, 50]));
        assert_eq!(entry.tcp_flags, [ACK, ACK | 8]);
        assert_eq!((entry.first_ns, entry.last_ns), (T + SECOND_NS, now_ns));
        assert_eq!((entry.state, entry.closed), (State::Stat, None));
        assert_eq!((entry.key, table.remove(&key).unwrap()), (key, None));
        assert_eq!(table.frame(&there.frame(), now_ns).0, Verdict::Pass);
        assert_eq!(counts(table).held, 0);
        assert_eq!(table.held().unwrap(), Tally::default());
        assert_eq!(counts(table).removed, counted);
        assert_eq!(term(table, Term::Counted), counted);
        assert!(exports(table).is_empty());
    });
}

#[test]
fn a_full_table_refuses_and_counts_what_goes_up() {
    let config = Config {
        flows: 2,
        ..Config::default()
    };
    on_all(config, |table| {
        let made = |port| Made {
            ports: [port, 443],
            ..Made::new()
        };
        for port in [1, 2] {
            let inserted = table.insert(&made(port).key(), State::Stat, &SEED).unwrap();
            assert!(matches!(inserted, Inserted::At(_)));
        }
        let refused = table.insert(&made(3).key(), State::Stat, &SEED).unwrap();
        assert_eq!(refused, Inserted::Full);
        assert_eq!(table.frame(&made(3).frame(), T).0, Verdict::Pass);
        assert_eq!(term(table, Term::TableFull).frames, 1);
        assert_eq!(table.frame(&made(1).frame(), T).0, Verdict::Drop);
        table.remove(&made(1).key()).unwrap().unwrap();
        let inserted = table.insert(&made(3).key(), State::Stat, &SEED).unwrap();
        assert!(matches!(inserted, Inserted::At(_)));
        assert_eq!(table.frame(&made(3).frame(), T).0, Verdict::Drop);
        assert_eq!(table.frame(&made(1).frame(), T).0, Verdict::Pass);
    });
}

/// What may begin another record goes up and closes the entry, which keeps what it has.
fn closes(frame: &Made, at_ns: u64, reason: Reason) {
    on_all(Config::default(), |table| {
        let key = frame.key();
        table.insert(&key, State::Stat, &SEED).unwrap();
        let plain = Made {
            tcp_flags: ACK,
            ..frame.clone()
        };
        table.frame(&plain.frame(), T + 1);
        assert_eq!(table.frame(&frame.frame(), at_ns).0, Verdict::Pass);
        assert_eq!(table.frame(&plain.frame(), at_ns).0, Verdict::Pass);
        let exports = exports(table);
        assert_eq!(exports.len(), 1);
        let (export, entry) = (exports[0], table.remove(&key).unwrap().unwrap());
        assert_eq!((export.reason, export.now_ns), (reason, at_ns));
        assert_eq!((export.entry, entry.closed), (entry, Some(reason)));
        assert_eq!((entry.frames, entry.last_ns), ([1, 0], T + 1));
        assert_eq!(term(table, Term::Closed).frames, 2);
        assert_eq!(term(table, Term::Counted).frames, 1);
    });
}

#[test]
fn the_end_of_tcp_closes() {
    for flags in [FIN | ACK, RST, SYN, SYN | ACK] {
        closes(&Made::new().flags(flags), T + 2, Reason::TcpEof);
    }
}

#[test]
fn the_active_time_out_closes() {
    // 9 s before it, the flow would have been idle.
    let seed_to_due = 300 * SECOND_NS;
    on_all(Config::default(), |table| {
        let made = Made::new();
        table.insert(&made.key(), State::Stat, &SEED).unwrap();
        for second in (29..300).step_by(29) {
            assert_eq!(
                table.frame(&made.frame(), T + second * SECOND_NS).0,
                Verdict::Drop
            );
        }
        let before = table.frame(&made.frame(), T + seed_to_due - 1);
        assert_eq!(before.0, Verdict::Drop);
        assert_eq!(table.frame(&made.frame(), T + seed_to_due).0, Verdict::Pass);
        assert_eq!(exports(table)[0].reason, Reason::Active);
    });
}

#[test]
fn the_idle_time_out_closes_and_a_moment_before_does_not() {
    closes(&Made::new(), T + 1 + 30 * SECOND_NS, Reason::Idle);
    on_all(Config::default(), |table| {
        let made = Made::new();
        table.insert(&made.key(), State::Stat, &SEED).unwrap();
        let almost = table.frame(&made.frame(), T + 30 * SECOND_NS - 1);
        assert_eq!(almost.0, Verdict::Drop);
        // A frame of an earlier time is not idle.
        assert_eq!(table.frame(&made.frame(), T + 5).0, Verdict::Drop);
        let entry = table.remove(&made.key()).unwrap().unwrap();
        assert_eq!(entry.first_ns, T + 5);
        assert_eq!(entry.last_ns, T + 30 * SECOND_NS - 1);
    });
}

#[test]
fn a_flow_is_watched_before_it_is_counted() {
    on_all(Config::default(), |table| {
        let made = Made::new();
        table.insert(&made.key(), State::Data, &SEED).unwrap();
        assert_eq!(table.frame(&made.frame(), T + 1).0, Verdict::Pass);
        assert_eq!(term(table, Term::Watched).frames, 1);
        table.clock(T + 2);
        let changed = table.set(&made.key(), State::Stat, &SEED).unwrap();
        assert_eq!(changed, Changed::At(T + 2));
        assert_eq!(table.frame(&made.frame(), T + 3).0, Verdict::Drop);
        let end = made.clone().flags(FIN);
        assert_eq!(table.frame(&end.frame(), T + 4).0, Verdict::Pass);
        let changed = table.set(&made.key(), State::Stat, &SEED).unwrap();
        assert_eq!(changed, Changed::Closed);
        assert_eq!(table.remove(&made.key()).unwrap().unwrap().frames, [1, 0]);
        let changed = table.set(&made.key(), State::Stat, &SEED).unwrap();
        assert_eq!(changed, Changed::Absent);
    });
}

#[test]
fn the_watch_hears_frames_that_go_up() {
    on_all(Config::default(), |table| {
        let made = Made::new();
        table.insert(&made.key(), State::Data, &SEED).unwrap();
        table.frame(&made.frame(), T + 20 * SECOND_NS);
        // What user space knew is older, and says of the active time-out that it is sooner.
        let seed = Seed {
            active_due_ns: T + 41 * SECOND_NS,
            ..SEED
        };
        table.set(&made.key(), State::Stat, &seed).unwrap();
        let later = table.frame(&made.frame(), T + 40 * SECOND_NS);
        assert_eq!(later.0, Verdict::Drop);
        let due = table.frame(&made.frame(), T + 41 * SECOND_NS);
        assert_eq!(
            (due.0, exports(table)[0].reason),
            (Verdict::Pass, Reason::Active)
        );
    });
}

#[test]
fn of_frames_without_data_what_they_say_goes_up() {
    on_all(Config::default(), |table| {
        let made = Made::new().turned().flags(ACK | 8);
        table.insert(&made.key(), State::NoData, &SEED).unwrap();
        assert_eq!(table.frame(&made.frame(), T + 7).0, Verdict::Drop);
        let metadata = Metadata {
            key: made.key(),
            turned: true,
            time_ns: T + 7,
            octets: 50,
            tcp_flags: ACK | 8,
        };
        assert_eq!(told(table), [metadata]);
        let one = Tally {
            frames: 1,
            octets: 50,
        };
        assert_eq!(term(table, Term::Metadata), one);
        let end = made.clone().flags(RST);
        assert_eq!(table.frame(&end.frame(), T + 8).0, Verdict::Pass);
        assert!(told(table).is_empty());
        let entry = table.remove(&made.key()).unwrap().unwrap();
        assert_eq!((entry.frames, entry.closed), ([0, 0], Some(Reason::TcpEof)));
    });
}

#[test]
fn without_room_to_tell_of_a_frame_it_goes_up() {
    let config = Config {
        ring_bytes: [4096, 4096],
        ..Config::default()
    };
    on_all(config, |table| {
        let made = Made::new();
        table.insert(&made.key(), State::NoData, &SEED).unwrap();
        for frame in 0..63 {
            assert_eq!(table.frame(&made.frame(), T + frame).0, Verdict::Drop);
        }
        assert_eq!(table.frame(&made.frame(), T + 63).0, Verdict::Pass);
        assert_eq!(term(table, Term::MetadataFull).frames, 1);
        assert_eq!(told(table).len(), 63);
        assert_eq!(table.frame(&made.frame(), T + 64).0, Verdict::Drop);
    });
}

#[test]
fn an_export_without_room_is_made_with_a_later_frame() {
    let config = Config {
        ring_bytes: [4096, 4096],
        ..Config::default()
    };
    on_all(config, |table| {
        let made = |port| Made {
            ports: [port, 443],
            ..Made::new()
        };
        for port in 0..37 {
            table.insert(&made(port).key(), State::Stat, &SEED).unwrap();
            table.frame(&made(port).flags(FIN).frame(), T + 1);
        }
        // 36 records of 112 bytes fit.
        assert_eq!(counts(table).exports_deferred, 1);
        assert_eq!(exports(table).len(), 36);
        assert_eq!(table.frame(&made(36).frame(), T + 2).0, Verdict::Pass);
        let late = exports(table);
        assert_eq!((late.len(), late[0].entry.key), (1, made(36).key()));
        assert_eq!(table.frame(&made(36).frame(), T + 3).0, Verdict::Pass);
        assert!(exports(table).is_empty());
        assert_eq!(counts(table).exports_deferred, 1);
    });
}

#[test]
fn an_entry_tells_how_far_it_is() {
    let config = Config {
        export_limit_frames: 3,
        ..Config::default()
    };
    on_all(config, |table| {
        let made = Made::new();
        table.insert(&made.key(), State::Stat, &SEED).unwrap();
        let tell = |table: &mut dyn Table, frames| {
            for frame in frames {
                assert_eq!(table.frame(&made.frame(), T + frame).0, Verdict::Drop);
            }
            let told = exports(table).into_iter();
            told.map(|export| (export.reason, export.entry.frames[0], export.entry.closed))
                .collect::<Vec<_>>()
        };
        // Once, however much is counted until it is collected.
        assert_eq!(tell(table, 1..=10), [(Reason::Limit, 3, None)]);
        assert_eq!(tell(table, 11..=20), []);
        let collected = table.collect(&made.key()).unwrap().unwrap();
        assert_eq!(collected.frames, [20, 0]);
        assert_eq!(tell(table, 21..=22), []);
        assert_eq!(tell(table, 23..=30), [(Reason::Limit, 3, None)]);
        assert_eq!(table.remove(&made.key()).unwrap().unwrap().frames, [10, 0]);
    });
}

#[test]
fn how_far_an_entry_is_is_told_later_if_there_was_no_room() {
    let config = Config {
        export_limit_frames: 1,
        ring_bytes: [4096, 4096],
        ..Config::default()
    };
    on_all(config, |table| {
        let made = |port| Made {
            ports: [port, 443],
            ..Made::new()
        };
        for port in 0..37 {
            table.insert(&made(port).key(), State::Stat, &SEED).unwrap();
            table.frame(&made(port).frame(), T + 1);
        }
        // 36 records of 112 bytes fit.
        assert_eq!(counts(table).exports_deferred, 1);
        assert_eq!(exports(table).len(), 36);
        for (time_ns, told) in [(T + 2, 1), (T + 3, 0)] {
            table.frame(&made(36).frame(), time_ns);
            let late = exports(table);
            assert_eq!(late.len(), told);
            for export in late {
                assert_eq!(
                    (export.reason, export.entry.frames),
                    (Reason::Limit, [2, 0])
                );
            }
        }
        assert_eq!(counts(table).exports_deferred, 1);
    });
}

#[test]
fn what_is_collected_is_counted_anew_and_the_flow_stays() {
    let config = Config {
        export_limit_frames: 3,
        ..Config::default()
    };
    on_all(config, |table| {
        let made = Made::new();
        assert_eq!(table.collect(&made.key()).unwrap(), None);
        table.insert(&made.key(), State::Stat, &SEED).unwrap();
        for frame in 1..=4 {
            table.frame(&made.frame(), T + frame);
        }
        let read = table.read(&made.key()).unwrap();
        let first = table.collect(&made.key()).unwrap();
        assert_eq!(first, read);
        let first = first.unwrap();
        assert_eq!((first.frames, first.first_ns), ([4, 0], T + 1));
        assert_eq!(table.held().unwrap(), Tally::default());
        assert_eq!(counts(table).removed.frames, 4);
        assert_eq!(exports(table).len(), 1);
        // It is told of again when it has counted as many since.
        let back = made.clone().turned();
        for (frame, told) in [(5, 0), (6, 0), (7, 1)] {
            assert_eq!(table.frame(&back.frame(), T + frame).0, Verdict::Drop);
            assert_eq!(exports(table).len(), told, "{frame}");
        }
        let second = table.collect(&made.key()).unwrap().unwrap();
        assert_eq!((second.frames, second.octets), ([0, 3], [0, 150]));
        assert_eq!((second.first_ns, second.last_ns), (T + 5, T + 7));
        // A flow that is closed can be collected, too, and stays closed.
        let end = made.clone().flags(FIN);
        assert_eq!(table.frame(&end.frame(), T + 8).0, Verdict::Pass);
        let third = table.collect(&made.key()).unwrap().unwrap();
        assert_eq!((third.frames, third.closed), ([0; 2], Some(Reason::TcpEof)));
        let last = table.remove(&made.key()).unwrap().unwrap();
        assert_eq!((last.frames, last.closed), ([0; 2], Some(Reason::TcpEof)));
        let all = counts(table);
        assert_eq!((all.removed, all.held), (all.of(Term::Counted), 0));
    });
}

#[test]
fn a_frame_is_cut_behind_its_headers() {
    for trim_bytes in [0, 60, 70, 200] {
        let config = Config {
            trim_bytes,
            ..Config::default()
        };
        on_all(config, |table| {
            let made = Made {
                payload_bytes: 100,
                tags: vec![5],
                ..Made::new()
            };
            table.insert(&made.key(), State::Trim, &SEED).unwrap();
            let all = made.frame().len();
            let kept = (trim_bytes as usize).clamp(14 + 4 + 20 + 20, all);
            assert_eq!(table.frame(&made.frame(), T + 1), (Verdict::Pass, kept));
            assert_eq!(term(table, Term::Trimmed).octets, 140);
        });
    }
}

#[test]
fn both_versions_of_ip_and_both_protocols_are_counted_behind_tags() {
    let six = |text: &str| text.parse().unwrap();
    let config = Config {
        vlan_in_key: true,
        ..Config::default()
    };
    on_all(config, |table| {
        for protocol in [frames::TCP, UDP] {
            for tags in [vec![], vec![5], vec![0x6007, 9], vec![1, 2, 3, 4]] {
                let four = Made {
                    protocol,
                    tags: tags.clone(),
                    ..Made::new()
                };
                let other = Made {
                    source: six("2001:db8::2"),
                    destination: six("2001:db8::1"),
                    ..four.clone()
                };
                let vlan = tags.first().map_or(0, |tag| tag & 0xfff);
                for made in [four, other] {
                    let key = made.key_in(vlan);
                    table.insert(&key, State::Stat, &SEED).unwrap();
                    assert_eq!(table.frame(&made.frame(), T + 1).0, Verdict::Drop);
                    // What fills up a short frame does not count.
                    let mut padded = made.clone().turned().frame();
                    padded.resize(padded.len() + 6, 0);
                    assert_eq!(table.frame(&padded, T + 1).0, Verdict::Drop);
                    let entry = table.remove(&key).unwrap().unwrap();
                    assert_eq!(entry.octets, [made.octets(); 2]);
                }
            }
        }
    });
}

#[test]
fn what_it_does_not_count_goes_up_by_reason() {
    let config = Config {
        look_into_tunnels: true,
        ..Config::default()
    };
    on_all(config, |table| {
        let made = Made::new();
        table.insert(&made.key(), State::Stat, &SEED).unwrap();
        let with = |at: usize, byte: u8| {
            let mut frame = made.frame();
            frame[at] = byte;
            frame
        };
        let to = |port: u16| {
            let made = Made {
                protocol: UDP,
                ports: [1, port],
                ..Made::new()
            };
            made.frame()
        };
        let six = Made {
            source: "::1".parse().unwrap(),
            destination: "::2".parse().unwrap(),
            ..Made::new()
        };
        let six_with = |at: usize, byte: u8| {
            let mut frame = six.frame();
            frame[at] = byte;
            frame
        };
        let five_tags = Made {
            tags: vec![1; 5],
            ..Made::new()
        };
        let frame = made.frame();
        let cases: Vec<(Term, Vec<u8>, u64)> = vec![
            (Term::NotIp, made.framed(0x0806, &[0; 28]), 28),
            (Term::NotIp, made.framed(0x8847, &frame[14..]), 50),
            (Term::NotIp, five_tags.frame(), 54),
            (Term::Truncated, frame[..14].to_vec(), 0),
            (Term::Truncated, frame[..33].to_vec(), 19),
            (Term::Truncated, frame[..63].to_vec(), 49),
            (Term::Truncated, five_tags.frame()[..16].to_vec(), 2),
            (Term::Malformed, with(14, 0x55), 50),
            (Term::Malformed, with(14, 0x44), 50),
            (Term::Malformed, with(17, 19), 50),
            (Term::Malformed, with(17, 39), 39),
            (Term::Malformed, with(46, 0x40), 50),
            (Term::Malformed, with(46, 0xf0), 50),
            (Term::Options, with(14, 0x46), 50),
            (Term::Fragment, with(20, 0x20), 50),
            (Term::Fragment, with(21, 1), 50),
            (Term::Protocol, with(23, 1), 50),
            (Term::Protocol, with(23, 47), 50),
            (Term::Tunnel, to(4789), 38),
            (Term::Tunnel, to(2152), 38),
            (Term::Malformed, six_with(14, 0x50), 70),
            (Term::Malformed, six_with(19, 0), 70),
            (Term::Truncated, six_with(19, 31), 70),
            (Term::Extensions, six_with(20, 0), 70),
            (Term::Extensions, six_with(20, 43), 70),
            (Term::Extensions, six_with(20, 60), 70),
            (Term::Fragment, six_with(20, 44), 70),
            (Term::Protocol, six_with(20, 58), 70),
        ];
        for (expected, frame, octets) in cases {
            let before = counts(table);
            assert_eq!(table.frame(&frame, T + 1), (Verdict::Pass, frame.len()));
            let after = counts(table);
            for term in Term::ALL {
                let (old, new) = (before.of(term), after.of(term));
                let counts_here = [Term::Seen, expected].contains(&term);
                let grown = (new.frames - old.frames, new.octets - old.octets);
                let should = if counts_here { (1, octets) } else { (0, 0) };
                assert_eq!(grown, should, "{expected:?} {term:?} {frame:02x?}");
            }
        }
        assert_eq!(table.frame(&frame, T + 1).0, Verdict::Drop);
    });
}

/// The wall clock of a host may be set while flows are counted.
#[test]
fn the_kernels_clock_may_be_set_anew() {
    let config = Config {
        clock_offset_ns: 30 * YEAR_NS,
        ..Config::default()
    };
    for kind in [in_kernel, filter_in_kernel] {
        if let Some(kernel) = kind(&config) {
            sets_its_clock(kernel);
        }
    }
}

const YEAR_NS: u64 = 365 * 86_400 * SECOND_NS;

fn sets_its_clock(mut kernel: Programs) {
    for (is_first, offset_ns) in [
        (true, 30 * YEAR_NS),
        (false, 20 * YEAR_NS),
        (false, 10 * YEAR_NS),
    ] {
        if !is_first {
            kernel.set_clock_offset(offset_ns).unwrap();
        }
        let seed = Seed {
            heard_ns: 0,
            active_due_ns: u64::MAX,
        };
        let key = Made::new().key();
        let inserted = kernel.insert(&key, State::Data, &seed).unwrap();
        let Inserted::At(now_ns) = inserted else {
            panic!("{inserted:?}")
        };
        // The monotonic clock of no host is at 5 years.
        assert!(
            (offset_ns..offset_ns + 5 * YEAR_NS).contains(&now_ns),
            "{now_ns}"
        );
        kernel.remove(&key).unwrap();
    }
}
