//! Chunks that are not what they should be.

use forebay_wire::felix::TtcMessage;

use super::*;

#[test]
fn wrong_payloads_are_told_by_what_is_wrong() {
    let good = [chunk(0, 40), chunk(1, 40), chunk(2, 40)];
    let with = |change: fn(&mut Vec<u8>)| {
        let mut chunks = good.clone();
        change(&mut chunks[1]);
        let parts: Vec<(Kind, &[u8])> = chunks.iter().map(|one| (Kind::Both, &one[..])).collect();
        errors(&with_parts(&parts))
    };
    assert_eq!(with(|_| {}), []);
    assert_eq!(with(|chunk| chunk[30] = 0), [("payload_ramp", 1)]);
    assert_eq!(with(|chunk| chunk.truncate(39)), [("payload_length", 1)]);
    assert_eq!(with(|chunk| chunk.truncate(7)), [("payload_short", 1)]);
    assert_eq!(with(|chunk| chunk[5] = 0), [("payload_head", 1)]);
    assert_eq!(with(|chunk| chunk[3] = 7), [("l1id_jump", 2)]);
    assert_eq!(
        with(|chunk| chunk[3] = 0),
        [("l1id_jump", 1), ("l1id_repeat", 1)]
    );
}

#[test]
fn what_is_held_against_what_can_be_chosen() {
    let other = with_parts(&[(Kind::Both, b"no generator made this")]);
    for (payload, expected) in [
        (Payload::Auto, &[][..]),
        (Payload::None, &[]),
        (Payload::Generated, &[("payload_head", 1)]),
        (Payload::Ttc, &[("ttc_bytes", 1)]),
    ] {
        let settings = Settings {
            payload,
            ..Settings::default()
        };
        let report = check(&other, &settings).unwrap();
        assert_eq!(report.errors.into_iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn messages_about_triggers_are_read_and_follow_each_other() {
    let message = |l1id: u32, resets| {
        let message = TtcMessage {
            l1id,
            l0id: l1id,
            resets,
            ..TtcMessage::default()
        };
        message.emit().to_vec()
    };
    let with = |messages: &[Vec<u8>]| {
        let parts: Vec<(Kind, &[u8])> = messages.iter().map(|one| (Kind::Both, &one[..])).collect();
        errors(&block(wide(), Elink::TTC_TO_HOST.number(), 0, &parts))
    };
    assert_eq!(
        with(&[message(0xff_ffff, 0), message(0, 0), message(0, 1)]),
        []
    );
    assert_eq!(with(&[message(1, 0), message(9, 0)]), [("l1id_jump", 1)]);
    assert_eq!(with(&[message(1, 0), message(1, 0)]), [("l1id_repeat", 1)]);
    let mut wrong = message(2, 0);
    wrong[16] = 0;
    assert_eq!(
        with(&[message(1, 0), wrong.clone(), message(3, 0)]),
        [("ttc_numbers", 1)]
    );
    wrong[0] = 1;
    assert_eq!(with(&[wrong]), [("ttc_format", 1)]);
    assert_eq!(with(&[vec![2; 20]]), [("ttc_bytes", 1)]);
}
