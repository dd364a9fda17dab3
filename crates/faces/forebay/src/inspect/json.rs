//! One JSON object: the events first when they are asked for, written as they are read, then the summary.

use std::collections::BTreeMap;
use std::fmt::LowerHex;
use std::io::{self, Write};
use std::path::PathBuf;

use forebay_wire::hld_scan::{Broken, Ending, Found, Item};
use forebay_wire::subevent::{SubEvent, TriggerBits};
use serde_json::{Map, Value, json};

use super::recover::Recovery;
use super::tally::{Lengths, Tally};
use super::{InspectArgs, Report};

pub(super) struct JsonReport<W> {
    out: W,
    file: PathBuf,
    events: bool,
    raw: bool,
    stat: bool,
    listed: u64,
}

impl<W: Write> JsonReport<W> {
    pub(super) fn new(out: W, args: &InspectArgs) -> Self {
        Self {
            out,
            file: args.file.clone(),
            events: args.lists_events(),
            raw: args.raw,
            stat: args.stat,
            listed: 0,
        }
    }

    fn event(&mut self, found: &Found<'_>) -> io::Result<()> {
        let header = found.event.header();
        let subs = found.event.sub_events().flatten();
        let subs: Vec<Value> = subs.map(|sub| sub_event(&sub, self.raw)).collect();
        let event = json!({
            "offset": found.offset,
            "sequence": header.sequence,
            "id": hex(header.id.0),
            "trigger_type": header.id.trigger_type(),
            "incomplete": header.id.is_incomplete(),
            "data_error": header.id.has_data_error(),
            "size": header.size,
            "run": header.run,
            "time": header.at().to_string(),
            "byte_order": header.order.to_string(),
            "subevents": subs,
        });
        let separator = if self.listed == 0 { "\n" } else { ",\n" };
        self.listed += 1;
        write!(self.out, "{separator}{event}")
    }
}

fn sub_event(sub: &SubEvent<'_>, raw: bool) -> Value {
    let head = sub.header();
    let mut value = json!({
        "id": hex(head.id),
        "size": head.size,
        "decoding": hex(head.decoding),
        "trigger": head.trigger(TriggerBits::TwentyFour),
        "tag": head.tag(),
        "trigger_type": head.trigger_type(),
        "data_error": head.has_data_error(),
        "byte_order": head.order.to_string(),
    });
    if raw {
        value["words"] = sub.words().collect();
    }
    value
}

fn hex(word: impl LowerHex) -> String {
    format!("{word:#06x}")
}

fn by_id<K: Copy + LowerHex>(ids: &BTreeMap<K, Lengths>, items: &str, unit: &str) -> Value {
    let entry = |(id, lengths): (&K, &Lengths)| {
        let value = json!({ items: lengths.count, unit: lengths.sum });
        (hex(*id), value)
    };
    Value::Object(ids.iter().map(entry).collect())
}

fn broken(broken: &Broken) -> Value {
    json!({
        "offset": broken.offset,
        "reason": broken.reason.name(),
        "bytes": broken.bytes,
        "detail": broken.reason.to_string(),
    })
}

/// The summary's fields; the order on paper is that of their names.
fn summary(report: &JsonReport<impl Write>, tally: &Tally) -> Value {
    json!({
        "file": report.file.display().to_string(),
        "bytes": tally.bytes,
        "events": tally.events,
        "subevents": tally.sub_events,
        "incomplete_events": tally.incomplete_events,
        "data_error_events": tally.data_error_events,
        "data_error_subevents": tally.data_error_sub_events,
        "trigger_mismatch_events": tally.trigger_mismatch_events,
        "tag_mismatch_events": tally.tag_mismatch_events,
        "run_mismatch_events": tally.run_mismatch_events,
        "largest_event_bytes": tally.largest_event_bytes,
        "start_event": tally.start_events > 0,
        "stop_event": tally.stop_events > 0,
        "run": tally.run,
        "first_sequence": tally.first_sequence,
        "last_sequence": tally.last_sequence,
        "sequence_jumps": tally.sequence_jumps,
        "first_trigger": tally.triggers.first,
        "last_trigger": tally.triggers.last,
        "triggers_span": tally.triggers.span,
        "triggers_missing": tally.triggers.missing,
        "triggers_missing_ranges": tally.triggers.gaps,
        "triggers_missing_more_ranges": tally.triggers.gaps_all - tally.triggers.gaps.len() as u64,
        "trigger_restarts": tally.triggers.restarts,
        "odd_decoding_subevents": tally.odd_decoding_sub_events,
        "ids": by_id(&tally.ids, "subevents", "bytes"),
        "event_ids": by_id(&tally.event_ids, "events", "bytes"),
        "broken": tally.broken.iter().map(broken).collect::<Vec<_>>(),
        "broken_places": tally.broken_places,
        "broken_bytes": tally.broken_bytes,
        "clean_end": tally.ends_cleanly(),
        "ending": ending(tally.ending),
        "complete_end": tally.complete_end,
        "sound": tally.is_sound(),
    })
}

const fn ending(ending: Option<Ending>) -> &'static str {
    match ending {
        Some(Ending::Clean) => "stop_event",
        Some(Ending::Boundary) => "event_boundary",
        Some(Ending::Cut) => "inside_event",
        None => "unknown",
    }
}

fn recovered(recovery: &Recovery) -> Value {
    json!({
        "file": recovery.path.display().to_string(),
        "events": recovery.events,
        "bytes": recovery.bytes,
        "left_out_bytes": recovery.left_out_bytes,
        "left_out_from": recovery.left_out_from,
        "added_start_events": recovery.added_start,
        "added_stop_events": recovery.added_stop,
    })
}

impl<W: Write> Report for JsonReport<W> {
    fn start(&mut self) -> io::Result<()> {
        match self.events {
            true => write!(self.out, "{{\"event_list\":["),
            false => write!(self.out, "{{"),
        }
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Event(found) if self.events => self.event(found),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, tally: &Tally, recovery: Option<&Recovery>) -> io::Result<()> {
        if self.events {
            write!(self.out, "\n],\n")?;
        }
        let mut all = match summary(self, tally) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        if self.stat {
            let boards = by_id(&tally.boards, "subsubevents", "words");
            all.insert("subsubevent_ids".to_owned(), boards);
        }
        if let Some(recovery) = recovery {
            all.insert("recovered".to_owned(), recovered(recovery));
        }
        let text = serde_json::to_string_pretty(&all)?;
        let fields = text.strip_prefix('{').unwrap_or(&text);
        writeln!(self.out, "{fields}")?;
        self.out.flush()
    }
}
