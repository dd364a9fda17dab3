//! Whole heaps into a file or to standard output, each as one piece, in larger writes.

use std::io::{self, Write};

use forebay_sys::watched::WatchedFile;
use forebay_tdm::heaps::Heap;
use forebay_wire::heap::{PIECE_HEAD_BYTES, Piece};

use super::super::found::{Found, Kind};
use super::Sum;

/// Bytes that are gathered before they are written.
const GATHER_BYTES: usize = 1 << 20;

/// A heap that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) heap: u64,
    /// Of its payload.
    pub(super) bytes: u64,
    /// Behind its last byte, from the first one that is gathered.
    end: u64,
}

/// Where records go.
pub(super) enum Out {
    /// Onto a pipe or whatever else takes them in order.
    Stream(Box<dyn Write + Send>),
    File(WatchedFile),
}

impl Out {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Stream(out) => out,
            Self::File(file) => file,
        }
    }
}

/// Where records go, and those that are not there yet.
pub(super) struct Records {
    out: Out,
    bytes: Vec<u8>,
    given: Vec<Given>,
    /// Nothing is written behind a record that is cut.
    has_failed: bool,
}

/// What became of those that were given.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    pub(super) written: Vec<Given>,
    pub(super) not_written: Vec<Given>,
    pub(super) error: Option<io::Error>,
}

impl Records {
    pub(super) fn new(out: Out) -> Self {
        Self {
            out,
            bytes: Vec::with_capacity(GATHER_BYTES),
            given: Vec::new(),
            has_failed: false,
        }
    }

    /// Takes a heap; it is written with the next flush. True when that is due.
    pub(super) fn give(&mut self, number: u64, heap: &Heap) -> bool {
        let record = Piece {
            heap: number,
            tag: heap.tag,
            status: heap.status,
            heap_bytes: heap.bytes.len() as u32,
            offset: 0,
            bytes: &heap.bytes,
        };
        self.bytes.extend_from_slice(&record.head());
        self.bytes.extend_from_slice(record.bytes);
        self.given.push(Given {
            heap: number,
            bytes: heap.bytes.len() as u64,
            end: self.bytes.len() as u64,
        });
        self.bytes.len() >= GATHER_BYTES
    }

    /// Those that were given and not flushed.
    pub(super) fn held(&self) -> Sum {
        Sum {
            heaps: self.given.len() as u64,
            bytes: (self.bytes.len() - self.given.len() * PIECE_HEAD_BYTES) as u64,
        }
    }

    /// Writes what is gathered, and tells of each heap whether all of it was taken.
    pub(super) fn flush(&mut self) -> Flushed {
        let (taken, error) = if self.has_failed || self.bytes.is_empty() {
            (0, None)
        } else {
            self.write_out()
        };
        self.has_failed |= error.is_some();
        self.bytes.clear();
        // A long heap does not stay in memory.
        self.bytes.shrink_to(2 * GATHER_BYTES);
        let cut = self.given.partition_point(|given| given.end <= taken);
        let not_written = self.given.split_off(cut);
        if let Out::File(file) = &mut self.out {
            let mut begin = 0;
            for given in &self.given {
                file.note(given.end - begin, 1, given.bytes);
                begin = given.end;
            }
        }
        Flushed {
            written: std::mem::take(&mut self.given),
            not_written,
            error,
        }
    }

    /// What somebody did to the file.
    pub(super) fn look(&mut self, found: &mut Found) {
        if let Out::File(file) = &mut self.out {
            found.add(Kind::Heaps, file.look(), file.notes());
        }
    }

    /// How many bytes were taken, and why no more.
    fn write_out(&mut self) -> (u64, Option<io::Error>) {
        let mut rest = self.bytes.as_slice();
        let taken = |rest: &[u8]| (self.bytes.len() - rest.len()) as u64;
        while !rest.is_empty() {
            match self.out.writer().write(rest) {
                Ok(0) => return (taken(rest), Some(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => rest = rest.get(bytes..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (taken(rest), Some(error)),
            }
        }
        (taken(rest), self.out.writer().flush().err())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, a few at once, and no more.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0).min(50);
            self.0 -= taken;
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn heaps_are_written_as_far_as_their_last_byte_was_taken() {
        let record = forebay_wire::heap::PIECE_HEAD_BYTES + 10;
        let mut records = Records::new(Out::Stream(Box::new(Full(3 * record - 1))));
        let heap = || Heap {
            tag: 1,
            status: 0,
            bytes: vec![7; 10],
        };
        let numbers = |given: &[Given]| given.iter().map(|it| it.heap).collect::<Vec<_>>();
        assert!(!records.give(0, &heap()));
        let flushed = records.flush();
        assert_eq!(numbers(&flushed.written), [0]);
        for number in 1..5 {
            records.give(number, &heap());
        }
        let flushed = records.flush();
        assert_eq!(numbers(&flushed.written), [1]);
        assert_eq!(numbers(&flushed.not_written), [2, 3, 4]);
        assert!(flushed.error.is_some());
        // Nothing goes behind a record that is cut.
        records.give(5, &heap());
        let flushed = records.flush();
        assert_eq!(numbers(&flushed.not_written), [5]);
        assert!(flushed.error.is_none());
    }
}
