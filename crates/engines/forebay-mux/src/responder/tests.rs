use proptest::prelude::*;

use super::*;

const A: ClientId = ClientId::new(0);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn responder() -> Responder {
    let mut responder = Responder::default();
    for ip in ["10.0.0.1", "fe80::1"] {
        let ip = ip.parse().unwrap();
        responder
            .add(Address {
                client: A,
                ip,
                mac: MAC,
                vlan: None,
            })
            .unwrap();
    }
    responder
}

fn ask(responder: &mut Responder, frame: &[u8]) -> Result<Vec<u8>, ResponderDrop> {
    let mut room = [0xee; ANSWER_BYTES_MAX];
    let answer = responder.handle_frame(frame, &mut room).map(<[u8]>::to_vec);
    let counts = responder.counts();
    assert_eq!(counts.asked, counts.answered + counts.dropped.total());
    answer
}

/// From 10.0.0.9, after the figure of RFC 826.
fn arp(tags: &[u8], operation: u8, sender: u8, target: u8) -> Vec<u8> {
    let mut frame = [
        &[0xff; 6],
        &ASKER[..],
        tags,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation],
    ]
    .concat();
    frame.extend(ASKER);
    frame.extend([10, 0, 0, sender, 0, 0, 0, 0, 0, 0, 10, 0, 0, target]);
    frame
}

#[test]
fn golden_answer_of_arp() {
    let answer = ask(&mut responder(), &arp(&[], 1, 9, 1)).unwrap();
    let mut golden = vec![
        2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2,
    ];
    golden.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9]);
    golden.resize(60, 0);
    assert_eq!(answer, golden);
}

#[test]
fn an_answer_has_the_tags_of_its_question() {
    let tag = [0x81, 0, 0x20, 7];
    let answer = ask(&mut responder(), &arp(&tag, 1, 9, 1)).unwrap();
    assert_eq!((&answer[12..16], &answer[16..18]), (&tag[..], &[8, 6][..]));
    let mut of_vlan = Responder::default();
    let ip = [10, 0, 0, 1].into();
    of_vlan
        .add(Address {
            client: A,
            ip,
            mac: MAC,
            vlan: Some(7),
        })
        .unwrap();
    assert!(ask(&mut of_vlan, &arp(&tag, 1, 9, 1)).is_ok());
    for tags in [&[][..], &[0x81, 0, 0, 8]] {
        let dropped = ask(&mut of_vlan, &arp(tags, 1, 9, 1));
        assert_eq!(dropped, Err(ResponderDrop::NotOurs));
    }
}

#[test]
fn what_is_no_question_for_an_address_of_a_client_is_not_answered() {
    let mut responder = responder();
    assert_eq!(
        ask(&mut responder, &arp(&[], 1, 9, 2)),
        Err(ResponderDrop::NotOurs)
    );
    assert_eq!(
        ask(&mut responder, &arp(&[], 2, 9, 1)),
        Err(ResponderDrop::NoQuestion)
    );
    assert_eq!(
        ask(&mut responder, &arp(&[], 1, 9, 9)),
        Err(ResponderDrop::Gratuitous)
    );
    assert_eq!(
        ask(&mut responder, &arp(&[], 2, 1, 1)),
        Err(ResponderDrop::Conflict)
    );
    // A client's own announcement, which came back.
    let mut own = arp(&[], 2, 1, 1);
    own[22..28].copy_from_slice(&MAC.0);
    assert_eq!(ask(&mut responder, &own), Err(ResponderDrop::Gratuitous));
    let whole = arp(&[], 1, 9, 1);
    for end in 0..whole.len() {
        assert_eq!(
            ask(&mut responder, &whole[..end]),
            Err(ResponderDrop::Malformed)
        );
    }
    // A sender that would have the answer go to a group.
    for at in [6, 22] {
        let mut group = whole.clone();
        group[at] = 0xff;
        assert_eq!(ask(&mut responder, &group), Err(ResponderDrop::Malformed));
    }
    let mut ip = whole.clone();
    ip[13] = 0;
    assert_eq!(ask(&mut responder, &ip), Err(ResponderDrop::NoQuestion));
    responder.remove_client(A);
    assert_eq!(ask(&mut responder, &whole), Err(ResponderDrop::NotOurs));
}

/// The sum of RFC 1071 over a pseudo header and a message, folded after each word.
fn sum(packet: &[u8]) -> u16 {
    let length = (packet.len() - 40) as u32;
    let pseudo = [&packet[8..40], &length.to_be_bytes(), &[0, 0, 0, 58]].concat();
    let words = pseudo.chunks(2).chain(packet[40..].chunks(2));
    let sum = words.fold(0_u16, |sum, word| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([
            word[0],
            word.get(1).copied().unwrap_or(0),
        ]));
        sum + u16::from(carry)
    });
    !sum
}

/// A neighbour solicitation for fe80::1, with a sound checksum.
fn solicitation(
    source: &str,
    destination: &str,
    options: &[u8],
    change: impl Fn(&mut [u8]),
) -> Vec<u8> {
    let ip = |text: &str| text.parse::<core::net::Ipv6Addr>().unwrap().octets();
    let mut packet = vec![0x60, 0, 0, 0, 0, 24 + options.len() as u8, 58, 255];
    packet.extend(ip(source));
    packet.extend(ip(destination));
    packet.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend(ip("fe80::1"));
    packet.extend(options);
    change(&mut packet);
    let sum = sum(&packet).to_be_bytes();
    packet[42..44].copy_from_slice(&sum);
    [
        &[0x33, 0x33, 0xff, 0, 0, 1],
        &ASKER[..],
        &[0x86, 0xdd],
        &packet,
    ]
    .concat()
}

