//! Frames of profiles of networks: records of a flow table that lends its flows to a table below user space against those of one that sees all packets itself, with what plugins found.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by a panic and says what it skips"
)]

mod frames;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use forebay_flow::offload::Packets;
use forebay_flow::plugins::{Fields, PluginKind, Plugins};
use forebay_flow::{Batch, DecodeConfig, Decoder, FlowRecord, Frame, Table as Flows, Volume};
use forebay_traffic::{FRAME_BYTES_MAX, NAMED, Profile, ProfileError, Row, Traffic};
use forebay_xdp::{Config, Reason, Software, Tally, Term, Verdict};
use frames::below::{Below, captured, flow_key};
use frames::{Table, filter_in_kernel, in_kernel};

const SECOND_NS: u64 = 1_000_000_000;
/// An hour, so that no time is 0.
const T: u64 = 3600 * SECOND_NS;
/// Packets of each profile with a name.
const PACKETS: u64 = 6_000;
/// They take so long, so that flows meet their time-outs.
const LASTS_NS: u64 = 20 * SECOND_NS;
const IDLE_NS: u64 = 4 * SECOND_NS;
const ACTIVE_NS: u64 = 9 * SECOND_NS;
/// The kernel is handed frames of less than a page.
const IP_BYTES_MAX: u32 = 3_000;
/// Frames that wait for the flow table before it takes all of them.
const BLOCK: usize = 32;
/// Frames after which it reads what the table below tells.
const LOOK: usize = 128;
/// Frames of a flow after which the table below tells of it.
const LIMIT: u64 = 40;

/// A frame and its time, ns.
type Timed = (u64, Vec<u8>);

fn made(
    rows: impl Iterator<Item = Result<Row, ProfileError>>,
    config: forebay_traffic::Config,
) -> Vec<Timed> {
    let config = forebay_traffic::Config {
        ip_bytes_max: IP_BYTES_MAX,
        ..config
    };
    let mut traffic = Traffic::new(rows, &config);
    let (mut frame, mut all) = (vec![0; FRAME_BYTES_MAX], Vec::new());
    while let Some(packet) = traffic.poll_packet(&mut frame).unwrap() {
        all.push((packet.at_ns, frame[..packet.captured_bytes].to_vec()));
    }
    let (first_ns, last_ns) = (all[0].0, all.last().unwrap().0);
    let lasts_ns = u128::from(last_ns - first_ns);
    for (time_ns, _) in &mut all {
        let since_ns = u128::from(*time_ns - first_ns) * u128::from(LASTS_NS) / lasts_ns;
        *time_ns = T + since_ns as u64;
    }
    all
}

/// The seven profiles with a name, and a part of two of another maker.
fn profiles() -> Vec<(&'static str, Vec<Timed>)> {
    let mut all: Vec<_> = NAMED
        .iter()
        .map(|named| {
            let config = forebay_traffic::Config {
                timing: named.timing,
                ..forebay_traffic::Config::default()
            };
            let rows = named.rows(PACKETS, config.seed).map(Ok);
            (named.name, made(rows, config))
        })
        .collect();
    for name in ["geant-like-morning.csv", "nix-like-morning.csv"] {
        let path = forebay_testing::root().join("crates/faces/forebay/tests/profiles");
        let text = std::fs::read(path.join(name)).unwrap();
        let rows = Profile::new(&text[..]).unwrap();
        all.push((name, made(rows, forebay_traffic::Config::default())));
    }
    all
}

/// What is wanted of flows, and what the table below does for it.
#[derive(Clone, Copy, Debug)]
struct Wish {
    plugins: &'static [PluginKind],
    /// Packets of a flow after which it is lent.
    after: u64,
    /// Flows come up cut as long as plugins want their headers.
    trims: bool,
}

/// Plugins that have all they want when a flow is lent.
const FIRST_PACKETS: Wish = Wish {
    plugins: &[PluginKind::Basic, PluginKind::Pstats, PluginKind::Rtt],
    after: 30,
    trims: false,
};
/// Headers of 30 packets are wanted, of which most come up cut, and nothing of later ones.
const HEADERS: Wish = Wish {
    plugins: &[PluginKind::Basic, PluginKind::Pstats, PluginKind::Tls],
    after: 5,
    trims: true,
};
/// Headers of nearly all packets are wanted.
const ALL_HEADERS: Wish = Wish {
    plugins: &[PluginKind::Bursts, PluginKind::Tls],
    after: 5,
    trims: true,
};

