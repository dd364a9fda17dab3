//! Kills around time-division UDP: a sender among others, and the receiver.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Round;
use super::process::{Running, wait_for};

const BYTES: usize = 12_000_000;

fn bind(round: &Round) -> String {
    format!("127.0.0.1:{}", round.ports() + 9)
}

fn receive(round: &Round, senders: &str, out: &str) -> Result<Running> {
    let address = bind(round);
    let words = [
        "tdm",
        "receive",
        "--format",
        "json",
        "--bind",
        &address,
        "--senders",
        senders,
    ];
    let port = [
        "--link-rate",
        "200M",
        "--port-buffer",
        "128K",
        "--silence",
        "1500ms",
        "--output",
        out,
    ];
    round.start(out, &[&words[..], &port].concat())
}

fn send(round: &Round, name: &str, more: &[&str]) -> Result<Running> {
    let address = bind(round);
    let words = [
        "tdm",
        "send",
        &address,
        "--format",
        "json",
        "--id",
        name,
        "--no-realtime",
    ];
    round.start(name, &[&words[..], more].concat())
}

/// A file with bytes that say where they are.
fn write_input(round: &Round) -> Result<Vec<u8>> {
    let bytes: Vec<u8> = (0..BYTES / 8)
        .flat_map(|at| {
            (at as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_le_bytes()
        })
        .collect();
    fs::write(round.path("input"), &bytes).context("writing the input")?;
    Ok(bytes)
}

fn at_work(round: &Round, out: &str, packets: u64) -> Result<()> {
    wait_for("packets", || {
        let audit = round.audit(out).ok()?;
        (audit.sum("write", "packets", "outgoing") > packets).then_some(())
    })
}

/// Where the stream `came` differs from what was sent, and is not on its list of what is lost; and how much is on that list.
fn unlisted(came: &Path, went: &[u8]) -> (u64, u64) {
    let bytes = fs::read(came).unwrap_or_default();
    let list = fs::read_to_string(format!("{}.lost.csv", came.display())).unwrap_or_default();
    let mut lost = vec![false; went.len()];
    let mut listed = 0;
    for line in list.lines().skip(1) {
        let mut cells = line.split(',').map_while(|cell| cell.parse::<usize>().ok());
        if let (Some(offset), Some(length)) = (cells.next(), cells.next()) {
            let end = (offset + length).min(went.len());
            lost.get_mut(offset..end).unwrap_or_default().fill(true);
            listed += length as u64;
        }
    }
    let differs = |at: &usize| bytes.get(*at) != went.get(*at) && !lost[*at];
    ((0..went.len()).filter(differs).count() as u64, listed)
}

/// One of two senders dies in its window: the other one's stream is whole but for what is listed.
pub(crate) fn sender(round: &mut Round) -> Result<()> {
    let input = write_input(round)?;
    let receiver = receive(round, "2", "out")?;
    let mut doomed = send(round, "doomed", &["--bytes", "1000000000"])?;
    let whole = send(round, "whole", &["--input", "input"])?;
    at_work(round, "out", 300)?;
    std::thread::sleep(round.random.ms(0, 500));
    round.kill(&mut doomed)?;
    let (sent, got) = (whole.end()?, receiver.end()?);
    round.expect(sent.code == Some(0), || {
        format!("the healthy sender: {:?} {}", sent.code, sent.stderr)
    });
    round.expect(got.code == Some(2), || {
        format!("the receiver: {:?} instead of 2: {}", got.code, got.stderr)
    });
    round.expect_closed("out")?;
    let (differ, listed) = unlisted(&round.path("out/whole"), &input);
    round.expect(differ == 0, || {
        format!(
            "{differ} bytes of the healthy sender's stream are wrong or missing, and not listed"
        )
    });
    let lost = sent.json["lost"].as_u64().unwrap_or(0);
    round.expect((lost == 0) == (listed == 0), || {
        format!("{listed} bytes are listed as lost, and {lost} packets counted")
    });
    Ok(())
}

/// The receiver dies and another one takes its place: the stream goes on, and what is missing is listed.
pub(crate) fn receiver(round: &mut Round) -> Result<()> {
    let input = write_input(round)?;
    let mut first = receive(round, "1", "first")?;
    let sender = send(round, "long", &["--input", "input"])?;
    at_work(round, "first", 100)?;
    std::thread::sleep(round.random.ms(0, 300));
    round.kill(&mut first)?;
    let second = receive(round, "1", "second")?;
    let (sent, got) = (sender.end()?, second.end()?);
    round.expect_closed("first")?;
    let lost: &Value = &sent.json["receivers_lost"];
    round.expect(*lost == 1, || {
        format!("the sender says it lost {lost} receivers")
    });
    round.expect(got.code == Some(0), || {
        format!("the second receiver: {:?} {}", got.code, got.stderr)
    });
    round.expect_closed("second")?;
    let (differ, _) = unlisted(&round.path("second/long"), &input);
    round.expect(differ == 0, || {
        format!("{differ} bytes of the stream are wrong or missing, and not listed")
    });
    Ok(())
}
