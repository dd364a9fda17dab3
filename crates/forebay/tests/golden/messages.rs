//! Messaging: both kinds of pairs, measurements, and the registry.

use std::path::Path;

use crate::rig::wait_for;
use crate::taken::{Taken, address, begin, stop, text};

/// Two ends of messaging at work: the one that feeds, and the one that listens or is fed. The signs: places that each of them counts at.
fn pair(taken: &mut Taken, folder: &Path, [source, target]: [&str; 2]) {
    let at = format!("tcp://{}", address());
    let begin = |end: &str, words: &[&str]| {
        let (out, metrics) = (folder.join(end), address());
        let common = ["--per-tag", "--connections", "2", "--metrics", &metrics];
        let words = [&["net", end, &at], words, &common, &["--out", text(&out)]].concat();
        (end.to_owned(), begin(&words), out, metrics)
    };
    let generated = [
        "--input", "generate", "--rate", "1000", "--count", "1000000",
    ];
    let into = begin(target, &["--output", "null"]);
    let from = begin(source, &generated);
    let ends = [(from, "place=\"send\""), (into, "place=\"deliver\"")];
    for ((end, _, _, metrics), sign) in &ends {
        taken.page(&format!("net {end}"), metrics, sign);
    }
    // The second one is told to end by the first one, and told once more.
    for ((end, run, out, _), _) in ends {
        let program = format!("net {end}");
        taken.said(&program, &stop(run), &[]);
        taken.left(&program, &out, &[]);
    }
}

/// A measurement of two sides. The one that takes waits for the other one for as long as it is told.
fn measured(taken: &mut Taken, takes: &str, gives: &str) {
    // A busy host goes there and back too few times in the shortest.
    for time in ["200ms", "2s", "20s"] {
        let at = format!("tcp://{}", address());
        let begin = |role: &str, time: &str| {
            begin(&["net", "perf", &at, "--role", role, "--duration", time])
        };
        let taking = begin(takes, "20s");
        let giving = begin(gives, time);
        let said = [giving, taking].map(|run| run.end().json_of(0));
        if takes == "echo" && said.iter().any(|json| json["rtt_ns"].is_null()) {
            continue;
        }
        let verbs = [
            format!("net perf {gives} to {takes}"),
            format!("net perf {takes} from {gives}"),
        ];
        for (verb, json) in verbs.iter().zip(&said) {
            taken.said(verb, json, &[]);
        }
        return;
    }
    panic!("net perf --role {gives} to {takes}: no round trip in 20 s");
}

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
    pair(taken, folder, ["send", "recv"]);
    pair(taken, folder, ["pub", "sub"]);
    measured(taken, "recv", "send");
    measured(taken, "echo", "send");
    measured(taken, "sub", "pub");
    let at = format!("tcp://{}", address());
    let bus = begin(&["net", "bus", &at]);
    let door = at.trim_start_matches("tcp://");
    wait_for("the registry", || std::net::TcpStream::connect(door).ok());
    taken.said("net bus", &stop(bus), &[]);
}
