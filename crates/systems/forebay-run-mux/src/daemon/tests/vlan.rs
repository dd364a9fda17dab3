//! Clients with a VLAN of their own, and what they may send in.

use super::trusted::went;
use super::*;

/// A packet of the client in this place, with its number, and these bytes in place of its type.
fn tagged(place: u8, number: u32, behind: &[u8]) -> Vec<u8> {
    let mut packet = frame_from(place, number);
    packet.splice(12..14, behind.iter().copied());
    packet
}

/// In its VLAN, with a priority, in another one, in none, with a priority alone, and in another one around its own.
const TAGS: [&[u8]; 6] = [
    &[0x81, 0, 0, 5, 0x88, 0xb5],
    &[0x81, 0, 0xe0, 5, 0x88, 0xb5],
    &[0x81, 0, 0, 6, 0x88, 0xb5],
    &[0x88, 0xb5],
    &[0x81, 0, 0xe0, 0, 0x88, 0xb5],
    &[0x88, 0xa8, 0, 6, 0x81, 0, 0, 5, 0x88, 0xb5],
];

#[test]
fn a_client_with_a_vlan_sends_in_that_one_alone_and_one_without_in_each() {
    for trusted in [false, true] {
        let of_a = format!("vlan = 5\ntrusted = {trusted}");
        let mut rig = Rig::new(&of_a, &EmulatedOptions::default());
        let mut clients = [rig.join("a"), rig.join("b")];
        let mut wanted = Vec::new();
        for (place, client) in (0_u8..).zip(&mut clients) {
            for (number, behind) in (0..).zip(TAGS) {
                let packet = tagged(place, number, behind);
                client.sender.send(number, &packet, 0).unwrap();
                // All of the second client, and two of the first.
                if place == 1 || number < 2 {
                    wanted.push(packet);
                }
            }
            client.sender.publish();
        }
        rig.daemon.round(1).unwrap();
        let mut went: Vec<_> = std::iter::from_fn(|| rig.far.receive()).collect();
        went.sort();
        wanted.sort();
        assert_eq!(went, wanted, "trusted: {trusted}");
        let [a, b] = [0, 1].map(|place| rig.counts(place));
        assert_eq!((a.packets_asked, a.packets_sent), (6, 2));
        assert_eq!(a.lies, [("send.foreign_vlan".to_owned(), 4)].into());
        assert_eq!((b.packets_asked, b.packets_sent), (6, 6));
        assert!(b.lies.is_empty(), "{:?}", b.lies);
        assert_eq!(clients.each_mut().map(Station::freed), [6, 6]);
        assert_eq!(rig.daemon.mux.residual().items, 0);
    }
}

/// A trusted client's packet lies in its own memory until it goes.
#[test]
fn a_trusted_client_that_changes_the_tag_of_what_waits_has_lied() {
    let keys = "vlan = 5\ntrusted = true";
    let mut rig = Rig::new(keys, &EmulatedOptions::default());
    let mut client = rig.join("a");
    let is_shut = rig.narrow();
    for number in 0..3 {
        let packet = tagged(0, number, TAGS[0]);
        client.sender.send(number, &packet, 0).unwrap();
    }
    client.sender.publish();
    rig.daemon.round(1).unwrap();
    // Written over, and not shown anew.
    let other = tagged(0, 1, TAGS[2]);
    client.sender.send(1, &other, 0).unwrap();
    let went = went(&mut rig, &is_shut);
    assert_eq!(went, [0, 2].map(|number| tagged(0, number, TAGS[0])));
    let counts = rig.counts(0);
    assert_eq!(counts.lies, [("send.foreign_vlan".to_owned(), 1)].into());
    assert_eq!((counts.packets_asked, counts.packets_sent), (3, 2));
}
