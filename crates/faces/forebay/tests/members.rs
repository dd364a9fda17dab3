//! A chain of members: one file, one command, the books of all.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what must not be"
)]

mod rig;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rig::{Run, forebay, hld, number, signal, start};
use serde_json::Value;
use tempfile::TempDir;

const MEMBERS: [&str; 3] = ["card", "tohost", "builder"];

/// A card, its reader and a builder of its two E-links, in `folder`; `name` tells shared memory apart, and `limit` ends the triggers.
fn chain(folder: &Path, name: &str, limit: &str) {
    let name = format!("{name}-{}", std::process::id());
    let text = format!(
        r#"
[chain]
directory = "run"
[members.card]
kind = "card"
[members.card.card]
name = "{name}"
socket = "card.sock"
[members.card.ttc]
rate_hz = 2000
{limit}
[[members.card.links]]
links = [0, 1]
[members.tohost]
kind = "tohost"
[members.tohost.tohost]
subscribers_min = 1
[[members.tohost.devices]]
socket = "card.sock"
address = "shm://{name}"
[members.builder]
kind = "evb"
[[members.builder.sources]]
address = "shm://{name}"
elinks = [0, 64]
[members.builder.receiver]
queue_bytes = 1048576
"#
    );
    fs::write(folder.join("chain.toml"), text).unwrap();
}

fn run(folder: &Path, more: &[&str]) -> Run {
    let mut command = forebay();
    command.current_dir(folder).args(["run", "chain.toml"]);
    start(command.args(more))
}

fn record(folder: &Path, member: &str) -> Value {
    let path = folder.join("run").join(member).join("run.json");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// The process of a member.
fn pid_of(chain: u32, member: &str) -> u32 {
    let is_it = |pid: &u32| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.contains(&format!("--only\0{member}\0"))
    };
    let mut children = rig::children_of(chain).into_iter();
    children.find(is_it).unwrap()
}

/// Waits until events are in the builder's file.
fn wait_until_at_work(folder: &Path) {
    wait_until_at_work_at(&folder.join("run/builder"), "sink");
}

/// Waits until events have left a place of a member's books.
fn wait_until_at_work_at(directory: &Path, place: &str) {
    rig::wait_items(directory, (place, "events"), "outgoing", 100);
}

#[test]
fn every_trigger_of_the_card_is_an_event_in_the_builders_file() {
    let folder = TempDir::new().unwrap();
    chain(folder.path(), "whole", "triggers = 3000");
    let json = run(folder.path(), &["--format", "json"]).end().json_of(0);
    let members = json["members"].as_array().unwrap();
    let names: Vec<&str> = members
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, MEMBERS);
    for one in members {
        assert_eq!(
            (&one["exit_code"], &one["failed"]),
            (&0.into(), &Value::Null),
            "{one}"
        );
    }
    for key in [
        "residual_items",
        "residual_bytes",
        "left_items",
        "left_bytes",
    ] {
        assert_eq!(number(&json, key), 0, "{key}");
    }
    let records = MEMBERS.map(|member| record(folder.path(), member));
    assert_eq!(number(&records[0], "triggers"), 3000);
    assert_eq!(number(&records[1], "chunks"), 6000);
    let directory = folder.path().join("run/builder");
    let files = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|of| of == "hld"))
        .collect();
    assert_eq!(hld::events(&files).len(), 3000, "read from the file");
    for member in MEMBERS {
        assert!(
            folder
                .path()
                .join("run")
                .join(member)
                .join("ledger")
                .exists(),
            "{member}"
        );
        let audited = forebay()
            .current_dir(folder.path().join("run"))
            .args(["audit", member])
            .output()
            .unwrap();
        assert_eq!(audited.status.code(), Some(0), "{member}");
    }
}

