use forebay_wire::packet::{ICMP, ICMPV6};
use proptest::prelude::*;

use super::*;

/// 10.0.0.1:50000 → 10.0.0.2:50001, "hi".
const GOLDEN: [u8; 30] = [
    0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3, 0x51,
    0, 10, 0, 0, b'h', b'i',
];

fn ip4(protocol: u8, place: u16, body: &[u8]) -> Vec<u8> {
    let mut packet = GOLDEN[..20].to_vec();
    packet[2..4].copy_from_slice(&(20 + body.len() as u16).to_be_bytes());
    packet[6..8].copy_from_slice(&place.to_be_bytes());
    packet[9] = protocol;
    packet.extend(body);
    packet
}

fn ip6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, body.len() as u8, next, 64];
    packet.extend([0; 15].into_iter().chain([1]).chain([0; 15]).chain([2]));
    packet.extend(body);
    packet
}

fn udp(destination: u16, body: &[u8]) -> Vec<u8> {
    let [d0, d1] = destination.to_be_bytes();
    let [l0, l1] = (8 + body.len() as u16).to_be_bytes();
    [&[0xc3, 0x50, d0, d1, l0, l1, 0, 0], body].concat()
}

fn tcp(flags: u8, options: usize, body: &[u8]) -> Vec<u8> {
    let mut segment = vec![0xc0, 0, 0x01, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8];
    segment.extend([(20 + options as u8) << 2, flags, 0, 0, 0, 0, 0, 0]);
    segment.extend(vec![1; options]);
    segment.extend(body);
    segment
}

fn framed(header: &[u8], packet: &[u8]) -> Vec<u8> {
    [&[0; 12], header, packet].concat()
}

fn decoder(tunnel_depth: u8) -> Decoder {
    let config = DecodeConfig {
        vlan_in_key: true,
        tunnel_depth,
        ..DecodeConfig::default()
    };
    Decoder::new(&config).unwrap()
}

fn frame(link: LinkType, bytes: &[u8]) -> Frame<'_> {
    Frame {
        time_ns: 5,
        link: Some(link),
        bytes,
        wire_bytes: bytes.len() as u32,
    }
}

fn raw(bytes: &[u8]) -> Result<Packet<'_>, Refused> {
    decoder(0).handle_frame(&frame(LinkType::RawIp, bytes))
}

fn on_ethernet(bytes: &[u8]) -> Result<Packet<'_>, Refused> {
    decoder(0).handle_frame(&frame(LinkType::Ethernet, bytes))
}

fn ports(packet: &Packet<'_>) -> (u16, u16) {
    (packet.key.source_port, packet.key.destination_port)
}

/// One frame of each kind, with the octets of the packet that its flow is of without tunnels.
fn good() -> Vec<(Vec<u8>, u32)> {
    let vxlan = [&[8, 0, 0, 0, 0, 0, 9, 0], &framed(&[8, 0], &GOLDEN)[..]].concat();
    let gtpu = [&[0x30, 255, 0, 30, 0, 0, 0, 8], &GOLDEN[..]].concat();
    let packets = [
        (vec![8, 0], GOLDEN.to_vec()),
        (vec![8, 0], ip4(TCP, 0x4000, &tcp(0x12, 20, b"hello"))),
        (vec![8, 0], ip4(SCTP, 0, &[1; 20])),
        (vec![8, 0], ip4(ICMP, 0, &[8, 0, 0, 0, 0, 1, 0, 2, b'p'])),
        (vec![8, 0], ip4(89, 0, b"ospf")),
        (
            vec![8, 0],
            ip4(47, 0, &[&[0, 0, 8, 0], &GOLDEN[..]].concat()),
        ),
        (vec![8, 0], ip4(UDP, 0, &udp(4789, &vxlan))),
        (vec![8, 0], ip4(UDP, 0, &udp(2152, &gtpu))),
        (vec![0x86, 0xdd], ip6(UDP, &GOLDEN[20..])),
        (vec![0x86, 0xdd], ip6(58, &[128, 0, 0, 0, 0, 1, 0, 2])),
        (
            vec![0x86, 0xdd],
            ip6(0, &[&[UDP, 0, 0, 0, 0, 0, 0, 0], &GOLDEN[20..]].concat()),
        ),
        (vec![0x81, 0, 0, 7, 8, 0], GOLDEN.to_vec()),
        (
            vec![0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x86, 0xdd],
            ip6(TCP, &tcp(2, 0, b"")),
        ),
        (
            vec![0x88, 0x47, 0, 6, 0x40, 64, 0, 1, 1, 64],
            GOLDEN.to_vec(),
        ),
    ];
    packets
        .into_iter()
        .map(|(header, packet)| (framed(&header, &packet), packet.len() as u32))
        .collect()
}

