//! What is taken of programs at work: their JSON, records, ledgers and pages of metrics, each as the text that is agreed upon.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::agreed::Texts;
use crate::rig::{Run, forebay, free_ports, scrape, signal, start, wait_for};
use crate::shape::NoKeyTwice;
use crate::{
    events, flows, layout, loaded, messages, page, readout, settings, shape, small, windows,
};

/// All of it, by the names of verbs and programs.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) json: Texts,
    pub(crate) records: Texts,
    pub(crate) ledgers: Texts,
    pub(crate) pages: Texts,
    pub(crate) plans: Texts,
}

/// Every program runs once, whatever number of tests look at it.
pub(crate) static TAKEN: LazyLock<Taken> = LazyLock::new(|| {
    let scenes: [fn(&mut Taken, &Path); 7] = [
        events::play,
        readout::play,
        messages::play,
        windows::play,
        flows::play,
        loaded::play,
        small::play,
    ];
    let mut all = Taken::default();
    // They wait more than they work.
    std::thread::scope(|scope| {
        let played = scenes.map(|play| {
            scope.spawn(move || {
                let folder = TempDir::new().unwrap();
                let mut taken = Taken::default();
                play(&mut taken, folder.path());
                taken
            })
        });
        for taken in played {
            all.join(taken.join().unwrap());
        }
    });
    all
});

fn put(texts: &mut Texts, name: &str, text: String) {
    let name = name.replace(' ', "-");
    let before = texts.insert(name.clone(), text);
    assert!(before.is_none(), "{name} twice");
}

impl Taken {
    fn join(&mut self, other: Self) {
        for (all, more) in [
            (&mut self.json, other.json),
            (&mut self.records, other.records),
            (&mut self.ledgers, other.ledgers),
            (&mut self.pages, other.pages),
            (&mut self.plans, other.plans),
        ] {
            more.into_iter()
                .for_each(|(name, text)| put(all, &name, text));
        }
    }

    /// What a verb says as JSON; `sure`: what has something in it in this run.
    pub(crate) fn said(&mut self, verb: &str, json: &Value, sure: &[&str]) {
        let is_list = verb == "figure list";
        assert!(json.is_object() || is_list, "{verb}: {json}");
        put(&mut self.json, verb, shape::of(json, sure));
    }

    /// Takes what `forebay WORDS --format json` says, which ends by itself, well.
    pub(crate) fn run(&mut self, verb: &str, words: &[&str], sure: &[&str]) {
        self.said(verb, &begin(words).end().json_of(0), sure);
    }

    pub(crate) fn ledger(&mut self, program: &str, file: &Path) {
        put(&mut self.ledgers, program, layout::of(file));
    }

    /// The ledger and the record that a program has left in its directory, with its plan where that is in the record.
    pub(crate) fn left(&mut self, program: &str, out: &Path, sure: &[&str]) {
        self.ledger(program, &out.join("ledger"));
        let record = std::fs::read(out.join("run.json")).unwrap();
        if let Err(error) = serde_json::from_slice::<NoKeyTwice>(&record) {
            panic!("the record of {program}: {error}");
        }
        let record: Value = serde_json::from_slice(&record).unwrap();
        put(&mut self.records, program, shape::of(&record, sure));
        if let Some(plan) = record.get("plan") {
            put(&mut self.plans, program, settings::of(plan));
        }
    }

    /// A page, once it has a sample with these words.
    pub(crate) fn page(&mut self, program: &str, address: &str, sign: &str) {
        let answer = wait_for(&format!("{sign} on the page of {program}"), || {
            std::net::TcpStream::connect(address).ok()?;
            let answer = scrape(address);
            answer.contains(sign).then_some(answer)
        });
        put(&mut self.pages, program, page::of(&answer));
    }
}

/// An address on this machine with a port that nobody has.
pub(crate) fn address() -> String {
    format!("127.0.0.1:{}", free_ports(1))
}

/// Starts `forebay WORDS --format json`.
pub(crate) fn begin(words: &[&str]) -> Run {
    start(forebay().args(words).args(["--format", "json"]))
}

/// Asks a run to end, and gives what it says.
pub(crate) fn stop(run: Run) -> Value {
    signal("INT", run.pid());
    run.end().json_of(0)
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
