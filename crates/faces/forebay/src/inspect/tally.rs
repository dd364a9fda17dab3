//! What is counted while a file is read.

use std::collections::BTreeMap;

use forebay_wire::hld::EventHeader;
use forebay_wire::hld_scan::{Broken, Ending, Found, Item, Scanner};
use forebay_wire::subevent::SubEvent;

use super::triggers::Triggers;

/// Broken places that are listed one by one; further ones are only counted.
const BROKEN_LIST_LIMIT: usize = 10_000;

/// How often an id occurred, and the lengths added up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths {
    pub(super) count: u64,
    pub(super) sum: u64,
}

impl Lengths {
    const fn add(&mut self, length: u64) {
        self.count += 1;
        self.sum += length;
    }

    pub(super) fn average(self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}

/// The facts of one file.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) events: u64,
    pub(super) sub_events: u64,
    /// Events with the data-error bit but not marked as incomplete.
    pub(super) data_error_events: u64,
    pub(super) data_error_sub_events: u64,
    pub(super) incomplete_events: u64,
    /// Events whose sub-events do not all have the first one's trigger number, in the width that the file is read with.
    pub(super) trigger_mismatch_events: u64,
    /// The same for the tag.
    pub(super) tag_mismatch_events: u64,
    /// Events whose run number is not the start event's.
    pub(super) run_mismatch_events: u64,
    pub(super) largest_event_bytes: u32,
    pub(super) start_events: u64,
    pub(super) stop_events: u64,
    pub(super) run: Option<u32>,
    pub(super) first_sequence: Option<u32>,
    pub(super) last_sequence: Option<u32>,
    /// Events whose sequence number is not the one before plus 1.
    pub(super) sequence_jumps: u64,
    pub(super) triggers: Triggers,
    /// Sub-events with a decoding word that no reader can follow.
    pub(super) odd_decoding_sub_events: u64,
    pub(super) event_ids: BTreeMap<u32, Lengths>,
    /// By sub-event id with its data-error bit; lengths in bytes with the header.
    pub(super) ids: BTreeMap<u32, Lengths>,
    /// By address behind a source, filled on request only; lengths in words.
    pub(super) boards: BTreeMap<u16, Lengths>,
    pub(super) broken: Vec<Broken>,
    pub(super) broken_places: u64,
    pub(super) broken_bytes: u64,
    pub(super) complete_end: u64,
    pub(super) ending: Option<Ending>,
    with_boards: bool,
}

impl Tally {
    pub(super) fn new(with_boards: bool, triggers: Triggers) -> Self {
        Self {
            with_boards,
            triggers,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, item: &Item<'_>) {
        match item {
            Item::Start { header, .. } => {
                self.start_events += 1;
                self.run.get_or_insert(header.run);
            }
            Item::Event(found) => self.add_event(found),
            Item::Stop { .. } => self.stop_events += 1,
            Item::Broken(broken) => {
                self.broken_places += 1;
                self.broken_bytes += broken.bytes;
                if self.broken.len() < BROKEN_LIST_LIMIT {
                    self.broken.push(*broken);
                }
            }
        }
    }

    fn add_event(&mut self, found: &Found<'_>) {
        let header = found.event.header();
        self.add_header(&header);
        let mut first = None;
        let (mut trigger_differs, mut tag_differs) = (false, false);
        for sub in found.event.sub_events().flatten() {
            self.add_sub_event(&sub);
            let trigger = self.triggers.of(&sub.header());
            let tag = sub.header().tag();
            let (first_trigger, first_tag) = *first.get_or_insert((trigger, tag));
            trigger_differs |= trigger != first_trigger;
            tag_differs |= tag != first_tag;
        }
        if let Some((trigger, _)) = first {
            self.triggers.see(trigger);
        }
        self.trigger_mismatch_events += u64::from(trigger_differs);
        self.tag_mismatch_events += u64::from(tag_differs);
    }

    fn add_header(&mut self, header: &EventHeader) {
        let sequence = header.sequence;
        let jumps = self
            .last_sequence
            .is_some_and(|last| last.wrapping_add(1) != sequence);
        self.events += 1;
        self.sequence_jumps += u64::from(jumps);
        self.first_sequence.get_or_insert(sequence);
        self.last_sequence = Some(sequence);
        let run = *self.run.get_or_insert(header.run);
        self.run_mismatch_events += u64::from(run != header.run);
        self.largest_event_bytes = self.largest_event_bytes.max(header.size);
        match (header.id.is_incomplete(), header.id.has_data_error()) {
            (true, _) => self.incomplete_events += 1,
            (false, true) => self.data_error_events += 1,
            (false, false) => {}
        }
        let lengths = self.event_ids.entry(header.id.0).or_default();
        lengths.add(u64::from(header.size));
    }

    fn add_sub_event(&mut self, sub: &SubEvent<'_>) {
        self.sub_events += 1;
        self.odd_decoding_sub_events += u64::from(sub.header().has_odd_decoding());
        self.data_error_sub_events += u64::from(sub.header().has_data_error());
        let lengths = self.ids.entry(sub.id()).or_default();
        lengths.add(u64::from(sub.size()));
        if self.with_boards {
            for part in sub.sub_sub_events() {
                let lengths = self.boards.entry(part.address).or_default();
                lengths.add(part.payload.len() as u64 / 4);
            }
        }
    }

    pub(super) const fn end(&mut self, scanner: &Scanner) {
        self.complete_end = scanner.complete_end();
        self.ending = scanner.ending();
    }

    pub(super) const fn is_sound(&self) -> bool {
        self.broken_places == 0
    }

    pub(super) fn ends_cleanly(&self) -> bool {
        self.ending == Some(Ending::Clean)
    }
}
