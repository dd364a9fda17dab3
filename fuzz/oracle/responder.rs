//! What must hold of the responder for any frame. Shared by the fuzz target and by the test that replays its corpus.
//!
//! No panic; each frame is answered or dropped by a reason, and counted once; an answer is from the address that a client has, tells that address and no
//! other one, has the tags of the question, and goes to no group but that of all stations of IPv6. The classifier has a verdict on it, too.

use forebay_mux::classify::Classifier;
use forebay_mux::responder::{ANSWER_BYTES_MAX, Address, Responder};
use forebay_mux::{ClientId, Mac};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const FOUR: [u8; 4] = [10, 0, 0, 1];
/// fe80::1.
const SIX: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Bytes of a frame's header with its tags, as the answer has them.
fn header_bytes(answer: &[u8]) -> usize {
    let is_tag = |at: usize| matches!(answer[at..at + 2], [0x81, 0] | [0x88, 0xa8] | [0x91, 0]);
    let mut at = 12;
    while is_tag(at) {
        at += 4;
    }
    at + 2
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let client = ClientId::new(7);
    let mut responder = Responder::default();
    for ip in [FOUR.into(), SIX.into()] {
        let address = Address {
            client,
            ip,
            mac: MAC,
            vlan: None,
        };
        responder.add(address).expect("an address of a station");
    }
    let classifier = Classifier::new(&[], &[]).expect("no rules");
    let _ = classifier.classify(bytes);
    let mut room = [0xee; ANSWER_BYTES_MAX];
    let answer = responder.handle_frame(bytes, &mut room).map(<[u8]>::to_vec);
    let counts = responder.counts();
    assert_eq!(counts.asked, 1);
    assert_eq!(counts.answered + counts.dropped.total(), 1);
    let Ok(answer) = answer else {
        return;
    };
    assert_eq!(answer[6..12], MAC.0);
    let header = header_bytes(&answer);
    assert_eq!(answer[12..header], bytes[12..header]);
    let body = &answer[header..];
    if answer[header - 2..header] == [8, 6] {
        assert_eq!((&body[6..8], &body[14..18]), (&[0, 2][..], &FOUR[..]));
        assert_eq!(answer[0] & 1, 0);
    } else {
        assert_eq!(
            (body[40], &body[48..64], &body[8..24]),
            (136, &SIX[..], &SIX[..])
        );
        assert!(answer[0] & 1 == 0 || answer[..6] == [0x33, 0x33, 0, 0, 0, 1]);
    }
}
