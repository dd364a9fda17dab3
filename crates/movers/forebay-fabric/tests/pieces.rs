//! Pieces of registered memory, which go out from where they lie.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::single_range_in_vec_init,
    reason = "a test that cannot go on has failed, and says what it met; lists of ranges of memory are what is meant"
)]

mod pair;

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use forebay_fabric::{Config, FabricError, Received};
use pair::{Pair, pair, pattern, push, until};

/// A memory file that cannot shrink.
fn sealed(bytes: &[u8]) -> File {
    // SAFETY: the name is a string that ends in zero; the call makes a descriptor that nobody else has.
    let file = unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        File::from_raw_fd(libc::memfd_create(c"pages".as_ptr(), flags))
    };
    file.write_all_at(bytes, 0).unwrap();
    // SAFETY: the descriptor is open, and the argument a number.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
    assert_eq!(sealed, 0);
    file
}

fn from_pieces(provider: &str) {
    let config = Config {
        region_sends: 4,
        send_pages: 4,
        ..Config::default()
    };
    let Some(Pair {
        mut near, mut far, ..
    }) = pair(provider, &config)
    else {
        return;
    };
    let mut first = near
        .domain()
        .register(pattern(3, 20_000).into_boxed_slice())
        .unwrap();
    let mut piece = Some(first.split_off(10_000));
    let file = sealed(&pattern(5, 80_000));
    let memory = Arc::new(near.domain().share(file.as_fd()).unwrap());
    assert_eq!((memory.len(), memory.is_empty()), (80_000, false));
    let cases: [(usize, &[Range<usize>]); 5] = [
        (10_000, &[]),
        (1, &[0..56_000]),
        (44, &[7..9, 70_000..80_000]),
        (0, &[5..6]),
        (60, &[9..9]),
    ];
    for (number, (len, ranges)) in (0..).zip(cases) {
        let own = piece.as_mut().unwrap();
        own.bytes_mut()[0] = number as u8;
        // What is written after it was shared is sent.
        file.write_all_at(&[number as u8; 20], 0).unwrap();
        let mut sent = own.bytes()[..len].to_vec();
        for range in ranges {
            let mut part = vec![0; range.len()];
            file.read_exact_at(&mut part, range.start as u64).unwrap();
            sent.extend(part);
        }
        until("a piece goes out", || {
            far.receive().unwrap();
            let behind = Some((&memory, ranges));
            let taken = near.send_piece(&mut piece, len, behind, number).unwrap();
            assert_eq!((taken == 0, taken), (piece.is_some(), taken));
            (taken > 0).then_some(())
        });
        assert_eq!(near.send_piece(&mut piece, len, None, 0).unwrap(), 0);
        until("it comes", || {
            near.receive().unwrap();
            (far.receive().unwrap() == Received::Some).then_some(())
        });
        assert_eq!(far.bytes(), sent);
        far.used(usize::MAX);
        let returned = until("it comes back", || {
            near.receive().unwrap();
            far.receive().unwrap();
            near.returned()
        });
        assert_eq!((returned.user, returned.sent), (number, true));
        piece = Some(returned.piece);
    }
    let mut wrong = |len, ranges: &[Range<usize>]| {
        let error = near.send_piece(&mut piece, len, Some((&memory, ranges)), 0);
        assert!(piece.is_some(), "what is not taken stays");
        error.unwrap_err()
    };
    let outside = FabricError::OutOfRegion {
        from: 79_999,
        to: 80_001,
        len: 80_000,
    };
    assert_eq!(wrong(1, &[79_999..80_001]), outside);
    assert!(matches!(
        wrong(10_001, &[]),
        FabricError::OutOfRegion { len: 10_000, .. }
    ));
    assert!(matches!(
        wrong(10_000, &[0..60_000]),
        FabricError::TooLong { most: 66_000, .. }
    ));
    assert!(matches!(
        wrong(1, &[const { 0..1 }; 20]),
        FabricError::TooManyRanges { ranges: 20, .. }
    ));
    assert!(
        Arc::into_inner(memory).is_some(),
        "no send holds it any more"
    );
    assert_eq!(first.bytes(), &pattern(3, 20_000)[..10_000]);
}

#[test]
fn pieces_are_sent_without_a_copy_over_tcp() {
    from_pieces("tcp");
}

/// Of a receiver that does not look: so many pieces are under way at most, none is lost, and each comes back once.
fn pieces_held_back(provider: &str) {
    const SENDS: usize = 6;
    let config = Config {
        region_sends: SENDS,
        ..Config::default()
    };
    let Some(Pair {
        mut near, mut far, ..
    }) = pair(provider, &config)
    else {
        return;
    };
    let bytes = 60_000;
    push(&mut near, &mut far, b"?");
    let mut memory = near.domain().register(vec![0; 40 * bytes].into()).unwrap();
    let mut pieces: Vec<_> = (0..40)
        .map(|at| (at, Some(memory.split_off(memory.bytes().len() - bytes))))
        .collect();
    let (mut sent, mut came, mut refused) = (0_u64, 0_u64, 0);
    let pages = 2_000;
    until("all comes", || {
        while sent < pages {
            let Some((at, mut piece)) = pieces.pop() else {
                break;
            };
            if let Some(piece) = &mut piece {
                piece.bytes_mut()[..8].copy_from_slice(&sent.to_le_bytes());
            }
            let taken = near.send_piece(&mut piece, bytes, None, at).unwrap();
            if taken == 0 {
                pieces.push((at, piece));
                refused += 1;
                break;
            }
            sent += 1;
        }
        assert!(near.unconfirmed_pages() <= SENDS as u64 + 1);
        near.receive().unwrap();
        while let Some(back) = near.returned() {
            assert!(back.sent);
            assert!(pieces.iter().all(|(at, _)| *at != back.user), "twice");
            pieces.push((back.user, Some(back.piece)));
        }
        if refused % 50 > 0 {
            while far.receive().unwrap() == Received::Some {
                if far.bytes() != b"?" {
                    assert_eq!(far.bytes()[..8], came.to_le_bytes());
                    came += 1;
                }
                far.used(usize::MAX);
            }
        }
        (came == pages && pieces.len() == 40).then_some(())
    });
    assert!(refused > 0, "nothing held the sender back");
    assert_eq!(near.totals().pages_completed, pages + 1);
}

#[test]
fn pieces_come_back_each_once_over_tcp() {
    pieces_held_back("tcp");
}

#[test]
fn what_could_shrink_is_not_shared() {
    let Some(Pair { near, .. }) = pair("tcp", &Config::default()) else {
        return;
    };
    // SAFETY: as in `sealed`.
    let file =
        unsafe { File::from_raw_fd(libc::memfd_create(c"pages".as_ptr(), libc::MFD_CLOEXEC)) };
    file.set_len(4096).unwrap();
    let error = near.domain().share(file.as_fd()).unwrap_err();
    assert_eq!(error, FabricError::NotShareable);
    let device = File::open("/dev/null").unwrap();
    let error = near.domain().share(device.as_fd()).unwrap_err();
    assert!(matches!(error, FabricError::Call { .. }), "{error}");
    let empty = sealed(b"");
    let error = near.domain().share(empty.as_fd()).unwrap_err();
    assert_eq!(error, FabricError::NotShareable);
}
