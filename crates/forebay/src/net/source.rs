//! Where messages come from: a file, standard input, or a generator.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay_run::net::Entry;

use super::manner::{message_bytes, tag};

/// Longest pause of a source that keeps a rate: an order to end costs this much.
const PAUSE_MAX: Duration = Duration::from_millis(20);

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
    Reader(Box<dyn BufRead>),
}

/// The messages, one by one.
pub(super) struct Source {
    from: From,
    cut: Cut,
    message: Vec<u8>,
    message_bytes: usize,
    first_tag: u64,
    tags: u64,
    sent: u64,
    left: u64,
    rate: Option<f64>,
    begun: Instant,
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
            "-" => From::Reader(Box::new(std::io::stdin().lock())),
            path => {
                let path = PathBuf::from(path);
                let file = File::open(&path).with_context(|| {
                    format!(
                        "opening {}; write ./generate for a file of that name",
                        path.display()
                    )
                })?;
                From::Reader(Box::new(BufReader::with_capacity(1 << 20, file)))
            }
        };
        Ok(Source {
            from,
            cut: self.cut,
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
        if !self.fill()? {
            return Ok(Next::End);
        }
        let tag = self.first_tag.wrapping_add(self.sent % self.tags);
        self.sent += 1;
        self.left -= 1;
        Ok(Next::Message(tag, &self.message))
    }

    /// The next payload; false when there is none.
    fn fill(&mut self) -> Result<bool> {
        let reader = match &mut self.from {
            From::Generator => {
                self.message.resize(self.message_bytes, 0x5a);
                let number = self.sent.to_le_bytes();
                let count = number.len().min(self.message_bytes);
                self.message[..count].copy_from_slice(&number[..count]);
                return Ok(true);
            }
            From::Reader(reader) => reader,
        };
        self.message.clear();
        let count = match self.cut {
            Cut::Lines => {
                let count = reader
                    .read_until(b'\n', &mut self.message)
                    .context("reading the input")?;
                if self.message.last() == Some(&b'\n') {
                    self.message.pop();
                }
                count
            }
            Cut::Pieces => reader
                .take(self.message_bytes as u64)
                .read_to_end(&mut self.message)
                .context("reading the input")?,
        };
        Ok(count > 0)
    }
}
