//! Clients whose packets stay where they are until they go, and that change them meanwhile.

use forebay_mux::descriptor;
use proptest::prelude::*;

use super::*;
use crate::lane::Waiting;

/// A packet of the client in this place, with this number and this byte behind it.
fn packet(place: u8, number: u32, byte: u8) -> Vec<u8> {
    let mut packet = frame_from(place, number);
    packet.resize(200, byte);
    packet
}

/// Both clients hand over packets of 7s for which the card has no room; what they write over those then, and whether it was shown, is theirs.
fn handed_over(packets: u32) -> (Rig, [Station; 2], Arc<AtomicBool>) {
    let mut rig = Rig::new("trusted = true", &EmulatedOptions::default());
    let mut clients = [rig.join("a"), rig.join("b")];
    let is_shut = rig.narrow();
    for (place, client) in (0..).zip(&mut clients) {
        for number in 0..packets {
            let packet = packet(place, number, 7);
            client.sender.send(number, &packet, 0).unwrap();
        }
        client.sender.publish();
    }
    // Some of each client in one round.
    for _ in 0..2 {
        rig.daemon.round(1).unwrap();
    }
    (rig, clients, is_shut)
}

/// Has the card take what waits, and gives what came out of it.
pub(super) fn went(rig: &mut Rig, is_shut: &AtomicBool) -> Vec<Vec<u8>> {
    is_shut.store(false, Ordering::Relaxed);
    rig.daemon.round(2).unwrap();
    let went: Vec<_> = std::iter::from_fn(|| rig.far.receive()).collect();
    assert_eq!(rig.daemon.mux.residual().items, 0);
    went
}

#[test]
fn a_packet_of_a_trusted_client_is_what_lies_there_when_it_goes() {
    let (mut rig, mut clients, is_shut) = handed_over(3);
    for (place, client) in (0..).zip(&mut clients) {
        // Its memory is written, and nothing more is shown.
        client.sender.send(1, &packet(place, 1, 8), 0).unwrap();
    }
    let mut went = went(&mut rig, &is_shut);
    went.sort();
    let mut wanted: Vec<_> = (0..3).map(|number| packet(0, number, 7)).collect();
    wanted.extend((0..3).map(|number| packet(1, number, 7)));
    // Of the other one, a copy was made before.
    wanted[1] = packet(0, 1, 8);
    wanted.sort();
    assert_eq!(went, wanted);
    for (client, is_trusted) in (0..2).zip([true, false]) {
        let counts = rig.counts(client);
        assert_eq!((counts.packets_asked, counts.packets_sent), (3, 3));
        assert_eq!(counts.is_trusted, is_trusted);
        assert_eq!(clients[usize::from(client)].freed(), 3);
    }
}

#[test]
fn one_that_names_another_sender_by_then_is_dropped_as_a_lie_and_harms_itself_alone() {
    let (mut rig, mut clients, is_shut) = handed_over(4);
    let garbage = [0xa5; 1_500];
    let [one, other] = &mut clients;
    one.sender.send(0, &packet(1, 0, 7), 0).unwrap();
    one.sender.send(2, &garbage, 0).unwrap();
    other.sender.send(2, &garbage, 0).unwrap();
    let went = went(&mut rig, &is_shut);
    let of = |place: u8| {
        let sender = [2, 0, 0, 0, 0, 1 + place];
        let own = went.iter().filter(move |frame| frame[6..12] == sender);
        own.cloned().collect::<Vec<_>>()
    };
    assert_eq!(of(0), [packet(0, 1, 7), packet(0, 3, 7)]);
    let all: Vec<_> = (0..4).map(|number| packet(1, number, 7)).collect();
    assert_eq!((of(1), went.len()), (all, 6));
    let counts = rig.counts(0);
    assert_eq!((counts.packets_asked, counts.packets_sent), (4, 2));
    assert_eq!(counts.lies, [("send.foreign_source".to_owned(), 2)].into());
    assert_eq!(rig.counts(1).lies, Default::default());
    assert_eq!(clients.each_mut().map(Station::freed), [4, 4]);
}

#[test]
fn one_that_does_so_too_often_is_parted_with() {
    let (mut rig, mut clients, is_shut) = handed_over(120);
    let most = rig.daemon.plan.settings.faults_of_a_kind_max;
    assert!(most < 120, "{most} lies");
    for number in 0..120 {
        clients[0].sender.send(number, &[0; 60], 0).unwrap();
    }
    let went = went(&mut rig, &is_shut);
    assert_eq!(went.len(), 120, "all of the other one");
    let counts = rig.counts(0);
    assert_eq!(counts.parted.get("lied"), Some(&1));
    assert_eq!(counts.lies["send.foreign_source"], u64::from(most) + 1);
    assert!(rig.daemon.places[0].lane.is_none());
}

/// Many about the length of an Ethernet header, of which the sender is read.
fn lengths() -> impl Strategy<Value = u32> {
    prop_oneof![10_u32..20, 0_u32..2_500]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is said of a packet's place, nothing outside of one frame of its client's memory is read.
    #[test]
    fn nothing_outside_of_a_frame_is_read(
        said in prop::collection::vec((0_u32..600, 0_u32..2_500, lengths()), 1..50),
        far in any::<(u32, u32, u32)>(),
    ) {
        let (mut rig, clients, _) = handed_over(1);
        let shape = rig.daemon.sizes.transmit;
        let lane = rig.daemon.places[0].lane.as_mut().unwrap();
        for (buffer, offset, bytes) in said.into_iter().chain([far]) {
            let end = u64::from(offset) + u64::from(bytes);
            let is_inside = buffer < shape.frames && end <= u64::from(shape.frame_bytes);
            let packet = Packet { buffer, offset, bytes, arrival_ns: 0 };
            match lane.waiting(&packet) {
                Some(Waiting::Left(view, _)) => prop_assert!(is_inside && view.len() == bytes as usize),
                Some(Waiting::Copied(_)) => prop_assert!(false, "a copy of a trusted client"),
                None => prop_assert!(!is_inside),
            }
            let descriptor = descriptor::Descriptor { buffer, offset, length: bytes };
            let source = lane.take(descriptor);
            prop_assert_eq!(source.is_some(), is_inside && bytes >= 14, "{:?}", descriptor);
        }
        drop(clients);
    }
}
