//! How an exporter is named.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use forebay_run_probe::Export;

#[test]
fn an_exporter_is_named_by_file_or_address() {
    for text in [
        "none",
        "a/b.jsonl",
        "b.ipfix",
        "b.csv",
        "b.parquet",
        "ipfix+udp://127.0.0.1:4739",
        "ipfix+udp://[::1]:9",
        "ipfix+tcp://collector.example:4739",
        "ipfix+tls://collector.example:4740",
        "ipfix+tls://[::1]:4740",
        "ipfix+tls://127.0.0.1:4740",
    ] {
        let export: Export = text.parse().unwrap();
        assert_eq!(export.to_string(), text);
    }
    for (text, wrong) in [
        ("flows", "names no exporter"),
        ("flows.txt", "names no exporter"),
        ("ipfix+udp://host", "HOST:PORT"),
        ("ipfix+udp://:9", "HOST:PORT"),
        ("ipfix+tcp://host:0", "4739"),
        ("ipfix+tcp://host:70000", "HOST:PORT"),
        ("tcp://host:1", "names no exporter"),
        ("ipfix+tls://host", "HOST:PORT"),
        ("ipfix+tls://-host-:4740", "in no certificate"),
    ] {
        let told = text.parse::<Export>().unwrap_err();
        assert!(told.contains(wrong), "{text}: {told}");
    }
}
