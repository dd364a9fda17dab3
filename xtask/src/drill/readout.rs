//! Kills around link readout: a card, to-host.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Round;
use super::process::{Running, wait_for};

/// Blocks that to-host may have in its books and not yet given back, in each of two DMA buffers.
const TWICE_MAX: u64 = 2 * 64;

fn address(round: &Round) -> String {
    format!("shm://drill-card-{}-{}", std::process::id(), round.number)
}

fn start_card(round: &Round) -> Result<Running> {
    let text = format!(
        "[card]\nsocket = {:?}\ndma_buffers = 2\ndma_bytes = 67108864\ndirectory = {:?}\ndrain_s = 20\n\
         [ttc]\nrate_hz = 10000\nduration_ms = 3000\n[chunks]\nbytes = 100\n\
         [[links]]\nlinks = [0, 1, 2, 3, 4, 5]\n[[links]]\nlinks = [6, 7, 8, 9, 10, 11]\ndma_buffer = 1\n",
        round.path("card.sock"),
        round.path("card"),
    );
    fs::write(round.path("card.toml"), text).context("writing the card's file")?;
    let mut card = round.start(
        "card",
        &["emulate", "card", "card.toml", "--format", "json"],
    )?;
    let socket = round.path("card.sock");
    wait_for("the card", || {
        (socket.exists() || card.is_over()).then_some(())
    })?;
    if card.is_over() {
        bail!("the card ended at once: {}", card.end()?.stderr);
    }
    Ok(card)
}

fn start_to_host(round: &Round, name: &str) -> Result<Running> {
    let text = format!(
        "[tohost]\ndirectory = {:?}\nsubscribers_min = 1\n[[devices]]\nsocket = {:?}\naddress = {:?}\n",
        round.path(name),
        round.path("card.sock"),
        address(round),
    );
    let file = format!("{name}.toml");
    fs::write(round.path(&file), text).context("writing to-host's file")?;
    round.start(name, &["tohost", &file, "--format", "json"])
}

fn subscribe(round: &Round, name: &str) -> Result<Running> {
    let first = address(round);
    let second = format!("{first}-1");
    let words = [
        "net", "sub", "--once", "--output", "null", "--format", "json",
    ];
    round.start(name, &[&words[..], &[&first, &second]].concat())
}

fn number(json: &Value, path: &str) -> u64 {
    json.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// Waits until to-host has published something.
fn at_work(round: &Round, name: &str) -> Result<()> {
    wait_for("chunks", || {
        let audit = round.audit(name).ok()?;
        (audit.sum("dma", "blocks", "incoming") > 0).then_some(())
    })
}

/// To-host dies once or twice: the next one goes on at the first block that was not given back.
pub(crate) fn to_host(round: &mut Round) -> Result<()> {
    let card = start_card(round)?;
    let deaths = 1 + round.random.below(2);
    let mut read = 0;
    for death in 0..deaths {
        let name = format!("tohost{death}");
        let mut doomed = start_to_host(round, &name)?;
        let subscriber = subscribe(round, &format!("subscriber{death}"))?;
        at_work(round, &name)?;
        std::thread::sleep(round.random.ms(0, 400));
        round.kill(&mut doomed)?;
        subscriber.interrupt();
        subscriber.end()?;
        read += round.expect_closed(&name)?.sum("dma", "blocks", "incoming");
    }
    let last = start_to_host(round, "last")?;
    let subscriber = subscribe(round, "subscriber")?;
    let (card, last, subscriber) = (card.end()?, last.end()?, subscriber.end()?);
    for (who, ended) in [
        ("the card", &card),
        ("to-host", &last),
        ("the subscriber", &subscriber),
    ] {
        round.expect(ended.code == Some(0), || {
            format!("{who}: {:?} {}", ended.code, ended.stderr)
        });
    }
    let blocks: u64 = (0..2)
        .map(|n| number(&card.json, &format!("/dma/{n}/blocks")))
        .sum();
    let all = read + number(&last.json, "/blocks");
    round.expect(
        (blocks..=blocks + TWICE_MAX * deaths).contains(&all),
        || format!("{blocks} blocks shown, {all} in the books of those who read them"),
    );
    let (got, published) = (
        number(&subscriber.json, "/messages"),
        number(&last.json, "/chunks_published"),
    );
    round.expect(got == published, || {
        format!("{published} chunks published, {got} received")
    });
    round.expect_closed("card")?;
    round.expect_closed("last")?;
    Ok(())
}

/// The card dies: everything that it had shown is read, and the books of the processes that live on close.
pub(crate) fn card(round: &mut Round) -> Result<()> {
    let mut card = start_card(round)?;
    let to_host = start_to_host(round, "tohost")?;
    let subscriber = subscribe(round, "subscriber")?;
    at_work(round, "tohost")?;
    std::thread::sleep(round.random.ms(0, 1200));
    round.kill(&mut card)?;
    let (to_host, subscriber) = (to_host.end()?, subscriber.end()?);
    round.expect(to_host.code == Some(2), || {
        format!(
            "to-host: {:?} instead of 2: {}",
            to_host.code, to_host.stderr
        )
    });
    round.expect(subscriber.code == Some(0), || {
        format!(
            "the subscriber: {:?} {}",
            subscriber.code, subscriber.stderr
        )
    });
    round.expect_closed("card")?;
    let audit = round.expect_closed("tohost")?;
    let read = audit.sum("dma", "blocks", "incoming");
    let shown = round.audit("card")?.sum("dma", "blocks", "incoming");
    // The dead card's books are as of its last commit: it may have shown more since then, never less.
    round.expect(read >= shown, || {
        format!("{shown} blocks shown, {read} read")
    });
    let published: u64 = (0..2)
        .map(|n| number(&to_host.json, &format!("/buffers/{n}/chunks_published")))
        .sum();
    let got = number(&subscriber.json, "/messages");
    round.expect(published == 0 || got == published, || {
        format!("{published} chunks published, {got} received")
    });
    Ok(())
}
