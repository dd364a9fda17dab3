//! The page: lines of styled text, the same for a terminal and for a pipe.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::source::Source;
use super::view::{Flow, State, View};
use crate::output::{bytes, si};

/// Cells of a bar.
const BAR_CELLS: usize = 20;
/// From this fill on, a bar is shown in another colour.
const FULL: f64 = 0.8;

/// What sources are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// As declared.
    #[default]
    Declared,
    /// The fastest first.
    Rate,
    /// The fullest first.
    Fill,
    /// The one that lost most first.
    Dropped,
}

impl Order {
    /// The order after this one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Declared => Self::Rate,
            Self::Rate => Self::Fill,
            Self::Fill => Self::Dropped,
            Self::Dropped => Self::Declared,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Declared => "name",
            Self::Rate => "rate",
            Self::Fill => "fill",
            Self::Dropped => "dropped",
        }
    }
}

/// What the reader wants to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// The sources one by one instead of the places.
    pub(super) sources: bool,
    pub(super) order: Order,
    pub(super) paused: bool,
}

fn heading(text: impl Into<String>) -> Line<'static> {
    Line::styled(
        text.into(),
        Style::new().add_modifier(Modifier::BOLD).fg(Color::Cyan),
    )
}

fn plain(text: impl Into<String>) -> Line<'static> {
    Line::raw(text.into())
}

fn alarm(text: impl Into<String>) -> Line<'static> {
    Line::styled(
        text.into(),
        Style::new()
            .add_modifier(Modifier::BOLD)
            .fg(Color::White)
            .bg(Color::Red),
    )
}

/// What stays on top: which run, how it stands, what it makes, whether the books are sound.
pub(super) fn head(view: &View, wish: &Wish) -> Vec<Line<'static>> {
    let paused = if wish.paused { "  PAUSED" } else { "" };
    let state = match view.state {
        State::Live => format!("{}, supervisor {}", view.condition, view.supervisor_pid),
        // What came to its end is whole only if nothing was lost.
        State::Ended if view.condition == "complete" => format!("ENDED ({})", view.reason),
        State::Ended => format!("ENDED: {} ({})", view.condition, view.reason),
        State::Killed => format!("KILLED: {} ({})", view.condition, view.reason),
    };
    let style = match view.state {
        State::Live => Style::new().fg(Color::Green),
        State::Ended => Style::new().fg(Color::Yellow),
        State::Killed => Style::new().fg(Color::Red),
    };
    let mut lines = vec![Line::from(vec![
        Span::styled(
            format!("run {}  ", view.run_id),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Span::styled(state, style.add_modifier(Modifier::BOLD)),
        Span::raw(format!("  {:.1} s{paused}", view.running_s)),
    ])];
    if let Some(events) = &view.events {
        lines.push(plain(format!(
            "{} events complete, {} incomplete, {} discarded   {}   {}/s   (over {:.1} s)",
            events.complete,
            events.partial,
            events.discarded,
            si(events.rate_hz, "Hz"),
            bytes(events.data_rate_bytes_per_s),
            view.rates_over_s,
        )));
    }
    if let Some(events) = &view.events
        && events.triggers_missing > 0
    {
        lines.push(alarm(format!(
            "{} of {} triggers seen by no source; efficiency {:.2} % (complete events / triggers)",
            events.triggers_missing,
            events.triggers_span,
            events.efficiency * 100.0,
        )));
    }
    if let Some(messages) = &view.messages {
        lines.push(plain(format!(
            "{} messages sent, {} received, {} lost by name   {}   {}/s   (over {:.1} s)",
            messages.sent,
            messages.received,
            messages.dropped,
            si(messages.rate_hz, "Hz"),
            bytes(messages.data_rate_bytes_per_s),
            view.rates_over_s,
        )));
    }
    if let Some(chunks) = &view.chunks {
        lines.push(plain(format!(
            "{} chunks, {} lost by name   {}   {}/s   (over {:.1} s)",
            chunks.chunks,
            chunks.dropped,
            si(chunks.rate_hz, "Hz"),
            bytes(chunks.data_rate_bytes_per_s),
            view.rates_over_s,
        )));
    }
    if let Some(packets) = &view.packets {
        lines.push(plain(format!(
            "{} packets in {} windows, {} lost by name   {}   {}/s   (over {:.1} s)",
            packets.packets,
            packets.windows,
            packets.dropped,
            si(packets.rate_hz, "Hz"),
            bytes(packets.data_rate_bytes_per_s),
            view.rates_over_s,
        )));
    }
    lines.push(residual(view));
    lines
}

