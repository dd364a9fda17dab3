//! Kills around messaging: either end of `net send` and `net recv`, of `net pub` and `net sub`, and the registry.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Round;
use super::check::Lines;
use super::process::{Ended, Running, wait_for};

const LINES: u64 = 60_000;
const RATE: &str = "40000";
/// Longest time for a receiver to notice that its sender has ended.
const AFTER_SENDER: Duration = Duration::from_secs(10);

pub(crate) fn receiver_shm(round: &mut Round) -> Result<()> {
    let address = shared(round);
    receiver(round, &address)
}

pub(crate) fn receiver_tcp(round: &mut Round) -> Result<()> {
    let address = tcp(round, 0);
    receiver(round, &address)
}

pub(crate) fn sender_shm(round: &mut Round) -> Result<()> {
    let address = shared(round);
    sender(round, &address)
}

pub(crate) fn sender_tcp(round: &mut Round) -> Result<()> {
    let address = tcp(round, 0);
    sender(round, &address)
}

fn shared(round: &Round) -> String {
    format!("shm://drill-{}-{}", std::process::id(), round.number)
}

fn tcp(round: &Round, nth: u16) -> String {
    format!("tcp://127.0.0.1:{}", round.ports() + nth)
}

fn write_lines(round: &Round) -> Result<()> {
    fs::write(round.path("lines"), Lines::text(LINES)).context("writing the input")
}

fn end_point(round: &Round, role: &str, name: &str, more: &[&str]) -> Result<Running> {
    let out = format!("{name}-books");
    let words = ["net", role, "--format", "json", "--out", &out];
    round.start(name, &[&words[..], more].concat())
}

fn send(round: &Round, role: &str, more: &[&str]) -> Result<Running> {
    let words = ["--input", "lines", "--rate", RATE];
    end_point(round, role, "sender", &[&words[..], more].concat())
}

fn number(json: &Value, key: &str) -> u64 {
    json[key].as_u64().unwrap_or(0)
}

fn length(path: &PathBuf) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

/// Receivers that are killed one after the other while one sender sends.
fn receiver(round: &mut Round, address: &str) -> Result<()> {
    write_lines(round)?;
    let deaths = 1 + round.random.below(3);
    let mut sender = None;
    let mut killed = Vec::new();
    for death in 0..deaths {
        let name = format!("receiver{death}");
        let mut receiver = end_point(round, "recv", &name, &[address, "--output", &name])?;
        if sender.is_none() {
            sender = Some(send(round, "send", &[address])?);
        }
        let to = round.path(&name);
        let over = |sender: &mut Option<Running>| sender.as_mut().is_none_or(Running::is_over);
        wait_for("lines at the receiver", || {
            (length(&to) > 0 || over(&mut sender)).then_some(())
        })?;
        std::thread::sleep(round.random.ms(0, 300));
        if over(&mut sender) {
            receiver.interrupt();
            receiver.end()?;
        } else {
            round.kill(&mut receiver)?;
        }
        killed.push(name);
    }
    let mut sender = sender.context("no sender")?;
    if !sender.is_over() {
        let mut last = end_point(
            round,
            "recv",
            "last",
            &[address, "--output", "last", "--once"],
        )?;
        let ended = sender.end()?;
        // A sender that ended before this one was there leaves it waiting: that is no fault.
        let by_itself = last.ends_within(AFTER_SENDER);
        last.interrupt();
        let got = last.end()?;
        let met = number(&got.json, "connections_made") > 0;
        round.expect(by_itself || !met, || {
            "the last receiver did not end after its sender".to_owned()
        });
        round.expect(got.code == Some(0), || {
            format!(
                "the last receiver: exit code {:?}: {}",
                got.code, got.stderr
            )
        });
        killed.push("last".to_owned());
        return received(round, &ended, &killed);
    }
    let ended = sender.end()?;
    received(round, &ended, &killed)
}

/// What the sender does not name is lost without a name.
fn received(round: &mut Round, sender: &Ended, receivers: &[String]) -> Result<()> {
    let mut lines = Lines::default();
    for name in receivers {
        lines.add(&round.path(name));
        round.expect_closed(&format!("{name}-books"))?;
    }
    round.expect_closed("sender-books")?;
    strange(round, &lines);
    let missing = LINES.saturating_sub(lines.different());
    let named = number(&sender.json, "unconfirmed") + number(&sender.json, "dropped");
    round.expect(missing <= named, || {
        format!("{missing} of {LINES} messages are missing, the sender names {named}")
    });
    round.expect(missing == 0 || sender.code != Some(0), || {
        format!("{missing} messages are missing, and the sender's exit code is 0")
    });
    Ok(())
}

fn strange(round: &mut Round, lines: &Lines) {
    let (twice, strange) = (lines.twice(), lines.strange);
    round.expect(twice == 0, || format!("{twice} messages are there twice"));
    round.expect(strange == 0, || {
        format!("{strange} messages are none that were sent")
    });
}

/// A sender that dies: the receiver has its messages from the first one on without a hole.
fn sender(round: &mut Round, address: &str) -> Result<()> {
    write_lines(round)?;
    let words = [address, "--output", "came", "--once"];
    let receiver = end_point(round, "recv", "receiver", &words)?;
    let mut sender = send(round, "send", &[address])?;
    let to = round.path("came");
    wait_for("lines at the receiver", || (length(&to) > 0).then_some(()))?;
    std::thread::sleep(round.random.ms(0, 600));
    round.kill(&mut sender)?;
    let got = receiver.end()?;
    round.expect(got.code != Some(1), || {
        format!("the receiver's books: {}", got.stderr)
    });
    round.expect_closed("receiver-books")?;
    round.expect_closed("sender-books")?;
    let mut lines = Lines::default();
    lines.add(&to);
    strange(round, &lines);
    let holes = lines.holes();
    round.expect(holes == 0, || {
        format!("{holes} messages are missing before the last one")
    });
    let (told, came) = (number(&got.json, "messages"), lines.different());
    round.expect(told == came, || {
        format!("{came} messages in the file, {told} in the books")
    });
    Ok(())
}

