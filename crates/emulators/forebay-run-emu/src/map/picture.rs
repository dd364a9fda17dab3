//! The map as a picture: E-links on the left, DMA buffers on the right, and how full each is.

use std::fmt::Write;

use super::{ElinkMap, ElinkRow};

const ROW: usize = 16;
const LEFT: usize = 250;
const RIGHT: usize = 520;
const WIDTH: usize = 760;
const TOP: usize = 60;
/// Colours of the buffers, told apart by who sees no colours by the numbers beside them.
const COLOURS: [&str; 8] = [
    "#1b6ca8", "#c2571a", "#2e7d32", "#8e3b8e", "#8a6d00", "#00798c", "#a61e4d", "#495057",
];

fn text_of(row: &ElinkRow) -> String {
    let what = match (row.kind, row.width_bits) {
        ("full", _) => format!("link {}", row.link),
        ("gbt", Some(bits)) => format!("GBT {}, {bits} bits", row.link),
        _ => "triggers".to_owned(),
    };
    let full = row
        .utilisation
        .map_or_else(String::new, |part| format!(", {:.0} %", 100.0 * part));
    format!("{:#05x}  {what}{full}", row.elink)
}

/// An SVG document.
#[must_use]
pub fn svg(map: &ElinkMap, title: &str) -> String {
    let rows = map.elinks.len().max(4 * map.buffers.len());
    let height = TOP + (rows + 2) * ROW;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"15\">{}</text>\n\
         <text x=\"16\" y=\"44\">{} E-links, {:.0} Hz asked for, chunks of {:.0} bytes; in per cent: how full each is</text>\n",
        escaped(title),
        map.elinks.len(),
        map.trigger_rate_hz,
        map.chunk_bytes_mean,
    );
    let buffer_y = |buffer: usize| {
        let step = rows * ROW / map.buffers.len().max(1);
        TOP + buffer * step + step / 2
    };
    // Writing to a text cannot fail.
    for (at, row) in map.elinks.iter().enumerate() {
        let y = TOP + at * ROW + ROW / 2;
        let colour = COLOURS[row.dma_buffer % COLOURS.len()];
        let weight = if row.utilisation.is_some_and(|part| part > 1.0) {
            "bold"
        } else {
            "normal"
        };
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" font-weight=\"{weight}\">{}</text>",
            LEFT - 8,
            y + 4,
            escaped(&text_of(row))
        );
        let to = buffer_y(row.dma_buffer);
        let _ = writeln!(
            text,
            "<path d=\"M{LEFT} {y} C{} {y} {} {to} {RIGHT} {to}\" fill=\"none\" stroke=\"{colour}\"/>",
            LEFT + 120,
            RIGHT - 120,
        );
    }
    for row in &map.buffers {
        let y = buffer_y(row.dma_buffer);
        let colour = COLOURS[row.dma_buffer % COLOURS.len()];
        let _ = writeln!(
            text,
            "<rect x=\"{RIGHT}\" y=\"{}\" width=\"12\" height=\"24\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">DMA buffer {}: {} E-links, {:.1} MB/s</text>",
            y - 12,
            RIGHT + 20,
            y + 4,
            row.dma_buffer,
            row.elinks,
            row.bytes_per_second / 1e6,
        );
    }
    text += "</svg>\n";
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use forebay_emu::card::CardConfig;

    use super::*;

    #[test]
    fn every_e_link_and_every_buffer_is_in_the_picture() {
        let mut config = CardConfig::full_mode(12, 1e6, 1024);
        config.buffers = 3;
        config.elinks[7].buffer = 2;
        let picture = svg(&ElinkMap::of(&config), "a <card> & more");
        assert_eq!(picture.matches("<path ").count(), 12);
        assert_eq!(picture.matches("DMA buffer ").count(), 3);
        assert_eq!(picture.matches("108 %").count(), 12);
        assert!(picture.contains("a &lt;card> &amp; more"));
        assert!(picture.ends_with("</svg>\n"));
    }
}
