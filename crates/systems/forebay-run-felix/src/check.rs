//! Checks a stream of raw blocks, as a card writes them and programs record them: `forebay fcheck`.
//!
//! ```
//! use forebay_run_felix::check::{Check, Quiet, Settings};
//! use forebay_wire::felix::{BlockFormat, BlockWriter, Elink, Flags};
//!
//! let mut file = vec![0; 1024];
//! let elink = Elink::of_link(3).unwrap();
//! let mut block = BlockWriter::begin(BlockFormat::PHASE1, elink, 0, &mut file).unwrap();
//! block.push(b"a chunk", 0, Flags::NONE);
//! block.close();
//!
//! let report = Check::run(&mut file.as_slice(), &Settings::default(), &mut Quiet)?;
//! assert!(report.is_sound());
//! assert_eq!((report.blocks, report.chunks), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::{self, Read};

use forebay_readout::numbers::Step;
use forebay_readout::payload::Stream;
use forebay_readout::{BlockError, Chunk, Config, Damage, Decoder};
use forebay_wire::felix::{BlockFormat, BlockHead, ELINKS, Elink, Kind, Subchunk};

mod fault;
pub mod frame;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod watch;

pub use fault::{Fault, Faults, Finding};
pub use forebay_readout::Status;
pub use report::{ByName, ElinkReport, Report, Residual};
pub use settings::{CheckError, Settings};
pub use watch::{Quiet, Seen, Watch};

pub use forebay_readout::payload::Payload;
use frame::{Framer, Next, Window};
use report::{Counts, add, add_faults};

/// What is known on the way.
#[derive(Debug)]
pub struct Check<'a> {
    settings: &'a Settings,
    decoder: Decoder,
    tally: Tally,
    streams: Box<[Stream]>,
    subchunks: Vec<(usize, Subchunk)>,
    bytes: u64,
    blocks: u64,
    skipped: u64,
    tail: u64,
}

/// Counts and findings.
#[derive(Debug)]
struct Tally {
    shown: Box<[bool]>,
    counts: Box<[Counts]>,
    /// Of no E-link.
    faults: Faults,
    missing_blocks: u64,
    findings: Vec<Finding>,
    findings_max: usize,
}

impl Tally {
    fn fault(
        &mut self,
        fault: Fault,
        offset: u64,
        elink: Option<Elink>,
        text: impl FnOnce() -> String,
    ) {
        let place = elink.map(|elink| usize::from(elink.number()));
        let faults = match place {
            Some(place) => &mut self.counts[place].faults,
            None => &mut self.faults,
        };
        faults[fault] += 1;
        let is_shown = place.is_none_or(|place| self.shown[place]);
        if is_shown && self.findings.len() < self.findings_max {
            self.findings.push(Finding {
                offset,
                elink,
                kind: fault,
                text: text(),
            });
        }
    }
}

impl<'a> Check<'a> {
    /// Reads all there is, and tells what it is.
    ///
    /// # Errors
    /// It cannot be read, or has no blocks.
    pub fn run(
        from: &mut impl Read,
        settings: &'a Settings,
        watch: &mut impl Watch,
    ) -> Result<Report, CheckError> {
        let mut window = Window::default();
        let mut bytes = fill(&mut window, from, watch, 0)?;
        let format = format(&window, settings)?;
        let mut check = Self::new(format, settings)?;
        let mut framer = Framer::new(format);
        let mut lost: Option<u64> = None;
        loop {
            bytes += fill(&mut window, from, watch, bytes)?;
            let offset = window.offset();
            let decoder = &mut check.decoder;
            let next = framer.next(&window, |block| decoder.look(block).is_ok());
            let taken = match next {
                Next::Block => {
                    let block = &window.bytes()[..format.bytes()];
                    check.block(offset, block, watch)?;
                    block.len()
                }
                Next::Skip(skipped, is_over) => {
                    let begun = *lost.get_or_insert(offset);
                    check.skipped += skipped as u64;
                    if is_over {
                        let all = offset + skipped as u64 - begun;
                        let text = || format!("{all} bytes skipped, in which no block begins");
                        check.tally.fault(Fault::Resync, begun, None, text);
                        lost = None;
                    }
                    skipped
                }
                Next::Tail(tail) => {
                    check.tail += tail as u64;
                    let text = || format!("{tail} bytes of a block of {}", format.bytes());
                    check.tally.fault(Fault::Tail, offset, None, text);
                    tail
                }
                Next::End => break,
            };
            window.skip(taken);
        }
        check.bytes = bytes;
        check.finish(watch)
    }

