//! From a captured frame to what a flow needs to know of its packet.
//!
//! Lengths are the wire's business, not the capture's: a frame says how long it was on the wire, and each header is held against what its layer had there.
//! What the capture cut off is [`PacketDrop::Truncated`], and what contradicts itself [`PacketDrop::Malformed`]. A header of TCP, UDP or SCTP that lies about its
//! own length is no reason to refuse a packet: its ports are there.

mod fragments;
#[cfg(test)]
mod tests;
mod tunnel;

use core::ops::ControlFlow;

use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_wire::packet::link::{EtherType, LinkType};
use forebay_wire::packet::mpls::Stack;
use forebay_wire::packet::sctp::SCTP_HEADER_BYTES;
use forebay_wire::packet::tcp::{Segment, TCP_HEADER_BYTES};
use forebay_wire::packet::udp::{Datagram, UDP_HEADER_BYTES};
use forebay_wire::packet::{FragmentPlace, Ip, PacketError, SCTP, TCP, UDP};

use self::fragments::{FragmentCache, Ports};
use crate::config::DecodeConfig;
use crate::key::FlowKey;
use crate::record::Volume;
use forebay_settings::OutOfRange;

pub use self::tunnel::{Tunnel, TunnelKind};

reasons! {
    /// Why a frame is no packet of a flow.
    pub enum PacketDrop {
        /// It begins with what is not read here.
        LinkType = "link_type",
        /// It carries no IP packet.
        NotIp = "not_ip",
        /// The capture ends within the headers that say which flow it is of.
        Truncated = "truncated",
        /// Its headers contradict each other, or how long it was on the wire.
        Malformed = "malformed",
    }
}

impl PacketDrop {
    /// Bytes that lack are the capture's doing if it cut them off, and the packet's if not.
    fn of(error: PacketError, is_cut: bool) -> Self {
        match error {
            PacketError::IpVersion(_) => Self::NotIp,
            error if is_cut && error.is_short() => Self::Truncated,
            _ => Self::Malformed,
        }
    }
}

/// A frame as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Time of its capture, ns.
    pub time_ns: u64,
    /// What it begins with; none: what is not read here.
    pub link: Option<LinkType>,
    /// What there is of it.
    pub bytes: &'a [u8],
    /// Bytes that it had on the wire, without preamble and check sum; less than there are counts as all there are.
    pub wire_bytes: u32,
}

/// A packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time of its capture, ns.
    pub time_ns: u64,
    /// Which flow it is of; its source is the packet's.
    pub key: FlowKey,
    /// Octets of the IP packet that the key is of, headers included: as its header says, or, if that says nothing, as it was on the wire.
    pub octets: u32,
    /// Flags of TCP, 0 of other protocols and of fragments without them.
    pub tcp_flags: u8,
    /// Header of TCP with its options, or of UDP or SCTP, as far as it was captured; empty with other protocols and in later fragments.
    pub header: &'a [u8],
    /// What there is behind its last header, as far as it was captured.
    pub payload: &'a [u8],
    /// Bytes behind its last header, as they were on the wire.
    pub payload_bytes: u32,
    /// Time to live (IPv4) or hop limit (IPv6) of the packet that the key is of.
    pub hop_limit: u8,
    /// It is a part of a packet.
    pub fragment: Option<FragmentPlace>,
    /// The innermost tunnel that was looked into.
    pub tunnel: Option<Tunnel>,
}

impl Packet<'_> {
    /// The same without its bytes, for a batch that outlives the frame.
    #[must_use]
    #[inline]
    pub const fn without_payload(&self) -> Packet<'static> {
        self.with_bytes(&[], &[])
    }

    /// The same with these bytes of its header and of its payload.
    #[must_use]
    #[inline]
    pub(crate) const fn with_bytes<'b>(&self, header: &'b [u8], payload: &'b [u8]) -> Packet<'b> {
        Packet {
            time_ns: self.time_ns,
            key: self.key,
            octets: self.octets,
            tcp_flags: self.tcp_flags,
            header,
            payload,
            payload_bytes: self.payload_bytes,
            hop_limit: self.hop_limit,
            fragment: self.fragment,
            tunnel: self.tunnel,
        }
    }

    /// Whether what stands in front of its payload is the header that the payload belongs to: it is no later fragment.
    #[must_use]
    #[inline]
    pub const fn is_first_part(&self) -> bool {
        match self.fragment {
            None => true,
            Some(place) => place.start == 0,
        }
    }
}

/// A frame without a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub reason: PacketDrop,
    /// Octets behind its link header, as they were on the wire.
    pub octets: u32,
}

/// Bytes of one layer, and how many it had on the wire.
#[derive(Clone, Copy, Debug)]
struct Layer<'a> {
    bytes: &'a [u8],
    wire_bytes: usize,
}

