//! Packets of the Internet protocols: from a captured frame to the datagram in it.
//!
//! A frame's link header ([`link`]) says where the IP packet begins, behind a stack of labels ([`mpls`]) or not; [`Ip`] reads either version of it, and [`udp`], [`tcp`], [`icmp`] and
//! [`sctp`] what it carries. Tunnels have further packets in them: [`gre`], [`vxlan`], [`gtpu`]. Questions for the address of a station are [`arp`] and [`neighbour`].
//! Every check of these but the last is one of lengths: a [`checksum`] is the network card's business, and in a capture of the sender's side often not there.
//!
//! ```
//! use forebay_wire::packet::{Ip, UDP, link, udp::Datagram};
//!
//! let frame = [
//!     2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet, IPv4
//!     0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // 10.0.0.1 to 10.0.0.2
//!     0xc3, 0x50, 0xc3, 0x51, 0, 10, 0, 0, b'h', b'i',
//! ];
//! let link = link::ethernet(&frame)?;
//! assert!(link.ethertype.is_ip());
//! let ip = Ip::parse(link.payload)?;
//! assert_eq!((ip.source, ip.protocol), ([10, 0, 0, 1].into(), UDP));
//! let datagram = Datagram::new_checked(ip.payload()?)?;
//! assert_eq!((datagram.source_port(), datagram.payload()), (50_000, &b"hi"[..]));
//! # Ok::<(), forebay_wire::packet::PacketError>(())
//! ```

pub mod arp;
pub mod checksum;
pub mod gre;
pub mod gtpu;
pub mod icmp;
mod ipv4;
mod ipv6;
pub mod link;
pub mod mpls;
pub mod neighbour;
pub mod sctp;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod udp;
pub mod vxlan;

use core::net::IpAddr;

/// Protocol number of ICMP (RFC 792).
pub const ICMP: u8 = 1;
/// Protocol number of TCP (RFC 9293).
pub const TCP: u8 = 6;
/// Protocol number of UDP (RFC 768).
pub const UDP: u8 = 17;
/// Protocol number of GRE (RFC 2784).
pub const GRE: u8 = 47;
/// Protocol number of ICMPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// Protocol number of SCTP (RFC 9260).
pub const SCTP: u8 = 132;
/// The header of an IPv6 fragment (RFC 8200, section 4.5), where a protocol number stands.
pub const IPV6_FRAGMENT: u8 = 44;

/// Why a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The frame ends within its link header or a VLAN tag.
    #[error("shorter than its link header")]
    LinkHeader,
    /// The frame ends where its IP packet would begin.
    #[error("no IP header")]
    NoIp,
    /// An IP packet of another version.
    #[error("IP version {0}, neither 4 nor 6")]
    IpVersion(u8),
    /// It ends within its IPv4 header.
    #[error("shorter than an IPv4 header")]
    Ipv4Header,
    /// The length of the header is below 20 bytes, or that of the packet below its header's.
    #[error("IPv4 lengths contradict each other")]
    Ipv4Lengths,
    /// It ends before its length says.
    #[error("shorter than its IPv4 length")]
    Ipv4Body,
    /// It ends within its IPv6 header.
    #[error("shorter than an IPv6 header")]
    Ipv6Header,
    /// It ends before its length says.
    #[error("shorter than its IPv6 length")]
    Ipv6Body,
    /// An extension header ends behind the packet.
    #[error("IPv6 extension too long")]
    Ipv6Extension,
    /// More extension headers than anybody sends.
    #[error("IPv6 extensions without an end")]
    Ipv6Extensions,
    /// It ends within its UDP header.
    #[error("shorter than a UDP header")]
    UdpHeader,
    /// The length of the datagram is below that of its header.
    #[error("UDP length below 8")]
    UdpLength,
    /// It ends before its length says.
    #[error("shorter than its UDP length")]
    UdpBody,
    /// It ends within its TCP header or options.
    #[error("shorter than its TCP header")]
    TcpHeader,
    /// The length of the header is below 20 bytes.
    #[error("TCP header length below 20")]
    TcpOffset,
    /// It ends within its ICMP header.
    #[error("shorter than an ICMP header")]
    IcmpHeader,
    /// It ends within the common header of SCTP.
    #[error("shorter than an SCTP header")]
    SctpHeader,
    /// It ends within its GRE header.
    #[error("shorter than its GRE header")]
    GreHeader,
    /// A GRE header of another version, or with routes.
    #[error("GRE of another version")]
    GreVersion,
    /// It ends within its VXLAN header.
    #[error("shorter than a VXLAN header")]
    VxlanHeader,
    /// The number of the network does not hold.
    #[error("VXLAN without a network")]
    VxlanFlags,
    /// It ends within its GTP-U header, or before its length says.
    #[error("shorter than its GTP-U length")]
    GtpHeader,
    /// A message of another version, or of charging.
    #[error("GTP of another version")]
    GtpVersion,
    /// Its extensions contradict its length, or have no end.
    #[error("GTP-U extensions contradict its length")]
    GtpExtension,
    /// It ends before the last label.
    #[error("shorter than its MPLS labels")]
    MplsHeader,
    /// More labels than anybody sends.
    #[error("MPLS labels without an end")]
    MplsDepth,
}

