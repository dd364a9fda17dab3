//! Two small generators of pseudorandom numbers, chosen for speed and for being easy to write down.
//!
//! [`mix`] (the finaliser of SplitMix64) turns a key and a number into 64 well-mixed bits without
//! any state, so the same sub-event can be made again from its trigger number alone.
//! [`Xoshiro256`] is the sequential generator of the trigger schedule and of faults.
//! Neither is meant for cryptography.

/// The increment of SplitMix64: 2⁶⁴ divided by the golden ratio, odd.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64 (Steele, Lea, Flood 2014; constants of D. Stafford's mix 13).
#[inline]
#[must_use]
pub const fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The `number`-th output of the SplitMix64 stream that starts at `key`, without walking there.
#[inline]
#[must_use]
pub const fn hash(key: u64, number: u64) -> u64 {
    mix(key.wrapping_add(number.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA)))
}

/// xoshiro256++ 1.0 (Blackman, Vigna 2019), state filled by SplitMix64 as its authors advise.
#[derive(Debug, Clone)]
pub struct Xoshiro256 {
    state: [u64; 4],
}

impl Xoshiro256 {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: [hash(seed, 0), hash(seed, 1), hash(seed, 2), hash(seed, 3)],
        }
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number in the half-open interval (0, 1], so that its logarithm is finite.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number below `bound` (`bound` ≥ 1); the bias is below `bound` / 2⁶⁴.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `chance`.
    #[inline]
    pub fn happens(&mut self, chance: f64) -> bool {
        self.unit() <= chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference outputs of `splitmix64.c` (S. Vigna) for the seed 1234567.
    #[test]
    fn splitmix_reference() {
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for (i, &want) in expected.iter().enumerate() {
            assert_eq!(hash(1_234_567, i as u64), want);
        }
    }

    /// Reference outputs of `xoshiro256plusplus.c` for the state 1, 2, 3, 4.
    #[test]
    fn xoshiro_reference() {
        let mut rng = Xoshiro256 {
            state: [1, 2, 3, 4],
        };
        let expected = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
        ];
        for want in expected {
            assert_eq!(rng.bits(), want);
        }
    }

    #[test]
    fn unit_stays_in_its_interval_and_below_in_its_bound() {
        let mut rng = Xoshiro256::new(7);
        for _ in 0..10_000 {
            let u = rng.unit();
            assert!(u > 0.0 && u <= 1.0);
            assert!(rng.below(3) < 3);
        }
    }
}
