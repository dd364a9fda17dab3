//! Addresses of Ethernet.

use core::fmt;

/// An address of Ethernet (IEEE 802), 6 bytes as they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it names several stations: the lowest bit of its first byte is set. Broadcast is one of them.
    #[must_use]
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// As a number of 48 bits.
    #[inline]
    pub(crate) const fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_as_people_write_it() {
        let mac = Mac([2, 0, 0xab, 0, 0, 1]);
        assert_eq!(mac.to_string(), "02:00:ab:00:00:01");
        assert_eq!(mac.number(), 0x0200_ab00_0001);
        assert!(!mac.is_group() && Mac::BROADCAST.is_group());
        assert!(Mac([0x33, 0x33, 0, 0, 0, 1]).is_group());
    }
}
