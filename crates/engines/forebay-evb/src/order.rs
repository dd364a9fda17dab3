//! Trigger numbers on a circle: which comes first when they wrap.

use forebay_wire::subevent::TriggerBits;

/// Signed distance from `from` to `to` on the circle of `bits`, in −range/2 … range/2 − 1.
///
/// ```
/// use forebay_evb::distance;
/// use forebay_wire::subevent::TriggerBits;
/// assert_eq!(distance(TriggerBits::TwentyFour, 0xff_ffff, 1), 2);
/// assert_eq!(distance(TriggerBits::Sixteen, 3, 0xffff), -4);
/// ```
#[inline]
#[must_use]
pub fn distance(bits: TriggerBits, from: u32, to: u32) -> i32 {
    let shift = 32 - bits.bits();
    (to.wrapping_sub(from) << shift).cast_signed() >> shift
}

/// The number after `trigger`.
#[inline]
#[must_use]
pub(crate) fn successor(bits: TriggerBits, trigger: u32) -> u32 {
    trigger.wrapping_add(1) & bits.mask()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distance_inverts_addition(start in 0u32..=0xff_ffff, step in -(1i32 << 23)..(1i32 << 23)) {
            let end = start.wrapping_add_signed(step) & 0xff_ffff;
            prop_assert_eq!(distance(TriggerBits::TwentyFour, start, end), step);
        }

        #[test]
        fn distance_inverts_addition_16(start in 0u32..=0xffff, step in -(1i32 << 15)..(1i32 << 15)) {
            let end = start.wrapping_add_signed(step) & 0xffff;
            prop_assert_eq!(distance(TriggerBits::Sixteen, start, end), step);
        }
    }

    #[test]
    fn successor_wraps() {
        assert_eq!(successor(TriggerBits::TwentyFour, 0xff_ffff), 0);
        assert_eq!(successor(TriggerBits::Sixteen, 0xffff), 0);
        assert_eq!(successor(TriggerBits::Sixteen, 7), 8);
    }
}
