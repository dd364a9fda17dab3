//! Files as a card writes them, with every kind of damage.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use forebay_wire::felix::{BlockWriter, Flags, Generated};
use proptest::prelude::*;

use super::*;

mod payloads;

const LINK: u16 = 64;

fn elink(number: u16) -> Elink {
    Elink::new(number).unwrap()
}

fn wide() -> BlockFormat {
    BlockFormat::phase2(1024).unwrap()
}

/// A block whose subchunks are given.
fn block(format: BlockFormat, link: u16, sequence: u8, parts: &[(Kind, &[u8])]) -> Vec<u8> {
    let mut block = vec![0; format.bytes()];
    let mut writer = BlockWriter::begin(format, elink(link), sequence, &mut block).unwrap();
    for (kind, data) in parts {
        let place = writer.reserve(*kind, Flags::NONE, data.len()).unwrap();
        place.copy_from_slice(data);
    }
    writer.close();
    block
}

/// A generated chunk.
fn chunk(l1id: u8, bytes: usize) -> Vec<u8> {
    let mut chunk = vec![0; bytes];
    let generated = Generated {
        first: 0xaa,
        l1id,
        elink: 0,
        width: 16,
    };
    assert!(generated.emit(&mut chunk));
    chunk
}

/// Blocks of one E-link, each with two generated chunks.
fn blocks(format: BlockFormat, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| {
            let (first, second) = (chunk(number as u8 * 2, 40), chunk(number as u8 * 2 + 1, 9));
            let parts = [(Kind::Both, first.as_slice()), (Kind::Both, &second)];
            block(format, LINK, (number % 32) as u8, &parts)
        })
        .collect()
}

fn check(file: &[u8], settings: &Settings) -> Result<Report, CheckError> {
    let mut from = file;
    let report = Check::run(&mut from, settings, &mut Quiet)?;
    let framed = report.blocks * report.block_bytes + report.skipped_bytes + report.tail_bytes;
    assert_eq!(framed, file.len() as u64, "{report:?}");
    assert_eq!(report.bytes, file.len() as u64);
    assert!(report.residual.is_zero(), "{:?}", report.residual);
    let chunks: u64 = report.elinks.iter().map(|link| link.chunks).sum();
    assert_eq!(report.chunks, chunks);
    Ok(report)
}

/// Errors by kind, by the default settings.
fn errors(file: &[u8]) -> Vec<(&'static str, u64)> {
    let report = check(file, &Settings::default()).unwrap();
    assert_eq!(
        report.first_errors.len() as u64,
        report.error_count().min(20)
    );
    report.errors.into_iter().collect()
}

fn with_parts(parts: &[(Kind, &[u8])]) -> Vec<u8> {
    block(wide(), LINK, 0, parts)
}

#[test]
fn a_sound_file_of_every_format_is_told_by_e_link() {
    let mut formats = vec![BlockFormat::PHASE1, BlockFormat::PHASE1_WIDE];
    formats.extend((1..=16).map(|kib| BlockFormat::phase2(kib << 10).unwrap()));
    for format in formats {
        for has_headers in [false, true] {
            let written = if has_headers {
                format.with_headers()
            } else {
                format
            };
            let file = blocks(written, 100).concat();
            let settings = Settings {
                has_headers,
                ..Settings::default()
            };
            let report = check(&file, &settings).unwrap();
            assert!(report.is_sound(), "{format}: {report:?}");
            assert_eq!(report.blocks_format, written.to_string());
            assert_eq!(
                (report.blocks, report.chunks, report.chunk_bytes),
                (100, 200, 4900)
            );
            let [link] = report.elinks.as_slice() else {
                panic!("{report:?}");
            };
            assert_eq!((link.elink, link.blocks, link.chunks), (LINK, 100, 200));
            assert_eq!((link.chunk_bytes_min, link.chunk_bytes_max), (9, 40));
            assert!((link.chunk_bytes_mean - 24.5).abs() < 1e-9);
            assert_eq!(link.subchunks["both"], 200);
        }
    }
}

#[test]
fn a_wrong_marker_costs_one_block_and_shows_as_a_gap() {
    for at in [0, 2, 9] {
        let mut file = blocks(wide(), 10);
        file[at][3] ^= 0xff;
        let expected: &[_] = match at {
            // Nothing was there before the first one, nothing comes after the last one.
            0 | 9 => &[("marker", 1)],
            _ => &[("gap", 1), ("l1id_jump", 1), ("marker", 1)],
        };
        assert_eq!(errors(&file.concat()), expected, "{at}");
    }
}

#[test]
fn markers_that_are_wrong_in_a_row_are_blocks_all_the_same() {
    let mut file = blocks(wide(), 10);
    for block in &mut file[3..6] {
        block[2] ^= 0xff;
    }
    let found = errors(&file.concat());
    assert_eq!(found, [("gap", 1), ("l1id_jump", 1), ("marker", 3)]);
}

