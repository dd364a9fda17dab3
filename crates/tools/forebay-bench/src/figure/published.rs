//! What others measured, on other hardware: drawn as a reference, never used otherwise.

use forebay_report::plot::{Point, Series};

/// One line of the table of Test-2.
pub(super) struct Test {
    pub(super) khz: f64,
    pub(super) mb_per_s: f64,
    /// Builder and receiver in percent, where printed.
    pub(super) cpu: Option<[f64; 2]>,
}

/// Test-2 of HADES.
pub(super) const TEST2: [Test; 4] = [
    Test {
        khz: 1.0,
        mb_per_s: 23.0,
        cpu: Some([12.0, 10.0]),
    },
    Test {
        khz: 2.0,
        mb_per_s: 46.0,
        cpu: None,
    },
    Test {
        khz: 3.0,
        mb_per_s: 69.0,
        cpu: None,
    },
    Test {
        khz: 4.0,
        mb_per_s: 95.0,
        cpu: Some([44.0, 32.0]),
    },
];

/// Where the efficiency of the original began to fall, in MB/s.
const LIMIT_MB_PER_S: f64 = 100.0;

/// UDP loss: offered Gb/s, percent.
pub(super) const LOSS: [(f64, f64); 3] = [(7.23, 0.0), (7.44, 7.2), (9.0, 29.0)];

/// Full efficiency up to the limit.
pub(super) fn efficiency() -> Vec<Series> {
    let tests = TEST2
        .iter()
        .map(|test| Point::exact(test.mb_per_s, 100.0))
        .collect();
    let limit = vec![
        Point::exact(LIMIT_MB_PER_S, 0.0),
        Point::exact(LIMIT_MB_PER_S, 100.0),
    ];
    vec![
        Series::published("HADES Test-2", tests),
        Series::published("HADES: falls steeply above", limit),
    ]
}

/// CPU of builder or receiver over data rate.
pub(super) fn cpu_over_data_rate(receiver: bool) -> Series {
    let printed = TEST2.iter().filter_map(|test| {
        Some(Point::exact(
            test.mb_per_s,
            test.cpu?[usize::from(receiver)],
        ))
    });
    Series::published("HADES Test-2", printed.collect())
}

/// Fill of buffers: a band up to the limit.
pub(super) fn fill() -> Vec<Series> {
    let edge = |percent: f64| {
        vec![
            Point::exact(5.0, percent),
            Point::exact(LIMIT_MB_PER_S, percent),
        ]
    };
    vec![
        Series::published("HADES, lower", edge(10.0)),
        Series::published("HADES, upper", edge(20.0)),
    ]
}

/// What the messages of `netio3` had over 200 Gb/s Ethernet between two hosts.
const FABRIC_LINE_RATE_GBPS: f64 = 200.0;
/// Messages per second of its TCP backend, from and to, in kHz.
const TCP_RATE_KHZ: [f64; 2] = [70.0, 90.0];
/// Its goodput stayed below, in Gb/s.
const TCP_GOODPUT_GBPS: f64 = 10.0;

fn level(name: &str, value: f64, buffers: [f64; 2]) -> Series {
    let ends = buffers.map(|count| Point::exact(count, value));
    Series::published(name, ends.to_vec())
}

/// The line rate that large buffers reached over the fabric backend.
pub(super) fn fabric_line_rate() -> Series {
    level("netio3: line rate", FABRIC_LINE_RATE_GBPS, [1.0, 512.0])
}

/// Message rate of the TCP backend: a band.
pub(super) fn tcp_rate() -> [Series; 2] {
    let [low, high] = TCP_RATE_KHZ;
    [
        level("netio3, lower", low, [1.0, 8.0]),
        level("netio3, upper", high, [1.0, 8.0]),
    ]
}

/// Goodput of the TCP backend: a bound.
pub(super) fn tcp_goodput() -> Series {
    level("netio3: below", TCP_GOODPUT_GBPS, [1.0, 8.0])
}

/// A campaign that validated cards: how many, of them faulty, of these recovered.
pub(super) const CARDS: [f64; 3] = [40.0, 10.0, 8.0];

/// Rates of time-division UDP through the kernel and around it, in Gb/s.
pub(super) const FASTER_PATH_GBPS: [(&str, f64); 2] =
    [("SARAO: sockets", 12.0), ("SARAO: kernel bypass", 41.0)];

/// Travel time of time-division UDP with clocks kept by PTP is published as "a few tens of microseconds": between these, in us.
const TRAVEL_US: [f64; 2] = [10.0, 100.0];

/// The same as a band, over so many windows.
pub(super) fn travel_us(windows: f64) -> [Series; 2] {
    let edge = |name: &str, us: f64| {
        let ends = [0.0, windows].map(|window| Point::exact(window, us));
        Series::published(name, ends.to_vec())
    };
    let [low, high] = TRAVEL_US;
    [
        edge("SARAO with PTP: a few tens of µs, from", low),
        edge("to", high),
    ]
}

/// Triggers asked for in the test of to-host, per second.
const READOUT_HZ: f64 = 1e6;
/// What a link carried at most, in bits per second.
const LINK_BPS: f64 = 7.68e9;

/// Triggers per second that to-host had with chunks of so many bytes: as many as were asked for, up to the link's limit.
pub(super) fn link_rate_hz(chunk_bytes: f64) -> f64 {
    READOUT_HZ.min(LINK_BPS / 8.0 / chunk_bytes)
}

/// The same as a line, in kHz.
pub(super) fn link_rate() -> Series {
    let knee = LINK_BPS / 8.0 / READOUT_HZ;
    let sizes = [16.0, knee, 1024.0, 1536.0, 2048.0];
    let at = |bytes: f64| Point::exact(bytes, link_rate_hz(bytes) * 1e-3);
    Series::published(
        "to-host: no loss, up to 7.68 Gb/s per link",
        sizes.map(at).to_vec(),
    )
}

/// Packets of a GEANT morning that CESNET's probe lost, in per cent: without its connection table, and with it.
pub(super) const PROBE_LOST_PERCENT: [f64; 2] = [5.17, 0.01];
