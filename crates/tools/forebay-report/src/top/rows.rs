//! The tables of places, of losses and of sources.

use std::cmp::Reverse;

use ratatui::style::{Color, Style};
use ratatui::text::Line;

use super::page::plain;
use super::source::Source;
use super::table::{Column, Row, gives_way, stays, table};
use super::view::{Flow, Lost, Place, View};
use crate::text::{bytes, si};

/// Below this width one owner is named for each loss.
const WIDE: usize = 110;

/// What sources are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Those that are silent first, then those that lost most.
    #[default]
    Trouble,
    /// The fastest first.
    Rate,
    /// The fullest first.
    Fill,
    /// The one that lost most first.
    Dropped,
    /// As declared.
    Declared,
}

impl Order {
    /// The order after this one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Trouble => Self::Rate,
            Self::Rate => Self::Fill,
            Self::Fill => Self::Dropped,
            Self::Dropped => Self::Declared,
            Self::Declared => Self::Trouble,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Rate => "rate",
            Self::Fill => "fill",
            Self::Dropped => "dropped",
            Self::Declared => "name",
        }
    }

    fn sort(self, sources: &mut [&Source]) {
        match self {
            Self::Trouble => sources.sort_by_key(|source| {
                let lost = source.dropped.saturating_add(source.missing_events);
                Reverse((source.silent, source.silent_events, lost))
            }),
            Self::Rate => sources.sort_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s)),
            Self::Fill => sources.sort_by(|a, b| b.queue.total_cmp(&a.queue)),
            Self::Dropped => sources.sort_by_key(|source| Reverse(source.dropped)),
            Self::Declared => {}
        }
    }
}

const PLACES: [Column; 10] = [
    stays("place", 14),
    gives_way(4, "owners", 6),
    gives_way(5, "unit      ", 10),
    gives_way(2, "in/s", 11),
    gives_way(3, "out/s", 11),
    gives_way(1, "out B/s", 11),
    stays("in", 11),
    stays("out", 11),
    stays("dropped", 9),
    stays("held", 9),
];

/// What came into each place, left it, was lost there, and is there.
pub(super) fn places(view: &View, width: usize, lines: &mut Vec<Line<'static>>) {
    let rows = view.places.iter().map(place).collect();
    lines.extend(table(&PLACES, "", rows, width));
    lines.push(plain(""));
}

fn place(place: &Place) -> Row {
    let name = if place.link {
        format!("→ {}", place.place)
    } else {
        place.place.clone()
    };
    let known = |pick: fn(&Flow) -> String| {
        place
            .incoming
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), pick)
    };
    let cells = vec![
        name,
        place.owners.to_string(),
        // Words stand to the left.
        format!("{:10}", place.unit),
        known(|flow| si(flow.items_per_s, "/s")),
        si(place.outgoing.items_per_s, "/s"),
        bytes(place.outgoing.bytes_per_s),
        known(|flow| flow.items.to_string()),
        place.outgoing.items.to_string(),
        place.dropped.items.to_string(),
        place.held_items.to_string(),
    ];
    let style = match place.dropped.items {
        0 => Style::new(),
        _ => Style::new().fg(Color::Yellow),
    };
    Row {
        cells,
        style,
        ..Row::default()
    }
}

const DROPS: [Column; 4] = [
    stays("lost at.reason", 34),
    stays("items", 11),
    gives_way(1, "items/s", 11),
    stays("bytes", 11),
];

/// Losses by place and reason.
pub(super) fn drops(view: &View, width: usize, lines: &mut Vec<Line<'static>>) {
    if view.drops.is_empty() && view.host.is_empty() {
        lines.push(plain(nothing_by_name(view)));
        lines.push(plain(""));
        return;
    }
    let named = if width < WIDE { 1 } else { usize::MAX };
    let mut rows: Vec<Row> = view
        .drops
        .iter()
        .map(|lost| drop_row(lost, named))
        .collect();
    rows.extend(view.host.iter().map(|line| Row {
        cells: vec![
            format!("{}.{}", line.place, line.reason),
            line.items.to_string(),
            String::new(),
            "unknown".to_owned(),
        ],
        tail: "the whole host".to_owned(),
        ..Row::default()
    }));
    lines.extend(table(&DROPS, "most of them from", rows, width));
    lines.push(plain(""));
}

