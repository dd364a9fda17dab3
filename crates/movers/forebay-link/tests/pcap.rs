//! Captures made by hand, byte by byte, and the shared vectors.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::{self, Cursor, Read, Write};
use std::path::PathBuf;

use forebay_link::pcap::{Capture, CaptureError, Captured, Skip};
use forebay_wire::pcapng;
use proptest::prelude::*;

const PAYLOAD: &[u8] = b"twenty bytes of load";

/// 10.0.0.1:50000 → 10.0.0.2:50001 over IPv4.
fn ipv4(payload: &[u8]) -> Vec<u8> {
    let udp = [
        &[0xc3, 0x50, 0xc3, 0x51][..],
        &(payload.len() as u16 + 8).to_be_bytes(),
        &[0, 0],
        payload,
    ]
    .concat();
    ipv4_part(&udp, 0)
}

fn ipv4_part(body: &[u8], flags_and_offset: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((body.len() as u16 + 20).to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(flags_and_offset.to_be_bytes());
    packet.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(body);
    packet
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &[0x08, 0x00], packet].concat()
}

/// How a classic file is written.
#[derive(Clone, Copy)]
struct Classic {
    big: bool,
    magic: u32,
    link_type: u32,
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

impl Classic {
    fn word(self, value: u32) -> [u8; 4] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn half(self, value: u16) -> [u8; 2] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn header(self) -> Vec<u8> {
        let mut file = self.word(self.magic).to_vec();
        file.extend(self.half(2));
        file.extend(self.half(4));
        for value in [0, 0, 65_535, self.link_type] {
            file.extend(self.word(value));
        }
        file
    }

    fn packet(self, frame: &[u8], original: usize) -> Vec<u8> {
        let mut record = Vec::new();
        for value in [1_700_000_000, 123_456, frame.len() as u32, original as u32] {
            record.extend(self.word(value));
        }
        record.extend(frame);
        record
    }

    fn file(self, frames: &[Vec<u8>]) -> Vec<u8> {
        let packets = frames
            .iter()
            .flat_map(|frame| self.packet(frame, frame.len()));
        self.header().into_iter().chain(packets).collect()
    }
}

const LITTLE: Classic = Classic {
    big: false,
    magic: MICROSECONDS,
    link_type: 1,
};

fn read(file: Vec<u8>) -> (Vec<Captured>, Capture, Option<CaptureError>) {
    let mut capture = Capture::new(Cursor::new(file)).unwrap();
    let mut all = Vec::new();
    loop {
        match capture.next_datagram() {
            Ok(Some(captured)) => all.push(captured),
            Ok(None) => return (all, capture, None),
            Err(error) => return (all, capture, Some(error)),
        }
    }
}

#[test]
fn classic_files_of_both_byte_orders_and_resolutions() {
    for big in [false, true] {
        for (magic, fraction_ns) in [(MICROSECONDS, 123_456_000), (NANOSECONDS, 123_456)] {
            let (all, capture, error) = read(
                Classic {
                    big,
                    magic,
                    link_type: 1,
                }
                .file(&[ethernet(&ipv4(PAYLOAD))]),
            );
            assert!(error.is_none(), "{error:?}");
            let expected = Captured {
                packet: 1,
                timestamp_ns: 1_700_000_000_000_000_000 + fraction_ns,
                from: "10.0.0.1:50000".parse().unwrap(),
                to: "10.0.0.2:50001".parse().unwrap(),
                payload: PAYLOAD.to_vec(),
            };
            assert_eq!(all, [expected], "big-endian: {big}");
            assert_eq!(capture.counters().payload_bytes, PAYLOAD.len() as u64);
        }
    }
}

#[test]
fn pcapng_with_its_own_resolution() {
    let block = |kind: u32, body: &[u8]| {
        let total = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &total, body, &total].concat()
    };
    let section = block(
        0x0a0d_0d0a,
        &[
            &0x1a2b_3c4d_u32.to_le_bytes()[..],
            &[1, 0, 0, 0],
            &[0xff; 8],
        ]
        .concat(),
    );
    // Raw IP; option 9 (time resolution) = nanoseconds, then the end of options.
    let interface = block(
        1,
        &[101, 0, 0, 0, 0, 0, 1, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0],
    );
    let mut packet = ipv4(&PAYLOAD[..19]);
    let length = (packet.len() as u32).to_le_bytes();
    packet.resize(packet.len().next_multiple_of(4), 0xee);
    let stamp = 1_700_000_000_000_000_007_u64;
    let (high, low) = (
        ((stamp >> 32) as u32).to_le_bytes(),
        (stamp as u32).to_le_bytes(),
    );
    let enhanced = block(
        6,
        &[&[0; 4][..], &high, &low, &length, &length, &packet].concat(),
    );
    let (all, capture, error) = read([section, interface, enhanced].concat());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        (all.len(), all[0].timestamp_ns, &all[0].payload[..]),
        (1, stamp, &PAYLOAD[..19])
    );
    assert_eq!(capture.counters().packets, 1);
}

