//! Times of a session as HDR histograms, in the log that tools for them read.
//!
//! Three for each sender: the travel time of each packet, and of each reported window how late it began and the bound of the clock's error. All in ns, to three
//! digits, with the sender's name in their tags.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use forebay_run::whole_file::WholeFile;
use forebay_tdm::receiver::Row;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};

use super::super::TdmError;
use super::streams::file_name;
use super::watch::Came;

/// What asks for the file.
const OPTION: &str = "--histograms";
/// Digits that are kept of each time.
const DIGITS: u8 = 3;
/// Longer times count as this, in ns: so that a histogram has no more than 0.3 MB.
const LONGEST_NS: u64 = 60_000_000_000;
/// The log tells its largest values in ms.
const NS_PER_MS: f64 = 1e6;

/// Histograms of one sender.
struct OfSender {
    name: String,
    travel: Histogram<u64>,
    lateness: Histogram<u64>,
    clock_error: Histogram<u64>,
    /// Packets that came before they were sent, as far as the clock of their sender is known: they count as 0.
    below_zero: u64,
}

/// Histograms of all senders, and the file that they become.
pub(super) struct Histograms {
    file: WholeFile,
    begun: SystemTime,
    senders: Vec<OfSender>,
}

fn empty() -> Option<Histogram<u64>> {
    // It grows with what is recorded: most times are short.
    let mut empty = Histogram::new(DIGITS).ok()?;
    empty.auto(true);
    Some(empty)
}

fn record(histogram: &mut Histogram<u64>, ns: u64) {
    // It has room for the longest, and grows to it.
    let recorded = histogram.record(ns.min(LONGEST_NS));
    debug_assert!(recorded.is_ok(), "{ns}");
}

impl Histograms {
    pub(super) fn create(path: &Path) -> Result<Self, TdmError> {
        Ok(Self {
            file: WholeFile::create(path, OPTION)?,
            begun: SystemTime::now(),
            senders: Vec::new(),
        })
    }

    /// The next sender, or one that is known under another name.
    pub(super) fn joined(&mut self, sender: u16, name: &str) {
        if let Some(known) = self.senders.get_mut(usize::from(sender)) {
            name.clone_into(&mut known.name);
        } else if let (Some(travel), Some(lateness), Some(clock_error)) =
            (empty(), empty(), empty())
        {
            self.senders.push(OfSender {
                name: name.to_owned(),
                travel,
                lateness,
                clock_error,
                below_zero: 0,
            });
        }
    }

    pub(super) fn packet(&mut self, came: &Came) {
        let Some(sender) = self.senders.get_mut(usize::from(came.sender)) else {
            return;
        };
        let travel_ns = came.came_ns.saturating_sub(came.sent_ns);
        sender.below_zero += u64::from(came.came_ns < came.sent_ns);
        record(&mut sender.travel, travel_ns);
    }

    pub(super) fn window(&mut self, row: &Row) {
        if let Some(sender) = self.senders.get_mut(usize::from(row.sender))
            && row.reported
        {
            record(&mut sender.lateness, row.lateness_ns.into());
            record(&mut sender.clock_error, row.clock_error_ns.into());
        }
    }

    pub(super) fn finish(self) -> Result<(), String> {
        let path = self.file.path().to_path_buf();
        self.write().map_err(|error| {
            format!(
                "writing the histograms to {}: {error}; see whether the disk is full",
                path.display()
            )
        })
    }

    fn write(self) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let mut out = BufWriter::new(self.file.handle().map_err(|error| text(&error))?);
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder
            .add_comment("Forebay, time-division UDP: times in ns; largest values in ms")
            .with_start_time(self.begun)
            .with_base_time(self.begun)
            .with_max_value_divisor(NS_PER_MS);
        let mut log = builder
            .begin_log_with(&mut out, &mut serializer)
            .map_err(|error| text(&error))?;
        // A clock that was set back meanwhile makes it 0.
        let whole = self.begun.elapsed().unwrap_or_default();
        for sender in &self.senders {
            if sender.below_zero > 0 {
                log.write_comment(&format!(
                    "{} of the travel times of {} are below 0, by the error of its clock, and count as 0",
                    sender.below_zero,
                    tag("", &sender.name)
                ))
                .map_err(|error| text(&error))?;
            }
            put(&mut log, whole, "travel_ns", &sender.name, &sender.travel)?;
            put(
                &mut log,
                whole,
                "window_lateness_ns",
                &sender.name,
                &sender.lateness,
            )?;
            put(
                &mut log,
                whole,
                "clock_error_ns",
                &sender.name,
                &sender.clock_error,
            )?;
        }
        out.flush().map_err(|error| text(&error))?;
        drop(out);
        self.file.finish().map_err(|error| text(&error))
    }
}

/// What may not stand in a tag is written as in names of files.
fn tag(what: &str, name: &str) -> String {
    format!("{what}{}", file_name(name).replace(',', "%2C"))
}

fn put(
    log: &mut IntervalLogWriter<'_, '_, impl Write, V2DeflateSerializer>,
    whole: Duration,
    what: &str,
    name: &str,
    histogram: &Histogram<u64>,
) -> Result<(), String> {
    let tag = tag(&format!("{what}:"), name);
    log.write_histogram(histogram, Duration::ZERO, whole, Tag::new(&tag))
        .map_err(|error| format!("{tag}: {error:?}"))
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn tags_name_sender_and_time_and_times_below_zero_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("times.hlog");
        let mut histograms = Histograms::create(&path).unwrap();
        histograms.joined(0, "a,b c");
        for (sent_ns, came_ns) in [(1_000, 900), (1_000, 3_500)] {
            histograms.packet(&Came {
                sender: 0,
                window: 0,
                packet: 0,
                sent_ns,
                came_ns,
            });
        }
        histograms.window(&Row {
            reported: true,
            lateness_ns: 7,
            ..Row::default()
        });
        histograms.window(&Row::default());
        histograms.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("#1 of the travel times of a%2Cb%20c"),
            "{text}"
        );
        let tags: Vec<String> = IntervalLogIterator::new(text.as_bytes())
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(it) => Some(it.tag().unwrap().as_str().to_owned()),
                _ => None,
            })
            .collect();
        let names = ["travel_ns", "window_lateness_ns", "clock_error_ns"];
        assert_eq!(tags, names.map(|name| format!("{name}:a%2Cb%20c")));
    }
}
