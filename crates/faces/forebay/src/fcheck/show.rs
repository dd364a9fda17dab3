//! Blocks and chunks as text, and how far the reading is.

use std::io::{self, IsTerminal, StdoutLock, Write};
use std::time::{Duration, Instant};

use forebay_run_felix::check::{Seen, Status, Watch};
use forebay_wire::felix::Elink;

use forebay_report::text::bytes;

/// The first look at the time left, and every further one.
const PROGRESS: Duration = Duration::from_millis(500);
/// Bytes on a line.
const LINE_BYTES: usize = 16;

pub(super) struct Show {
    out: io::BufWriter<StdoutLock<'static>>,
    blocks_left: u64,
    chunks_left: u64,
    /// Bytes of the file, where that is known.
    size: Option<u64>,
    begun: Instant,
    told: Option<Instant>,
    on_terminal: bool,
}

impl Show {
    pub(super) fn new(blocks: u64, chunks: u64, size: Option<u64>) -> Self {
        Self {
            out: io::BufWriter::with_capacity(1 << 16, io::stdout().lock()),
            blocks_left: blocks,
            chunks_left: chunks,
            size,
            begun: Instant::now(),
            told: None,
            on_terminal: io::stderr().is_terminal(),
        }
    }

    /// The line of progress goes.
    pub(super) fn end(&self) {
        if self.told.is_some() {
            // Nobody is harmed when the terminal is gone.
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    pub(super) fn flush(mut self) -> io::Result<()> {
        match self.out.flush() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// How far it is, and how long it takes.
fn progress(read: u64, size: Option<u64>, elapsed: Duration) -> String {
    let rate = read as f64 / elapsed.as_secs_f64().max(1e-9);
    let (done, speed) = (bytes(read as f64), bytes(rate));
    match size {
        Some(size) => {
            let left = (size.saturating_sub(read) as f64 / rate.max(1.0)) as u64;
            let size = bytes(size as f64);
            format!(
                "{done} of {size}, {speed}/s, {}:{:02} left",
                left / 60,
                left % 60
            )
        }
        None => format!("{done}, {speed}/s"),
    }
}

impl Watch for Show {
    fn wants_blocks(&self) -> bool {
        self.blocks_left > 0
    }

    fn block(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        self.blocks_left -= 1;
        let head = seen.head;
        writeln!(self.out, "block at {}: {head}", seen.offset)?;
        if let Some(error) = &seen.error {
            return writeln!(self.out, "  {}: {error}", error.reason());
        }
        for (at, subchunk) in seen.subchunks {
            let (data, bytes) = (subchunk.data_bytes(), seen.bytes);
            let shown = bytes
                .get(*at..at + data.min(LINE_BYTES))
                .unwrap_or_default();
            let more = if data > shown.len() { " …" } else { "" };
            let subchunk = subchunk.to_string();
            writeln!(
                self.out,
                "  {at:>5}  {subchunk:<28} {}{more}",
                hex(shown).trim_end()
            )?;
        }
        Ok(())
    }

    fn wants_chunks(&self) -> bool {
        self.chunks_left > 0
    }

    fn chunk(&mut self, offset: u64, elink: Elink, is: Status, chunk: &[u8]) -> io::Result<()> {
        self.chunks_left -= 1;
        let bytes = chunk.len();
        writeln!(
            self.out,
            "chunk of E-link {elink}, block at {offset}: {bytes} bytes, {is}"
        )?;
        for (number, line) in chunk.chunks(LINE_BYTES).enumerate() {
            let text: String = line.iter().map(|byte| shown(*byte)).collect();
            writeln!(
                self.out,
                "  {:05x}  {:<48} {text}",
                number * LINE_BYTES,
                hex(line)
            )?;
        }
        Ok(())
    }

    fn read(&mut self, read: u64) {
        let last = self.told.unwrap_or(self.begun);
        if !self.on_terminal || last.elapsed() < PROGRESS {
            return;
        }
        self.told = Some(Instant::now());
        let line = progress(read, self.size, self.begun.elapsed());
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

fn shown(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' {
        byte.into()
    } else {
        '.'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_what_is_left_where_the_size_is_known() {
        let second = Duration::from_secs(1);
        assert_eq!(
            progress(1_000_000_000, Some(91_000_000_000), second),
            "1.00 GB of 91.0 GB, 1.00 GB/s, 1:30 left"
        );
        assert_eq!(progress(5_000_000, None, second), "5.00 MB, 5.00 MB/s");
    }
}