#[test]
fn fragments_are_put_together_and_a_missing_one_is_told() {
    let whole = ipv4(&[7; 3_000]);
    let udp = &whole[20..];
    let first = ethernet(&ipv4_part(&udp[..1_480], 0x2000));
    let last = ethernet(&ipv4_part(&udp[2_960..], 370));
    let middle = ethernet(&ipv4_part(&udp[1_480..2_960], 0x2000 | 185));
    let (all, capture, _) = read(LITTLE.file(&[first.clone(), last.clone(), middle]));
    assert_eq!(
        (all.len(), all[0].packet, &all[0].payload),
        (1, 3, &vec![7; 3_000])
    );
    let counters = capture.counters();
    assert_eq!(
        (
            counters.fragments,
            counters.reassembled,
            capture.unfinished()
        ),
        (3, 1, 0)
    );

    let (all, capture, _) = read(LITTLE.file(&[first, last]));
    assert_eq!(
        (
            all.len(),
            capture.unfinished(),
            capture.counters().reassembled
        ),
        (0, 1, 0)
    );
}

#[test]
fn packets_cut_by_the_snap_length_are_counted_and_named() {
    let frame = ethernet(&ipv4(PAYLOAD));
    let mut file = LITTLE.file(std::slice::from_ref(&frame));
    let offset = file.len() as u64;
    file.extend(LITTLE.packet(&frame[..40], frame.len()));
    file.extend(LITTLE.packet(&frame, frame.len()));
    let (all, capture, error) = read(file);
    assert!(error.is_none(), "{error:?}");
    assert_eq!((all.len(), capture.counters().truncated), (2, 1));
    let defect = capture.defects()[0];
    assert_eq!(
        (defect.packet, defect.offset, defect.reason),
        (2, offset, Skip::Truncated)
    );
    assert_eq!(
        defect.to_string(),
        format!("packet 2 at offset {offset}: cut by the capture's snap length")
    );
}

#[test]
fn a_file_cut_at_any_byte_gives_what_is_whole_and_names_the_place() {
    let file = LITTLE.file(&[ethernet(&ipv4(PAYLOAD)), ethernet(&ipv4(b"second"))]);
    let second = 24 + 16 + 14 + 28 + PAYLOAD.len();
    for end in 0..file.len() {
        let cut = file[..end].to_vec();
        if end < 24 {
            let error = Capture::new(Cursor::new(cut)).unwrap_err();
            let is_it = match error {
                CaptureError::Empty { .. } => end == 0,
                CaptureError::NotACapture => end > 0,
                _ => false,
            };
            assert!(is_it, "{end}: {error}");
            continue;
        }
        let (all, _, error) = read(cut);
        assert_eq!(all.len(), usize::from(end >= second), "{end}");
        let at_a_border = end == 24 || end == second;
        match error {
            None => assert!(at_a_border, "{end}"),
            Some(CaptureError::Cut { packet, offset }) => {
                let expected = if end < second {
                    (1, 24)
                } else {
                    (2, second as u64)
                };
                assert!(
                    !at_a_border && (packet, offset) == expected,
                    "{end}: {packet} {offset}"
                );
            }
            Some(other) => panic!("{end}: {other}"),
        }
    }
}