#[test]
fn the_first_control_c_ends_a_chain_in_the_order_of_the_data() {
    let folder = TempDir::new().unwrap();
    chain(folder.path(), "asked", "");
    let run = run(folder.path(), &[]);
    wait_until_at_work(folder.path());
    assert!(signal("INT", run.pid()));
    let ended = run.end();
    assert_eq!(ended.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    for member in MEMBERS {
        let line = format!(
            "{member} ({}): exit status: 0; its books close",
            match member {
                "builder" => "evb",
                other => other,
            }
        );
        assert!(ended.stdout.contains(&line), "{}", ended.stdout);
    }
    // Nobody but the card was asked to end: the others ended with their input.
    let [card, _, builder] = MEMBERS.map(|member| record(folder.path(), member));
    assert_eq!(builder["reason"], "input_ended", "{builder}");
    assert_eq!(number(&card, "triggers"), number(&builder, "events_built"));
}

#[test]
fn a_member_that_is_killed_is_named_and_the_others_close_their_books() {
    let folder = TempDir::new().unwrap();
    chain(folder.path(), "killed", "");
    let run = run(folder.path(), &[]);
    wait_until_at_work(folder.path());
    let card = pid_of(run.pid(), "card");
    assert!(signal("KILL", card));
    let ended = run.end();
    assert_eq!(ended.code(), Some(2), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stderr.contains("card has failed, and the chain ends"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("card: signal: 9"), "{}", ended.stderr);
    assert!(
        ended
            .stdout
            .contains("card (card): signal: 9 (SIGKILL); it left no record"),
        "{}",
        ended.stdout
    );
    for member in ["tohost", "builder"] {
        assert_eq!(
            number(&record(folder.path(), member), "residual_items"),
            0,
            "{member}"
        );
    }
}

#[test]
fn members_end_with_the_process_that_started_them() {
    let folder = TempDir::new().unwrap();
    chain(folder.path(), "orphans", "");
    let run = run(folder.path(), &[]);
    wait_until_at_work(folder.path());
    let pids = MEMBERS.map(|member| pid_of(run.pid(), member));
    assert!(signal("KILL", run.pid()));
    drop(run.end());
    rig::wait_for("members that end", || {
        let is_over = !pids.iter().any(|pid| rig::is_alive(*pid));
        is_over.then_some(())
    });
    for member in MEMBERS {
        assert_eq!(
            number(&record(folder.path(), member), "residual_items"),
            0,
            "{member}"
        );
    }
}

#[test]
fn a_builder_of_datagrams_ends_with_the_process_that_started_it() {
    let folder = TempDir::new().unwrap();
    let text = "[chain]\ndirectory = \"run\"\n[members.builder]\nkind = \"evb\"\n[[members.builder.sources]]\nbase_port = 0\n";
    fs::write(folder.path().join("chain.toml"), text).unwrap();
    let run = run(folder.path(), &[]);
    let ledger = folder.path().join("run/builder/ledger");
    rig::wait_for("the ledger", || ledger.exists().then_some(()));
    let builder = pid_of(run.pid(), "builder");
    rig::wait_for("the stages", || {
        (rig::stages_of(builder).len() == 2).then_some(())
    });
    assert!(signal("KILL", run.pid()));
    drop(run.end());
    rig::wait_for("the builder's end", || {
        (!rig::is_alive(builder)).then_some(())
    });
    assert_eq!(record(folder.path(), "builder")["reason"], "requested");
}

#[test]
fn one_member_runs_alone_with_keys_of_the_command_line() {
    let folder = TempDir::new().unwrap();
    chain(folder.path(), "alone", "triggers = 100");
    let only = [
        "--only",
        "card",
        "--set",
        "card.wait_for_readers=false",
        "--set",
        "card.drain_s=0",
        "--format",
        "json",
    ];
    let ended = run(folder.path(), &only).end();
    let card: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(number(&card, "triggers"), 100, "{card}");
    let kept = record(folder.path(), "card");
    assert_eq!(
        kept["pids"], card["pids"],
        "it lies where that of the chain does"
    );
    let nobody = run(folder.path(), &["--only", "crd"]).end();
    assert_eq!(nobody.code(), Some(2));
    assert!(
        nobody
            .stderr
            .contains("its members are card, tohost, builder"),
        "{}",
        nobody.stderr
    );
    let flags = run(folder.path(), &["--completion", "wait"]).end();
    assert_eq!(flags.code(), Some(2));
    assert!(
        flags
            .stderr
            .contains("flags are those of the event builder"),
        "{}",
        flags.stderr
    );
}

/// The example of link readout, with so short a time.
fn readout(folder: &Path, duration_ms: u64) {
    let example = forebay_testing::root().join("examples/readout.toml");
    let text = fs::read_to_string(example).unwrap();
    let short = format!("duration_ms = {duration_ms}");
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let n = NAMES.fetch_add(1, Ordering::Relaxed);
    let name = format!("\"shm://readout-{}-{n}", std::process::id());
    let text = text
        .replace("duration_ms = 10_000", &short)
        .replace("\"shm://readout", &name)
        .replace("rate_hz = 1_000_000", "rate_hz = 5_000");
    fs::write(folder.join("chain.toml"), text).unwrap();
}

#[test]
fn a_subscriber_is_a_member_and_sees_every_chunk() {
    let folder = TempDir::new().unwrap();
    readout(folder.path(), 300);
    let json = run(folder.path(), &["--format", "json"]).end().json_of(0);
    let of = |member: usize| &json["members"][member]["record"];
    let triggers = number(of(0), "triggers");
    assert!(triggers > 0, "{json}");
    assert_eq!(number(of(2), "chunks"), 12 * triggers);
    let latency = &of(2)["latency_ns"];
    assert!(latency["count"].as_u64() > Some(0), "{latency}");
    let audited = audit_of(&folder.path().join("data/readout")).json_of(0);
    assert_eq!(audited["links"].as_array().unwrap().len(), 2, "{audited}");
    let link = link(&audited, "messaging");
    for end in ["sent", "received"] {
        assert_eq!(number(&link[end], "items"), 12 * triggers, "{link}");
    }
}

/// A link of a chain, as `audit` tells it.
fn link<'a>(audited: &'a Value, place: &str) -> &'a Value {
    let mut links = audited["links"].as_array().unwrap().iter();
    let found = links.find(|link| link["place"] == place);
    found.unwrap_or_else(|| panic!("no {place} in {audited}"))
}

