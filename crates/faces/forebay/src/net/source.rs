//! Where messages come from: a file, standard input, or a generator.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay_run_net::Entry;

use super::manner::{message_bytes, tag};

/// Longest pause of a source that keeps a rate: an order to end costs this much.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// What is read ahead: so many batches, each of so many bytes and messages at most.
const BATCHES: usize = 16;
const BATCH_BYTES: usize = 256 << 10;
const BATCH_MESSAGES: usize = 16_384;
/// How long nothing is looked for after nothing was there.
const INPUT_PAUSE: Duration = Duration::from_millis(1);
/// More tags are announced as all tags.
const LISTED_TAGS_MAX: u64 = 16_384;

/// What is sent.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// A file, `-` for standard input, or `generate` for messages that are made up.
    #[arg(long, value_name = "FROM", default_value = "-")]
    input: String,
    /// How the input is cut into messages.
    #[arg(long, value_enum, default_value_t)]
    cut: Cut,
    /// Payload of a message: of a generated one, or of a piece.
    #[arg(long, value_name = "SIZE", default_value = "1Ki", value_parser = message_bytes)]
    message_bytes: u32,
    /// Tag of the messages; the first one when there are several.
    #[arg(long, value_name = "TAG", default_value = "1", value_parser = tag)]
    tag: u64,
    /// Tags, used in turn from the first one on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    tags: u64,
    /// Ends after so many messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Messages per second; else as many as go.
    #[arg(long, value_name = "HZ", value_parser = rate)]
    rate: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Cut {
    /// Each line is a message, without its end.
    #[default]
    Lines,
    /// Pieces of --message-bytes, the last one shorter.
    Pieces,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hz) if (1e-3..=1e9).contains(&hz) => Ok(hz),
        _ => Err("write a number of messages per second from 0.001 to 1e9".into()),
    }
}

enum From {
    Generator,
    /// What a thread of its own has read: whoever types makes nobody wait.
    Reader {
        batches: Receiver<io::Result<Batch>>,
        batch: Batch,
        next: usize,
    },
}

/// Some messages that were read.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

/// Reads until the input ends, nobody wants more, or it cannot be read. What is read goes on when no more is there at once.
fn read(
    mut input: impl BufRead + Buffered,
    cut: Cut,
    piece_bytes: usize,
    to: &SyncSender<io::Result<Batch>>,
) {
    let mut batch = Batch::default();
    loop {
        let before = batch.bytes.len();
        let read = match cut {
            Cut::Lines => input.read_until(b'\n', &mut batch.bytes),
            Cut::Pieces => (&mut input)
                .take(piece_bytes as u64)
                .read_to_end(&mut batch.bytes),
        };
        let ended = match read {
            Ok(count) => count == 0,
            Err(error) => {
                let _ = to.send(Ok(std::mem::take(&mut batch)));
                // No receiver is left that could be told.
                let _ = to.send(Err(error));
                return;
            }
        };
        if !ended {
            if cut == Cut::Lines && batch.bytes.last() == Some(&b'\n') && batch.bytes.len() > before
            {
                batch.bytes.pop();
            }
            batch.ends.push(batch.bytes.len());
        }
        let full = batch.bytes.len() >= BATCH_BYTES || batch.ends.len() >= BATCH_MESSAGES;
        let last = ended || full || input.is_drained();
        if last && !batch.ends.is_empty() && to.send(Ok(std::mem::take(&mut batch))).is_err() {
            return;
        }
        if ended {
            return;
        }
    }
}

/// Whether a further look at the input may have to wait.
trait Buffered {
    fn is_drained(&self) -> bool;
}

impl<R: io::Read> Buffered for BufReader<R> {
    fn is_drained(&self) -> bool {
        self.buffer().is_empty()
    }
}

/// The messages, one by one.
pub(super) struct Source {
    from: From,
    message: Vec<u8>,
    message_bytes: usize,
    first_tag: u64,
    tags: u64,
    sent: u64,
    left: u64,
    rate: Option<f64>,
    begun: Instant,
}

/// What was found.
enum Filled {
    Message,
    Nothing,
    End,
}

