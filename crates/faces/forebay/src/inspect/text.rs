//! The lines for people. Those of events, sub-events, words and statistics are the lines that hldprint prints.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use forebay_wire::hadtu::{ByteOrder, round_up_8};
use forebay_wire::hld::EventTime;
use forebay_wire::hld_name::unix_s_from_run;
use forebay_wire::hld_scan::{Found, Item};
use forebay_wire::subevent::SubEvent;

use super::recover::Recovery;
use super::tally::{Lengths, Tally};
use super::{InspectArgs, Report};

const WORDS_PER_LINE: usize = 8;

pub(super) struct TextReport<W> {
    out: W,
    file: PathBuf,
    events: bool,
    raw: bool,
    stat: bool,
}

impl<W: Write> TextReport<W> {
    pub(super) fn new(out: W, args: &InspectArgs) -> Self {
        Self {
            out,
            file: args.file.clone(),
            events: args.lists_events(),
            raw: args.raw,
            stat: args.stat,
        }
    }

    fn event(&mut self, found: &Found<'_>) -> io::Result<()> {
        let header = found.event.header();
        let (sequence, id, run) = (header.sequence, header.id.0, header.run);
        let kind = header.id.trigger_type();
        let size = padded(header.size);
        writeln!(
            self.out,
            "*** Event #0x{sequence:06x} fullid={id:#06x} runid={run:#010x} typ {kind:x} size {size} *** "
        )?;
        for sub in found.event.sub_events().flatten() {
            self.sub_event(&sub)?;
        }
        Ok(())
    }

    fn sub_event(&mut self, sub: &SubEvent<'_>) -> io::Result<()> {
        let head = sub.header();
        let size = padded(head.size);
        let (decoding, id, trigger) = (head.decoding, head.id, head.trigger_word);
        let kind = head.trigger_type();
        let swapped = match head.order {
            ByteOrder::Little => "not swapped",
            ByteOrder::Big => "swapped",
        };
        let align = head.word_bytes();
        writeln!(
            self.out,
            "   *** Subevent size {size:>6} decoding {decoding:#08x} id {id:#06x} trig {trigger:#010x} typ {kind:x} {swapped} align {align} ***"
        )?;
        if self.raw {
            self.words(sub)?;
        }
        Ok(())
    }

    fn words(&mut self, sub: &SubEvent<'_>) -> io::Result<()> {
        let words = sub.words();
        let width = if words.len() > 99 { 3 } else { 2 };
        let last = words.len().saturating_sub(1);
        for (i, word) in words.enumerate() {
            let indent = if i % WORDS_PER_LINE == 0 { 6 } else { 2 };
            write!(self.out, "{:indent$}[{i:width$}] {word:08x}", "")?;
            if i % WORDS_PER_LINE == WORDS_PER_LINE - 1 || i == last {
                writeln!(self.out)?;
            }
        }
        Ok(())
    }

    fn statistic(&mut self, tally: &Tally) -> io::Result<()> {
        writeln!(self.out, "Statistic: {} events analyzed", tally.events)?;
        lengths(&mut self.out, "Events", &tally.event_ids)?;
        lengths(&mut self.out, "Subevents", &tally.ids)?;
        lengths(&mut self.out, "Subsubevents", &tally.boards)
    }

    fn summary(&mut self, tally: &Tally) -> io::Result<()> {
        let out = &mut self.out;
        let verdict = if tally.is_sound() { "sound" } else { "broken" };
        writeln!(out, "{}: {verdict}", self.file.display())?;
        if let Some(run) = tally.run {
            let at = EventTime::from_unix_s(unix_s_from_run(run));
            writeln!(out, "  run             {run}, started {at}")?;
        }
        writeln!(out, "  bytes           {}", tally.bytes)?;
        writeln!(
            out,
            "  events          {} ({} incomplete, {} with a data error), largest {} bytes",
            tally.events,
            tally.incomplete_events,
            tally.data_error_events,
            tally.largest_event_bytes
        )?;
        writeln!(
            out,
            "  sub-events      {} ({} with a data error) of {} ids",
            tally.sub_events,
            tally.data_error_sub_events,
            tally.ids.len()
        )?;
        if let (Some(first), Some(last)) = (tally.first_sequence, tally.last_sequence) {
            let jumps = tally.sequence_jumps;
            writeln!(out, "  sequence        {first} to {last}, {jumps} jumps")?;
        }
        if let Some(line) = tally.triggers.line() {
            writeln!(out, "  triggers        {line}")?;
        }
        if tally.odd_decoding_sub_events > 0 {
            let odd = tally.odd_decoding_sub_events;
            writeln!(
                out,
                "  odd_decoding    {odd} sub-events with a decoding word that no reader can follow"
            )?;
        }
        writeln!(
            out,
            "  mismatches      {} of trigger, {} of tag, {} of run (events)",
            tally.trigger_mismatch_events, tally.tag_mismatch_events, tally.run_mismatch_events
        )?;
        writeln!(
            out,
            "  start, stop     {} start and {} stop events, last complete unit ends at byte {}",
            tally.start_events, tally.stop_events, tally.complete_end
        )?;
        broken(out, tally)
    }

    fn recovery(&mut self, recovery: &Recovery) -> io::Result<()> {
        let out = &mut self.out;
        writeln!(
            out,
            "  recovered       {} events, {} bytes, in {}",
            recovery.events,
            recovery.bytes,
            recovery.path.display()
        )?;
        match recovery.left_out_from {
            Some(from) => writeln!(
                out,
                "  left out        {} bytes, the first at byte {from}",
                recovery.left_out_bytes
            )?,
            None => writeln!(out, "  left out        nothing")?,
        }
        if recovery.added_start + recovery.added_stop > 0 {
            let (start, stop) = (recovery.added_start, recovery.added_stop);
            writeln!(
                out,
                "  added           {start} start and {stop} stop events"
            )?;
        }
        Ok(())
    }
}

fn broken(out: &mut impl Write, tally: &Tally) -> io::Result<()> {
    let (places, bytes) = (tally.broken_places, tally.broken_bytes);
    writeln!(out, "  broken places   {places}, {bytes} bytes")?;
    for place in &tally.broken {
        writeln!(out, "    {place}")?;
    }
    match places - tally.broken.len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "    and {more} more"),
    }
}

fn lengths<K: Copy + std::fmt::LowerHex>(
    out: &mut impl Write,
    title: &str,
    ids: &BTreeMap<K, Lengths>,
) -> io::Result<()> {
    writeln!(out, "  {title} ids:")?;
    for (id, lengths) in ids {
        let (count, average) = (lengths.count, lengths.average());
        writeln!(out, "   {id:#06x} : cnt {count:3} averlen {average:6.1}")?;
    }
    Ok(())
}

/// A size, with the padding up to 8 bytes where there is some.
fn padded(size: u32) -> String {
    match round_up_8(u64::from(size)) - u64::from(size) {
        0 => format!("{size}"),
        padding => format!("{size}+{padding}"),
    }
}

impl<W: Write> Report for TextReport<W> {
    fn start(&mut self) -> io::Result<()> {
        if self.events || self.stat {
            writeln!(self.out, "Try to open {}", self.file.display())?;
        }
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Event(found) if self.events => self.event(found),
            Item::Broken(broken) if self.events => writeln!(self.out, "!!! Broken {broken}"),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, tally: &Tally, recovery: Option<&Recovery>) -> io::Result<()> {
        if self.stat {
            self.statistic(tally)?;
        }
        self.summary(tally)?;
        if let Some(recovery) = recovery {
            self.recovery(recovery)?;
        }
        self.out.flush()
    }
}
