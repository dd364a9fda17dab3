use std::vec::Vec;
use std::{format, vec};

use proptest::prelude::*;

use super::*;

// Made by another program from the drawing above, with a CRC-32C bit by bit.
#[rustfmt::skip]
const DATA: &[u8] = &[
    0x46, 0x54, 0x44, 0x4d, 0x01, 0x08, 0x00, 0x4f, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
    0x00, 0x02, 0x00, 0x01, 0x2a, 0xe0, 0x2c, 0xf9, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x70,
    0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x2a, 0x05, 0xf2, 0x01,
    0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x0c, 0x70, 0x61, 0x79, 0x6c, 0x6f, 0x61, 0x64, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];
#[rustfmt::skip]
const HELLO: &[u8] = &[
    0x46, 0x54, 0x44, 0x4d, 0x01, 0x01, 0x00, 0x2b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0xff, 0xff, 0x00, 0x00, 0xe5, 0x6c, 0x8d, 0xc8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xfe, 0xed,
    0x00, 0x03, 0x05, 0xc0, 0x02, 0x05, 0x6e, 0x6f, 0x72, 0x74, 0x68,
];
#[rustfmt::skip]
const WELCOME: &[u8] = &[
    0x46, 0x54, 0x44, 0x4d, 0x01, 0x02, 0x00, 0x71, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09,
    0x00, 0x01, 0x00, 0x00, 0xb2, 0xee, 0x38, 0x5c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xfe, 0xed,
    0x03, 0x00, 0x03, 0x05, 0xc0, 0x00, 0x08, 0x00, 0x10, 0x00, 0x00, 0x00, 0xc8, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x26, 0x25,
    0xa0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x75, 0x30, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xea,
    0x60, 0x00, 0x00, 0x00, 0x00, 0x00, 0xb3, 0x33, 0x00, 0x00, 0x00, 0x00, 0x00, 0x77, 0x35, 0x94,
    0x00, 0x17, 0x97, 0x9c, 0xfe, 0x36, 0x2a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05,
    0xdc,
];

fn bytes_of(packet: &Packet<'_>, keyed: bool) -> Vec<u8> {
    let mut out = vec![0xaa; 2048];
    let bytes = packet.emit(keyed, &mut out).unwrap();
    out.truncate(bytes);
    out
}

#[test]
fn golden_data_with_a_place_for_the_hash() {
    let packet = Packet::parse(DATA).unwrap();
    assert_eq!(packet.tag, Some([0; TAG_BYTES]));
    assert_eq!((packet.session, packet.sender), (0x0123_4567_89ab_cdef, 2));
    let Message::Data(data) = packet.message else {
        panic!("{packet}")
    };
    let expected = Data {
        packet: 70_000,
        offset: 1 << 33,
        sent_ns: 5_000_000_001,
        window: 7,
        index: 12,
        payload: b"payload",
    };
    assert_eq!(data, expected);
    assert_eq!(bytes_of(&packet, true), DATA);
    assert_eq!(
        format!("{packet}"),
        "data session=0123456789abcdef sender=2 packet=70000 window=7 offset=8589934592 bytes=7"
    );
}

#[test]
fn golden_hello_and_welcome() {
    let packet = Packet::parse(HELLO).unwrap();
    let hello = Hello {
        nonce: 0xfeed,
        share: 3,
        packet_bytes_max: 1472,
        carries: Carries::Heaps,
        name: "north",
    };
    assert_eq!(packet.message, Message::Hello(hello));
    assert_eq!(
        (packet.session, packet.sender, packet.tag),
        (0, NO_SENDER, None)
    );
    assert_eq!(bytes_of(&packet, false), HELLO);
    let packet = Packet::parse(WELCOME).unwrap();
    let welcome = Welcome {
        nonce: 0xfeed,
        mode: Mode::SlotsPaced,
        senders: 3,
        packet_bytes: 1472,
        burst_packets: 8,
        catch_up_packets: 16,
        window_packets: 200,
        windows: 0,
        start_ns: 0,
        window_ns: 2_500_000,
        cycle_ns: 7_680_000,
        guard_ns: 60_000,
        pace_ps: 11_744_000,
        silence_ns: 2_000_000_000,
        wall_ns: 1_700_000_000_000_000_000,
        wall_error_ns: 1_500,
    };
    assert_eq!(packet.message, Message::Welcome(welcome));
    assert_eq!(bytes_of(&packet, false), WELCOME);
}

