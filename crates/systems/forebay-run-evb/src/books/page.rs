//! The event builder's ledger on the page of accounts.

use std::path::Path;

use super::*;
use crate::plan::ReplayPlan;
use crate::presets;
use forebay_run_hades::GeneratorPlan;

fn plan() -> Plan {
    let local = std::net::Ipv4Addr::LOCALHOST.into();
    let mut plan = presets::plan("run", Path::new("."), local, 50_000, 2);
    plan.sinks = vec![
        presets::file_sink("events".into(), "run"),
        presets::tcp_sink((local, 50_010).into()),
        presets::null_sink(),
    ];
    plan
}

#[test]
fn the_page_of_accounts_has_this_ledger() {
    let mut sent = plan();
    sent.generator = Some(GeneratorPlan::test2(sent.ports[0], 1_000.0));
    let mut read = plan();
    read.replay = Some(ReplayPlan {
        file: "run.pcap".into(),
        speed_milli: None,
        any_port: false,
    });
    let mut chunks = plan();
    chunks.ports.clear();
    chunks.elinks = Some(presets::elinks(&["tcp://127.0.0.1:50020"]));
    let outlines = [sent, read, chunks].map(|plan| {
        let books = Books::declare(&plan).unwrap();
        books.schema.outline()
    });
    forebay_testing::accounts::assert_section("event-builder", &outlines);
}
