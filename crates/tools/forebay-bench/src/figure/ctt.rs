//! C1 to C3: drops, hits and latency of the connection table, by its model. Nothing of them is measured.

use anyhow::{Context as _, Result};
use forebay_ctt::fit::quantity_of;
use forebay_ctt::published::{FITTED_ON, Published, Quantity};
use forebay_ctt::{Edition, NAMED, NamedProfile, Outcome, Parameters, Trace};

use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column};
use forebay_report::plot::{Bar, Bars, Group};
use forebay_report::rows::Row;

/// Packets of each profile: from so many on, the 16 shares that the heaviest flows have in turn are all there.
const PACKETS: u64 = 2_000_000;
/// Fewer, which are soon computed and have other drops.
const PACKETS_QUICK: u64 = 100_000;
const EDITIONS: [Edition; 2] = [Edition::Default, Edition::Small];
const QUANTITIES: [Quantity; 3] = [Quantity::Drop, Quantity::Hit, Quantity::Latency];

/// One profile through the model; the seed is the number of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Model {
    profile: &'static NamedProfile,
    edition: Edition,
    packets: u64,
}

pub(super) fn scan(quick: bool) -> Scan {
    let point = |model: Model| ScanPoint {
        name: format!("{}, {}", model.profile.stands_for, words(model.edition)),
        labels: Row::default(),
        task: Task::Model(model),
    };
    Scan {
        name: "ctt",
        points: models(quick).map(point).collect(),
    }
}

/// Whole packets of all profiles, and then small ones.
fn models(quick: bool) -> impl Iterator<Item = Model> {
    let packets = if quick { PACKETS_QUICK } else { PACKETS };
    let of_edition = move |edition| {
        NAMED.iter().map(move |profile| Model {
            profile,
            edition,
            packets,
        })
    };
    EDITIONS.into_iter().flat_map(of_edition)
}

const fn words(edition: Edition) -> &'static str {
    match edition {
        Edition::Default => "whole packets",
        Edition::Small => "small packets",
    }
}

/// The column of a quantity.
const fn name_of(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Drop => "drop_percent",
        Quantity::Hit => "hit_percent",
        Quantity::Latency => "latency_ns_mean",
    }
}

impl Model {
    /// The row of a run.
    pub(super) fn compute(self, run: usize) -> Result<Row> {
        let label = self.profile.stands_for;
        let published = Published::of(label)
            .with_context(|| format!("nothing is published of a profile {label}"))?;
        let seed = run as u64;
        let trace = Trace::of_profile(self.profile, self.edition, self.packets, seed);
        let outcome = trace.run(&Parameters::default());
        let mut row = Row::default();
        row.add("is", "a model and no measurement");
        row.add("seed", seed);
        row.add("profile", self.profile.name);
        row.add("stands_for", label);
        row.add("packets", words(self.edition));
        row.add("fitted", FITTED_ON.contains(&label));
        for quantity in QUANTITIES {
            let (first, july) = published.values(self.edition, quantity);
            let (name, found) = (name_of(quantity), quantity_of(&outcome, quantity));
            row.add(name, found);
            row.add(&format!("published_first_{name}"), first);
            row.add(
                &format!("published_july_2025_{name}"),
                july.unwrap_or(f64::NAN),
            );
            row.add(&format!("residual_first_{name}"), found - first);
            let residual = july.map_or(f64::NAN, |july| found - july);
            row.add(&format!("residual_july_2025_{name}"), residual);
        }
        books(&mut row, &outcome);
        Ok(row)
    }
}

