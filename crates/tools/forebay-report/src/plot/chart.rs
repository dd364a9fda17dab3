//! Charts with axes, units, legend and caption, laid out into a scene.

use super::axis::{Scale, Span, label};
use super::font;
use super::legend::{draw_legend, legend_rows};
use super::scene::{Anchor, BLACK, GREY, LIGHT, Scene, Shape};
use super::series::{Series, draw_series};
use super::style::styled;

/// An axis: what it shows, in which unit, and how.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Spread of the numbers.
    pub scale: Scale,
    /// Ends; chosen from the numbers if none.
    pub range: Option<(f64, f64)>,
    /// What stands at some numbers in place of ticks, if anything.
    pub names: Vec<(f64, String)>,
}

impl Axis {
    /// An axis that fits its numbers.
    #[must_use]
    pub fn new(label: &str, scale: Scale) -> Self {
        Self {
            label: label.to_owned(),
            scale,
            range: None,
            names: Vec::new(),
        }
    }

    /// The same with names in place of ticks.
    #[must_use]
    pub fn named(mut self, names: Vec<(f64, String)>) -> Self {
        self.names = names;
        self
    }

    /// The same with fixed ends.
    #[must_use]
    pub fn from_to(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// One chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Heading; may be empty when the picture has only one.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What it shows.
    pub series: Vec<Series>,
}

/// Charts side by side under one title, four and more in rows of two.
#[derive(Debug, Clone)]
pub struct Picture {
    /// What is seen.
    pub title: String,
    /// The charts.
    pub charts: Vec<Chart>,
    /// The conditions.
    pub caption: Vec<String>,
}

const TITLE: f32 = 17.0;
pub(super) const TEXT: f32 = 12.0;
const SMALL: f32 = 10.5;
pub(super) const LINE: f32 = 15.0;
const MARGIN: f32 = 18.0;
const PLOT: (f32, f32) = (560.0, 340.0);
const LEFT: f32 = 78.0;
const BELOW: f32 = 52.0;

/// Puts everything in its place.
pub(super) fn layout(picture: &Picture) -> Scene {
    let columns = match picture.charts.len() {
        // More would be too small to read.
        4.. => 2,
        charts => charts.max(1),
    };
    let plot_width = if picture.charts.len() > 1 {
        PLOT.0 * 0.82
    } else {
        PLOT.0 * 1.35
    };
    let chart_width = LEFT + plot_width + MARGIN;
    let width = MARGIN + columns as f32 * chart_width;
    let legend = picture
        .charts
        .iter()
        .map(|chart| legend_rows(chart, plot_width).len())
        .max()
        .unwrap_or(0) as f32
        * LINE;
    let caption: Vec<String> = picture
        .caption
        .iter()
        .flat_map(|text| wrapped(text, SMALL, width - 2.0 * MARGIN))
        .collect();
    let headings = if picture.charts.iter().any(|chart| !chart.title.is_empty()) {
        LINE + 6.0
    } else {
        0.0
    };
    let top = MARGIN + TITLE + 12.0;
    let row_height = headings + legend + 12.0 + PLOT.1 + BELOW;
    let rows = picture.charts.len().div_ceil(columns).max(1);
    let caption_top = top + rows as f32 * row_height + 8.0;
    let height = caption_top + caption.len() as f32 * LINE + 8.0;
    let mut scene = Scene {
        width,
        height,
        shapes: Vec::new(),
    };
    scene.bold(
        (MARGIN, MARGIN + TITLE * 0.8),
        &picture.title,
        TITLE,
        Anchor::Start,
    );
    for (index, chart) in picture.charts.iter().enumerate() {
        let left = MARGIN + LEFT + (index % columns) as f32 * chart_width;
        let top = top + (index / columns) as f32 * row_height;
        if !chart.title.is_empty() {
            scene.bold((left, top + TEXT), &chart.title, TEXT + 1.0, Anchor::Start);
        }
        draw_legend(&mut scene, chart, (left, top + headings), plot_width);
        draw(
            &mut scene,
            chart,
            Frame {
                left,
                top: top + headings + legend + 12.0,
                width: plot_width,
                height: PLOT.1,
            },
        );
    }
    for (index, text) in caption.iter().enumerate() {
        scene.text(
            (MARGIN, caption_top + SMALL + index as f32 * LINE),
            text,
            SMALL,
            GREY,
            Anchor::Start,
        );
    }
    scene
}

#[derive(Clone, Copy)]
struct Frame {
    left: f32,
    top: f32,
    width: f32,
    height: f32,
}

fn draw(scene: &mut Scene, chart: &Chart, frame: Frame) {
    let Frame {
        left,
        top,
        width,
        height,
    } = frame;
    let (right, bottom) = (left + width, top + height);
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let xs: Vec<f64> = points().map(|point| point.x).collect();
    let ys: Vec<f64> = points()
        .flat_map(|point| [point.low, point.y, point.high])
        .collect();
    let x = Span::around(chart.x.scale, &xs, chart.x.range, (left, right));
    let y = Span::around(chart.y.scale, &ys, chart.y.range, (bottom, top));
    for (tick, label) in ticks(&chart.x, &x) {
        let Some(at) = x.place(tick) else { continue };
        scene.line((at, top), (at, bottom), 1.0, LIGHT);
        scene.text((at, bottom + 17.0), &label, TEXT, BLACK, Anchor::Middle);
    }
    for (tick, label) in ticks(&chart.y, &y) {
        let Some(at) = y.place(tick) else { continue };
        scene.line((left, at), (right, at), 1.0, LIGHT);
        scene.text((left - 7.0, at + 4.0), &label, TEXT, BLACK, Anchor::End);
    }
    let corners = vec![
        (left, top),
        (right, top),
        (right, bottom),
        (left, bottom),
        (left, top),
    ];
    scene.shapes.push(Shape::Line {
        points: corners,
        width: 1.2,
        colour: GREY,
        dash: None,
    });
    scene.text(
        (left + width / 2.0, bottom + 38.0),
        &chart.x.label,
        TEXT,
        BLACK,
        Anchor::Middle,
    );
    scene.upward((left - 62.0, top + height / 2.0), &chart.y.label, TEXT);
    for (style, series) in styled(chart) {
        draw_series(scene, series, style, &x, &y);
    }
}

/// Where something stands beside an axis, and what.
fn ticks(axis: &Axis, span: &Span) -> Vec<(f64, String)> {
    if axis.names.is_empty() {
        span.ticks()
            .into_iter()
            .map(|tick| (tick, label(tick)))
            .collect()
    } else {
        axis.names.clone()
    }
}

/// Breaks `text` into lines that fit.
pub(super) fn wrapped(text: &str, size: f32, width: f32) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        let longer = if line.is_empty() {
            word.to_owned()
        } else {
            format!("{line} {word}")
        };
        if line.is_empty() || font::width(&longer, size, false) <= width {
            *line = longer;
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::series::Point;
    use super::*;

    fn picture() -> Picture {
        let points = vec![
            Point {
                x: 1.0,
                y: 2.0,
                low: 1.5,
                high: 2.5,
            },
            Point::exact(10.0, 4.0),
        ];
        let series = vec![
            Series::measured("ours", points.clone()),
            Series::published("theirs", points),
        ];
        let axis = |label: &str, scale| Axis::new(label, scale);
        let chart = Chart {
            title: String::new(),
            x: axis("x [m]", Scale::Log),
            y: axis("y [s]", Scale::Linear),
            series,
        };
        Picture {
            title: "T".into(),
            charts: vec![chart.clone(), chart.clone(), chart.clone(), chart],
            caption: vec!["word ".repeat(200)],
        }
    }

    #[test]
    fn nothing_lies_outside() {
        let scene = layout(&picture());
        let inside = |(x, y): (f32, f32)| {
            (0.0..=scene.width).contains(&x) && (0.0..=scene.height).contains(&y)
        };
        for shape in &scene.shapes {
            let good = match shape {
                Shape::Line { points, .. } | Shape::Polygon { points, .. } => {
                    points.iter().all(|at| inside(*at))
                }
                Shape::Circle { centre, .. } => inside(*centre),
                Shape::Dots { at, .. } => at.iter().all(|at| inside(*at)),
                Shape::Strokes { lines, .. } => lines.iter().flatten().all(|at| inside(*at)),
                Shape::Text {
                    at,
                    text,
                    size,
                    bold,
                    anchor,
                    upward,
                    ..
                } => {
                    let long = *anchor == Anchor::Start && !upward;
                    inside(*at) && (!long || inside((at.0 + font::width(text, *size, *bold), at.1)))
                }
            };
            assert!(good, "{shape:?} in {} × {}", scene.width, scene.height);
        }
    }

    #[test]
    fn a_gap_interrupts_a_line_and_points_apart_have_none() {
        let at = |x| Point::exact(x, 1.0);
        let line = vec![at(1.0), at(2.0), Point::gap(3.0), at(4.0), at(5.0)];
        let mut picture = picture();
        picture.charts.truncate(1);
        let is_line = |shape: &&Shape| matches!(shape, Shape::Line { width: 2.0, .. });
        let lines = |picture: &Picture| layout(picture).shapes.iter().filter(is_line).count();
        picture.charts[0].series = vec![Series::measured("ours", line)];
        assert_eq!(lines(&picture), 3, "two pieces and the legend's");
        let apart = Series::apart("late", vec![at(3.0), at(3.5)]);
        picture.charts[0].series.push(apart);
        assert_eq!(lines(&picture), 3);
    }

    #[test]
    fn both_files_are_written_without_any_font_of_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let [svg, png] = super::super::write(&picture(), directory.path(), "p").unwrap();
        assert!(std::fs::read_to_string(svg).unwrap().contains("theirs"));
        assert_eq!(&std::fs::read(png).unwrap()[1..4], b"PNG");
    }
}
