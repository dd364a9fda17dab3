//! What a stream's books say of blocks, of what came before them, and after a restart.

use forebay_sink::SinkDrop;
use forebay_wire::hld::EventId;

use super::*;
use forebay_testing::residuals::off;

const RUN: u32 = 7;
/// Bytes of an event without sub-events.
const EVENT: u64 = EVENT_HEADER_BYTES as u64;

/// A stream in a directory, and its sender.
struct Bench {
    folder: tempfile::TempDir,
    stream: Stream,
    /// What the sender has sent: where it stands, its events and their bytes.
    sent: (u64, u64, u64),
}

fn hello((position, events, bytes): (u64, u64, u64)) -> Hello<'static> {
    Hello {
        run_id: "run",
        sink: "tcp",
        position,
        events,
        bytes,
    }
}

fn open(folder: &Path, sent: (u64, u64, u64)) -> Stream {
    let plan = FilePlan {
        directory: folder.to_path_buf(),
        prefix: "te".into(),
        builder_number: 1,
        bytes_max: 0,
        events_max: 0,
        seconds_max: 0,
        sync: false,
        io: forebay_sink::Io::Buffered,
    };
    Stream::open(&plan, &hello(sent)).unwrap()
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            stream: open(folder.path(), (0, 0, 0)),
            folder,
            sent: (0, 0, 0),
        }
    }

    /// The sender has so many more events, which it does not send.
    fn pass(&mut self, events: u64) {
        let (position, before, bytes) = self.sent;
        self.sent = (position + 64, before + events, bytes + events * EVENT);
    }

    fn store(&mut self, events: u32, leak: &mut Leak) -> Result<u64, Refusal> {
        let begin = self.sent.0;
        self.pass(events.into());
        let event = EventHeader::new(EventId::data(0), 1_800_000_000, RUN).to_bytes();
        let bytes = event.repeat(events as usize);
        let fields = BlockFields {
            begin,
            end: self.sent.0,
            events_total: self.sent.1,
            bytes_total: self.sent.2,
            run: RUN,
            events,
            crc32: crc32fast::hash(&bytes),
            bytes: bytes.len() as u32,
        };
        self.stream.store(&fields, &bytes, leak)
    }

    fn restart(&mut self) {
        self.stream = open(self.folder.path(), self.sent);
    }

    fn welcome(&mut self) -> u64 {
        self.stream.welcome(&hello(self.sent))
    }

    /// Items that came in, were written, and were delivered before.
    fn counts(&self) -> [(u64, u64); 3] {
        let words = &self.stream.words;
        let account = &words.sink.account;
        let snapshot = self.stream.reader.snapshot().unwrap();
        [account.incoming, account.outgoing, words.before].map(|term| snapshot.tally(term))
    }

    /// What the lines of the books miss, by their places.
    fn residuals(&self) -> Vec<(String, i128)> {
        let off = off(&self.stream.reader.snapshot().unwrap().balance()).into_iter();
        off.map(|(place, items, _)| (place, items)).collect()
    }
}

#[test]
fn what_comes_what_is_written_and_what_came_elsewhere_are_counts_of_their_own() {
    let mut bench = Bench::new();
    assert_eq!(bench.welcome(), 0);
    bench.store(3, &mut Leak::off()).unwrap();
    bench.store(2, &mut Leak::off()).unwrap();
    assert_eq!(bench.counts(), [(5, 160), (5, 160), (0, 0)]);
    assert_eq!(bench.residuals(), []);
    // Another mover got 10 more; a successor of this one goes on where the sender is, and says it again to a sender that comes twice.
    bench.pass(10);
    bench.restart();
    for _ in 0..2 {
        assert_eq!(bench.welcome(), bench.sent.0);
        assert_eq!(bench.counts(), [(5, 160), (5, 160), (10, 320)]);
        assert_eq!(bench.residuals(), []);
    }
    bench.store(4, &mut Leak::off()).unwrap();
    assert_eq!(bench.stream.written_since_opened(), (4, 128));
    let (position, events, bytes) = bench.sent;
    let said = Totals {
        position,
        events,
        bytes,
        ..Totals::default()
    };
    // Both sides count 19, of which 10 were never here.
    assert_eq!(bench.stream.end(&said), Ok(said));
    assert_eq!(bench.counts(), [(9, 288), (9, 288), (10, 320)]);
    assert_eq!(bench.residuals(), []);
}

