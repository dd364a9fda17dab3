use super::*;
use proptest::prelude::*;

fn welcome() -> Welcome {
    Welcome {
        client: 3,
        mac: [2, 0, 0, 0, 0, 7],
        vlan: Some(0x0102),
        mtu_bytes: 1500,
        receive: PoolShape {
            frames: 1024,
            frame_bytes: 2048,
        },
        transmit: PoolShape {
            frames: 256,
            frame_bytes: 1600,
        },
        addresses: vec!["10.0.0.7".parse().unwrap(), "fe80::7".parse().unwrap()],
    }
}

#[rustfmt::skip]
const GOLDEN: [u8; 74] = [
    b'F', b'B', b'M', b'X', 1, 0, 2, 2,
    2, 0, 0, 0, 0, 7, 2, 1,
    0xdc, 5, 0, 0,
    0, 4, 0, 0, 0, 8, 0, 0,
    0, 1, 0, 0, 0x40, 6, 0, 0,
    3, 0, 0, 0,
    4, 10, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    6, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
];

#[test]
fn golden_records() {
    let hello = Message::Hello(Name::new("echo").unwrap());
    assert_eq!(hello.emit(), b"FBMX\x01\x00\x01\x04echo");
    assert_eq!(Message::Welcome(welcome()).emit(), GOLDEN);
    let refusal = Message::Refusal(Refusal::new(Reason::Taken, "it is\ttaken"));
    assert_eq!(refusal.emit(), b"FBMX\x01\x00\x03\x0b\x03it is taken");
    assert_eq!(Message::Bell.emit(), b"FBMX\x01\x00\x04\x00");
    for message in [hello, Message::Welcome(welcome()), refusal, Message::Bell] {
        assert_eq!(Message::parse(&message.emit()), Ok(message));
    }
}

#[test]
fn each_field_of_a_welcome_is_looked_at() {
    let with = |at: usize, byte: u8| {
        let mut record = GOLDEN;
        record[at] = byte;
        Message::parse(&record).unwrap_err()
    };
    assert_eq!(with(0, b'f'), MessageError::Head);
    assert_eq!(with(4, 2), MessageError::Version { found: 2 });
    assert_eq!(with(6, 5), MessageError::Kind { found: 5 });
    let (expected, found) = (57, 74);
    assert_eq!(with(7, 1), MessageError::Length { expected, found });
    assert_eq!(with(7, 9), MessageError::Count { found: 9, most: 8 });
    // The group bit, the VLAN, the MTU, frames, bytes of a frame, the three reserved bytes, versions, and zeroes behind an address.
    for at in [8, 15, 18, 22, 24, 30, 32, 37, 38, 39, 40, 46, 57] {
        let field = with(at, 0xff);
        assert!(matches!(field, MessageError::Field { .. }), "{at}: {field}");
    }
}

#[test]
fn names_and_texts_are_what_people_can_read() {
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    for wrong in ["", "a b", "a/b", "a\0", "ä", &long] {
        assert_eq!(Name::new(wrong), Err(MessageError::Name), "{wrong:?}");
    }
    assert!(Name::new(&long[1..]).is_ok());
    let hello = Message::parse(b"FBMX\x01\x00\x01\x02a/");
    assert_eq!(hello, Err(MessageError::Name));
    let empty = Message::parse(b"FBMX\x01\x00\x01\x00");
    assert_eq!(empty, Err(MessageError::Name));
    let bell = Message::parse(b"FBMX\x01\x00\x03\x01\x01\x07");
    assert_eq!(bell, Err(MessageError::Text));
    let no_reason = Message::parse(b"FBMX\x01\x00\x03\x00\x07");
    assert_eq!(no_reason, Err(MessageError::Reason { found: 7 }));
    let long = Refusal::new(Reason::Faults, &"ä".repeat(101));
    assert_eq!(long.text(), "ä".repeat(100));
}

/// A record that is mostly right: one of each kind with some bytes changed, and cut or made longer.
fn near() -> impl Strategy<Value = Vec<u8>> {
    let right = prop_oneof![
        Just(GOLDEN.to_vec()),
        Just(b"FBMX\x01\x00\x01\x04echo".to_vec()),
        Just(b"FBMX\x01\x00\x03\x0b\x03it is taken".to_vec()),
        Just(b"FBMX\x01\x00\x04\x00".to_vec()),
    ];
    let changes = proptest::collection::vec((0..74_usize, any::<u8>()), 0..3);
    (right, changes, 0..80_usize, any::<bool>()).prop_map(
        |(mut record, changes, length, is_cut)| {
            for (at, byte) in changes {
                if let Some(place) = record.get_mut(at) {
                    *place = byte;
                }
            }
            if is_cut {
                record.resize(length, 0);
            }
            record
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each record has one meaning and each meaning one record: what is read gives the same bytes again.
    #[test]
    fn what_can_be_read_is_what_was_written(
        record in prop_oneof![near(), proptest::collection::vec(any::<u8>(), 0..300)],
    ) {
        if let Ok(message) = Message::parse(&record) {
            prop_assert_eq!(message.emit(), record);
        }
    }

    #[test]
    fn whatever_is_welcome_comes_through(
        client: u8, mut mac: [u8; 6], vlan in 0..=4094_u16, mtu_bytes in MTU_BYTES,
        pools: [(u32, u32); 2],
        addresses in proptest::collection::vec(any::<core::net::IpAddr>(), 0..=8),
    ) {
        mac[0] &= !1;
        let [receive, transmit] = pools.map(|(frames, bytes)| PoolShape {
            frames: frames % POOL_FRAMES_MAX + 1,
            frame_bytes: (bytes % (FRAME_BYTES_MAX / 64) + 1) * 64,
        });
        let vlan = Some(vlan).filter(|vlan| *vlan != 0);
        let welcome = Message::Welcome(Welcome { client, mac, vlan, mtu_bytes, receive, transmit, addresses });
        let record = welcome.emit();
        prop_assert!(record.len() <= RECORD_BYTES_MAX);
        prop_assert_eq!(Message::parse(&record), Ok(welcome));
    }
}
