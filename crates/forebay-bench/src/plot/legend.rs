//! The legend of a chart: a sample of each series and its name, in as many rows as it takes.

use super::chart::{Chart, LINE, Series, TEXT};
use super::font;
use super::scene::{Anchor, BLACK, Scene, Shape};
use super::style::{Style, styled};

/// Width of a sample of a line, and the gap between entries, in pixels.
const SAMPLE: f32 = 34.0;
const GAP: f32 = 18.0;

/// The legend's entries by row: offset from the left, and which.
pub(super) fn legend_rows(chart: &Chart, width: f32) -> Vec<Vec<(f32, usize)>> {
    let mut rows: Vec<Vec<(f32, usize)>> = Vec::new();
    let mut x = f32::INFINITY;
    for (index, series) in chart.series.iter().enumerate() {
        let entry = SAMPLE + font::width(&series.name, TEXT, false);
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
            let (style, series) = styles[index];
            let (x, points) = (
                left + offset,
                vec![(left + offset, y), (left + offset + 26.0, y)],
            );
            if series.joined {
                scene.shapes.push(Shape::Line {
                    points,
                    width: 2.0,
                    colour: style.colour,
                    dash: style.dash(),
                });
            }
            scene.shapes.push(style.marker((x + 13.0, y)));
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
