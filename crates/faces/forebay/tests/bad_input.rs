//! What must not be there: garbage, cut messages, wrong trailers. Each is counted by its name, and good data is never lost for it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use rig::sender::{Sender, address, message};
use rig::{Run, assert_closed, dropped, evb, files, free_ports, hld, number, signal, start};
use serde_json::Value;
use tempfile::TempDir;

fn begin(sources: u16, args: &[&str]) -> (TempDir, Run, Sender) {
    let folder = TempDir::new().unwrap();
    let base_port = free_ports(sources);
    let run = start(&mut evb(folder.path(), sources, base_port, args));
    run.wait_stages(&["receiver", "builder"]);
    (folder, run, Sender::new(base_port))
}

/// Ends the run; everything sent is in the sockets already.
fn end(run: Run) -> Value {
    signal("INT", run.pid());
    run.end().json_of(0)
}

#[test]
fn each_bad_datagram_has_a_name_and_costs_no_good_one() {
    let (folder, run, mut sender) = begin(1, &[]);
    let good = message(0, 100..110, 64);
    let mut wrong_trailer = good.clone();
    *wrong_trailer.last_mut().unwrap() ^= 0xff;
    let mut wrong_decoding = good.clone();
    wrong_decoding[4..8].copy_from_slice(&[0x77; 4]);
    let mut wrong_size = good.clone();
    wrong_size[3] ^= 0x08;
    let mut longer = good.clone();
    longer.extend_from_slice(&[0; 8]);
    let bad: [(&[u8], &str); 7] = [
        (&[], "malformed_short"),
        (&[1, 2, 3], "malformed_short"),
        (&[0xee; 900], "malformed_header"),
        (&wrong_decoding, "malformed_header"),
        (&wrong_size, "malformed_length"),
        (&good[..good.len() - 20], "malformed_length"),
        (&wrong_trailer, "malformed_trailer"),
    ];
    let mut expected = std::collections::BTreeMap::new();
    let mut trigger = 0;
    for (datagram, name) in bad {
        sender.send(0, &message(0, trigger..trigger + 10, 64));
        sender.send(0, datagram);
        *expected.entry(name).or_insert(0_u64) += 1;
        trigger += 10;
    }
    sender.send(0, &longer);
    *expected.get_mut("malformed_length").unwrap() += 1;
    sender.send(0, &message(0, trigger..trigger + 10, 64));
    let json = end(run);
    for (name, count) in &expected {
        assert_eq!(
            dropped(&json, &format!("receiver.{name}.source0")),
            *count,
            "{name}: {}",
            json["drops"]
        );
    }
    assert_eq!(
        json["drops"].as_object().unwrap().len(),
        expected.len(),
        "{}",
        json["drops"]
    );
    assert_eq!(number(&json, "events_built"), u64::from(trigger) + 10);
    assert_closed(&json, folder.path());
}

#[test]
fn a_lost_piece_of_a_long_message_costs_that_message_only() {
    let (folder, run, mut sender) = begin(1, &[]);
    sender.send(0, &message(0, 0..5, 64));
    let long = message(0, 5..6, 150_000);
    let pieces: Vec<_> = long.chunks(forebay_wire::hadtu::MTU_BYTES).collect();
    assert_eq!(pieces.len(), 3);
    sender.send_message(0, &long);
    for piece in [0, 2] {
        sender.send(0, pieces[piece]);
    }
    sender.send(0, &message(0, 6..10, 64));
    // One that is never finished.
    sender.send(0, pieces[0]);
    let json = end(run);
    assert_eq!(number(&json, "events_built"), 10, "{json}");
    let events = hld::events(&files(&json));
    assert!(events[5].sizes[0] >= 150_000);
    assert_eq!(
        dropped(&json, "receiver.fragment_missing.source0"),
        2,
        "{}",
        json["drops"]
    );
    assert_eq!(
        dropped(&json, "receiver.malformed_header.source0"),
        1,
        "the rest of the message, which is none: {}",
        json["drops"]
    );
    assert_closed(&json, folder.path());
}

#[test]
fn a_sub_event_of_its_header_only_is_legal() {
    let (folder, run, mut sender) = begin(2, &[]);
    for source in 0..2 {
        sender.send(source, &message(source, 0..50, 0));
    }
    let json = end(run);
    assert_eq!(
        (
            number(&json, "events_built"),
            json["drops"].as_object().unwrap().len()
        ),
        (50, 0),
        "{json}"
    );
    let events = hld::events(&files(&json));
    assert!(
        events.iter().all(|event| event.sizes == [16, 16]),
        "{:?}",
        events[0]
    );
    assert_closed(&json, folder.path());
}

#[test]
fn a_sub_event_that_ends_outside_of_its_message_is_dropped_by_name() {
    let (folder, run, mut sender) = begin(1, &[]);
    let mut broken = message(0, 0..10, 64);
    // The size of the last sub-event, before the trailer of 32 bytes.
    let at = broken.len() - 32 - 80;
    broken[at..at + 4].copy_from_slice(&4_000_u32.to_be_bytes());
    sender.send(0, &broken);
    sender.send(0, &message(0, 9..20, 64));
    let json = end(run);
    assert_eq!(
        dropped(&json, "queue.broken_subevent.source0"),
        1,
        "{}",
        json["drops"]
    );
    assert_eq!(number(&json, "events_built"), 20, "{json}");
    assert_closed(&json, folder.path());
}

#[test]
fn a_source_that_falls_silent_stops_nobody_and_the_file_says_what_lacks() {
    let (folder, run, mut sender) = begin(3, &["--timeout", "100ms"]);
    for source in 0..3 {
        let last = if source == 2 { 30 } else { 100 };
        sender.send(source, &message(source, 0..last, 64));
    }
    std::thread::sleep(std::time::Duration::from_millis(400));
    let json = end(run);
    assert_eq!(
        (
            number(&json, "events_built"),
            number(&json, "events_partial")
        ),
        (30, 70),
        "{json}"
    );
    let events = hld::events(&files(&json));
    for event in &events {
        let sources: Vec<_> = event.subs.iter().map(|sub| sub.0 & 0xffff).collect();
        let all = [address(0), address(1), address(2)];
        assert_eq!(
            sources,
            if event.incomplete {
                &all[..2]
            } else {
                &all[..]
            }
        );
    }
    assert_eq!(events.iter().filter(|event| event.incomplete).count(), 70);
    assert_closed(&json, folder.path());
}
