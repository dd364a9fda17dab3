//! `forebay top` on real runs: live, ended, and on a terminal.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

fn forebay() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
}

/// A run that waits for two sources; it is ready when this returns. A test that fails leaves it behind for a minute at most.
#[allow(clippy::zombie_processes, reason = "the caller waits for it")]
fn live_run(out: &Path) -> Child {
    let mut child = forebay()
        .args([
            "evb",
            "--sources",
            "2",
            "--base-port",
            "0",
            "--sink",
            "null",
            "--threads",
            "--duration",
            "60s",
            "--metrics",
            "0",
            "--out",
        ])
        .arg(out)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    said.find(|line| line.starts_with("metrics at")).unwrap();
    std::thread::spawn(move || said.count());
    assert!((0..200).any(|_| is_at_work(out)), "the run does not start");
    child
}

/// Whether the receiver's numbers are in the ledger.
fn is_at_work(out: &Path) -> bool {
    let view = top(&["--format", "json", "--interval", "50ms"], out);
    let view: Value = serde_json::from_str(&view).unwrap();
    view["condition"] == "running" && view["fills"][1]["capacity_bytes"] != 0
}

fn end(run: &mut Child) {
    rustix::process::kill_process(
        rustix::process::Pid::from_child(run),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(run.wait().unwrap().success());
}

fn top(arguments: &[&str], out: &Path) -> String {
    let output = forebay()
        .arg("top")
        .arg(out)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_run_is_shown_live_and_after_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut run = live_run(&out);
    let object: Value =
        serde_json::from_str(&top(&["--format", "json", "--interval", "100ms"], &out)).unwrap();
    assert_eq!(
        (&object["state"], &object["supervisor_pid"]),
        (&"live".into(), &run.id().into())
    );
    let queues = object["fills"]
        .as_array()
        .unwrap()
        .iter()
        .find(|fill| fill["stage"] == "source queues")
        .unwrap();
    assert_eq!(queues["count"], 2);
    assert!(
        queues["capacity_bytes"].as_u64().unwrap() >= 2 << 16,
        "{queues}"
    );
    // A reader that goes on until the end of the run.
    let mut follower = forebay()
        .arg("top")
        .arg(&out)
        .args(["--follow", "--format", "json", "--interval", "50ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    lines.next().unwrap();
    end(&mut run);
    let last: Value = serde_json::from_str(&lines.last().unwrap()).unwrap();
    assert_eq!(
        (&last["state"], &last["condition"]),
        (&"ended".into(), &"ended".into())
    );
    assert!(follower.wait().unwrap().success());
    let text = top(&["--once"], &out);
    assert!(
        text.contains("ENDED (requested)") && text.contains("residual 0"),
        "{text}"
    );
    assert!(top(&["--once", "--sources"], &out).contains("source1"));
}

#[test]
fn a_follower_ends_at_a_signal_though_it_never_rests() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut run = live_run(&out);
    let mut follower = forebay()
        .arg("top")
        .arg(&out)
        .args(["--follow", "--interval", "50ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    end(&mut follower);
    assert!(lines.all(|line| line.is_ok()));
    end(&mut run);
}

#[test]
fn a_killed_run_is_shown_as_killed() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut run = live_run(&out);
    run.kill().unwrap();
    run.wait().unwrap();
    let text = top(&["--once"], &out);
    assert!(
        text.contains("KILLED: interrupted (the supervisor died)"),
        "{text}"
    );
    // What a killed run leaves in memory for the post-mortem, unless another one has brought it home.
    if let Ok(memory) = std::fs::read_link(out.join("ledger")) {
        let _ = std::fs::remove_file(memory);
    }
}

#[test]
fn a_place_without_a_run_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let output = forebay().arg("top").arg(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no run in"));
}

/// A new terminal, and `forebay top` on it.
#[allow(clippy::zombie_processes, reason = "the caller waits for it")]
fn on_terminal(out: &Path) -> (OwnedFd, Child) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(
        &master,
        Winsize {
            ws_row: 30,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )
    .unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = || File::options().read(true).write(true).open(&name).unwrap();
    let child = forebay()
        .arg("top")
        .arg(out)
        .env("TERM", "xterm")
        .stdin(slave())
        .stdout(slave())
        .stderr(slave())
        .spawn()
        .unwrap();
    (master, child)
}

/// When the terminal is gone, and nobody sends a signal, there is nothing left to do.
#[test]
fn a_terminal_that_hangs_up_ends_the_view() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut run = live_run(&out);
    let (master, mut child) = on_terminal(&out);
    // Until it has drawn something.
    let mut first = [0; 64];
    let drawn = File::from(master.try_clone().unwrap())
        .read(&mut first)
        .unwrap();
    assert!(drawn > 0);
    drop(master);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    end(&mut run);
}

/// `forebay top` on a terminal of its own; what it writes comes back when it has ended.
struct OnTerminal {
    child: Child,
    keys: File,
    screen: std::sync::mpsc::Receiver<Vec<u8>>,
}

impl OnTerminal {
    fn start(out: &Path) -> Self {
        let (master, child) = on_terminal(out);
        let mut master = File::from(master);
        let keys = master.try_clone().unwrap();
        let (sender, screen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // The end of the child is an error here.
            while let Ok(count @ 1..) = master.read(&mut piece) {
                if sender.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keys,
            screen,
        }
    }

    /// What was written up to and including `text`.
    fn until(&mut self, text: &str) -> String {
        let limit = Instant::now() + Duration::from_secs(15);
        let mut all = Vec::new();
        while !String::from_utf8_lossy(&all).contains(text) {
            let left = limit.saturating_duration_since(Instant::now());
            let piece = self.screen.recv_timeout(left);
            let shown = || String::from_utf8_lossy(&all).into_owned();
            all.extend(
                piece
                    .map_err(|error| format!("{error}: {text:?} is not in {:?}", shown()))
                    .unwrap(),
            );
        }
        String::from_utf8_lossy(&all).into_owned()
    }
}

#[test]
fn a_terminal_is_restored_by_a_key_and_by_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut run = live_run(&out);
    for by_key in [true, false] {
        let mut shown = OnTerminal::start(&out);
        let drawing = shown.until("quit");
        assert!(
            drawing.contains("\u{1b}[?1049h") && drawing.contains("running"),
            "{drawing:?}"
        );
        if by_key {
            shown.keys.write_all(b"q").unwrap();
        } else {
            let pid = rustix::process::Pid::from_child(&shown.child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        }
        shown.until("\u{1b}[?1049l");
        assert!(shown.child.wait().unwrap().success());
    }
    end(&mut run);
}

#[test]
fn an_end_point_of_messaging_is_told_in_messages() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let address = format!("shm://top-{}", std::process::id());
    let net = |arguments: &[&str]| {
        let mut command = forebay();
        let quiet = command
            .args(["net", arguments[0], &address])
            .args(&arguments[1..]);
        quiet
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let out_text = out.to_str().unwrap();
    let mut receiver = net(&["recv", "--output", "null", "--once", "--out", out_text]);
    let mut sender = net(&[
        "send",
        "--input",
        "generate",
        "--count",
        "700",
        "--message-bytes",
        "10",
    ]);
    assert!(sender.wait().unwrap().success() && receiver.wait().unwrap().success());
    let page = top(&["--once"], &out);
    assert!(
        page.contains("0 messages sent, 700 received, 0 lost by name"),
        "{page}"
    );
    assert!(!page.contains("event"), "{page}");
    let view: Value = serde_json::from_str(&top(&["--format", "json"], &out)).unwrap();
    let messages = &view["messages"];
    assert_eq!(
        (&messages["received"], &messages["bytes"]),
        (&700.into(), &7_000.into()),
        "{view}"
    );
    assert!(messages["rate_hz"].as_f64().unwrap() > 0.0, "{view}");
    assert!(view["events"].is_null(), "{view}");
}

/// What an emulator of one source wrote when ledgers had the version before.
#[test]
fn a_ledger_of_the_version_before_is_shown_and_audited() {
    let out = tempfile::tempdir().unwrap();
    let old = forebay_testing::root().join("crates/ground/forebay-ledger/tests/version1.ledger");
    std::fs::copy(old, out.path().join("ledger")).unwrap();
    let page = top(&["--once"], out.path());
    assert!(page.contains("ENDED (limit reached)"), "{page}");
    let audit = forebay().arg("audit").arg(out.path()).output().unwrap();
    let sheet = String::from_utf8(audit.stdout).unwrap();
    assert_eq!(audit.status.code(), Some(0), "{sheet}");
    let mut lines = sheet.lines();
    let line = lines.find(|line| line.contains("subevents")).unwrap();
    assert_eq!(line.matches("100").count(), 2, "{sheet}");
    assert!(sheet.contains("The books close."), "{sheet}");
}

/// What stays the same from run to run: the headers of the tables, and place, owners and unit or name of each of their rows.
fn tables(view: &str) -> Vec<String> {
    let mut tables = Vec::new();
    let (mut table, mut named) = ("", 0);
    for line in view.lines().filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first() {
            Some(&header @ ("fill" | "place" | "histogram")) => {
                (table, named) = (header, if header == "place" { 3 } else { 1 });
                tables.push(words.join(" "));
                continue;
            }
            Some(&"→") => named = 4,
            _ if table == "place" => named = 3,
            _ => {}
        }
        // A bar, and what it stands for, come behind the names.
        let names = words.iter().take_while(|word| !word.contains(['░', '█']));
        let is_fill = table == "fill";
        if !table.is_empty() {
            let names: Vec<&str> = if is_fill {
                names.copied().collect()
            } else {
                names.take(named).copied().collect()
            };
            tables.push(names.join(" "));
        }
    }
    tables
}

#[test]
fn the_picture_in_the_readme_has_the_tables_of_today() {
    let picture = forebay_testing::root().join("docs/images/top.svg");
    let picture = std::fs::read_to_string(picture).unwrap();
    let texts = picture.lines().filter_map(|line| {
        let (_, text) = line.strip_prefix("<text")?.split_once('>')?;
        text.strip_suffix("</text>")
    });
    let texts: Vec<&str> = texts.collect();
    let out = tempfile::tempdir().unwrap();
    let ran = forebay()
        .args(["demo", "--duration", "500ms", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let shown = tables(&top(&["--once"], out.path()));
    assert!(shown.len() > 15, "{shown:?}");
    assert_eq!(tables(&texts.join("\n")), shown);
}
