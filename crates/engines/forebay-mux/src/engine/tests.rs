use super::*;
use crate::Mac;
use crate::account::Items;
use crate::classify::{Multicast, Rule, Wish};
use crate::descriptor::TransmitFault;

const CLIENT: ClientId = ClientId::new(3);
const TO: Mac = Mac([2, 0, 0, 0, 0, 3]);

/// In the place of a client: the buffers that it was given.
#[derive(Default)]
struct Given(Vec<BufferId>);

impl Outlet for Given {
    fn give(&mut self, _client: ClientId, buffer: BufferId) {
        self.0.push(buffer);
    }

    fn answer(&mut self, _frame: &[u8]) {}
}

/// One client, that has two frames of 100 bytes, and handed over two packets of 200, of which one is in the card.
fn busy() -> (Mux, Vec<BufferId>, Packet) {
    busy_with(&[])
}

/// The same, where clients ask for frames to several.
fn busy_with(wishes: &[Wish]) -> (Mux, Vec<BufferId>, Packet) {
    let rule = Rule {
        destination_mac: Some(TO),
        ..Rule::of(CLIENT)
    };
    let config = MuxConfig {
        receive_buffers: 16,
        card_buffers: 0,
        classes: vec![ClassConfig {
            policy: PolicyConfig::RoundRobin,
            guard_ns: None,
        }],
        faults_of_a_kind_max: None,
    };
    let mut mux = Mux::new(&config, Classifier::new(&[rule], wishes).unwrap()).unwrap();
    mux.add_client(CLIENT, &client()).unwrap();
    let mut frame = TO.0.to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.resize(100, 0);
    let mut given = Given::default();
    mux.handle_frame(&frame, &mut given);
    mux.handle_frame(&frame, &mut given);
    for buffer in 0..2 {
        let descriptor = Descriptor {
            buffer,
            offset: 0,
            length: 200,
        };
        mux.offer(CLIENT, descriptor, 0, |_| Some(TO.into()))
            .unwrap();
    }
    let Next::Send(_, packet) = mux.poll(0, |_, _| {}) else {
        panic!("nothing to send");
    };
    (mux, given.0, packet)
}

fn client() -> ClientConfig {
    ClientConfig {
        share: Share {
            queue_frames: 8,
            guaranteed_frames: 0,
        },
        sender: Sender {
            class: 0,
            queue_packets: 8,
            sojourn_max_ns: None,
        },
        limits: TransmitLimits {
            buffers: 8,
            buffer_bytes: 2048,
            frame_bytes_max: 1514,
            source: TO.into(),
        },
    }
}

const fn two(bytes: u64) -> Items {
    Items { items: 2, bytes }
}

#[test]
fn what_is_held_is_counted_anew_and_the_same_at_once() {
    let (mux, ..) = busy();
    let (closed, now) = (mux.counts(CLIENT), mux.counts_now(CLIENT));
    assert_eq!(
        (closed.receive_held, closed.transmit_held),
        (two(200), two(400))
    );
    assert_eq!(closed, now);
    assert!(mux.residual().is_zero());
}

/// A buffer of which the client's bit is lost has not come back and is not held: that is left over, also when the client has gone.
#[test]
fn a_lost_buffer_is_left_over() {
    let (mut mux, given, _) = busy();
    mux.pool.lose(CLIENT, given[0]);
    let lost = Residual {
        items: 1,
        bytes: 100,
    };
    assert_eq!(mux.residual(), lost);
    assert_eq!(mux.take_back(CLIENT, given[1]), Returned::Taken);
    assert_eq!(mux.residual(), lost);
}

/// What vanishes on purpose is left over by one frame or packet, at whichever hop.
#[test]
fn what_is_leaked_at_a_hop_is_left_over() {
    for hop in HOPS {
        let (mut mux, given, in_card) = busy();
        mux.leak(format!("{hop}:1").parse().unwrap());
        let mut more = Given::default();
        let mut frame = TO.0.to_vec();
        frame.resize(100, 8);
        mux.handle_frame(&frame, &mut more);
        assert_eq!(mux.take_back(CLIENT, given[0]), Returned::Taken, "{hop}");
        mux.finish(CLIENT, in_card, true);
        let lost = mux.residual();
        assert_eq!(lost.items, 1, "{hop}");
        assert!([100, 200].contains(&lost.bytes), "{hop}: {lost:?}");
        // And no more than that.
        mux.handle_frame(&frame, &mut more);
        assert_eq!(mux.take_back(CLIENT, given[1]), Returned::Taken, "{hop}");
        assert_eq!(mux.residual(), lost, "{hop}");
    }
    // Of a frame to several clients, the one of one of them.
    for hop in ["mux_deliver", "mux_queue"] {
        let other = ClientId::new(4);
        let wishes = [CLIENT, other].map(|client| Wish {
            client,
            vlan: None,
            broadcast: true,
            multicast: Multicast::Nothing,
        });
        let (mut mux, ..) = busy_with(&wishes);
        mux.add_client(other, &client()).unwrap();
        mux.leak(format!("{hop}:1").parse().unwrap());
        let mut frame = [0xff; 6].to_vec();
        frame.resize(100, 8);
        let mut more = Given::default();
        mux.handle_frame(&frame, &mut more);
        assert_eq!(more.0.len(), 1, "{hop}");
        let lost = Residual {
            items: 1,
            bytes: 100,
        };
        assert_eq!(mux.residual(), lost, "{hop}");
        mux.handle_frame(&frame, &mut more);
        assert_eq!((more.0.len(), mux.residual()), (3, lost), "{hop}");
    }
    // What a client lies about is not leaked in its place.
    let (mut mux, ..) = busy();
    mux.leak("mux_receive:1".parse().unwrap());
    let lie = mux.take_back(CLIENT, BufferId(1 << 30));
    assert!(matches!(lie, Returned::Fault(_)), "{lie:?}");
    assert!(mux.residual().is_zero());
}

