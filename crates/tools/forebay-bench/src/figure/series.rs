//! From rows to points: repeats of one point become a median with its spread.

use std::collections::BTreeMap;

use forebay_report::plot::Point;
use forebay_report::rows::Row;
use forebay_report::statistics::{Spread, spread};

/// Repeats of each point, by the point's number.
pub(super) fn by_point(rows: &[Row]) -> BTreeMap<u64, Vec<&Row>> {
    let mut points: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        points
            .entry(row.number("point") as u64)
            .or_default()
            .push(row);
    }
    points
}

/// Points of the rows that `choose` takes, by x.
pub(super) fn points(
    rows: &[Row],
    choose: impl Fn(&Row) -> bool,
    x: (&str, f64),
    y: (&str, f64),
) -> Vec<Point> {
    let mut points: Vec<Point> = by_point(rows)
        .into_values()
        .filter(|repeats| choose(repeats[0]))
        .filter_map(|repeats| {
            let x_at = column(&repeats, x.0)?.median * x.1;
            let y_at = column(&repeats, y.0)?;
            Some(Point {
                x: x_at,
                y: y_at.median * y.1,
                low: y_at.low * y.1,
                high: y_at.high * y.1,
            })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

/// The spread of one column over repeats.
pub(super) fn column(repeats: &[&Row], name: &str) -> Option<Spread> {
    spread(repeats.iter().map(|row| row.number(name)))
}

/// The median of one column over repeats, as text.
pub(super) fn median(repeats: &[&Row], name: &str, scale: f64, digits: usize) -> String {
    column(repeats, name).map_or_else(
        || "?".to_owned(),
        |spread| format!("{:.digits$}", spread.median * scale),
    )
}

/// Different values of a label, sorted.
pub(super) fn values(rows: &[Row], name: &str) -> Vec<f64> {
    let mut values: Vec<f64> = rows
        .iter()
        .map(|row| row.number(name))
        .filter(|value| value.is_finite())
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}
