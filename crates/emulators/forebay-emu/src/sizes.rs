//! Sub-event sizes as a table of quantiles: one look-up per sub-event instead of a normal deviate.

use crate::config::Group;

/// Entries of a size table; a power of two, so that hash bits select one.
pub(crate) const SIZE_TABLE_LEN: usize = 4096;

/// The sizes of one group, each with the probability 1 / [`SIZE_TABLE_LEN`].
///
/// Sizes are multiples of 4. The rounding error is carried from one entry to the next, so the mean
/// of the table is that of the distribution (116, but also 338 and 1170, which are no multiples).
#[derive(Debug, Clone)]
pub(crate) struct SizeTable {
    bytes: Vec<u32>,
}

impl SizeTable {
    pub(crate) fn new(group: &Group) -> Self {
        let mut carry = 0.0;
        let bytes = normal_quantiles()
            .map(|z| {
                let wanted = f64::from(group.mean_bytes) + z * group.sigma_bytes;
                let clamped = wanted.clamp(f64::from(group.min_bytes), f64::from(group.max_bytes));
                let rounded = ((clamped + carry) / 4.0).round() * 4.0;
                carry += clamped - rounded;
                (rounded as u32).clamp(group.min_bytes, group.max_bytes)
            })
            .collect();
        Self { bytes }
    }

    /// The size selected by the low bits of `hash`.
    #[inline]
    pub(crate) fn pick(&self, hash: u64) -> u32 {
        self.bytes[hash as usize & (SIZE_TABLE_LEN - 1)]
    }

    pub(crate) fn largest(&self) -> u32 {
        self.bytes.iter().copied().max().unwrap_or(0)
    }

    /// The exact mean of what [`SizeTable::pick`] returns.
    pub(crate) fn mean(&self) -> f64 {
        self.bytes.iter().map(|&b| f64::from(b)).sum::<f64>() / SIZE_TABLE_LEN as f64
    }
}

/// The quantiles (i + ½) / n of the standard normal distribution, by walking its integral.
pub(crate) fn normal_quantiles() -> impl Iterator<Item = f64> {
    const STEP: f64 = 1e-4;
    const EDGE: f64 = 6.0;
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (mut x, mut integral) = (-EDGE, 0.0);
    (0..SIZE_TABLE_LEN).map(move |i| {
        let target = (i as f64 + 0.5) / SIZE_TABLE_LEN as f64;
        while integral < target && x < EDGE {
            integral += STEP * density(x + STEP / 2.0);
            x += STEP;
        }
        x
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_have_the_moments_of_a_normal_distribution() {
        let (mut sum, mut squares) = (0.0, 0.0);
        for z in normal_quantiles() {
            sum += z;
            squares += z * z;
        }
        let n = SIZE_TABLE_LEN as f64;
        assert!((sum / n).abs() < 1e-3);
        assert!(
            (squares / n - 1.0).abs() < 5e-3,
            "tails beyond 1/8192 are cut"
        );
    }

    #[test]
    fn mean_is_kept_though_sizes_are_multiples_of_four() {
        for (mean, sigma) in [
            (116, 0.0),
            (338, 0.0),
            (1170, 0.0),
            (338, 40.0),
            (1170, 117.0),
        ] {
            let table = SizeTable::new(&Group::new(1, mean, sigma));
            assert!(table.bytes.iter().all(|b| b % 4 == 0));
            assert!(
                (table.mean() - f64::from(mean)).abs() < 0.01,
                "{mean} {}",
                table.mean()
            );
        }
    }

    #[test]
    fn clamp_bounds_every_entry() {
        let mut group = Group::new(1, 100, 80.0);
        (group.min_bytes, group.max_bytes) = (24, 160);
        let table = SizeTable::new(&group);
        assert!(table.bytes.iter().all(|b| (24..=160).contains(b)));
        assert_eq!(table.largest(), 160);
    }
}
