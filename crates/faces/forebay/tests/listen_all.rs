//! Every command that listens, taken from what the binary says of itself: none of them is open to the network unless it is asked for.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use rig::sockets::{listeners, loopback};
use rig::{Run, descendants_of, forebay, free_ports, signal, start, wait_for};
use tempfile::TempDir;

/// What an option that names an address, or a file in which there is one, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    /// Listens there.
    Listens,
    /// Nothing of the kind: it connects there, or names what others do.
    Connects,
}
use Does::{Connects, Listens};

/// Every command, with its options that name an address (`FILE` for commands whose file names some). A command or an option that is not here fails the test.
const COMMANDS: &[(&str, &[(&str, Does)])] = &[
    ("audit", &[]),
    ("bench", &[]),
    ("card validate", &[]),
    ("check", &[]),
    ("demo", &[("--base-port", Listens), ("--metrics", Listens)]),
    ("demo mux", &[]),
    ("demo probe", &[]),
    (
        "demo tohost",
        &[("--backend", Listens), ("--metrics", Listens)],
    ),
    ("doctor", &[]),
    ("elinks check", &[]),
    ("elinks set", &[]),
    ("elinks show", &[]),
    ("emulate card", &[("FILE", Listens)]),
    (
        "emulate hades",
        &[("--base-port", Connects), ("--dest", Connects)],
    ),
    ("emulate traffic", &[]),
    (
        "evb",
        &[
            ("--base-port", Listens),
            ("--bind", Listens),
            ("--metrics", Listens),
        ],
    ),
    ("fcheck", &[]),
    ("figure", &[]),
    ("inspect", &[]),
    (
        "load",
        &[
            ("--echo", Listens),
            ("--ipbench", Listens),
            ("[HOST:PORT|MAC]", Connects),
        ],
    ),
    ("model ctt", &[]),
    ("mover", &[("--listen", Listens)]),
    ("mux bench", &[]),
    // Its port is one of its own stack, at an address that this host does not have.
    ("mux client", &[("--port", Connects)]),
    ("mux hostile", &[]),
    ("mux run", &[]),
    ("mux set", &[]),
    ("mux status", &[]),
    ("net bus", &[("<ADDRESS>", Listens)]),
    (
        "net perf",
        &[("--metrics", Listens), ("<ADDRESS>", Listens)],
    ),
    (
        "net pub",
        &[
            ("--advertise", Connects),
            ("--metrics", Listens),
            ("<ADDRESS>", Listens),
        ],
    ),
    (
        "net recv",
        &[("--metrics", Listens), ("<ADDRESS>", Listens)],
    ),
    (
        "net send",
        &[("--metrics", Listens), ("<ADDRESS>", Connects)],
    ),
    (
        "net sub",
        &[("--metrics", Listens), ("[ADDRESSES]", Connects)],
    ),
    ("probe", &[]),
    ("replay", &[("--base-port", Connects)]),
    (
        "run",
        &[
            ("--base-port", Listens),
            ("--bind", Listens),
            ("--metrics", Listens),
        ],
    ),
    ("sweep conditions", &[]),
    ("sweep net", &[("--peer", Connects)]),
    ("swrod", &[("--metrics", Listens), ("[ADDRESS]", Connects)]),
    ("tdm bench", &[]),
    ("tdm plan", &[]),
    (
        "tdm receive",
        &[
            ("--bind", Listens),
            ("--metrics", Listens),
            ("--output", Connects),
        ],
    ),
    (
        "tdm send",
        &[
            ("--input", Listens),
            ("--metrics", Listens),
            ("<HOST[:PORT]>", Connects),
        ],
    ),
    ("toflx", &[("FILE", Listens)]),
    ("tohost", &[("FILE", Listens)]),
    ("top", &[]),
];

/// Commands that start others of this list, at addresses of their own choice on loopback or in namespaces of their own.
const START_OTHERS: [&str; 7] = [
    "bench",
    "demo mux",
    "demo probe",
    "figure",
    "sweep net",
    "tdm bench",
    "card validate",
];

fn help(command: &[String]) -> String {
    let ended = start(forebay().args(command).arg("--help")).end();
    assert_eq!(ended.code(), Some(0), "{command:?}: {}", ended.stderr);
    ended.stdout
}

/// The lines of a help below a heading, until the next one.
fn below<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    lines
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .collect()
}

/// An option's or argument's name, where the name of its value says that it is an address.
fn address_of(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_option = line.trim_start().starts_with('-');
    let value = words.iter().find(|word| word.starts_with(['<', '[']))?;
    let names_one = ["ADDR", "HOST", "PORT"].iter().any(|it| value.contains(it));
    let is_declared = is_option || line.trim_start().starts_with(['<', '[']);
    let name = match words.iter().find(|word| word.starts_with("--")) {
        Some(option) => option.trim_end_matches(','),
        None => value.trim_end_matches("..."),
    };
    (names_one && is_declared).then(|| name.to_owned())
}

