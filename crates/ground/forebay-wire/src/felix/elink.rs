//! E-links and their numbers.

use core::fmt;

/// E-links of one device: the number has 11 bits.
pub const ELINKS: usize = 1 << 11;

/// Most DMA buffers of one device.
pub const DMA_BUFFERS_MAX: usize = 8;

/// An E-link of one device: 5 bits of link above 6 bits of what comes on that link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Elink(u16);

impl Elink {
    /// Where messages about triggers come (TTC-to-host) in firmware of Phase II: link 24.
    pub const TTC_TO_HOST: Self = Self(24 << 6);

    /// The E-link with this number; none above 2047.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if (number as usize) < ELINKS {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The low 11 bits of a number.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & (ELINKS as u16 - 1))
    }

    /// The one E-link of a link in FULL mode; none above link 31.
    #[must_use]
    pub const fn of_link(link: u16) -> Option<Self> {
        if link < 32 {
            Some(Self(link << 6))
        } else {
            None
        }
    }

    /// Its number, 0 to 2047.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Its link, 0 to 31.
    #[must_use]
    pub const fn link(self) -> u16 {
        self.0 >> 6
    }
}

impl fmt::Display for Elink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#05x}", self.0)
    }
}

/// The 64-bit number that an E-link has in the whole experiment, which is its tag in messaging.
///
/// ```text
/// 63..60 version, 1 | 59..52 detector | 51..36 connector | 35 virtual | 34..22 link | 21..16 E-link of the link
/// 15 to the front end | 14..8 protocol | 7..0 stream
/// ```
/// Source: `FelixTools.h` of YARR, which cites figure 3 of the link mapping specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fid(pub u64);

impl Fid {
    /// To the host, of an E-link of a detector's connector. For tests on one host both are 0.
    #[must_use]
    pub const fn to_host(detector: u8, connector: u16, elink: Elink) -> Self {
        let (link, of_link) = (elink.0 as u64 >> 6, elink.0 as u64 & 0x3f);
        Self(
            1 << 60
                | (detector as u64) << 52
                | (connector as u64) << 36
                | link << 22
                | of_link << 16,
        )
    }

    /// The same E-link in the other direction.
    #[must_use]
    pub const fn from_host(self) -> Self {
        Self(self.0 | 1 << 15)
    }

    /// Version of the layout; 1 is known.
    #[must_use]
    pub const fn version(self) -> u8 {
        (self.0 >> 60) as u8
    }

    /// Detector.
    #[must_use]
    pub const fn detector(self) -> u8 {
        (self.0 >> 52) as u8
    }

    /// Connector.
    #[must_use]
    pub const fn connector(self) -> u16 {
        (self.0 >> 36) as u16
    }

    /// The E-link; links above 31 are not told apart from those below.
    #[must_use]
    pub const fn elink(self) -> Elink {
        Elink::from_bits((self.0 >> 16 & 0x3f | (self.0 >> 22 & 0x1f) << 6) as u16)
    }

    /// Whether it goes to the front end.
    #[must_use]
    pub const fn is_from_host(self) -> bool {
        self.0 >> 15 & 1 == 1
    }

    /// Stream within the E-link.
    #[must_use]
    pub const fn stream(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Display for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::string::ToString;

    use super::*;

    #[test]
    fn a_fid_has_its_fields_at_their_bits() {
        let elink = Elink::new(5 << 6 | 0x21).unwrap();
        let fid = Fid::to_host(0x12, 0x3456, elink);
        assert_eq!(fid.0, 0x1123_4560_0161_0000);
        assert_eq!(
            (fid.version(), fid.detector(), fid.connector()),
            (1, 0x12, 0x3456)
        );
        assert_eq!(
            (fid.elink(), fid.stream(), fid.is_from_host()),
            (elink, 0, false)
        );
        assert_eq!(fid.from_host().0, 0x1123_4560_0161_8000);
        assert!(fid.from_host().is_from_host() && fid.from_host().elink() == elink);
        assert_eq!(fid.to_string(), "0x1123456001610000");
    }

    #[test]
    fn e_links_have_eleven_bits() {
        assert_eq!(Elink::new(2047).unwrap().link(), 31);
        assert_eq!(Elink::new(2048), None);
        assert_eq!(Elink::of_link(24), Some(Elink::TTC_TO_HOST));
        assert_eq!(Elink::TTC_TO_HOST.to_string(), "0x600");
        assert_eq!(Elink::of_link(32), None);
        assert_eq!(Elink::from_bits(0xffff).number(), 2047);
    }
}
