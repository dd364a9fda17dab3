//! Points and what is drawn for them.

use super::axis::Span;
use super::scene::{Colour, Scene, Shape};
use super::style::Style;

/// A point: the median, and the smallest and largest of the runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The median.
    pub y: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Point {
    /// A point without a spread.
    #[must_use]
    pub fn exact(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            low: y,
            high: y,
        }
    }

    /// Nothing there: the line is interrupted.
    #[must_use]
    pub fn gap(x: f64) -> Self {
        Self::exact(x, f64::NAN)
    }
}

/// One line of points.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The points, in order.
    pub points: Vec<Point>,
    /// Published by others: drawn grey and hollow.
    pub reference: bool,
    /// A line joins the points. Where none does they are drawn hollow, in the colour of the series before.
    pub joined: bool,
    /// What is drawn for each point.
    pub form: Form,
}

/// What is drawn for a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A mark, and a bar from the smallest to the largest.
    Mark,
    /// A pale stroke from the smallest to the largest, and a line from point to point without marks: for many points.
    Range,
    /// A stroke from the smallest to the largest, and nothing else.
    Stroke,
    /// A dot, and nothing else.
    Dot,
}

impl Series {
    /// Points that were measured here.
    #[must_use]
    pub fn measured(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self {
            name: name.into(),
            points,
            reference: false,
            joined: true,
            form: Form::Mark,
        }
    }

    /// Many points that were measured here, as `form`.
    #[must_use]
    pub fn many(name: impl Into<String>, form: Form, points: Vec<Point>) -> Self {
        Self {
            form,
            ..Self::measured(name, points)
        }
    }

    /// Points that were measured here and say something else than those of the series before, to which they belong: no line joins them.
    #[must_use]
    pub fn apart(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self {
            joined: false,
            ..Self::measured(name, points)
        }
    }

    /// Points that others published.
    #[must_use]
    pub fn published(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self {
            name: name.into(),
            points,
            reference: true,
            joined: true,
            form: Form::Mark,
        }
    }
}

pub(super) fn draw_series(scene: &mut Scene, series: &Series, style: Style, x: &Span, y: &Span) {
    match series.form {
        Form::Mark => {}
        Form::Range => return draw_range(scene, series, style, x, y),
        Form::Stroke => return draw_strokes(scene, series, (2.0, style.colour), x, y),
        Form::Dot => {
            let place = |point: &Point| Some((x.place(point.x)?, y.place(point.y)?));
            scene.shapes.push(Shape::Dots {
                at: series.points.iter().filter_map(place).collect(),
                radius: 1.4,
                colour: style.colour,
            });
            return;
        }
    }
    let place = |point: &Point| Some((x.place(point.x)?, y.place(point.y)?));
    let pieces = series.points.split(|point| point.y.is_nan());
    let pieces = pieces.map(|piece| -> Vec<_> { piece.iter().filter_map(place).collect() });
    let pieces: Vec<Vec<(f32, f32)>> = pieces.collect();
    for piece in pieces
        .iter()
        .filter(|piece| series.joined && piece.len() > 1)
    {
        scene.shapes.push(Shape::Line {
            points: piece.clone(),
            width: 2.0,
            colour: style.colour,
            dash: style.dash(),
        });
    }
    for point in series.points.iter().filter(|point| point.high > point.low) {
        if let (Some(at), Some(low), Some(high)) = (
            x.place(point.x),
            y.place(point.low.max(y.low)),
            y.place(point.high.min(y.high)),
        ) {
            scene.line((at, low), (at, high), 1.3, style.colour);
            for end in [low, high] {
                scene.line((at - 4.0, end), (at + 4.0, end), 1.3, style.colour);
            }
        }
    }
    for at in pieces.into_iter().flatten() {
        scene.shapes.push(style.marker(at));
    }
}

