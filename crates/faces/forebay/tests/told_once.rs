//! What came and the receiver dropped is in one named loss, and not inferred lost as well: senders of our own know what they sent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::path::Path;

use forebay_wire::hadtu::MTU_BYTES;
use rig::sender::{Sender, address, message};
use rig::{
    Run, assert_closed, audit_json, dropped, evb, files, forebay, free_ports, hld, number, signal,
    start, wait_for,
};
use serde_json::Value;
use tempfile::TempDir;

/// Sub-events of a message.
const EACH: u32 = 5;

/// Waits until the run in `out` has seen so many triggers.
fn wait_triggers(out: &Path, triggers: u32) {
    wait_for("triggers", || {
        let seen = &audit_json(out)["triggers"]["triggers_span"];
        (seen.as_u64()? >= triggers.into()).then_some(())
    });
}

fn end(run: Run) -> Value {
    signal("INT", run.pid());
    run.end().json_of(0)
}

/// Sub-events of a source in the files.
fn built(json: &Value, source: u16) -> u64 {
    let events = hld::events(&files(json));
    let subs = events.iter().flat_map(|event| &event.subs);
    subs.filter(|sub| sub.0 == address(source)).count() as u64
}

/// Source 0 is sound, source 1 has messages with a false trailer and leaves some out, source 2 ends messages with a broken sub-event.
/// The last messages of both are bad: none comes behind them.
#[test]
fn what_the_receiver_refused_is_not_inferred_lost_as_well() {
    const TRIGGERS: u32 = 100;
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(3);
    let run = start(&mut evb(
        folder.path(),
        3,
        base_port,
        &["--timeout", "100ms"],
    ));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    let (mut sent, mut refused, mut broken) = ([0_u64; 3], 0, 0);
    for first in (0..TRIGGERS).step_by(EACH as usize) {
        for source in 0..3 {
            let mut bytes = message(source, first..first + EACH, 40);
            match (source, first) {
                (1, 40) => continue,
                (1, 20 | 25 | 60 | 95) => {
                    *bytes.last_mut().unwrap() ^= 0xff;
                    refused += 1;
                }
                (2, 30 | 95) => {
                    // The size of the last sub-event of 56 bytes, before the trailer of 32.
                    let at = bytes.len() - 32 - 56;
                    bytes[at..at + 4].copy_from_slice(&4_000_u32.to_be_bytes());
                    broken += 1;
                }
                _ => {}
            }
            sender.send(source, &bytes);
            sent[usize::from(source)] += u64::from(EACH);
        }
    }
    wait_triggers(folder.path(), TRIGGERS);
    let json = end(run);
    let named = |key: &str| dropped(&json, key);
    assert_eq!(
        named("receiver.malformed_trailer.source1"),
        refused,
        "{json}"
    );
    assert_eq!(named("queue.broken_subevent.source2"), broken, "{json}");
    assert_eq!(json["drops"].as_object().unwrap().len(), 2, "{json}");
    for (source, named) in [(0, 0), (1, refused * u64::from(EACH)), (2, broken)] {
        let sent = sent[usize::from(source)];
        assert_eq!(
            built(&json, source) + named,
            sent,
            "source {source}: {json}"
        );
    }
    assert_eq!(
        number(&json, "subevents_missing"),
        u64::from(EACH),
        "what was never sent: {json}"
    );
    assert_closed(&json, folder.path());
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Sound,
    /// Longer than a message may be.
    Refused,
    NotSent,
}

/// What each of three sources does of message `number`.
fn fates(number: u32) -> [Fate; 3] {
    use Fate::{NotSent, Refused, Sound};
    match (number, number % 2, number % 3) {
        // None sends a sound one: two sources take turns at sending, the third one sends at times.
        (10..30, 0, 0) => [Refused, NotSent, Refused],
        (10..30, 0, _) => [Refused, NotSent, NotSent],
        (10..30, _, 1) => [NotSent, NotSent, NotSent],
        (10..30, ..) => [NotSent, Refused, NotSent],
        // One is sound, the others are refused or send nothing.
        (40..60, 0, _) => [Sound, Refused, NotSent],
        (40..60, _, 0) => [Sound, NotSent, NotSent],
        (40..60, ..) => [Sound, NotSent, Refused],
        _ => [Sound; 3],
    }
}

