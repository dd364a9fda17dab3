//! The letters of PNG pictures: outlines of a font that is part of this crate, so that a host without fonts can draw.

use tiny_skia::{Path, PathBuilder, Transform};
use ttf_parser::{Face, OutlineBuilder};

static REGULAR: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");
static BOLD: &[u8] = include_bytes!("../../assets/DejaVuSans-Bold-subset.ttf");

fn face(bold: bool) -> Option<Face<'static>> {
    Face::parse(if bold { BOLD } else { REGULAR }, 0).ok()
}

/// Width of `text` in pixels at `size` pixels per em.
pub(super) fn width(text: &str, size: f32, bold: bool) -> f32 {
    let Some(face) = face(bold) else { return 0.0 };
    let units: u32 = text
        .chars()
        .map(|letter| u32::from(advance(&face, letter)))
        .sum();
    units as f32 * size / f32::from(face.units_per_em())
}

/// Outlines of `text`, its baseline from the origin to the right.
pub(super) fn outlines(text: &str, size: f32, bold: bool) -> Vec<Path> {
    let Some(face) = face(bold) else {
        return Vec::new();
    };
    let scale = size / f32::from(face.units_per_em());
    let mut x = 0.0;
    let mut paths = Vec::new();
    for letter in text.chars() {
        let mut pen = Pen(PathBuilder::new());
        if let Some(glyph) = face.glyph_index(letter)
            && face.outline_glyph(glyph, &mut pen).is_some()
            && let Some(path) = pen.0.finish().and_then(|path| {
                path.transform(Transform::from_row(scale, 0.0, 0.0, -scale, x, 0.0))
            })
        {
            paths.push(path);
        }
        x += f32::from(advance(&face, letter)) * scale;
    }
    paths
}

fn advance(face: &Face<'_>, letter: char) -> u16 {
    face.glyph_index(letter)
        .and_then(|glyph| face.glyph_hor_advance(glyph))
        .unwrap_or_else(|| face.units_per_em() / 2)
}

struct Pen(PathBuilder);

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_that_the_figures_use_is_there() {
        for bold in [false, true] {
            let face = face(bold).unwrap();
            for letter in "Aa0%/×≥≤→≈−–—…µ·äö".chars() {
                assert!(face.glyph_index(letter).is_some(), "{letter}");
            }
        }
    }

    #[test]
    fn width_grows_with_the_text_and_its_size() {
        assert!(width("ab", 10.0, false) > width("a", 10.0, false));
        assert!((width("ab", 20.0, false) - 2.0 * width("ab", 10.0, false)).abs() < 1e-3);
    }
}