/// The checksum of the answer below, as a few lines of Python say, which share no code with what is tested.
const GOLDEN_SUM: [u8; 2] = [0x18, 0x15];
const GROUP: &str = "ff02::1:ff00:1";
const OPTION: [u8; 8] = [1, 1, 2, 0, 0, 0, 0, 7];

/// Bytes written by hand after section 4.4 of RFC 4861.
#[test]
fn golden_answer_of_neighbour_discovery() {
    let frame = solicitation("fe80::9", GROUP, &OPTION, |_| {});
    let answer = ask(&mut responder(), &frame).unwrap();
    let mut golden = vec![2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    golden.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
    golden.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    golden.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    golden.extend([136, 0, answer[56], answer[57], 0x60, 0, 0, 0]);
    golden.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    golden.extend([2, 1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(answer, golden);
    assert_eq!(answer[56..58], GOLDEN_SUM);
    assert_eq!(sum(&answer[14..]), 0);
}

#[test]
fn an_address_that_another_station_wants_to_take_is_defended_before_all() {
    let frame = solicitation("::", GROUP, &[], |_| {});
    let answer = ask(&mut responder(), &frame).unwrap();
    assert_eq!(answer[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(
        answer[38..54],
        [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    );
    assert_eq!((answer[58], sum(&answer[14..])), (0x20, 0));
    // Without its own address in an option, the one of the frame.
    let frame = solicitation("fe80::9", GROUP, &[], |_| {});
    assert_eq!(ask(&mut responder(), &frame).unwrap()[..6], ASKER);
}

#[test]
fn a_solicitation_that_breaks_a_rule_is_malformed() {
    let mut responder = responder();
    let mut malformed = |frame: Vec<u8>| {
        assert_eq!(
            ask(&mut responder, &frame),
            Err(ResponderDrop::Malformed),
            "{frame:02x?}"
        );
    };
    malformed(solicitation("fe80::9", GROUP, &OPTION, |packet| {
        packet[7] = 254
    }));
    malformed(solicitation("fe80::9", GROUP, &OPTION, |packet| {
        packet[41] = 1
    }));
    malformed(solicitation("fe80::9", GROUP, &OPTION, |packet| {
        packet[48] = 0xff
    }));
    malformed(solicitation("fe80::9", GROUP, &OPTION, |packet| {
        packet[65] = 0
    }));
    malformed(solicitation("fe80::9", GROUP, &OPTION, |packet| {
        packet[65] = 2
    }));
    malformed(solicitation("fe80::9", GROUP, &OPTION, |packet| {
        packet[66] = 3
    }));
    malformed(solicitation("ff02::9", GROUP, &OPTION, |_| {}));
    malformed(solicitation("::", GROUP, &OPTION, |_| {}));
    malformed(solicitation("::", "fe80::1", &[], |_| {}));
    malformed(solicitation("fe80::9", GROUP, &OPTION[..1], |_| {}));
    let mut sum = solicitation("fe80::9", GROUP, &OPTION, |_| {});
    sum[57] ^= 1;
    malformed(sum);
    let whole = solicitation("fe80::9", GROUP, &OPTION, |_| {});
    (0..whole.len()).for_each(|end| malformed(whole[..end].to_vec()));
    let other = solicitation("fe80::9", GROUP, &OPTION, |packet| packet[63] = 2);
    assert_eq!(ask(&mut responder, &other), Err(ResponderDrop::NotOurs));
    let echo = solicitation("fe80::9", GROUP, &OPTION, |packet| packet[40] = 128);
    assert_eq!(ask(&mut responder, &echo), Err(ResponderDrop::NoQuestion));
}

#[test]
fn an_address_belongs_to_one_client() {
    let mut responder = responder();
    let ip: IpAddr = [10, 0, 0, 1].into();
    let other = Address {
        client: ClientId::new(1),
        ip,
        mac: MAC,
        vlan: None,
    };
    assert_eq!(
        responder.add(other),
        Err(AddressError::Taken { ip, holder: A })
    );
    for (ip, mac) in [
        ([224, 0, 0, 1], MAC),
        ([0, 0, 0, 0], MAC),
        ([10, 0, 0, 5], Mac::BROADCAST),
    ] {
        let ip = ip.into();
        let error = AddressError::NoStation { ip, mac };
        assert_eq!(
            responder.add(Address {
                client: A,
                ip,
                mac,
                vlan: None
            }),
            Err(error)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Good questions with some bytes changed: what is answered is answered for an address of a client.
    #[test]
    fn no_answer_for_an_address_that_no_client_has(
        is_arp: bool,
        changes in proptest::collection::vec((0..90_usize, any::<u8>()), 0..3),
    ) {
        let mut frame = if is_arp { arp(&[], 1, 9, 1) } else { solicitation("fe80::9", GROUP, &OPTION, |_| {}) };
        for (at, byte) in changes {
            let length = frame.len();
            frame[at % length] = byte;
        }
        if let Ok(answer) = ask(&mut responder(), &frame) {
            prop_assert_eq!(&answer[6..12], &MAC.0[..]);
            let told = if answer[13] == 6 { &answer[28..32] } else { &answer[62..78] };
            let ours: [&[u8]; 2] = [&[10, 0, 0, 1], &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]];
            prop_assert!(ours.contains(&told), "{told:?}");
            prop_assert!(answer[0] & 1 == 0 || answer[..6] == [0x33, 0x33, 0, 0, 0, 1]);
        }
    }
}
