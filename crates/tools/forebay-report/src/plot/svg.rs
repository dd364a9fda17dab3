//! A scene as SVG; text stays text, in whatever sans-serif font the reader has.

use std::fmt::Write;

use super::scene::{Anchor, Colour, Scene, Shape};

/// The whole file.
pub(super) fn render(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"DejaVu Sans, Verdana, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for shape in &scene.shapes {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", element(shape));
    }
    out.push_str("</svg>\n");
    out
}

fn element(shape: &Shape) -> String {
    match shape {
        Shape::Line {
            points,
            width,
            colour,
            dash,
        } => {
            let dash = dash.map_or_else(String::new, |[on, off]| {
                format!(" stroke-dasharray=\"{on} {off}\"")
            });
            let points = coordinates(points);
            format!(
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{dash}/>",
                hex(*colour)
            )
        }
        Shape::Polygon {
            points,
            fill,
            stroke,
        } => {
            format!(
                "<polygon points=\"{}\" fill=\"{}\"{}/>",
                coordinates(points),
                hex(*fill),
                outline(*stroke)
            )
        }
        Shape::Circle {
            centre: (x, y),
            radius,
            fill,
            stroke,
        } => {
            format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"{}/>",
                hex(*fill),
                outline(*stroke)
            )
        }
        // A line of no length with round ends is a dot, in few letters.
        Shape::Dots { at, radius, colour } => {
            let dots: String = at
                .iter()
                .map(|(x, y)| format!("M{x:.1} {y:.1}h0"))
                .collect();
            format!(
                "<path d=\"{dots}\" stroke=\"{}\" stroke-width=\"{}\" stroke-linecap=\"round\"/>",
                hex(*colour),
                radius * 2.0
            )
        }
        Shape::Strokes {
            lines,
            width,
            colour,
        } => {
            let line = |[from, to]: &[(f32, f32); 2]| {
                format!("M{:.1} {:.1}L{:.1} {:.1}", from.0, from.1, to.0, to.1)
            };
            let lines: String = lines.iter().map(line).collect();
            format!(
                "<path d=\"{lines}\" stroke=\"{}\" stroke-width=\"{width}\"/>",
                hex(*colour)
            )
        }
        Shape::Text {
            at: (x, y),
            text,
            size,
            bold,
            colour,
            anchor,
            upward,
        } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let weight = if *bold { " font-weight=\"bold\"" } else { "" };
            let turn = if *upward {
                format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
            } else {
                String::new()
            };
            let (colour, text) = (hex(*colour), escaped(text));
            format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"{anchor}\"{weight}{turn}>{text}</text>"
            )
        }
    }
}

fn outline(stroke: Option<Colour>) -> String {
    stroke.map_or_else(String::new, |colour| {
        format!(" stroke=\"{}\" stroke-width=\"1.6\"", hex(colour))
    })
}

fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn coordinates(points: &[(f32, f32)]) -> String {
    points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::scene::BLACK;
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut scene = Scene {
            width: 10.0,
            height: 10.0,
            shapes: Vec::new(),
        };
        scene.text((1.0, 2.0), "a < b & c", 9.0, BLACK, Anchor::End);
        let out = render(&scene);
        assert!(
            out.contains(">a &lt; b &amp; c</text>") && out.ends_with("</svg>\n"),
            "{out}"
        );
    }
}
