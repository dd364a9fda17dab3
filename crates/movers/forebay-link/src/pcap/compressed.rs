//! Captures that are compressed, by gzip (RFC 1952) or Zstandard (RFC 8878): their first bytes say so. What stops a source is kept, as parsers do not hand it on.

use std::io::{self, Cursor, ErrorKind, Read};
use std::sync::{Arc, OnceLock};

use flate2::read::MultiGzDecoder;
use forebay_wire::pcap::FILE_HEADER_BYTES;

/// What is looked at of a source, in bytes: the parser looks at the first read only, and a pipe may give it a few bytes.
const START_BYTES: u64 = 4_096;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A source of bytes, whatever it is.
pub(super) type Source = Box<dyn Read + Send>;

/// Why a source gives no more.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Stopped {
    /// What is compressed in this form breaks off.
    #[error("its {0} stream ends early: the file was cut, or is still being written")]
    Early(&'static str),
    /// All else.
    #[error("{0}")]
    Failed(String),
}

/// What stopped a source, as soon as something did.
pub(super) type Fault = Arc<OnceLock<Stopped>>;

/// A source that fails again behind its first failure, and says why.
struct Told<R> {
    inner: R,
    /// The form of what is compressed in it, if it is.
    form: Option<&'static str>,
    has_failed: bool,
    fault: Fault,
}

impl<R: Read> Read for Told<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_failed {
            return Err(ErrorKind::Other.into());
        }
        let read = self.inner.read(buffer);
        if let Err(error) = &read
            && error.kind() != ErrorKind::Interrupted
        {
            self.has_failed = true;
            let stopped = match self.form {
                Some(form) if error.kind() == ErrorKind::UnexpectedEof => Stopped::Early(form),
                Some(form) => Stopped::Failed(format!("its {form} stream is broken: {error}")),
                None => Stopped::Failed(error.to_string()),
            };
            // A source below this one may have failed before it.
            let _ = self.fault.set(stopped);
        }
        read
    }
}

/// The first bytes of what a source has in it, the rest, and whether it is compressed. What stops it is in `fault`.
pub(super) fn begin(source: Source, fault: &Fault) -> io::Result<(Vec<u8>, Source, bool)> {
    let told = |inner, form| -> Source {
        Box::new(Told {
            inner,
            form,
            has_failed: false,
            fault: fault.clone(),
        })
    };
    let mut source = told(source, None);
    let start = start_of(&mut source)?;
    let whole = |start, source| Cursor::new(start).chain(source);
    let (inner, form): (Source, _) = if start.starts_with(&GZIP) {
        (Box::new(MultiGzDecoder::new(whole(start, source))), "gzip")
    } else if start.starts_with(&ZSTANDARD) {
        let decoder = zstd::stream::read::Decoder::new(whole(start, source))?;
        (Box::new(decoder), "Zstandard")
    } else {
        return Ok((start, source, false));
    };
    let mut inner = told(inner, Some(form));
    Ok((start_of(&mut inner)?, inner, true))
}

/// The first bytes. What came in front of a failure is good: behind it, the source fails again.
fn start_of(source: &mut Source) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(START_BYTES as usize);
    match source.take(START_BYTES).read_to_end(&mut start) {
        Err(error) if start.len() < FILE_HEADER_BYTES => Err(error),
        _ => Ok(start),
    }
}
