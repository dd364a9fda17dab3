//! A sink of files alone: fed from memory, without network and builder.
//!
//! ```text
//! this thread ──copies blocks──▶ queue (64 MiB) ──▶ the sink's threads ──▶ files
//! ```

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use forebay_ledger::{Leak, LedgerReader, RunWriter, SchemaBuilder, Words};
use forebay_report::statistics::spread;
use forebay_ring::{Meta, Producers, RingSetMemory, RingSetSpec};
use forebay_sink::{
    FileIo, FilePlan, Io, Sink, SinkBooks, SinkHandle, Stall, To, Told, declare_writer,
};
use forebay_sys::{clock, host, process};
use forebay_wire::hld::{EventHeader, EventId};

use super::disk::{Dd, Written, dd};
use super::line::{Goal, Line};
use super::parts::scaled;
use super::{Lines, Session};

/// Bytes of an event, about those of 90 sources in Test-2.
const EVENT_BYTES: usize = 24_576;
/// Events of a block: about 1 MiB, as the builder makes them.
const BLOCK_EVENTS: usize = 42;
/// The default of `[[sinks]]`.
const QUEUE_BYTES: u64 = 64 << 20;
/// Bytes of a run, and of a quick one.
const RUN_MIB: (usize, usize) = (1908, 256);
/// Room asked for ahead, the ends of files, and what others write meanwhile.
const SPARE_BYTES: u64 = 256 << 20;
const RUN: u32 = 77;
/// While the queue is full this thread looks so often whether it shall end.
const FULL_SLEEP: Duration = Duration::from_millis(20);
/// Longest time without progress at the end.
const END_MOST: Duration = Duration::from_secs(60);

/// What each contender came to, in turns.
#[derive(Default)]
struct Runs {
    bytes_per_s: Vec<f64>,
    cpu_s_per_gb: Vec<f64>,
}

impl Runs {
    fn add(&mut self, what: &str, written: Written) {
        eprintln!(
            "  {what}: {:.0} MB/s, {:.2} s of CPU for 1 GB",
            written.bytes_per_s / 1e6,
            written.cpu_s_per_gb
        );
        self.bytes_per_s.push(written.bytes_per_s);
        self.cpu_s_per_gb.push(written.cpu_s_per_gb);
    }
}

/// A way to write, the reference beside it, and the goals: least part of the reference's rate, most CPU for 1 GB in s.
#[derive(Clone, Copy)]
struct Pair {
    io: Io,
    /// Each block is on the device before it counts.
    sync: bool,
    reference: Dd,
    rate_goal: Option<f64>,
    cpu_goal: Option<f64>,
}

impl Pair {
    fn sync_words(self) -> &'static str {
        match self.sync {
            true => ", sync = true",
            false => "",
        }
    }
}

/// On a disk: past the page cache and through it, all in turns.
pub(super) fn on_disk(directory: &Path, session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let direct = Pair {
        io: Io::Direct,
        sync: false,
        reference: Dd::Direct,
        rate_goal: Some(0.9),
        cpu_goal: Some(0.25),
    };
    let synced = Pair {
        sync: true,
        rate_goal: None,
        cpu_goal: None,
        ..direct
    };
    let buffered = Pair {
        io: Io::Buffered,
        sync: false,
        reference: Dd::Synced,
        rate_goal: None,
        cpu_goal: None,
    };
    let mut pairs = vec![direct, synced, buffered];
    if !forebay_sys::direct::is_taken_in(directory).context("looking at the disk")? {
        eprintln!(
            "  {} does not say that it writes past the page cache: `direct` is left out",
            directory.display()
        );
        pairs.drain(..2);
    }
    in_turns("disk", &pairs, directory, session, lines)
}

/// In memory, whose pages were touched before: what was not touched for a while is first provided by the host of a virtual machine.
pub(super) fn in_memory(directory: &Path, session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let mib = mib(session);
    check_room(directory, mib)?;
    dd(directory, mib, Dd::Cached).context("touching the memory")?;
    let pair = Pair {
        io: Io::Auto,
        sync: false,
        reference: Dd::Cached,
        rate_goal: Some(0.8),
        cpu_goal: None,
    };
    in_turns("memory (tmpfs)", &[pair], directory, session, lines)
}