    fn new(format: BlockFormat, settings: &'a Settings) -> Result<Self, CheckError> {
        let config = Config {
            chunk_bytes_max: settings.chunk_bytes_max,
        };
        let is_shown = |number: usize| {
            let one = Elink::from_bits(number as u16);
            settings.elinks.is_empty() || settings.elinks.contains(&one)
        };
        Ok(Self {
            settings,
            decoder: Decoder::new(format, &config)?,
            tally: Tally {
                shown: (0..ELINKS).map(is_shown).collect(),
                counts: vec![Counts::default(); ELINKS].into(),
                faults: Faults::default(),
                missing_blocks: 0,
                findings: Vec::new(),
                findings_max: settings.findings_max,
            },
            streams: vec![Stream::default(); ELINKS].into(),
            subchunks: Vec::new(),
            bytes: 0,
            blocks: 0,
            skipped: 0,
            tail: 0,
        })
    }

    fn block(
        &mut self,
        offset: u64,
        block: &[u8],
        watch: &mut impl Watch,
    ) -> Result<(), CheckError> {
        let before = self.decoder.account();
        let (damage, missing) = (before.damage, before.missing_blocks);
        self.blocks += 1;
        let error = self.decoder.handle_block(block).err();
        let head = BlockHead::of(block).unwrap_or(BlockHead::from_word(0));
        let place = usize::from(head.elink.number());
        let has_head = !matches!(error, Some(BlockError::Marker { .. }));
        if watch.wants_blocks() && (self.tally.shown[place] || !has_head) {
            self.subchunks.clear();
            self.subchunks.extend(self.decoder.subchunks());
            let seen = Seen {
                offset,
                head,
                subchunks: &self.subchunks,
                error,
                bytes: block,
            };
            watch.block(&seen).map_err(CheckError::Watch)?;
        }
        let elink = has_head.then_some(head.elink);
        if let Some(error) = &error {
            let text = || error.to_string();
            self.tally.fault(error.into(), offset, elink, text);
        } else {
            let kinds = &mut self.tally.counts[place].kinds;
            for (_, subchunk) in self.decoder.subchunks() {
                kinds[subchunk.kind as usize] += 1;
            }
        }
        if has_head {
            self.chunks(offset, block, place, watch)?;
        }
        let account = self.decoder.account();
        if account.damage != damage {
            let missing = account.missing_blocks - missing;
            if self.tally.shown[place] {
                self.tally.missing_blocks += missing;
            }
            for (of, now) in account.damage.iter() {
                let text = || match of {
                    Damage::Gap => gap(head, missing),
                    Damage::Unended
                    | Damage::Orphan
                    | Damage::UndefinedKind
                    | Damage::TooLong
                    | Damage::Unfinished
                    | Damage::Interrupted => String::new(),
                };
                for _ in damage[of]..now {
                    self.tally.fault(of.into(), offset, elink, text);
                }
            }
        }
        Ok(())
    }

    fn chunks(
        &mut self,
        offset: u64,
        block: &[u8],
        place: usize,
        watch: &mut impl Watch,
    ) -> Result<(), CheckError> {
        let (tally, stream) = (&mut self.tally, &mut self.streams[place]);
        let against = self.settings.payload;
        let mut trouble = None;
        self.decoder.poll(block, |chunk| {
            let done = take(tally, stream, against, offset, &chunk, watch);
            trouble = trouble.take().or(done.err());
            true
        });
        trouble.map_or(Ok(()), |error| Err(CheckError::Watch(error)))
    }

    fn finish(mut self, watch: &mut impl Watch) -> Result<Report, CheckError> {
        let (tally, streams) = (&mut self.tally, &mut self.streams);
        let (against, bytes) = (self.settings.payload, self.bytes);
        let mut trouble = None;
        self.decoder.finish::<&[u8]>(|chunk| {
            let stream = &mut streams[usize::from(chunk.elink.number())];
            let text = || format!("its {} bytes have no end", chunk.payload.len());
            tally.fault(Fault::Unfinished, bytes, Some(chunk.elink), text);
            let done = take(tally, stream, against, bytes, &chunk, watch);
            trouble = trouble.take().or(done.err());
            true
        });
        if let Some(error) = trouble {
            return Err(CheckError::Watch(error));
        }
        let account = self.decoder.account();
        let markers = self.tally.faults[Fault::Marker];
        if account.blocks == markers {
            return Err(CheckError::NoBlock {
                searched: format!("{bytes} bytes"),
                remedy: "leave the format of blocks to be found (no --blocks), or give another one",
            });
        }
        Ok(self.report())
    }