impl<'a> Layer<'a> {
    const fn is_cut(&self) -> bool {
        self.bytes.len() < self.wire_bytes
    }

    /// A part of it that goes to its end, on the wire as well.
    fn behind(&self, part: &'a [u8]) -> Self {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.bytes.as_ptr() as usize);
        Self {
            bytes: part,
            wire_bytes: self.wire_bytes.saturating_sub(offset),
        }
    }

    fn refusal(&self) -> impl Fn(PacketError) -> PacketDrop + use<> {
        let is_cut = self.is_cut();
        move |error| PacketDrop::of(error, is_cut)
    }
}

/// An IP packet whose lengths agree with the wire.
#[derive(Clone, Copy, Debug)]
struct Read<'a> {
    ip: Ip<'a>,
    octets: usize,
    body: Layer<'a>,
    vlan: u16,
    tunnel: Option<Tunnel>,
}

impl<'a> Read<'a> {
    #[inline(always)]
    fn new(layer: Layer<'a>, vlan: u16) -> Result<Self, PacketDrop> {
        let ip = Ip::parse(layer.bytes).map_err(layer.refusal())?;
        let octets = ip.length.unwrap_or(layer.wire_bytes);
        if octets > layer.wire_bytes {
            return Err(PacketDrop::Malformed);
        }
        let whole = Layer {
            wire_bytes: octets,
            ..layer
        };
        Ok(Self {
            ip,
            octets,
            body: whole.behind(ip.captured_payload()),
            vlan,
            tunnel: None,
        })
    }

    /// What a frame or a tunnel carries, if that is IP. A frame in a frame is none: nothing here goes deeper than is set.
    #[inline(always)]
    fn carried(ethertype: EtherType, layer: Layer<'a>, vlan: u16) -> Result<Self, PacketDrop> {
        if ethertype.is_ip() {
            return Self::new(layer, vlan);
        }
        if ethertype.is_mpls() {
            let stack = Stack::parse(layer.bytes).map_err(layer.refusal())?;
            return Self::new(layer.behind(stack.payload), vlan);
        }
        Err(PacketDrop::NotIp)
    }

    #[inline]
    fn framed(of: LinkType, layer: Layer<'a>) -> Result<Self, PacketDrop> {
        let link = of.parse(layer.bytes).map_err(layer.refusal())?;
        let vlan = link.vlan.unwrap_or_default();
        Self::carried(link.ethertype, layer.behind(link.payload), vlan)
    }
}

/// Ports and flags, and what is behind them.
#[derive(Clone, Copy, Debug, Default)]
struct Transport<'a> {
    ports: Ports,
    tcp_flags: u8,
    header: &'a [u8],
    payload: &'a [u8],
}

/// Reads frames. It remembers first fragments, and nothing else of what came before.
#[derive(Debug)]
pub struct Decoder {
    vlan_in_key: bool,
    tunnel_depth: u8,
    fragments: FragmentCache,
    refused: PerReason<PacketDrop, Volume, { PacketDrop::COUNT }>,
}

impl Decoder {
    /// Makes the memory for fragments, once.
    ///
    /// # Errors
    /// A setting is outside its range.
    pub fn new(config: &DecodeConfig) -> Result<Self, OutOfRange> {
        config.validate()?;
        Ok(Self {
            vlan_in_key: config.vlan_in_key,
            tunnel_depth: config.tunnel_depth,
            fragments: FragmentCache::new(config),
            refused: PerReason::default(),
        })
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// It is no packet of a flow, which is counted here.
    #[inline]
    pub fn handle_frame<'a>(&mut self, frame: &Frame<'a>) -> Result<Packet<'a>, Refused> {
        self.read(frame).map_err(|reason| {
            let octets = octets_behind_link(frame);
            self.refused[reason] += Volume {
                packets: 1,
                octets: octets.into(),
            };
            Refused { reason, octets }
        })
    }

    /// Frames that were refused, and their octets behind the link header, by reason.
    pub const fn refused(&self) -> &PerReason<PacketDrop, Volume, { PacketDrop::COUNT }> {
        &self.refused
    }

    /// Fragments that were given the ports of the first one of their packet.
    pub const fn fragments_joined(&self) -> u64 {
        self.fragments.joined
    }

    /// Fragments whose first one is not known, so that their ports are 0.
    pub const fn fragments_unknown(&self) -> u64 {
        self.fragments.unknown
    }

    #[inline]
    fn read<'a>(&mut self, frame: &Frame<'a>) -> Result<Packet<'a>, PacketDrop> {
        let layer = whole(frame);
        let link = frame.link.ok_or(PacketDrop::LinkType)?;
        let mut read = Read::framed(link, layer)?;
        for _ in 0..self.tunnel_depth {
            match tunnel::inside(&read)? {
                ControlFlow::Continue(inner) => read = inner,
                ControlFlow::Break(()) => break,
            }
        }
        let mut protocol = read.ip.protocol;
        let transport = match read.ip.fragment {
            Some(place) if place.start > 0 => {
                let ports = self.fragments.find(frame.time_ns, &read.ip, place);
                protocol = ports.map_or(protocol, |ports| ports.protocol);
                Transport {
                    ports: ports.unwrap_or_default(),
                    tcp_flags: 0,
                    header: &[],
                    payload: read.body.bytes,
                }
            }
            first => {
                let transport = transport(&read)?;
                if let Some(place) = first {
                    self.fragments
                        .remember(frame.time_ns, &read.ip, place, transport.ports);
                }
                transport
            }
        };
        let (ip, ports) = (&read.ip, transport.ports);
        let key = FlowKey::new(ip.source, ip.destination, protocol);
        let mut key = key.with_ports(ports.source, ports.destination);
        if self.vlan_in_key {
            key.vlan = read.vlan;
        }
        Ok(Packet {
            time_ns: frame.time_ns,
            key,
            // No longer than the frame, whose length is an u32.
            octets: read.octets as u32,
            tcp_flags: transport.tcp_flags,
            header: transport.header,
            payload: transport.payload,
            payload_bytes: read.body.wire_bytes.saturating_sub(transport.header.len()) as u32,
            hop_limit: ip.hop_limit,
            fragment: read.ip.fragment,
            tunnel: read.tunnel,
        })
    }
}