fn mib(session: &Session) -> usize {
    match session.quick {
        true => RUN_MIB.1,
        false => RUN_MIB.0,
    }
}

/// An error where a file system has less room than so many MiB and some to spare.
pub(super) fn check_room(directory: &Path, mib: usize) -> Result<()> {
    let needed = ((mib as u64) << 20) + SPARE_BYTES;
    if let Some((_, free)) = host::file_system_bytes(directory)
        && free < needed
    {
        bail!(
            "{} has {} MB free, and a run needs {} MB; remedy: --quick, or --out DIR on a disk with more room",
            directory.display(),
            free / 1_000_000,
            needed / 1_000_000
        );
    }
    Ok(())
}

fn in_turns(
    place: &str,
    pairs: &[Pair],
    directory: &Path,
    session: &Session,
    lines: &mut Lines<'_>,
) -> Result<()> {
    let mib = mib(session);
    check_room(directory, mib)?;
    let mut found: Vec<_> = pairs
        .iter()
        .map(|_| (Runs::default(), Runs::default()))
        .collect();
    for _ in 0..session.runs() {
        for (pair, (ours, reference)) in pairs.iter().zip(&mut found) {
            let (written, io) = write(directory, *pair, mib, session)?;
            ours.add(&format!("sink alone, {io}{}", pair.sync_words()), written);
            session.go_on()?;
            let words = pair.reference.words();
            reference.add(words, dd(directory, mib, pair.reference)?);
        }
    }
    for (pair, (ours, reference)) in pairs.iter().zip(found) {
        lines.put_all(lines_of(place, pair, mib, ours, reference)?);
    }
    Ok(())
}

fn lines_of(
    place: &str,
    pair: &Pair,
    mib: usize,
    ours: Runs,
    reference: Runs,
) -> Result<[Line; 2]> {
    let what = match pair.io {
        Io::Direct => "direct",
        Io::Buffered => "buffered",
        Io::Auto => "as by default",
    };
    let what = format!("{what}{}", pair.sync_words());
    let spread = |values| spread(values).context("nothing was measured");
    let beside = format!("{}, {mib} MiB", pair.reference.words());
    let mut rate = Line::new(
        format!("sink alone from memory onto {place}, io {what}"),
        "MB/s",
        scaled(spread(ours.bytes_per_s)?, 1e-6),
    )
    .beside(beside.clone(), scaled(spread(reference.bytes_per_s)?, 1e-6))
    .note("in turns; the sink's files are flushed to the device within its time (fdatasync)");
    if let Some(goal) = pair.rate_goal {
        rate = rate.ratio_goal(Goal::AtLeast(goal));
    }
    if place != "disk" {
        rate = rate.note("in turns; as much memory was touched once before");
    }
    let mut cpu = Line::new(
        format!("CPU of the sink alone for 1 GB onto {place}, io {what}"),
        "s",
        spread(ours.cpu_s_per_gb)?,
    )
    .beside(beside, spread(reference.cpu_s_per_gb)?)
    .note("user and kernel, without the thread that feeds it; the kernel's own threads are in neither");
    if let Some(goal) = pair.cpu_goal {
        cpu = cpu.goal(Goal::AtMost(goal));
    }
    Ok([rate, cpu])
}

