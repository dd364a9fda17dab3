//! A process that is confined, in a process of its own: what it can still do, and what it cannot.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use forebay_sys::confine::{Left, confine};

/// Says to the test that it is the process that is confined.
const INSIDE: &str = "FOREBAY_TEST_CONFINED";
/// And that it is to look values up in maps of the kernel.
const WITH_MAPS: &str = "FOREBAY_TEST_CONFINED_WITH_MAPS";
/// Commands of bpf(2) for an element of a map: to look it up, and to find the next one.
const MAP_COMMANDS: [libc::c_long; 2] = [1, 4];

/// What the kernel answers to a command of bpf(2) for a map that is not there.
fn of_no_map(command: libc::c_long) -> Option<i32> {
    let attributes = [u32::MAX, 0, 0, 0, 0, 0, 0, 0];
    let bytes = size_of_val(&attributes);
    // SAFETY: the kernel reads as many bytes of the attributes as it is told, which they have, and no map has this number.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), bytes) };
    assert_eq!(answer, -1);
    std::io::Error::last_os_error().raw_os_error()
}

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
    let looks_up_maps = std::env::var_os(WITH_MAPS).is_some();
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
    let held = confine(&Left {
        read: vec!["/proc/self".into()],
        write: vec![own.clone()],
        looks_up_maps,
        ..Left::default()
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
    let lookup = if looks_up_maps {
        libc::EBADF
    } else {
        libc::EPERM
    };
    let answers = MAP_COMMANDS.map(of_no_map);
    assert_eq!(answers, [lookup, libc::EPERM].map(Some));
    println!("confined: {held:?}");
}

#[test]
fn a_confined_process_has_what_it_has_open_and_no_more() {
    is_confined("a_confined_process_has_what_it_has_open_and_no_more", false);
}

/// The first two numbers of the kernel's release.
fn release() -> [u32; 2] {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap());
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

#[test]
fn a_confined_process_may_look_into_maps_if_it_asks_for_that() {
    if release() < [5, 19] {
        forebay_testing::skip!("this kernel wants a right for each command of bpf(2) (Linux 5.19)");
        return;
    }
    is_confined(
        "a_confined_process_may_look_into_maps_if_it_asks_for_that",
        true,
    );
}

fn is_confined(name: &str, looks_up_maps: bool) {
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
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]);
    if looks_up_maps {
        command.env(WITH_MAPS, "1");
    }
    let ended = command.env(INSIDE, folder.path()).output().unwrap();
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