impl PacketError {
    /// Whether bytes are lacking at the end: in a capture that cuts packets that is no fault of the packet's.
    pub const fn is_short(self) -> bool {
        match self {
            Self::LinkHeader
            | Self::NoIp
            | Self::Ipv4Header
            | Self::Ipv4Body
            | Self::Ipv6Header
            | Self::Ipv6Body
            | Self::UdpHeader
            | Self::UdpBody
            | Self::TcpHeader
            | Self::IcmpHeader
            | Self::SctpHeader
            | Self::GreHeader
            | Self::VxlanHeader
            | Self::GtpHeader
            | Self::MplsHeader => true,
            Self::IpVersion(_)
            | Self::Ipv4Lengths
            | Self::Ipv6Extension
            | Self::Ipv6Extensions
            | Self::UdpLength
            | Self::TcpOffset
            | Self::GreVersion
            | Self::VxlanFlags
            | Self::GtpVersion
            | Self::GtpExtension
            | Self::MplsDepth => false,
        }
    }
}

/// Where a fragment belongs (RFC 791, section 3.2; RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentPlace {
    /// The same in all fragments of a packet.
    pub id: u32,
    /// Of its first byte, from the begin of what the packet carries, in bytes.
    pub start: usize,
    /// Whether no other one follows.
    pub is_last: bool,
}

/// What an IP packet says of itself, and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip<'a> {
    /// Address of its sender.
    pub source: IpAddr,
    /// Address of its receiver.
    pub destination: IpAddr,
    /// What it carries; with IPv6 what stands behind the extension headers for hops, routers and receiver, and of a later fragment what stands behind its fragment header.
    pub protocol: u8,
    /// It is a part of a packet. An IPv6 packet in one fragment (RFC 6946) is none.
    pub fragment: Option<FragmentPlace>,
    /// What it says to be long, in octets with all its headers. None if it says nothing: an IPv6 jumbogram (RFC 2675), or a packet of either version that was
    /// captured at a sender that leaves the cutting and the length to its network card.
    pub length: Option<usize>,
    /// Time to live (IPv4) or hop limit (IPv6), in routers.
    pub hop_limit: u8,
    /// Type of service (IPv4) or traffic class (IPv6), with the two bits of congestion.
    pub traffic_class: u8,
    captured: &'a [u8],
    lacking: Option<PacketError>,
}

impl<'a> Ip<'a> {
    /// Reads the headers of a packet.
    ///
    /// # Errors
    /// It is of another version, or its headers are not whole or contradict each other.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, PacketError> {
        match packet.first().ok_or(PacketError::NoIp)? >> 4 {
            4 => ipv4::parse(packet),
            6 => ipv6::parse(packet),
            other => Err(PacketError::IpVersion(other)),
        }
    }

    /// What it carries, without what a short frame is filled up with.
    ///
    /// # Errors
    /// The packet ends before its length says.
    #[inline]
    pub const fn payload(&self) -> Result<&'a [u8], PacketError> {
        match self.lacking {
            None => Ok(self.captured),
            Some(error) => Err(error),
        }
    }

    /// What there is of what it carries: all of it, or what the capture left. Without what a short frame is filled up with.
    #[inline]
    pub const fn captured_payload(&self) -> &'a [u8] {
        self.captured
    }
}