    fn report(self) -> Report {
        let (account, format) = (self.decoder.account(), self.decoder.format());
        let kind_names = || Kind::ALL.into_iter().map(Kind::name);
        let (mut errors, mut flagged) = (ByName::new(), ByName::new());
        add_faults(&mut errors, &self.tally.faults);
        let mut elinks = Vec::new();
        let mut all_chunks = 0;
        for (number, counts) in self.tally.counts.iter().enumerate() {
            let link = self.decoder.link(Elink::from_bits(number as u16));
            all_chunks += counts.chunks;
            let had_something = link.blocks > 0 || counts.faults.total() > 0;
            if !had_something || !self.tally.shown[number] {
                continue;
            }
            add_faults(&mut errors, &counts.faults);
            let status_names = Status::NAMES.into_iter().map(|(_, name)| name);
            add(&mut flagged, status_names, &counts.flagged);
            let mut one = ElinkReport {
                elink: number as u16,
                blocks: link.blocks,
                chunks: link.chunks,
                bytes: link.bytes,
                chunk_bytes_min: counts.least() as u64,
                chunk_bytes_mean: link.bytes as f64 / link.chunks.max(1) as f64,
                chunk_bytes_max: counts.most as u64,
                flagged: link.flagged,
                gaps: link.gaps,
                subchunks: ByName::new(),
                errors: ByName::new(),
            };
            add(&mut one.subchunks, kind_names(), &counts.kinds);
            add_faults(&mut one.errors, &counts.faults);
            elinks.push(one);
        }
        let [blocks, pieces, piece_bytes] = account.residual();
        let held = account.held.map(i128::from);
        let framed = u128::from(self.blocks) * format.bytes() as u128;
        let in_file = framed + u128::from(self.skipped) + u128::from(self.tail);
        Report {
            blocks_format: format.to_string(),
            block_bytes: format.bytes() as u64,
            bytes: self.bytes,
            blocks: self.blocks,
            skipped_bytes: self.skipped,
            tail_bytes: self.tail,
            chunks: elinks.iter().map(|link| link.chunks).sum(),
            chunk_bytes: elinks.iter().map(|link| link.bytes).sum(),
            missing_blocks: self.tally.missing_blocks,
            errors,
            flagged,
            elinks,
            residual: Residual {
                file_bytes: (i128::from(self.bytes) - in_file as i128) as i64,
                blocks: (blocks + i128::from(self.blocks) - i128::from(account.blocks)) as i64,
                pieces: (pieces + held[0]) as i64,
                piece_bytes: (piece_bytes + held[1]) as i64,
                chunks: (i128::from(account.chunks) - i128::from(all_chunks)) as i64,
            },
            first_errors: self.tally.findings,
        }
    }
}

fn gap(head: BlockHead, missing: u64) -> String {
    let (sequence, all) = (head.sequence, u64::from(BlockHead::SEQUENCES));
    let expected = (u64::from(sequence) + all - missing % all) % all;
    format!("sequence {sequence}, expected {expected}: at least {missing} missing")
}

/// A chunk has come.
#[inline]
fn take(
    tally: &mut Tally,
    stream: &mut Stream,
    against: Payload,
    offset: u64,
    chunk: &Chunk<'_, &[u8]>,
    watch: &mut impl Watch,
) -> io::Result<()> {
    let (elink, status) = (chunk.elink, chunk.status);
    let bytes = match chunk.payload {
        forebay_readout::Payload::Within(bytes) | forebay_readout::Payload::Joined(bytes) => bytes,
    };
    let place = usize::from(elink.number());
    tally.counts[place].chunk(bytes.len(), status);
    let (wrong, step) = stream.verify(against, elink, status, bytes);
    if let Some(wrong) = wrong {
        let text = || wrong.to_string();
        tally.fault((&wrong).into(), offset, Some(elink), text);
    }
    match step {
        Step::First | Step::Next => {}
        Step::Repeated => tally.fault(Fault::L1idRepeat, offset, Some(elink), String::new),
        Step::Jumped(missing) => {
            let text = || format!("{missing} trigger numbers missing");
            tally.fault(Fault::L1idJump, offset, Some(elink), text);
        }
    }
    if watch.wants_chunks() && tally.shown[place] {
        watch.chunk(offset, elink, status, bytes)?;
    }
    Ok(())
}

fn fill(
    window: &mut Window,
    from: &mut impl Read,
    watch: &mut impl Watch,
    offset: u64,
) -> Result<u64, CheckError> {
    let filled = window.fill(from);
    let bytes = filled.map_err(|error| CheckError::Read { offset, error })?;
    if bytes > 0 {
        watch.read(offset + bytes);
    }
    Ok(bytes)
}

/// The format that was given, or that the first block has.
fn format(window: &Window, settings: &Settings) -> Result<BlockFormat, CheckError> {
    if window.bytes().is_empty() {
        return Err(CheckError::Empty);
    }
    let given = settings.blocks.map(|format| {
        if settings.has_headers {
            format.with_headers()
        } else {
            format
        }
    });
    let found = given.or_else(|| frame::detect(window, settings.has_headers));
    found.ok_or_else(|| CheckError::NoBlock {
        searched: format!("its first {} bytes", window.bytes().len()),
        remedy: "is it a file of raw blocks? --blocks gives their format where it is known",
    })
}
