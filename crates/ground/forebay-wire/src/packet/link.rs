//! Headers of links: Ethernet (IEEE 802.3) with VLAN tags (802.1Q, 802.1ad), and what Linux puts in place of one when it captures on all
//! interfaces (`LINUX_SLL` and `LINUX_SLL2` of tcpdump.org/linktypes.html).

use super::PacketError;

/// Bytes of an Ethernet header without tags: destination, source, type.
pub const ETHERNET_HEADER_BYTES: usize = 14;
const MAC_BYTES: usize = 6;
/// Tags that are taken off; what has more is shown as of the type of the next one.
pub const VLAN_TAGS_MAX: usize = 4;
/// The rest of a tag's first two bytes is its priority.
const VLAN_NUMBER: u16 = 0x0fff;
/// Bytes of a `LINUX_SLL` header; the type is at its end.
const SLL_HEADER_BYTES: usize = 16;
/// Bytes of a `LINUX_SLL2` header; the type is at its begin.
const SLL2_HEADER_BYTES: usize = 20;
/// Bytes of the address family before a packet of a BSD loopback, in the byte order of some machine.
const FAMILY_BYTES: usize = 4;

/// What a frame carries, as of the IEEE's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);

    /// An Ethernet frame, in a tunnel.
    pub const ETHERNET: Self = Self(0x6558);

    /// Whether it is a stack of MPLS labels: for one receiver, or for several.
    pub const fn is_mpls(self) -> bool {
        matches!(self.0, 0x8847 | 0x8848)
    }

    /// Whether it is a packet of IPv4 or IPv6.
    pub const fn is_ip(self) -> bool {
        matches!(self, Self::IPV4 | Self::IPV6)
    }

    /// Whether a VLAN tag follows: of 802.1Q, 802.1ad, or the older double tag.
    pub const fn is_vlan(self) -> bool {
        matches!(self.0, 0x8100 | 0x88a8 | 0x9100)
    }
}

/// What the frames of a capture begin with (tcpdump.org/linktypes.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet,
    /// The header of the IP packet.
    RawIp,
    /// `LINUX_SLL`.
    LinuxSll,
    /// `LINUX_SLL2`.
    LinuxSll2,
    /// An address family, as of a BSD loopback.
    BsdLoopback,
}

impl LinkType {
    /// That of a number; none of one that is not read here.
    pub const fn of(number: i32) -> Option<Self> {
        Some(match number {
            // NULL and LOOP
            0 | 108 => Self::BsdLoopback,
            1 => Self::Ethernet,
            // RAW, its numbers in some BSD captures, IPV4, IPV6
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            _ => return None,
        })
    }

    /// Its number, of those that stand for it the first that [`Self::of`] names by what is in common use.
    pub const fn number(self) -> u16 {
        match self {
            Self::BsdLoopback => 0,
            Self::Ethernet => 1,
            Self::RawIp => 101,
            Self::LinuxSll => 113,
            Self::LinuxSll2 => 276,
        }
    }

    /// Bytes of its header, without tags.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Ethernet => ETHERNET_HEADER_BYTES,
            Self::RawIp => 0,
            Self::LinuxSll => SLL_HEADER_BYTES,
            Self::LinuxSll2 => SLL2_HEADER_BYTES,
            Self::BsdLoopback => FAMILY_BYTES,
        }
    }

    /// Takes its header off a frame, with the tags behind it.
    ///
    /// # Errors
    /// The frame ends within them.
    #[inline]
    pub fn parse(self, frame: &[u8]) -> Result<Link<'_>, PacketError> {
        match self {
            Self::Ethernet => ethernet(frame),
            Self::RawIp => Link::of_ip(frame),
            Self::LinuxSll => linux_sll(frame),
            Self::LinuxSll2 => linux_sll2(frame),
            Self::BsdLoopback => Link::of_ip(bsd_loopback(frame)?),
        }
    }
}

/// A frame without its link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// What the payload is.
    pub ethertype: EtherType,
    /// Number of the VLAN, 1 to 4095: that of the first tag, if it names one.
    pub vlan: Option<u16>,
    /// All behind the header and its tags, with what a short frame is filled up with.
    pub payload: &'a [u8],
}

impl<'a> Link<'a> {
    /// A packet whose own version says what it is.
    fn of_ip(payload: &'a [u8]) -> Result<Self, PacketError> {
        let ethertype = match payload.first().ok_or(PacketError::NoIp)? >> 4 {
            4 => EtherType::IPV4,
            6 => EtherType::IPV6,
            _ => EtherType(0),
        };
        Ok(Self {
            ethertype,
            vlan: None,
            payload,
        })
    }

    /// What is behind a header that says this type: tags are taken off.
    fn behind(ethertype: [u8; 2], mut payload: &'a [u8]) -> Result<Self, PacketError> {
        let mut ethertype = EtherType(u16::from_be_bytes(ethertype));
        let mut vlan = None;
        for tag in 0..VLAN_TAGS_MAX {
            if !ethertype.is_vlan() {
                break;
            }
            let (&[v0, v1, t0, t1], rest) = take(payload)?;
            if tag == 0 {
                vlan = vlan_of([v0, v1]);
            }
            ethertype = EtherType(u16::from_be_bytes([t0, t1]));
            payload = rest;
        }
        Ok(Self {
            ethertype,
            vlan,
            payload,
        })
    }
}

/// Number of the VLAN, 1 to 4095, that a tag names in the two bytes behind its type; number 0 is none (802.1Q, section 9.6).
#[inline]
pub fn vlan_of(tag: [u8; 2]) -> Option<u16> {
    Some(u16::from_be_bytes(tag) & VLAN_NUMBER).filter(|number| *number > 0)
}

