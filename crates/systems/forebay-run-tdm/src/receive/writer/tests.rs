use std::path::Path;

use forebay_ledger::{Leak, LedgerReader, SchemaBuilder, Words};
use forebay_run::removed::Removed;
use forebay_wire::heap::Piece;

use super::*;
use crate::receive::streams::Written;

const PACKET: usize = 64 << 10;

/// Books of a writer that has places for two senders, and a reader of them.
fn books(leak: Leak) -> (WriterBooks, LedgerReader) {
    let mut schema = SchemaBuilder::new("writer");
    let (words, _) = WriterWords::declare(&mut schema, 2);
    let schema = schema.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    let run = forebay_ledger::RunWriter::format(&schema, &memory, 1, 1).unwrap();
    drop(run);
    let books = WriterBooks::open(&schema, &memory, words, leak).unwrap();
    (books, LedgerReader::open(&memory).unwrap())
}

/// A writer of one sender.
fn started(path: &Path, queue_bytes: u64) -> Writer {
    let (books, _) = books(Leak::off());
    let output = Output::Directory(path.to_path_buf());
    let mut writer = Writer::start(output, queue_bytes, Files::default(), books).unwrap();
    writer.open(0, "north", Carries::Bytes);
    writer
}

/// What is on the thread of such a writer.
fn taker(output: Output, leak: Leak) -> (Taker, LedgerReader) {
    let (books, reader) = books(leak);
    let ((back, _), (tell, _)) = (channel(), channel());
    let taker = Taker {
        streams: Streams::new(output),
        files: Files::default(),
        books,
        shared: Arc::new(Shared::of(2)),
        back,
        tell,
        failed: None,
    };
    (taker, reader)
}

/// A block of the sender `north`.
fn block(carries: Carries, packets: &[(u64, Vec<u8>)]) -> Block {
    let mut block = Block::default();
    block.push_always(Op::Open {
        sender: 0,
        name: "north".to_owned(),
        carries,
    });
    for (offset, payload) in packets {
        block.data(0, *offset, payload, true);
    }
    block
}

/// What its books show when it has taken a block with these packets: of `write` and of `heaps` what came, went on, was lost and is held.
fn shown_after(
    output: Output,
    carries: Carries,
    packets: &[(u64, Vec<u8>)],
    leak: Leak,
) -> [[u64; 4]; 2] {
    let (mut taker, reader) = taker(output, leak);
    taker.take(block(carries, packets));
    let balance = reader.snapshot().unwrap().balance();
    ["write", "heaps"].map(|place| {
        let mut lines = balance.accounts.iter();
        let line = lines.find(|line| line.place == place).unwrap();
        let dropped = line.dropped.iter().map(|it| it.items).sum();
        let held = line.held.items.unsigned_abs();
        [line.incoming.items, line.outgoing.items, dropped, held]
    })
}

#[test]
fn its_books_close_with_each_block_wherever_payloads_go() {
    let directory = tempfile::tempdir().unwrap();
    let into = |name: &str| Output::Directory(directory.path().join(name));
    let bytes: Vec<_> = [0, 10, 30].map(|at| (at, vec![7; 10])).into();
    let none = [0; 4];
    let shown = |output| shown_after(output, Carries::Bytes, &bytes, Leak::off());
    // Two that follow each other are written when one comes that does not.
    assert_eq!(shown(into("")), [[3, 2, 0, 1], none]);
    assert_eq!(shown(into("nowhere")), [[3, 0, 3, 0], none]);
    assert_eq!(shown(Output::Discard), [[3, 3, 0, 0], none]);
    for (hop, write) in [("writer_queue:1", [2, 2, 0, 0]), ("write:1", [3, 2, 0, 0])] {
        let leak = Leak::parse(hop, &["writer_queue", "write"]).unwrap();
        let leaking = shown_after(Output::Discard, Carries::Bytes, &bytes, leak);
        assert_eq!(leaking, [write, none], "{hop}");
    }
    let piece = |heap, bytes: &[u8]| {
        let piece = Piece {
            heap,
            tag: 1,
            status: 0,
            heap_bytes: 4,
            offset: 0,
            bytes,
        };
        (heap * 100, [&piece.head()[..], bytes].concat())
    };
    // The last one waits for its other half; of the one before it nothing came.
    let heaps = [piece(0, b"abcd"), piece(1, b"efgh"), piece(3, b"ij")];
    let shown = |output| shown_after(output, Carries::Heaps, &heaps, Leak::off());
    assert_eq!(shown(Output::Discard), [[3, 3, 0, 0], [4, 2, 0, 2]]);
    assert_eq!(shown(into("")), [[3, 3, 0, 0], [4, 0, 0, 4]]);
}

