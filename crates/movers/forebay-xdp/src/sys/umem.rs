//! The memory for frames that this process and the kernel share, in buffers of one size, and a census that says of each where it is.
//!
//! A [`Buffer`] is the right to one of them: there is one value for it while it is here, and none while it is lent. So the bytes of a buffer are never borrowed while the
//! kernel may write them, as long as what is [taken back](Umem::take_back) was read from a ring of the kernel: the module `socket` alone does that.

use std::os::fd::RawFd;

use super::mapping::Mapping;

/// Where a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this process.
    Here,
    /// Lent to the kernel, for a frame that comes.
    Receiving,
    /// Lent to the kernel, with a frame that goes.
    Sending,
    /// In a file, through which others read it; not lent. Its bytes are not reached through this memory.
    Shared,
}

/// The right to a buffer that is here.
#[derive(Debug)]
pub(crate) struct Buffer(u32);

/// The memory, and where each buffer of it is.
#[derive(Debug)]
pub(crate) struct Umem {
    mapping: Mapping,
    buffer_bytes: usize,
    places: Vec<Place>,
    /// The first so many are of a file.
    shared: u32,
}

impl Umem {
    /// Makes so many buffers of so many bytes, with the rights to all of them. None if there is no memory, with the kernel's reason in `errno`.
    pub(crate) fn new(buffers: u32, buffer_bytes: u32) -> Option<(Self, Vec<Buffer>)> {
        let bytes = (buffers as usize).checked_mul(buffer_bytes as usize)?;
        let umem = Self {
            mapping: Mapping::anonymous(bytes)?,
            buffer_bytes: buffer_bytes as usize,
            places: Vec::new(),
            shared: 0,
        };
        Some(umem.all_here(buffers))
    }

    /// Makes buffers of so many bytes of a file, which are [shared](Place::Shared), and so many others behind them, with the rights to those. Buffers of both lie one behind the other: the
    /// file has a whole number of them.
    pub(crate) fn over_file(
        file: RawFd,
        file_bytes: usize,
        others: u32,
        buffer_bytes: u32,
    ) -> Option<(Self, Vec<Buffer>)> {
        let buffer_bytes = buffer_bytes as usize;
        let shared = file_bytes / buffer_bytes;
        let new_bytes = (others as usize).checked_mul(buffer_bytes)?;
        let umem = Self {
            mapping: Mapping::file_and_new(file, shared * buffer_bytes, new_bytes)?,
            buffer_bytes,
            places: Vec::new(),
            shared: shared as u32,
        };
        Some(umem.all_here(others))
    }

    /// With all buffers free that are not shared, so many, and the rights to them. No ring of the kernel has one, and there are no other rights.
    fn all_here(mut self, others: u32) -> (Self, Vec<Buffer>) {
        let all = self.shared + others;
        self.places = vec![Place::Here; all as usize];
        self.places[..self.shared as usize].fill(Place::Shared);
        let rights = (self.shared..all).map(Buffer).collect();
        (self, rights)
    }

    /// The same memory, after the socket that had it is closed and all rights are gone.
    pub(crate) fn anew(self) -> (Self, Vec<Buffer>) {
        let others = self.places.len() as u32 - self.shared;
        self.all_here(others)
    }

    /// For the kernel: where it is, and its length.
    pub(super) fn region(&self) -> (u64, u64) {
        (
            self.mapping.start().as_ptr() as u64,
            self.mapping.bytes() as u64,
        )
    }

    pub(crate) const fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Buffers in all.
    pub(crate) fn total(&self) -> usize {
        self.places.len()
    }

    /// How many buffers are in a place, by the census.
    pub(crate) fn count(&self, place: Place) -> u64 {
        self.places.iter().filter(|one| **one == place).count() as u64
    }

    /// Gives a buffer up to the kernel; gives its address for a ring.
    pub(crate) fn lend(&mut self, buffer: Buffer, to: Place) -> u64 {
        let number = buffer.0 as usize;
        debug_assert_ne!(to, Place::Here);
        self.places[number] = to;
        (number * self.buffer_bytes) as u64
    }

    /// The buffer that an address of a ring of the kernel is in, and where in it; none of an address that is in none, or in one that is not lent so.
    pub(crate) fn take_back(&mut self, address: u64, from: Place) -> Option<(Buffer, usize)> {
        let address = usize::try_from(address).ok()?;
        let number = address / self.buffer_bytes;
        let place = self
            .places
            .get_mut(number)
            .filter(|place| **place == from)?;
        *place = Place::Here;
        Some((Buffer(number as u32), address % self.buffer_bytes))
    }

    /// Gives the kernel a shared buffer for a frame that comes; gives its address for a ring. None if it is lent, or not shared.
    pub(crate) fn lend_shared(&mut self, number: u32) -> Option<u64> {
        let place = self.places.get_mut(number as usize);
        *place.filter(|place| **place == Place::Shared)? = Place::Receiving;
        Some(u64::from(number) * self.buffer_bytes as u64)
    }

