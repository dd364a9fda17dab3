//! Numbers as people read them, times as people write them, and the log.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use forebay_run::teller::Teller;
use forebay_run::{Note, Tell};

/// How a result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and lines for people.
    #[default]
    Text,
    /// One JSON object on standard output.
    Json,
}

/// What goes to standard error: threads that empty sockets log, too, and wait for no terminal.
static NOTES: OnceLock<Teller> = OnceLock::new();
/// The end of the process waits so long for the reader of standard error.
const NOTES_END: Duration = Duration::from_secs(1);

fn write_note(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A piece of the log, on its way.
struct LogLine;

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        match NOTES.get() {
            Some(notes) => notes.tell(&text),
            None => write_note(&text),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends warnings and errors of this process to standard error; `FOREBAY_LOG=debug` says more.
pub(crate) fn log_to_stderr() {
    if let Ok(notes) = Teller::start(write_note) {
        let _ = NOTES.set(notes);
    }
    let filter = tracing_subscriber::EnvFilter::try_from_env("FOREBAY_LOG")
        .unwrap_or_else(|_| "warn".into());
    let ansi = io::stderr().is_terminal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| LogLine)
        .with_ansi(ansi)
        .with_target(false);
    // A terminal that is gone must not end a run.
    log.log_internal_errors(false).init();
}

/// What is on its way to standard error gets there, as far as somebody reads it.
pub(crate) fn end_notes() {
    if let Some(notes) = NOTES.get()
        && let untold @ 1.. = notes.flush(NOTES_END)
    {
        notes.tell(&format!(
            "forebay: nobody read standard error in time: {} not told\n",
            counted(untold, "line")
        ));
        notes.flush(NOTES_END);
    }
}

/// The reader of standard output wants no more.
static IS_UNREAD: AtomicBool = AtomicBool::new(false);
/// Why a line could not be written, the first time.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// A line on standard output. A reader that has closed it (`| head`) wants no more; the run and its exit code stay what they are.
/// Every other failure is kept for the end, as work goes on without its lines.
pub(crate) fn print_line(line: impl Display) {
    let written = if forebay_run::stdout_was_closed() {
        Err(io::Error::other("it is closed"))
    } else {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush())
    };
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            IS_UNREAD.store(true, Ordering::Relaxed);
        }
        Err(error) => _ = LOST.set(error),
        Ok(()) => {}
    }
}

/// Whether the reader of standard output has closed it: one that only shows has nothing more to do.
pub(crate) fn is_unread() -> bool {
    IS_UNREAD.load(Ordering::Relaxed)
}

/// Why something of the result did not reach standard output, if it did not.
pub(crate) fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// A line on standard error, from a thread that may wait for its reader.
pub(crate) fn note_now(line: impl Display) {
    write_note(&format!("{line}\n"));
}

/// The result of a command on standard error, behind all that was said before: it is waited for, as that on standard output is.
pub(crate) fn result_to_stderr(line: impl Display) {
    settle_notes();
    note_now(line);
}

/// What was said so far stands before what comes now, as far as somebody reads it.
pub(crate) fn settle_notes() {
    if let Some(notes) = NOTES.get() {
        notes.flush(NOTES_END);
    }
}

/// Text on standard error that is no whole line, as far as anybody listens; nobody waits for that.
pub(crate) fn note_text(text: &str) {
    match NOTES.get() {
        Some(notes) => notes.tell(text),
        None => write_note(text),
    }
}

/// A line on standard error, as far as anybody listens; nobody waits for that.
pub(crate) fn note_line(line: impl Display) {
    note_text(&format!("{line}\n"));
}

/// Tells where metrics are read.
pub(crate) fn note_page(address: SocketAddr) {
    note_line(format_args!("metrics at http://{address}/metrics"));
}

/// The lines of a system.
pub(crate) struct Notes;

impl Tell for Notes {
    fn tell(&self, note: Note<'_>) {
        match note {
            Note::Line(line) => note_line(format_args!("forebay: {line}")),
            Note::Warning(line) => note_line(format_args!("forebay: warning: {line}")),
            Note::Page(address) => note_page(address),
        }
    }

    fn untold(&self, most: Duration) -> u64 {
        NOTES.get().map_or(0, |notes| notes.flush(most))
    }
}

/// A number of things, as `1 message` or `2 messages`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    let many = if count == 1 { "" } else { "s" };
    format!("{count} {one}{many}")
}

/// Reads `15s`, `250ms`, `2m`, `1h` or a bare number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write it as 15s, 250ms, 100us, 2m or 1h");
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "" | "s" => number,
        "ms" => number / 1e3,
        "us" | "µs" => number / 1e6,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Reads a size in bytes: `65536`, `32k`, `4Mi`, `2G` (k, M, G, T are powers of 1000; Ki, Mi, Gi, Ti of 1024).
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write it as 65536, 32k, 4Mi or 2G");
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let scale = match unit.trim().trim_end_matches(['B', 'b']) {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1048576.0,
        "Gi" => 1073741824.0,
        "Ti" => 1099511627776.0,
        _ => return Err(wrong()),
    };
    let bytes = number * scale;
    if bytes.fract() != 0.0 || !(0.0..=1e15).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

/// An error with its causes, each said once: many name their own cause already.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += ": ";
            text += &cause;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read_with_their_units() {
        assert_eq!(parse_duration("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert!(
            parse_duration("15 bananas")
                .unwrap_err()
                .contains("15s, 250ms")
        );
        assert_eq!(parse_bytes("32k"), Ok(32_000));
        assert_eq!(parse_bytes("4Mi"), Ok(4 << 20));
        assert_eq!(parse_bytes("1.5KiB"), Ok(1536));
        assert!(parse_bytes("many").is_err());
        assert!(parse_bytes("0.3").is_err());
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(1, "message"), "1 message");
        assert_eq!(counted(0, "message"), "0 messages");
    }

    #[test]
    fn a_cause_is_said_once() {
        let inner = std::io::Error::other("the disk is full");
        let error = anyhow::Error::new(inner).context("writing a: the disk is full (make room)");
        assert_eq!(causes(&error), "writing a: the disk is full (make room)");
        let error = anyhow::Error::msg("no such file").context("reading b");
        assert_eq!(causes(&error), "reading b: no such file");
    }
}