/// What there is to say where nothing was dropped by name.
fn nothing_by_name(view: &View) -> String {
    let events = view.events.unwrap_or_default();
    let messages = view.messages.as_ref().map_or(0, |all| all.unconfirmed);
    let packets = view.packets.as_ref().map_or(0, |all| all.unconfirmed);
    let lacking = [
        (events.triggers_missing, "triggers missing"),
        (events.partial + events.discarded, "events lack sources"),
        (messages, "messages unconfirmed"),
        (packets, "packets unconfirmed"),
    ];
    let lacking = lacking.iter().filter(|(items, _)| *items > 0);
    let lacking: Vec<String> = lacking
        .map(|(items, what)| format!("{items} {what}"))
        .collect();
    match lacking.as_slice() {
        [] => "nothing lost".to_owned(),
        lacking => format!("nothing dropped by name; {}", lacking.join(", ")),
    }
}

/// A loss, with at most `named` of its owners.
fn drop_row(lost: &Lost, named: usize) -> Row {
    let most: Vec<String> = lost
        .most
        .iter()
        .take(named)
        .map(|(owner, items)| format!("{owner} {items}"))
        .collect();
    let more = match lost.owners - most.len() {
        0 => String::new(),
        more => format!(", {more} more"),
    };
    // The kernel counts datagrams, not bytes: then there is only a least value.
    let least = if lost.bytes_min == lost.bytes_max {
        ""
    } else {
        "≥ "
    };
    let cells = vec![
        format!("{}.{}", lost.place, lost.reason),
        lost.items.to_string(),
        si(lost.items_per_s, "/s"),
        format!("{least}{}", bytes(lost.bytes_min as f64)),
    ];
    Row {
        cells,
        tail: format!("{}{more}", most.join(", ")),
        ..Row::default()
    }
}

const SOURCES: [Column; 9] = [
    stays("source", 16),
    gives_way(2, "datagr./s", 11),
    gives_way(3, "sub-ev./s", 11),
    gives_way(1, "B/s", 11),
    gives_way(5, "queue", 6),
    stays("missing", 9),
    stays("without", 9),
    stays("dropped", 9),
    gives_way(4, "trigger", 10),
];

/// The sources one by one.
pub(super) fn sources(view: &View, order: Order, width: usize, lines: &mut Vec<Line<'static>>) {
    let mut all: Vec<&Source> = view.sources.iter().collect();
    order.sort(&mut all);
    let rows = all.into_iter().map(source_row).collect();
    lines.extend(table(
        &SOURCES,
        &format!("by {}", order.name()),
        rows,
        width,
    ));
}

fn source_row(source: &Source) -> Row {
    let trigger = source.last_trigger.map(|number| number.to_string());
    let cells = vec![
        source.name.clone(),
        si(source.datagrams_per_s, "/s"),
        si(source.subevents_per_s, "/s"),
        bytes(source.bytes_per_s),
        format!("{:.0} %", source.queue * 100.0),
        source.missing_events.to_string(),
        source.events_without.to_string(),
        source.dropped.to_string(),
        trigger.unwrap_or_else(|| "-".to_owned()),
    ];
    let silent = match source.silent {
        true => format!("SILENT {:.1} s  ", source.silent_s),
        false => String::new(),
    };
    let style = match (source.silent, source.dropped > 0) {
        (true, _) => Style::new().fg(Color::Red),
        (false, true) => Style::new().fg(Color::Yellow),
        (false, false) => Style::new(),
    };
    Row {
        cells,
        tail: format!("{silent}{}", source.reason),
        style,
    }
}