    /// The shared buffer that an address of a ring of the kernel is in, and where in it; none of an address that is in none, or in one that is not lent so.
    pub(crate) fn take_back_shared(&mut self, address: u64) -> Option<(u32, usize)> {
        let (buffer, start) = self.take_back(address, Place::Receiving)?;
        self.places[buffer.0 as usize] = Place::Shared;
        Some((buffer.0, start))
    }

    /// So many bytes of a buffer from a place in it on; none if it has not as many.
    pub(crate) fn bytes(&self, buffer: &Buffer, start: usize, length: usize) -> Option<&[u8]> {
        let at = self.at(buffer, start, length)?;
        // SAFETY: within the mapping, as `at` checks, whose bytes all have values. The buffer is here, so that neither the kernel nor (`self` is borrowed) this process
        // writes it meanwhile.
        Some(unsafe { std::slice::from_raw_parts(self.mapping.start().add(at).as_ptr(), length) })
    }

    /// The first so many bytes of a buffer, to be written; none if it has not as many.
    pub(crate) fn bytes_mut(&mut self, buffer: &mut Buffer, length: usize) -> Option<&mut [u8]> {
        let at = self.at(buffer, 0, length)?;
        // SAFETY: as above, and `self` is borrowed alone.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.mapping.start().add(at).as_ptr(), length)
        })
    }

    fn at(&self, buffer: &Buffer, start: usize, length: usize) -> Option<usize> {
        let end = start.checked_add(length)?;
        let at = buffer.0 as usize * self.buffer_bytes + start;
        (end <= self.buffer_bytes && at + length <= self.mapping.bytes()).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_buffer_is_in_one_place_and_no_address_brings_back_what_is_not_lent_so() {
        let (mut umem, mut all) = Umem::new(4, 4096).unwrap();
        let last = all.pop().unwrap();
        let at = umem.lend(last, Place::Receiving);
        assert_eq!(at, 3 * 4096);
        let counts = |umem: &Umem| {
            [Place::Here, Place::Receiving, Place::Sending].map(|place| umem.count(place))
        };
        assert_eq!(counts(&umem), [3, 1, 0]);
        for (address, from) in [
            (at, Place::Sending),
            (0, Place::Receiving),
            (4 * 4096, Place::Receiving),
            (u64::MAX, Place::Receiving),
        ] {
            assert!(umem.take_back(address, from).is_none(), "{address}");
        }
        assert_eq!(counts(&umem), [3, 1, 0]);
        let (mut back, start) = umem.take_back(at + 256, Place::Receiving).unwrap();
        assert_eq!((start, counts(&umem)), (256, [4, 0, 0]));
        assert!(umem.take_back(at + 256, Place::Receiving).is_none());
        umem.bytes_mut(&mut back, 300).unwrap().fill(7);
        assert_eq!(umem.bytes(&back, 256, 100).unwrap()[43..46], [7, 0, 0]);
        assert!(umem.bytes(&back, 4000, 96).is_some());
        assert!(umem.bytes(&back, 4000, 97).is_none());
        assert!(umem.bytes(&back, usize::MAX, 2).is_none());
        assert!(umem.bytes_mut(&mut back, 4097).is_none());
    }

    #[test]
    fn shared_buffers_are_lent_by_their_numbers_and_nobody_has_a_right_to_them() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * 4096).unwrap();
        let (umem, rights) = Umem::over_file(file.as_raw_fd(), 2 * 4096, 3, 4096).unwrap();
        let numbers: Vec<_> = rights.iter().map(|right| right.0).collect();
        assert_eq!((umem.total(), numbers), (5, vec![2, 3, 4]));
        // What is written behind the file is not in it.
        let mut umem = umem;
        for mut right in rights {
            umem.bytes_mut(&mut right, 4096).unwrap().fill(9);
        }
        let mut content = vec![1; 2 * 4096];
        file.read_exact_at(&mut content, 0).unwrap();
        assert!(content.iter().all(|byte| *byte == 0));
        assert_eq!(umem.lend_shared(1), Some(4096));
        // Lent already, of new memory, and of none.
        assert_eq!([1, 2, 5].map(|number| umem.lend_shared(number)), [None; 3]);
        assert_eq!(umem.count(Place::Shared), 1);
        assert_eq!(umem.take_back_shared(4096 + 300), Some((1, 300)));
        for address in [4096, 0, 2 * 4096, u64::MAX] {
            assert_eq!(umem.take_back_shared(address), None, "{address}");
        }
        assert!(umem.lend_shared(0).is_some());
        let (umem, rights) = umem.anew();
        let counts = [Place::Shared, Place::Here].map(|place| umem.count(place));
        assert_eq!((counts, rights.len()), ([2, 3], 3));
    }
}
