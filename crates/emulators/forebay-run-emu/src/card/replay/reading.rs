//! The blocks of a file, one after the other.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use forebay_readout::{Config, Decoder};
use forebay_run::error::RunError;
use forebay_run_felix::check::frame::{Framer, Next, Window, detect};
use forebay_wire::felix::{BlockFormat, BlockHead, ELINKS};

use super::BlockReplay;
use crate::error::EmuError;

/// What a file holds.
pub(super) struct Survey {
    pub(super) format: BlockFormat,
    pub(super) elinks: BTreeSet<u16>,
}

/// One way through a file.
pub(super) struct Reading {
    file: File,
    pub(super) window: Window,
    framer: Framer,
    pub(super) decoder: Decoder,
}

impl Reading {
    pub(super) fn begin(
        replay: &BlockReplay,
        format: Option<BlockFormat>,
    ) -> Result<Self, EmuError> {
        let path = &replay.file;
        // Opening a pipe would wait for a writer.
        let found = std::fs::metadata(path).map_err(RunError::file("opening", path))?;
        if !found.is_file() {
            let path = path.clone();
            let what = if found.is_dir() {
                "a directory"
            } else {
                "a pipe or a device"
            };
            return Err(EmuError::NoFile { path, what });
        }
        let mut file = File::open(path).map_err(RunError::file("opening", path))?;
        let mut window = Window::default();
        window
            .fill(&mut file)
            .map_err(RunError::file("reading", path))?;
        let format = format.or_else(|| detect(&window, replay.headers));
        let format = format.ok_or_else(|| EmuError::NoBlocks { path: path.clone() })?;
        Ok(Self {
            file,
            window,
            framer: Framer::new(format),
            decoder: Decoder::new(format, &Config::default())?,
        })
    }

    /// What comes next; the block, if it is one, is at the beginning of the window.
    pub(super) fn next(&mut self, path: &Path) -> Result<Next, EmuError> {
        let Self {
            file,
            window,
            framer,
            decoder,
        } = self;
        window.fill(file).map_err(RunError::file("reading", path))?;
        Ok(framer.next(window, |block| decoder.look(block).is_ok()))
    }

    pub(super) fn block(&self) -> &[u8] {
        let bytes = self.decoder.format().bytes();
        self.window.bytes().get(..bytes).unwrap_or_default()
    }
}

/// The head of a block whose first word is one of the file's format.
pub(super) fn head_of(block: &[u8], format: BlockFormat) -> Option<BlockHead> {
    BlockHead::of(block).filter(|head| head.marker == format.marker())
}

pub(super) fn survey(replay: &BlockReplay) -> Result<Survey, EmuError> {
    let mut reading = Reading::begin(replay, None)?;
    let format = reading.decoder.format();
    let mut elinks = BTreeSet::new();
    loop {
        let bytes = match reading.next(&replay.file)? {
            Next::Block => {
                let head = head_of(reading.block(), format);
                elinks.extend(head.map(|head| head.elink.number()));
                format.bytes()
            }
            Next::Skip(bytes, _) | Next::Tail(bytes) => bytes,
            Next::End => break,
        };
        reading.window.skip(bytes);
    }
    Ok(Survey { format, elinks })
}

/// Sequence numbers that go on where the file begins once more; within one way through it they are what they are.
pub(super) struct Sequences {
    next: Box<[Option<u8>]>,
    shift: Box<[Option<u8>]>,
}

impl Sequences {
    pub(super) fn new() -> Self {
        Self {
            next: vec![None; ELINKS].into(),
            shift: vec![None; ELINKS].into(),
        }
    }

    pub(super) fn begin_again(&mut self) {
        self.shift.fill(None);
    }

    /// Sets the number in the head of a block.
    pub(super) fn stamp(&mut self, head: BlockHead, block: &mut [u8]) {
        let at = usize::from(head.elink.number());
        let shift = *self.shift[at].get_or_insert_with(|| {
            let next = self.next[at].unwrap_or(head.sequence);
            next.wrapping_sub(head.sequence) % BlockHead::SEQUENCES
        });
        let sequence = head.sequence.wrapping_add(shift) % BlockHead::SEQUENCES;
        self.next[at] = Some((sequence + 1) % BlockHead::SEQUENCES);
        BlockHead { sequence, ..head }.emit(block);
    }
}
