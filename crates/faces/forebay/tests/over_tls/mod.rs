//! IPFIX over TLS: the collector is `openssl s_server`, and what it reads is decoded as over TCP.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rcgen::date_time_ymd;
use tempfile::TempDir;

use super::rig::{self, Ended, Run, certificates, forebay, signal, signal_had, start, wait_for};
use super::{
    Sent, Session, assert_all_came, collect, end, is_at_wire, lines, probe, send, wait_flows,
    wait_packets,
};

/// Whether `openssl` is there; if not, that is said as what a test leaves out.
fn has_openssl() -> bool {
    let is_there = Command::new("openssl").arg("version").output().is_ok();
    if !is_there {
        forebay_testing::skip!("openssl is not installed");
    }
    is_there
}

/// Whether the test named is inside, with what it needs.
fn is_ready(test: &str) -> bool {
    has_openssl() && is_at_wire(&format!("over_tls::{test}"))
}

/// A directory with `host.pem`, `host.key` and `authority.pem`.
struct Files(TempDir);

impl Files {
    fn of(host: &str) -> Self {
        let folder = TempDir::new().unwrap();
        certificates::make(folder.path(), vec![host.to_owned()]);
        Self(folder)
    }

    fn expired() -> Self {
        let folder = TempDir::new().unwrap();
        certificates::make_with(folder.path(), vec!["127.0.0.1".to_owned()], |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 2, 1);
        });
        Self(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// What a probe is given to believe a collector.
    fn believes(&self) -> [String; 2] {
        ["--export-ca".to_owned(), self.at("authority.pem")]
    }

    /// And to prove its own name.
    fn shows(&self) -> [String; 4] {
        [
            "--export-certificate".to_owned(),
            self.at("host.pem"),
            "--export-key".to_owned(),
            self.at("host.key"),
        ]
    }
}

/// Whether a program listens on this port of TCP.
fn listens(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let wanted = format!(":{port:04X}");
    let table = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    let tables = ["tcp", "tcp6"].map(|name| table(name).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words[1].ends_with(&wanted) && words[3] == LISTEN
    })
}

/// A collector that is not ours. It ends with its test.
struct Collector {
    child: Child,
    session: Arc<Mutex<Session>>,
}

impl Collector {
    /// Listens as the host of these files; `args` are those of `openssl s_server`.
    fn start(port: u16, files: &Files, args: &[&str]) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_server", "-quiet", "-accept", &port.to_string()]);
        command.args([
            "-cert",
            &files.at("host.pem"),
            "-key",
            &files.at("host.key"),
        ]);
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let session = collect(child.stdout.take().unwrap());
        wait_for("the collector", || listens(port).then_some(()));
        Self { child, session }
    }

    fn bytes(&self) -> Vec<u8> {
        self.session.lock().unwrap().bytes.clone()
    }

    /// Kills it: all that it has read until then.
    fn kill(mut self) -> Vec<u8> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        wait_for("its last bytes", || {
            self.session.lock().unwrap().is_over.then_some(())
        });
        self.bytes()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a collector says when it wants certificates of an authority.
fn wants<'a>(authority: &'a str, version: &'a str) -> [&'a str; 6] {
    [
        version,
        "-Verify",
        "1",
        "-verify_return_error",
        "-CAfile",
        authority,
    ]
}

