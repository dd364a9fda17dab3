//! F9: the yield of batches of cards that are validated.

use anyhow::Result;
use forebay_run_emu::validate::{self, BatchPlan, Summary};

use super::published;
use super::scan::{Scan, ScanPoint, Task};
use forebay_report::plot::{Bar, Bars, Group};
use forebay_report::rows::Row;

/// A batch, whose seed differs in each run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    cards: usize,
    faulty: usize,
    links: usize,
    buffers: usize,
    seed: u64,
}

/// Batches of each run.
const BATCHES: u64 = 8;
/// From the seeds of one run to those of the next.
const RUN_SEEDS: u64 = 1000;
/// What becomes of a card with a fault.
const FATES: [&str; 3] = ["recovered", "rejected", "missed"];

pub(super) fn scan(quick: bool) -> Scan {
    let [cards, faulty, _] = published::CARDS;
    let point = |seed: u64| ScanPoint {
        name: format!("batch of {cards} cards, {faulty} faulty, seed {seed}"),
        labels: Row::default(),
        task: Task::Batch(Batch {
            cards: cards as usize,
            faulty: faulty as usize,
            links: if quick { 4 } else { 12 },
            buffers: if quick { 1 } else { 4 },
            seed,
        }),
    };
    Scan {
        name: "batch",
        points: (1..=if quick { 1 } else { BATCHES }).map(point).collect(),
    }
}

impl Batch {
    /// The row of a run; none when it was interrupted.
    pub(super) fn measure(self, run: usize, stop: &dyn Fn() -> bool) -> Result<Option<Row>> {
        let seed = self.seed + (run as u64 - 1) * RUN_SEEDS;
        let plan = BatchPlan::drawn(self.cards, self.faulty, seed, self.links, self.buffers)?;
        let report = validate::run(&plan, |_| {}, stop)?;
        if report.interrupted {
            return Ok(None);
        }
        Ok(Some(self.row(seed, &report.summary)))
    }

    fn row(self, seed: u64, summary: &Summary) -> Row {
        let mut row = Row::default();
        row.add("seed", seed);
        row.add("links", self.links);
        row.add("dma_buffers", self.buffers);
        row.add("cards", summary.cards);
        row.add("faulty", summary.faulty);
        row.add("passed", summary.passed);
        row.add("recovered", summary.recovered);
        row.add("rejected", summary.rejected);
        row.add("yield_first_percent", 100.0 * summary.yield_first);
        row.add("yield_final_percent", 100.0 * summary.yield_final);
        row.add("repairs", summary.repairs);
        row.add("false_alarms", summary.false_alarms);
        row.add("missed", summary.missed);
        row.add("named", summary.named);
        row.add("placed", summary.placed);
        row.add("misnamed", summary.misnamed);
        row.add("escaped", summary.escaped);
        // Each card and each fault has one end, counted where it is found.
        let ends = summary.passed + summary.recovered + summary.rejected;
        let judged = summary.named + summary.misnamed + summary.missed;
        let residual = summary.cards.abs_diff(ends) + summary.faulty.abs_diff(judged);
        row.add("residual_items", residual);
        for kind in validate::FAULT_KINDS.iter().copied() {
            let one = summary.faults.get(kind).copied().unwrap_or_default();
            row.add(&format!("{kind}_cards"), one.cards);
            let fates = [one.recovered, one.rejected, one.cards - one.found];
            for (fate, count) in FATES.iter().zip(fates) {
                row.add(&format!("{kind}_{fate}"), count);
            }
        }
        row
    }
}

fn total(rows: &[Row], name: &str) -> f64 {
    rows.iter().map(|row| row.number(name)).sum()
}

/// The mean of a batch.
fn mean(rows: &[Row], name: &str) -> f64 {
    (10.0 * total(rows, name) / rows.len().max(1) as f64).round() / 10.0
}