#[test]
fn what_went_with_a_removed_file_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let output = Output::Directory(directory.path().to_path_buf());
    let (mut taker, reader) = taker(output, Leak::off());
    let bytes: Vec<_> = [0, 10, 30].map(|at| (at, vec![7; 10])).into();
    taker.take(block(Carries::Bytes, &bytes));
    taker.flush();
    std::fs::remove_file(directory.path().join("north")).unwrap();
    taker.look_at_files();
    taker.commit();
    let removed = Removed::of(&reader.snapshot().unwrap());
    assert_eq!(
        (removed.files, removed.packets, removed.bytes),
        (1, Some(3), 30)
    );
    assert_eq!((removed.heaps, taker.books.end().2), (Some(0), (30, 2)));
}

fn came(packet: u64) -> Came {
    Came {
        sender: 0,
        window: 0,
        packet,
        sent_ns: 1,
        came_ns: 2,
    }
}

/// Gives so many packets, and says how many found room.
fn offer(writer: &mut Writer, packets: std::ops::Range<u64>, handed: &mut Sum) -> u64 {
    let mut taken = 0;
    for packet in packets {
        let payload = [packet as u8; PACKET];
        taken += u64::from(writer.data(&came(packet), packet * PACKET as u64, &payload, None));
        if writer.is_due_when_full() {
            hand_over(writer, handed);
        }
    }
    taken
}

fn hand_over(writer: &mut Writer, handed: &mut Sum) {
    for given in writer.sums().collect::<Vec<_>>() {
        handed.packets += given.handed.packets;
        handed.bytes += given.handed.bytes;
    }
    writer.give();
}

fn written(ended: &Ended) -> Written {
    ended.written.first().copied().unwrap()
}

#[test]
fn what_finds_no_room_is_dropped_by_name_and_the_rest_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = started(directory.path(), QUEUE_BYTES_MIN);
    let hold = writer.hold();
    let mut handed = Sum::default();
    // Four blocks in the queue and one that is full: 16 packets each.
    let taken = offer(&mut writer, 0..200, &mut handed);
    assert!((64..=96).contains(&taken), "{taken}");
    drop(hold);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !writer.has_room() && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    let after = offer(&mut writer, 200..210, &mut handed);
    assert_eq!(after, 10, "there is room again");
    for given in writer.sums().collect::<Vec<_>>() {
        handed.packets += given.handed.packets;
        handed.bytes += given.handed.bytes;
    }
    let ended = writer.finish(vec![None], |_| true).unwrap().unwrap();
    assert_eq!(ended.failed, None);
    // The two ends were counted by two threads.
    let written = written(&ended).written;
    assert_eq!(
        (handed.packets, handed.bytes),
        (written.packets, written.bytes)
    );
    assert_eq!(written.packets, taken + 10);
    let missed = (200 - taken) * PACKET as u64;
    assert_eq!(ended.unwritten, (missed, 1), "one range");
    let list = std::fs::read_to_string(directory.path().join("north.lost.csv")).unwrap();
    let line = format!("{},{missed},queue_full", taken * PACKET as u64);
    assert!(list.lines().any(|it| it == line), "{list}");
    let file = std::fs::read(directory.path().join("north")).unwrap();
    assert_eq!(file.len(), 210 * PACKET);
    for packet in (0..taken).chain(200..210) {
        let at = packet as usize * PACKET;
        assert!(
            file[at..at + PACKET]
                .iter()
                .all(|byte| *byte == packet as u8)
        );
    }
}

#[test]
fn what_is_in_blocks_that_nobody_wrote_is_known_to_who_gave_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = started(directory.path(), QUEUE_BYTES_MIN);
    let mut handed = Sum::default();
    // Two blocks are written, and a third one holds the writer up.
    offer(&mut writer, 0..40, &mut handed);
    hand_over(&mut writer, &mut handed);
    while writer.waiting() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(writer.outstanding(), [Sum::default(); 2]);
    let hold = writer.hold();
    let mut handed = Sum::default();
    let taken = offer(&mut writer, 40..90, &mut handed);
    assert_eq!(taken, 50);
    assert!(handed.packets > 0, "a block is full");
    assert!(writer.finish(vec![None], |_| false).unwrap().is_none());
    let outstanding = writer.outstanding().remove(0);
    assert_eq!(
        (outstanding.packets, outstanding.bytes),
        (50, 50 * PACKET as u64)
    );
    drop(hold);
    let deadline = std::time::Instant::now() + std::time::Duration::from_millis(200);
    while std::time::Instant::now() < deadline {
        assert_eq!(
            writer.outstanding(),
            [outstanding, Sum::default()],
            "the writer's end comes too late"
        );
    }
}

