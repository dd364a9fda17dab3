//! Blocks of events on their way to a file, where they lie.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use forebay_ring::View;
use forebay_wire::hld::EventPlaces;
use forebay_wire::unit::ByteOrder;

/// One block of whole events of one file.
#[derive(Debug)]
pub struct Block<'a> {
    /// The events, one behind the other.
    pub bytes: Bytes<'a>,
    /// Run number of the file.
    pub run: u32,
    /// How many.
    pub events: u64,
}

/// Memory with events: a queue's, shared with another process or thread, or this one's own.
#[derive(Debug)]
pub enum Bytes<'a> {
    /// In a queue.
    Queue(View<'a>),
    /// In memory of this process.
    Own(&'a [u8]),
}

impl Bytes<'_> {
    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Queue(view) => view.len(),
            Self::Own(bytes) => bytes.len(),
        }
    }

    /// Writes all of it at `offset` of a file, straight from where it lies.
    pub(super) fn write_to(&self, file: &File, offset: u64) -> io::Result<()> {
        match self {
            Self::Queue(view) => write_view(file, view, offset),
            Self::Own(bytes) => file.write_all_at(bytes, offset),
        }
    }

    /// Fills `into`, which has the same length.
    pub(super) fn copy_to(&self, into: &mut [u8]) {
        self.copy_part_to(0, into);
    }

    /// Fills `into` from the byte `from` on; there are as many.
    pub(super) fn copy_part_to(&self, from: usize, into: &mut [u8]) {
        match self {
            Self::Queue(view) => {
                // It is inside: it cannot be refused.
                let _ = view.copy_to(from, into);
            }
            Self::Own(bytes) => into.copy_from_slice(&bytes[from..from + into.len()]),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn word(&self, at: usize) -> Option<u32> {
        match self {
            Self::Queue(view) => view.read_u32_le(at),
            Self::Own(bytes) => {
                let word = bytes.get(at..)?.first_chunk()?;
                Some(ByteOrder::Little.u32(*word))
            }
        }
    }
}

fn write_view(file: &File, view: &View<'_>, offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = view
        .part(done, view.len() - done)
        .filter(|rest| !rest.is_empty())
    {
        match rest.write_at(file, offset + done as u64) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Block<'_> {
    /// The block without its last event, for the fault switch.
    #[must_use]
    pub fn without_last(self) -> Self {
        let places = EventPlaces::new(self.bytes.len(), |at| self.bytes.word(at));
        let before = places.take(self.events.saturating_sub(1) as usize).last();
        let at = before.map_or(0, |event| event.end);
        let bytes = match self.bytes {
            Bytes::Queue(view) => Bytes::Queue(view.part(0, at).unwrap_or(view)),
            Bytes::Own(bytes) => Bytes::Own(bytes.get(..at).unwrap_or(bytes)),
        };
        Self {
            bytes,
            run: self.run,
            events: self.events - 1,
        }
    }
}