#[test]
fn a_card_is_held_against_the_reader_of_its_memory() {
    let folder = TempDir::new().unwrap();
    readout(folder.path(), 200);
    let json = run(folder.path(), &["--format", "json"]).end().json_of(0);
    let blocks = number(&json["members"][1]["record"], "blocks");
    assert!(blocks > 0, "{json}");
    let audited = audit_of(&folder.path().join("data/readout")).json_of(0);
    let memory = link(&audited, "dma");
    for end in ["sent", "received"] {
        assert_eq!(number(&memory[end], "items"), blocks, "{memory}");
    }
    assert_eq!(number(&memory["unexplained"], "items"), 0, "{memory}");
}

/// Books of the run before lie beside those of this one: event builders and to-host leave some under other names each time.
#[test]
fn a_chain_in_the_directory_of_another_one_is_held_against_its_own_books_alone() {
    let folder = TempDir::new().unwrap();
    for triggers in [500, 300] {
        chain(folder.path(), "again", &format!("triggers = {triggers}"));
        assert_eq!(run(folder.path(), &[]).end().code(), Some(0));
        let audited = audit_of(&folder.path().join("run")).json_of(0);
        let sent = number(&link(&audited, "messaging")["sent"], "items");
        assert_eq!(sent, 2 * triggers, "{audited}");
    }
}