fn residual(view: &View) -> Line<'static> {
    let residual = &view.residual;
    if let Some(first) = residual.alarms.first() {
        let more = match residual.alarms.len() {
            1 => String::new(),
            all => format!(" (and {} more)", all - 1),
        };
        return alarm(format!("RESIDUAL {first}{more}"));
    }
    let text = match (view.state, residual.items, residual.bytes) {
        (_, 0, 0) => "residual 0".to_owned(),
        (State::Live, items, bytes) => {
            format!("residual {items} items, {bytes} bytes: within what can be in flight")
        }
        (_, items, bytes) => {
            format!("residual {items} items, {bytes} bytes: in flight when it ended")
        }
    };
    Line::styled(text, Style::new().fg(Color::Green))
}

/// What can be scrolled.
pub(super) fn body(view: &View, wish: &Wish) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    lines.extend(view.residual.alarms.iter().skip(1).map(alarm));
    if wish.sources {
        sources(view, wish.order, &mut lines);
    } else {
        fills(view, &mut lines);
        places(view, &mut lines);
        drops(view, &mut lines);
        histograms(view, &mut lines);
    }
    lines
}

fn fills(view: &View, lines: &mut Vec<Line<'static>>) {
    if view.fills.is_empty() {
        return;
    }
    lines.push(heading(format!(
        "{:24} {:BAR_CELLS$}  {:>10} {:>10}  fullest",
        "fill", "", "used", "capacity"
    )));
    for fill in &view.fills {
        let stage = match fill.count {
            1 => fill.stage.clone(),
            count => format!("{} ({count})", fill.stage),
        };
        let used = bytes(fill.used_bytes as f64);
        let capacity = bytes(fill.capacity_bytes as f64);
        let share = if fill.capacity_bytes == 0 {
            0.0
        } else {
            fill.used_bytes as f64 / fill.capacity_bytes as f64
        };
        let style = if fill.fullest >= FULL {
            Style::new().fg(Color::Red)
        } else {
            Style::new()
        };
        lines.push(Line::from(vec![
            Span::raw(format!("{stage:24} ")),
            Span::styled(bar(share), style),
            Span::raw(format!(
                "  {used:>10} {capacity:>10}  {} {:.0} %",
                fill.fullest_owner,
                fill.fullest * 100.0
            )),
        ]));
    }
    lines.push(plain(""));
}

/// A bar of [`BAR_CELLS`]; anything above nothing shows.
fn bar(share: f64) -> String {
    let share = share.clamp(0.0, 1.0);
    let full = if share > 0.0 {
        ((share * BAR_CELLS as f64).round() as usize).max(1)
    } else {
        0
    };
    format!("{}{}", "█".repeat(full), "░".repeat(BAR_CELLS - full))
}

fn places(view: &View, lines: &mut Vec<Line<'static>>) {
    lines.push(heading(format!(
        "{:14} {:>6} {:10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>9} {:>9}",
        "place", "owners", "unit", "in/s", "out/s", "out B/s", "in", "out", "dropped", "held"
    )));
    for place in &view.places {
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
        let text = format!(
            "{name:14} {:>6} {:10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>9} {:>9}",
            place.owners,
            place.unit,
            known(|flow| si(flow.items_per_s, "/s")),
            si(place.outgoing.items_per_s, "/s"),
            bytes(place.outgoing.bytes_per_s),
            known(|flow| flow.items.to_string()),
            place.outgoing.items,
            place.dropped.items,
            place.held_items,
        );
        let lossy = place.dropped.items > 0;
        lines.push(if lossy {
            Line::styled(text, Style::new().fg(Color::Yellow))
        } else {
            plain(text)
        });
    }
    lines.push(plain(""));
}

