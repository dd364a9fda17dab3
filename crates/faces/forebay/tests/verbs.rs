//! Each verb's exit code for a mistake, and a run's for what became of its data.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use rig::{evb, forebay, free_ports, signal, start};
use tempfile::TempDir;

/// Each verb says a flag that it does not have, and a thing that is not there, by an exit code of 2 and nothing on standard output.
#[test]
fn a_mistake_on_the_command_line_of_any_verb_exits_with_2() {
    let nothing = "/nonexistent/nothing";
    for verb in [
        &["demo"][..],
        &["demo", "probe"],
        &["demo", "tohost"],
        &["evb"],
        &["run"],
        &["replay"],
        &["mover"],
        &["net", "send"],
        &["net", "recv"],
        &["net", "pub"],
        &["net", "sub"],
        &["elinks", "show"],
        &["elinks", "check"],
        &["tohost"],
        &["toflx"],
        &["emulate", "hades"],
        &["emulate", "card"],
        &["inspect"],
        &["fcheck"],
        &["swrod"],
        &["tdm", "send"],
        &["tdm", "receive"],
        &["tdm", "plan"],
        &["audit"],
        &["top"],
        &["check"],
        &["doctor"],
    ] {
        for wrong in ["--no-such-flag", nothing] {
            if wrong == nothing && matches!(verb, ["tdm", "receive" | "plan"]) {
                continue;
            }
            let ended = start(forebay().args(verb).arg(wrong)).end();
            let (said, told) = (&ended.stderr, &ended.stdout);
            assert_eq!(ended.code(), Some(2), "{verb:?} {wrong}: {told}{said}");
            assert!(told.is_empty(), "{verb:?} {wrong}: {told}");
            assert!(!said.trim().is_empty(), "{verb:?} {wrong}");
        }
    }
}

/// Nothing lost, lost by name, lost without one: 0, 3 where losses are asked for, 1.
#[test]
fn a_run_says_by_its_exit_code_what_became_of_its_data() {
    let sound = rig::sender::message(0, 0..3, 40);
    let rubbish = vec![0xee; 64];
    let cases: [(&[&str], &str, &[u8], i32); 5] = [
        (&[], "", &sound, 0),
        (&["--strict"], "", &sound, 0),
        (&[], "", &rubbish, 0),
        (&["--strict"], "", &rubbish, 3),
        (&["--strict"], "receiver:1", &sound, 1),
    ];
    for (flags, leak, datagram, code) in cases {
        let folder = TempDir::new().unwrap();
        let base_port = free_ports(1);
        let mut command = evb(folder.path(), 1, base_port, flags);
        if !leak.is_empty() {
            command.env("FOREBAY_LEAK", leak);
        }
        let run = start(&mut command);
        run.wait_stages(&["receiver", "builder"]);
        rig::sender::Sender::new(base_port).send(0, datagram);
        rig::wait_arrived(folder.path(), 1);
        signal("INT", run.pid());
        let json = run.end().json_of(code);
        let left = json["residual_items"].as_u64().unwrap();
        assert_eq!(left > 0, code == 1, "{flags:?} {leak}: {json}");
    }
}
