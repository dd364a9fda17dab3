//! What killed processes leave in memory, and what takes it away.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod rig;

use std::path::Path;
use std::process::Command;

use rig::{Ended, forebay, start};
use serde_json::Value;
use tempfile::TempDir;

/// One run that is killed and one that lives, in a `/dev/shm` of their own: other tests have ledgers of killed processes, too.
const SCRIPT: &str = r#"
mount -t tmpfs none /dev/shm || exit 99
out=$1; shift
"$@" evb --sources 1 --base-port 0 --out "$out/dead" >/dev/null 2>&1 & dead=$!
"$@" evb --sources 1 --base-port 0 --out "$out/lives" >/dev/null 2>&1 & lives=$!
until [ -e "$out/dead/ledger" ] && [ -e "$out/lives/ledger" ]; do sleep 0.02; done
live_ledger=$(readlink "$out/lives/ledger")
stat -c %a "$live_ledger"
readlink "$out/dead/ledger"
kill -9 $dead
# Its stages hold the ledger until they have ended.
while [ -L "$out/dead/ledger" ]; do "$@" doctor --clean --format json > "$out/said"; sleep 0.05; done
cat "$out/said"
"$@" audit "$out/dead" | grep -c "the supervisor died"
# And one whose directory is gone.
"$@" net recv "shm://gone-$$" --out "$out/gone" >/dev/null 2>&1 & gone=$!
until [ -e "$out/gone/ledger" ]; do sleep 0.02; done
rm -r "$out/gone"; kill -9 $gone; wait $gone
"$@" doctor --clean --format json
[ -e "$live_ledger" ] && echo "the other is there"
kill -INT $lives; wait $lives; echo $?
"#;

/// A script's end, where `/dev/shm` can be its own: it is given the folder and the program.
fn in_memory_of_its_own(script: &str, folder: &Path) -> Option<Ended> {
    let probe = Command::new("unshare").args(["--mount", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        forebay_testing::skip!("no private mount namespace here (needs root and util-linux)");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(folder);
    Some(start(command.arg(forebay().get_program())).end())
}

#[test]
fn the_doctor_takes_away_what_is_dead_and_leaves_what_lives() {
    let folder = TempDir::new().unwrap();
    let Some(ended) = in_memory_of_its_own(SCRIPT, folder.path()) else {
        return;
    };
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let [mode, dead, said, audited, removed, there, code] = lines[..] else {
        panic!("{}\n{}", ended.stdout, ended.stderr);
    };
    assert_eq!(mode, "600", "nobody else reads a ledger in memory");
    let said: Value = serde_json::from_str(said).unwrap();
    let counts = |said: &Value| ["kept", "removed"].map(|key| said[key].as_array().unwrap().len());
    assert_eq!(counts(&said), [1, 0], "{said}");
    assert_eq!(said["kept"][0]["path"], dead, "{said}");
    assert!(said["kept"][0]["bytes"].as_u64() > Some(0), "{said}");
    let home = folder.path().join("dead/ledger");
    assert_eq!(said["kept"][0]["kept"], home.to_str().unwrap(), "{said}");
    assert_eq!(audited, "1", "what it had to say is there");
    let removed: Value = serde_json::from_str(removed).unwrap();
    assert_eq!(counts(&removed), [0, 1], "{removed}");
    assert_eq!((there, code), ("the other is there", "0"));
}

/// A run that is killed, then one of another kind in another directory, in a `/dev/shm` of their own.
const NEXT_SCRIPT: &str = r#"
mount -t tmpfs none /dev/shm || exit 99
out=$1; shift
"$@" evb --sources 1 --base-port 0 --out "$out/dead" >/dev/null 2>&1 & dead=$!
"$@" evb --sources 1 --base-port 0 --out "$out/lives" >/dev/null 2>&1 & lives=$!
until [ -e "$out/dead/ledger" ] && [ -e "$out/lives/ledger" ]; do sleep 0.02; done
readlink "$out/dead/ledger"
live_ledger=$(readlink "$out/lives/ledger")
kill -9 $dead
# Its stages hold the ledger until they have ended: then the next start finds it, and several at a time do it once.
for round in $(seq 400); do
  for n in 1 2 3; do "$@" net recv "shm://next-$$-$n" --count 0 --out "$out/next$n" 2>>"$out/said" & others="$others $!"; done
  wait $others; others=
  [ -L "$out/dead/ledger" ] || break
  sleep 0.05
done
ls -A /dev/shm | grep -c forebay-
[ -e "$live_ledger" ] && echo "the other is there"
kill -INT $lives; wait $lives; echo $?
grep -c "taken out of memory" "$out/said"
grep -m 1 "taken out of memory" "$out/said"
"$@" audit "$out/dead"
"#;

#[test]
fn the_next_start_of_another_program_brings_the_ledger_of_a_killed_run_home() {
    let folder = TempDir::new().unwrap();
    let Some(ended) = in_memory_of_its_own(NEXT_SCRIPT, folder.path()) else {
        return;
    };
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let [memory, left, there, code, times, said, audited @ ..] = &lines[..] else {
        panic!("{}\n{}", ended.stdout, ended.stderr);
    };
    assert_eq!(
        (*left, *there, *code),
        ("1", "the other is there", "0"),
        "{}",
        ended.stdout
    );
    assert_eq!(*times, "1", "one of them did it and said so");
    let home = folder.path().join("dead/ledger");
    assert!(
        said.contains(memory) && said.contains(home.to_str().unwrap()),
        "{said}"
    );
    assert!(home.symlink_metadata().unwrap().is_file());
    let audited = audited.join("\n");
    assert!(audited.contains("the supervisor died"), "{audited}");
}