#[test]
fn a_missing_block_is_a_gap_with_both_sequence_numbers() {
    let mut file = blocks(wide(), 10);
    file.drain(3..5);
    let report = check(&file.concat(), &Settings::default()).unwrap();
    assert_eq!(report.missing_blocks, 2);
    assert_eq!(report.elinks[0].gaps, 1);
    let told: Vec<String> = report
        .first_errors
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        told,
        [
            "at 3072, E-link 0x040: l1id_jump: 4 trigger numbers missing",
            "at 3072, E-link 0x040: gap: sequence 5, expected 3: at least 2 missing"
        ]
    );
}

#[test]
fn a_block_that_is_not_tiled_and_one_of_no_kind_are_told_apart() {
    let mut file = blocks(wide(), 10);
    let end = file[3].len();
    file[3][end - 4..].copy_from_slice(&0xa000_fff0_u32.to_le_bytes());
    file[6][end - 4..].copy_from_slice(&0xc000_0000_u32.to_le_bytes());
    let found = errors(&file.concat());
    assert_eq!(
        found,
        [
            ("block_undefined_kind", 1),
            ("l1id_jump", 2),
            ("untiled", 1)
        ]
    );
}

#[test]
fn parts_of_chunks_that_do_not_fit_are_told_by_name() {
    let sound = chunk(1, 40);
    let both = (Kind::Both, sound.as_slice());
    let first = (Kind::First, &b"begins"[..]);
    for (parts, expected) in [
        (
            &[both, (Kind::Middle, b"no"), (Kind::Last, b"no")][..],
            ("orphan", 2),
        ),
        (&[first, both], ("unended", 1)),
        (
            &[first, (Kind::Undefined, b"no"), both],
            ("undefined_kind", 1),
        ),
        (&[both, first], ("unfinished", 1)),
    ] {
        assert_eq!(errors(&with_parts(parts)), [expected]);
    }
    let mut file = [with_parts(&[first]), with_parts(&[both])];
    file[1][0..2].copy_from_slice(&(LINK | 1 << 11).to_le_bytes());
    let end = file[1].len();
    file[1][end - 4..].fill(0xbf);
    assert_eq!(errors(&file.concat()), [("interrupted", 1), ("untiled", 1)]);
}

#[test]
fn a_chunk_beyond_the_limit_is_too_long() {
    let file = with_parts(&[(Kind::First, &[0; 300]), (Kind::Last, &[0; 300])]);
    let settings = Settings {
        chunk_bytes_max: 500,
        ..Settings::default()
    };
    let report = check(&file, &settings).unwrap();
    assert_eq!(
        report.errors.into_iter().collect::<Vec<_>>(),
        [("too_long", 1)]
    );
    assert_eq!(
        (report.chunk_bytes, report.flagged["sw_truncated"]),
        (500, 1)
    );
}

#[test]
fn a_file_that_ends_within_a_block_has_a_tail() {
    let mut file = blocks(wide(), 3).concat();
    file.truncate(3072 - 7);
    let report = check(&file, &Settings::default()).unwrap();
    assert_eq!((report.blocks, report.tail_bytes), (2, 1017));
    assert_eq!(report.errors["tail"], 1);
    assert_eq!(report.first_errors[0].offset, 2048);
}

#[test]
fn bytes_that_are_missing_or_too_many_are_skipped_to_the_next_block() {
    let sound = blocks(wide(), 20).concat();
    for (at, inserted, skipped, damaged) in [
        // Between two blocks, at the front, and at the end.
        (5120, 33, 33, 0),
        (0, 5, 5, 0),
        (20_480, 2000, 2000 % 1024, 1),
        // Within a block, behind its subchunks: it ends elsewhere.
        (5120 + 900, 100, 100, 1),
        // More than is looked at in one piece.
        (5120, 3_000_001, 3_000_001, 0),
    ] {
        let mut file = sound.clone();
        file.splice(at..at, vec![0x11; inserted]);
        let report = check(&file, &Settings::default()).unwrap();
        assert_eq!(
            report.skipped_bytes + report.tail_bytes,
            skipped,
            "{at} {report:?}"
        );
        assert_eq!(
            report.blocks,
            20 + damaged - u64::from(at == 6020),
            "{at} {report:?}"
        );
        let lost = report.errors.get("resync").or(report.errors.get("tail"));
        assert_eq!(lost, Some(&1), "{at} {report:?}");
    }
    // Bytes of one block are missing: what is left of it is skipped.
    for (at, missing) in [(5120, 1), (5120 + 4, 8), (5120 + 1000, 24)] {
        let mut file = sound.clone();
        file.drain(at..at + missing);
        let report = check(&file, &Settings::default()).unwrap();
        assert_eq!(
            report.skipped_bytes,
            1024 - missing as u64,
            "{at} {report:?}"
        );
        assert_eq!((report.blocks, report.errors["resync"]), (19, 1));
        assert_eq!(report.errors["gap"], 1);
    }
}

