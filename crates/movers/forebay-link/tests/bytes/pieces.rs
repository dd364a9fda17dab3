//! Pieces that go out from where they were written.

use std::ops::Range;

use forebay_link::bytes::{ByteLink, ByteLinkError, PARTS_MAX, Piece, Received, Region, Room};

use crate::world::{Backend, Deadline, Dice, Reader, byte_at, pair};

const STREAM_BYTES: u64 = 8 << 20;
/// Fewer than a connection has room for, so that they run out.
const PIECES: usize = 10;

/// Writes the stream of [`byte_at`] into a link's pieces, and lends the end of some of them from a region that has it.
pub(crate) struct Lender {
    pub(crate) position: u64,
    region: Region,
    /// Where each piece is: here, or with the link.
    pieces: Vec<Option<Piece>>,
}

impl Lender {
    /// None where the link does not send from memory that it lends.
    pub(crate) fn new(link: &mut dyn ByteLink, bytes: u64) -> Option<Self> {
        let most = Room::default().piece_bytes_max;
        let pieces = link.lending()?.pieces(PIECES, most).unwrap();
        assert_eq!(pieces.len(), PIECES);
        let mut region = Region::create("test", bytes).unwrap();
        for (place, byte) in (0..).zip(region.bytes_mut()) {
            *byte = byte_at(place);
        }
        Some(Self {
            position: 0,
            region,
            pieces: pieces.into_iter().map(Some).collect(),
        })
    }

    pub(crate) fn at_link(&self) -> usize {
        self.pieces.iter().filter(|piece| piece.is_none()).count()
    }

    /// Writes into all of them that are here, from the first byte to the last.
    pub(crate) fn write_all(&mut self) {
        for piece in self.pieces.iter_mut().flatten() {
            piece.as_mut().fill(0xff);
            assert!(piece.as_ref().iter().all(|byte| *byte == 0xff));
        }
    }

    pub(crate) fn take_back(&mut self, link: &mut dyn ByteLink) {
        let lending = link.lending().unwrap();
        while let Some((number, piece)) = lending.returned() {
            let before = self.pieces[number as usize].replace(piece);
            assert!(before.is_none(), "{number} came back twice");
        }
    }

    /// Sends what is left of `bytes`, if a piece is here and the link takes it.
    pub(crate) fn offer(
        &mut self,
        link: &mut dyn ByteLink,
        bytes: usize,
        dice: &mut Dice,
    ) -> Result<usize, ByteLinkError> {
        self.take_back(link);
        let Some(number) = self.pieces.iter().position(Option::is_some) else {
            return Ok(0);
        };
        let piece = &mut self.pieces[number];
        let own = dice.roll(bytes as u64 + 1) as usize;
        for (place, byte) in (self.position..).zip(&mut piece.as_mut().unwrap().as_mut()[..own]) {
            *byte = byte_at(place);
        }
        let (mut at, end) = (self.position as usize + own, self.position as usize + bytes);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for _ in 0..dice.roll(PARTS_MAX as u64) {
            let to = at + dice.roll((end - at) as u64 + 1) as usize;
            ranges.push(at..to);
            at = to;
        }
        ranges.push(at..end);
        let behind = (own < bytes || dice.roll(2) == 0).then_some((&self.region, &ranges[..]));
        let lending = link.lending().unwrap();
        let taken = lending.send_piece(piece, own, behind, number as u64)?;
        assert!(taken == 0 || taken == bytes, "{taken} of {bytes}");
        assert_eq!(piece.is_none(), taken > 0);
        self.position += taken as u64;
        Ok(taken)
    }
}

pub(crate) fn what_is_written_into_pieces_goes_out_from_there(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    let Some(mut lender) = Lender::new(&mut *pair.near, STREAM_BYTES) else {
        println!("it lends no pieces");
        return;
    };
    let copied_before = pair.near.copied_bytes();
    let mut reader = Reader::new();
    let deadline = Deadline::begin();
    let mut most_at_link = 0;
    while reader.position < STREAM_BYTES {
        for _ in 0..dice.roll(20) {
            let left = (STREAM_BYTES - lender.position) as usize;
            let bytes = dice.piece(Room::default().piece_bytes_max).min(left);
            lender.offer(&mut *pair.near, bytes, &mut dice).unwrap();
        }
        most_at_link = most_at_link.max(lender.at_link());
        for _ in 0..dice.roll(20) {
            reader.look(&mut *pair.far).unwrap();
        }
        assert_eq!(pair.near.receive().unwrap(), Received::Nothing);
        deadline.check();
    }
    while lender.at_link() > 0 {
        reader.look(&mut *pair.far).unwrap();
        pair.near.receive().unwrap();
        lender.take_back(&mut *pair.near);
        deadline.check();
    }
    assert!(most_at_link > 1, "one at a time");
    // Only a piece with more ranges behind it than the provider takes in one send is copied.
    let copied = pair.near.copied_bytes() - copied_before;
    assert!(
        backend.copies_regions || copied < STREAM_BYTES / 2,
        "{copied} bytes were copied"
    );
    pair.near.finish();
    reader.look_to_the_end(&mut *pair.far).unwrap();
    assert_eq!(reader.position, lender.position);
}

