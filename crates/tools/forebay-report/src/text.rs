//! Numbers as people read them.

/// Bytes with an SI prefix, as `1.2 GB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    si(value, "B")
}

/// A number with an SI prefix and three digits.
#[must_use]
pub fn si(value: f64, unit: &str) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (scale, prefix) = steps
        .into_iter()
        .find(|(scale, _)| value.abs() >= *scale)
        .unwrap_or((1.0, ""));
    let scaled = value / scale;
    let digits = if prefix.is_empty() || scaled.abs() >= 100.0 {
        0
    } else if scaled.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(bytes(25_420.0), "25.4 kB");
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(si(80_000.0, "Hz"), "80.0 kHz");
    }
}
