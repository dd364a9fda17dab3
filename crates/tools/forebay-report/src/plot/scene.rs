//! What a picture is made of, in pixels from the upper left corner.

/// A colour, red green blue.
pub(super) type Colour = [u8; 3];

pub(super) const BLACK: Colour = [0x20, 0x20, 0x20];
pub(super) const GREY: Colour = [0x70, 0x70, 0x70];
pub(super) const LIGHT: Colour = [0xe2, 0xe2, 0xe2];
pub(super) const WHITE: Colour = [0xff, 0xff, 0xff];

/// Where a text's reference point lies on its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// One piece of a picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Line {
        points: Vec<(f32, f32)>,
        width: f32,
        colour: Colour,
        dash: Option<[f32; 2]>,
    },
    Polygon {
        points: Vec<(f32, f32)>,
        fill: Colour,
        stroke: Option<Colour>,
    },
    Circle {
        centre: (f32, f32),
        radius: f32,
        fill: Colour,
        stroke: Option<Colour>,
    },
    /// Many dots of one kind.
    Dots {
        at: Vec<(f32, f32)>,
        radius: f32,
        colour: Colour,
    },
    /// Many straight lines of one kind.
    Strokes {
        lines: Vec<[(f32, f32); 2]>,
        width: f32,
        colour: Colour,
    },
    Text {
        at: (f32, f32),
        text: String,
        size: f32,
        bold: bool,
        colour: Colour,
        anchor: Anchor,
        upward: bool,
    },
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) width: f32,
    pub(super) height: f32,
    pub(super) shapes: Vec<Shape>,
}

impl Scene {
    pub(super) fn line(&mut self, from: (f32, f32), to: (f32, f32), width: f32, colour: Colour) {
        self.shapes.push(Shape::Line {
            points: vec![from, to],
            width,
            colour,
            dash: None,
        });
    }

    pub(super) fn text(
        &mut self,
        at: (f32, f32),
        text: &str,
        size: f32,
        colour: Colour,
        anchor: Anchor,
    ) {
        self.shapes.push(Shape::Text {
            at,
            text: text.to_owned(),
            size,
            bold: false,
            colour,
            anchor,
            upward: false,
        });
    }

    pub(super) fn bold(&mut self, at: (f32, f32), text: &str, size: f32, anchor: Anchor) {
        self.shapes.push(Shape::Text {
            at,
            text: text.to_owned(),
            size,
            bold: true,
            colour: BLACK,
            anchor,
            upward: false,
        });
    }

    pub(super) fn upward(&mut self, at: (f32, f32), text: &str, size: f32) {
        let anchor = Anchor::Middle;
        self.shapes.push(Shape::Text {
            at,
            text: text.to_owned(),
            size,
            bold: false,
            colour: BLACK,
            anchor,
            upward: true,
        });
    }
}