fn subscribe(round: &Round, name: &str, address: &str) -> Result<Running> {
    let words = [address, "--output", name, "--once", "--slow", "block"];
    end_point(round, "sub", &format!("{name}-sub"), &words)
}

/// One of two subscribers dies: the other one misses nothing.
pub(crate) fn subscriber(round: &mut Round) -> Result<()> {
    write_lines(round)?;
    let address = tcp(round, 1);
    let publisher = send(round, "pub", &[&address, "--subscribers", "2"])?;
    let healthy = subscribe(round, "healthy", &address)?;
    let mut doomed = subscribe(round, "doomed", &address)?;
    let to = round.path("doomed");
    wait_for("lines at the subscriber", || {
        (length(&to) > 0).then_some(())
    })?;
    std::thread::sleep(round.random.ms(0, 700));
    round.kill(&mut doomed)?;
    let sent = publisher.end()?;
    let got = healthy.end()?;
    round.expect(got.code == Some(0), || {
        format!("the healthy one: {:?} {}", got.code, got.stderr)
    });
    round.expect(sent.code != Some(1), || {
        format!("the publisher: {}", sent.stderr)
    });
    for books in ["sender-books", "healthy-sub-books", "doomed-sub-books"] {
        round.expect_closed(books)?;
    }
    let mut lines = Lines::default();
    lines.add(&round.path("healthy"));
    strange(round, &lines);
    let missing = LINES - lines.different();
    round.expect(missing == 0, || {
        format!("{missing} of {LINES} messages of a healthy subscriber are lost")
    });
    let mut lines = Lines::default();
    lines.add(&to);
    strange(round, &lines);
    let holes = lines.holes();
    round.expect(holes == 0, || {
        format!("{holes} messages are missing before the dead one's last")
    });
    Ok(())
}

/// A publisher dies: its subscribers have what it published without a hole, and wait for it.
pub(crate) fn publisher(round: &mut Round) -> Result<()> {
    write_lines(round)?;
    let address = tcp(round, 2);
    let mut publisher = send(round, "pub", &[&address, "--subscribers", "2"])?;
    let names = ["north", "south"];
    let subscribers = names.map(|name| subscribe(round, name, &address));
    let to = names.map(|name| round.path(name));
    wait_for("lines at both", || {
        to.iter().all(|to| length(to) > 0).then_some(())
    })?;
    std::thread::sleep(round.random.ms(0, 700));
    round.kill(&mut publisher)?;
    for (subscriber, name) in subscribers.into_iter().zip(names) {
        let subscriber = subscriber?;
        subscriber.interrupt();
        let got = subscriber.end()?;
        round.expect(got.code != Some(1), || format!("{name}: {}", got.stderr));
        round.expect_closed(&format!("{name}-sub-books"))?;
        let mut lines = Lines::default();
        lines.add(&round.path(name));
        strange(round, &lines);
        let holes = lines.holes();
        round.expect(holes == 0, || {
            format!("{name}: {holes} messages missing before its last one")
        });
        let (told, came) = (number(&got.json, "messages"), lines.different());
        round.expect(told == came, || {
            format!("{name}: {came} in the file, {told} in the books")
        });
    }
    round.expect_closed("sender-books")?;
    Ok(())
}

/// The registry dies and comes again: end points that have found each other miss nothing.
pub(crate) fn registry(round: &mut Round) -> Result<()> {
    write_lines(round)?;
    let bus = tcp(round, 3);
    let registry = |round: &Round, life: u64| {
        round.start(
            &format!("registry{life}"),
            &["net", "bus", &bus, "--format", "json"],
        )
    };
    let mut alive = registry(round, 0)?;
    let words = [
        "tcp://127.0.0.1:0",
        "--bus",
        &bus,
        "--name",
        "drill",
        "--tag",
        "5",
    ];
    let publisher = send(round, "pub", &words)?;
    let words = [
        "--bus", &bus, "--tag", "5", "--output", "came", "--slow", "block",
    ];
    let subscriber = end_point(round, "sub", "subscriber", &words)?;
    let to = round.path("came");
    wait_for("lines at the subscriber", || {
        (length(&to) > 0).then_some(())
    })?;
    for life in 1..=1 + round.random.below(3) {
        std::thread::sleep(round.random.ms(0, 300));
        round.kill(&mut alive)?;
        std::thread::sleep(round.random.ms(0, 100));
        alive = registry(round, life)?;
    }
    let sent = publisher.end()?;
    round.expect(sent.code == Some(0), || {
        format!("the publisher: {:?} {}", sent.code, sent.stderr)
    });
    let all = number(&sent.json, "messages");
    wait_for("the last line", || {
        let mut lines = Lines::default();
        lines.add(&to);
        (lines.different() >= all).then_some(())
    })
    .or_else(|_| anyhow::Ok(()))?;
    subscriber.interrupt();
    let got = subscriber.end()?;
    round.expect(got.code == Some(0), || {
        format!("the subscriber: {:?} {}", got.code, got.stderr)
    });
    let mut lines = Lines::default();
    lines.add(&to);
    strange(round, &lines);
    let missing = LINES - lines.different();
    round.expect(missing == 0, || {
        format!("{missing} of {LINES} messages are lost with the registry")
    });
    round.expect_closed("sender-books")?;
    round.expect_closed("subscriber-books")?;
    Ok(())
}