#[test]
fn events_that_vanish_stay_missing_whatever_the_sender_says_later() {
    for hop in ["stream", "mover"] {
        let mut bench = Bench::new();
        let mut leak = Leak::parse(&format!("{hop}:2"), crate::hops::MOVER).unwrap();
        bench.store(5, &mut leak).unwrap();
        assert_eq!(bench.residuals(), [(hop.to_owned(), 2)]);
        // No gap hides them.
        bench.pass(10);
        bench.restart();
        bench.welcome();
        assert_eq!(bench.residuals(), [(hop.to_owned(), 2)]);
        assert_eq!(bench.counts()[2], (10, 320));
    }
}

#[test]
fn a_stream_is_one_of_its_run_and_its_sink() {
    let bench = Bench::new();
    let of = |run_id, sink| {
        let hello = hello(bench.sent);
        bench.stream.is_of(&Hello {
            run_id,
            sink,
            ..hello
        })
    };
    assert!(of("run", "tcp"));
    assert!(!of("run", "tcp2") && !of("run2", "tcp") && !of("run2", "tcp2"));
}

impl Bench {
    /// What the sender says at its end.
    fn end(&mut self) -> Totals {
        let (position, events, bytes) = self.sent;
        let said = Totals {
            position,
            events,
            bytes,
            ..Totals::default()
        };
        self.stream.end(&said).unwrap()
    }

    fn condition(&self) -> Condition {
        self.stream.reader.snapshot().unwrap().run.condition
    }

    fn hld_file(&self) -> PathBuf {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths
            .find(|path| path.extension().is_some_and(|it| it == "hld"))
            .unwrap()
    }
}

#[test]
fn a_stream_that_ended_stays_so_and_one_that_was_interrupted_goes_on() {
    let mut bench = Bench::new();
    bench.store(2, &mut Leak::off()).unwrap();
    assert_eq!(bench.condition(), Condition::Running);
    bench.stream.interrupt();
    assert_eq!(bench.condition(), Condition::Interrupted);
    // A start event, the two, and a stop event: the file is whole.
    let interrupted = bench.hld_file().metadata().unwrap().len();
    assert_eq!(interrupted, 4 * EVENT);
    bench.restart();
    assert_eq!(bench.condition(), Condition::Running);
    bench.end();
    assert_eq!(bench.condition(), Condition::Ended);
    assert_eq!(bench.store(1, &mut Leak::off()), Err(Refusal::Ended));
    bench.stream.interrupt();
    assert_eq!(bench.condition(), Condition::Ended);
    bench.restart();
    assert_eq!(bench.condition(), Condition::Ended);
}

#[test]
fn what_was_told_lost_or_removed_taints_the_end() {
    let lose = |bench: &mut Bench, why, events, bytes| {
        let lost = bench.stream.words.sink.account.lost(why);
        bench.stream.books.book.add_tally(lost, events, bytes);
    };
    let mut told = Bench::new();
    let taint = Taint::new(TaintKind::WriteError, "it was told");
    told.stream.taints.push(taint);
    told.end();
    assert_eq!(told.condition(), Condition::Tainted);

    let mut lost = Bench::new();
    lose(&mut lost, SinkDrop::DiskFull, 2, 20);
    lose(&mut lost, SinkDrop::WriteError, 3, 30);
    let totals = lost.end();
    assert_eq!((totals.events_lost, totals.bytes_lost), (5, 50));
    assert_eq!(lost.condition(), Condition::Tainted);

    let mut removed = Bench::new();
    let word = removed.stream.words.sink.removed_files;
    removed.stream.books.book.add(word, 1);
    removed.end();
    assert_eq!(removed.condition(), Condition::Tainted);
}