/// What the model counted, and what its equations leave.
fn books(row: &mut Row, outcome: &Outcome) {
    let Outcome {
        packets_in,
        packets_out,
        packets_dropped,
        packets_held,
        bytes_in,
        bytes_out,
        bytes_dropped,
        bytes_held,
        ..
    } = *outcome;
    row.add("latency_ns_p25", outcome.latency_ns_p25);
    row.add("latency_ns_p50", outcome.latency_ns_p50);
    row.add("latency_ns_p75", outcome.latency_ns_p75);
    row.add("packets_in", packets_in);
    row.add("packets_out", packets_out);
    row.add("packets_dropped", packets_dropped);
    row.add("packets_held", packets_held);
    row.add("contexts_fetched", outcome.contexts_fetched);
    row.add("contexts_written", outcome.contexts_written);
    row.add("contexts_held", outcome.contexts_held);
    let of_packets = packets_in.abs_diff(packets_out + packets_dropped + packets_held);
    let ended = outcome.contexts_written + outcome.contexts_held;
    let of_contexts = outcome.contexts_fetched.abs_diff(ended);
    row.add("residual_items", of_packets + of_contexts);
    let of_bytes = bytes_in.abs_diff(bytes_out + bytes_dropped + bytes_held);
    row.add("residual_bytes", of_bytes);
}

/// Published values, and ours where there are any, of all profiles with packets of one kind.
fn group(rows: &[Row], edition: Edition, quantity: Quantity, unit: &str) -> Group {
    let name = name_of(quantity);
    let bar = |name: String, value: f64, reference| Bar {
        name,
        parts: vec![rounded(value, quantity)],
        reference,
    };
    let mut bars = Vec::new();
    for profile in &NAMED {
        let label = profile.stands_for;
        if let Some(published) = Published::of(label) {
            let (first, july) = published.values(edition, quantity);
            bars.push(bar(format!("{label}, published"), first, true));
            let july = july.map(|july| bar("July 2025".into(), july, true));
            bars.extend(july);
        }
        if let Some(found) = of_profile(rows, label, edition).and_then(|row| column(&row, name)) {
            bars.push(bar(
                format!("model{}", standing(label, edition, quantity)),
                found.median,
                false,
            ));
        }
    }
    Group {
        title: format!("{}: {unit}", words(edition)),
        bars,
    }
}

/// What a value of the model is worth: constants were fitted on two profiles, and the share of the heaviest flows of each was set from its published hits of whole packets.
fn standing(label: &str, edition: Edition, quantity: Quantity) -> &'static str {
    match (quantity, edition) {
        _ if FITTED_ON.contains(&label) => ", fitted",
        (Quantity::Hit, Edition::Default) => ", an input in part",
        _ => ", predicted",
    }
}

/// As many figures as a picture and a line have.
fn rounded(value: f64, quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Latency => value.round(),
        Quantity::Drop | Quantity::Hit => (value * 10.0).round() / 10.0,
    }
}

/// All runs of a profile.
fn of_profile<'a>(rows: &'a [Row], label: &str, edition: Edition) -> Option<Vec<&'a Row>> {
    by_point(rows).into_values().find(|repeats| {
        repeats[0].text("stands_for") == label && repeats[0].text("packets") == words(edition)
    })
}

fn bars(rows: &[Row], quantity: Quantity, unit: &'static str) -> Bars {
    let groups = EDITIONS.map(|edition| group(rows, edition, quantity, unit));
    Bars {
        parts: vec![unit],
        groups: groups.into(),
        ..Bars::default()
    }
}

pub(super) fn drops(rows: &[Row]) -> Bars {
    bars(rows, Quantity::Drop, "packets dropped [%]")
}

pub(super) fn hits(rows: &[Row]) -> Bars {
    bars(
        rows,
        Quantity::Hit,
        "packets that found their flow on the chip [%]",
    )
}

pub(super) fn latencies(rows: &[Row]) -> Bars {
    bars(
        rows,
        Quantity::Latency,
        "mean latency [ns], clipped at 40,960 each",
    )
}

pub(super) fn compare_drops(rows: &[Row]) -> Vec<String> {
    compare(rows, Quantity::Drop)
}

pub(super) fn compare_hits(rows: &[Row]) -> Vec<String> {
    compare(rows, Quantity::Hit)
}

pub(super) fn compare_latencies(rows: &[Row]) -> Vec<String> {
    compare(rows, Quantity::Latency)
}

