//! The legend of a chart: a sample of each series and its name, in as many rows as it takes.

use super::chart::{Chart, LINE, TEXT};
use super::font;
use super::scene::{Anchor, BLACK, Scene, Shape};
use super::series::{Form, Series};
use super::style::{Style, styled};

/// Width of a sample of a line, and the gap between entries, in pixels.
const SAMPLE: f32 = 34.0;
const GAP: f32 = 18.0;

/// Series that a legend names; of more it says how many.
const NAMED: usize = 14;

/// What stands for the series from `NAMED` on.
fn more(chart: &Chart) -> Option<String> {
    let more = chart.series.len().checked_sub(NAMED)?;
    (more > 0).then(|| format!("… and {more} more"))
}

/// The legend's entries by row: offset from the left, and which; after the last series that is named, what is said of the others.
pub(super) fn legend_rows(chart: &Chart, width: f32) -> Vec<Vec<(f32, usize)>> {
    let mut rows: Vec<Vec<(f32, usize)>> = Vec::new();
    let mut x = f32::INFINITY;
    let names = chart.series.iter().take(NAMED);
    let names = names.map(|series| series.name.clone()).chain(more(chart));
    for (index, name) in names.enumerate() {
        let entry = SAMPLE + font::width(&name, TEXT, false);
        if x + entry > width {
            rows.push(Vec::new());
            x = 0.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, index));
        }
        x += entry + GAP;
    }
    rows
}

pub(super) fn draw_legend(scene: &mut Scene, chart: &Chart, (left, top): (f32, f32), width: f32) {
    let styles: Vec<(Style, &Series)> = styled(chart).collect();
    for (row, entries) in legend_rows(chart, width).into_iter().enumerate() {
        let y = top + row as f32 * LINE + 8.0;
        for (offset, index) in entries {
            if index == NAMED {
                let told = more(chart).unwrap_or_default();
                scene.text((left + offset, y + 4.0), &told, TEXT, BLACK, Anchor::Start);
                continue;
            }
            let (style, series) = styles[index];
            let (x, points) = (
                left + offset,
                vec![(left + offset, y), (left + offset + 26.0, y)],
            );
            if series.form == Form::Dot {
                scene.shapes.push(Shape::Dots {
                    at: vec![(x + 20.0, y)],
                    radius: 3.0,
                    colour: style.colour,
                });
            } else if series.joined {
                scene.shapes.push(Shape::Line {
                    points,
                    width: 2.0,
                    colour: style.colour,
                    dash: style.dash(),
                });
            }
            if series.form == Form::Mark {
                scene.shapes.push(style.marker((x + 13.0, y)));
            }
            scene.text(
                (x + SAMPLE, y + 4.0),
                &series.name,
                TEXT,
                BLACK,
                Anchor::Start,
            );
        }
    }
}