/// One of each kind.
fn all() -> Vec<Packet<'static>> {
    let end = End {
        reason: EndReason::Interrupted,
        windows: 1,
        packets: 2,
        errors: 3,
        payload_bytes: 4,
        stream_bytes: 5,
        heaps: 6,
    };
    let Message::Welcome(welcome) = Packet::parse(WELCOME).unwrap().message else {
        panic!("no welcome")
    };
    let (sequence, reserved) = (5, 0);
    let refusal = Refusal {
        nonce: 1,
        reason: RefuseReason::NameTaken,
    };
    let messages = [
        Packet::parse(HELLO).unwrap().message,
        Message::Welcome(welcome),
        Message::Refuse(refusal),
        Message::Probe(Probe {
            sequence,
            reserved,
            unused_ns: 0,
        }),
        Message::Reply(Reply {
            sequence,
            answer: 7,
            came_ns: 99,
        }),
        Message::FollowUp(FollowUp {
            sequence,
            answer: 7,
            left_ns: 98,
        }),
        Message::Ready(Ready {
            clock_error_ns: 1,
            lateness_ns: 2,
            delay_ns: 3,
            skew_ppb: 4,
            offset: 5,
            real_time: 1,
            disciplined: 1,
        }),
        Packet::parse(DATA).unwrap().message,
        Message::Grant(Grant {
            window: 1,
            packets: 2,
            start_ns: 3,
        }),
        Message::Report(Report {
            window: 1,
            packets: 2,
            first_packet: 3,
            last_ns: 4,
            ..Report::default()
        }),
        Message::Reported(Reported {
            next: 1,
            highest: 3,
        }),
        Message::End(end),
        Message::Ended(end),
        Message::Stop(Stop {
            reason: EndReason::Failed,
        }),
    ];
    let packets = messages.map(|message| Packet {
        session: 9,
        sender: 1,
        start: 200,
        message,
        tag: None,
    });
    packets.into()
}

#[test]
fn each_kind_comes_back_as_it_was() {
    let mut kinds = Vec::new();
    for packet in all() {
        for keyed in [false, true] {
            let bytes = bytes_of(&packet, keyed);
            let tag = keyed.then_some([0; TAG_BYTES]);
            assert_eq!(Packet::parse(&bytes).unwrap(), Packet { tag, ..packet });
            let control = packet.message.kind() != Kind::Data;
            assert!(!control || bytes.len() <= CONTROL_BYTES_MAX, "{packet}");
        }
        kinds.push(packet.message.kind());
    }
    assert_eq!(kinds, Kind::ALL);
    let probe = bytes_of(&all()[3], false).len();
    assert_eq!(probe, bytes_of(&all()[4], false).len());
    assert_eq!(probe, bytes_of(&all()[5], false).len());
}

#[test]
fn what_is_cut_or_longer_is_refused() {
    for packet in all() {
        for keyed in [false, true] {
            let mut bytes = bytes_of(&packet, keyed);
            for cut in 0..bytes.len() {
                let refused = Packet::parse(&bytes[..cut]).unwrap_err();
                assert!(
                    ["truncated", "bad_length"].contains(&refused.reason()),
                    "{refused}"
                );
            }
            bytes.push(0);
            assert_eq!(Packet::parse(&bytes).unwrap_err().reason(), "bad_length");
        }
    }
}

#[test]
fn any_bit_of_head_and_fields_is_held_by_the_check() {
    for packet in all() {
        let bytes = bytes_of(&packet, false);
        let covered = match packet.message {
            Message::Data(_) => DATA_HEAD_BYTES,
            _ => bytes.len(),
        };
        for bit in 0..covered * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Packet::parse(&bytes).is_err(), "{packet}, bit {bit}");
        }
    }
}

