//! How the files of a run are written: past the page cache or through it, and why.

use forebay_ledger::Snapshot;
use forebay_sink::FileIo;
use serde::Serialize;

use crate::books::Books;
use crate::plan::{Plan, SinkKind};

/// How one sink writes its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SinkIo {
    /// Name of the sink.
    pub sink: String,
    /// `direct` or `buffered`.
    pub io: &'static str,
    /// Why so.
    pub because: &'static str,
}

impl SinkIo {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { sink, io, because } = self;
        let way = match *io {
            "direct" => "past",
            _ => "through",
        };
        format!("sink {sink}: files go {way} the page cache (io = {io:?}): {because}")
    }
}

/// What the books say of each sink of files; nothing of one that has not looked yet.
#[must_use]
pub fn file_io(plan: &Plan, books: &Books, snapshot: &Snapshot) -> Vec<SinkIo> {
    let sinks = plan.sinks.iter().zip(&books.sinks);
    let files = sinks.filter(|(sink, _)| matches!(sink.kind, SinkKind::File(_)));
    let known = files.filter_map(|(sink, words)| {
        let io = FileIo::of_number(snapshot.value(words.file_io))?;
        Some(SinkIo {
            sink: sink.name.clone(),
            io: io.word(),
            because: io.because(),
        })
    });
    known.collect()
}