/// Waits until a run tells something, behind what was seen of it before.
fn wait_told(run: &Run, told: &str, seen: &mut usize) {
    *seen += wait_for(told, || {
        let said = run.said();
        said[*seen..].find(told).map(|at| at + told.len())
    });
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

#[test]
fn a_collector_that_was_killed_gets_what_waited_from_a_probe_that_believes_it() {
    if !is_ready("a_collector_that_was_killed_gets_what_waited_from_a_probe_that_believes_it") {
        return;
    }
    let (good, other) = (Files::of("127.0.0.1"), Files::of("127.0.0.1"));
    let (ours, others) = (good.at("authority.pem"), other.at("authority.pem"));
    let folder = TempDir::new().unwrap();
    let (out, jsonl) = (folder.path().join("out"), folder.path().join("flows.jsonl"));
    let (port, mut sent) = (rig::free_ports(1), Sent::new());
    let export = format!("ipfix+tls://127.0.0.1:{port}");
    let file = jsonl.display().to_string();
    let first = Collector::start(port, &good, &wants(&ours, "-tls1_3"));
    let mut args = ["--export", &export, "--export", &file]
        .map(str::to_owned)
        .to_vec();
    args.extend(good.believes());
    args.extend(good.shows());
    let run = probe(&out, &words(&args));
    send(10, 10, &mut sent);
    wait_flows(&first.session, 10);
    let session = Arc::clone(&first.session);
    first.kill();
    send(20, 20, &mut sent);
    // The other exporter goes on meanwhile.
    let part = folder.path().join("flows.jsonl.part");
    wait_for("the file", || (lines(&part).len() == 30).then_some(()));
    let mut seen = 0;
    // Others come to its place: one that is not believed, and two that do not believe the probe.
    for (files, args, told) in [
        (
            &other,
            &["-tls1_3"][..],
            "is of no authority in --export-ca",
        ),
        (
            &good,
            &wants(&others, "-tls1_3"),
            "does not accept the probe's certificate",
        ),
        (
            &good,
            &wants(&others, "-tls1_2"),
            "does not accept the probe's certificate",
        ),
    ] {
        wait_told(&run, "Connection refused", &mut seen);
        let stranger = Collector::start(port, files, args);
        wait_told(&run, told, &mut seen);
        assert_eq!(stranger.kill(), b"", "{told}");
    }
    let second = Collector::start(port, &good, &wants(&ours, "-tls1_2"));
    wait_flows(&second.session, 20);
    let json = end(run);
    assert_all_came([&session, &second.session], &sent, &json, (&jsonl, &out));
}

#[test]
fn a_collector_that_hangs_in_the_hand_shake_holds_up_nothing() {
    if !is_ready("a_collector_that_hangs_in_the_hand_shake_holds_up_nothing") {
        return;
    }
    let good = Files::of("127.0.0.1");
    let folder = TempDir::new().unwrap();
    let (out, port) = (folder.path().join("out"), rig::free_ports(1));
    let export = format!("ipfix+tls://127.0.0.1:{port}");
    let mut args = ["--export", &export].map(str::to_owned).to_vec();
    args.extend(good.believes());
    let first = Collector::start(port, &good, &[]);
    let run = probe(&out, &words(&args));
    let mut sent = Sent::new();
    send(10, 10, &mut sent);
    wait_flows(&first.session, 10);
    first.kill();
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (mute, hung) = hangs(&listener);
    send(50, 50, &mut sent);
    wait_packets(&out, 60);
    rig::wait_items(&out, ("records", "flows"), "incoming", 60);
    // It waits for a collector that may come again, and not when it shall hurry.
    assert!(signal_had("TERM", run.pid()) && signal("TERM", run.pid()));
    let json = run.end().json();
    assert!(hung.elapsed() < Duration::from_secs(20), "{json}");
    let lost = rig::dropped_in_all(&json, "export.not_written");
    assert_eq!((&json["packets_in"], lost), (&60.into(), 50), "{json}");
    assert_eq!(json["flows_exported"], 10, "{json}");
    assert_eq!(
        (&json["residual_items"], &json["left_items"]),
        (&0.into(), &0.into())
    );
    drop(mute);
    // At the beginning it is waited for, and a signal ends that.
    let mut command = forebay();
    command.args(["probe", "--interface", "far"]).args(&args);
    let run = start(&mut command);
    let (_mute, _) = hangs(&listener);
    assert!(signal("TERM", run.pid()));
    let ended = run.end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("says too little in the TLS hand-shake"),
        "{}",
        ended.stderr
    );
}

/// Takes a connection, reads the first byte of a hand-shake, and says nothing: since when.
fn hangs(listener: &TcpListener) -> (TcpStream, Instant) {
    let mut connection = listener.accept().unwrap().0;
    let mut first = [0];
    connection.read_exact(&mut first).unwrap();
    assert_eq!(first, [0x16], "a record of a hand-shake");
    (connection, Instant::now())
}

/// A capture of 40 flows.
fn captured(folder: &Path) -> PathBuf {
    let mut profile = String::from(
        "START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV\n",
    );
    for port in 1..=40 {
        profile += &format!("0,0,4,17,{port},53,2,120,0,0\n");
    }
    fs::write(folder.join("it.csv"), profile).unwrap();
    let mut command = forebay();
    command
        .current_dir(folder)
        .args(["emulate", "traffic", "--profile", "it.csv"]);
    let made = start(command.args(["--pcap", "it.pcap"])).end();
    assert_eq!(made.code(), Some(0), "{}", made.stderr);
    folder.join("it.pcap")
}

