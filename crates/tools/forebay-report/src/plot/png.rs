//! A scene as PNG, at twice its size so that small letters stay readable.

use anyhow::{Context, Result};
use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

use super::font;
use super::scene::{Anchor, Colour, Scene, Shape};

const ZOOM: f32 = 2.0;
const OUTLINE: f32 = 1.6;

/// The whole file.
pub(super) fn render(scene: &Scene) -> Result<Vec<u8>> {
    let pixels = |length: f32| (length * ZOOM).ceil() as u32;
    let mut map = Pixmap::new(pixels(scene.width), pixels(scene.height))
        .context("the picture has no size")?;
    map.fill(Color::WHITE);
    let mut canvas = Canvas { map };
    for shape in &scene.shapes {
        canvas.draw(shape);
    }
    canvas.map.encode_png().context("encoding the picture")
}

struct Canvas {
    map: Pixmap,
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Line {
                points,
                width,
                colour,
                dash,
            } => {
                if let Some(path) = polyline(points, false) {
                    self.stroke(&path, *width, *colour, *dash);
                }
            }
            Shape::Polygon {
                points,
                fill,
                stroke,
            } => self.area(polyline(points, true), *fill, *stroke),
            Shape::Circle {
                centre,
                radius,
                fill,
                stroke,
            } => {
                self.area(
                    PathBuilder::from_circle(centre.0, centre.1, *radius),
                    *fill,
                    *stroke,
                );
            }
            Shape::Dots { at, radius, colour } => {
                let mut builder = PathBuilder::new();
                for (x, y) in at {
                    builder.push_circle(*x, *y, *radius);
                }
                self.area(builder.finish(), *colour, None);
            }
            Shape::Strokes {
                lines,
                width,
                colour,
            } => {
                let mut builder = PathBuilder::new();
                for [from, to] in lines {
                    builder.move_to(from.0, from.1);
                    builder.line_to(to.0, to.1);
                }
                if let Some(path) = builder.finish() {
                    self.stroke(&path, *width, *colour, None);
                }
            }
            Shape::Text {
                at,
                text,
                size,
                bold,
                colour,
                anchor,
                upward,
            } => {
                let width = font::width(text, *size, *bold);
                let back = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => width / 2.0,
                    Anchor::End => width,
                };
                let place = Transform::from_translate(at.0, at.1);
                let place = if *upward {
                    place.pre_concat(Transform::from_rotate(-90.0))
                } else {
                    place
                };
                let place = place.pre_translate(-back, 0.0).post_scale(ZOOM, ZOOM);
                for path in font::outlines(text, *size, *bold) {
                    self.map
                        .fill_path(&path, &paint(*colour), FillRule::Winding, place, None);
                }
            }
        }
    }

    fn area(&mut self, path: Option<Path>, fill: Colour, stroke: Option<Colour>) {
        let Some(path) = path else { return };
        self.map.fill_path(
            &path,
            &paint(fill),
            FillRule::Winding,
            Transform::from_scale(ZOOM, ZOOM),
            None,
        );
        if let Some(colour) = stroke {
            self.stroke(&path, OUTLINE, colour, None);
        }
    }

    fn stroke(&mut self, path: &Path, width: f32, colour: Colour, dash: Option<[f32; 2]>) {
        let dash = dash.and_then(|[on, off]| StrokeDash::new(vec![on, off], 0.0));
        let stroke = Stroke {
            width,
            dash,
            ..Stroke::default()
        };
        self.map.stroke_path(
            path,
            &paint(colour),
            &stroke,
            Transform::from_scale(ZOOM, ZOOM),
            None,
        );
    }
}

fn polyline(points: &[(f32, f32)], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (index, (x, y)) in points.iter().enumerate() {
        if index == 0 {
            builder.move_to(*x, *y)
        } else {
            builder.line_to(*x, *y)
        }
    }
    if closed {
        builder.close();
    }
    builder.finish()
}

fn paint([red, green, blue]: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, 255);
    paint.anti_alias = true;
    paint
}
