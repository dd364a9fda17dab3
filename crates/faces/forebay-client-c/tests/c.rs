//! Programs in C over the library that their users link, as clients of a daemon on one end of a virtual wire.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../systems/forebay-run-mux/tests/world/mod.rs"]
mod world;

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Instant;

use forebay_testing::wire::{carries, is_inside, lay, sh};
use world::{LONG, Peer, World, frame, mac};

const FRAMES: u64 = 2_000;

/// Whether there is a compiler; if not, that is said as what a test leaves out.
fn may_compile() -> bool {
    let is_there = Command::new("cc").arg("--version").output().is_ok();
    if !is_there {
        forebay_testing::skip!("no C compiler is there (cc)");
    }
    is_there
}

fn is_on_wire(test: &str) -> bool {
    let is_inside = may_compile() && is_inside(test);
    if is_inside {
        lay();
        carries();
    }
    is_inside
}

fn done(command: &mut Command) -> String {
    let ended = command.output().unwrap();
    let complains = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}: {complains}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// Builds the library as its users do; the folder in which it is. Cargo builds no library for a test that Rust cannot link.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().nth(3).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "--package"]);
    cargo.args(["forebay-client-c", "--target-dir"]).arg(target);
    done(cargo.current_dir(forebay_testing::root()));
    target.join("debug")
}

