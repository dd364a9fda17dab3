//! Memory that stays where it is: what of its own memory the peer may read, and what of the peer's this side may.
//!
//! A region goes to the peer once, over the socket, before the first piece that refers to it goes into the ring. Such a piece begins with references, as many
//! as its record's tag says: number of the region, offset, length, eight bytes each.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use forebay_ring::{Meta, PeerRegion, Region};
use forebay_sys::SysError;
use forebay_sys::seqpacket::SeqSocket;
use forebay_wire::shm::{Greeting, REFERENCE_BYTES, Reference};

use super::resource;
use crate::bytes::{Apart, PARTS_MAX};

/// Regions of each side. What lies in a further one is copied.
const REGIONS_MAX: usize = 16;

/// What a piece refers to, in a region that came.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Place of the region among those that came.
    region: usize,
    offset: u64,
    len: usize,
}

/// What became of an attempt to let the peer read a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// It can.
    Yes,
    /// The socket takes nothing now.
    NotNow,
    /// It has as many as it may have.
    TooMany,
}

#[derive(Debug, Default)]
pub(super) struct Regions {
    /// Numbers of own regions that the peer has.
    shown: Vec<u64>,
    came: Vec<(u64, PeerRegion)>,
    at_hand: [Found; PARTS_MAX],
    /// References at hand.
    count: usize,
}

impl Regions {
    /// Lets the peer read a region, if it cannot already.
    pub(super) fn show(&mut self, region: &Region, socket: &SeqSocket) -> Result<Shown, SysError> {
        if self.shown.contains(&region.id()) {
            return Ok(Shown::Yes);
        }
        if self.shown.len() >= REGIONS_MAX {
            return Ok(Shown::TooMany);
        }
        let fd = region.reader_fd().map_err(resource)?;
        let record = Greeting::Region(region.id()).emit();
        if !socket.send(&record, &[fd.as_fd()])? {
            return Ok(Shown::NotNow);
        }
        self.shown.push(region.id());
        Ok(Shown::Yes)
    }

    /// A region of the peer's has come.
    pub(super) fn take(&mut self, number: u64, fds: &[OwnedFd]) -> Result<(), &'static str> {
        let [fd] = fds else {
            return Err("descriptors");
        };
        let known = self.came.iter().any(|(known, _)| *known == number);
        if known || self.came.len() >= REGIONS_MAX {
            return Err("regions");
        }
        let region = PeerRegion::map(fd).map_err(|_| "region")?;
        self.came.push((number, region));
        Ok(())
    }

    /// References to these ranges, and what says that there are some.
    pub(super) fn refer(region: &Region, ranges: &[Range<usize>]) -> (References, Meta) {
        let mut references = [[0; REFERENCE_BYTES]; PARTS_MAX];
        for (reference, range) in references.iter_mut().zip(ranges) {
            let refers = Reference {
                region: region.id(),
                offset: range.start as u64,
                bytes: range.len() as u64,
            };
            *reference = refers.emit();
        }
        let meta = Meta {
            tag: ranges.len() as u32,
            ..Meta::default()
        };
        (references, meta)
    }

    /// A piece has come that begins with so many references. Says how many bytes they take; none when it refers to a region that has not come.
    pub(super) fn begin(
        &mut self,
        count: u32,
        piece: &[u8],
    ) -> Result<Option<usize>, &'static str> {
        self.count = 0;
        let count = count as usize;
        if count > PARTS_MAX {
            return Err("references");
        }
        let references = Reference::all(count, piece).ok_or("references")?;
        for (at, said) in references.enumerate() {
            let number = said.region;
            let Some(region) = self.came.iter().position(|(known, _)| *known == number) else {
                return Ok(None);
            };
            let len = usize::try_from(said.bytes).map_err(|_| "references")?;
            let reference = Found {
                region,
                offset: said.offset,
                len,
            };
            if self.came[region].1.view(reference.offset, len).is_none() {
                return Err("references");
            }
            self.at_hand[at] = reference;
        }
        self.count = count;
        Ok(Some(count * REFERENCE_BYTES))
    }

    /// Nothing is at hand any more.
    pub(super) fn done(&mut self) {
        self.count = 0;
    }

    /// What the piece at hand refers to.
    pub(super) fn apart(&self) -> Option<Apart<'_>> {
        if self.count == 0 {
            return None;
        }
        let mut apart = Apart::default();
        for reference in &self.at_hand[..self.count] {
            let (_, region) = self.came.get(reference.region)?;
            apart.push(region.view(reference.offset, reference.len)?);
        }
        Some(apart)
    }
}

