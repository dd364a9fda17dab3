//! The engine of the flow probe with a million flows at a time and ten million in a run: what memory it grows by, and how long it is away from the packets at most.
//!
//! It runs in this thread, as the probe's threads run it: a decoder, plugins, batches of 64 packets, a table. A flow has two packets (the last ones of all have one, and
//! the first has their second ones), with as many others in between as make a million flows be there at once; at the end time goes on by an hour, and all of them are due
//! together. A pause is CPU time of the thread, which a busy neighbour does not lengthen as it does the time that passes; what interrupts take of the thread counts, though.

use anyhow::{Context, Result, ensure};
use forebay_flow::plugins::{Fields, PluginKind, Plugins};
use forebay_flow::{Batch, Config, DecodeConfig, Decoder, FlowRecord, Frame, LinkType, Table};
use forebay_report::statistics::spread;
use forebay_sys::clock;

use super::line::{Goal, Line};
use super::{Lines, Session};

const FLOWS: u32 = 10_000_000;
const FLOWS_QUICK: u32 = 2_500_000;
/// Flows that are there at a time: so many come between the first packet of one and its second, with which its time-out begins anew.
const AT_A_TIME: u32 = 1_000_000;
/// Room in the table. Hashes of the default policy fill all of it.
const ROOM: u32 = 1 << 20;
const PLUGINS: [PluginKind; 5] = [
    PluginKind::Tls,
    PluginKind::Dns,
    PluginKind::Http,
    PluginKind::Quic,
    PluginKind::Pstats,
];
const BATCH_PACKETS: usize = 64;
const IDLE_NS: u64 = 30_000_000_000;
/// Flows begin at this distance: two packets each, half of them of flows that began an idle time-out before.
const STEP_NS: u64 = IDLE_NS / 2 / AT_A_TIME as u64;
const HOUR_NS: u64 = 3_600_000_000_000;
const HEADERS_BYTES: usize = 40;
const PAYLOAD_BYTES: usize = 64;
/// A batch is no longer away from the packets than this, in ms.
const PAUSE_MS: f64 = 1.0;
/// What the process may grow by while flows come and go, in MB: what the bench itself needs.
const GROWTH_MB: f64 = 1.0;

pub(super) fn probe_flows(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let flows = if session.quick { FLOWS_QUICK } else { FLOWS };
    let (mut pauses_ms, mut due_ms, mut grown_mb, mut a_flow) = (vec![], vec![], vec![], vec![]);
    let mut resident_mb = Vec::new();
    for _ in 0..session.runs() {
        session.go_on()?;
        let before = resident_bytes()?;
        let mut run = Run::new()?;
        run.feed(0, AT_A_TIME);
        let filled = resident_bytes()?;
        let cpu_ns = clock::thread_cpu_ns();
        run.feed(AT_A_TIME, flows);
        a_flow.push((clock::thread_cpu_ns() - cpu_ns) as f64 / f64::from(flows - AT_A_TIME));
        grown_mb.push((resident_bytes()?.saturating_sub(filled)) as f64 / 1e6);
        resident_mb.push(filled.saturating_sub(before) as f64 / 1e6);
        pauses_ms.push(run.pause_ns as f64 / 1e6);
        run.pause_ns = 0;
        run.end();
        due_ms.push(run.pause_ns as f64 / 1e6);
        let packets = run.table.exported().packets;
        ensure!(
            (run.records, packets) == (flows.into(), 2 * u64::from(flows)),
            "{} records with {packets} packets, of {flows} flows",
            run.records
        );
    }
    let of = |values: &[f64]| spread(values.iter().copied()).context("nothing was measured");
    let named = |what: &str| format!("probe, {flows} new flows, {AT_A_TIME} at a time, {what}");
    lines.put_all([
        Line::new(named("longest pause"), "ms", of(&pauses_ms)?).goal(Goal::AtMost(PAUSE_MS)),
        Line::new(named("longest pause when all are due"), "ms", of(&due_ms)?)
            .goal(Goal::AtMost(PAUSE_MS)),
        Line::new(
            named("memory for flows and plugins"),
            "MB",
            of(&resident_mb)?,
        )
        .note(format!("room for {ROOM} flows")),
        Line::new(named("growth once it is full"), "MB", of(&grown_mb)?)
            .goal(Goal::AtMost(GROWTH_MB)),
        Line::new(named("CPU of a flow and two packets"), "ns", of(&a_flow)?),
    ]);
    Ok(())
}

