//! A process that is confined, in a process of its own: what it can still do, and what it cannot.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use forebay_sys::confine::{Folders, confine};

/// Says to the test that it is the process that is confined.
const INSIDE: &str = "FOREBAY_TEST_CONFINED";

/// What may not be done, each by its name.
fn escapes(outside: &Path) -> Vec<(&'static str, bool)> {
    let has_read = |path: &Path| fs::read(path).is_ok();
    vec![
        ("reads a file", has_read(&outside.join("secret"))),
        ("reads /etc/passwd", has_read(Path::new("/etc/passwd"))),
        ("makes a file", fs::write(outside.join("new"), "x").is_ok()),
        (
            "removes a file",
            fs::remove_file(outside.join("secret")).is_ok(),
        ),
        ("makes a Unix socket", UnixDatagram::unbound().is_ok()),
        ("makes an IPv6 socket", UdpSocket::bind("[::1]:0").is_ok()),
        ("listens over TCP", TcpListener::bind("127.0.0.1:0").is_ok()),
        (
            "starts a program",
            Command::new("/bin/true").status().is_ok(),
        ),
        ("signals a process", {
            let own = rustix::process::getpid();
            rustix::process::test_kill_process(own).is_ok()
        }),
        (
            "starts a thread",
            std::thread::Builder::new().spawn(|| {}).is_ok(),
        ),
    ]
}

fn confined(folder: &Path) {
    let (own, outside) = (folder.join("own"), folder.join("outside"));
    // Two threads that were there before: one waits in the kernel, and one works.
    let (tell, told) = mpsc::channel::<mpsc::Sender<Vec<(&'static str, bool)>>>();
    let away = outside.clone();
    std::thread::spawn(move || {
        for answer in told {
            answer.send(escapes(&away)).unwrap();
        }
    });
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_micros(10));
        }
    });
    let mut open = fs::File::options()
        .append(true)
        .open(outside.join("open"))
        .unwrap();
    let held = confine(&Folders {
        read: vec!["/proc/self".into()],
        write: vec![own.clone()],
        remove: vec![],
    })
    .unwrap();
    assert_eq!(
        held.threads,
        fs::read_dir("/proc/self/task").unwrap().count()
    );
    assert!(held.threads >= 4, "{held:?}");
    assert!(
        held.is_without_capabilities && held.is_without_new_privileges,
        "{held:?}"
    );
    assert!(held.is_filtered, "{held:?}");
    let has_landlock = held.landlock.is_some();
    let (answer, answers) = mpsc::channel();
    tell.send(answer).unwrap();
    let of_other = answers.recv().unwrap();
    for (what, is_done) in escapes(&outside).into_iter().chain(of_other) {
        let of_files = what.contains("file") || what.contains("passwd");
        assert!(!is_done || (of_files && !has_landlock), "it {what}");
    }
    // What is open stays so, and its own folder is its own.
    std::io::Write::write_all(&mut open, b"still").unwrap();
    fs::write(own.join("a.new"), "whole").unwrap();
    fs::rename(own.join("a.new"), own.join("a")).unwrap();
    assert_eq!(fs::read_to_string(own.join("a")).unwrap(), "whole");
    fs::remove_file(own.join("a")).unwrap();
    assert!(
        UdpSocket::bind("127.0.0.1:0").is_ok(),
        "counts of interfaces are asked for over IPv4"
    );
    println!("confined: {held:?}");
}

#[test]
fn a_confined_process_has_what_it_has_open_and_no_more() {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return confined(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["own", "outside"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let outside = folder.path().join("outside");
    fs::write(outside.join("secret"), "of others").unwrap();
    fs::write(outside.join("open"), "").unwrap();
    // Without being confined all of it is possible here, so that what is refused is refused by that.
    let name = "a_confined_process_has_what_it_has_open_and_no_more";
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let complains = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("confined: Confined"), "{said}\n{complains}");
    assert_eq!(fs::read_to_string(outside.join("open")).unwrap(), "still");
    assert_eq!(
        fs::read_to_string(outside.join("secret")).unwrap(),
        "of others"
    );
    let may_do: Vec<_> = escapes(&outside)
        .into_iter()
        .filter(|(_, is_done)| !is_done)
        .collect();
    assert!(may_do.len() <= 1, "without IPv6 one: {may_do:?}");
}