/// References, as they go into the ring.
pub(super) type References = [[u8; REFERENCE_BYTES]; PARTS_MAX];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pages of the regions that have come, by their numbers.
    const CAME: [(u64, usize); 3] = [(0, 1), (7, 3), (u64::MAX, 2)];
    const PAGE_BYTES: usize = 4096;

    /// Regions, each with bytes that tell it and the place from all others.
    fn came() -> (Regions, Vec<Region>) {
        let mut regions = Regions::default();
        let made = CAME.map(|(number, pages)| {
            let mut region = Region::create("test", (pages * PAGE_BYTES) as u64).unwrap();
            let bytes = region.bytes_mut();
            (0..bytes.len()).for_each(|at| bytes[at] = byte(number, at));
            regions
                .take(number, &[region.reader_fd().unwrap()])
                .unwrap();
            region
        });
        (regions, made.into())
    }

    fn byte(number: u64, at: usize) -> u8 {
        (number as usize).wrapping_mul(31).wrapping_add(at % 251) as u8
    }

    fn number() -> impl Strategy<Value = u64> {
        let known = CAME.map(|(number, _)| number).to_vec();
        prop_oneof![12 => prop::sample::select(known), 1 => any::<u64>()]
    }

    /// A place in a region, at its end, or anywhere.
    fn place() -> impl Strategy<Value = u64> {
        let bytes = PAGE_BYTES as u64;
        let end = (1..4_u64, 0..3_u64).prop_map(move |(pages, by)| pages * bytes + by - 1);
        prop_oneof![6 => 0..bytes, 3 => end, 1 => any::<u64>(), 1 => Just(0)]
    }

    /// What is to be found: the bytes, none while a region is missing, or an error.
    fn expected(count: u32, piece: &[u8]) -> Result<Option<Vec<u8>>, ()> {
        let count = count as usize;
        if count > 4 || piece.len() < 24 * count {
            return Err(());
        }
        let mut bytes = Vec::new();
        for words in piece.chunks_exact(24).take(count) {
            let word = |of: usize| u64::from_le_bytes(words[8 * of..][..8].try_into().unwrap());
            let [number, offset, len] = [0, 1, 2].map(word);
            let Some((_, pages)) = CAME.iter().find(|(known, _)| *known == number) else {
                return Ok(None);
            };
            let end = u128::from(offset) + u128::from(len);
            if end > (pages * PAGE_BYTES) as u128 {
                return Err(());
            }
            bytes.extend((offset as usize..end as usize).map(|at| byte(number, at)));
        }
        Ok(Some(bytes))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn whatever_a_piece_refers_to_is_in_a_region_or_refused(
            pieces in prop::collection::vec(
                (prop_oneof![20 => 1..5_u32, 1 => any::<u32>()], prop::collection::vec((number(), place(), place()), 0..6), 0..24_usize),
                1..4,
            ),
        ) {
            let (mut regions, _made) = came();
            for (count, words, cut) in pieces {
                let words = words.iter().flat_map(|(number, offset, len)| [number, offset, len]);
                let mut piece: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
                piece.truncate(piece.len().saturating_sub(if cut < 4 { cut } else { 0 }));
                let found = regions.begin(count, &piece);
                match expected(count, &piece) {
                    Err(()) => prop_assert_eq!(found, Err("references")),
                    Ok(None) => prop_assert_eq!(found, Ok(None)),
                    Ok(Some(bytes)) => {
                        prop_assert_eq!(found, Ok(Some(24 * count as usize)));
                        let mut copy = Vec::new();
                        let apart = regions.apart().unwrap();
                        apart.copy_to(&mut copy);
                        prop_assert_eq!((apart.len(), copy), (bytes.len(), bytes));
                        continue;
                    }
                }
                prop_assert!(regions.apart().is_none());
            }
        }
    }
}