#[test]
fn flags_of_the_firmware_are_counted_and_are_no_errors() {
    let mut file = vec![0; 1024];
    let mut writer = BlockWriter::begin(wide(), elink(LINK), 0, &mut file).unwrap();
    let mut cut = chunk(0, 40);
    cut.truncate(20);
    writer
        .push(&cut, 0, Flags::TRUNCATED.and(Flags::CRC))
        .unwrap();
    writer.push(&chunk(1, 40), 0, Flags::BUSY).unwrap();
    writer.close();
    let report = check(&file, &Settings::default()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.elinks[0].flagged, 2);
    let flagged: Vec<_> = report.flagged.into_iter().collect();
    assert_eq!(
        flagged,
        [("fw_busy", 1), ("fw_crc", 1), ("fw_truncated", 1)]
    );
}

#[test]
fn e_links_that_were_not_asked_for_are_not_told() {
    let mut file = blocks(wide(), 4);
    file.remove(2);
    for sequence in 0..3 {
        file.push(block(
            wide(),
            3,
            sequence,
            &[(Kind::Both, &chunk(sequence, 9))],
        ));
    }
    let only = |number: u16| {
        let settings = Settings {
            elinks: vec![elink(number)],
            ..Settings::default()
        };
        check(&file.concat(), &settings).unwrap()
    };
    let report = only(3);
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(
        (report.blocks, report.chunks, report.missing_blocks),
        (6, 3, 0)
    );
    assert_eq!(only(LINK).errors["gap"], 1);
    assert_eq!(only(9).elinks.len(), 0);
}

#[test]
fn what_has_no_blocks_is_no_report() {
    assert!(matches!(
        check(&[], &Settings::default()),
        Err(CheckError::Empty)
    ));
    for file in [vec![0x11; 5000], vec![0xab; 3], b"HLD".repeat(1000)] {
        let error = check(&file, &Settings::default()).unwrap_err();
        assert!(matches!(error, CheckError::NoBlock { .. }), "{error}");
    }
    let settings = Settings {
        blocks: Some(BlockFormat::PHASE1),
        ..Settings::default()
    };
    let error = check(&blocks(wide(), 10).concat(), &settings).unwrap_err();
    assert!(error.to_string().contains("no --blocks"), "{error}");
}

/// Shows what it is shown.
#[derive(Default)]
struct Shown {
    blocks: Vec<(u64, usize, Option<&'static str>)>,
    chunks: Vec<(u64, Vec<u8>)>,
    read: u64,
}

impl Watch for Shown {
    fn wants_blocks(&self) -> bool {
        self.blocks.len() < 3
    }

    fn block(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let error = seen.error.map(|error| error.reason());
        self.blocks.push((seen.offset, seen.subchunks.len(), error));
        Ok(())
    }

    fn wants_chunks(&self) -> bool {
        true
    }

    fn chunk(&mut self, offset: u64, _: Elink, _: Status, chunk: &[u8]) -> io::Result<()> {
        self.chunks.push((offset, chunk.to_vec()));
        Err(io::Error::other("enough"))
    }

    fn read(&mut self, bytes: u64) {
        self.read = bytes;
    }
}

#[test]
fn who_watches_is_shown_blocks_and_chunks_and_can_end_it() {
    let mut file = blocks(wide(), 5);
    file[0][2] ^= 1;
    let file = file.concat();
    let mut shown = Shown::default();
    let settings = Settings::default();
    let error = Check::run(&mut file.as_slice(), &settings, &mut shown).unwrap_err();
    assert!(matches!(error, CheckError::Watch(_)));
    // Two chunks, and one that is filling.
    assert_eq!(shown.blocks, [(0, 0, Some("marker")), (1024, 3, None)]);
    assert_eq!(shown.chunks[0], (1024, chunk(2, 40)));
    assert_eq!(shown.read, 5120);
}

proptest! {
    #[test]
    fn whatever_comes_every_byte_is_accounted(
        count in 1..80_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, 0..3000_usize, any::<u8>()), 0..12),
        kib in 1..4_usize,
        given in any::<bool>(),
    ) {
        let format = BlockFormat::phase2(kib << 10).unwrap();
        let mut file = blocks(format, count).concat();
        for (place, what, bytes, value) in damage {
            if file.is_empty() {
                break;
            }
            let at = place.index(file.len());
            let end = (at + bytes).min(file.len());
            match what {
                0 => { file.drain(at..end); }
                1 => { file.splice(at..at, std::iter::repeat_n(value, bytes)); }
                2 => file[at..end].fill(value),
                _ => file[at] ^= value,
            }
        }
        let blocks = given.then_some(format);
        match check(&file, &Settings { blocks, ..Settings::default() }) {
            Ok(report) => prop_assert!(report.first_errors.len() <= 20),
            Err(error) => {
                let has_none = matches!(error, CheckError::NoBlock { .. } | CheckError::Empty);
                prop_assert!(has_none, "{}", error);
            }
        }
    }

    #[test]
    fn garbage_stops_nothing(file in prop::collection::vec(any::<u8>(), 0..5000), marker in any::<bool>()) {
        let mut file = file;
        if marker {
            // Something that looks like heads.
            for at in (0..file.len().saturating_sub(4)).step_by(512) {
                file[at + 2..at + 4].copy_from_slice(&[0xcd, 0xab]);
            }
        }
        for blocks in [None, Some(BlockFormat::PHASE1)] {
            let _ = check(&file, &Settings { blocks, ..Settings::default() });
        }
    }
}
