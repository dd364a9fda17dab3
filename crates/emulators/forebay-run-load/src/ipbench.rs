//! The target's side of ipbench's control protocol (<https://github.com/au-ts/ipbench>, its `ipbenchd`): lines of text over TCP, with which a controller learns how busy
//! the host of an echo was while its testers sent.
//!
//! ```text
//! target      100 IPBENCH V1.0
//! controller  HELLO                                      200 OK (Ready to go)
//! controller  LOAD cpu_target_lukem                      200 OK
//! controller  SETUP args::""                             200 OK
//! controller  START                                      nothing: time runs from here
//! controller  STOP                                       220 VALID DATA (Data to follow)
//!                                                        Content-length: 6
//!                                                        "12.5\n\0"
//! ```
//!
//! The data are the per cent of the time of all CPUs that was not idle, by `/proc/stat` where the original has a thread that counts what is left for it. One test is there at a
//! time; the connection ends with its data. `HELP`, `STATUS`, `ABORT` and `QUIT` are understood at any time.

mod control;

use forebay_sys::host::CpuTicks;

pub(crate) use control::Control;

/// The test of a target that is known: CPU use.
const TEST: &str = "cpu_target_lukem";
const GREETING: &str = "100 IPBENCH V1.0\n";
const OK: &str = "200 OK\n";
const SYNTAX: &str = "500 SYNTAX ERROR\n";
const HELP: &str = "\nHELP OPTIONS\n------------\nHELP\nHELLO\nLOAD\nSETUP args\nSTART\nSTOP\nABORT\nSTATUS\n200 OK\n";

/// How far a controller is with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has not said hello.
    New,
    /// It has the target for itself, and names a test.
    Loading,
    /// It sets the test up.
    SettingUp,
    /// It may begin.
    Ready,
    /// It has begun, at these ticks.
    Running(CpuTicks),
}

/// What follows from a line beside the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Nothing.
    Stay,
    /// The connection has the target for itself.
    Take,
    /// It is closed.
    Close,
    /// A test has come to its end, and the connection is closed.
    Finish,
    /// The test that runs, of whichever connection, is given up, and the connection is closed.
    Abort,
}

/// A controller at its end of a connection.
#[derive(Debug)]
struct Session {
    state: State,
}

impl Session {
    const fn new() -> Self {
        Self { state: State::New }
    }

    /// Reads a line, and gives the answer. `taken` says that some connection has the target; the CPU's time is read for the begin and the end of a test alone.
    fn handle_line(
        &mut self,
        line: &str,
        taken: bool,
        now: impl FnOnce() -> CpuTicks,
    ) -> (String, Act) {
        let mut words = line.split_whitespace();
        let (word, rest) = (words.next().unwrap_or_default(), words.next());
        let said = |text: &str| (text.to_owned(), Act::Stay);
        match word {
            "HELP" => said(HELP),
            "STATUS" => {
                let test = if taken { "Running" } else { "Not running" };
                said(&format!("Target Daemon mode\n{test} a test\n{OK}"))
            }
            "ABORT" => (String::new(), Act::Abort),
            "QUIT" => closing("222 CLOSING CONTROL CONNECTION", "Come back soon!"),
            _ => match (self.state, word) {
                (State::New, "HELLO") if taken => {
                    closing("421 SERVICE NOT AVAILABLE", "Already Running")
                }
                (State::New, "HELLO") => {
                    self.state = State::Loading;
                    ("200 OK (Ready to go)\n".to_owned(), Act::Take)
                }
                (State::Loading, "LOAD") if rest == Some(TEST) => {
                    self.state = State::SettingUp;
                    said(OK)
                }
                (State::Loading, "LOAD") if rest.is_some() => closing(
                    "451 LOCAL PROCESSING ERROR",
                    &format!("{TEST} alone is known"),
                ),
                // Arguments are those of the original's own thread.
                (State::SettingUp, "SETUP") if rest.is_some() => {
                    self.state = State::Ready;
                    said(OK)
                }
                (State::Ready, "START") => {
                    self.state = State::Running(now());
                    said("")
                }
                (State::Running(begun), "STOP") => (data(now().since(begun)), Act::Finish),
                _ => said(SYNTAX),
            },
        }
    }
}

fn closing(status: &str, why: &str) -> (String, Act) {
    (format!("{status} ({why})\n"), Act::Close)
}