/// Between two sound messages a source did not send some, and had others refused: each is told as what it was, of the sources and of the triggers.
#[test]
fn what_was_not_sent_and_what_was_refused_in_between_stay_apart() {
    const MESSAGES: u32 = 70;
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(3);
    let out = folder.path().join("run");
    let text = format!(
        "[receiver]\nmessage_bytes_max = 16384\n[[sources]]\nname = \"source\"\ncount = 3\nbase_port = {base_port}\n\
         [[sinks]]\nkind = \"file\"\ndirectory = {out:?}\n"
    );
    let file = folder.path().join("chain.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = forebay();
    command.args(["evb", "--format", "json", "--out"]);
    let run = start(command.arg(&out).arg(&file));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    let (mut refused, mut not_sent, mut in_events) = ([0_u64; 3], [0_u64; 3], 0);
    let (mut triggers_refused, mut triggers_not_sent) = (0, 0);
    for number in 0..MESSAGES {
        let triggers = number * EACH..(number + 1) * EACH;
        let all = fates(number);
        for (source, fate) in all.into_iter().enumerate() {
            let bytes = match fate {
                Fate::Sound => 40,
                Fate::Refused => 4_000,
                Fate::NotSent => continue,
            };
            sender.send(
                source as u16,
                &message(source as u16, triggers.clone(), bytes),
            );
        }
        let each = u64::from(EACH);
        let is_built = all.contains(&Fate::Sound);
        for (source, fate) in all.into_iter().enumerate() {
            refused[source] += u64::from(fate == Fate::Refused);
            not_sent[source] += each * u64::from(is_built && fate == Fate::NotSent);
        }
        match is_built {
            true => in_events += each,
            false if all.contains(&Fate::Refused) => triggers_refused += each,
            false => triggers_not_sent += each,
        }
    }
    wait_triggers(&out, MESSAGES * EACH);
    let json = end(run);
    let word = |key: &str| number(&json, key);
    for (source, refused) in refused.into_iter().enumerate() {
        let key = format!("receiver.message_too_long.source{source}");
        assert_eq!(dropped(&json, &key), refused, "{json}");
    }
    assert!(triggers_refused > 0 && triggers_not_sent > 0 && not_sent[1] > 0);
    assert_eq!(word("triggers_dropped"), triggers_refused, "{json}");
    assert_eq!(word("triggers_missing"), triggers_not_sent, "{json}");
    assert_eq!(
        word("subevents_missing"),
        not_sent.iter().sum::<u64>(),
        "{json}"
    );
    assert_eq!(
        word("events_built") + word("events_partial"),
        in_events,
        "{json}"
    );
    assert_closed(&json, &out);
}

/// Datagrams of a source that came to the receiver, and those that went on.
fn at_receiver(out: &Path, source: u16) -> Option<(u64, u64)> {
    let (audit, owner) = (audit_json(out), format!("source{source}"));
    let mut lines = audit["balance"]["accounts"].as_array()?.iter();
    let line = lines.find(|line| line["place"] == "receiver" && line["owner"] == *owner)?;
    let items = |term: &str| line[term]["items"].as_u64();
    Some((items("incoming")?, items("outgoing")?))
}

/// A builder that stands still, and a receiver that drops what has no room: messages of two sources with sub-events of so many bytes.
fn a_full_queue_drops(messages: u32, payload_bytes: [usize; 2], message_bytes_max: u32) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(2);
    let queue_bytes = 8 * message_bytes_max;
    let text = format!(
        "[run]\ndirectory = \"run\"\n[receiver]\nmessage_bytes_max = {message_bytes_max}\nqueue_bytes = {queue_bytes}\nfull = \"drop\"\n\
         [[sources]]\nname = \"source\"\ncount = 2\nbase_port = {base_port}\n[[sinks]]\nkind = \"file\"\ndirectory = \"run\"\n"
    );
    let file = folder.path().join("chain.toml");
    std::fs::write(&file, text).unwrap();
    let out = folder.path().join("run");
    let mut command = forebay();
    command.args(["evb", "--format", "json", "--timeout", "500ms", "--out"]);
    let run = start(command.arg(&out).arg(&file));
    let stages = run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    assert!(signal("STOP", stages["builder"]));
    let triggers = |message: u32| message * EACH..(message + 1) * EACH;
    let of = |source: u16, number| {
        let bytes = payload_bytes[usize::from(source)];
        message(source, triggers(number), bytes)
    };
    let pieces = [0, 1].map(|source| of(source, 0).len().div_ceil(MTU_BYTES) as u64);
    let mut lost = [0; 2];
    for number in 0..messages {
        (0..2).for_each(|source| sender.send_message(source, &of(source, number)));
        if pieces[0] > 1 || number + 1 == messages {
            lost = [0, 1].map(|source| {
                wait_for("all datagrams at the receiver", || {
                    let (came, went) = at_receiver(&out, source)?;
                    let sent = u64::from(number + 1) * pieces[usize::from(source)];
                    (came == sent).then_some(came - went)
                })
            });
        }
    }
    assert!(lost[0] > 10, "{lost:?} of {messages} messages");
    // What is to be said is in the books, and not in the process.
    assert!(signal("KILL", stages["receiver"]));
    wait_for("another receiver", || {
        let receiver = *run.stages().get("receiver")?;
        (receiver != stages["receiver"]).then_some(())
    });
    assert!(signal("CONT", stages["builder"]));
    let sent = u64::from(messages);
    let kept = |of: usize| sent - lost[of] / pieces[of];
    wait_triggers(&out, kept(0).max(kept(1)) as u32 * EACH);
    // The one that was waited for in vain comes first: nobody waits for it before it has sent again.
    let mut order = [0, 1];
    order.sort_by_key(|source| kept(*source));
    for number in messages..messages + 2 {
        for source in order.map(|source| source as u16) {
            sender.send(source, &message(source, triggers(number), 40));
        }
    }
    wait_triggers(&out, (messages + 2) * EACH);
    let json = end(run);
    let sent = u64::from((messages + 2) * EACH);
    let mut events = 0;
    for source in 0..2 {
        let (lost, pieces) = (lost[usize::from(source)], pieces[usize::from(source)]);
        let key = format!("receiver.ring_full.source{source}");
        assert_eq!(dropped(&json, &key), lost, "{json}");
        let named = lost / pieces * u64::from(EACH);
        assert_eq!(built(&json, source) + named, sent, "{json}");
        events = events.max(built(&json, source));
    }
    // Both lost the last ones: what is in no event came, and its loss has a name.
    assert_eq!(number(&json, "triggers_span"), sent, "{json}");
    assert_eq!(number(&json, "triggers_dropped"), sent - events, "{json}");
    for inferred in ["triggers_missing", "subevents_missing"] {
        assert_eq!(number(&json, inferred), 0, "{inferred}: {json}");
    }
    assert_eq!(number(&json["restarts"], "receiver"), 1, "{json}");
    assert_closed(&json, &out);
}

#[test]
fn what_a_full_queue_dropped_is_not_inferred_lost_as_well() {
    a_full_queue_drops(40, [2_000, 40], 16_384);
}

#[test]
fn a_message_of_several_datagrams_that_a_full_queue_dropped_is_not_inferred_lost_as_well() {
    // Three datagrams each.
    a_full_queue_drops(30, [30_000, 40], 262_144);
}

#[test]
fn triggers_that_full_queues_dropped_of_all_sources_are_not_said_to_have_been_sent_by_none() {
    a_full_queue_drops(40, [2_000, 2_000], 16_384);
    a_full_queue_drops(40, [2_000, 3_000], 16_384);
}
