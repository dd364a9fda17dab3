//! The frames of a capture file, whatever its form.

use std::io::{self, Cursor, Read};

use forebay_wire::pcap::FileHeader;
use forebay_wire::pcapng::SECTION_HEADER;

use super::CaptureError;
use super::blocks::Blocks;
use super::classic::Classic;
use super::compressed::{self, Fault, Source, Stopped};

/// The largest packet or block that is read.
pub const FRAME_MAX_BYTES: usize = 16 << 20;
/// What is told of a larger one.
pub(super) const TOO_LARGE: &str = "it is larger than 16 MiB";

/// One packet, as it was captured.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Its number in the file, the first is 1.
    pub number: u64,
    /// Where it starts in the file, in bytes.
    pub offset: u64,
    /// When it was captured, in ns since 1970.
    pub timestamp_ns: u64,
    /// The number of its link type (tcpdump.org/linktypes.html).
    pub link_type: i32,
    /// How long it was on the wire, in bytes.
    pub wire_bytes: u32,
    /// What the capture has of it.
    pub bytes: &'a [u8],
}

impl Frame<'_> {
    /// Whether the capture has less of it than there was.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.bytes.len() < self.wire_bytes as usize
    }
}

/// Where a packet is in its file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// Its number, the first is 1.
    pub(super) number: u64,
    /// Where it, or what follows, starts, in bytes.
    pub(super) offset: u64,
}

impl Place {
    pub(super) const fn cut(self) -> CaptureError {
        CaptureError::Cut {
            packet: self.number + 1,
            offset: self.offset,
        }
    }

    pub(super) const fn broken(self, what: &'static str) -> CaptureError {
        CaptureError::Broken {
            packet: self.number + 1,
            offset: self.offset,
            what,
        }
    }

    /// That reading failed; why is known to the source alone.
    pub(super) const fn unreadable(self) -> CaptureError {
        CaptureError::Read {
            packet: self.number,
            offset: self.offset,
            why: String::new(),
        }
    }
}

enum Form {
    Classic(Classic),
    Blocks(Box<Blocks>),
}

/// A file of pcapng whose first bytes were read. The parser reads a second time before it gives anything: that read comes to nothing here, so that it neither waits for a pipe nor fails
/// with what is good before it.
struct Begun {
    start: Cursor<Vec<u8>>,
    has_paused: bool,
    source: Source,
}

impl Begun {
    fn new(start: Vec<u8>, source: Source) -> Self {
        Self {
            start: Cursor::new(start),
            has_paused: false,
            source,
        }
    }
}

impl Read for Begun {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.start.read(buffer)? {
            0 if self.has_paused => self.source.read(buffer),
            0 => {
                self.has_paused = true;
                Ok(0)
            }
            bytes => Ok(bytes),
        }
    }
}

/// The frames of a capture file, one after the other, with no look into them.
pub struct Frames {
    form: Form,
    ended: bool,
    fault: Fault,
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames")
            .field("number", &self.frame().number)
            .finish_non_exhaustive()
    }
}

impl Frames {
    /// Of a file that is read from `source`; one that is compressed by gzip or Zstandard is read as what is in it.
    ///
    /// # Errors
    /// It is empty, no capture, or cannot be read.
    pub fn new(source: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        let fault = Fault::default();
        let (start, source, is_packed) =
            compressed::begin(Box::new(source), &fault).map_err(|error| {
                let why = fault.get().map(ToString::to_string);
                CaptureError::Begin(why.unwrap_or_else(|| error.to_string()))
            })?;
        if start.is_empty() {
            let what = match is_packed {
                true => "what is compressed in it",
                false => "it",
            };
            return Err(CaptureError::Empty { what });
        }
        let form = match FileHeader::parse(&start) {
            Some(header) => Form::Classic(Classic::new(header, &start, source)),
            None => {
                let is_ng = start.starts_with(&SECTION_HEADER);
                let blocks = match is_ng {
                    true => Blocks::new(Begun::new(start, source), is_ng),
                    false => Blocks::new(Cursor::new(start).chain(source), is_ng),
                };
                let blocks = blocks.map_err(|error| match fault.get() {
                    // Its first block is not whole.
                    Some(why) if is_ng => CaptureError::Begin(why.to_string()),
                    _ => error,
                })?;
                Form::Blocks(Box::new(blocks))
            }
        };
        Ok(Self {
            form,
            ended: false,
            fault,
        })
    }

    /// The current packet.
    #[must_use]
    #[inline]
    pub fn frame(&self) -> Frame<'_> {
        match &self.form {
            Form::Classic(classic) => classic.frame(),
            Form::Blocks(blocks) => blocks.frame(),
        }
    }

    /// Goes to the next packet; tells whether there is one. After an error there is none.
    ///
    /// # Errors
    /// The file is broken, or cannot be read.
    #[inline]
    pub fn advance(&mut self) -> Result<bool, CaptureError> {
        if self.ended {
            return Ok(false);
        }
        let advanced = match &mut self.form {
            Form::Classic(classic) => classic.advance(),
            Form::Blocks(blocks) => blocks.advance(),
        };
        self.ended = !matches!(advanced, Ok(true));
        advanced.map_err(|error| self.told(error))
    }

    /// An error with what stopped the source, if that is what it is about.
    #[cold]
    fn told(&self, error: CaptureError) -> CaptureError {
        let CaptureError::Read { packet, offset, .. } = error else {
            return error;
        };
        match self.fault.get() {
            Some(Stopped::Early(form)) => CaptureError::CutStream {
                form,
                packet,
                offset,
            },
            Some(Stopped::Failed(why)) => CaptureError::Read {
                packet,
                offset,
                why: why.clone(),
            },
            None => error,
        }
    }
}
