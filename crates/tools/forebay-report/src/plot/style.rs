//! Colours and marks of series, which tell them apart.

use super::chart::Chart;
use super::scene::{Colour, GREY, Shape, WHITE};
use super::series::Series;

/// Okabe and Ito's colours, which the colour-blind can tell apart.
const COLOURS: [Colour; 7] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x40, 0x40, 0x40],
];

/// How one series is drawn.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) colour: Colour,
    number: usize,
    reference: bool,
    hollow: bool,
}

impl Style {
    pub(super) fn dash(self) -> Option<[f32; 2]> {
        self.reference.then_some([6.0, 4.0])
    }

    /// Its colour on a surface that lies behind others.
    pub(super) fn pale(self) -> Colour {
        self.colour
            .map(|part| (u16::from(part) / 3 + 170).min(255) as u8)
    }

    pub(super) fn marker(self, (x, y): (f32, f32)) -> Shape {
        let fill = if self.hollow { WHITE } else { self.colour };
        let stroke = Some(self.colour);
        let at = |dx: f32, dy: f32| (x + dx, y + dy);
        match self.number % 4 {
            0 => Shape::Circle {
                centre: (x, y),
                radius: 4.0,
                fill,
                stroke,
            },
            1 => Shape::Polygon {
                points: vec![at(-3.7, -3.7), at(3.7, -3.7), at(3.7, 3.7), at(-3.7, 3.7)],
                fill,
                stroke,
            },
            2 => Shape::Polygon {
                points: vec![at(0.0, -5.0), at(4.6, 3.6), at(-4.6, 3.6)],
                fill,
                stroke,
            },
            _ => Shape::Polygon {
                points: vec![at(0.0, -5.2), at(5.2, 0.0), at(0.0, 5.2), at(-5.2, 0.0)],
                fill,
                stroke,
            },
        }
    }
}

pub(super) fn styled(chart: &Chart) -> impl Iterator<Item = (Style, &Series)> {
    let mut measured = 0_usize;
    let mut published = 0_usize;
    chart.series.iter().map(move |series| {
        let counter = if series.reference {
            &mut published
        } else {
            &mut measured
        };
        let number = if series.joined {
            *counter += 1;
            *counter - 1
        } else {
            counter.saturating_sub(1)
        };
        let colour = if series.reference {
            GREY
        } else {
            COLOURS[number % COLOURS.len()]
        };
        (
            Style {
                colour,
                number,
                reference: series.reference,
                hollow: series.reference || !series.joined,
            },
            series,
        )
    })
}
