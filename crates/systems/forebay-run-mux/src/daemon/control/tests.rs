use std::time::Duration;

use forebay_mux::transmit::Sender;
use forebay_sys::clock::monotonic_ns;

use super::super::tests::Rig;
use super::*;
use crate::control::{Page, Target};
use crate::driver::emulated::EmulatedOptions;

/// One that asks in the same thread.
struct Voice(SeqSocket);

impl Voice {
    fn of(rig: &Rig) -> Self {
        let path = rig.daemon.plan.settings.control_path();
        Self(SeqSocket::connect(&path).unwrap())
    }

    fn say(&self, record: &[u8]) {
        assert!(self.0.send(record, &[]).unwrap());
    }

    /// What came, after a look of the daemon; nothing: the connection is over.
    fn hear(&self, rig: &mut Rig) -> Option<Answer> {
        rig.daemon.look(Duration::ZERO).unwrap();
        let mut record = vec![0; 1 << 17];
        match self.0.receive(&mut record).unwrap() {
            Arrived::Record(bytes) => Some(Answer::parse(&record[..bytes]).unwrap()),
            Arrived::End => None,
            Arrived::Nothing => panic!("no answer"),
        }
    }

    fn ask(&self, rig: &mut Rig, request: &Request) -> Answer {
        self.say(&request.emit().unwrap());
        self.hear(rig).unwrap()
    }

    fn set(&self, rig: &mut Rig, said: &[(Target, &str, &str)]) -> Answer {
        let changes = said.iter().map(|(of, key, value)| Change {
            of: of.clone(),
            keys: [((*key).to_owned(), (*value).to_owned())].into(),
        });
        self.ask(rig, &Request::Set(changes.collect()))
    }