/// What comes next.
pub(super) enum Next<'a> {
    /// A message, its tag and payload.
    Message(u64, &'a [u8]),
    /// Nothing yet: come again after so long.
    Later(Duration),
    /// That was all.
    End,
}

impl SourceArgs {
    /// The tags that it has.
    pub(super) fn entries(&self) -> Vec<Entry> {
        if self.tags > LISTED_TAGS_MAX {
            return vec![Entry { tag: 0, mask: 0 }];
        }
        let tags = (0..self.tags).map(|number| self.tag.wrapping_add(number));
        tags.map(Entry::one).collect()
    }

    pub(super) fn open(&self) -> Result<Source> {
        let from = match self.input.as_str() {
            "generate" => From::Generator,
            "-" => self.reader(io::stdin())?,
            path => {
                let path = PathBuf::from(path);
                let file = File::open(&path).with_context(|| {
                    format!(
                        "opening the input {}; name a file that is there, `-` for standard input, or `generate` for messages that are made up",
                        path.display()
                    )
                })?;
                self.reader(file)?
            }
        };
        Ok(Source {
            from,
            message: Vec::new(),
            message_bytes: self.message_bytes as usize,
            first_tag: self.tag,
            tags: self.tags,
            sent: 0,
            left: self.count.unwrap_or(u64::MAX),
            rate: self.rate,
            begun: Instant::now(),
        })
    }
}

impl SourceArgs {
    fn reader(&self, input: impl Read + Send + 'static) -> Result<From> {
        let (to, batches) = sync_channel(BATCHES);
        let (cut, piece_bytes) = (self.cut, self.message_bytes as usize);
        let work = move || {
            read(
                BufReader::with_capacity(1 << 18, input),
                cut,
                piece_bytes,
                &to,
            )
        };
        let thread = std::thread::Builder::new().name("input".into());
        thread.spawn(work).context("cannot start a thread")?;
        Ok(From::Reader {
            batches,
            batch: Batch::default(),
            next: 0,
        })
    }
}

impl Source {
    /// The clock of the rate starts here.
    pub(super) fn begin(&mut self) {
        self.begun = Instant::now();
    }

    pub(super) fn next(&mut self) -> Result<Next<'_>> {
        if self.left == 0 {
            return Ok(Next::End);
        }
        if let Some(rate) = self.rate {
            let due = Duration::try_from_secs_f64(self.sent as f64 / rate).unwrap_or(Duration::MAX);
            let wait = due.saturating_sub(self.begun.elapsed());
            if !wait.is_zero() {
                return Ok(Next::Later(wait.min(PAUSE_MAX)));
            }
        }
        match self.fill()? {
            Filled::Message => {}
            Filled::Nothing => return Ok(Next::Later(INPUT_PAUSE)),
            Filled::End => return Ok(Next::End),
        }
        let tag = self.first_tag.wrapping_add(self.sent % self.tags);
        self.sent += 1;
        self.left -= 1;
        Ok(Next::Message(tag, &self.message))
    }

    /// The next payload.
    fn fill(&mut self) -> Result<Filled> {
        let (batches, batch, next) = match &mut self.from {
            From::Generator => {
                self.message.resize(self.message_bytes, 0x5a);
                let number = self.sent.to_le_bytes();
                let count = number.len().min(self.message_bytes);
                self.message[..count].copy_from_slice(&number[..count]);
                return Ok(Filled::Message);
            }
            From::Reader {
                batches,
                batch,
                next,
            } => (batches, batch, next),
        };
        if *next == batch.ends.len() {
            match batches.try_recv() {
                Ok(read) => (*batch, *next) = (read.context("reading the input")?, 0),
                Err(TryRecvError::Empty) => return Ok(Filled::Nothing),
                Err(TryRecvError::Disconnected) => return Ok(Filled::End),
            }
            if batch.ends.is_empty() {
                return Ok(Filled::Nothing);
            }
        }
        let from = next.checked_sub(1).map_or(0, |last| batch.ends[last]);
        self.message.clear();
        self.message
            .extend_from_slice(&batch.bytes[from..batch.ends[*next]]);
        *next += 1;
        Ok(Filled::Message)
    }
}
