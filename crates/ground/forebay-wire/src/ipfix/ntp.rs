//! Times of IPFIX in microseconds and nanoseconds: NTP's format (RFC 7011, sections 6.1.9 and 6.1.10; RFC 5905, section 6).
//!
//! ```text
//! +0  seconds since 1900-01-01 u32   +4  fraction of a second, in units of 2^-32 s, u32
//! ```
//!
//! Times in milliseconds (section 6.1.8) are none of these: they are a plain count since 1970. The seconds end in 2036 and begin anew:
//! those below 1970 are read as of 2036 and later.

/// Seconds from 1900 to 1970.
const UNIX_EPOCH_S: u32 = 2_208_988_800;
const NS_PER_S: u64 = 1_000_000_000;
/// With microseconds the lowest bits of the fraction mean nothing (section 6.1.9).
const MICROSECONDS_MASK: u64 = 0x7ff;

/// The nanoseconds since 1970 of a time in NTP's format, whichever resolution it has.
#[must_use]
pub const fn unix_ns(ntp: u64) -> u64 {
    let seconds = ((ntp >> 32) as u32).wrapping_sub(UNIX_EPOCH_S) as u64;
    let fraction = ntp & u32::MAX as u64;
    seconds * NS_PER_S + ((fraction * NS_PER_S) >> 32)
}

/// A time of nanoseconds since 1970 as a `dateTimeNanoseconds`; [`unix_ns`] gives the same nanosecond back, until 2106.
#[must_use]
pub const fn nanoseconds(unix_ns: u64) -> u64 {
    of_fraction(
        unix_ns,
        (((unix_ns % NS_PER_S) << 32).div_ceil(NS_PER_S)) & u32::MAX as u64,
    )
}

/// A time of nanoseconds since 1970 as a `dateTimeMicroseconds`; [`unix_ns`] gives the same microsecond back, until 2106.
#[must_use]
pub const fn microseconds(unix_ns: u64) -> u64 {
    let us = unix_ns % NS_PER_S / 1_000;
    let fraction = (us << 32).div_ceil(NS_PER_S / 1_000);
    of_fraction(unix_ns, (fraction + MICROSECONDS_MASK) & !MICROSECONDS_MASK)
}

const fn of_fraction(unix_ns: u64, fraction: u64) -> u64 {
    let seconds = ((unix_ns / NS_PER_S) as u32).wrapping_add(UNIX_EPOCH_S);
    (seconds as u64) << 32 | fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 5905, appendix A of RFC 4330: 1970 is 2,208,988,800 s; half a second is bit 31.
    #[test]
    fn golden_times() {
        assert_eq!(nanoseconds(0), 0x83aa_7e80_0000_0000);
        assert_eq!(nanoseconds(500_000_000), 0x83aa_7e80_8000_0000);
        assert_eq!(microseconds(500_000_999), 0x83aa_7e80_8000_0000);
        // 1 us is 4294.967 units: the next multiple of 2048 is 6144.
        assert_eq!(microseconds(1_000), 0x83aa_7e80_0000_1800);
        // The first second of the next era.
        let era_s = (1_u64 << 32) - 2_208_988_800;
        assert_eq!(nanoseconds(era_s * NS_PER_S), 0);
        assert_eq!(unix_ns(0), era_s * NS_PER_S);
    }

    proptest! {
        #[test]
        fn times_come_back(ns in 0..(1_u64 << 32) * NS_PER_S) {
            prop_assert_eq!(unix_ns(nanoseconds(ns)), ns);
            prop_assert_eq!(unix_ns(microseconds(ns)) / 1_000, ns / 1_000);
            prop_assert_eq!(microseconds(ns) & MICROSECONDS_MASK, 0);
        }
    }
}
