//! One builder for both worlds: `forebay evb` beside publishers of chunks, and behind a whole link readout.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_run_net::{Address, NetRecord, Publisher, Settings};
use forebay_wire::felix::{Elink, Fid, Generated};
use forebay_wire::hld::{Event, EventHeader};
use forebay_wire::subevent::SUB_EVENT_HEADER_BYTES;
use rig::{
    Run, account_items, assert_closed, audit_json, dropped_in_all, files, forebay, number, start,
};
use serde_json::Value;

const MOMENT: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(20);

fn fid(link: u16) -> u64 {
    Fid::to_host(0, 3, Elink::of_link(link).unwrap()).0
}

/// A generated chunk whose payload says its link and the whole of its number behind what the generator says.
fn chunk(link: u16, l1id: u64, bytes: usize) -> Vec<u8> {
    let mut chunk = vec![0; bytes];
    let generated = Generated {
        first: 0xaa,
        l1id: l1id as u8,
        elink: link as u8,
        width: 16,
    };
    assert!(generated.emit(&mut chunk));
    chunk[8..16].copy_from_slice(&l1id.to_le_bytes());
    chunk
}

/// A publisher in a thread of its own: it waits for its subscriber, publishes, and ends in order.
fn publish(
    address: &str,
    what: impl FnOnce(&mut Publisher) + Send + 'static,
) -> (String, JoinHandle<NetRecord>) {
    let address: Address = address.parse().unwrap();
    let mut publisher = Publisher::listen(&address, &Settings::default()).unwrap();
    let at = publisher.address().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        while publisher.ready_subscribers() == 0 {
            publisher.poll(MOMENT).unwrap();
        }
        what(&mut publisher);
        publisher.finish(LIMIT).unwrap()
    });
    (at, thread)
}

/// An address in shared memory that nobody else has.
fn shared(name: &str) -> String {
    format!("shm://evb-{name}-{}", std::process::id())
}