fn whole<'a>(frame: &Frame<'a>) -> Layer<'a> {
    let most = u32::MAX as usize;
    let bytes = frame.bytes.get(..most).unwrap_or(frame.bytes);
    Layer {
        bytes,
        wire_bytes: bytes.len().max(frame.wire_bytes as usize),
    }
}

/// Tags are of the link header where they can be read.
fn octets_behind_link(frame: &Frame<'_>) -> u32 {
    let layer = whole(frame);
    let Some(of) = frame.link else {
        return layer.wire_bytes as u32;
    };
    let behind = layer.wire_bytes.saturating_sub(of.header_bytes());
    let link = of.parse(layer.bytes);
    link.map_or(behind, |link| layer.behind(link.payload).wire_bytes) as u32
}

/// Reads what a packet, or the first part of one, carries.
#[inline]
fn transport<'a>(read: &Read<'a>) -> Result<Transport<'a>, PacketDrop> {
    let bytes = read.body.bytes;
    let is_part = read.ip.fragment.is_some();
    let lacking = if read.body.is_cut() {
        PacketDrop::Truncated
    } else {
        PacketDrop::Malformed
    };
    let ports = || {
        let &[s0, s1, d0, d1] = bytes.first_chunk().ok_or(lacking)?;
        Ok(Ports {
            source: u16::from_be_bytes([s0, s1]),
            destination: u16::from_be_bytes([d0, d1]),
            protocol: read.ip.protocol,
        })
    };
    let split = |header: usize| bytes.split_at_checked(header).unwrap_or((bytes, &[]));
    match read.ip.protocol {
        TCP => {
            let tcp_flags = match bytes.get(TCP_FLAGS_AT) {
                Some(flags) => *flags,
                // The rest of the header may be in the next fragment.
                None if is_part && !read.body.is_cut() => 0,
                None => return Err(lacking),
            };
            // A header that lies about its own length is one without options, with nothing behind it.
            let (header, payload) = match Segment::new_checked(bytes) {
                Ok(segment) => split(bytes.len() - segment.payload().len()),
                Err(_) => (split(TCP_HEADER_BYTES).0, &[][..]),
            };
            Ok(Transport {
                ports: ports()?,
                tcp_flags,
                header,
                payload,
            })
        }
        UDP => {
            let ports = ports()?;
            let (header, behind) = split(UDP_HEADER_BYTES);
            Ok(Transport {
                ports,
                tcp_flags: 0,
                header,
                // A part is shorter than its datagram says.
                payload: Datagram::new_checked(bytes).map_or(behind, |datagram| datagram.payload()),
            })
        }
        SCTP => {
            let ports = ports()?;
            let (header, payload) = split(SCTP_HEADER_BYTES);
            Ok(Transport {
                ports,
                tcp_flags: 0,
                header,
                payload,
            })
        }
        protocol => Ok(Transport {
            ports: Ports {
                protocol,
                ..Ports::default()
            },
            tcp_flags: 0,
            header: &[],
            payload: bytes,
        }),
    }
}

/// Of the flags in a header of TCP, in bytes.
const TCP_FLAGS_AT: usize = 13;
