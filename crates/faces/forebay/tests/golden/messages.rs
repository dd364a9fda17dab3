//! Messaging: both kinds of pairs, measurements, and the registry.

use std::path::Path;

use crate::rig::{wait_for, wait_items};
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

/// A measurement of two sides, which goes on until so many messages have gone.
fn measured(taken: &mut Taken, folder: &Path, takes: &str, gives: &str) {
    const MESSAGES: u64 = 200;
    let at = format!("tcp://{}", address());
    let names = [
        format!("net perf {takes} from {gives}"),
        format!("net perf {gives} to {takes}"),
    ];
    let outs = names.each_ref().map(|name| folder.join(name));
    let begin = |role: &str, out: &Path| {
        let measure = ["net", "perf", &at, "--role", role, "--duration", "30s"];
        begin(&[&measure[..], &["--connections", "2", "--out", text(out)]].concat())
    };
    let taking = begin(takes, &outs[0]);
    let giving = begin(gives, &outs[1]);
    wait_items(&outs[1], ("send", "messages"), "outgoing", MESSAGES);
    taken.said(&names[1], &stop(giving), &[]);
    taken.said(&names[0], &taking.end().json_of(0), &[]);
}

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
    pair(taken, folder, ["send", "recv"]);
    pair(taken, folder, ["pub", "sub"]);
    measured(taken, folder, "recv", "send");
    measured(taken, folder, "echo", "send");
    measured(taken, folder, "sub", "pub");
    let at = format!("tcp://{}", address());
    let bus = begin(&["net", "bus", &at]);
    let door = at.trim_start_matches("tcp://");
    wait_for("the registry", || std::net::TcpStream::connect(door).ok());
    taken.said("net bus", &stop(bus), &[]);
}