fn draw_range(scene: &mut Scene, series: &Series, style: Style, x: &Span, y: &Span) {
    draw_strokes(scene, series, (1.2, style.pale()), x, y);
    let place = |point: &Point| Some((x.place(point.x)?, y.place(point.y)?));
    for piece in series.points.split(|point| point.y.is_nan()) {
        let points: Vec<_> = piece.iter().filter_map(place).collect();
        if points.len() > 1 {
            scene.shapes.push(Shape::Line {
                points,
                width: 1.4,
                colour: style.colour,
                dash: None,
            });
        } else {
            scene.shapes.push(Shape::Dots {
                at: points,
                radius: 1.4,
                colour: style.colour,
            });
        }
    }
}

/// A stroke for each point; one that has no length is as long as it is wide.
fn draw_strokes(
    scene: &mut Scene,
    series: &Series,
    (width, colour): (f32, Colour),
    x: &Span,
    y: &Span,
) {
    let line = |point: &Point| {
        let at = x.place(point.x).filter(|_| !point.y.is_nan())?;
        let low = y.place(point.low.max(y.low))?;
        let high = y.place(point.high.min(y.high))?;
        let high = if low - high < width {
            low - width
        } else {
            high
        };
        Some([(at, low), (at, high)])
    };
    scene.shapes.push(Shape::Strokes {
        lines: series.points.iter().filter_map(line).collect(),
        width,
        colour,
    });
}

#[cfg(test)]
mod tests {
    use super::super::axis::Scale;
    use super::super::chart::{Axis, Chart, Picture, layout};
    use super::*;

    fn shapes(form: Form) -> Vec<Shape> {
        let point = |x: f64| Point {
            x,
            y: 2.0,
            low: 1.0,
            high: 3.0,
        };
        let points = vec![point(1.0), point(2.0), Point::gap(3.0), point(4.0)];
        let chart = Chart {
            title: String::new(),
            x: Axis::new("x", Scale::Linear).named(vec![(2.0, "two".into())]),
            y: Axis::new("y", Scale::Linear),
            series: (0..40)
                .map(|number| Series::many(format!("s{number}"), form, points.clone()))
                .collect(),
        };
        let picture = Picture {
            title: String::new(),
            charts: vec![chart],
            caption: Vec::new(),
        };
        layout(&picture).shapes
    }

    #[test]
    fn dots_are_all_there_and_no_line_joins_them() {
        let shapes = shapes(Form::Dot);
        let dots = shapes.iter().filter_map(|shape| match shape {
            Shape::Dots { at, .. } => Some(at.len()),
            _ => None,
        });
        // In the legend there is one of each that is named.
        assert_eq!(dots.filter(|count| *count == 3).count(), 40);
        let is_line = |shape: &&Shape| matches!(shape, Shape::Line { dash: None, width, .. } if *width == 2.0 || *width == 1.4);
        assert_eq!(shapes.iter().filter(is_line).count(), 0);
    }

    #[test]
    fn a_range_has_its_strokes_and_a_line_with_a_gap() {
        let shapes = shapes(Form::Range);
        let of = |is: fn(&Shape) -> bool| shapes.iter().filter(|shape| is(shape)).count();
        assert_eq!(
            of(|shape| matches!(shape, Shape::Strokes { lines, .. } if lines.len() == 3)),
            40
        );
        assert_eq!(
            of(
                |shape| matches!(shape, Shape::Line { points, width, .. } if *width == 1.4 && points.len() == 2)
            ),
            40
        );
    }

    #[test]
    fn a_legend_names_some_of_many_and_says_how_many_more() {
        let texts: Vec<String> = shapes(Form::Stroke)
            .into_iter()
            .filter_map(|shape| match shape {
                Shape::Text { text, .. } => Some(text),
                _ => None,
            })
            .collect();
        assert!(texts.contains(&"s13".to_owned()) && !texts.contains(&"s14".to_owned()));
        assert!(texts.contains(&"… and 26 more".to_owned()), "{texts:?}");
        assert!(texts.contains(&"two".to_owned()));
    }
}