/// A flow table with plugins that want the first packets of each flow, and its records as texts.
struct Probe {
    decoder: Decoder,
    table: Flows,
    plugins: Plugins,
    batch: Batch,
    records: Vec<String>,
    sum: Volume,
}

impl Probe {
    fn new(wish: Wish) -> Self {
        let flows = forebay_flow::Config {
            idle_timeout_ns: IDLE_NS,
            active_timeout_ns: ACTIVE_NS,
            flows: 16_384,
            ..forebay_flow::Config::default()
        };
        let table = Flows::new(&flows).unwrap();
        Self {
            decoder: Decoder::new(&DecodeConfig::default()).unwrap(),
            plugins: Plugins::new(wish.plugins, table.places()),
            table,
            batch: Batch::new(1),
            records: Vec::new(),
            sum: Volume::default(),
        }
    }

    fn with_table(
        &mut self,
        work: impl FnOnce(&mut Flows, &Batch, &mut Plugins, &mut dyn FnMut(&FlowRecord, Fields)),
    ) {
        let (records, sum) = (&mut self.records, &mut self.sum);
        work(
            &mut self.table,
            &self.batch,
            &mut self.plugins,
            &mut |record, fields| {
                *sum += record.volume();
                records.push(format!("{record:?} {fields:?}"));
            },
        );
    }

    /// A frame of so many bytes, of which these came.
    fn frame(&mut self, frame: &[u8], wire_bytes: usize, time_ns: u64) {
        let frame = Frame {
            wire_bytes: wire_bytes as u32,
            ..captured(frame, time_ns)
        };
        let packet = self.decoder.handle_frame(&frame).unwrap();
        self.plugins.batch(&mut self.batch, &packet);
        self.with_table(|table, batch, plugins, mut ended| {
            table.handle_batch(batch, &mut plugins.watch(&mut ended));
        });
        self.batch.clear();
    }

    /// The records in an order of their own, and the sum of their volumes.
    fn end(mut self, now_ns: u64) -> (Vec<String>, Volume) {
        self.with_table(|table, _, plugins, mut ended| {
            let mut watch = plugins.watch(&mut ended);
            table.tick_watched(now_ns, &mut watch);
            table.end_all_watched(&mut watch);
        });
        self.records.sort();
        (self.records, self.sum)
    }
}

fn volume(tally: Tally) -> Volume {
    Volume {
        packets: tally.frames,
        octets: tally.octets,
    }
}

/// How often the table below told of a flow, by the reason.
#[derive(Debug, Default)]
struct Told {
    limit: u64,
    others: u64,
}

/// Takes what the table below has to say.
fn look<T: Table>(below: &Mutex<T>, probe: &mut Probe, told: &mut Told) {
    let mut exports = Vec::new();
    let taken = &mut |export: &_| exports.push(*export);
    below.lock().unwrap().poll_exports(usize::MAX, taken);
    for export in &exports {
        let flow = flow_key(&export.entry.key);
        if export.reason == Reason::Limit {
            told.limit += 1;
            probe.table.collect(&flow);
        } else {
            told.others += 1;
            probe.table.take_back(&flow);
        }
    }
}