fn drops(view: &View, lines: &mut Vec<Line<'static>>) {
    if view.drops.is_empty() && view.host.is_empty() {
        let events = view.events.unwrap_or_default();
        let lacking = events.partial + events.discarded;
        lines.push(plain(match lacking {
            0 => "nothing lost".to_owned(),
            lacking => format!("nothing dropped; {lacking} events lack sources"),
        }));
        lines.push(plain(""));
        return;
    }
    lines.push(heading(format!(
        "{:34} {:>11} {:>11} {:>11}  most of them from",
        "lost at.reason", "items", "items/s", "bytes"
    )));
    for lost in &view.drops {
        let most: Vec<String> = lost
            .most
            .iter()
            .map(|(owner, items)| format!("{owner} {items}"))
            .collect();
        let more = match lost.owners - lost.most.len() {
            0 => String::new(),
            more => format!(", {more} more"),
        };
        // The kernel counts datagrams, not bytes: then there is only a least value.
        let least = if lost.bytes_min == lost.bytes_max {
            ""
        } else {
            "≥ "
        };
        let size = format!("{least}{}", bytes(lost.bytes_min as f64));
        let name = format!("{}.{}", lost.place, lost.reason);
        lines.push(plain(format!(
            "{name:34} {:>11} {:>11} {size:>11}  {}{more}",
            lost.items,
            si(lost.items_per_s, "/s"),
            most.join(", ")
        )));
    }
    for line in &view.host {
        let name = format!("{}.{}", line.place, line.reason);
        lines.push(plain(format!(
            "{name:34} {:>11} {:>11} {:>11}  the whole host",
            line.items, "", "unknown"
        )));
    }
    lines.push(plain(""));
}

fn histograms(view: &View, lines: &mut Vec<Line<'static>>) {
    let filled: Vec<_> = view
        .histograms
        .iter()
        .filter(|histogram| histogram.count > 0)
        .collect();
    if filled.is_empty() {
        return;
    }
    lines.push(heading(format!(
        "{:24} {:>12} {:>11} {:>11} {:>11} {:>11}",
        "histogram", "count", "p50", "p90", "p99", "max"
    )));
    for histogram in filled {
        let value = |number: u64| {
            if histogram.name.ends_with("_ns") {
                time(number)
            } else {
                bytes(number as f64)
            }
        };
        lines.push(plain(format!(
            "{:24} {:>12} {:>11} {:>11} {:>11} {:>11}",
            histogram.name,
            histogram.count,
            value(histogram.p50),
            value(histogram.p90),
            value(histogram.p99),
            value(histogram.max),
        )));
    }
}

/// Nanoseconds as people read them.
fn time(ns: u64) -> String {
    let ns = ns as f64;
    let steps = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (scale, unit) = steps
        .into_iter()
        .find(|(scale, _)| ns >= *scale)
        .unwrap_or((1.0, "ns"));
    format!("{:.1} {unit}", ns / scale)
}

fn sources(view: &View, order: Order, lines: &mut Vec<Line<'static>>) {
    let mut all: Vec<&Source> = view.sources.iter().collect();
    match order {
        Order::Declared => {}
        Order::Rate => all.sort_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s)),
        Order::Fill => all.sort_by(|a, b| b.queue.total_cmp(&a.queue)),
        Order::Dropped => all.sort_by_key(|source| std::cmp::Reverse(source.dropped)),
    }
    lines.push(heading(format!(
        "{:16} {:>11} {:>11} {:>11} {:>6} {:>9} {:>9} {:>10}  by {}",
        "source",
        "datagr./s",
        "sub-ev./s",
        "B/s",
        "queue",
        "missing",
        "dropped",
        "trigger",
        order.name()
    )));
    for source in all {
        let trigger = source
            .last_trigger
            .map_or_else(|| "-".to_owned(), |number| number.to_string());
        let text = format!(
            "{:16} {:>11} {:>11} {:>11} {:>4.0} % {:>9} {:>9} {trigger:>10}  {}{}",
            source.name,
            si(source.datagrams_per_s, "/s"),
            si(source.subevents_per_s, "/s"),
            bytes(source.bytes_per_s),
            source.queue * 100.0,
            source.missing_events,
            source.dropped,
            if source.silent { "SILENT " } else { "" },
            source.reason,
        );
        let style = match (source.silent, source.dropped > 0) {
            (true, _) => Style::new().fg(Color::Red),
            (false, true) => Style::new().fg(Color::Yellow),
            (false, false) => Style::new(),
        };
        lines.push(Line::styled(text, style));
    }
}

/// The whole page without colours.
pub(super) fn text(view: &View, wish: &Wish) -> String {
    let lines = head(view, wish)
        .into_iter()
        .chain([plain("")])
        .chain(body(view, wish));
    let lines: Vec<String> = lines
        .map(|line| line.to_string().trim_end().to_owned())
        .collect();
    lines.join("\n").trim_end().to_owned()
}
