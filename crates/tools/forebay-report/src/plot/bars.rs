//! Bars: a row for each thing, its parts side by side, with their numbers.

use super::chart::wrapped;
use super::font;
use super::scene::{Anchor, BLACK, Colour, GREY, LIGHT, Scene, Shape};

/// Bars in groups, and what is said around them.
#[derive(Debug, Clone, Default)]
pub struct Bars {
    /// What is seen.
    pub title: String,
    /// What the parts of each bar are, in order; at most four.
    pub parts: Vec<&'static str>,
    /// The groups.
    pub groups: Vec<Group>,
    /// The conditions.
    pub caption: Vec<String>,
}

/// Bars that are as long as their numbers say, all on one scale.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// What is counted.
    pub title: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, Default)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// How long each part is, 0 and more.
    pub parts: Vec<f64>,
    /// Published by others: framed.
    pub reference: bool,
}

const WIDTH: f32 = 1000.0;
const MARGIN: f32 = 18.0;
const NAMES: f32 = 210.0;
const NUMBERS: f32 = 60.0;
const ROW: f32 = 21.0;
const TITLE: f32 = 17.0;
const TEXT: f32 = 12.0;
const SMALL: f32 = 10.5;
const LINE: f32 = 15.0;
/// Colours that people who see fewer of them tell apart too (Okabe and Ito).
const COLOURS: [Colour; 4] = [
    [0x00, 0x72, 0xb2],
    [0x00, 0x9e, 0x73],
    [0xd5, 0x5e, 0x00],
    [0x99, 0x99, 0x99],
];

pub(super) fn layout(bars: &Bars) -> Scene {
    let caption = bars.caption.iter();
    let caption: Vec<String> = caption
        .flat_map(|text| wrapped(text, SMALL, WIDTH - 2.0 * MARGIN))
        .collect();
    let mut scene = Scene {
        width: WIDTH,
        height: 0.0,
        shapes: Vec::new(),
    };
    let mut top = MARGIN + TITLE * 0.8;
    scene.bold((MARGIN, top), &bars.title, TITLE, Anchor::Start);
    top += 16.0;
    legend(&mut scene, &bars.parts, top);
    top += LINE + 12.0;
    for group in &bars.groups {
        top = draw(&mut scene, group, top);
    }
    for text in &caption {
        scene.text((MARGIN, top + SMALL), text, SMALL, GREY, Anchor::Start);
        top += LINE;
    }
    scene.height = top + 8.0;
    scene
}

fn legend(scene: &mut Scene, parts: &[&str], top: f32) {
    let mut left = MARGIN + NAMES;
    for (part, colour) in parts.iter().zip(COLOURS) {
        scene
            .shapes
            .push(block((left, top), (12.0, 12.0), colour, None));
        scene.text((left + 17.0, top + 10.5), part, TEXT, BLACK, Anchor::Start);
        left += 17.0 + font::width(part, TEXT, false) + 22.0;
    }
}

fn block(
    (x, y): (f32, f32),
    (width, height): (f32, f32),
    fill: Colour,
    stroke: Option<Colour>,
) -> Shape {
    Shape::Polygon {
        points: vec![
            (x, y),
            (x + width, y),
            (x + width, y + height),
            (x, y + height),
        ],
        fill,
        stroke,
    }
}

/// A group whose heading begins at `top`: where the next one does.
fn draw(scene: &mut Scene, group: &Group, mut top: f32) -> f32 {
    let length = |bar: &Bar| bar.parts.iter().sum::<f64>();
    let longest = group.bars.iter().map(length).fold(1e-9, f64::max);
    let scale = f64::from(WIDTH - 2.0 * MARGIN - NAMES - NUMBERS) / longest;
    scene.bold(
        (MARGIN, top + TEXT),
        &group.title,
        TEXT + 1.0,
        Anchor::Start,
    );
    top += ROW + 3.0;
    for bar in &group.bars {
        let mut left = MARGIN + NAMES;
        let name = (left - 8.0, top + 12.5);
        scene.text(name, &bar.name, TEXT, BLACK, Anchor::End);
        let begin = left;
        for (value, colour) in bar.parts.iter().zip(COLOURS) {
            let width = (value * scale) as f32;
            let fill = if bar.reference { LIGHT } else { colour };
            let stroke = bar.reference.then_some(colour);
            if width > 0.0 {
                scene
                    .shapes
                    .push(block((left, top), (width, ROW - 5.0), fill, stroke));
            }
            let told = told(*value);
            if font::width(&told, SMALL, false) + 4.0 < width {
                let ink = if bar.reference { BLACK } else { [0xff; 3] };
                let middle = (left + width / 2.0, top + 12.0);
                scene.text(middle, &told, SMALL, ink, Anchor::Middle);
            }
            left += width;
        }
        let all = told(length(bar));
        scene.text(
            (left.max(begin) + 6.0, top + 12.5),
            &all,
            TEXT,
            GREY,
            Anchor::Start,
        );
        top += ROW;
    }
    top + 14.0
}

fn told(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> Bars {
        let bar = |parts: [f64; 2], reference| Bar {
            name: "a bar with a long name".into(),
            parts: parts.to_vec(),
            reference,
        };
        Bars {
            title: "T".into(),
            parts: vec!["one", "other"],
            groups: vec![
                Group {
                    title: "first".into(),
                    bars: vec![bar([30.0, 10.0], false), bar([0.0, 0.0], true)],
                },
                Group {
                    title: "second".into(),
                    bars: vec![bar([1.5, 2.0], true)],
                },
                Group::default(),
            ],
            caption: vec!["word ".repeat(200)],
        }
    }

    #[test]
    fn parts_are_as_long_as_their_numbers_and_nothing_lies_outside() {
        let scene = layout(&bars());
        let widths: Vec<f32> = scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Polygon { points, .. } => {
                    for (x, y) in points {
                        assert!(
                            (0.0..=scene.width).contains(x) && (0.0..=scene.height).contains(y)
                        );
                    }
                    Some(points[1].0 - points[0].0)
                }
                Shape::Text { at, .. } => {
                    assert!((0.0..=scene.height).contains(&at.1));
                    None
                }
                _ => None,
            })
            .collect();
        assert_eq!(widths.len(), 2 + 2 + 2, "legend, and parts that are not 0");
        assert!((widths[2] / widths[3] - 3.0).abs() < 1e-3);
        assert!((widths[2] + widths[3] - (widths[4] + widths[5])).abs() < 0.01);
    }
}