/// A program of this source, linked in this way.
fn compiled(world: &World, source: &str, link: &[&str]) -> PathBuf {
    let (root, program) = (forebay_testing::root(), world.folder.path().join("program"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O1", "-pthread"]);
    cc.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    cc.arg(root.join("crates/faces/forebay-client-c/include"));
    cc.arg(root.join(source)).arg("-o").arg(&program).args(link);
    done(&mut cc);
    program
}

/// A program that runs, and what it prints.
struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(program: &Path, world: &World, more: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.arg(&world.socket).arg("a").args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn end(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn a_program_in_c_sends_each_frame_back_and_all_parties_count_the_same() {
    if !is_on_wire("a_program_in_c_sends_each_frame_back_and_all_parties_count_the_same") {
        return;
    }
    let library = library();
    let library = library.to_str().unwrap();
    let world = World::start("");
    let rpath = format!("-Wl,-rpath,{library}");
    let link = ["-L", library, "-lforebay_client", &rpath];
    let program = compiled(&world, "examples/client_echo.c", &link);
    let mut echo = Program::start(&program, &world, &[&FRAMES.to_string()]);
    let place = "a is 02:00:00:00:00:01, MTU 1500, 1 address(es)";
    assert_eq!(echo.line(), place);
    let mut peer = Peer::open();
    let (mut sent_bytes, mut asked, mut had) = (0, 0, 0);
    let most = Instant::now() + LONG;
    while had < FRAMES {
        assert!(Instant::now() < most, "{had} of {FRAMES} came back");
        while asked < FRAMES && asked < had + 32 {
            let frame = frame(mac(0), asked, 60 + asked as usize % 1_400);
            sent_bytes += frame.len();
            peer.send(&frame);
            asked += 1;
        }
        for back in peer.receive() {
            let right = frame(mac(0), had, 60 + had as usize % 1_400);
            assert_eq!(back[..6], right[6..12], "to the peer");
            assert_eq!(back[6..12], right[..6], "from the client");
            assert_eq!(back[12..], right[12..], "frame {had}");
            had += 1;
        }
    }
    let counted = format!(
        "received {FRAMES} ({sent_bytes} bytes), sent {FRAMES} ({sent_bytes} bytes), full 0"
    );
    assert_eq!(echo.line(), counted);
    echo.end();
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    let of = &record.summary.clients[0];
    let daemon = [of.frames_given, of.packets_asked, of.packets_sent];
    assert_eq!(daemon, [FRAMES; 3]);
    assert_eq!([of.bytes_given, of.bytes_sent], [sent_bytes as u64; 2]);
    assert!(of.lies.is_empty(), "{:?}", of.lies);
    let drops = &record.envelope.drops;
    assert!(drops.is_empty(), "{drops:?}");
}

#[test]
fn calls_that_no_program_should_make_are_errors() {
    if !is_on_wire("calls_that_no_program_should_make_are_errors") {
        return;
    }
    let archive = library().join("libforebay_client.a");
    let world = World::start("");
    let link = [archive.to_str().unwrap(), "-ldl", "-lm"];
    let source = "crates/faces/forebay-client-c/tests/hostile.c";
    let program = compiled(&world, source, &link);
    let mut peer = Peer::open();
    let mut hostile = Program::start(&program, &world, &[]);
    for said in ["connected", "busy"] {
        assert_eq!(hostile.line(), said);
        peer.send(&frame(mac(0), 0, 60));
    }
    assert_eq!(hostile.line(), "all was refused");
    hostile.end();
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    let of = &record.summary.clients[0];
    // Two frames, and a question of the stack.
    assert_eq!((of.frames_given, of.packets_sent), (2, 3));
    assert!(of.lies.is_empty(), "{:?}", of.lies);
    assert_eq!(record.summary.refused.get("not_allowed"), Some(&1));
}

#[test]
fn connections_of_a_program_in_c_carry_the_same_both_ways() {
    if !is_on_wire("connections_of_a_program_in_c_carry_the_same_both_ways") {
        return;
    }
    sh("ip address add 10.0.0.9/24 dev near");
    // No card cuts what Linux would have a card cut.
    sh("ip link set near gso_max_segs 1");
    let archive = library().join("libforebay_client.a");
    let world = World::start("");
    let link = [archive.to_str().unwrap(), "-ldl", "-lm"];
    let source = "crates/faces/forebay-client-c/tests/tcp.c";
    let program = compiled(&world, source, &link);
    let far = TcpListener::bind("10.0.0.9:0").unwrap();
    let port = far.local_addr().unwrap().port().to_string();
    let peer = thread::spawn(move || {
        let (mut reads, _) = far.accept().unwrap();
        let mut writes = reads.try_clone().unwrap();
        std::io::copy(&mut reads, &mut writes).unwrap()
    });
    let mut program = Program::start(&program, &world, &[&port]);
    assert_eq!(program.line(), "listening");
    let stream: Vec<u8> = (0..1u32 << 20).map(|at| (at % 251) as u8).collect();
    let asking = TcpStream::connect("10.0.0.10:9500").unwrap();
    let mut sends = asking.try_clone().unwrap();
    let sent = stream.clone();
    let thread = thread::spawn(move || {
        sends.write_all(&sent).unwrap();
        sends.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    (&asking).read_to_end(&mut back).unwrap();
    thread.join().unwrap();
    assert!(back == stream, "{} bytes", back.len());
    assert_eq!(program.line(), format!("echoed {}", stream.len()));
    assert_eq!(program.line(), "again");
    assert_eq!(peer.join().unwrap(), 100_000);
    // Linux resets a connection that is closed with something unread.
    let unread = TcpStream::connect("10.0.0.10:9500").unwrap();
    while unread.peek(&mut [0]).unwrap() == 0 {}
    drop(unread);
    let all = stream.len() + 100_000;
    let asked = all + "unread".len();
    assert_eq!(program.line(), format!("taken {all}, asked {asked}"));
    program.end();
    let record = world.end();
    assert!(record.is_closed(), "{:?}", record.envelope);
    assert!(record.summary.clients[0].lies.is_empty());
}

#[test]
fn the_header_is_one_of_cplusplus_as_well() {
    if Command::new("c++").arg("--version").output().is_err() {
        forebay_testing::skip!("no C++ compiler is there (c++)");
        return;
    }
    let header = "crates/faces/forebay-client-c/include/forebay_client.h";
    let mut check = Command::new("c++");
    check.args(["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    check.args(["-fsyntax-only", "-x", "c++"]);
    done(check.arg(forebay_testing::root().join(header)));
}
