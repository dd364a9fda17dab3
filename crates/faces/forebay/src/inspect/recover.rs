//! `--recover`: a sound file out of a broken one, with every complete event and none else.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use forebay_wire::hadtu::round_up_8;
use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};
use forebay_wire::hld_scan::Item;

/// What was copied, left out and added.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) path: PathBuf,
    pub(super) events: u64,
    /// Bytes written.
    pub(super) bytes: u64,
    pub(super) left_out_bytes: u64,
    /// Where the first byte that was left out is in the broken file.
    pub(super) left_out_from: Option<u64>,
    pub(super) added_start: u64,
    pub(super) added_stop: u64,
    out: Option<BufWriter<File>>,
    /// The last header written, when no stop event follows it yet.
    open: Option<EventHeader>,
}

impl Recovery {
    /// The file is made when there is something to write.
    pub(super) fn to(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            events: 0,
            bytes: 0,
            left_out_bytes: 0,
            left_out_from: None,
            added_start: 0,
            added_stop: 0,
            out: None,
            open: None,
        }
    }

    pub(super) fn add(&mut self, item: &Item<'_>) -> anyhow::Result<()> {
        match item {
            Item::Start { header, .. } => {
                self.close()?;
                self.write_header(header)?;
                self.open = Some(*header);
            }
            Item::Event(found) => {
                let header = found.event.header();
                self.ensure_start(&header)?;
                self.write_event(found.event.as_bytes())?;
                self.open = Some(header);
                self.events += 1;
            }
            Item::Stop { header, .. } => {
                self.ensure_start(header)?;
                self.write_header(header)?;
                self.open = None;
            }
            Item::Broken(broken) if broken.bytes > 0 => {
                self.left_out_bytes += broken.bytes;
                self.left_out_from.get_or_insert(broken.offset);
            }
            Item::Broken(_) => {}
        }
        Ok(())
    }

    /// Adds the missing stop event and brings everything to the disk.
    ///
    /// # Errors
    /// When it cannot be written, or when the broken file has no complete event.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        self.close()?;
        let Some(out) = &mut self.out else {
            anyhow::bail!("nothing to recover: the file holds no complete event");
        };
        let written = out.flush().and_then(|()| out.get_ref().sync_all());
        written.with_context(|| self.cannot("write"))
    }

    fn ensure_start(&mut self, header: &EventHeader) -> anyhow::Result<()> {
        if self.open.is_some() {
            return Ok(());
        }
        self.added_start += 1;
        self.write_header(&border(header, EventId::START))
    }

    fn close(&mut self) -> anyhow::Result<()> {
        let Some(header) = self.open.take() else {
            return Ok(());
        };
        self.added_stop += 1;
        self.write_header(&border(&header, EventId::STOP))
    }

    fn write_header(&mut self, header: &EventHeader) -> anyhow::Result<()> {
        let header = EventHeader {
            size: EVENT_HEADER_BYTES as u32,
            ..*header
        };
        self.write(&header.to_bytes())
    }

    /// An event is written up to a multiple of 8 bytes, as every reader expects.
    fn write_event(&mut self, event: &[u8]) -> anyhow::Result<()> {
        let padding = round_up_8(event.len() as u64) as usize - event.len();
        self.write(event)?;
        self.write(&[0; 8][..padding])
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if self.out.is_none() {
            let file = File::create_new(&self.path).with_context(|| self.cannot("make"))?;
            self.out = Some(BufWriter::with_capacity(1 << 20, file));
        }
        if let Some(out) = &mut self.out {
            out.write_all(bytes).with_context(|| self.cannot("write"))?;
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn cannot(&self, verb: &str) -> String {
        format!("cannot {verb} {}", self.path.display())
    }
}

/// A start or stop event that goes with a neighbour's run, date and byte order.
const fn border(neighbour: &EventHeader, id: EventId) -> EventHeader {
    EventHeader {
        size: EVENT_HEADER_BYTES as u32,
        id,
        sequence: 0,
        ..*neighbour
    }
}
