//! Instants that are uniform over a duration, one after the other and without a list of them.
//!
//! The logarithm and the exponential are series of additions and multiplications, which are the same on every machine; those of the C library are not.

use std::f64::consts::{LN_2, SQRT_2};

/// To the first of so many instants that are uniform over a duration: the distribution of their minimum.
#[inline]
pub(crate) fn gap_ns(duration_ns: u64, instants: u64, random: u64) -> u64 {
    // In (0, 1].
    let unit = ((random >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64);
    let share = fall(minus_ln(unit) / instants as f64);
    ((duration_ns as f64 * share) as u64).min(duration_ns)
}

/// −ln(x) of a normal number in (0, 1], off by 10⁻¹¹ of it at most.
#[inline]
fn minus_ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    let (mantissa, exponent) = match mantissa > SQRT_2 {
        true => (mantissa / 2.0, exponent + 1),
        false => (mantissa, exponent),
    };
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let terms = [1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 0.2, 1.0 / 3.0];
    let series = terms.iter().fold(0.0, |sum, term| (sum + term) * square);
    -(2.0 * z * (1.0 + series) + f64::from(exponent) * LN_2)
}

/// 1 − exp(−x), x at least 0, off by 10⁻⁹ of it at most.
#[inline]
fn fall(x: f64) -> f64 {
    let halvings = (x / LN_2) as i32;
    if halvings > 60 {
        return 1.0;
    }
    let rest = x - f64::from(halvings) * LN_2;
    // rest − rest²/2! + rest³/3! …
    let falls = (2..=12)
        .rev()
        .fold(1.0, |sum, n| 1.0 - sum * rest / f64::from(n))
        * rest;
    let half = f64::from_bits(((1023 - halvings) as u64) << 52);
    1.0 - half + half * falls
}

#[cfg(test)]
mod tests {
    use forebay_emu::rng::hash;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_of_many_instants_is_early() {
        assert_eq!(gap_ns(1_000, 1, u64::MAX), 0);
        assert_eq!(gap_ns(1_000, 1, 0), 999);
        assert_eq!(gap_ns(0, 5, 0), 0);
        for instants in [1, 9, 99] {
            let gaps = (0..10_000).map(|at| gap_ns(1_000_000, instants, hash(3, at)));
            let mean = gaps.sum::<u64>() as f64 / 10_000.0;
            let expected = 1e6 / (instants + 1) as f64;
            assert!((mean / expected - 1.0).abs() < 0.05, "{mean} of {expected}");
        }
    }

    proptest! {
        #[test]
        fn series_are_what_they_stand_for(random: u64, instants in 1..1_000_000_u64) {
            let unit = ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            let (ln, expected) = (minus_ln(unit), -unit.ln());
            prop_assert!((ln - expected).abs() <= 1e-11 * expected, "{ln} {expected}");
            let x = expected / instants as f64;
            let (falls, expected) = (fall(x), -(-x).exp_m1());
            prop_assert!((falls - expected).abs() <= 1e-9 * expected, "{falls} {expected}");
        }
    }
}