#[test]
fn golden_packets() {
    let packet = raw(&GOLDEN).unwrap();
    assert_eq!(packet.key.source().to_string(), "10.0.0.1");
    assert_eq!(packet.key.destination().to_string(), "10.0.0.2");
    assert_eq!((ports(&packet), packet.octets), ((50_000, 50_001), 30));
    let key = (packet.key.protocol, packet.key.version(), packet.key.vlan);
    assert_eq!((key, packet.payload), ((UDP, 4, 0), &b"hi"[..]));
    let segment = ip4(TCP, 0, &tcp(0x12, 20, b"hello"));
    let packet = raw(&segment).unwrap();
    assert_eq!((ports(&packet), packet.tcp_flags), ((49_152, 443), 0x12));
    assert_eq!((packet.payload, packet.octets), (&b"hello"[..], 65));
    let echo = ip4(ICMP, 0, &[8, 1, 0, 0, 0, 1, 0, 2, b'p']);
    let packet = raw(&echo).unwrap();
    assert_eq!((ports(&packet), packet.payload), ((0, 0), &echo[20..]));
    let echo = ip6(ICMPV6, &[129, 0, 0, 0, 0, 1, 0, 2]);
    let packet = raw(&echo).unwrap();
    assert_eq!((ports(&packet), packet.key.version()), ((0, 0), 6));
    assert_eq!(packet.key.source().to_string(), "::1");
    let sctp = ip4(SCTP, 0, &[1; 20]);
    let packet = raw(&sctp).unwrap();
    assert_eq!((ports(&packet), packet.payload.len()), ((257, 257), 8));
    let ospf = ip4(89, 0, b"ospf");
    let packet = raw(&ospf).unwrap();
    assert_eq!((ports(&packet), packet.payload), ((0, 0), &b"ospf"[..]));
}

#[test]
fn golden_frames_of_every_kind_are_packets_however_they_are_cut() {
    for (bytes, octets) in good() {
        for depth in [0, 1] {
            let whole = decoder(depth).handle_frame(&frame(LinkType::Ethernet, &bytes));
            let whole = whole.unwrap();
            let inner = depth > 0 && whole.tunnel.is_some();
            assert_eq!(whole.octets, if inner { 30 } else { octets });
            let mut packets = 0;
            for end in 0..bytes.len() {
                let cut = Frame {
                    bytes: &bytes[..end],
                    ..frame(LinkType::Ethernet, &bytes)
                };
                match decoder(depth).handle_frame(&cut) {
                    Ok(packet) => {
                        packets += 1;
                        assert_eq!((packet.key, packet.octets), (whole.key, whole.octets));
                        assert_eq!(packet.tcp_flags, whole.tcp_flags);
                        let there = packet.payload;
                        assert!(whole.payload.starts_with(there), "{end}: {bytes:?}");
                    }
                    Err(refused) => {
                        assert_eq!(refused.reason, PacketDrop::Truncated, "{end}: {bytes:?}");
                        // No packet behind a longer cut is refused again.
                        assert_eq!(packets, 0, "{end}: {bytes:?}");
                    }
                }
                // The same without more on the wire contradicts itself.
                let short = decoder(0).handle_frame(&frame(LinkType::Ethernet, &bytes[..end]));
                assert_eq!(short.unwrap_err().reason, PacketDrop::Malformed, "{end}");
            }
            assert!(packets > 0 || whole.tunnel.is_some(), "{bytes:?}");
        }
    }
}

