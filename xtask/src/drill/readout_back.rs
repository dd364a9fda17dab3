//! Kills of to-flx, which writes messages to E-links.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Round;
use super::process::{Running, wait_for};

/// The fid of the E-link of link 2, from the host: the example of the README, two links on.
const TAG: &str = "1152921504615268352";
/// Packets of 32 bytes of one message.
const PACKETS: u64 = 17;

fn address(round: &Round) -> String {
    format!("shm://drill-toflx-{}-{}", std::process::id(), round.number)
}

fn start(round: &Round, name: &str) -> Result<Running> {
    let text = format!(
        "[toflx]\naddress = {:?}\ndirectory = {:?}\n[[devices]]\nsocket = {:?}\n",
        address(round),
        round.path(name),
        round.path("card.sock"),
    );
    let file = format!("{name}.toml");
    fs::write(round.path(&file), text).context("writing to-flx's file")?;
    round.start(name, &["toflx", &file, "--format", "json"])
}

fn number(json: &Value, path: &str) -> u64 {
    json.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// Waits until messages of the sender are in the card's ring.
fn at_work(round: &Round, name: &str) -> Result<()> {
    wait_for("messages in the ring", || {
        let audit = round.audit(name).ok()?;
        (audit.sum("encode", "messages", "outgoing") > 500).then_some(())
    })
}

/// To-flx dies once or twice: the card has whole messages alone, and the next one goes on.
pub(crate) fn to_flx(round: &mut Round) -> Result<()> {
    let card = format!(
        "[card]\nsocket = {:?}\ndirectory = {:?}\ndrain_s = 20\nwait_for_readers = false\n[ttc]\nrate_hz = 1000\n\
         [[links]]\nlinks = [0, 1]\nloop_back = true\n[[links]]\nlinks = [2]\n",
        round.path("card.sock"),
        round.path("card"),
    );
    fs::write(round.path("card.toml"), card).context("writing the card's file")?;
    let card = round.start(
        "card",
        &["emulate", "card", "--format", "json", "card.toml"],
    )?;
    let socket = round.path("card.sock");
    wait_for("the card", || socket.exists().then_some(()))?;
    let to = address(round);
    let words = [
        "net", "send", "--format", "json", "--block", "30s", "--tag", TAG, "--input", "generate",
    ];
    let load = ["--message-bytes", "500", "--rate", "20000", &to];
    let deaths = 1 + round.random.below(2);
    let mut sender = None;
    let mut written = 0;
    for death in 0..deaths {
        let name = format!("toflx{death}");
        let mut doomed = start(round, &name)?;
        if sender.is_none() {
            sender = Some(round.start("sender", &[&words[..], &load].concat())?);
        }
        at_work(round, &name)?;
        std::thread::sleep(round.random.ms(0, 400));
        round.kill(&mut doomed)?;
        written += round
            .expect_closed(&name)?
            .sum("ring", "packets", "incoming");
    }
    let last = start(round, "last")?;
    at_work(round, "last")?;
    let sender = sender.context("no sender")?;
    sender.interrupt();
    sender.end()?;
    last.interrupt();
    let last = last.end()?;
    card.interrupt();
    let card = card.end()?;
    round.expect(last.code == Some(0), || {
        format!("to-flx: {:?} {}", last.code, last.stderr)
    });
    round.expect(card.code == Some(2), || {
        format!("a card that nobody reads: {:?} {}", card.code, card.stderr)
    });
    let dropped = &card.json["from_host"]["dropped"];
    let none = dropped.as_object().is_some_and(serde_json::Map::is_empty);
    round.expect(none, || format!("the card dropped {dropped}"));
    let packets = number(&card.json, "/from_host/packets");
    let whole = PACKETS * number(&card.json, "/from_host/sunk");
    round.expect(packets == whole, || {
        format!("{packets} packets, whole messages have {whole}")
    });
    let both = written + number(&last.json, "/packets");
    round.expect(packets <= both, || {
        format!("the card took {packets} packets, {both} were written")
    });
    for books in ["card", "last"] {
        round.expect_closed(books)?;
    }
    Ok(())
}
