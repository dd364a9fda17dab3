//! What a stream's books say of blocks, of what came before them, and after a restart.

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
        let mut leak = Leak::parse(&format!("{hop}:2"), forebay_run::hops::MOVER).unwrap();
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