/// A chain file of these publishers with three links each.
fn chain_file(directory: &Path, publishers: &[&str], more: &str) -> String {
    let mut text = format!("[run]\ndirectory = {:?}\n{more}\n", directory.join("out"));
    for (index, at) in publishers.iter().enumerate() {
        let first = 192 * index;
        text += &format!(
            "[[sources]]\naddress = {at:?}\nconnector = 3\nelinks = [{first}, {}, {}]\n",
            first + 64,
            first + 128
        );
    }
    let path = directory.join("chunks.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn evb(file: &str, more: &[&str]) -> Run {
    start(forebay().args(["evb", file, "--format", "json"]).args(more))
}

/// The sub-events of every event of the run's files: trigger number, then by link whether it is flagged, and its chunk.
type Events = Vec<(u32, BTreeMap<u32, (bool, Vec<u8>)>)>;

fn events(json: &Value) -> Events {
    let mut events = Vec::new();
    for file in files(json) {
        let bytes = fs::read(file).unwrap();
        let mut rest = &bytes[..];
        while let Some(head) = rest.first_chunk() {
            let header = EventHeader::parse(head).unwrap();
            let padded = (header.size as usize).next_multiple_of(8);
            let event = Event::new_checked(&rest[..header.size as usize]).unwrap();
            let (mut links, mut trigger) = (BTreeMap::new(), 0);
            for sub in event.sub_events() {
                let sub = sub.unwrap();
                let header = sub.header();
                assert_eq!(header.address() >> 11, 3, "the connector");
                trigger = header.trigger_word >> 8;
                let link = (header.address() & 0x7ff) / 64;
                let content = (header.has_data_error(), sub.payload().to_vec());
                assert_eq!(
                    content.1.len(),
                    header.size as usize - SUB_EVENT_HEADER_BYTES
                );
                assert!(links.insert(link, content).is_none());
            }
            if !links.is_empty() {
                events.push((trigger, links));
            }
            rest = &rest[padded.min(rest.len())..];
        }
    }
    events
}

#[test]
fn chunks_of_a_trigger_become_one_event_with_every_byte() {
    let of = |links: std::ops::Range<u16>| {
        move |publisher: &mut Publisher| {
            for l1id in 0..3000_u64 {
                for link in links.clone() {
                    let mut bytes = chunk(link, l1id, 16 + usize::from(link) * 7);
                    let status = match (link, l1id) {
                        // Lost on the way to the publisher; 200 of them in a row, and one alone.
                        (1, 1000..1200 | 2000) => continue,
                        // Cut off: it says so, and its number can be read.
                        (2, 500) => {
                            bytes.truncate(10);
                            4
                        }
                        // Too short to say which trigger it is of.
                        (4, 700) => {
                            bytes.truncate(3);
                            4
                        }
                        // Its number is wrong, and it does not know.
                        (5, 900) => {
                            bytes[3] ^= 0x55;
                            0
                        }
                        _ => 0,
                    };
                    publisher.publish(fid(link), status, &bytes).unwrap();
                }
            }
        }
    };
    let (first, one) = publish("tcp://127.0.0.1:0", of(0..3));
    let (second, other) = publish(&shared("events"), of(3..6));
    let directory = tempfile::tempdir().unwrap();
    let file = chain_file(
        directory.path(),
        &[&first, &second],
        "[builder]\ntimeout_ms = 500\n",
    );
    let ended = evb(&file, &[]).end();
    let json = ended.json_of(0);
    let published = [one, other].map(|thread| thread.join().unwrap().messages);
    assert_eq!(published, [3 * 3000 - 201, 3 * 3000]);
    assert_eq!(json["reason"], "input_ended", "{json}");
    assert_closed(&json, &directory.path().join("out"));
    let short = dropped_in_all(&json, "receiver.no_l1id");
    assert_eq!(short, 1, "{json}");
    let verdict = audit_json(&directory.path().join("out"));
    assert_eq!(
        account_items(&verdict, ("receiver", "chunks"), "incoming"),
        published.iter().sum::<u64>()
    );
    let events = events(&json);
    let mut seen = 0;
    for (trigger, links) in &events {
        for (link, (flagged, payload)) in links {
            seen += 1;
            let cut = *flagged;
            if cut {
                assert_eq!((*link, payload.len()), (2, 10));
                continue;
            }
            let said = u64::from_le_bytes(payload[8..16].try_into().unwrap());
            let whole = chunk(*link as u16, said, 16 + *link as usize * 7);
            if (*link, said) == (5, 900) {
                assert_eq!(payload[3], whole[3] ^ 0x55);
            } else {
                assert_eq!(payload, &whole, "event {trigger} link {link}");
                // All sub-events of an event are of one trigger: their numbers agree, whatever the first one is called.
                let offset = u64::from(events[0].0);
                assert_eq!(u64::from(*trigger) - offset, said, "link {link}");
            }
        }
    }
    // The wrong number is out of its place, or once the number of a trigger that has been.
    let lost = dropped_in_all(&json, "builder.out_of_window")
        + dropped_in_all(&json, "builder.duplicate")
        + dropped_in_all(&json, "builder.late");
    assert_eq!(seen + lost + short, published.iter().sum::<u64>(), "{json}");
    // Nobody waits for the 201 that are not there, nor for the short one and the wrong one.
    let complete = number(&json, "events_built");
    assert_eq!(complete, 3000 - 201 - 2, "{json}");
}

/// Link 1 has chunks without a number, the last one among them, and link 2 leaves chunks out: only these never came.
#[test]
fn what_the_receiver_dropped_of_an_elink_is_not_inferred_lost_as_well() {
    const TRIGGERS: u64 = 600;
    let (at, publisher) = publish(&shared("told-once"), |publisher| {
        for l1id in 0..TRIGGERS {
            for link in 0..3 {
                let mut bytes = chunk(link, l1id, 40);
                match (link, l1id % 100) {
                    (1, 50 | 99) => bytes.truncate(3),
                    (2, 70..73) => continue,
                    _ => {}
                }
                publisher.publish(fid(link), 0, &bytes).unwrap();
            }
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let more = "[builder]\ntimeout_ms = 200\n";
    let json = evb(&chain_file(directory.path(), &[&at], more), &[])
        .end()
        .json_of(0);
    assert_eq!(publisher.join().unwrap().messages, 3 * TRIGGERS - 18);
    assert_closed(&json, &directory.path().join("out"));
    let built: usize = events(&json).iter().map(|(_, links)| links.len()).sum();
    assert_eq!(built as u64, 3 * TRIGGERS - 18 - 12, "{json}");
    assert_eq!(dropped_in_all(&json, "receiver.no_l1id"), 12, "{json}");
    assert_eq!(number(&json, "subevents_missing"), 18, "{json}");
}

#[test]
fn a_killed_receiver_begins_again_and_the_books_close() {
    let address = shared("killed");
    let (_, publisher) = publish(&address, |publisher| {
        for l1id in 0..400_000_u64 {
            for link in 0..3 {
                publisher
                    .publish(fid(link), 0, &chunk(link, l1id, 40))
                    .unwrap();
            }
            if l1id % 64 == 0 {
                publisher.poll(Duration::from_micros(200)).unwrap();
            }
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let file = chain_file(
        directory.path(),
        &[&address],
        "[builder]\ntimeout_ms = 100\n",
    );
    let run = evb(&file, &[]);
    let built = |least: u64| {
        rig::wait_for("events", || {
            if !out.join("ledger").exists() {
                return None;
            }
            let verdict = audit_json(&out);
            let built = account_items(&verdict, ("builder", "subevents"), "outgoing");
            (built > least).then_some(())
        });
    };
    built(3000);
    let stages = run.wait_stages(&["receiver", "builder"]);
    assert!(rig::signal("KILL", stages["receiver"]));
    let ended = run.end();
    let json = ended.json();
    assert_closed(&json, &out);
    assert_eq!(json["restarts"]["receiver"], 1, "{json}");
    let summary = publisher.join().unwrap();
    let published = summary.messages;
    // What was confirmed is in the books, and so are some of the chunks of which the publisher does not know.
    let taken = account_items(&audit_json(&out), ("receiver", "chunks"), "incoming");
    let confirmed = published - summary.unconfirmed;
    assert!(
        (confirmed..=published).contains(&taken),
        "{taken} {summary:?}"
    );
    let built = number(&json, "events_built") + number(&json, "events_partial");
    assert!(built > 1000 && built * 3 <= published, "{json}");
    // What is built after the restart is of one trigger, too, to the last one.
    let mut last = 0;
    let mut in_file: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
    for (trigger, links) in events(&json) {
        for (link, (_, payload)) in &links {
            let number = u64::from_le_bytes(payload[8..16].try_into().unwrap());
            let is_new = in_file.entry(*link as u16).or_default().insert(number);
            assert!(is_new, "number {number} of {link} is in two events");
        }
        let said = |payload: &Vec<u8>| u64::from_le_bytes(payload[8..16].try_into().unwrap());
        let mut numbers = links.values().map(|(_, payload)| said(payload));
        let first = numbers.next().unwrap();
        let agree = numbers.all(|number| number == first);
        assert!(agree, "event {trigger}: {links:?}");
        last = last.max(first);
    }
    assert_eq!(last, 399_999, "{json}");
    // Whatever the killed receiver had given on is in the file, by the file's own bytes.
    let there: usize = in_file.values().map(BTreeSet::len).sum();
    let verdict = audit_json(&out);
    let of = |place, unit, term| account_items(&verdict, (place, unit), term);
    assert_eq!(there as u64, of("builder", "subevents", "outgoing"));
    assert_eq!(
        of("builder", "subevents", "incoming"),
        of("queue", "subevents", "outgoing")
    );
    let lost = json["drops"].as_object().unwrap().values();
    let lost: u64 = lost.map(|lost| lost["items"].as_u64().unwrap()).sum();
    assert_eq!(there as u64 + lost, taken, "{json}");
    // What is missing of each link is one piece: what was in its hand, and what came to nobody until the next one was there.
    for (link, numbers) in &in_file {
        let jumps = numbers.iter().zip(numbers.iter().skip(1));
        let jumps = jumps.filter(|(one, next)| **next != **one + 1).count();
        assert!(jumps <= 1, "{jumps} gaps of {link}");
        assert_eq!(numbers.first(), Some(&0), "{link}");
    }
}

#[test]
fn what_is_leaked_at_a_hop_is_a_residual() {
    for hop in ["receiver", "queue", "elink"] {
        let (at, publisher) = publish(&shared(hop), |publisher| {
            for l1id in 0..500_u64 {
                for link in 0..3 {
                    publisher
                        .publish(fid(link), 0, &chunk(link, l1id, 40))
                        .unwrap();
                }
            }
        });
        let directory = tempfile::tempdir().unwrap();
        let file = chain_file(directory.path(), &[&at], "[builder]\ntimeout_ms = 100\n");
        let mut command = forebay();
        command.env("FOREBAY_LEAK", format!("{hop}:3"));
        let run = start(command.args(["evb", &file, "--format", "json"]));
        let json = run.end().json();
        publisher.join().unwrap();
        assert_eq!(number(&json, "residual_items"), 3, "{hop}: {json}");
        let unit = if hop == "queue" {
            "subevents"
        } else {
            "chunks"
        };
        rig::offenders::assert_named(&directory.path().join("out"), hop, unit, 3);
        assert!(number(&json, "events_built") < 500, "{hop}: {json}");
    }
}

#[test]
fn an_order_ends_it_and_nobody_there_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = chain_file(directory.path(), &[&shared("nobody")], "");
    let run = evb(&file, &["--duration", "300ms"]);
    let json = run.end().json_of(0);
    assert_eq!(number(&json, "events_built"), 0);
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("no publisher was there"), "{json}");
    let ended = evb(&file, &["--sources", "4"]).end();
    assert_eq!(ended.code(), Some(2));
    assert!(ended.stderr.contains("E-links"), "{}", ended.stderr);
}

#[test]
fn a_link_readout_is_built_to_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let card = format!(
        "[card]\nsocket = {:?}\ndirectory = {:?}\ndrain_s = 20\n[ttc]\nrate_hz = 20000\ntriggers = 20000\n[chunks]\nbytes = 100\n[[links]]\nlinks = [0, 1, 2]\n",
        path("card.sock"),
        path("card")
    );
    fs::write(path("card.toml"), card).unwrap();
    let address = shared("readout");
    let tohost = format!(
        "[tohost]\ndirectory = {:?}\nconnector = 3\nsubscribers_min = 1\n[[devices]]\nsocket = {:?}\naddress = {address:?}\n",
        path("tohost"),
        path("card.sock")
    );
    fs::write(path("tohost.toml"), tohost).unwrap();
    let file = chain_file(directory.path(), &[&address], "");
    let json_of = |run: Run| run.end().json_of(0);
    let run = |words: &[&str], file: &Path| {
        start(forebay().args(words).arg(file).args(["--format", "json"]))
    };
    let card = run(&["emulate", "card"], &path("card.toml"));
    let tohost = run(&["tohost"], &path("tohost.toml"));
    let builder = evb(&file, &[]);
    let json = json_of(builder);
    let (tohost, card) = (json_of(tohost), json_of(card));
    assert_closed(&json, &path("out"));
    for (what, key, least) in [
        (&json, "events_built", 20_000),
        (&json, "events_partial", 0),
    ] {
        assert_eq!(number(what, key), least, "{json}\n{tohost}\n{card}");
    }
    assert_eq!(number(&json, "subevents_in"), 60_000);
    assert!(json["drops"].as_object().unwrap().is_empty(), "{json}");
    let mut top = forebay();
    top.arg("top").arg(path("out")).args(["--format", "json"]);
    let top = start(&mut top).end().json();
    assert_eq!(top["events"]["complete"], 20_000, "{top}");
}
