#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use forebay_wire::felix::{Generated, TtcMessage};

use super::*;

fn chunk(l1id: u8) -> Vec<u8> {
    let mut chunk = vec![0; 40];
    let generated = Generated {
        first: 0xaa,
        l1id,
        elink: 0,
        width: 16,
    };
    assert!(generated.emit(&mut chunk));
    chunk
}

fn tag(connector: u16, link: u16) -> u64 {
    Fid::to_host(0, connector, Elink::of_link(link).unwrap()).0
}

fn table() -> Table {
    Table::new(Payload::Generated, &[], None)
}

#[test]
fn every_e_link_has_numbers_of_its_own() {
    let mut table = table();
    for l1id in 0..=255 {
        for link in 0..24 {
            if link != 3 || l1id != 7 {
                table.handle_chunk(tag(1, link), 0, &chunk(l1id));
            }
        }
    }
    table.handle_chunk(tag(1, 5), 0, &chunk(255));
    let report = table.report();
    assert_eq!(report.len(), 24);
    let sound = |one: &ElinkReport| (one.chunks, one.missing, one.repeated) == (256, 0, 0);
    assert_eq!(report.iter().filter(|one| sound(one)).count(), 22);
    assert_eq!(
        (report[3].chunks, report[3].missing, report[3].jumps),
        (255, 1, 1)
    );
    assert_eq!(
        (report[5].chunks, report[5].repeated, report[5].bytes),
        (257, 1, 257 * 40)
    );
    assert_eq!((report[3].connector, report[3].elink), (1, 3 << 6));
    assert_eq!(table.sums(), [24 * 256, 24 * 256 * 40]);
}

#[test]
fn status_and_payload_are_counted_by_bit_and_reason() {
    let mut table = table();
    let (one, trigger) = (tag(0, 0), tag(0, 24));
    table.handle_chunk(one, 0x09, &chunk(0)[..20]);
    table.handle_chunk(one, 0xe0, &chunk(1));
    let mut wrong = chunk(2);
    wrong[30] ^= 1;
    table.handle_chunk(one, 0, &wrong);
    table.handle_chunk(one, 0, &chunk(3)[..7]);
    table.handle_chunk(one, 0, &chunk(4));
    let message = |l1id| {
        let message = TtcMessage {
            l1id,
            l0id: l1id,
            ..TtcMessage::default()
        };
        message.emit()
    };
    for l1id in [0, 1, 5] {
        table.handle_chunk(trigger, 0, &message(l1id));
    }
    table.handle_chunk(trigger, 0, &message(6)[..20]);
    // Each chunk is sound or wrong by one reason, with its bytes.
    let Outcomes { sound, wrong } = table.outcomes;
    assert_eq!(sound, [6, 20 + 2 * 40 + 3 * message(0).len() as u64]);
    let reasons = wrong.iter().filter(|(_, sum)| *sum != [0; 2]);
    let reasons: Vec<_> = reasons.map(|(why, sum)| (why.name(), sum)).collect();
    let expected = [("short", [1, 7]), ("ramp", [1, 40]), ("ttc_bytes", [1, 20])];
    assert_eq!(reasons, expected);
    let [first, second] = table.report().try_into().unwrap();
    let flagged: Vec<_> = first.flagged.into_iter().collect();
    let expected = [
        ("fw_busy", 1),
        ("fw_crc", 1),
        ("fw_truncated", 1),
        ("other", 2),
    ];
    assert_eq!(flagged, expected);
    let bad: Vec<_> = first.bad_payload.into_iter().collect();
    assert_eq!(bad, [("ramp", 1), ("short", 1)]);
    assert_eq!(first.missing, 0, "what cannot be read is one that came");
    assert_eq!((second.missing, second.jumps), (3, 1));
    assert_eq!(
        second.bad_payload.into_iter().collect::<Vec<_>>(),
        [("ttc_bytes", 1)]
    );
}

#[test]
fn any_tag_is_counted_and_memory_is_bounded() {
    let mut table = table();
    let tags = (0..70_000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for tag in tags.clone().chain(tags) {
        table.handle_chunk(tag, 0, &chunk(9));
    }
    assert_eq!(table.sums()[0], 140_000);
    let report = table.report();
    assert_eq!(report.len(), ELINKS_MAX + 1);
    let told_apart = |one: &&ElinkReport| one.fid.is_some() && one.repeated == 1;
    assert_eq!(report.iter().filter(told_apart).count(), ELINKS_MAX);
    let rest = report.last().unwrap();
    assert_eq!(
        (&rest.fid, rest.chunks),
        (&None, 140_000 - 2 * ELINKS_MAX as u64)
    );
    assert_eq!(rest.repeated, 0, "nothing is known of which follows which");
}

#[test]
fn what_was_asked_for_is_told_though_nothing_came_and_has_its_place_in_fragments() {
    let tags = [tag(0, 1), tag(0, 0)];
    let mut table = Table::new(Payload::Generated, &tags, Some(Fragments::new(2, 0)));
    for l1id in 0..100 {
        table.handle_chunk(tags[1], 0, &chunk(l1id));
        table.handle_chunk(tag(0, 9), 0, &chunk(l1id));
    }
    table.fragments.as_mut().unwrap().finish(true);
    let report = table.report();
    let missed: Vec<_> = report
        .iter()
        .map(|one| (one.chunks, one.fragments_missed))
        .collect();
    assert_eq!(missed, [(100, Some(0)), (0, Some(100)), (100, None)]);
}

#[test]
fn nothing_is_held_against_what_is_not_to_be_checked() {
    let mut table = Table::new(Payload::None, &[], None);
    table.handle_chunk(tag(0, 0), 0, b"anything");
    table.handle_chunk(tag(0, 0), 0, b"else");
    let report = table.report();
    assert!(report[0].bad_payload.is_empty() && report[0].jumps == 0);
}