#[test]
fn an_absurd_length_and_an_unknown_link_are_named() {
    let mut file = LITTLE.header();
    for value in [0_u32, 0, u32::MAX, u32::MAX] {
        file.extend(value.to_le_bytes());
    }
    file.resize(100_000, 0);
    let error = read(file).2.unwrap().to_string();
    assert!(error.contains("packet 1 at offset 24"), "{error}");

    let firewire = Classic {
        link_type: 138,
        ..LITTLE
    };
    let error = read(firewire.file(&[vec![0; 60]])).2.unwrap().to_string();
    assert!(error.contains("link type 138"), "{error}");
}

#[test]
fn a_packet_larger_than_the_reading_buffer_is_read_and_one_beyond_the_limit_is_named() {
    let raw = Classic {
        link_type: 101,
        ..LITTLE
    };
    let (all, capture, error) = read(raw.file(&[vec![0x10; 3 << 20], ipv4(PAYLOAD)]));
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        (all.len(), all[0].packet, capture.counters().not_udp),
        (1, 2, 1)
    );

    let error = read(raw.file(&[vec![0x10; 40 << 20], ipv4(PAYLOAD)]))
        .2
        .unwrap()
        .to_string();
    assert_eq!(
        error,
        "packet 1 at offset 24 is broken: it is larger than 16 MiB"
    );
}