/// A probe that reads a capture and exports it to a port of this host.
fn to_port(pcap: &Path, port: u16, args: &[String]) -> Ended {
    let mut command = forebay();
    command
        .arg("probe")
        .arg("--read")
        .arg(pcap)
        .args(["--format", "json"]);
    command.args(["--export", &format!("ipfix+tls://127.0.0.1:{port}")]);
    start(command.args(args)).end()
}

#[test]
fn a_capture_goes_whole_to_a_collector_over_tls() {
    if !has_openssl() {
        return;
    }
    let (good, folder) = (Files::of("127.0.0.1"), TempDir::new().unwrap());
    let pcap = captured(folder.path());
    let ours = good.at("authority.pem");
    for version in ["-tls1_2", "-tls1_3"] {
        let port = rig::free_ports(1);
        let collector = Collector::start(port, &good, &wants(&ours, version));
        let file = folder.path().join(format!("{version}.ipfix"));
        let mut args = vec!["--export".to_owned(), file.display().to_string()];
        args.extend(good.believes());
        args.extend(good.shows());
        let json = to_port(&pcap, port, &args).json_of(0);
        assert_eq!(
            (&json["flows_exported"], &json["packets_exported"]),
            (&40.into(), &80.into()),
            "{version}: {json}"
        );
        // It has read to the end, and may not have written it yet.
        let bytes = fs::metadata(&file).unwrap().len();
        wait_for("the last bytes", || {
            (collector.bytes().len() as u64 >= bytes).then_some(())
        });
        let of_file = Session::of(fs::read(&file).unwrap());
        let (sent, flows) = Session::of(collector.kill()).sent();
        assert_eq!((&sent, flows), (&of_file.sent().0, 40), "{version}");
        assert_eq!(super::total(&sent)[0], 80);
    }
}

#[test]
fn what_keeps_a_probe_and_a_collector_apart_is_named() {
    if !has_openssl() {
        return;
    }
    let (good, other) = (Files::of("127.0.0.1"), Files::of("127.0.0.1"));
    let (elsewhere, expired) = (Files::of("collector.example"), Files::expired());
    let folder = TempDir::new().unwrap();
    let pcap = captured(folder.path());
    let (ours, others) = (good.at("authority.pem"), other.at("authority.pem"));
    let believes = |files: &Files| files.believes().to_vec();
    let shows = |files: &Files| [&files.believes()[..], &files.shows()].concat();
    for (files, args, given, told) in [
        (
            &good,
            &[][..],
            believes(&other),
            &[
                "its certificate is of no authority in --export-ca",
                "give --export-ca",
            ][..],
        ),
        (
            &elsewhere,
            &[],
            believes(&elsewhere),
            &["is not for the host", "127.0.0.1", "subjectAltName"],
        ),
        (
            &expired,
            &[],
            believes(&expired),
            &["has expired", "have a new one made"],
        ),
        (
            &good,
            &wants(&ours, "-tls1_3"),
            believes(&good),
            &["wants a certificate of the probe", "--export-key"],
        ),
        (
            &good,
            &wants(&ours, "-tls1_2"),
            believes(&good),
            &["refuses the TLS hand-shake", "--export-certificate"],
        ),
        (
            &good,
            &wants(&others, "-tls1_3"),
            shows(&good),
            &["does not accept the probe's certificate"],
        ),
        (
            &good,
            &wants(&others, "-tls1_2"),
            shows(&good),
            &["does not accept the probe's certificate"],
        ),
    ] {
        let port = rig::free_ports(1);
        let collector = Collector::start(port, files, args);
        let ended = to_port(&pcap, port, &given);
        assert_told(&ended, told);
        assert!(ended.stderr.contains(&port.to_string()), "{}", ended.stderr);
        assert_eq!(collector.kill(), b"", "{told:?}");
    }
    // One without TLS, and one that leaves at once.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for (says, told) in [
        (&b"220 ready\r\n"[..], "it speaks no TLS"),
        (b"", "it ended the connection in the TLS hand-shake"),
    ] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut connection = listener.accept().unwrap().0;
                let mut hello = [0; 5];
                connection.read_exact(&mut hello).unwrap();
                let mut rest = vec![0; usize::from(hello[3]) << 8 | usize::from(hello[4])];
                connection.read_exact(&mut rest).unwrap();
                std::io::Write::write_all(&mut connection, says).unwrap();
            });
            assert_told(&to_port(&pcap, port, &believes(&good)), &[told, "4740"]);
        });
    }
}