/// Reads an Ethernet header and its tags.
///
/// # Errors
/// The frame ends within them.
#[inline]
pub fn ethernet(frame: &[u8]) -> Result<Link<'_>, PacketError> {
    let (&[.., t0, t1], payload) = take::<ETHERNET_HEADER_BYTES>(frame)?;
    Link::behind([t0, t1], payload)
}

/// Reads a `LINUX_SLL` header and the tags behind it.
///
/// # Errors
/// The frame ends within them.
pub fn linux_sll(frame: &[u8]) -> Result<Link<'_>, PacketError> {
    let (&[.., t0, t1], payload) = take::<SLL_HEADER_BYTES>(frame)?;
    Link::behind([t0, t1], payload)
}

/// Reads a `LINUX_SLL2` header and the tags behind it.
///
/// # Errors
/// The frame ends within them.
pub fn linux_sll2(frame: &[u8]) -> Result<Link<'_>, PacketError> {
    let (&[t0, t1, ..], payload) = take::<SLL2_HEADER_BYTES>(frame)?;
    Link::behind([t0, t1], payload)
}

/// The IP packet behind the header of a BSD loopback: the packet's own version says what the header would.
///
/// # Errors
/// The frame ends within the header.
pub fn bsd_loopback(frame: &[u8]) -> Result<&[u8], PacketError> {
    take::<FAMILY_BYTES>(frame).map(|(_, packet)| packet)
}

fn take<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), PacketError> {
    bytes.split_first_chunk().ok_or(PacketError::LinkHeader)
}

/// Changes the receiver and the sender of an Ethernet frame over, as an answer has them. False: the frame ends before.
pub fn turn_round(frame: &mut [u8]) -> bool {
    let [to, from, ..] = frame.as_chunks_mut::<MAC_BYTES>().0 else {
        return false;
    };
    core::mem::swap(to, from);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_link_headers_are_taken_off() {
        let mac = [0_u8; 12];
        let with = |header: &[u8]| [header, b"ip packet"].concat();
        let plain = with(&[&mac[..], &[0x08, 0x00]].concat());
        let tags = [0x88, 0xa8, 0x61, 7, 0x81, 0x00, 0, 9, 0x08, 0x00];
        let tagged = with(&[&mac[..], &tags].concat());
        let sll = with(&[&[0_u8; 14][..], &[0x08, 0x00]].concat());
        let sll2 = with(&[&[0x86, 0xdd][..], &[0; 18]].concat());
        let four = Link {
            ethertype: EtherType::IPV4,
            vlan: None,
            payload: b"ip packet",
        };
        let six = Link {
            ethertype: EtherType::IPV6,
            ..four
        };
        assert_eq!(ethernet(&plain), Ok(four));
        let in_vlan = Link {
            vlan: Some(0x107),
            ..four
        };
        assert_eq!(ethernet(&tagged), Ok(in_vlan));
        let of_priority = with(&[&mac[..], &[0x81, 0x00, 0xe0, 0, 0x08, 0x00]].concat());
        assert_eq!(ethernet(&of_priority), Ok(four));
        assert_eq!(linux_sll(&sll), Ok(four));
        assert_eq!(linux_sll2(&sll2), Ok(six));
        assert_eq!(bsd_loopback(&with(&[2, 0, 0, 0])), Ok(&b"ip packet"[..]));
        for end in 0..22 {
            assert_eq!(ethernet(&tagged[..end]), Err(PacketError::LinkHeader));
        }
    }

    #[test]
    fn a_number_says_what_frames_begin_with() {
        let packet = [0x45, 0, 0, 20];
        for (number, header) in [
            (1, &[&[0; 12][..], &[8, 0]].concat()[..]),
            (113, &[&[0; 14][..], &[8, 0]].concat()),
            (276, &[&[8, 0][..], &[0; 18]].concat()),
            (108, &[2, 0, 0, 0]),
            (101, &[]),
        ] {
            let link_type = LinkType::of(number).unwrap();
            assert_eq!(link_type.header_bytes(), header.len());
            let frame = [header, &packet].concat();
            let link = link_type.parse(&frame).unwrap();
            assert_eq!(
                (link.ethertype, link.payload),
                (EtherType::IPV4, &packet[..])
            );
            for end in 0..header.len() {
                assert_eq!(link_type.parse(&frame[..end]), Err(PacketError::LinkHeader));
            }
        }
        assert_eq!(LinkType::RawIp.parse(&[]), Err(PacketError::NoIp));
        let other = LinkType::RawIp.parse(&[0x50]).unwrap();
        assert!(!other.ethertype.is_ip());
        assert_eq!(LinkType::of(105), None);
    }

    #[test]
    fn the_addresses_alone_change_over() {
        let mut frame: [u8; 15] = core::array::from_fn(|at| at as u8);
        assert!(turn_round(&mut frame));
        assert_eq!(frame, [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14]);
        let mut cut: [u8; 11] = core::array::from_fn(|at| at as u8);
        assert!(!turn_round(&mut cut));
        assert_eq!(cut, core::array::from_fn(|at| at as u8));
    }

    #[test]
    fn the_fifth_tag_stays() {
        let tags = [0x81, 0x00, 0, 9].repeat(5);
        let frame = [&[0_u8; 12][..], &tags, &[0x08, 0x00]].concat();
        let link = ethernet(&frame).unwrap();
        assert!(link.ethertype.is_vlan() && !link.ethertype.is_ip());
    }
}