/// What a test has to say: text with its NUL, as the original's C has it. Shorter than a tick it says nothing.
fn data(during: CpuTicks) -> String {
    let (total, busy) = (during.total(), during.total() - during.idle);
    let status = if total > 0 {
        "220 VALID DATA"
    } else {
        "221 INVALID DATA"
    };
    let text = format!("{:.1}\n\0", 100.0 * busy as f64 / total.max(1) as f64);
    let length = text.len();
    format!("{status} (Data to follow)\nContent-length: {length}\n{text}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ticks(busy: u64, idle: u64) -> CpuTicks {
        CpuTicks {
            busy,
            nice: 0,
            idle,
            stolen: 0,
        }
    }

    /// The answers to these lines, one after the other, of a controller that alone is there.
    fn answers(session: &mut Session, lines: &[&str]) -> Vec<(String, Act)> {
        let mut taken = false;
        let mut answer = |line: &&str| {
            let answer = session.handle_line(line, taken, || ticks(3, 5));
            taken |= answer.1 == Act::Take;
            answer
        };
        lines.iter().map(&mut answer).collect()
    }

    const BEGIN: [&str; 4] = [
        "HELLO",
        "LOAD cpu_target_lukem",
        "SETUP args::\"warmup=1,cpus=2\"",
        "START",
    ];

    #[test]
    fn a_test_goes_through_its_commands_to_its_data() {
        let mut session = Session::new();
        let expected = [
            ("200 OK (Ready to go)\n", Act::Take),
            ("200 OK\n", Act::Stay),
            ("200 OK\n", Act::Stay),
            ("", Act::Stay),
        ];
        let found = answers(&mut session, &BEGIN);
        assert_eq!(found, expected.map(|(text, act)| (text.to_owned(), act)));
        let (text, act) = session.handle_line("STOP", true, || ticks(3 + 25, 5 + 175));
        assert_eq!(act, Act::Finish);
        assert_eq!(
            text,
            "220 VALID DATA (Data to follow)\nContent-length: 6\n12.5\n\0"
        );
    }

    #[test]
    fn what_a_hypervisor_took_was_not_idle() {
        let during = CpuTicks {
            stolen: 10,
            ..ticks(10, 20)
        };
        assert!(data(during).ends_with("\n50.0\n\0"));
        assert!(data(ticks(0, 0)).starts_with("221 INVALID DATA"));
    }

    #[test]
    fn a_command_out_of_turn_is_a_syntax_error_and_changes_nothing() {
        for count in 0..=BEGIN.len() {
            let mut session = Session::new();
            answers(&mut session, &BEGIN[..count]);
            let state = session.state;
            let all = ["HELLO", "LOAD x", "SETUP args::\"\"", "START", "STOP"];
            for (turn, line) in all.into_iter().enumerate() {
                if turn != count {
                    let found = session.handle_line(line, false, || ticks(9, 9));
                    assert_eq!(found, (SYNTAX.to_owned(), Act::Stay), "{count} {line}");
                    assert_eq!(session.state, state);
                }
            }
        }
    }

    #[test]
    fn a_target_has_one_test_at_a_time_and_tells_so() {
        let mut session = Session::new();
        let (text, act) = session.handle_line("HELLO", true, || ticks(0, 0));
        assert_eq!(text, "421 SERVICE NOT AVAILABLE (Already Running)\n");
        assert_eq!(act, Act::Close);
        for (taken, words) in [(true, "Running a test"), (false, "Not running a test")] {
            let (text, act) = session.handle_line("STATUS", taken, || ticks(0, 0));
            assert_eq!(text, format!("Target Daemon mode\n{words}\n200 OK\n"));
            assert_eq!(act, Act::Stay);
        }
        let (text, act) = session.handle_line("ABORT", true, || ticks(0, 0));
        assert_eq!((text.as_str(), act), ("", Act::Abort));
    }

    #[test]
    fn a_test_that_is_not_known_ends_the_connection_by_name() {
        let found = answers(&mut Session::new(), &["HELLO", "LOAD latency"]);
        let text = "451 LOCAL PROCESSING ERROR (cpu_target_lukem alone is known)\n";
        assert_eq!(found[1], (text.to_owned(), Act::Close));
    }

    proptest! {
        #[test]
        fn whatever_a_controller_says_is_answered(
            lines in proptest::collection::vec(
                prop_oneof![
                    4 => proptest::sample::select(BEGIN.to_vec()).prop_map(str::to_owned),
                    1 => proptest::sample::select(vec!["STOP", "STATUS", "HELP", "LOAD", "LOAD x"]).prop_map(str::to_owned),
                    1 => ".{0,40}",
                ],
                0..40,
            ),
        ) {
            let mut session = Session::new();
            for line in &lines {
                let before = session.state;
                let (text, act) = session.handle_line(line, false, || ticks(1, 1));
                // What is told is whole; nothing is told of a test that begins, and of one that is given up.
                let begins = before == State::Ready && session.state != before;
                let is_mute = begins || act == Act::Abort;
                prop_assert_eq!(text.is_empty(), is_mute, "{:?}", line);
                prop_assert!(is_mute || text.ends_with(['\n', '\0']), "{:?} {:?}", line, text);
                prop_assert_eq!(act == Act::Finish, matches!(before, State::Running(_)) && line == "STOP");
                if act != Act::Stay && act != Act::Take {
                    break;
                }
            }
        }
    }
}