/// All commands without commands below them, and those that work alone, too, with what their helps say of addresses.
fn commands(above: &[String], found: &mut BTreeMap<String, BTreeSet<String>>) {
    let help = help(above);
    let names = below(&help, "Commands:");
    let names = names.iter().filter_map(|line| {
        let name = line.strip_prefix("  ")?;
        let name = name.split(' ').next().filter(|name| !name.is_empty())?;
        (name != "help").then(|| name.to_owned())
    });
    let names: Vec<String> = names.collect();
    for name in &names {
        commands(&[above, std::slice::from_ref(name)].concat(), found);
    }
    // `forebay demo` works with a command below it and without.
    if names.is_empty() || help.contains("Usage: forebay demo [OPTIONS]") {
        let lines = ["Options:", "Arguments:"].map(|heading| below(&help, heading));
        let mut options: BTreeSet<String> = lines
            .iter()
            .flatten()
            .filter_map(|it| address_of(it))
            .collect();
        let own_file = ["emulate card", "toflx", "tohost"].contains(&above.join(" ").as_str());
        options.extend(own_file.then(|| "FILE".to_owned()));
        found.insert(above.join(" "), options);
    }
}

#[test]
fn the_list_has_every_command_and_every_address_of_the_binary() {
    let mut found = BTreeMap::new();
    commands(&[], &mut found);
    let listed: BTreeMap<String, BTreeSet<String>> = COMMANDS
        .iter()
        .map(|(name, options)| {
            let options = options.iter().map(|(option, _)| (*option).to_owned());
            ((*name).to_owned(), options.collect())
        })
        .collect();
    for (name, options) in &found {
        assert_eq!(
            listed.get(name),
            Some(options),
            "`forebay {name}` has other addresses than COMMANDS says: add what is new there, and to HOW if it listens"
        );
    }
    assert_eq!(listed.len(), found.len(), "COMMANDS has what is none");
    let others = START_OTHERS.iter().all(|name| found.contains_key(*name));
    assert!(others, "{START_OTHERS:?}");
}

