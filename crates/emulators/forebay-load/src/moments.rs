//! Number, mean, spread and extremes of values, exact.

/// What values have come to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    sum: u128,
    sum_of_squares: u128,
    min: u64,
    max: u64,
}

impl Moments {
    /// One more value.
    #[inline]
    pub fn take(&mut self, value: u64) {
        self.min = match self.count {
            0 => value,
            _ => self.min.min(value),
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        let square = u128::from(value) * u128::from(value);
        self.sum_of_squares = self.sum_of_squares.saturating_add(square);
    }

    /// How many there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The least; 0 without values.
    #[must_use]
    pub const fn min(&self) -> u64 {
        self.min
    }

    /// The greatest; 0 without values.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Their mean; 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// Their standard deviation, of the values and not of a sample; 0 without values.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mean = self.mean();
        let variance = self.sum_of_squares as f64 / self.count as f64 - mean * mean;
        variance.max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_known_values() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.deviation()), (0.0, 0.0));
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            moments.take(value);
        }
        assert_eq!((moments.count(), moments.min(), moments.max()), (8, 2, 9));
        assert_eq!((moments.mean(), moments.deviation()), (5.0, 2.0));
    }
}
