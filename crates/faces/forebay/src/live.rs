//! One line a second while a run goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use forebay_evb::silence::{Heard, SILENT_SHOWN};
use forebay_ledger::LedgerReader;
use forebay_report::text::{bytes, si};
use forebay_report::top::sample::Sample;
use forebay_report::top::view::{View, Watch};

use crate::output::{note_text, settle_notes};

/// How often the line is written.
const PERIOD: Duration = Duration::from_secs(1);

/// Writes to standard error what a run does; overwrites its line on a terminal.
pub(crate) struct Live {
    quiet: bool,
    terminal: bool,
    next: Instant,
    watch: Watch,
    /// Lines of the books whose residual was already told.
    told: BTreeSet<String>,
    /// What was known of each source that has been silent.
    heard: BTreeMap<String, Heard>,
}

impl Live {
    /// A line each second, or nothing at all.
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            next: Instant::now() + PERIOD,
            watch: Watch::default(),
            told: BTreeSet::new(),
            heard: BTreeMap::new(),
        }
    }

    /// To be called often.
    pub(crate) fn tick(&mut self, reader: &LedgerReader) {
        let now = Instant::now();
        if self.quiet || now < self.next {
            return;
        }
        self.next = now + PERIOD;
        let Ok(sample) = Sample::take(reader) else {
            return;
        };
        let view = self.watch.view(sample);
        let (start, end) = if self.terminal {
            ("\r\x1b[K", "")
        } else {
            ("", "\n")
        };
        let mut text = String::new();
        for (line, alarm) in view.residual.standing.iter().zip(&view.residual.alarms) {
            if self.told.insert(line.clone()) {
                text += &format!("{start}RESIDUAL at {alarm}\n");
            }
        }
        for back in self.returned(&view) {
            text += &format!("{start}{back}\n");
        }
        text += &format!("{start}{}{end}", line(&view));
        // The supervisor looks after stages and signals, and waits for no terminal.
        note_text(&text);
    }

    /// What is to be said of sources that came back since the last look.
    fn returned(&mut self, view: &View) -> Vec<String> {
        let mut lines = Vec::new();
        for heard in &view.silent_sources {
            let before = self.heard.insert(heard.source.clone(), heard.clone());
            lines.extend(heard.return_since(&before.unwrap_or_default()));
        }
        lines
    }

    /// Ends the line on a terminal, before what else is said.
    pub(crate) fn end(&self) {
        if !self.quiet && self.terminal {
            note_text("\n");
        }
        settle_notes();
    }
}

/// A run in one line: rates, the fill of each stage, losses, what no account explains, which sources are silent.
fn line(view: &View) -> String {
    let events = view.events.unwrap_or_default();
    let fill: Vec<String> = view
        .fills
        .iter()
        .map(|fill| {
            let share = fill.used_bytes as f64 / fill.capacity_bytes.max(1) as f64;
            format!("{} {:.1} %", fill.stage, share * 100.0)
        })
        .collect();
    let held: i64 = view
        .places
        .iter()
        .filter(|place| place.place == "builder" && !place.link)
        .map(|place| place.held_bytes)
        .sum();
    let dropped: u64 = view.drops.iter().map(|lost| lost.items).sum();
    format!(
        "{:5.1} s  {} events  {}  {}/s  fill: {}, builder {}  dropped {dropped}  residual {}{}",
        view.running_s,
        events.complete + events.partial,
        si(events.rate_hz, "Hz"),
        bytes(events.data_rate_bytes_per_s),
        fill.join(", "),
        bytes(held as f64),
        view.residual.standing_items,
        silences(view),
    )
}

/// The sources that are silent, the one that costs most first.
fn silences(view: &View) -> String {
    let silent: Vec<Heard> = view.silent_now().cloned().collect();
    let shown = silent.iter().take(SILENT_SHOWN).map(Heard::silence);
    let texts: Vec<String> = shown.chain(Heard::others(&silent)).collect();
    match texts.as_slice() {
        [] => String::new(),
        texts => format!("  {}", texts.join("; ")),
    }
}