#[test]
fn octets_are_those_of_the_header_where_the_wire_has_them() {
    let padded = framed(&[8, 0], &[&GOLDEN[..], &[0; 16]].concat());
    let packet = on_ethernet(&padded).unwrap();
    assert_eq!((packet.octets, packet.payload), (30, &b"hi"[..]));
    // One more than there is behind the header.
    let mut lying = framed(&[8, 0], &GOLDEN);
    lying[17] = 31;
    let refused = on_ethernet(&lying).unwrap_err();
    assert_eq!(
        (refused.reason, refused.octets),
        (PacketDrop::Malformed, 30)
    );
    // Without a length it is as long as on the wire, also where the capture is cut.
    lying[17] = 0;
    let cut = Frame {
        wire_bytes: 9014,
        ..frame(LinkType::Ethernet, &lying)
    };
    assert_eq!(decoder(0).handle_frame(&cut).unwrap().octets, 9000);
    // A wire that has less than there is has all of it.
    let less = Frame {
        wire_bytes: 0,
        ..frame(LinkType::RawIp, &GOLDEN)
    };
    assert_eq!(decoder(0).handle_frame(&less).unwrap().octets, 30);
}

#[test]
fn what_is_no_packet_is_counted_by_reason_with_its_octets() {
    let mut decoder = decoder(0);
    let mut refuse = |bytes: &[u8], wire_bytes| {
        let whole = frame(LinkType::Ethernet, bytes);
        let refused = decoder.handle_frame(&Frame {
            wire_bytes,
            ..whole
        });
        let refused = refused.unwrap_err();
        (refused.reason.name(), refused.octets)
    };
    let arp = framed(&[0x81, 0, 0, 7, 8, 6], &[0; 28]);
    assert_eq!(refuse(&arp, 46), ("not_ip", 28));
    let other = framed(&[8, 0], &[0x55; 30]);
    assert_eq!(refuse(&other, 44), ("not_ip", 30));
    assert_eq!(refuse(&arp[..15], 60), ("truncated", 46));
    assert_eq!(refuse(&arp[..3], 3), ("malformed", 0));
    let wire = framed(&[0x88, 0x47, 0, 6, 0x41, 64], &[0, 0, 0, 0, 2]);
    assert_eq!(refuse(&wire, 23), ("not_ip", 9));
    let counted = PacketDrop::all().map(|reason| decoder.refused()[reason]);
    let volumes = [(0, 0), (3, 28 + 30 + 9), (1, 46), (1, 0)];
    assert!(counted.eq(volumes.map(|(packets, octets)| Volume { packets, octets })));
}

#[test]
fn headers_that_lie_about_themselves_still_have_ports() {
    let mut segment = tcp(2, 0, b"");
    segment[12] = 0x40;
    let short = ip4(TCP, 0, &segment);
    let packet = raw(&short).unwrap();
    assert_eq!((ports(&packet), packet.payload), ((49_152, 443), &[][..]));
    let mut datagram = GOLDEN;
    datagram[25] = 3;
    assert_eq!(ports(&raw(&datagram).unwrap()), (50_000, 50_001));
    // Three bytes are no ports, and 13 no flags.
    for (protocol, length) in [(UDP, 3), (TCP, 13)] {
        let packet = ip4(protocol, 0, &[1; 13][..length]);
        assert_eq!(raw(&packet).unwrap_err().reason, PacketDrop::Malformed);
    }
}

#[test]
fn a_vlan_is_in_the_key_if_that_is_set() {
    let (tagged, _) = good().swap_remove(12);
    assert_eq!(on_ethernet(&tagged).unwrap().key.vlan, 7);
    let mut without = Decoder::new(&DecodeConfig::default()).unwrap();
    let packet = without.handle_frame(&frame(LinkType::Ethernet, &tagged));
    assert_eq!(packet.unwrap().key.vlan, 0);
}

