//! Which station, in which VLAN, a frame names as its sender.

use forebay_wire::packet::link::{EtherType, vlan_of};

use crate::descriptor::DescriptorFault;
use crate::mac::Mac;

/// The sender that a frame names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its address.
    pub mac: Mac,
    /// Number of the outermost VLAN tag; none where there is no tag, or one with the number 0, which stands for none (IEEE 802.1Q, section 9.6).
    pub vlan: Option<u16>,
}

impl Source {
    /// Reads it from the 8 bytes of a frame behind its receiver, sender and type, and from the 2 behind these, where it has them and the type says that they are a
    /// tag. A tag that is cut off names no VLAN.
    #[must_use]
    #[inline]
    pub fn of(head: [u8; 8], tag: impl FnOnce() -> Option<[u8; 2]>) -> Self {
        let [mac @ .., t0, t1] = head;
        let is_tagged = EtherType(u16::from_be_bytes([t0, t1])).is_vlan();
        let tag = if is_tagged { tag() } else { None };
        Self {
            mac: Mac(mac),
            vlan: tag.and_then(vlan_of),
        }
    }

    /// Reads it from the bytes of a frame; none where they end before the type.
    #[must_use]
    #[inline]
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let head = frame.get(6..)?.first_chunk()?;
        Some(Self::of(*head, || frame.get(14..)?.first_chunk().copied()))
    }
}

impl From<Mac> for Source {
    /// A station without a VLAN.
    fn from(mac: Mac) -> Self {
        Self { mac, vlan: None }
    }
}

/// What the frames of a client may name as their sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimits {
    /// The one address; without it each.
    pub mac: Option<Mac>,
    /// The one VLAN, by its number from 1 to 4094; without it each, and none.
    pub vlan: Option<u16>,
}

impl From<Mac> for SourceLimits {
    /// This address, in each VLAN.
    fn from(mac: Mac) -> Self {
        Self {
            mac: Some(mac),
            vlan: None,
        }
    }
}

impl SourceLimits {
    /// Checks what a frame names.
    ///
    /// # Errors
    /// It is another station, or another VLAN.
    #[inline]
    pub fn check(&self, named: Source) -> Result<(), DescriptorFault> {
        if let Some(client_mac) = self.mac.filter(|mac| *mac != named.mac) {
            return Err(DescriptorFault::ForeignSource {
                source_mac: named.mac,
                client_mac,
            });
        }
        match self.vlan.filter(|vlan| named.vlan != Some(*vlan)) {
            None => Ok(()),
            Some(client_vlan) => Err(DescriptorFault::ForeignVlan {
                vlan: named.vlan,
                client_vlan,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::packet::link;

    /// A frame from 02:…:01 with these bytes behind its addresses.
    fn frame(behind: &[u8]) -> Vec<u8> {
        [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], behind].concat()
    }

    fn vlan(behind: &[u8]) -> Option<u16> {
        let frame = frame(behind);
        let named = Source::of_frame(&frame).unwrap();
        assert_eq!(named.mac, Mac([2, 0, 0, 0, 0, 1]));
        // The parser of all headers reads the same, where it reads the tag at all.
        if let Ok(link) = link::ethernet(&frame) {
            assert_eq!(link.vlan, named.vlan);
        }
        named.vlan
    }

    #[test]
    fn the_outermost_tag_is_the_vlan() {
        assert_eq!(vlan(&[8, 0, 0x45, 0]), None);
        assert_eq!(vlan(&[0x81, 0, 0, 5, 8, 0, 0x45]), Some(5));
        // With a priority, of a provider, in another tag, and of the older type.
        assert_eq!(vlan(&[0x81, 0, 0xef, 0xfe, 8, 0]), Some(4094));
        assert_eq!(vlan(&[0x88, 0xa8, 0, 6, 0x81, 0, 0, 5, 8, 0]), Some(6));
        assert_eq!(vlan(&[0x91, 0, 0, 7, 8, 0]), Some(7));
        // A priority alone, whatever is behind it.
        assert_eq!(vlan(&[0x81, 0, 0xe0, 0, 0x81, 0, 0, 5, 8, 0]), None);
        // Cut within the tag.
        assert_eq!(vlan(&[0x81, 0]), None);
        assert_eq!(vlan(&[0x81, 0, 0]), None);
        assert_eq!(Source::of_frame(&frame(&[8])), None);
        assert_eq!(Source::of_frame(&[]), None);
    }

    #[test]
    fn another_station_or_another_vlan_is_refused() {
        let (own, other) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let limits = SourceLimits {
            mac: Some(own),
            vlan: Some(5),
        };
        let of = |mac, vlan| Source { mac, vlan };
        assert_eq!(limits.check(of(own, Some(5))), Ok(()));
        let said = |named| limits.check(named).unwrap_err().to_string();
        let foreign = "a frame from 02:00:00:00:00:02; the client is 02:00:00:00:00:01";
        assert_eq!(said(of(other, Some(6))), foreign);
        let foreign = "a frame of VLAN 6; the client's is 5";
        assert_eq!(said(of(own, Some(6))), foreign);
        let untagged = "a frame of no VLAN; the client's is 5";
        assert_eq!(said(own.into()), untagged);
        let anyone = SourceLimits {
            mac: None,
            vlan: None,
        };
        assert_eq!(anyone.check(of(other, Some(6))), Ok(()));
        assert_eq!(anyone.check(own.into()), Ok(()));
    }
}