#[test]
fn a_file_or_a_ledger_that_somebody_removed_is_told() {
    let mut bench = Bench::new();
    bench.store(1, &mut Leak::off()).unwrap();
    bench.stream.watch();
    bench.stream.look_for_ledger();
    assert!(bench.stream.taints.is_empty(), "{:?}", bench.stream.taints);
    std::fs::remove_file(bench.hld_file()).unwrap();
    bench.stream.watch();
    std::fs::remove_file(&bench.stream.ledger).unwrap();
    bench.stream.look_for_ledger();
    let [file, ledger] = bench.stream.taints.as_slice() else {
        panic!("{:?}", bench.stream.taints)
    };
    for (taint, word) in [(file, ".hld"), (ledger, "the ledger")] {
        assert_eq!(taint.kind, TaintKind::OutputRemoved, "{taint}");
        assert!(taint.text.contains(word), "{taint}");
    }
    let removed = bench.stream.words.sink.removed;
    let snapshot = bench.stream.reader.snapshot().unwrap();
    assert_eq!(snapshot.tally(removed), (1, EVENT));
}

/// A block of one event is too short to lose one and keep one.
#[test]
fn the_only_event_of_a_block_does_not_leak() {
    for hop in ["stream", "mover"] {
        let mut bench = Bench::new();
        let mut leak = Leak::parse(&format!("{hop}:5"), crate::hops::MOVER).unwrap();
        bench.store(1, &mut leak).unwrap();
        assert_eq!(bench.counts(), [(1, EVENT), (1, EVENT), (0, 0)], "{hop}");
    }
}

#[test]
fn the_first_and_the_last_file_are_in_the_books() {
    let mut bench = Bench::new();
    for run in [RUN, RUN + 2, RUN + 5] {
        bench.stream.note_run(run);
    }
    let book = &bench.stream.books.book;
    let runs = bench.stream.words.runs.map(|word| book.value(word));
    assert_eq!(runs, [u64::from(RUN), u64::from(RUN) + 5]);
    let mut stored = Bench::new();
    stored.store(1, &mut Leak::off()).unwrap();
    let book = &stored.stream.books.book;
    assert_eq!(book.value(stored.stream.words.runs[0]), u64::from(RUN));
}

#[test]
fn a_block_is_the_events_that_it_says_and_nothing_else() {
    let fields = |events| BlockFields {
        begin: 0,
        end: 64,
        events_total: 0,
        bytes_total: 0,
        run: RUN,
        events,
        crc32: 0,
        bytes: 0,
    };
    let event = |run, size| {
        let mut header = EventHeader::new(EventId::data(0), 1_800_000_000, run);
        header.size = size;
        header.to_bytes().to_vec()
    };
    let whole = event(RUN, EVENT as u32);
    assert!(are_events(&whole, &fields(1)));
    assert!(are_events(&whole.repeat(3), &fields(3)));
    // Padded to 8 bytes.
    let padded = [event(RUN, EVENT as u32 + 3), vec![0; 8]].concat();
    assert!(are_events(&padded, &fields(1)));
    assert!(!are_events(&whole.repeat(3), &fields(2)));
    assert!(
        !are_events(&[&whole[..], &[0; 5]].concat(), &fields(1)),
        "a rest"
    );
    assert!(!are_events(&[], &fields(1)));
    assert!(!are_events(&event(RUN + 1, EVENT as u32), &fields(1)));
    assert!(
        !are_events(&event(RUN, EVENT as u32 + 8), &fields(1)),
        "cut"
    );
    assert!(!are_events(&event(RUN, 0), &fields(1)), "no size");
    assert!(
        !are_events(&event(RUN, 24).repeat(4), &fields(4)),
        "shorter than a header"
    );
}