/// A line for each profile: both editions of what was published, the model, and what is left.
fn compare(rows: &[Row], quantity: Quantity) -> Vec<String> {
    let (name, unit) = (name_of(quantity), unit_of(quantity));
    let round = |value: f64| rounded(value, quantity);
    let line = |repeats: &Vec<&Row>| {
        let row = repeats[0];
        let label = row.text("stands_for");
        let found = column(repeats, name)?;
        let is_whole = row.text("packets") == words(Edition::Default);
        let edition = if is_whole {
            Edition::Default
        } else {
            Edition::Small
        };
        let standing = standing(label, edition, quantity);
        let published = |edition: &str| row.number(&format!("published_{edition}_{name}"));
        let (first, july) = (published("first"), published("july_2025"));
        let (said, residual) = match july.is_nan() {
            true => (
                format!("published {first}{unit}"),
                format!("{:+}", round(found.median - first)),
            ),
            false => (
                format!("published {first}{unit}, July 2025 {july}{unit}"),
                format!(
                    "{:+} and {:+}",
                    round(found.median - first),
                    round(found.median - july)
                ),
            ),
        };
        Some(format!(
            "{label}, {}: {said}; model{} {}{unit} ({} to {}), residual {residual}",
            row.text("packets"),
            standing,
            round(found.median),
            round(found.low),
            round(found.high),
        ))
    };
    by_point(rows).values().filter_map(line).collect()
}

const fn unit_of(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Drop | Quantity::Hit => " %",
        Quantity::Latency => " ns",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let numbers = [1, 4, 7 + 4];
        let row = |number: usize, run| {
            let mut row = Row::default();
            row.add("point", number);
            row.extend(&models(true).nth(number).unwrap().compute(run).unwrap());
            row
        };
        let runs = numbers
            .into_iter()
            .flat_map(|number| [(number, 1), (number, 2)]);
        runs.map(|(number, run)| row(number, run)).collect()
    }

    #[test]
    fn each_profile_has_published_values_beside_the_models() {
        let rows = rows();
        assert!(rows.iter().all(|row| row.number("residual_items") == 0.0));
        assert_eq!((rows[0].number("seed"), rows[1].number("seed")), (1.0, 2.0));
        let label = rows[0].text("stands_for");
        let said = compare_hits(&rows);
        assert_eq!(said.len(), 3);
        let published = Published::of(label).unwrap();
        let begin = format!(
            "{label}, whole packets: published {} %, July 2025 {} %; model, ",
            published.hit, published.hit_july
        );
        assert!(said[0].starts_with(&begin), "{} is not {begin}", said[0]);
        let median = (rows[0].number("hit_percent") + rows[1].number("hit_percent")) / 2.0;
        let residual = rounded(median - published.hit, Quantity::Hit);
        assert!(
            said[0].contains(&format!("residual {residual:+} and ")),
            "{}",
            said[0]
        );
        // Small packets are in the first edition alone.
        assert!(
            !said[2].contains("July") && said[2].contains("small packets"),
            "{}",
            said[2]
        );
        assert!(compare_drops(&[]).is_empty());
    }

    #[test]
    fn a_picture_has_all_that_is_published_and_no_bar_that_was_not_computed() {
        let count = |bars: &Bars, reference| {
            let of_groups = bars.groups.iter().flat_map(|group| &group.bars);
            of_groups.filter(|bar| bar.reference == reference).count()
        };
        let rows = rows();
        for draw in [drops, hits, latencies] {
            assert_eq!((count(&draw(&[]), true), count(&draw(&[]), false)), (21, 0));
            assert_eq!(
                (count(&draw(&rows), true), count(&draw(&rows), false)),
                (21, 3)
            );
        }
        let small = &hits(&rows).groups[1].bars;
        let at = small.iter().position(|bar| !bar.reference).unwrap();
        let median = (rows[4].number("hit_percent") + rows[5].number("hit_percent")) / 2.0;
        assert_eq!(small[at].parts, [rounded(median, Quantity::Hit)]);
        let label = rows[4].text("stands_for");
        assert_eq!(small[at - 1].name, format!("{label}, published"));
    }
}