/// So is a packet that its queue has lost; and the one that is in the card is not.
#[test]
fn a_lost_packet_is_left_over() {
    let (mut mux, _, in_card) = busy();
    assert_eq!(
        mux.transmit.lose(CLIENT).map(|packet| packet.bytes),
        Some(200)
    );
    let lost = Residual {
        items: 1,
        bytes: 200,
    };
    assert_eq!(mux.residual(), lost);
    mux.finish(CLIENT, in_card, true);
    mux.remove_client(CLIENT);
    assert_eq!(mux.residual(), lost);
}

/// One packet is in the card since 0, one waits since 0, both for 1,000 ns at most.
#[test]
fn while_the_card_is_full_waits_end_all_the_same() {
    let (mut mux, _, packet) = busy();
    assert_eq!(mux.late_at_ns(CLIENT, &packet), None);
    assert_eq!(mux.drop_late(5_000, |_, _| panic!("no bound")), None);
    let sender = Sender {
        sojourn_max_ns: Some(10_000),
        ..client().sender
    };
    mux.set_sender(CLIENT, sender).unwrap();
    assert_eq!(mux.late_at_ns(CLIENT, &packet), Some(10_001));
    assert_eq!(mux.drop_late(10_000, |_, _| panic!("early")), Some(10_001));
    let mut freed = Vec::new();
    let next = mux.drop_late(10_001, |client, buffer| freed.push((client, buffer)));
    assert_eq!((next, &freed[..]), (None, &[(CLIENT, 1)][..]));
    assert!(mux.finish_late(CLIENT, packet));
    let counts = mux.counts(CLIENT);
    let sojourn = forebay_ledger::OneOf::Second(crate::transmit::TransmitDrop::Sojourn);
    assert_eq!(counts.transmit.dropped[sojourn], two(400));
    assert_eq!(counts.transmit_held, Items::default());
    assert!(mux.residual().is_zero());
}

/// Packets that were changed after they were offered: each is a lie, the buffer goes back, and one too many ends the client.
#[test]
fn a_packet_that_names_another_sender_when_it_goes_is_a_lie() {
    let (mut mux, _, packet) = busy();
    mux.faults_of_a_kind_max = Some(1);
    let other = Mac([2, 0, 0, 0, 0, 4]).into();
    let foreign = mux.finish_foreign(CLIENT, packet, other);
    assert!(matches!(foreign, Refused::Fault(_)), "{foreign:?}");
    let lie = forebay_ledger::OneOf::First(TransmitFault::ForeignSource);
    let lied = |mux: &Mux| {
        let counts = mux.counts(CLIENT);
        (counts.transmit.dropped[lie], counts.transmit_held.items)
    };
    let (items, bytes) = (1, 200);
    assert_eq!(lied(&mux), (Items { items, bytes }, 1));
    assert!(mux.residual().is_zero());
    // Its buffer is its own again.
    let descriptor = Descriptor {
        buffer: packet.buffer,
        offset: 0,
        length: 60,
    };
    assert_eq!(
        mux.offer(CLIENT, descriptor, 1, |_| Some(TO.into())),
        Ok(())
    );
    let Next::Send(_, packet) = mux.poll(1, |_, _| {}) else {
        panic!("nothing to send");
    };
    let foreign = mux.finish_foreign(CLIENT, packet, other);
    assert!(matches!(foreign, Refused::Disconnected(_)), "{foreign:?}");
    assert!(!mux.clients().contains(CLIENT));
    assert_eq!(lied(&mux), (two(400), 0));
    assert!(mux.residual().is_zero());
}

/// One that is its client's own all the same was not taken by the card.
#[test]
fn a_packet_of_its_own_sender_is_no_lie() {
    let (mut mux, _, packet) = busy();
    let dropped = Refused::Dropped(TransmitDrop::Card);
    assert_eq!(mux.finish_foreign(CLIENT, packet, TO.into()), dropped);
    let card = forebay_ledger::OneOf::Second(TransmitDrop::Card);
    let counts = mux.counts(CLIENT);
    assert_eq!(counts.transmit.dropped[card].items, 1);
    assert!(mux.residual().is_zero());
}
