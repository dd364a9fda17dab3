//! Sweeps with the receiving side on another host: a real `sshd` on loopback stands for it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rig::{descendants_of, forebay, start, wait_for};
use tempfile::TempDir;

const SSHD: &str = "/usr/sbin/sshd";

/// An `sshd` of the test's own: with its own keys, for this user, on loopback alone.
struct Host {
    sshd: Child,
    directory: TempDir,
    port: u16,
}

impl Host {
    /// None where there is no `sshd`.
    fn start() -> Option<Self> {
        if !Path::new(SSHD).exists() {
            forebay_testing::skip!(
                "{SSHD} is not there; it comes with the Debian package openssh-server"
            );
            return None;
        }
        // As root it wants this directory for the part of it that has no rights; else it needs none.
        let _ = std::fs::create_dir_all("/run/sshd");
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let words = ["-q", "-t", "ed25519", "-N", "", "-f"];
            let made = Command::new("ssh-keygen")
                .args(words)
                .arg(path(key))
                .status();
            assert!(made.unwrap().success());
        }
        let port = {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            socket.local_addr().unwrap().port()
        };
        let settings = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n",
            path("host"),
            path("user.pub")
        );
        std::fs::write(path("sshd_config"), settings).unwrap();
        let client = format!(
            "Host *\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nBatchMode yes\n",
            path("user")
        );
        std::fs::write(path("ssh_config"), client).unwrap();
        let sshd = Command::new(SSHD)
            .args(["-D", "-e", "-f", &path("sshd_config")])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let host = Self {
            sshd,
            directory,
            port,
        };
        wait_for("sshd", || TcpStream::connect(("127.0.0.1", port)).ok());
        Some(host)
    }

    /// A sweep whose receiving side is here; `program` is what runs there.
    fn sweep(&self, out: &Path, program: &str, more: &str) -> Command {
        let mut command = forebay();
        let config = self.directory.path().join("ssh_config");
        command
            .args(["sweep", "net", "--format", "json", "--out"])
            .arg(out)
            .args(["--peer", &format!("ssh://127.0.0.1:{}", self.port)])
            .args(["--ssh", &format!("ssh -F {}", config.display())])
            .args(["--peer-program", program])
            .args(["--buffer-bytes", "4Ki", "--buffer-count", "2"])
            .args(more.split_whitespace());
        command
    }

    /// Whether something that it runs has this word in its command line.
    fn runs(&self, word: &str) -> bool {
        descendants_of(self.sshd.id()).iter().any(|pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0);
            words.any(|found| found == word.as_bytes())
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

/// The binary's path.
fn program() -> String {
    forebay().get_program().to_str().unwrap().to_owned()
}

#[test]
fn the_receiving_side_runs_there_and_its_conditions_are_in_the_rows() {
    let Some(host) = Host::start() else { return };
    let out = tempfile::tempdir().unwrap();
    let grid = "--backend tcp,shm --repeat 2 --duration 20ms --no-references";
    let report = start(&mut host.sweep(out.path(), &program(), grid))
        .end()
        .json_of(0);
    let skipped = &report["skipped"];
    assert_eq!(skipped.as_array().unwrap().len(), 1, "{skipped}");
    assert_eq!(skipped[0]["what"], "shm");
    assert!(skipped[0]["reason"].as_str().unwrap().contains("one host"));
    assert_eq!(report["rows_with_residual"], 0);
    let point = &report["points"][0];
    assert_eq!(point["labels"]["network"], "127.0.0.1");
    assert!(point["goodput_bps"]["median"].as_f64().unwrap() > 0.0);
    let rows = std::fs::read_to_string(out.path().join("rows.csv")).unwrap();
    let mut lines = rows.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let peer = columns
        .iter()
        .position(|name| *name == "peer_host")
        .unwrap();
    let own = columns.iter().position(|name| *name == "host").unwrap();
    assert!(peer > own);
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for line in lines {
        assert_eq!(line.matches(name.trim()).count(), 2, "{line}");
    }
    wait_for("the end of its connection", || {
        descendants_of(host.sshd.id()).is_empty().then_some(())
    });
}

#[test]
fn what_runs_there_ends_with_the_sweep_however_that_ends() {
    let Some(host) = Host::start() else { return };
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let out = tempfile::tempdir().unwrap();
        let grid = "--backend tcp --repeat 1 --duration 30s --no-references";
        let mut sweep = host.sweep(out.path(), &program(), grid);
        let run = start(&mut sweep);
        // The trial had smaller messages: the long run is under way.
        wait_for("the receiving side of the sweep", || {
            host.runs("4096").then_some(())
        });
        let kill = ["-s", signal, &run.pid().to_string()].map(str::to_owned);
        assert!(Command::new("kill").args(kill).status().unwrap().success());
        assert_eq!(run.end().code(), code, "{signal}");
        wait_for("the end of what runs there", || {
            (!host.runs("perf")).then_some(())
        });
    }
}

#[test]
fn a_peer_that_cannot_take_part_is_named_with_the_remedy() {
    let Some(host) = Host::start() else { return };
    let out = tempfile::tempdir().unwrap();
    let refused = |program: &str, word: &str| {
        let ended = start(&mut host.sweep(out.path(), program, "--backend tcp")).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
    };
    refused("/nowhere/forebay", "--peer-program");
    let other = out.path().join("forebay");
    let told = r#"{"version":"0.0.1","commit":"","host":"","kernel":"","cpu":"","cpus":1,"memory_bytes":1,"load":0,"date":"","warnings":[]}"#;
    std::fs::write(&other, format!("#!/bin/sh\necho '{told}'\n")).unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).unwrap();
    refused(other.to_str().unwrap(), "has Forebay 0.0.1");
    std::fs::write(
        &other,
        "#!/bin/sh\necho 'error: unrecognized subcommand' >&2\nexit 2\n",
    )
    .unwrap();
    refused(other.to_str().unwrap(), "unrecognized subcommand");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let mut sweep = forebay();
    sweep.args([
        "sweep",
        "net",
        "--peer",
        &format!("ssh://127.0.0.1:{port}"),
        "--out",
    ]);
    let ended = start(sweep.arg(out.path())).end();
    assert_eq!(ended.code(), Some(2));
    assert!(
        ended.stderr.contains("cannot be reached"),
        "{}",
        ended.stderr
    );
}