fn assert_told(ended: &Ended, told: &[&str]) {
    assert_eq!(ended.code(), Some(2), "{}{}", ended.stdout, ended.stderr);
    for part in told {
        assert!(
            ended.stderr.contains(part),
            "no {part:?} in {}",
            ended.stderr
        );
    }
}

#[test]
fn files_that_do_not_do_are_named_by_flag_and_in_a_file() {
    let (good, other) = (Files::of("127.0.0.1"), Files::of("127.0.0.1"));
    let folder = TempDir::new().unwrap();
    let [ca, certificate, key] =
        ["authority.pem", "host.pem", "host.key"].map(|name| good.at(name));
    let empty = folder.path().join("empty.pem").display().to_string();
    fs::write(&empty, "").unwrap();
    let none = folder.path().join("none.pem").display().to_string();
    let another = other.at("host.key");
    let tls = "ipfix+tls://127.0.0.1:4740";
    for (export, files, told) in [
        (
            tls,
            &[][..],
            &["--export-ca", "/etc/ssl/certs/ca-certificates.crt"][..],
        ),
        (
            tls,
            &[("ca", &none)],
            &[
                "--export-ca",
                "none.pem",
                "No such file",
                "name a file of PEM",
            ],
        ),
        (
            tls,
            &[("ca", &empty)],
            &["--export-ca", "empty.pem", "there is no certificate in it"],
        ),
        (
            tls,
            &[("ca", &key)],
            &["--export-ca", "host.key", "there is no certificate in it"],
        ),
        (
            tls,
            &[("ca", &ca), ("key", &key)],
            &["--export-key", "nothing without --export-certificate"],
        ),
        (
            tls,
            &[("ca", &ca), ("certificate", &certificate)],
            &["--export-certificate", "nothing without --export-key"],
        ),
        (
            tls,
            &[
                ("ca", &ca),
                ("certificate", &certificate),
                ("key", &another),
            ],
            &["--export-key", "does not belong"],
        ),
        (
            tls,
            &[("ca", &ca), ("certificate", &certificate), ("key", &empty)],
            &["--export-key", "there is no private key"],
        ),
        (
            "ipfix+tcp://127.0.0.1:4739",
            &[("ca", &ca)],
            &["--export-ca", "no --export is ipfix+tls://"],
        ),
    ] {
        let mut command = forebay();
        command.args(["probe", "--read", "it.pcap", "--export", export]);
        let mut file = format!("[probe]\nread = \"it.pcap\"\nexport = [\"{export}\"]\n");
        for (name, path) in files {
            command.args([&format!("--export-{name}"), *path]);
            file += &format!("export_{name} = \"{path}\"\n");
        }
        assert_told(&start(&mut command).end(), told);
        let written = folder.path().join("probe.toml");
        fs::write(&written, &file).unwrap();
        let checked = start(forebay().arg("check").arg(&written)).end();
        assert_eq!(
            checked.code(),
            Some(2),
            "{file}{}{}",
            checked.stdout,
            checked.stderr
        );
        let said = checked.stdout + &checked.stderr;
        assert!(said.contains(told[told.len() - 1]), "{told:?}: {said}");
        let has_none = said.lines().any(|line| line.trim() == "remedy:");
        assert!(!has_none, "no remedy: {said}");
    }
    nothing_is_amiss(&folder, &good);
}

/// With all files that belong together nothing is amiss.
fn nothing_is_amiss(folder: &TempDir, good: &Files) {
    let [ca, certificate, key] =
        ["authority.pem", "host.pem", "host.key"].map(|name| good.at(name));
    let tls = "ipfix+tls://127.0.0.1:4740";
    let file = format!(
        "[probe]\nread = \"it.pcap\"\nexport = [\"{tls}\"]\nexport_ca = \"{ca}\"\nexport_certificate = \"{certificate}\"\nexport_key = \"{key}\"\n"
    );
    let written = folder.path().join("probe.toml");
    fs::write(&written, file).unwrap();
    let checked = start(forebay().arg("check").arg(&written)).end();
    assert_eq!(
        checked.code(),
        Some(0),
        "{}{}",
        checked.stdout,
        checked.stderr
    );
}