pub(super) fn bars(rows: &[Row]) -> Bars {
    let [cards, faulty, recovered] = published::CARDS;
    let of = |name: String, passed: f64, parts: [f64; 3], reference| Bar {
        name,
        parts: [&[passed][..], &parts[..]].concat(),
        reference,
    };
    let theirs = of(
        "published".into(),
        cards - faulty,
        [recovered, faulty - recovered, 0.0],
        true,
    );
    let found = |row: &Row| {
        let missed = row.number("missed");
        let fates = [row.number("recovered"), row.number("rejected"), missed];
        of(
            format!("seed {}", row.number("seed")),
            row.number("passed") - missed,
            fates,
            false,
        )
    };
    let missed = mean(rows, "missed");
    let fates = [mean(rows, "recovered"), mean(rows, "rejected"), missed];
    let ours = of(
        format!("mean of {} batches", rows.len()),
        mean(rows, "passed") - missed,
        fates,
        false,
    );
    let mut batches = vec![theirs, ours];
    batches.extend(rows.iter().map(found));
    let kinds = validate::FAULT_KINDS.iter().map(|kind| {
        let fates = FATES.map(|fate| total(rows, &format!("{kind}_{fate}")));
        of(kind.replace('_', " "), 0.0, fates, false)
    });
    Bars {
        parts: vec!["passed at once", "recovered", "rejected", "missed"],
        groups: vec![
            Group {
                title: "Cards of a batch".into(),
                bars: batches,
            },
            Group {
                title: "Faulty cards of all batches, by the fault that they were given".into(),
                bars: kinds.collect(),
            },
        ],
        ..Bars::default()
    }
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let [cards, faulty, recovered] = published::CARDS;
    let range = |name: &str| {
        let values = || rows.iter().map(|row| row.number(name));
        let (low, high) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(0.0, f64::max),
        );
        format!("{} ({low:.0} to {high:.0})", mean(rows, name))
    };
    let all = |name: &str| total(rows, name);
    vec![
        format!(
            "published: {cards} cards, {faulty} faulty, {recovered} recovered; here {} batches of {} cards, {} faulty: recovered {}, rejected {}",
            rows.len(),
            mean(rows, "cards"),
            mean(rows, "faulty"),
            range("recovered"),
            range("rejected"),
        ),
        format!(
            "of {} faulty cards {} were named, {} of them at the right place, {} called something else, {} missed, {} let go with a fault; of {} good ones {} were false alarms",
            all("faulty"),
            all("named"),
            all("placed"),
            all("misnamed"),
            all("missed"),
            all("escaped"),
            all("cards") - all("faulty"),
            all("false_alarms"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_bar_are_all_cards_of_its_batch() {
        let stop = || false;
        let batch = Batch {
            cards: 6,
            faulty: 3,
            links: 2,
            buffers: 1,
            seed: 2,
        };
        let rows: Vec<Row> = (1..=2)
            .map(|run| batch.measure(run, &stop).unwrap().unwrap())
            .collect();
        assert_eq!(
            (rows[0].number("seed"), rows[1].number("seed")),
            (2.0, 1002.0)
        );
        let bars = bars(&rows);
        let sum = |bar: &Bar| bar.parts.iter().sum::<f64>();
        for bar in &bars.groups[0].bars[1..] {
            assert!((sum(bar) - 6.0).abs() < 0.2, "{bar:?}");
        }
        assert_eq!(sum(&bars.groups[0].bars[0]), 40.0);
        assert_eq!(bars.groups[1].bars.iter().map(sum).sum::<f64>(), 6.0);
        let said = compare(&rows);
        assert!(said[0].starts_with(
            "published: 40 cards, 10 faulty, 8 recovered; here 2 batches of 6 cards, 3 faulty"
        ));
        assert!(said[1].contains("of 6 faulty cards"), "{}", said[1]);
        assert!(compare(&[]).is_empty());
        assert!(batch.measure(1, &|| true).unwrap().is_none());
    }
}
