//! libzmq.

use std::time::Duration;

use anyhow::Result;

use super::super::ground::Ground;
use super::built::{Built, Driver};
use forebay_report::rows::Row;

pub(super) fn build() -> Result<Built> {
    Built::make(Driver {
        name: "zmq",
        library: "libzmq",
        source: include_str!("../../../reference/zmq.c"),
        link: "-lzmq",
        package: "libzmq3-dev",
    })
}

/// Runs a pattern once, over TCP.
pub(super) fn measure(
    built: &Built,
    pattern: &str,
    message_bytes: u32,
    duration: Duration,
    ground: &Ground<'_>,
) -> Result<Row> {
    let (bytes, ms) = (message_bytes.to_string(), duration.as_millis().to_string());
    let words = |role: &str, address: &str| {
        [pattern, role, address, &bytes, &ms]
            .map(str::to_owned)
            .to_vec()
    };
    let place = format!("tcp://{}:*", ground.listener());
    built.measure(words, &place, message_bytes, duration, ground)
}
