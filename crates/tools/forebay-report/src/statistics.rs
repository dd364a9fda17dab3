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

/// How far apart quartiles may lie, of the median, over the root of the runs: a median's own error is about as much.
const SETTLED_SHARE: f64 = 0.05;

/// Whether the median of `values` would hardly be another one with more runs. It looks at nothing else: not at a goal, and not at a reference.
#[must_use]
pub fn is_settled(values: &[f64]) -> bool {
    quartiles(values.iter().copied()).is_some_and(|it| {
        (it.q3 - it.q1) / (it.runs as f64).sqrt() <= SETTLED_SHARE * it.median.abs()
    })
}

/// How far beyond the quartiles a run must lie to be an outlier, in distances of the quartiles.
const OUTLIER_FENCES: f64 = 3.0;
/// How far from the median it must lie as well, of the median: a few percent are nothing special.
const OUTLIER_SHARE: f64 = 0.1;

/// Median, quartiles and extremes of some runs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Quartiles {
    /// The smallest.
    pub min: f64,
    /// A quarter lies below.
    pub q1: f64,
    /// Half lies below.
    pub median: f64,
    /// Three quarters lie below.
    pub q3: f64,
    /// The largest.
    pub max: f64,
    /// How many.
    pub runs: usize,
    /// How many lie far beyond the quartiles.
    pub outliers: usize,
}

/// The quartiles of `values`, in between two of them in proportion; none of nothing.
#[must_use]
pub fn quartiles(values: impl IntoIterator<Item = f64>) -> Option<Quartiles> {
    let mut values: Vec<f64> = values
        .into_iter()
        .filter(|value| value.is_finite())
        .collect();
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let at = |share: f64| {
        let place = share * (values.len() - 1) as f64;
        let below = place.floor() as usize;
        let above = (below + 1).min(values.len() - 1);
        values[below] + (values[above] - values[below]) * (place - below as f64)
    };
    let (q1, median, q3) = (at(0.25), at(0.5), at(0.75));
    let fence = OUTLIER_FENCES * (q3 - q1);
    let is_out = |value: &&f64| {
        let beyond = **value < q1 - fence || **value > q3 + fence;
        beyond && (**value - median).abs() > OUTLIER_SHARE * median.abs()
    };
    Some(Quartiles {
        min,
        q1,
        median,
        q3,
        max,
        runs: values.len(),
        outliers: values.iter().filter(is_out).count(),
    })
}

/// The costs `c` of which `Σ c · x` comes nearest to the values beside `x`, by least squares; none when the points do not tell them apart.
#[must_use]
pub fn fit<const N: usize>(points: &[([f64; N], f64)]) -> Option<[f64; N]> {
    // Each kind in units of its largest, so that what is left of roundings is small beside 1.
    let most: [f64; N] = std::array::from_fn(|kind| {
        let sizes = points.iter().map(|(at, _)| at[kind].abs());
        sizes.fold(0.0, f64::max)
    });
    // The normal equations, the right side last.
    let mut rows: Vec<Vec<f64>> = (0..N)
        .map(|a| {
            let scaled = |at: &[f64; N], kind: usize| at[kind] / most[kind];
            let left = (0..N).map(|b| {
                let products = points.iter().map(|(at, _)| scaled(at, a) * scaled(at, b));
                products.sum::<f64>()
            });
            let right = points.iter().map(|(at, value)| scaled(at, a) * value);
            let right = right.sum();
            left.chain([right]).collect()
        })
        .collect();
    for pivot in 0..N {
        let size = |row: &usize| rows[*row][pivot].abs();
        let best = (pivot..N).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let left = rows[best][pivot].abs();
        // Not a number where a kind does not occur.
        if left.is_nan() || left < 1e-9 {
            return None;
        }
        rows.swap(pivot, best);
        let from = rows[pivot].clone();
        for (_, row) in rows
            .iter_mut()
            .enumerate()
            .filter(|(number, _)| *number != pivot)
        {
            let share = row[pivot] / from[pivot];
            row.iter_mut()
                .zip(&from)
                .for_each(|(cell, of)| *cell -= share * of);
        }
    }
    Some(std::array::from_fn(|kind| {
        rows[kind][N] / rows[kind][kind] / most[kind]
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_told_apart() {
        let cost = |x: f64, y: f64| ([x, y], 20.0 * x + 0.25 * y);
        let exact = [cost(1e6, 16e6), cost(1e6, 1e9), cost(2e6, 64e6)];
        let [chunk, byte] = fit(&exact).unwrap();
        assert!((chunk - 20.0).abs() < 1e-6 && (byte - 0.25).abs() < 1e-9);
        let off = [cost(1.0, 0.0), ([1.0, 0.0], 22.0), cost(0.0, 4.0)];
        let [chunk, byte] = fit(&off).unwrap();
        assert!((chunk - 21.0).abs() < 1e-9 && (byte - 0.25).abs() < 1e-9);
        let three = |x: f64, y: f64, z: f64| ([x, y, z], 3.0 * x + 2.0 * y + z);
        let found = fit(&[
            three(1.0, 0.0, 1.0),
            three(2.0, 9.0, 1.0),
            three(4.0, 1.0, 1.0),
        ])
        .unwrap();
        assert!(
            found
                .iter()
                .zip([3.0, 2.0, 1.0])
                .all(|(a, b)| (a - b).abs() < 1e-9)
        );
        assert_eq!(fit(&[cost(1.0, 2.0), cost(2.0, 4.0)]), None);
        assert_eq!(fit::<2>(&[]), None);
    }

    #[test]
    fn quartiles_lie_between_the_values() {
        let found = quartiles([4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
        assert_eq!(
            [found.min, found.q1, found.median, found.q3, found.max],
            [1.0, 2.0, 3.0, 4.0, 5.0]
        );
        assert_eq!((found.runs, found.outliers), (5, 0));
        let found = quartiles([1.0, 2.0]).unwrap();
        assert_eq!([found.q1, found.median, found.q3], [1.25, 1.5, 1.75]);
        assert_eq!(quartiles([f64::INFINITY]), None);
    }

    #[test]
    fn one_run_far_away_is_an_outlier_and_a_little_noise_is_none() {
        let far = [100.0, 101.0, 99.0, 100.0, 20.0];
        assert_eq!(quartiles(far).unwrap().outliers, 1);
        let near = [100.0, 100.0, 100.0, 100.0, 104.0];
        assert_eq!(quartiles(near).unwrap().outliers, 0);
        assert_eq!(quartiles([7.0]).unwrap().outliers, 0);
    }

    #[test]
    fn a_median_is_settled_when_runs_agree_or_are_many() {
        assert!(is_settled(&[100.0, 101.0, 99.0, 100.0, 300.0]));
        let apart = [70.0, 100.0, 72.0, 103.0, 71.0];
        assert!(!is_settled(&apart));
        let wide = [90.0, 95.0, 100.0, 105.0, 112.0];
        assert!(is_settled(&wide.repeat(2)) && !is_settled(&[80.0, 90.0, 100.0, 110.0, 120.0]));
        assert!(!is_settled(&[]));
    }

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