    fn status(&self, rig: &mut Rig) -> Value {
        match self.ask(rig, &Request::Status(Page { first: 0 })) {
            Answer::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }
}

fn client(name: &str) -> Target {
    Target::Client(name.to_owned())
}

fn rig() -> Rig {
    Rig::new("", &EmulatedOptions::default())
}

/// What was refused.
#[track_caller]
fn refusal(answer: Option<Answer>) -> Refused {
    match answer {
        Some(Answer::Refused(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_status_is_that_of_the_engine_and_of_the_client() {
    let mut rig = rig();
    let voice = Voice::of(&rig);
    let mut station = rig.join("a");
    station.send(3);
    rig.daemon.round(monotonic_ns()).unwrap();
    let status = voice.status(&mut rig);
    let a = &status["clients"][0];
    assert_eq!(
        (&a["name"], &a["is_connected"]),
        (&json!("a"), &json!(true))
    );
    assert_eq!(a["pid"], std::process::id());
    assert_eq!(
        (&a["packets_asked"], &a["packets_sent"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(a["settings"]["guarantee"], 16);
    assert_eq!(status["clients"][1]["is_connected"], false);
    assert_eq!(status["classes"][0]["settings"]["policy"], "round-robin");
    assert_eq!(status["classes"][0]["clients"], json!(["a", "b"]));
    assert_eq!(status["next"], Value::Null);
    drop(station);
    rig.daemon.look(Duration::ZERO).unwrap();
    let a = &voice.status(&mut rig)["clients"][0];
    assert_eq!(
        (&a["is_connected"], &a["pid"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(a["parted"]["left"], 1);
}

#[test]
fn what_is_set_holds_in_the_engine_for_those_that_are_there_and_those_that_come() {
    let mut rig = rig();
    let voice = Voice::of(&rig);
    let mut station = rig.join("a");
    let answer = voice.set(
        &mut rig,
        &[
            (Target::Class(0), "policy", "token-bucket"),
            (client("a"), "rate_bps", "1Mbps"),
            (client("a"), "sojourn_max_us", "2ms"),
            (client("b"), "transmit_queue", "7"),
        ],
    );
    let Answer::Set(changed) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(
        changed[1].to_string(),
        "client a: rate_bps = 1000000, was null"
    );
    let bound = rig.daemon.plan.sender(&rig.daemon.plan.clients[0]);
    assert_eq!(bound.sojourn_max_ns, Some(2_000_000));
    // 64 KiB go at once, then 1 Mb/s: of 2,000 packets of 60 bytes not all can go now.
    station.send(1_000);
    let now_ns = monotonic_ns();
    (0..40).for_each(|_| drop(rig.daemon.round(now_ns)));
    station.send(1_000);
    (0..40).for_each(|_| drop(rig.daemon.round(now_ns)));
    let sent = rig.counts(0).packets_sent;
    assert!(sent > 0 && sent * 60 <= 65_536 + 60, "{sent}");
    let _b = rig.join("b");
    let said = Sender {
        class: 0,
        queue_packets: 7,
        sojourn_max_ns: None,
    };
    let plan = &rig.daemon.plan;
    assert_eq!(plan.sender(&plan.clients[1]), said);
    let summary = rig.daemon.summary();
    assert_eq!((summary.changes.len(), summary.changes_made), (4, 4));
    assert_eq!(rig.daemon.control.news().len(), 4);
    assert_eq!(rig.daemon.mux.residual().items, 0);
}

#[test]
fn of_settings_of_which_one_is_wrong_none_is_set() {
    let mut rig = rig();
    let voice = Voice::of(&rig);
    let before = rig.daemon.plan.clients.clone();
    for (said, told) in [
        ((client("a"), "rate_bps", "1"), "write 8000 or more"),
        (
            (client("a"), "rate_bps", "9000"),
            "add class 0 policy=token-bucket",
        ),
        ((client("a"), "class", "1"), "class is 1"),
        (
            (client("a"), "guarantee", "5000"),
            "guarantee = 5000: it is more than the client's queue",
        ),
        (
            (client("a"), "queue", "2"),
            "queue = 2: it is less than the 16 frames that the client is guaranteed",
        ),
        (
            (client("a"), "rate_bps", "10MB"),
            "write an integer from 8000 to 1000000000000, in digits",
        ),
        ((client("a"), "sojourn_max_us", "soon"), "in digits"),
        ((client("a"), "slot_us", "5"), "add class 0 policy=tdm"),
        ((client("z"), "queue", "8"), "a, b"),
        ((client("a"), "uid", "8"), "cannot be changed"),
        ((client("a"), "quee", "8"), "no such key"),
        ((Target::Class(0), "guard_us", "8"), "no class goes before"),
        ((Target::Class(1), "policy", "window"), "0 to 0"),
        (
            (Target::Class(0), "policy", "windows"),
            "did you mean \"window\"?",
        ),
    ] {
        let right = (client("b"), "queue", "64");
        let refused = refusal(Some(voice.set(&mut rig, &[right, said])));
        assert_eq!(refused.reason, Why::Mistakes);
        assert!(refused.to_string().contains(told), "{told}: {refused}");
        assert_eq!(rig.daemon.plan.clients, before);
    }
    let nothing = refusal(Some(voice.set(&mut rig, &[])));
    assert!(nothing.to_string().contains("nothing is said"), "{nothing}");
    assert_eq!(rig.daemon.summary().changes_made, 0);
}

#[test]
fn one_that_may_not_ask_is_told_so_and_nothing_else() {
    let mut rig = rig();
    let own = rustix::process::geteuid().as_raw();
    rig.daemon.control.users = vec![own + 1];
    let voice = Voice::of(&rig);
    voice.say(&Request::Status(Page { first: 0 }).emit().unwrap());
    let refused = refusal(voice.hear(&mut rig));
    assert_eq!(refused.reason, Why::NotAllowed);
    assert!(refused.text.contains("mux.control_uid"), "{refused}");
    assert_eq!(voice.hear(&mut rig), None);
    assert_eq!(rig.daemon.summary().refused["control_not_allowed"], 1);
}

#[test]
fn what_is_no_request_is_told_and_ends_the_connection() {
    for record in [
        &b"FBMX\x01\x00\x01\x00{}"[..],
        b"x",
        &[0; REQUEST_BYTES_MAX + 100],
    ] {
        let mut rig = rig();
        let voice = Voice::of(&rig);
        voice.say(record);
        assert_eq!(refusal(voice.hear(&mut rig)).reason, Why::Malformed);
        assert_eq!(voice.hear(&mut rig), None);
    }
}

#[test]
fn those_that_ask_too_much_or_nothing_are_let_go() {
    let mut rig = rig();
    let silent: Vec<_> = (0..ASKERS_MAX).map(|_| Voice::of(&rig)).collect();
    rig.daemon.look(Duration::ZERO).unwrap();
    let more = Voice::of(&rig);
    assert_eq!(refusal(more.hear(&mut rig)).reason, Why::Crowded);
    serve(&mut rig.daemon, monotonic_ns() + SILENCE_NS_MAX);
    assert!(rig.daemon.control.askers.is_empty());
    drop(silent);
    // It asks and does not read: when no more answers go in, it goes.
    let deaf = Voice::of(&rig);
    let request = Request::Status(Page { first: 0 }).emit().unwrap();
    for asked in 0.. {
        assert!(asked < 100_000, "it is waited for");
        if !matches!(deaf.0.send(&request, &[]), Ok(true)) {
            break;
        }
        rig.daemon.look(Duration::ZERO).unwrap();
        if rig.daemon.control.askers.is_empty() {
            break;
        }
    }
    rig.daemon.look(Duration::ZERO).unwrap();
    assert!(rig.daemon.control.askers.is_empty());
}

#[test]
fn a_long_list_comes_in_parts() {
    let mut rig = rig();
    let voice = Voice::of(&rig);
    let first = PAGE_CLIENTS as u32;
    for first in [1, 2, first, u32::MAX] {
        let Answer::Status(page) = voice.ask(&mut rig, &Request::Status(Page { first })) else {
            panic!("no status");
        };
        let expected = 2_usize.saturating_sub(first as usize);
        assert_eq!(page["clients"].as_array().unwrap().len(), expected);
    }
}

#[test]
fn a_schedule_is_set_with_its_windows_or_not_at_all() {
    let mut rig = rig();
    let voice = Voice::of(&rig);
    let class = || (Target::Class(0), "policy", "tdm");
    let of = |name, key, value| (client(name), key, value);
    for (said, told) in [
        (vec![class()], "a: it has no window"),
        (
            vec![class(), of("a", "slot_offset_us", "0")],
            "b: it has no window",
        ),
        (
            vec![
                class(),
                of("a", "slot_offset_us", "0"),
                of("b", "slot_offset_us", "999"),
            ],
            "begins before the one before it is over",
        ),
        (
            vec![
                class(),
                of("a", "slot_offset_us", "0"),
                of("b", "slot_offset_us", "9500"),
            ],
            "behind the cycle of 10000000 ns",
        ),
        (
            vec![
                class(),
                of("a", "slot_offset_us", "0"),
                of("a", "slot_us", "12"),
                of("b", "slot_offset_us", "5000"),
            ],
            "slot_us is 13 at least",
        ),
    ] {
        let refused = refusal(Some(voice.set(&mut rig, &said)));
        assert!(refused.to_string().contains(told), "{told}: {refused}");
    }
    let said = [
        class(),
        of("a", "slot_offset_us", "5000"),
        of("b", "slot_offset_us", "0"),
    ];
    assert!(matches!(voice.set(&mut rig, &said), Answer::Set(_)));
    // Its window is from 5 to 6 ms of each cycle of 10 ms: 4 packets wait until then.
    let mut station = rig.join("a");
    station.send(4);
    let cycle_ns = (monotonic_ns() / 10_000_000 + 2) * 10_000_000;
    rig.daemon.round(cycle_ns + 4_999_000).unwrap();
    assert_eq!(rig.counts(0).packets_sent, 0);
    assert_eq!(rig.daemon.ask_at_ns, Some(cycle_ns + 5_000_000));
    for after_ns in (0..100_000).step_by(1000) {
        rig.daemon.round(cycle_ns + 5_000_000 + after_ns).unwrap();
    }
    assert_eq!(rig.counts(0).packets_sent, 4);
}