/// Memory of this process that is there, in bytes.
fn resident_bytes() -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("/proc/self/status tells no VmRSS")? << 10)
}

struct Run {
    decoder: Decoder,
    table: Table,
    plugins: Plugins,
    batch: Batch,
    frame: Vec<u8>,
    time_ns: u64,
    records: u64,
    /// The longest time between two looks at packets.
    pause_ns: u64,
}

impl Run {
    fn new() -> Result<Self> {
        let table = Table::new(&Config {
            flows: ROOM,
            idle_timeout_ns: IDLE_NS,
            ..Config::default()
        })?;
        Ok(Self {
            decoder: Decoder::new(&DecodeConfig::default())?,
            plugins: Plugins::new(&PLUGINS, table.places()),
            table,
            batch: Batch::new(BATCH_PACKETS),
            frame: frame(),
            time_ns: HOUR_NS,
            records: 0,
            pause_ns: 0,
        })
    }

    /// The flows from one number to another, each with the second packet of the one that began half an idle time-out before.
    fn feed(&mut self, from: u32, to: u32) {
        for flow in from..to {
            self.time_ns += STEP_NS;
            self.take(flow);
            self.take(flow.saturating_sub(AT_A_TIME / 2));
        }
        self.settle();
    }

    fn take(&mut self, flow: u32) {
        self.frame[12..16].copy_from_slice(&(0x0a00_0000 + flow).to_be_bytes());
        let frame = Frame {
            time_ns: self.time_ns,
            link: Some(LinkType::RawIp),
            bytes: &self.frame,
            wire_bytes: self.frame.len() as u32,
        };
        if let Ok(packet) = self.decoder.handle_frame(&frame) {
            self.plugins.batch(&mut self.batch, &packet);
        }
        if self.batch.is_full() {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let Self {
            table,
            plugins,
            batch,
            records,
            ..
        } = self;
        let begun_ns = clock::thread_cpu_ns();
        let mut ended = |_: &FlowRecord, _: Fields| *records += 1;
        table.handle_batch(batch, &mut plugins.watch(&mut ended));
        batch.clear();
        self.pause_ns = self.pause_ns.max(clock::thread_cpu_ns() - begun_ns);
    }

    /// An hour goes by: all that is there is due.
    fn end(&mut self) {
        let now_ns = self.time_ns + HOUR_NS;
        while self
            .table
            .poll_timeout()
            .is_some_and(|due_ns| due_ns <= now_ns)
        {
            let Self {
                table,
                plugins,
                records,
                ..
            } = self;
            let begun_ns = clock::thread_cpu_ns();
            let mut ended = |_: &FlowRecord, _: Fields| *records += 1;
            table.tick_watched(now_ns, &mut plugins.watch(&mut ended));
            self.pause_ns = self.pause_ns.max(clock::thread_cpu_ns() - begun_ns);
        }
    }
}

/// A segment with a request of HTTP, whose source is put in for each flow.
fn frame() -> Vec<u8> {
    let mut frame = vec![0; HEADERS_BYTES + PAYLOAD_BYTES];
    let length = (HEADERS_BYTES + PAYLOAD_BYTES) as u16;
    frame[..2].copy_from_slice(&[0x45, 0]);
    frame[2..4].copy_from_slice(&length.to_be_bytes());
    (frame[8], frame[9]) = (64, 6);
    frame[16..20].copy_from_slice(&[192, 168, 0, 1]);
    frame[20..24].copy_from_slice(&[0xc3, 0x50, 0, 80]);
    (frame[32], frame[33]) = (5 << 4, 0x18);
    let request = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    frame[HEADERS_BYTES..][..request.len()].copy_from_slice(request);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_has_a_record_with_both_packets() {
        let mut run = Run::new().unwrap();
        run.feed(0, 1_000);
        assert_eq!((run.records, run.table.flows()), (0, 1_000));
        // The first flow has the second packet of all.
        assert_eq!(run.table.taken().packets, 2_000);
        run.end();
        assert_eq!((run.records, run.table.flows()), (1_000, 0));
        assert!(run.pause_ns > 0);
    }
}
