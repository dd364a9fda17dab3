//! The page: lines of styled text, the same for a terminal and for a pipe.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use forebay_evb::silence::{Heard, SILENT_SHOWN};
use forebay_ledger::Condition;

use super::rows::{Order, drops, places, sources};
use super::view::{State, View};
use crate::text::{bytes, si};

/// Cells of a bar.
const BAR_CELLS: usize = 20;
/// From this fill on, a bar is shown in another colour.
const FULL: f64 = 0.8;

/// What the reader wants to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    /// The sources one by one instead of the places.
    pub sources: bool,
    /// In which order.
    pub order: Order,
    /// Whether the page stands still.
    pub paused: bool,
}

pub(super) fn heading(text: impl Into<String>) -> Line<'static> {
    Line::styled(
        text.into(),
        Style::new().add_modifier(Modifier::BOLD).fg(Color::Cyan),
    )
}

pub(super) fn plain(text: impl Into<String>) -> Line<'static> {
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

/// What stays on top, in `width` cells: which run, how it stands, what it makes, which sources are silent, whether the books are sound.
pub(super) fn head(view: &View, wish: &Wish, width: usize) -> Vec<Line<'static>> {
    let paused = if wish.paused { "  PAUSED" } else { "" };
    let state = match view.state {
        State::Live => format!("{}, supervisor {}", view.condition, view.supervisor_pid),
        State::Ended if view.condition == Condition::Ended.name() => {
            format!("ENDED ({})", view.reason)
        }
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
            "{} events complete, {} incomplete, {} discarded   {}",
            events.complete,
            events.partial,
            events.discarded,
            rates(view, events.rate_hz, events.data_rate_bytes_per_s),
        )));
    }
    if let Some(events) = &view.events
        && events.triggers_missing + events.triggers_dropped > 0
    {
        let whose = [
            (events.triggers_missing, "seen by no source"),
            (events.triggers_dropped, "dropped by the receiver"),
        ];
        let told = whose.iter().filter(|(triggers, _)| *triggers > 0);
        let told: Vec<String> = told
            .map(|(triggers, what)| format!("{triggers} {what}"))
            .collect();
        lines.push(alarm(format!(
            "of {} triggers {}; efficiency {:.2} % (complete events / triggers)",
            events.triggers_span,
            told.join(", "),
            events.efficiency * 100.0,
        )));
    }
    silences(view, width, &mut lines);
    lines.extend(sums(view));
    lines.push(residual(view));
    lines
}

/// What a program that builds no events did.
fn sums(view: &View) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(messages) = &view.messages {
        lines.push(plain(format!(
            "{} messages sent, {} received, {} lost by name{}{}   {}",
            messages.sent,
            messages.received,
            messages.dropped,
            match messages.not_subscribed {
                0 => String::new(),
                messages => format!(", {messages} not subscribed"),
            },
            unconfirmed(view, messages.unconfirmed, messages.unconfirmed_bytes),
            rates(view, messages.rate_hz, messages.data_rate_bytes_per_s),
        )));
    }
    if let Some(chunks) = &view.chunks {
        lines.push(plain(format!(
            "{} chunks, {} lost by name   {}",
            chunks.chunks,
            chunks.dropped,
            rates(view, chunks.rate_hz, chunks.data_rate_bytes_per_s),
        )));
    }
    if let Some(packets) = &view.packets {
        lines.push(plain(format!(
            "{} packets in {} windows, {} lost by name{}   {}",
            packets.packets,
            packets.windows,
            packets.dropped,
            unconfirmed(view, packets.unconfirmed, packets.unconfirmed_bytes),
            rates(view, packets.rate_hz, packets.data_rate_bytes_per_s),
        )));
    }
    if let Some(moved) = &view.moved {
        lines.push(plain(format!(
            "{} {}   {}",
            moved.items,
            moved.unit,
            rates(view, moved.rate_hz, moved.data_rate_bytes_per_s),
        )));
    }
    lines
}

/// Items and bytes per second, and over which time they were taken.
fn rates(view: &View, items_hz: f64, bytes_per_s: f64) -> String {
    let (items, amount) = (si(items_hz, "Hz"), bytes(bytes_per_s));
    format!("{items}   {amount}/s   (over {:.1} s)", view.rates_over_s)
}

/// What no peer has acknowledged, behind the other numbers; of a live sender it is on its way.
fn unconfirmed(view: &View, items: u64, amount: u64) -> String {
    match (items, view.state) {
        (0, _) => String::new(),
        (_, State::Live) => format!(", {items} not confirmed yet"),
        _ => format!(", {items} UNCONFIRMED ({})", bytes(amount as f64)),
    }
}

/// The sources that are silent, the one that costs most first.
fn silences(view: &View, width: usize, lines: &mut Vec<Line<'static>>) {
    let silent: Vec<Heard> = view.silent_now().cloned().collect();
    for heard in silent.iter().take(SILENT_SHOWN) {
        let text = heard.silence();
        let fits = text.chars().count() <= width;
        lines.push(alarm(if fits { text } else { heard.silence_in_short() }));
    }
    lines.extend(Heard::others(&silent).map(alarm));
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

/// What can be scrolled, in `width` cells as far as that is possible.
pub(super) fn body(view: &View, wish: &Wish, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    lines.extend(view.residual.alarms.iter().skip(1).map(alarm));
    if wish.sources {
        sources(view, wish.order, width, &mut lines);
    } else {
        // Losses first: on a small screen what stands below is a page away.
        drops(view, width, &mut lines);
        fills(view, &mut lines);
        places(view, width, &mut lines);
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

/// The whole page without colours.
pub fn text(view: &View, wish: &Wish) -> String {
    let lines = head(view, wish, usize::MAX)
        .into_iter()
        .chain([plain("")])
        .chain(body(view, wish, usize::MAX));
    let lines: Vec<String> = lines
        .map(|line| line.to_string().trim_end().to_owned())
        .collect();
    lines.join("\n").trim_end().to_owned()
}
