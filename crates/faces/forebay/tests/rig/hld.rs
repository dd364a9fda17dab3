//! HLD files read back, without a line of the code that wrote them.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_wire::hld_scan::{Ending, Item, Scanner};

/// One event as it lies in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadEvent {
    pub(crate) run: u32,
    pub(crate) sequence: u32,
    pub(crate) incomplete: bool,
    /// Address and trigger number of each sub-event.
    pub(crate) subs: Vec<(u32, u32)>,
    /// Bytes of each sub-event.
    pub(crate) sizes: Vec<usize>,
}

/// One file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadFile {
    /// Run number of the start event.
    pub(crate) run: Option<u32>,
    pub(crate) events: Vec<ReadEvent>,
    pub(crate) broken: usize,
    pub(crate) is_ended: bool,
    pub(crate) bytes: u64,
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> ReadFile {
    let bytes = std::fs::read(path).unwrap();
    let mut scanner = Scanner::new();
    scanner.feed(&bytes);
    scanner.finish();
    let mut file = ReadFile {
        bytes: bytes.len() as u64,
        ..ReadFile::default()
    };
    while let Some(item) = scanner.poll_item() {
        match item {
            Item::Start { header, .. } => file.run = file.run.or(Some(header.run)),
            Item::Event(found) => {
                let header = found.event.header();
                let subs: Vec<_> = found.event.sub_events().map(Result::unwrap).collect();
                file.events.push(ReadEvent {
                    run: header.run,
                    sequence: header.sequence,
                    incomplete: header.id.is_incomplete(),
                    sizes: subs.iter().map(|sub| sub.as_bytes().len()).collect(),
                    subs: subs
                        .iter()
                        .map(|sub| (sub.header().id, sub.header().trigger_word >> 8))
                        .collect(),
                });
            }
            Item::Stop { .. } => {}
            Item::Broken { .. } => file.broken += 1,
        }
    }
    file.is_ended = matches!(scanner.ending(), Some(Ending::Clean));
    file
}

/// All events of sound files, in order.
pub(crate) fn events<P: AsRef<Path>>(paths: &[P]) -> Vec<ReadEvent> {
    let mut all = Vec::new();
    for path in paths {
        let file = read(path.as_ref());
        assert!(
            file.broken == 0 && file.is_ended,
            "{}: {} broken, ended {}",
            path.as_ref().display(),
            file.broken,
            file.is_ended
        );
        all.extend(file.events);
    }
    all
}

/// Sub-events in `events`, each at most once, and no two events with one sequence number.
pub(crate) fn count_once(events: &[ReadEvent]) -> u64 {
    let mut subs = BTreeSet::new();
    let mut sequences = BTreeSet::new();
    for event in events {
        assert!(
            sequences.insert(event.sequence),
            "event {} is there twice",
            event.sequence
        );
        for sub in &event.subs {
            assert!(subs.insert(*sub), "sub-event {sub:x?} is there twice");
        }
        let first = event.subs.first().map(|sub| sub.1);
        assert!(
            event.subs.iter().all(|sub| Some(sub.1) == first),
            "trigger numbers are mixed in {event:x?}"
        );
    }
    subs.len() as u64
}
