//! Captures that are compressed, by gzip (RFC 1952) or Zstandard (RFC 8878): their first bytes say so.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// What is looked at of a source, in bytes: the parser looks at the first read only, and a pipe may give it a few bytes.
const START_BYTES: u64 = 4_096;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A source of bytes, whatever it is.
pub(super) type Source = Box<dyn Read + Send>;

/// The first bytes of what a source has in it, and the rest.
pub(super) fn begin(mut source: Source) -> io::Result<(Vec<u8>, Source)> {
    let start = start_of(&mut source)?;
    let whole = |start, source| Cursor::new(start).chain(source);
    let mut inner: Source = if start.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(whole(start, source)))
    } else if start.starts_with(&ZSTANDARD) {
        Box::new(zstd::stream::read::Decoder::new(whole(start, source))?)
    } else {
        return Ok((start, source));
    };
    Ok((start_of(&mut inner)?, inner))
}

fn start_of(source: &mut Source) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(START_BYTES as usize);
    source.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
}