#[test]
fn tunnels_are_looked_into_as_deep_as_is_set() {
    let inner = ip4(
        47,
        0,
        &[&[0x20, 0, 8, 0, 0, 0, 0, 42], &GOLDEN[..]].concat(),
    );
    let gtpu = [&[0x30, 255, 0, 58, 0, 0, 0, 8], &inner[..]].concat();
    let frames = framed(&[8, 0], &ip4(UDP, 0, &udp(2152, &gtpu)));
    let vxlan = [&[8, 0, 0, 0, 0, 0, 9, 0], &frames[..]].concat();
    let outer = ip4(UDP, 0, &udp(4789, &vxlan));
    let at = |depth| decoder(depth).handle_frame(&frame(LinkType::RawIp, &outer));
    let seen = |depth| {
        let packet = at(depth).unwrap();
        let tunnel = packet.tunnel.map(|tunnel| (tunnel.kind, tunnel.id));
        (packet.octets, packet.key.destination_port, tunnel)
    };
    assert_eq!(seen(0), (outer.len() as u32, 4789, None));
    let in_vxlan = Some((TunnelKind::Vxlan, 9));
    assert_eq!(seen(1), (frames.len() as u32 - 14, 2152, in_vxlan));
    assert_eq!(seen(2), (58, 0, Some((TunnelKind::Gtpu, 8))));
    assert_eq!(seen(3), (30, 50_001, Some((TunnelKind::Gre, 42))));
    assert_eq!(seen(4), seen(3));
}