/// Lets a sink write `mib` MiB of events into `directory`, and removes them. The time runs until they are on the device.
fn write(
    directory: &Path,
    pair: Pair,
    mib: usize,
    session: &Session,
) -> Result<(Written, &'static str)> {
    let block = block();
    let blocks = (mib << 20).div_ceil(block.len()) as u64;
    let mut schema = SchemaBuilder::new("bench");
    let (own, _) = declare_writer(&mut schema, "sink", "file");
    let schema = schema.finish()?;
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, std::process::id(), clock::realtime_ns())?;
    let longest = u32::try_from(block.len()).context("a block")?;
    let queue = RingSetSpec::new("forebay-bench-sink", vec![QUEUE_BYTES], longest);
    let memory = RingSetMemory::create(&queue)?;
    let mut producers = Producers::map(&queue, memory.producer_fds()?)?;
    let folder = tempfile::tempdir_in(directory).context("making a directory")?;
    let plan = FilePlan {
        io: pair.io,
        sync: pair.sync,
        ..FilePlan::of_streams(folder.path().into())
    };
    let sink = Sink {
        name: "file".into(),
        to: To::Files(plan),
        queue,
        books: SinkBooks::attach(&schema, &words, own.clone())?,
        leak: Leak::off(),
        stall: Stall::default(),
    };
    let (began, cpu_before) = (Instant::now(), cpu_ns());
    let sink = SinkHandle::start(sink, memory.consumer_fds()?)?;
    let own_before = clock::thread_cpu_ns();
    let fed = feed(&mut producers, &block, blocks, session);
    producers.rings[0].close();
    producers.notify();
    let feeding_ns = clock::thread_cpu_ns() - own_before;
    sink.expect_end();
    let told = sink.join(END_MOST);
    fed?;
    flush(folder.path())?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_s = (cpu_ns() - cpu_before).saturating_sub(feeding_ns) as f64 / 1e9;
    for told in told {
        match told {
            Told::Tainted(taint) => bail!("the sink: {}", taint.text),
            Told::Warning(text) => eprintln!("  the sink: {text}"),
        }
    }
    let snapshot = LedgerReader::open(&words)?.snapshot()?;
    let written = snapshot.tally(own.account.outgoing);
    let bytes = blocks * block.len() as u64;
    ensure!(
        written == (blocks * BLOCK_EVENTS as u64, bytes),
        "{written:?} of {blocks} blocks were written"
    );
    let io = FileIo::of_number(snapshot.value(own.file_io)).context("no file was begun")?;
    folder.close().context("removing the files")?;
    Ok((Written::new(bytes as f64, seconds, cpu_s), io.word()))
}

/// CPU time of this process, in ns.
fn cpu_ns() -> u64 {
    let time = process::own_cpu_time();
    time.user_ns + time.system_ns
}

/// Whole events, one behind the other, of one file.
fn block() -> Vec<u8> {
    let mut header = EventHeader::new(EventId::data(1), 0, RUN);
    header.size = EVENT_BYTES as u32;
    let mut event = vec![0; EVENT_BYTES];
    let head = header.to_bytes();
    event[..head.len()].copy_from_slice(&head);
    event.repeat(BLOCK_EVENTS)
}

/// Copies the block into the queue so often, as fast as the sink makes room.
fn feed(producers: &mut Producers, block: &[u8], blocks: u64, session: &Session) -> Result<()> {
    let meta = Meta {
        tag: RUN,
        items: BLOCK_EVENTS as u32,
        ..Meta::default()
    };
    for _ in 0..blocks {
        loop {
            session.go_on()?;
            if let Ok(mut loan) = producers.rings[0].reserve(block.len()) {
                loan.copy_from_slice(block);
                loan.commit(block.len(), meta);
                break;
            }
            producers.wait_space(0, block.len(), FULL_SLEEP)?;
        }
        producers.rings[0].publish();
        producers.notify();
    }
    Ok(())
}

/// Brings all files of a directory to the device.
fn flush(directory: &Path) -> Result<()> {
    for entry in std::fs::read_dir(directory).context("listing the files")? {
        let path = entry.context("listing the files")?.path();
        let file = std::fs::File::open(&path);
        let flushed = file.and_then(|file| file.sync_data());
        flushed.with_context(|| format!("flushing {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_run::Stop;

    #[test]
    fn what_is_fed_is_in_the_books_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let session = Session {
            options: super::super::Options {
                quick: true,
                work: folder.path().into(),
                program: std::path::PathBuf::new(),
            },
            stop: Stop::of_library().unwrap(),
        };
        for (io, sync, expected) in [
            (Io::Buffered, false, "buffered"),
            (Io::Auto, false, ""),
            (Io::Auto, true, ""),
        ] {
            let pair = Pair {
                io,
                sync,
                reference: Dd::Cached,
                rate_goal: None,
                cpu_goal: None,
            };
            let (written, found) = write(folder.path(), pair, 80, &session).unwrap();
            assert!(written.bytes_per_s > 0.0 && written.cpu_s_per_gb > 0.0);
            assert!(found.starts_with(expected), "{found}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_disk_without_room_is_told_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let told = check_room(folder.path(), 1 << 40).unwrap_err();
        assert!(told.to_string().contains("remedy: --quick"), "{told}");
        check_room(folder.path(), 0).unwrap();
    }
}