/// A receiver that does not read: the sender's pieces stay with the link, none is written meanwhile, and each comes back when it reads.
pub(crate) fn pieces_come_back_when_they_are_read(backend: &Backend) {
    let mut dice = Dice::seeded();
    let mut pair = pair(backend);
    let Some(mut lender) = Lender::new(&mut *pair.near, 32 << 20) else {
        println!("it lends no pieces");
        return;
    };
    let (deadline, mut refusals) = (Deadline::begin(), 0);
    while refusals < 200 {
        let taken = lender.offer(&mut *pair.near, 60_000, &mut dice).unwrap();
        refusals = if taken == 0 { refusals + 1 } else { 0 };
        assert_eq!(pair.near.receive().unwrap(), Received::Nothing);
        pair.far.arm(false).unwrap();
        pair.far.disarm();
        deadline.check();
    }
    assert!(
        backend.copies_regions || lender.at_link() > 0,
        "nothing holds the sender back"
    );
    let mut reader = Reader::new();
    while lender.at_link() > 0 || reader.position < lender.position {
        assert_eq!(pair.near.receive().unwrap(), Received::Nothing);
        lender.take_back(&mut *pair.near);
        reader.look(&mut *pair.far).unwrap();
        deadline.check();
    }
}

/// Misuse is said, and takes no piece.
pub(crate) fn what_cannot_be_sent_leaves_the_piece_where_it_is(backend: &Backend) {
    let mut pair = pair(backend);
    let Some(lending) = pair.near.lending() else {
        println!("it lends no pieces");
        return;
    };
    let region = Region::create("small", 100).unwrap();
    let mut piece = lending.pieces(1, 70_000).unwrap().pop();
    let error = lending.send_piece(&mut piece, 1, Some((&region, &[4000..4097])), 7);
    assert_eq!(
        error.unwrap_err().to_string(),
        "bytes 4000 to 4097 of a region of 4096 bytes"
    );
    for len in [66_001, 70_001] {
        let error = lending.send_piece(&mut piece, len, None, 7).unwrap_err();
        assert!(!matches!(error, ByteLinkError::Lost { .. }), "{error}");
    }
    assert!(piece.is_some() && lending.returned().is_none());
    // Nothing is no piece.
    assert_eq!(lending.send_piece(&mut piece, 0, None, 7).unwrap(), 0);
    assert_eq!(lending.send_piece(&mut None, 10, None, 7).unwrap(), 0);
    // Plain memory is copied, and comes back at once.
    let mut plain = Some(Piece::plain(10));
    let deadline = Deadline::begin();
    while lending.send_piece(&mut plain, 10, None, 8).unwrap() == 0 {
        deadline.check();
    }
    assert_eq!(lending.returned().map(|(number, _)| number), Some(8));
    assert!(!pair.near.arm(true).unwrap() || pair.near.must_be_polled());
    pair.near.finish();
    let lending = pair.near.lending().unwrap();
    let late = lending.send_piece(&mut piece, 5, None, 7).unwrap_err();
    assert!(matches!(late, ByteLinkError::Lost { .. }), "{late}");
    assert!(piece.is_some());
}

/// More regions than a connection remembers: what lies in the last ones is copied, and comes all the same.
pub(crate) fn many_regions_come_all_the_same(backend: &Backend) {
    let mut pair = pair(backend);
    if pair.near.lending().is_none() {
        println!("it lends no pieces");
        return;
    }
    let deadline = Deadline::begin();
    let copied_before = pair.near.copied_bytes();
    for number in 0..20_u8 {
        let mut region = Region::create("many", 1).unwrap();
        region.bytes_mut()[..3].fill(number);
        let lending = pair.near.lending().unwrap();
        let mut piece = lending.pieces(1, 1).unwrap().pop();
        piece.as_mut().unwrap().as_mut()[0] = b'x';
        while pair
            .near
            .lending()
            .unwrap()
            .send_piece(&mut piece, 1, Some((&region, &[0..3])), 0)
            .unwrap()
            == 0
        {
            pair.near.receive().unwrap();
            pair.far.arm(false).unwrap();
            deadline.check();
        }
        while pair.far.receive().unwrap() == Received::Nothing {
            pair.near.receive().unwrap();
            deadline.check();
        }
        assert_eq!(pair.far.bytes(), [b'x', number, number, number]);
        pair.far.used(4);
    }
    let copied = if backend.copies_regions { 20 } else { 4 };
    assert_eq!(pair.near.copied_bytes() - copied_before, copied * 4);
}