#[test]
fn a_chain_at_work_is_no_alarm_and_one_without_a_member_is() {
    let folder = TempDir::new().unwrap();
    chain(folder.path(), "at-work", "");
    let chain = run(folder.path(), &[]);
    wait_until_at_work(folder.path());
    let directory = folder.path().join("run");
    for _ in 0..10 {
        let audited = audit_of(&directory).json_of(0);
        assert_eq!(audited["missing"], serde_json::json!([]), "{audited}");
    }
    signal("INT", chain.pid());
    assert_eq!(chain.end().code(), Some(0));
    fs::remove_dir_all(directory.join("builder")).unwrap();
    let audited = audit_of(&directory).json_of(1);
    assert_eq!(
        audited["missing"],
        serde_json::json!(["builder"]),
        "{audited}"
    );
    fs::write(directory.join("chain.json"), "{").unwrap();
    assert_eq!(
        audit_of(&directory).code(),
        Some(2),
        "a roll that cannot be read"
    );
}

fn audit_of(directory: &Path) -> rig::Ended {
    let mut command = forebay();
    start(
        command
            .arg("audit")
            .arg(directory)
            .args(["--format", "json"]),
    )
    .end()
}

/// The books of one member are those of a shorter run: each member's own books close, and the link to it does not.
#[test]
fn what_vanished_between_two_members_is_found() {
    for (member, place) in [("swrod", "messaging"), ("tohost", "dma")] {
        let folder = TempDir::new().unwrap();
        readout(folder.path(), 100);
        assert_eq!(run(folder.path(), &[]).end().code(), Some(0));
        let data = folder.path().join("data/readout");
        let other = TempDir::new().unwrap();
        readout(other.path(), 50);
        assert_eq!(run(other.path(), &[]).end().code(), Some(0));
        let books = data.join(member);
        fs::remove_dir_all(&books).unwrap();
        fs::rename(other.path().join("data/readout").join(member), &books).unwrap();
        let audited = audit_of(&data).json_of(1);
        for (name, verdict) in audited["runs"].as_object().unwrap() {
            assert_eq!(verdict["closed"], true, "{name}: {verdict}");
        }
        assert_eq!(audited["closed"], false);
        let unexplained = &link(&audited, place)["unexplained"]["items"];
        assert!(unexplained.as_i64() > Some(0), "{audited}");
    }
}

/// What the example says, but for paths, names and times, is what the demonstration writes.
#[test]
fn the_demonstration_of_link_readout_is_the_example() {
    let folder = TempDir::new().unwrap();
    let mut command = forebay();
    command.current_dir(folder.path());
    let demo = ["demo", "tohost", "--duration", "50ms", "--out", "demo"];
    let ended = start(command.args(demo)).end();
    assert_eq!(ended.code(), Some(0), "{}{}", ended.stdout, ended.stderr);
    let written = fs::read_to_string(folder.path().join("demo/chain.toml")).unwrap();
    let example = forebay_testing::root().join("examples/readout.toml");
    let example = fs::read_to_string(example).unwrap();
    let [mut written, mut example] = [written, example].map(|text| {
        let table: toml::Table = text.parse().unwrap();
        serde_json::to_value(table).unwrap()
    });
    let names = [
        "/chain/directory",
        "/members/card/card/socket",
        "/members/card/card/trigger_times",
        "/members/card/ttc/duration_ms",
        "/members/swrod/swrod/trigger_times",
        "/members/tohost/devices/0/address",
        "/members/tohost/devices/0/socket",
    ];
    for said in [&mut written, &mut example] {
        for name in names {
            *said.pointer_mut(name).unwrap() = Value::Null;
        }
        let addresses = said.pointer_mut("/members/swrod/swrod/addresses").unwrap();
        *addresses = addresses.as_array().unwrap().len().into();
    }
    assert_eq!(written, example);
}

