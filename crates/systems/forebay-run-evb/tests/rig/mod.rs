//! Runs from a plan, with the stages as threads of the test.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use forebay_ledger::LedgerReader;
use forebay_run::record::Record;
use forebay_run_evb::books::Books;
use forebay_run_evb::plan::Plan;
use forebay_run_evb::presets;
use forebay_run_evb::summary::Summary;
use forebay_run_evb::supervisor::Supervisor;
use forebay_wire::hadtu::{ByteOrder, MessageWriter};
use forebay_wire::subevent::SubEventRepr;

/// A plan for `sources` sources on free ports, written to files in `folder`.
pub(crate) fn plan(folder: &Path, sources: usize) -> Plan {
    let run_id = format!("test-{}", folder.file_name().unwrap().display());
    let mut plan = presets::plan(&run_id, folder, Ipv4Addr::LOCALHOST.into(), 0, sources);
    plan.sinks = vec![presets::file_sink(folder.to_path_buf(), "te")];
    plan
}

/// Carries `plan` out for `duration`; `send` is called once, when the sockets are bound and the stages are at work.
pub(crate) fn run(plan: Plan, duration: Duration, send: impl FnOnce(&Plan)) -> Record<Summary> {
    let supervisor = Supervisor::open(plan, false).unwrap();
    let plan = supervisor.plan().clone();
    let mut send = Some(send);
    let once = |_: &LedgerReader| {
        if let Some(send) = send.take() {
            send(&plan);
        }
    };
    let (supervisor, outcome) = supervisor.run(Some(duration), once).unwrap();
    let plan = supervisor.plan().clone();
    let books = Books::declare(&plan).unwrap();
    let snapshot = supervisor.reader().snapshot().unwrap();
    let (summary, verdict) = Summary::of(&plan, &books, &snapshot, &outcome).unwrap();
    assert!(verdict.closed, "{}", verdict.sheet());
    summary
}

/// A message of one sub-event of `address` for each of `triggers`.
pub(crate) fn message(
    address: u32,
    triggers: impl IntoIterator<Item = u32>,
    payload_bytes: usize,
) -> Vec<u8> {
    let mut writer = MessageWriter::new(ByteOrder::Big);
    for trigger in triggers {
        let sub = SubEventRepr {
            id: address,
            trigger_word: (trigger & 0xff_ffff) << 8 | 1,
            ..SubEventRepr::default()
        };
        writer
            .push(&sub, &vec![trigger as u8; payload_bytes])
            .unwrap();
    }
    writer.finish().to_vec()
}

/// A socket of a sender.
pub(crate) fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// Items lost by this name.
pub(crate) fn dropped(summary: &Record<Summary>, name: &str) -> u64 {
    summary
        .envelope
        .drops
        .get(name)
        .map_or(0, |lost| lost.items)
}