/// All frames by the table below, and those that go up some later to the flow table, against a flow table that gets all of them.
fn records_agree<T: Table + Debug + Send + 'static>(
    name: &str,
    wish: Wish,
    below: T,
    frames: &[Timed],
) {
    let below = Arc::new(Mutex::new(below));
    let (mut alone, mut lending) = (Probe::new(wish), Probe::new(wish));
    let lower = Box::new(Below::new(&below, wish.trims));
    let policy = Box::new(Packets(wish.after));
    lending.table.set_offload(lower, policy).unwrap();
    let (mut way, mut told) = (VecDeque::new(), Told::default());
    let (mut up, mut cut) = (0, 0);
    for (n, (time_ns, frame)) in frames.iter().enumerate() {
        alone.frame(frame, frame.len(), *time_ns);
        let (verdict, bytes) = below.lock().unwrap().frame(frame, *time_ns);
        if verdict == Verdict::Pass {
            up += 1;
            cut += u64::from(bytes < frame.len());
            way.push_back((*time_ns, &frame[..bytes], frame.len()));
        }
        if way.len() == BLOCK {
            for (time_ns, bytes, wire_bytes) in way.drain(..) {
                lending.frame(bytes, wire_bytes, time_ns);
            }
        }
        if n % LOOK == 0 {
            look(&below, &mut lending, &mut told);
        }
    }
    for (time_ns, bytes, wire_bytes) in way {
        lending.frame(bytes, wire_bytes, time_ns);
    }
    look(&below, &mut lending, &mut told);
    let now_ns = frames.last().unwrap().0;
    let counted = below.lock().unwrap().counts().unwrap().of(Term::Counted);
    let offloaded = |probe: &Probe| (probe.table.offloaded(), probe.table.offload_counts());
    let (records, sum) = alone.end(now_ns);
    let all = frames.len() as u64;
    assert_eq!(sum.packets, all, "{name}");
    lending.with_table(|table, _, plugins, mut ended| {
        let mut watch = plugins.watch(&mut ended);
        table.tick_watched(now_ns, &mut watch);
        table.end_all_watched(&mut watch);
    });
    let (came_back, counts) = offloaded(&lending);
    let (lending, sum_lending) = lending.end(now_ns);
    // To the packet and octet of each record, with its times, flags, end and fields.
    for (lent, seen) in lending.iter().zip(&records) {
        assert_eq!(lent, seen, "{name}");
    }
    assert_eq!((lending.len(), sum_lending), (records.len(), sum), "{name}");
    // By the table below, by what came back from it, and by what came up: many were counted.
    assert_eq!((came_back, counts.missing), (volume(counted), 0), "{name}");
    assert_eq!(counted.frames + up, all, "{name}");
    if wish.trims {
        assert!(
            cut > all / 20 && counts.trimmed > 0,
            "{name}: {cut} of {all}"
        );
    } else {
        assert_eq!((cut, counts.trimmed), (0, 0), "{name}");
        assert!(
            told.limit > 0 && counts.collected > 0,
            "{name}: {told:?} {counts:?}"
        );
    }
    if wish.plugins != ALL_HEADERS.plugins {
        assert!(counted.frames > all / 20, "{name}: {counted:?} of {all}");
        assert!(
            counts.counted > 0 && told.others > 0,
            "{name}: {told:?} {counts:?}"
        );
    }
    let end = below.lock().unwrap().counts().unwrap();
    assert_eq!((end.held, end.removed), (0, counted), "{name}");
    assert_eq!(
        (end.residual_frames(), end.residual_octets()),
        (0, 0),
        "{name}"
    );
}

fn config() -> Config {
    Config {
        idle_timeout_ns: IDLE_NS,
        export_limit_frames: LIMIT,
        ..Config::default()
    }
}

/// With each wish, each profile.
fn all_agree<T: Table + Debug + Send + 'static>(make: impl Fn(&Config) -> Option<T>) {
    if make(&config()).is_none() {
        return;
    }
    for (name, frames) in profiles() {
        // The long ones have all kinds of flows with the first two.
        let wishes = [FIRST_PACKETS, HEADERS, ALL_HEADERS];
        let wishes = wishes
            .iter()
            .take(if frames.len() > 10_000 { 2 } else { 3 });
        for &wish in wishes {
            records_agree(name, wish, make(&config()).unwrap(), &frames);
        }
    }
}

#[test]
fn records_of_profiles_are_the_same_with_the_software_below() {
    all_agree(|config| Software::new(config).ok());
}

#[test]
fn records_of_profiles_are_the_same_with_the_kernel_below() {
    all_agree(in_kernel);
}

#[test]
fn records_of_profiles_are_the_same_with_the_socket_filter_below() {
    all_agree(filter_in_kernel);
}