/// One that is at work, with how many sockets that listen it is to have at least.
struct Started {
    run: Run,
    sockets: usize,
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The card of a chain: its metrics at a port, and its E-link 0.
fn card(directory: &Path, port: u16) -> Command {
    let file = directory.join("card.toml");
    let text = format!(
        "[card]\nsocket = {:?}\ndirectory = {:?}\nmetrics = \"127.0.0.1:{port}\"\nwait_for_readers = false\n[ttc]\nrate_hz = 100\n[[links]]\nlinks = [0]\nloop_back = true\n",
        directory.join("card.sock"),
        directory.join("card"),
    );
    fs::write(&file, text).unwrap();
    let mut command = forebay();
    command.args(["emulate", "card"]).arg(file);
    command
}

/// To-host or to-flx behind that card, at an address of messaging.
fn behind_card(directory: &Path, what: &str, address: &str, port: u16) -> Command {
    let (at, below) = match what {
        "tohost" => (String::new(), format!("address = {address:?}\n")),
        _ => (
            format!("address = {address:?}\ncard_wait_s = 30\n"),
            String::new(),
        ),
    };
    let text = format!(
        "[{what}]\ndirectory = {:?}\nmetrics = \"127.0.0.1:{port}\"\n{at}[[devices]]\nsocket = {:?}\n{below}",
        directory.join(what),
        directory.join("card.sock"),
    );
    let file = directory.join(format!("{what}.toml"));
    fs::write(&file, text).unwrap();
    let mut command = forebay();
    command.arg(what).arg(file);
    command
}

/// How a command that listens is started, with its defaults as far as it has some and on loopback where it must be told; and its sockets that listen. Cards and what is behind
/// them have files.
const HOW: &[(&str, &str, usize)] = &[
    (
        "demo",
        "--duration 20s --sources 2 --base-port PORT --metrics METRICS --out OUT",
        3,
    ),
    (
        "demo tohost",
        "--links 1 --dma-buffers 1 --trigger-hz 1000 --duration 20s --backend TCP --metrics THREE --out OUT",
        4,
    ),
    ("emulate card", "", 1),
    (
        "evb",
        "--sources 2 --base-port PORT --metrics METRICS --out OUT",
        3,
    ),
    // Over UDP and TCP at one address.
    ("load", "--echo PLACE --ipbench METRICS", 2),
    ("mover", "--listen PLACE --out OUT", 1),
    ("net bus", "TCP", 1),
    (
        "net perf",
        "TCP --role recv --duration 20s --metrics METRICS",
        2,
    ),
    (
        "net pub",
        "TCP --tag 1 --input generate --subscribers 1 --metrics METRICS",
        2,
    ),
    ("net recv", "TCP --output null --metrics METRICS", 2),
    (
        "net send",
        "TCP --input generate --block 20s --metrics METRICS",
        1,
    ),
    ("net sub", "TCP --output null --metrics METRICS", 1),
    (
        "run",
        "--sources 2 --base-port PORT --metrics METRICS --out OUT",
        3,
    ),
    ("swrod", "TCP --metrics METRICS", 1),
    (
        "tdm receive",
        "--bind PLACE --link-rate 100M --metrics METRICS",
        2,
    ),
    (
        "tdm send",
        "THREE --no-realtime --input TCP --metrics METRICS",
        2,
    ),
    ("toflx", "", 2),
    ("tohost", "", 2),
];

/// A command that listens, at work.
fn started(name: &str, directory: &Path) -> Started {
    let how = HOW.iter().find(|(command, ..)| *command == name);
    let Some((_, arguments, sockets)) = how else {
        panic!("`forebay {name}` listens: say in HOW how it is started");
    };
    let port = free_ports(8);
    let at = |nth: u16| format!("127.0.0.1:{}", port + nth);
    let tcp = format!("tcp://{}", at(0));
    let mut command = match name {
        "emulate card" => card(directory, port + 7),
        "toflx" | "tohost" => behind_card(directory, name, &tcp, port + 7),
        _ => {
            let mut command = forebay();
            command.args(words(name));
            command
        }
    };
    for word in words(arguments) {
        match word {
            "PORT" => command.arg(port.to_string()),
            "PLACE" => command.arg(at(0)),
            "THREE" => command.arg(at(3)),
            "METRICS" => command.arg(at(7)),
            "TCP" => command.arg(&tcp),
            "OUT" => command.arg(directory.join("out")),
            word => command.arg(word),
        };
    }
    Started {
        run: start(&mut command),
        sockets: *sockets,
    }
}

/// What a process, and those that it started, listen on.
fn all_listeners(pid: u32) -> BTreeSet<String> {
    let all = descendants_of(pid).into_iter().chain([pid]);
    all.flat_map(listeners).collect()
}

#[test]
fn every_command_that_listens_is_open_to_this_host_alone() {
    let listening = COMMANDS
        .iter()
        .filter(|(_, options)| options.iter().any(|(_, does)| *does == Listens));
    for (name, _) in listening {
        let directory = TempDir::new().unwrap();
        let card = ["toflx", "tohost"].contains(name).then(|| {
            let run = start(&mut card(directory.path(), free_ports(1)));
            let socket = directory.path().join("card.sock");
            wait_for("the card", || socket.exists().then_some(()));
            run
        });
        let mut it = started(name, directory.path());
        let found = wait_for(&format!("the sockets of {name}"), || {
            let found = all_listeners(it.run.pid());
            // A start may try something on a socket that it closes again.
            let is_over = found.len() < it.sockets && it.run.is_over();
            (found.len() == it.sockets || is_over).then_some(found)
        });
        assert_eq!(
            found.len(),
            it.sockets,
            "{name}: {found:?}: {}",
            it.run.said()
        );
        let open: Vec<&String> = found
            .iter()
            .filter(|address| !address.starts_with(&loopback()))
            .collect();
        assert!(open.is_empty(), "{name} is open at {open:?}");
        for run in [Some(it.run), card].into_iter().flatten() {
            // What was under way is of no interest here.
            signal("TERM", run.pid());
            signal("TERM", run.pid());
            signal("TERM", run.pid());
        }
    }
}

/// Asserts that a command is refused, with these words.
fn refused(command: &mut Command, wanted: &[&str]) {
    let what = format!("{command:?}");
    let ended = start(command).end();
    assert_eq!(ended.code(), Some(2), "{what}: {}", ended.stderr);
    for word in wanted {
        assert!(
            ended.stderr.contains(word),
            "{what}: {word}: {}",
            ended.stderr
        );
    }
}

#[test]
fn beyond_this_host_nothing_listens_that_could_ask_who_comes_without_being_told_so() {
    let directory = TempDir::new().unwrap();
    let open = "tcp://0.0.0.0:0";
    let remedy = ["--tls-certificate", "--plain"];
    for line in [
        "net bus tcp://0.0.0.0:0",
        "net recv tcp://0.0.0.0:0 --output null",
        "net pub tcp://0.0.0.0:0 --tag 1 --input generate",
        "net perf tcp://0.0.0.0:0 --role recv",
        "net perf tcp://0.0.0.0:0 --role echo",
        "net perf tcp://0.0.0.0:0 --role pub",
    ] {
        refused(forebay().args(words(line)), &remedy);
    }
    let bare = "tdm receive --bind 0.0.0.0:0 --link-rate 100M";
    refused(forebay().args(words(bare)), &["--key FILE", "--no-key"]);
    let messages = "tdm send 127.0.0.1:9 --no-realtime --input tcp://0.0.0.0:0";
    refused(forebay().args(words(messages)), &["0.0.0.0"]);
    let run = start(&mut card(directory.path(), free_ports(1)));
    let socket = directory.path().join("card.sock");
    wait_for("the card", || socket.exists().then_some(()));
    for what in ["tohost", "toflx"] {
        let mut command = behind_card(directory.path(), what, open, free_ports(1));
        refused(&mut command, &["0.0.0.0"]);
    }
    signal("KILL", run.pid());
}
