//! Tables that fit a width: columns that tell no losses give way.

use ratatui::style::Style;
use ratatui::text::Line;

use super::page::heading;

/// A column; the first one of a table has names, to the left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    title: &'static str,
    /// Least cells; of the first column, most cells where room is scarce.
    width: usize,
    /// Which of them goes first where there is no room, from 1 on; 0 stays.
    gives_way: u8,
}

/// A column that stays.
pub(super) const fn stays(title: &'static str, width: usize) -> Column {
    gives_way(0, title, width)
}

/// A column that goes when there is no room: the one of the lowest number first.
pub(super) const fn gives_way(order: u8, title: &'static str, width: usize) -> Column {
    Column {
        title,
        width,
        gives_way: order,
    }
}

/// A row: a cell for each column, and words behind them.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) tail: String,
    pub(super) style: Style,
}

fn cells(text: &str) -> usize {
    text.chars().count()
}

/// `text` in `width` cells: what is too long loses its middle, as names often differ at the end.
fn shortened(text: &str, width: usize) -> String {
    let count = cells(text);
    if count <= width {
        return text.to_owned();
    }
    let Some(kept) = width.checked_sub(1) else {
        return String::new();
    };
    let front = kept / 2;
    let start = text.chars().take(front);
    let end = text.chars().skip(count - (kept - front));
    start.chain(['…']).chain(end).collect()
}

/// The table's heading and rows, none of them wider than `width` cells as far as columns can give way.
pub(super) fn table(
    columns: &[Column],
    tail: &str,
    rows: Vec<Row>,
    width: usize,
) -> Vec<Line<'static>> {
    let widest = |index: usize| {
        let of_rows = rows.iter().filter_map(|row| row.cells.get(index));
        of_rows.map(|cell| cells(cell)).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| widest(index).max(column.width))
        .collect();
    let tails = rows.iter().map(|row| cells(&row.tail));
    let tail_width = tails.chain([cells(tail)]).max().unwrap_or(0);
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let needed = |shown: &[usize], widths: &[usize]| {
        let all: usize = shown.iter().map(|index| widths[*index] + 1).sum();
        all + 1 + tail_width
    };
    if let ([first, ..], true) = (columns, needed(&shown, &widths) > width) {
        widths[0] = widest(0).max(cells(first.title)).min(first.width);
    }
    while needed(&shown, &widths) > width {
        let going = (0..shown.len()).filter(|at| columns[shown[*at]].gives_way > 0);
        let Some(at) = going.min_by_key(|at| columns[shown[*at]].gives_way) else {
            break;
        };
        shown.remove(at);
    }
    let line = |cell: &dyn Fn(usize) -> String, tail: &str| {
        let mut text = String::new();
        for index in &shown {
            let width = widths[*index];
            let cell = shortened(&cell(*index), width);
            text += &match index {
                0 => format!("{cell:width$}"),
                _ => format!(" {cell:>width$}"),
            };
        }
        format!("{text}  {tail}")
    };
    let title = |index: usize| columns[index].title.to_owned();
    let mut lines = vec![heading(line(&title, tail))];
    for row in &rows {
        let cell = |index: usize| row.cells.get(index).cloned().unwrap_or_default();
        lines.push(Line::styled(line(&cell, &row.tail), row.style));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        stays("name", 12),
        gives_way(2, "rate", 6),
        gives_way(1, "unit", 6),
        stays("lost", 6),
    ];

    fn drawn(name: &str, width: usize) -> Vec<String> {
        let row = Row {
            cells: [name, "7/s", "events", "12"].map(str::to_owned).to_vec(),
            tail: "why".to_owned(),
            ..Row::default()
        };
        let lines = table(&COLUMNS, "reason", vec![row], width);
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_tells_no_loss_gives_way_in_its_order() {
        let wide = [
            "name           rate   unit   lost  reason",
            "a               7/s events     12  why",
        ];
        assert_eq!(drawn("a", 80), wide);
        assert_eq!(drawn("a", 41), wide, "it just fits");
        assert_eq!(
            drawn("a", 40)[0],
            "name   rate   unit   lost  reason",
            "names need no more"
        );
        assert_eq!(drawn("a", 32)[0], "name   rate   lost  reason");
        assert_eq!(drawn("a", 20)[1], "a        12  why");
        assert_eq!(drawn("a", 1)[1], "a        12  why");
    }

    #[test]
    fn long_names_lose_their_middle_where_room_is_scarce() {
        let name = "detector-north-12";
        assert!(drawn(name, 80)[1].starts_with("detector-north-12 "));
        assert!(drawn(name, 30)[1].starts_with("detec…rth-12     12"));
        assert_eq!(shortened("abc", 0), "");
        assert_eq!(shortened("abc", 1), "…");
    }
}