#[test]
fn what_cannot_be_is_named() {
    let refused = |packet: Packet<'_>| Packet::parse(&bytes_of(&packet, false)).unwrap_err();
    let of = |message| Packet {
        session: 1,
        sender: 1,
        start: 0,
        message,
        tag: None,
    };
    let Message::Hello(hello) = Packet::parse(HELLO).unwrap().message else {
        panic!("no hello")
    };
    for (hello, field) in [
        (Hello { share: 0, ..hello }, "share"),
        (
            Hello {
                packet_bytes_max: 127,
                ..hello
            },
            "packet_bytes_max",
        ),
        (Hello { name: "", ..hello }, "name length"),
        (
            Hello {
                name: "a\nb",
                ..hello
            },
            "name",
        ),
    ] {
        let error = refused(of(Message::Hello(hello)));
        assert!(
            matches!(error, TdmError::Field { field: found, .. } if found == field),
            "{error}"
        );
    }
    let Message::Welcome(welcome) = Packet::parse(WELCOME).unwrap().message else {
        panic!("no welcome")
    };
    for (welcome, field) in [
        (
            Welcome {
                senders: 0,
                ..welcome
            },
            "senders",
        ),
        (
            Welcome {
                window_packets: 0,
                ..welcome
            },
            "window_packets",
        ),
        (
            Welcome {
                cycle_ns: welcome.window_ns - 1,
                ..welcome
            },
            "cycle_ns",
        ),
        (
            Welcome {
                burst_packets: 0,
                ..welcome
            },
            "burst_packets",
        ),
        (
            Welcome {
                silence_ns: 0,
                ..welcome
            },
            "silence_ns",
        ),
    ] {
        let error = refused(of(Message::Welcome(welcome)));
        assert!(
            matches!(error, TdmError::Field { field: found, .. } if found == field),
            "{error}"
        );
    }
}

#[test]
fn what_does_not_fit_is_not_written() {
    for packet in all() {
        let bytes = bytes_of(&packet, true).len();
        let mut room = vec![0; bytes];
        assert_eq!(packet.emit(true, &mut room), Some(bytes));
        for less in 0..bytes {
            assert_eq!(packet.emit(true, &mut room[..less]), None, "{packet}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(refused) = Packet::parse(&bytes) {
            prop_assert_ne!(format!("{}", refused), refused.reason(), "it says more than its name");
        }
    }

    #[test]
    fn damage_behind_a_good_head_is_never_taken_for_another_datagram(
        which in 0..14_usize, at in 0..200_usize, with in 1..=255_u8, keyed: bool,
    ) {
        let packet = all()[which];
        let mut bytes = bytes_of(&packet, keyed);
        let at = at % bytes.len();
        bytes[at] ^= with;
        if let Ok(read) = Packet::parse(&bytes) {
            let payload_or_hash = match packet.message {
                Message::Data(_) => at >= DATA_HEAD_BYTES,
                _ => keyed && at >= bytes.len() - TAG_BYTES,
            };
            prop_assert!(payload_or_hash, "{} from {}", read, packet);
        }
    }
}

/// A datagram that says where a stream stands, or how much there was, may not say more than can be added up.
#[test]
fn counts_that_could_not_be_added_up_are_refused() {
    let parses = |message: Message<'_>| {
        let mut packet = all().remove(0);
        packet.message = message;
        Packet::parse(&bytes_of(&packet, false)).is_ok()
    };
    for (offset, fits) in [
        (u64::MAX / 4, true),
        (u64::MAX / 4 + 1, false),
        (u64::MAX, false),
    ] {
        let ready = Ready {
            offset,
            ..Ready::default()
        };
        assert_eq!(parses(Message::Ready(ready)), fits, "{offset}");
        let report = Report {
            first_packet: offset,
            ..Report::default()
        };
        assert_eq!(parses(Message::Report(report)), fits, "{offset}");
        let end = |stream_bytes, heaps| End {
            reason: EndReason::Complete,
            windows: 0,
            packets: 0,
            errors: 0,
            payload_bytes: 0,
            stream_bytes,
            heaps,
        };
        assert_eq!(parses(Message::End(end(offset, 0))), fits, "{offset}");
        assert_eq!(parses(Message::Ended(end(0, offset))), fits, "{offset}");
    }
}