#[test]
fn what_is_no_capture_is_refused() {
    for (nothing, said) in [
        (vec![], "it is empty (0 bytes)"),
        (gzip(&[]), "what is compressed in it is empty (0 bytes)"),
        (
            zstandard(&[]),
            "what is compressed in it is empty (0 bytes)",
        ),
    ] {
        let error = Capture::new(Cursor::new(nothing)).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
    assert!(matches!(
        Capture::new(Cursor::new(b"%PDF-1.7 and so on and on".to_vec())),
        Err(CaptureError::NotACapture)
    ));
    let error = Capture::open(&PathBuf::from("/no/such.pcap")).unwrap_err();
    assert!(error.to_string().starts_with("/no/such.pcap: "), "{error}");
}

#[test]
fn the_shared_vectors() {
    let Ok(folder) = std::env::var("FOREBAY_VECTORS") else {
        forebay_testing::skip!("FOREBAY_VECTORS does not name the folder of the shared vectors");
        return;
    };
    let mut capture = Capture::open(&PathBuf::from(folder).join("hades/mixed_6src.pcap")).unwrap();
    let mut ports = std::collections::BTreeMap::new();
    while let Some(captured) = capture.next_datagram().unwrap() {
        *ports.entry(captured.to.port()).or_insert(0) += 1;
        // A HADTU message: its own size, padded to 8, and a trailer of 32 bytes that repeats its start.
        let size = u32::from_be_bytes(captured.payload[..4].try_into().unwrap()) as usize;
        let message = size.next_multiple_of(8);
        assert_eq!(
            captured.payload.len(),
            message + 32,
            "packet {}",
            captured.packet
        );
        assert_eq!(
            captured.payload[message..],
            captured.payload[..32],
            "packet {}",
            captured.packet
        );
    }
    let counters = capture.counters();
    assert_eq!(
        (counters.packets, counters.datagrams, ports.len()),
        (321, 321, 6),
        "{counters:?}"
    );
    assert_eq!(capture.defects(), []);
}

fn check_books(capture: &Capture) -> Result<(), TestCaseError> {
    let counters = capture.counters();
    let whole = counters.datagrams - counters.reassembled;
    let explained =
        whole + counters.fragments + counters.not_udp + counters.truncated + counters.malformed;
    prop_assert_eq!(counters.packets, explained);
    Ok(())
}

proptest! {
    #[test]
    fn a_damaged_capture_never_panics_and_its_packets_are_all_explained(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        end in any::<prop::sample::Index>(),
    ) {
        let udp = ipv4(&[7; 64])[20..].to_vec();
        let mut file = LITTLE.file(&[
            ethernet(&ipv4(PAYLOAD)),
            ethernet(&ipv4_part(&udp[..32], 0x2000)),
            ethernet(&ipv4_part(&udp[32..], 4)),
            ethernet(&ipv4(&[1; 300])),
        ]);
        for (at, value) in damage {
            let at = at.index(file.len() - 24) + 24;
            file[at] = value;
        }
        file.truncate(24 + end.index(file.len() - 23));
        let (_, capture, _) = read(file);
        if capture.counters().packets > 0 {
            // A link type that cannot be read ends the capture with its packet unexplained; here it is Ethernet.
            check_books(&capture)?;
        }
    }

    #[test]
    fn any_bytes_after_any_magic_never_panic(
        magic in prop_oneof![
            Just(MICROSECONDS.to_le_bytes()), Just(NANOSECONDS.to_be_bytes()), Just(0x0a0d_0d0a_u32.to_le_bytes()), any::<[u8; 4]>()
        ],
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        if let Ok(mut capture) = Capture::new(Cursor::new([&magic[..], &bytes].concat())) {
            while let Ok(Some(_)) = capture.next_datagram() {}
        }
    }

    #[test]
    fn a_damaged_pcapng_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u32..8) {
        let mut file = 0x0a0d_0d0a_u32.to_le_bytes().to_vec();
        file.extend(28_u32.to_le_bytes());
        file.extend(0x1a2b_3c4d_u32.to_le_bytes());
        file.extend([1, 0, 0, 0]);
        file.extend([0xff; 8]);
        file.extend(28_u32.to_le_bytes());
        let total = (bytes.len().next_multiple_of(4) as u32 + 12).to_le_bytes();
        let mut body = bytes;
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend([&kind.to_le_bytes()[..], &total, &body, &total].concat());
        let _ = read(file);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn zstandard(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

#[test]
fn a_compressed_capture_is_read_as_what_is_in_it() {
    let frames: Vec<_> = (0..20_000_u32)
        .map(|n| ethernet(&ipv4(&n.wrapping_mul(0x9e37_79b9).to_be_bytes())))
        .collect();
    let plain = LITTLE.file(&frames);
    let (whole, ..) = read(plain.clone());
    assert_eq!(whole.len(), frames.len());
    // Several parts one after the other are one file.
    let (first, second) = plain.split_at(plain.len() / 2);
    for file in [
        gzip(&plain),
        zstandard(&plain),
        [gzip(first), gzip(second)].concat(),
        [zstandard(first), zstandard(second)].concat(),
    ] {
        assert!(file.len() < plain.len());
        let (all, capture, error) = read(file.clone());
        assert!(error.is_none(), "{error:?}");
        assert_eq!(all, whole);
        assert_eq!(capture.counters().packets, frames.len() as u64);
        // One that breaks off has what was before, and says so.
        let (all, _, error) = read(file[..file.len() * 3 / 4].to_vec());
        assert!(!all.is_empty() && all.len() < whole.len(), "{}", all.len());
        assert_eq!(all, whole[..all.len()]);
        let Some(CaptureError::CutStream { packet, offset, .. }) = error else {
            panic!("{error:?}");
        };
        let read = all.len() as u64;
        assert_eq!((packet, offset), (read, 24 + read * (16 + 14 + 32)));
    }
    let rubbish = [&[0x1f, 0x8b][..], &[9; 100]].concat();
    let error = Capture::new(Cursor::new(rubbish)).unwrap_err();
    assert!(matches!(error, CaptureError::Begin(_)), "{error:?}");
}

/// The same packets in pcapng.
fn next_generation(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [&pcapng::section()[..], &pcapng::interface(1)].concat();
    for bytes in frames {
        let packet = pcapng::PacketRepr {
            interface: 0,
            time_ns: 7,
            wire_bytes: bytes.len() as u32,
            bytes,
            comment: "",
            queue: 0,
        };
        packet.emit(&mut file);
    }
    file
}

/// Captures of a few hundred bytes, of which the first bytes that are looked at have all, too.
#[test]
fn a_compressed_capture_cut_at_any_byte_gives_what_is_before_and_says_that_its_stream_ends_early() {
    let frames: Vec<_> = (0..20_u8)
        .map(|n| ethernet(&ipv4(&[n.wrapping_mul(73); 40])))
        .collect();
    for plain in [LITTLE.file(&frames), next_generation(&frames)] {
        let (whole, ..) = read(plain.clone());
        assert_eq!(whole.len(), frames.len());
        for (form, file, header) in [
            ("gzip", gzip(&plain), 2),
            ("Zstandard", zstandard(&plain), 4),
        ] {
            let mut most = 0;
            for end in header..file.len() {
                let told = match Capture::new(Cursor::new(file[..end].to_vec())) {
                    Ok(_) => {
                        let (all, _, error) = read(file[..end].to_vec());
                        assert_eq!(all, whole[..all.len()], "{form}: {end}");
                        most = most.max(all.len());
                        let error = error.unwrap();
                        let is_it = matches!(error, CaptureError::CutStream { packet, .. } if packet == all.len() as u64);
                        assert!(is_it, "{form}: {end}: {error:?}");
                        error.to_string()
                    }
                    Err(error) => error.to_string(),
                };
                let said = format!("its {form} stream ends early");
                assert!(told.contains(&said), "{end}: {told}");
            }
            // Without the end of its check sum, gzip has all.
            assert!(most == whole.len() || form != "gzip", "{most}");
        }
    }
}

/// A source that fails behind some bytes, once.
struct Fails(Option<Cursor<Vec<u8>>>);

impl Read for Fails {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.as_mut().map_or(Ok(0), |bytes| bytes.read(buffer));
        match read {
            Ok(0) if self.0.take().is_some() => Err(io::Error::other("the disk is gone")),
            read => read,
        }
    }
}

#[test]
fn what_the_system_says_of_a_source_that_fails_is_told_behind_what_was_read() {
    let frames = vec![ethernet(&ipv4(PAYLOAD)); 200];
    let plain = LITTLE.file(&frames);
    for file in [plain.clone(), next_generation(&frames), gzip(&plain)] {
        // Within the bytes that are looked at first, and behind them.
        for bytes in [200, file.len() * 9 / 10] {
            let source = Fails(Some(Cursor::new(file[..bytes].to_vec())));
            let mut read = 0;
            let told = match Capture::new(source) {
                Ok(mut capture) => loop {
                    match capture.next_datagram() {
                        Ok(one) => assert!(one.is_some(), "it ends without a word"),
                        Err(error) => break error.to_string(),
                    }
                    read += 1;
                },
                Err(error) => error.to_string(),
            };
            assert!(told.contains("the disk is gone"), "{bytes}: {told}");
            assert!(read > 0, "nothing of {bytes} bytes was read");
        }
    }
}

/// As `cat a.pcap.gz b.pcap.gz` makes one file of two captures, whose packets may be written in other ways.
#[test]
fn captures_that_were_joined_are_read_to_the_end_of_the_last() {
    let other = Classic {
        big: true,
        magic: NANOSECONDS,
        link_type: 101,
    };
    let first = LITTLE.file(&vec![ethernet(&ipv4(PAYLOAD)); 3]);
    let second = other.file(&[ipv4(PAYLOAD), ipv4(b"second")]);
    let plain = [&first[..], &second, &LITTLE.file(&[])].concat();
    for file in [
        plain.clone(),
        [gzip(&first), gzip(&second), gzip(&LITTLE.file(&[]))].concat(),
        [zstandard(&first), zstandard(&second)].concat(),
    ] {
        let (all, capture, error) = read(file);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(capture.counters().packets, 5);
        let told: Vec<_> = all
            .iter()
            .map(|one| {
                (
                    one.packet,
                    one.timestamp_ns % 1_000_000_000,
                    &one.payload[..],
                )
            })
            .collect();
        let (us, ns) = (123_456_000, 123_456);
        let expected: [(u64, u64, &[u8]); 5] = [
            (1, us, PAYLOAD),
            (2, us, PAYLOAD),
            (3, us, PAYLOAD),
            (4, ns, PAYLOAD),
            (5, ns, b"second"),
        ];
        assert_eq!(told, expected);
    }
    // A header that is not whole is a cut at its place.
    for bytes in 1..24 {
        let (all, _, error) = read(plain[..first.len() + bytes].to_vec());
        assert_eq!(all.len(), 3);
        let offset = match error {
            Some(CaptureError::Cut { packet: 4, offset }) => offset,
            other => panic!("{bytes}: {other:?}"),
        };
        assert_eq!(offset, first.len() as u64, "{bytes}");
    }
}