#[test]
fn what_is_no_tunnel_is_its_own_flow() {
    let arp = [&[8, 0, 0, 0, 0, 0, 9, 0], &framed(&[8, 6], &[0; 28])[..]].concat();
    let mut long = GOLDEN;
    long[3] = 31;
    for outer in [
        ip4(UDP, 0, &udp(4789, b"something else")),
        ip4(UDP, 0, &udp(4789, &arp)),
        ip4(UDP, 0, &udp(2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0])),
        ip4(
            47,
            0,
            &[0x30, 1, 0x88, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        // A packet that is longer than its tunnel.
        ip4(47, 0, &[&[0, 0, 8, 0], &long[..]].concat()),
    ] {
        let packet = decoder(4).handle_frame(&frame(LinkType::RawIp, &outer));
        let packet = packet.unwrap();
        assert_eq!((packet.octets as usize, packet.tunnel), (outer.len(), None));
    }
}

#[test]
fn later_fragments_have_the_ports_of_the_first() {
    let mut decoder = decoder(0);
    let first = ip4(UDP, 0x2000, &udp(53, &[0; 8]));
    let later = ip4(UDP, 0x0002, &[7; 9]);
    let mut of = |bytes: &[u8], time_ns| {
        let whole = frame(LinkType::RawIp, bytes);
        let packet = decoder.handle_frame(&Frame { time_ns, ..whole }).unwrap();
        assert!(packet.fragment.is_some());
        ports(&packet)
    };
    assert_eq!(of(&later, 0), (0, 0));
    assert_eq!(of(&first, 10), (50_000, 53));
    assert_eq!(of(&later, 3_000_000_010), (50_000, 53));
    assert_eq!(of(&later, 3_000_000_011), (0, 0));
    // The same number between the same hosts with another protocol is another packet.
    let mut other = later.clone();
    other[9] = 132;
    assert_eq!(of(&other, 10), (0, 0));
    let six = |place: u16, next: u8, body: &[u8]| {
        let [p0, p1] = place.to_be_bytes();
        ip6(44, &[&[next, 0, p0, p1, 0, 0, 0, 7], body].concat())
    };
    // Options for the receiver stand in the first one alone.
    let options = [&[UDP, 0, 0, 0, 0, 0, 0, 0], &udp(53, b"")[..]].concat();
    assert_eq!(of(&six(1, 60, &options), 10), (50_000, 53));
    assert_eq!(of(&six(16, 60, &[7; 9]), 20), (50_000, 53));
    assert_eq!(
        (decoder.fragments_joined(), decoder.fragments_unknown()),
        (2, 3)
    );
    let later = six(16, 60, &[7; 9]);
    let packet = decoder.handle_frame(&frame(LinkType::RawIp, &later));
    assert_eq!(packet.unwrap().key.protocol, UDP);
}

#[test]
fn a_payload_behind_the_header_is_that_of_the_first_part_or_of_a_whole_packet() {
    for (place, is_first) in [(0, true), (0x2000, true), (0x2001, false), (0x0002, false)] {
        let bytes = ip4(UDP, place, &udp(53, &[0; 8]));
        let packet = raw(&bytes).unwrap();
        assert_eq!(packet.is_first_part(), is_first, "{place:#x}");
    }
}

#[test]
fn a_protocol_without_ports_is_in_the_key() {
    for protocol in [2, 89, 255] {
        let bytes = ip4(protocol, 0, &[7; 12]);
        let packet = raw(&bytes).unwrap();
        assert_eq!((packet.key.protocol, ports(&packet)), (protocol, (0, 0)));
        let mut decoder = decoder(0);
        for place in [0x2000, 0x0002] {
            let part = ip4(protocol, place, &[7; 16]);
            let packet = decoder
                .handle_frame(&frame(LinkType::RawIp, &part))
                .unwrap();
            assert_eq!(packet.key.protocol, protocol, "{place:#x}");
        }
        assert_eq!(decoder.fragments_joined(), 1);
    }
}

#[test]
fn a_first_fragment_without_flags_has_ports() {
    let first = ip4(TCP, 0x2000, &tcp(2, 0, b"")[..8]);
    let packet = raw(&first).unwrap();
    assert_eq!((ports(&packet), packet.tcp_flags), ((49_152, 443), 0));
}

#[test]
fn of_more_first_fragments_than_there_is_room_the_latest_are_kept() {
    let config = DecodeConfig {
        fragments: 4,
        ..DecodeConfig::default()
    };
    let mut decoder = Decoder::new(&config).unwrap();
    let mut port = |id: u8, place: u16, time_ns| {
        let mut packet = ip4(UDP, place, &udp(53, &[0; 8]));
        packet[5] = id;
        let whole = frame(LinkType::RawIp, &packet);
        let packet = decoder.handle_frame(&Frame { time_ns, ..whole }).unwrap();
        packet.key.destination_port
    };
    for id in 0..5 {
        port(id, 0x2000, id.into());
    }
    assert_eq!(
        [0, 1, 2, 3, 4].map(|id| port(id, 2, 9)),
        [0, 53, 53, 53, 53]
    );
}

proptest! {
    #[test]
    fn any_bytes_are_a_packet_or_refused(
        kind in 0..16_usize,
        at in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
        rubbish in proptest::collection::vec(any::<u8>(), 0..80),
        longer in 0..20_u32,
        depth in 0..5_u8,
    ) {
        let good = good();
        let mut bytes = good.get(kind).map_or(rubbish, |(bytes, _)| bytes.clone());
        for (index, value) in at {
            if !bytes.is_empty() {
                let at = index.index(bytes.len());
                bytes[at] = value;
            }
        }
        let wire_bytes = bytes.len() as u32 + longer;
        bytes.truncate(end.index(bytes.len() + 1));
        for link in [LinkType::Ethernet, LinkType::RawIp] {
            let mut decoder = decoder(depth);
            let frame = Frame { wire_bytes, ..frame(link, &bytes) };
            match decoder.handle_frame(&frame) {
                Ok(packet) => {
                    prop_assert!(packet.octets <= wire_bytes && packet.octets >= 20);
                    prop_assert!(packet.payload.len() < packet.octets as usize);
                    prop_assert!(packet.tunnel.is_none() || depth > 0);
                }
                Err(refused) => {
                    prop_assert!(refused.octets <= wire_bytes);
                    prop_assert_eq!(decoder.refused()[refused.reason].packets, 1);
                    prop_assert!(refused.reason != PacketDrop::Truncated || (bytes.len() as u32) < wire_bytes);
                }
            }
        }
    }
}

#[test]
fn frames_in_frames_without_a_tunnel_go_no_deeper() {
    // A million of them would be as many calls.
    let mut bytes = [&[0; 12][..], &[0x65, 0x58]].concat().repeat(75_000);
    bytes.extend(good()[0].0.iter());
    let refused = on_ethernet(&bytes).unwrap_err();
    assert_eq!(refused.reason, PacketDrop::NotIp);
    let mut inner = decoder(4);
    let whole = frame(LinkType::Ethernet, &bytes);
    assert_eq!(
        inner.handle_frame(&whole).unwrap_err().reason,
        PacketDrop::NotIp
    );
}

#[test]
fn a_frame_of_another_link_is_refused_with_all_its_octets() {
    let mut decoder = decoder(0);
    let whole = Frame {
        link: None,
        wire_bytes: 99,
        ..frame(LinkType::Ethernet, &[1; 60])
    };
    let refused = decoder.handle_frame(&whole).unwrap_err();
    assert_eq!((refused.reason, refused.octets), (PacketDrop::LinkType, 99));
    assert_eq!(decoder.refused()[PacketDrop::LinkType].octets, 99);
}
