//! What is in a packet that is a tunnel's.

use core::ops::ControlFlow;

use forebay_wire::packet::gre::Gre;
use forebay_wire::packet::gtpu::{GTPU_PORT, Gtpu};
use forebay_wire::packet::link::{EtherType, LinkType};
use forebay_wire::packet::udp::{Datagram, UDP_HEADER_BYTES};
use forebay_wire::packet::vxlan::{VXLAN_PORT, Vxlan};
use forebay_wire::packet::{GRE, PacketError, UDP};

use super::{Layer, PacketDrop, Read};

/// Which kind of tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelKind {
    /// GRE (RFC 2784).
    Gre,
    /// VXLAN (RFC 7348), to UDP port 4789.
    Vxlan,
    /// GTP-U (3GPP TS 29.281), to UDP port 2152.
    Gtpu,
}

/// The tunnel that a packet was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its kind.
    pub kind: TunnelKind,
    /// Which one of its kind: the key of GRE (0 without one), the network of VXLAN, the end point's identifier of GTP-U.
    pub id: u32,
}

/// The packet in a tunnel. A packet that carries none, or none that can be read, is that of its own flow.
///
/// # Errors
/// The capture ends within the headers of the tunnel or of the packet in it.
#[inline]
pub(super) fn inside<'a>(outer: &Read<'a>) -> Result<ControlFlow<(), Read<'a>>, PacketDrop> {
    if outer.ip.fragment.is_some() {
        return Ok(ControlFlow::Break(()));
    }
    let inner = match outer.ip.protocol {
        GRE => gre(outer.body),
        UDP => datagram(outer.body),
        _ => return Ok(ControlFlow::Break(())),
    };
    match inner {
        Ok(inner) => Ok(ControlFlow::Continue(inner)),
        Err(PacketDrop::Truncated) => Err(PacketDrop::Truncated),
        Err(PacketDrop::LinkType | PacketDrop::NotIp | PacketDrop::Malformed) => {
            Ok(ControlFlow::Break(()))
        }
    }
}

fn gre(body: Layer<'_>) -> Result<Read<'_>, PacketDrop> {
    let gre = Gre::parse(body.bytes).map_err(body.refusal())?;
    let tunnel = Tunnel {
        kind: TunnelKind::Gre,
        id: gre.key.unwrap_or_default(),
    };
    let layer = body.behind(gre.payload);
    let inner = if gre.ethertype == EtherType::ETHERNET {
        Read::framed(LinkType::Ethernet, layer)
    } else {
        Read::carried(gre.ethertype, layer, 0)
    };
    Ok(within(inner?, tunnel))
}

fn datagram(body: Layer<'_>) -> Result<Read<'_>, PacketDrop> {
    let destination = match body.bytes {
        &[_, _, d0, d1, ..] => u16::from_be_bytes([d0, d1]),
        _ => return Err(body.refusal()(PacketError::UdpHeader)),
    };
    if destination != VXLAN_PORT && destination != GTPU_PORT {
        return Err(PacketDrop::NotIp);
    }
    let payload = match Datagram::new_checked(body.bytes) {
        Ok(datagram) => datagram.payload(),
        Err(PacketError::UdpBody) if body.is_cut() => {
            body.bytes.get(UDP_HEADER_BYTES..).unwrap_or_default()
        }
        Err(error) => return Err(body.refusal()(error)),
    };
    let layer = body.behind(payload);
    if destination == VXLAN_PORT {
        let vxlan = Vxlan::parse(payload).map_err(layer.refusal())?;
        let tunnel = Tunnel {
            kind: TunnelKind::Vxlan,
            id: vxlan.network,
        };
        let frame = layer.behind(vxlan.frame);
        return Ok(within(Read::framed(LinkType::Ethernet, frame)?, tunnel));
    }
    let gtpu = Gtpu::parse(payload).map_err(layer.refusal())?;
    let tunnel = Tunnel {
        kind: TunnelKind::Gtpu,
        id: gtpu.tunnel,
    };
    let packet = gtpu.packet.ok_or(PacketDrop::NotIp)?;
    Ok(within(Read::new(layer.behind(packet), 0)?, tunnel))
}

fn within(inner: Read<'_>, tunnel: Tunnel) -> Read<'_> {
    Read {
        tunnel: Some(tunnel),
        ..inner
    }
}