#[test]
fn what_is_to_be_confirmed_is_in_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = started(directory.path(), QUEUE_BYTES_MIN);
    let mut handed = Sum::default();
    offer(&mut writer, 0..3, &mut handed);
    let hold = writer.hold();
    let settled = writer.settle();
    hand_over(&mut writer, &mut handed);
    assert!(!writer.has_taken(settled), "nobody has written it");
    drop(hold);
    while !writer.has_taken(settled) {
        std::thread::yield_now();
    }
    let file = std::fs::read(directory.path().join("north")).unwrap();
    assert_eq!(file.len(), 3 * PACKET);
    assert!(writer.is_idle());
}

#[test]
fn what_found_no_room_or_no_disk_is_unwritten_until_its_sender_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    // Its file cannot be made: a directory is in the way.
    let mut writer = started(&directory.path().join("nowhere"), QUEUE_BYTES_MIN);
    let mut handed = Sum::default();
    let hold = writer.hold();
    let taken = offer(&mut writer, 0..200, &mut handed);
    let missed = 200 - taken;
    assert!(missed > 0, "all found room");
    let of = |packets: u64| Unwritten {
        packets,
        bytes: packets * PACKET as u64,
    };
    assert_eq!(writer.unwritten(0), of(missed));
    drop(hold);
    let settled = writer.settle();
    let settle = |writer: &mut Writer, handed: &mut Sum, settled| {
        while !writer.has_taken(settled) {
            if writer.is_due() {
                hand_over(writer, handed);
            }
            std::thread::yield_now();
        }
    };
    settle(&mut writer, &mut handed, settled);
    assert_eq!(writer.unwritten(0), of(200), "none has a place");
    writer.open(0, "north", Carries::Bytes);
    offer(&mut writer, 0..3, &mut handed);
    let settled = writer.settle();
    settle(&mut writer, &mut handed, settled);
    assert_eq!(writer.unwritten(0), of(3));
}

#[test]
fn what_a_writer_that_panics_had_in_its_queue_is_not_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = started(directory.path(), QUEUE_BYTES_MIN);
    let mut handed = Sum::default();
    writer.panic();
    offer(&mut writer, 0..3, &mut handed);
    let settled = writer.settle();
    hand_over(&mut writer, &mut handed);
    while writer.is_there() {
        std::thread::yield_now();
    }
    assert!(!writer.has_taken(settled), "nobody has written it");
    assert!(!writer.is_idle() && !writer.has_room());
    assert_eq!(
        writer.finish(vec![None], |_| true).err().as_deref(),
        Some(PANICKED)
    );
}

#[test]
fn small_packets_fill_the_queue_no_sooner_than_the_port_brings_so_many_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = started(directory.path(), QUEUE_BYTES_MIN);
    let hold = writer.hold();
    let mut taken = 0;
    while writer.data(&came(taken), taken, &[1], None) {
        taken += 1;
        if writer.is_due_when_full() {
            writer.give();
        }
    }
    let at_the_port = taken * forebay_wire::tdm::DATA_HEAD_BYTES as u64;
    assert!(at_the_port >= QUEUE_BYTES_MIN, "{at_the_port}");
    drop(hold);
}

#[test]
fn what_fails_at_the_very_end_is_told_by_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = started(directory.path(), QUEUE_BYTES_MIN);
    let hold = writer.hold();
    offer(&mut writer, 0..200, &mut Sum::default());
    // Nobody asks any more what the writer has to say.
    for packet in 0..70_000 {
        let range = LostRange {
            restarts: 0,
            sender: 0,
            offset: (1000 + 2 * packet) * PACKET as u64,
            bytes: 1,
        };
        writer.lost(range, 0);
    }
    drop(hold);
    let ended = writer.finish(vec![None], |_| true).unwrap().unwrap();
    let failed = ended.failed.unwrap();
    assert!(failed.contains("found no room"), "{failed}");
}

#[test]
fn a_queue_holds_three_seconds_of_the_port_within_its_bounds() {
    assert_eq!(default_queue_bytes(1_000_000_000), 375_000_000);
    assert_eq!(default_queue_bytes(1_000), 64 << 20);
    assert_eq!(default_queue_bytes(u64::MAX), 1 << 30);
}
