//! Flame graphs: which function called which, and how much of the time lay there. Each box is a function, as wide as its share; below it lies its caller.

use std::collections::BTreeMap;

use super::font;
use super::scene::{Anchor, BLACK, Colour, GREY, Scene, Shape, WHITE};

/// Stacks with their weights, and what is said around them.
#[derive(Debug, Clone, Default)]
pub struct Flame {
    /// What is seen.
    pub title: String,
    /// From the first caller to the function at work, and how often that was found.
    pub stacks: Vec<(Vec<String>, u64)>,
    /// The conditions.
    pub caption: Vec<String>,
}

const WIDTH: f32 = 1200.0;
const MARGIN: f32 = 18.0;
const ROW: f32 = 17.0;
const TITLE: f32 = 17.0;
const TEXT: f32 = 10.5;
const LINE: f32 = 15.0;
/// Boxes narrower than this are left out, in pixels.
const NARROW: f32 = 0.4;
/// Most rows that are drawn.
const DEPTH: usize = 60;
/// Warm colours, chosen by name, so that a function has the same one everywhere.
const COLOURS: [Colour; 6] = [
    [0xf4, 0xa5, 0x82],
    [0xfd, 0xbf, 0x6f],
    [0xfc, 0xd5, 0x9a],
    [0xf7, 0xb6, 0x9c],
    [0xf9, 0xc7, 0x4f],
    [0xe9, 0x9c, 0x6a],
];

#[derive(Default)]
struct Frame<'a> {
    weight: u64,
    above: BTreeMap<&'a str, Frame<'a>>,
}

impl<'a> Frame<'a> {
    fn add(&mut self, stack: &'a [String], weight: u64) {
        self.weight += weight;
        if let Some((first, rest)) = stack.split_first() {
            self.above.entry(first).or_default().add(rest, weight);
        }
    }

    fn depth(&self) -> usize {
        let deepest = self.above.values().map(|frame| 1 + frame.depth());
        deepest.max().unwrap_or(0)
    }

    /// Draws what lies above this frame, which begins at `left` and ends at `bottom`.
    fn draw(&self, scene: &mut Scene, mut left: f32, bottom: f32, per_weight: f32, rows: usize) {
        for (name, frame) in &self.above {
            let width = frame.weight as f32 * per_weight;
            if width >= NARROW && rows > 0 {
                draw_box(scene, name, (left, bottom - ROW), width);
                frame.draw(scene, left, bottom - ROW, per_weight, rows - 1);
            }
            left += width;
        }
    }
}

fn draw_box(scene: &mut Scene, name: &str, (left, top): (f32, f32), width: f32) {
    let (right, bottom) = (left + width, top + ROW);
    let sum: usize = name.bytes().map(usize::from).sum();
    scene.shapes.push(Shape::Polygon {
        points: vec![(left, top), (right, top), (right, bottom), (left, bottom)],
        fill: COLOURS[sum % COLOURS.len()],
        stroke: Some(WHITE),
    });
    let room = width - 6.0;
    let mut text = name.to_owned();
    while !text.is_empty() && font::width(&text, TEXT, false) > room {
        text.pop();
    }
    if text.len() >= name.len().min(4) {
        scene.text(
            (left + 3.0, bottom - 4.5),
            &text,
            TEXT,
            BLACK,
            Anchor::Start,
        );
    }
}

pub(super) fn layout(flame: &Flame) -> Scene {
    let mut root = Frame::default();
    for (stack, weight) in &flame.stacks {
        root.add(stack, *weight);
    }
    let caption = flame.caption.iter();
    let caption: Vec<String> = caption
        .flat_map(|text| super::chart::wrapped(text, TEXT, WIDTH - 2.0 * MARGIN))
        .collect();
    let rows = root.depth().min(DEPTH);
    let top = MARGIN + TITLE + 12.0;
    let bottom = top + rows.max(1) as f32 * ROW;
    let mut scene = Scene {
        width: WIDTH,
        height: bottom + (caption.len() as f32 + 1.5) * LINE,
        shapes: Vec::new(),
    };
    let at = (MARGIN, MARGIN + TITLE * 0.8);
    scene.bold(at, &flame.title, TITLE, Anchor::Start);
    if root.weight > 0 {
        let per_weight = (WIDTH - 2.0 * MARGIN) / root.weight as f32;
        root.draw(&mut scene, MARGIN, bottom, per_weight, rows);
    }
    for (index, text) in caption.iter().enumerate() {
        let at = (MARGIN, bottom + (index as f32 + 1.5) * LINE);
        scene.text(at, text, TEXT, GREY, Anchor::Start);
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_its_share_and_lies_on_its_caller() {
        let stack = |names: &[&str], weight| {
            let names = names.iter().map(|name| (*name).to_owned());
            (names.collect(), weight)
        };
        let scene = layout(&Flame {
            stacks: vec![
                stack(&["main", "read"], 3),
                stack(&["main", "write", "copy"], 1),
            ],
            ..Flame::default()
        });
        let boxes = scene.shapes.iter().filter_map(|shape| match shape {
            Shape::Polygon { points, .. } => Some((points[0], points[1].0 - points[0].0)),
            _ => None,
        });
        let boxes: Vec<((f32, f32), f32)> = boxes.collect();
        let all = WIDTH - 2.0 * MARGIN;
        // main, read, write, copy.
        let widths: Vec<f32> = boxes.iter().map(|(_, width)| width / all).collect();
        for (width, share) in widths.iter().zip([1.0, 0.75, 0.25, 0.25]) {
            assert!((width - share).abs() < 1e-4, "{widths:?}");
        }
        let tops: Vec<f32> = boxes.iter().map(|((_, top), _)| *top).collect();
        assert!(tops[0] > tops[1] && (tops[1] - tops[2]).abs() < 1e-4 && tops[2] > tops[3]);
        assert!((boxes[2].0.0 - boxes[1].0.0 - 0.75 * all).abs() < 0.1);
        assert!(layout(&Flame::default()).height > 0.0);
    }
}
