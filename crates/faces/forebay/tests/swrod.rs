//! `forebay swrod` beside publishers that publish what a card makes, sound and not.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_run_net::{Address, NetRecord, Publisher, Settings};
use forebay_wire::felix::{Elink, Fid, Generated, TtcMessage};
use rig::{Ended, Run, forebay, start};
use serde_json::{Value, json};

const MOMENT: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(10);

/// An address that nobody else has.
fn address(backend: &str) -> Address {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let text = match backend {
        "shm" => format!("shm://swrod-{}-{number}", std::process::id()),
        _ => "tcp://127.0.0.1:0".into(),
    };
    text.parse().unwrap()
}

fn fid(link: u16) -> u64 {
    Fid::to_host(0, 0, Elink::of_link(link).unwrap()).0
}

/// A publisher in a thread of its own: it waits for its subscriber, publishes, and ends in order.
fn publish(
    backend: &str,
    what: impl FnOnce(&mut Publisher) + Send + 'static,
) -> (String, JoinHandle<NetRecord>) {
    let mut publisher = Publisher::listen(&address(backend), &Settings::default()).unwrap();
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

/// A generated chunk.
fn chunk(l1id: u64, bytes: usize) -> Vec<u8> {
    let mut chunk = vec![0; bytes];
    let generated = Generated {
        first: 0xaa,
        l1id: l1id as u8,
        elink: 0,
        width: 16,
    };
    assert!(generated.emit(&mut chunk));
    chunk
}

/// The message about a trigger.
fn trigger(l1id: u64) -> Vec<u8> {
    let message = TtcMessage {
        l1id: l1id as u32,
        l0id: l1id as u32,
        triggers: l1id,
        ..TtcMessage::default()
    };
    message.emit().to_vec()
}

fn swrod(addresses: &[&str], more: &[&str]) -> Run {
    let mut command = forebay();
    command.arg("swrod").args(addresses).args(more);
    start(command.args(["--format", "json"]))
}

/// The one object, whose books close.
fn closed(ended: &Ended, code: i32) -> Value {
    let report = ended.json_of(code);
    assert_eq!(report["residual_items"], 0, "{report}");
    assert_eq!(report["residual_bytes"], 0, "{report}");
    let sum = |key: &str| {
        let links = report["elinks"].as_array().unwrap().iter();
        links.map(|link| link[key].as_u64().unwrap()).sum::<u64>()
    };
    for key in ["chunks", "bytes", "missing", "repeated"] {
        assert_eq!(report[key], sum(key), "{key}: {report}");
    }
    report
}

#[test]
fn what_came_as_it_should_is_told_by_e_link() {
    for backend in ["shm", "tcp"] {
        let (at, publisher) = publish(backend, |publisher| {
            for l1id in 0..1000 {
                for link in 0..12 {
                    publisher
                        .publish(fid(link), 0, &chunk(l1id, 8 + 16 * usize::from(link)))
                        .unwrap();
                }
                publisher.publish(fid(24), 0, &trigger(l1id)).unwrap();
            }
        });
        let more = ["--elinks", "0-11", "--elink", "0x600", "--fragments"];
        let ended = swrod(&[&at], &more).end();
        let published = publisher.join().unwrap();
        let report = closed(&ended, 0);
        assert_eq!(
            (&report["chunks"], published.messages),
            (&json!(13_000), 13_000)
        );
        assert_eq!(report["bytes"], published.bytes);
        assert_eq!(
            (&report["bad_payload"], &report["flagged"]),
            (&json!({}), &json!({}))
        );
        let links = report["elinks"].as_array().unwrap();
        assert_eq!(links.len(), 13);
        assert_eq!(
            (&links[1]["elink"], &links[1]["chunks"]),
            (&json!(64), &json!(1000))
        );
        assert_eq!(links[1]["fid"], "0x1000000000400000");
        assert_eq!(report["fragments"]["complete"], 1000, "{report}");
        assert_eq!(report["fragments"]["incomplete"], 0);
        assert!(report["chunk_rate_hz"].as_f64().unwrap() > 0.0);
        assert!(report["goodput_bps"].as_f64().unwrap() > 0.0);
        assert!(
            ended.stderr.contains("subscribed at 1 publisher\n"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn what_is_lost_comes_twice_or_is_damaged_is_named() {
    for backend in ["shm", "tcp"] {
        let (at, publisher) = publish(backend, |publisher| {
            for l1id in 0..600 {
                for link in 0..4 {
                    let (mut bytes, mut status, mut copies) = (chunk(l1id, 40), 0, 1);
                    match (link, l1id) {
                        (1, 100..105 | 300) => copies = 0,
                        (2, 50) => copies = 2,
                        (3, 7) => bytes[20] ^= 1,
                        (3, 8) => bytes.truncate(30),
                        // Flagged, its content says nothing more.
                        (3, 9) => (status, bytes) = (9, bytes[..30].to_vec()),
                        _ => {}
                    }
                    for _ in 0..copies {
                        publisher.publish(fid(link), status, &bytes).unwrap();
                    }
                }
            }
        });
        let more = [
            "--elinks",
            "0-3",
            "--fragments",
            "--fragments-window",
            "256",
        ];
        let ended = swrod(&[&at], &more).end();
        let report = closed(&ended, 1);
        assert_eq!(publisher.join().unwrap().messages, 2400 - 6 + 1);
        assert_eq!(report["chunks"], 2400 - 6 + 1);
        let links = &report["elinks"];
        assert_eq!(
            (&links[1]["missing"], &links[1]["jumps"]),
            (&json!(6), &json!(2))
        );
        assert_eq!(
            (&links[2]["repeated"], &links[2]["missing"]),
            (&json!(1), &json!(0))
        );
        assert_eq!(links[3]["bad_payload"], json!({"length": 1, "ramp": 1}));
        assert_eq!(report["flagged"], json!({"fw_crc": 1, "fw_truncated": 1}));
        assert_eq!(report["fragments"]["complete"], 594);
        assert_eq!(report["fragments"]["incomplete"], 6);
        assert_eq!(report["fragments"]["repeated_chunks"], 1);
        assert_eq!(links[1]["fragments_missed"], 6);
        assert_eq!(links[0]["fragments_missed"], 0);
    }
}

#[test]
fn e_links_of_several_publishers_make_fragments_together() {
    let of = |links: std::ops::Range<u16>| {
        move |publisher: &mut Publisher| {
            for l1id in 0..500 {
                for link in links.clone() {
                    publisher.publish(fid(link), 0, &chunk(l1id, 100)).unwrap();
                }
            }
        }
    };
    let (first, one) = publish("tcp", of(0..3));
    let (second, other) = publish("shm", of(3..6));
    let ended = swrod(&[&first, &second], &["--elinks", "0-5", "--fragments"]).end();
    one.join().unwrap();
    other.join().unwrap();
    let report = closed(&ended, 0);
    assert_eq!(report["fragments"]["complete"], 500, "{report}");
    assert_eq!(report["chunks"], 3000);
    assert!(
        ended.stderr.contains("subscribed at 2 publishers"),
        "{}",
        ended.stderr
    );
}

/// What is known of a publisher that publishes until it is told to stop.
#[derive(Default)]
struct Endless {
    stop: AtomicBool,
    published: AtomicU64,
}

fn endless(backend: &str) -> (String, Arc<Endless>, JoinHandle<NetRecord>) {
    let state = Arc::new(Endless::default());
    let told = Arc::clone(&state);
    let (at, publisher) = publish(backend, move |publisher| {
        let mut l1id = 0;
        while !told.stop.load(Ordering::Relaxed) {
            for _ in 0..16 {
                let copies = publisher.publish(fid(0), 0, &chunk(l1id, 64)).unwrap();
                publisher.publish(fid(1), 0, &chunk(l1id, 64)).unwrap();
                told.published.fetch_add(copies.into(), Ordering::Relaxed);
                l1id += 1;
            }
            publisher.poll(MOMENT / 10).unwrap();
        }
    });
    (at, state, publisher)
}

#[test]
fn an_order_and_a_limit_end_it_with_its_report() {
    for (backend, signal) in [("shm", "INT"), ("tcp", "TERM")] {
        let (at, state, publisher) = endless(backend);
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        let run = swrod(&[&at], &["--out", out.to_str().unwrap()]);
        // What was published to it comes before its end in order.
        rig::wait_for("chunks", || {
            (state.published.load(Ordering::Relaxed) > 1000).then_some(())
        });
        assert!(rig::signal(signal, run.pid()));
        let report = closed(&run.end(), 0);
        assert!(report["chunks"].as_u64().unwrap() > 1000);
        assert_eq!(rig::audit(&out).code(), Some(0));

        for limit in [["--count", "1000"], ["--duration", "50ms"]] {
            // Another E-link that is one chunk behind at any moment is none that lost one.
            let more = [&limit[..], &["--elinks", "0-1", "--fragments"]].concat();
            let report = closed(&swrod(&[&at], &more).end(), 0);
            assert_eq!(report["fragments"]["incomplete"], 0, "{report}");
            assert!(report["chunks"].as_u64().unwrap() > 0);
            if limit[0] == "--count" {
                assert!(report["chunks"].as_u64().unwrap() >= 1000);
            }
        }
        state.stop.store(true, Ordering::Relaxed);
        assert!(publisher.join().unwrap().is_closed());
    }
}

#[test]
fn who_checked_nothing_says_so_with_2() {
    let (at, publisher) = publish("tcp", |publisher| {
        publisher.publish(fid(0), 0, &chunk(0, 64)).unwrap();
    });
    let ended = swrod(&[&at], &["--elink", "3"]).end();
    publisher.join().unwrap();
    let report = closed(&ended, 2);
    assert_eq!(
        (&report["chunks"], &report["elinks"][0]["elink"]),
        (&json!(0), &json!(3))
    );
    assert!(ended.stderr.contains("no chunk came"), "{}", ended.stderr);

    for (args, says) in [
        (&["--fragments"][..], "--elinks 0-11"),
        (&["--elinks", "40"], "up to 31"),
        (&["--elink", "5000"], "up to 2047"),
        (
            &["--fragments", "--elinks", "0-3", "--payload", "none"],
            "--payload none",
        ),
    ] {
        let ended = swrod(&["tcp://127.0.0.1:9"], args).end();
        assert_eq!(ended.code(), Some(2), "{args:?}");
        assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn people_are_told_in_a_table() {
    let (at, publisher) = publish("shm", |publisher| {
        for l1id in [0, 1, 4] {
            publisher.publish(fid(1), 0, &chunk(l1id, 24)).unwrap();
        }
    });
    let ended = start(forebay().args(["swrod", &at])).end();
    publisher.join().unwrap();
    assert_eq!(ended.code(), Some(1));
    let told = &ended.stdout;
    assert!(told.starts_with("3 chunks (72 B) in "), "{told}");
    assert!(
        told.contains(
            "\n0x1000000000400000       3     72        2      1         0    0        0\n"
        ),
        "{told}"
    );
    assert!(told.contains("\nmissing 2, repeated 0, "), "{told}");
}
