//! Medians and their spread.

/// Median, smallest and largest of some runs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// How many.
    pub runs: usize,
}

/// The spread of `values`; none of nothing.
#[must_use]
pub fn spread(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values
        .into_iter()
        .filter(|value| value.is_finite())
        .collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    };
    Some(Spread {
        median,
        low,
        high,
        runs: values.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(
            spread([3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                low: 1.0,
                high: 3.0,
                runs: 3
            })
        );
        assert_eq!(spread([4.0, 1.0]).map(|s| s.median), Some(2.5));
        assert_eq!(spread([f64::NAN]), None);
    }
}