#[test]
fn check_tells_who_is_joined_to_whom_and_what_is_not() {
    let example = forebay_testing::root().join("examples/chain.toml");
    let check =
        |file: &Path, more: &[&str]| start(forebay().arg("check").arg(file).args(more)).end();
    let json = check(&example, &["--format", "json"]).json_of(0);
    assert_eq!(json["open_ends"], serde_json::json!([]), "{json}");
    assert_eq!(
        json["members"][1]["connects"],
        serde_json::json!(["card0.sock"])
    );
    assert_eq!(
        json["members"][2]["connects"],
        json["members"][1]["listens"]
    );
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("chain.toml");
    let text = fs::read_to_string(&example).unwrap();
    fs::write(
        &file,
        text.replacen("\"shm://chain\"", "\"shm://other\"", 1),
    )
    .unwrap();
    let ended = check(&file, &[]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let told = "warning: builder connects to shm://chain, where no member of this chain listens";
    assert!(ended.stdout.contains(told), "{}", ended.stdout);
    fs::write(&file, text.replace("rate_hz = 10_000", "rate_hz = 0")).unwrap();
    let ended = check(&file, &[]);
    assert_eq!(ended.code(), Some(2), "{}", ended.stdout);
    assert!(
        ended
            .stderr
            .contains("members.card.ttc.rate_hz = 0: it is too small"),
        "{}",
        ended.stderr
    );
}

#[test]
fn check_tells_what_the_members_lack_of_their_host_together() {
    let folder = TempDir::new().unwrap();
    chain(folder.path(), "needs", "");
    let file = folder.path().join("chain.toml");
    let text = fs::read_to_string(&file).unwrap();
    let check = |verb: &str| {
        let mut command = forebay();
        start(command.arg(verb).arg(&file).args(["--format", "json"])).end()
    };
    let memory = |more: &str| {
        let text = text.replace("[members.card.ttc]", &format!("{more}\n[members.card.ttc]"));
        fs::write(&file, text).unwrap();
        number(&check("doctor").json_of(0)["needs"], "memory_bytes")
    };
    let [less, more] = ["dma_bytes = 67108864", "dma_bytes = 134217728"].map(memory);
    assert_eq!(more - less, 64 << 20);
    assert!(
        less > 64 << 20,
        "the builder's books and queues, too: {less}"
    );
    // As much as no host has, and one whose command is none.
    memory("dma_buffers = 8\ndma_bytes = 68719476736");
    let text = fs::read_to_string(&file).unwrap();
    let wrong = "[members.tohost]\nlaunch = [\"no-such-program\"]\n";
    fs::write(&file, text.replace("[members.tohost]\n", wrong)).unwrap();
    let json = check("check").json_of(0);
    let told = "tohost: no-such-program is in front of it: there is no such program";
    assert!(json["warnings"].to_string().contains(told), "{json}");
    let host = json["host"].as_array().unwrap();
    let memory = host
        .iter()
        .find(|check| check["name"] == "memory available")
        .unwrap();
    let found: u64 = memory["found"].as_str().unwrap().parse().unwrap();
    let wanted = number(&check("doctor").json_of(0)["needs"], "memory_bytes");
    assert!(wanted > 512 << 30, "{wanted}");
    let standing = if found < wanted { "warning" } else { "good" };
    assert_eq!(memory["standing"], standing, "{memory}");
}

/// A shell that stays between the chain and its member, and says in the log which command it has.
const LAUNCH: &str =
    r#"launch = ["sh", "-c", 'echo "launched $2 $3" >&2; "$@"; exit $?', "launcher"]"#;

/// The same chain with that in front of a member.
fn launched(folder: &Path, name: &str, member: &str) {
    chain(folder, name, "");
    let path = folder.join("chain.toml");
    let text = fs::read_to_string(&path).unwrap();
    let head = format!("[members.{member}]\n");
    assert!(text.contains(&head));
    fs::write(&path, text.replace(&head, &format!("{head}{LAUNCH}\n"))).unwrap();
}

#[test]
fn a_member_behind_a_command_ends_in_its_order_by_control_c() {
    for member in ["card", "builder"] {
        let folder = TempDir::new().unwrap();
        launched(folder.path(), &format!("launched-{member}"), member);
        let chain = run(folder.path(), &["--format", "json"]);
        wait_until_at_work(folder.path());
        signal("INT", chain.pid());
        let json = chain.end().json_of(0);
        let log = fs::read_to_string(folder.path().join(format!("run/{member}.log"))).unwrap();
        assert!(log.contains("launched run /"), "{log}");
        let [card, builder] = ["card", "builder"].map(|name| record(folder.path(), name));
        assert_eq!(card["reason"], "requested", "{json}");
        assert_eq!(builder["reason"], "input_ended", "{json}");
        assert_eq!(number(&card, "triggers"), number(&builder, "events_built"));
    }
}

#[test]
fn a_member_behind_a_command_closes_its_books_when_the_chain_is_killed() {
    let folder = TempDir::new().unwrap();
    launched(folder.path(), "launched-killed", "builder");
    let chain = run(folder.path(), &[]);
    wait_until_at_work(folder.path());
    signal("KILL", chain.pid());
    for member in MEMBERS {
        let directory = folder.path().join("run").join(member);
        rig::wait_for("the record", || {
            directory.join("run.json").exists().then_some(())
        });
        let verdict = rig::audit_json(&directory);
        assert_eq!(verdict["closed"], true, "{member}: {verdict}");
    }
}

#[test]
fn a_command_that_is_none_is_told_with_its_place() {
    let folder = TempDir::new().unwrap();
    launched(folder.path(), "launched-wrong", "card");
    let path = folder.path().join("chain.toml");
    let right = fs::read_to_string(&path).unwrap();
    for (launch, said) in [
        (r#"launch = "nice""#, "members.card.launch"),
        (r#"launch = [1]"#, "a list of words"),
        (r#"launch = []"#, "or leave it out"),
    ] {
        fs::write(&path, right.replace(LAUNCH, launch)).unwrap();
        let ended = run(folder.path(), &[]).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
    fs::write(
        &path,
        right.replace(LAUNCH, r#"launch = ["no-such-program"]"#),
    )
    .unwrap();
    let ended = run(folder.path(), &[]).end();
    assert_eq!(ended.code(), Some(2));
    assert!(
        ended.stderr.contains("starting card by no-such-program"),
        "{}",
        ended.stderr
    );
}

#[test]
fn audit_and_top_of_the_chain_show_all_members() {
    let folder = TempDir::new().unwrap();
    chain(folder.path(), "shown", "triggers = 500");
    let ended = run(folder.path(), &[]).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let directory = folder.path().join("run");
    let of = |verb: &str, more: &[&str]| {
        let mut command = forebay();
        start(command.arg(verb).arg(&directory).args(more)).end()
    };
    let audited = of("audit", &["--format", "json"]).json();
    let shown = of("top", &["--once", "--format", "json"]).json();
    let page = of("top", &["--once"]).stdout;
    assert_eq!(audited["closed"], true, "{audited}");
    for member in MEMBERS {
        let is_member = |name: &&String| name.split('/').next() == Some(member);
        for told in [&audited["runs"], &shown["runs"]] {
            let names = told.as_object().unwrap().keys();
            assert!(names.filter(is_member).count() > 0, "{member}: {told}");
        }
        assert_eq!(shown["runs"][member]["condition"], "ended", "{shown}");
        assert!(page.contains(&format!("== {member} ==\n")), "{page}");
    }
}

/// Two builders of the same E-links, whose events one mover writes.
fn moved(folder: &Path, name: &str, limit: &str) {
    chain(folder, name, limit);
    let path = folder.join("chain.toml");
    let text = fs::read_to_string(&path).unwrap();
    let (card, builder) = text.split_once("[members.builder]").unwrap();
    let mover = format!("127.0.0.1:{}", rig::free_ports(1));
    let one = format!(
        "[members.builder]{builder}[[members.builder.sinks]]\nkind = \"tcp\"\naddress = \"{mover}\"\n"
    );
    let card = card.replace("subscribers_min = 1", "subscribers_min = 2");
    let other = one.replace("members.builder", "members.other");
    let last =
        format!("[members.mover]\nkind = \"mover\"\n[members.mover.mover]\nlisten = \"{mover}\"\n");
    fs::write(&path, format!("{card}{one}{other}{last}")).unwrap();
}

#[test]
fn two_builders_deliver_to_one_mover_that_ends_behind_them() {
    let folder = TempDir::new().unwrap();
    moved(folder.path(), "moved", "triggers = 1000");
    let mut check = forebay();
    check
        .current_dir(folder.path())
        .args(["check", "chain.toml"]);
    let checked = start(&mut check).end();
    assert_eq!(checked.code(), Some(0), "{}", checked.stderr);
    let json = run(folder.path(), &["--format", "json"]).end().json_of(0);
    let of = |name: &str| {
        let mut members = json["members"].as_array().unwrap().iter();
        members.find(|one| one["name"] == name).unwrap()["record"].clone()
    };
    let [builder, other, mover] = ["builder", "other", "mover"].map(of);
    assert_eq!(number(&builder, "events_built"), 1000, "{builder}");
    assert_eq!(number(&other, "events_built"), 1000, "{other}");
    assert_eq!(number(&mover, "events_written"), 2000, "{mover}");
    assert_eq!(
        (&mover["program"], &mover["reason"]),
        (&"mover".into(), &"requested".into())
    );
    let files: Vec<_> = rig::files(&mover);
    assert_eq!(hld::events(&files).len(), 2000, "read from the files");
    assert!(files[0].starts_with(folder.path().join("run/mover").canonicalize().unwrap()));
    let audited = audit_of(&folder.path().join("run")).json_of(0);
    let names: Vec<&String> = audited["runs"].as_object().unwrap().keys().collect();
    let streams = names.iter().filter(|name| name.starts_with("mover/mover-"));
    assert_eq!(streams.count(), 2, "{names:?}");
    let links = audited["links"].as_array().unwrap().iter();
    let streams: Vec<_> = links.filter(|link| link["place"] == "stream").collect();
    assert_eq!(streams.len(), 2, "{audited}");
    for stream in streams {
        for end in ["sent", "received"] {
            assert_eq!(number(&stream[end], "items"), 1000, "{stream}");
        }
    }
}

#[test]
fn control_c_ends_builders_before_their_mover() {
    let folder = TempDir::new().unwrap();
    moved(folder.path(), "moved-stopped", "");
    let chain = run(folder.path(), &["--format", "json"]);
    rig::wait_for("events at the mover", || {
        let ledgers = fs::read_dir(folder.path().join("run/mover")).ok()?;
        let names = ledgers.map(|entry| entry.unwrap().file_name());
        let is_file = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".hld");
        (names.filter(is_file).count() >= 2).then_some(())
    });
    signal("INT", chain.pid());
    let json = chain.end().json_of(0);
    for key in [
        "residual_items",
        "residual_bytes",
        "left_items",
        "left_bytes",
    ] {
        assert_eq!(number(&json, key), 0, "{json}");
    }
}

#[test]
fn a_hurried_chain_still_ends_its_mover_last() {
    let folder = TempDir::new().unwrap();
    moved(folder.path(), "moved-hurried", "");
    let chain = run(folder.path(), &["--format", "json"]);
    wait_until_at_work_at(&folder.path().join("run/other"), "offer");
    for _ in 0..2 {
        signal("INT", chain.pid());
    }
    // The card may not have had the time for its last blocks.
    let json = chain.end().json();
    for member in json["members"].as_array().unwrap() {
        assert!(member["record"].is_object(), "{member}");
        let is_behind = ["builder", "other", "mover"].map(Value::from);
        if is_behind.contains(&member["name"]) {
            assert_eq!(member["failed"], Value::Null, "{member}");
        }
    }
}

#[test]
fn a_launcher_that_is_killed_does_not_hold_the_chain_up() {
    let folder = TempDir::new().unwrap();
    launched(folder.path(), "launcher-killed", "builder");
    let chain = run(folder.path(), &[]);
    wait_until_at_work(folder.path());
    signal("KILL", pid_of(chain.pid(), "builder"));
    let ended = chain.end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("builder has failed"),
        "{}",
        ended.stderr
    );
    // The member itself lived on, and was told that nobody is there any more.
    for member in MEMBERS {
        let directory = folder.path().join("run").join(member);
        rig::wait_for("the record", || {
            directory.join("run.json").exists().then_some(())
        });
        assert_eq!(rig::audit_json(&directory)["closed"], true, "{member}");
    }
}

#[test]
fn a_member_that_cannot_be_started_costs_no_books_of_the_others() {
    let folder = TempDir::new().unwrap();
    launched(folder.path(), "launched-last", "builder");
    let path = folder.path().join("chain.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace(LAUNCH, r#"launch = ["no-such-program"]"#),
    )
    .unwrap();
    let ended = run(folder.path(), &[]).end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    // One that had begun has closed its books; one that had not has none.
    for member in ["card", "tohost"] {
        let directory = folder.path().join("run").join(member);
        let has_begun = directory.join("ledger").symlink_metadata().is_ok();
        assert_eq!(has_begun, directory.join("run.json").exists(), "{member}");
    }
}

/// A receiver of time-division UDP and two senders of test streams of so many bytes.
fn divided(folder: &Path, bytes: [u64; 2]) {
    let port = rig::free_ports(1);
    let mut text = format!(
        r#"
[chain]
directory = "run"
[members.receiver]
kind = "tdm-receive"
[members.receiver.receive]
bind = "127.0.0.1:{port}"
flags = ["--senders=2", "--link-rate=1G", "--port-buffer=128K"]
"#
    );
    for (name, bytes) in ["north", "south"].into_iter().zip(bytes) {
        text += &format!(
            r#"
[members.{name}]
kind = "tdm-send"
[members.{name}.send]
receiver = "127.0.0.1:{port}"
flags = ["--id={name}", "--bytes={bytes}", "--no-realtime"]
"#
        );
    }
    fs::write(folder.join("chain.toml"), text).unwrap();
}

#[test]
fn senders_of_time_division_and_their_receiver_are_members() {
    let folder = TempDir::new().unwrap();
    // One of them ends much earlier, and the other one sends on.
    let bytes = [100_000, 3_000_000];
    divided(folder.path(), bytes);
    let json = run(folder.path(), &["--format", "json"]).end().json_of(0);
    let receiver = &json["members"][0]["record"];
    let by_sender = receiver["by_sender"].as_array().unwrap().iter();
    let came = by_sender.map(|one| number(one, "payload_bytes"));
    assert_eq!(came.sum::<u64>(), bytes.iter().sum::<u64>(), "{json}");
    let audited = audit_of(&folder.path().join("run")).json_of(0);
    let link = link(&audited, "tdm");
    assert!(number(&link["sent"], "items") > 0, "{link}");
    assert_eq!(number(&link["unexplained"], "items"), 0, "{link}");
}

#[test]
fn control_c_ends_senders_of_time_division_before_their_receiver() {
    let folder = TempDir::new().unwrap();
    divided(folder.path(), [1 << 40; 2]);
    let chain = run(folder.path(), &["--format", "json"]);
    rig::wait_items(
        &folder.path().join("run/receiver"),
        ("windows", "packets"),
        "outgoing",
        100,
    );
    signal("INT", chain.pid());
    let json = chain.end().json_of(0);
    for member in json["members"].as_array().unwrap() {
        assert_eq!(member["failed"], Value::Null, "{member}");
    }
    let audited = audit_of(&folder.path().join("run")).json_of(0);
    assert_eq!(audited["closed"], true, "{audited}");
}
