//! Text tables with aligned columns, and numbers for people.

/// Rows of cells; the first `left` columns are aligned to the left, the others to the right.
#[derive(Debug)]
pub(crate) struct Table {
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(left: usize, head: &[&str]) -> Self {
        Self {
            left,
            rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text, or nothing when it has no row but its head.
    pub(crate) fn render(&self) -> String {
        if self.rows.len() < 2 {
            return String::new();
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.rows
            .iter()
            .map(|row| self.line(row, &widths) + "\n")
            .collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, &width))| {
                if column < self.left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// `1234567` as `1,234,567`.
#[must_use]
pub fn items(value: i128) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if value < 0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Volumes in bytes with SI prefixes: exact below 10 kB, three decimals above.
pub(crate) fn bytes(value: i128) -> String {
    const STEPS: [(f64, &str); 5] = [
        (1e15, "PB"),
        (1e12, "TB"),
        (1e9, "GB"),
        (1e6, "MB"),
        (1e3, "kB"),
    ];
    let size = value.unsigned_abs() as f64;
    let step = STEPS
        .iter()
        .find(|(step, _)| size >= 10_000.0 && size >= *step);
    step.map_or_else(
        || format!("{} B", items(value)),
        |(step, unit)| format!("{:.3} {unit}", value as f64 / step),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(items(0), "0");
        assert_eq!(items(-1_234_567), "-1,234,567");
        assert_eq!(bytes(9_999), "9,999 B");
        assert_eq!(bytes(12_345), "12.345 kB");
        assert_eq!(bytes(-2_500_000_000), "-2.500 GB");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(1, &["place", "in"]);
        assert_eq!(table.render(), "");
        table.row(vec!["a".into(), "1,000".into()]);
        assert_eq!(table.render(), "place     in\na      1,000\n");
    }
}
