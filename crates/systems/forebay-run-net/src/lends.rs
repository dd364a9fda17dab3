//! Memory from which messages go out without being copied: what of it is on its way.

use std::ops::Range;

use forebay_link::bytes::{PARTS_MAX, REGION_BYTES_MAX, Region};
use forebay_sys::SysError;

use crate::error::NetError;

/// Memory of an end point's user, from which messages go out without being copied. It consists of pages; one from which a message is on its way
/// cannot be written.
#[derive(Debug)]
pub struct Memory {
    region: Region,
    page_bytes: usize,
    /// Messages on their way, by page.
    lent: Vec<u32>,
    /// Where the search for a free page goes on.
    next: usize,
}

impl Memory {
    /// Takes memory of so many pages, which `name` names in `/proc/PID/maps`.
    ///
    /// # Errors
    /// No pages, empty ones, more than 64 GiB of them, or the system has not so much memory.
    pub fn create(name: &str, pages: usize, page_bytes: usize) -> Result<Self, NetError> {
        let bytes = (pages as u64).checked_mul(page_bytes as u64);
        let bytes = bytes.filter(|bytes| (1..=REGION_BYTES_MAX).contains(bytes));
        let bytes = bytes.ok_or(NetError::MemorySize { pages, page_bytes })?;
        let region = Region::create(name, bytes);
        let failed = |error| SysError::new("mmap", "region", std::io::Error::other(error));
        Ok(Self {
            region: region.map_err(failed)?,
            page_bytes,
            lent: vec![0; pages],
            next: 0,
        })
    }

    /// Memory that somebody else writes, such as a card's DMA buffer, in pages of so many bytes. It cannot be written here, and messages go out from it over shared
    /// memory alone: see [`is_shown`](forebay_link::bytes::Address::is_shown).
    pub fn of_region(region: Region, page_bytes: usize) -> Self {
        Self {
            lent: vec![0; region.len() / page_bytes],
            region,
            page_bytes,
            next: 0,
        }
    }

    /// Whether somebody else writes it.
    fn is_foreign(&self) -> bool {
        self.region.bytes().is_empty()
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Number of pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.lent.len()
    }

    /// A page from which nothing is on its way; none when there is none. Pages take turns.
    pub fn free_page(&mut self) -> Option<Range<usize>> {
        if self.is_foreign() {
            return None;
        }
        let pages = self.lent.len();
        let found = (0..pages).map(|step| (self.next + step) % pages);
        let page = found.into_iter().find(|page| self.lent[*page] == 0)?;
        self.next = (page + 1) % pages;
        Some(page * self.page_bytes..(page + 1) * self.page_bytes)
    }

    /// All of it; nothing of what somebody else writes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let bytes = if self.is_foreign() { 0 } else { self.len() };
        &self.region.bytes()[..bytes]
    }

    fn len(&self) -> usize {
        self.lent.len() * self.page_bytes
    }

    /// A range of it, for writing.
    ///
    /// # Errors
    /// It has no such range, or a message is on its way from a page of it.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> Result<&mut [u8], NetError> {
        let (from, to, bytes) = (range.start, range.end, self.bytes().len());
        self.check(&range)?;
        if self.lent[self.pages_of(&range)]
            .iter()
            .any(|lent| *lent > 0)
        {
            return Err(NetError::Lent { from, to });
        }
        let place = self.region.bytes_mut().get_mut(range);
        place.ok_or(NetError::OutOfMemory { from, to, bytes })
    }

    fn check(&self, range: &Range<usize>) -> Result<(), NetError> {
        let (from, to, bytes) = (range.start, range.end, self.len());
        if from <= to && to <= bytes {
            return Ok(());
        }
        Err(NetError::OutOfMemory { from, to, bytes })
    }

    /// The pages that a range touches.
    fn pages_of(&self, range: &Range<usize>) -> Range<usize> {
        let from = range.start / self.page_bytes;
        from..range.end.div_ceil(self.page_bytes).max(from)
    }

    fn lend(&mut self, range: &Range<usize>) {
        let pages = self.pages_of(range);
        self.lent[pages].iter_mut().for_each(|lent| *lent += 1);
    }

    fn take_back(&mut self, range: &Range<usize>) {
        let pages = self.pages_of(range);
        self.lent[pages].iter_mut().for_each(|lent| *lent -= 1);
    }
}

/// A user's memory, as its end point knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryId(usize);

/// A message on its way from a user's memory.
#[derive(Clone, Debug)]
struct Lend {
    memory: usize,
    parts: [Range<usize>; PARTS_MAX],
    count: usize,
    /// What the user calls it.
    token: u64,
    /// Connections that have it.
    users: u32,
}

/// All memory of an end point's user, and all messages on their way from it.
#[derive(Debug, Default)]
pub(super) struct Lends {
    memories: Vec<Memory>,
    lends: Vec<Lend>,
    free: Vec<usize>,
    /// The user's tokens of messages that are not on their way any more.
    done: std::collections::VecDeque<u64>,
}

impl Lends {
    pub(super) fn register(&mut self, memory: Memory) -> MemoryId {
        self.memories.push(memory);
        MemoryId(self.memories.len() - 1)
    }

    pub(super) fn memory(&mut self, id: MemoryId) -> Result<&mut Memory, NetError> {
        self.memories.get_mut(id.0).ok_or(NetError::UnknownMemory)
    }

    /// Notes a message that one connection is to have: its number, and its bytes.
    pub(super) fn begin(
        &mut self,
        id: MemoryId,
        parts: &[Range<usize>],
        token: u64,
    ) -> Result<(u64, usize), NetError> {
        let memory = self.memory(id)?;
        if parts.len() > PARTS_MAX {
            return Err(NetError::TooManyParts { parts: parts.len() });
        }
        for part in parts {
            memory.check(part)?;
        }
        parts.iter().for_each(|part| memory.lend(part));
        let mut lend = Lend {
            memory: id.0,
            parts: Default::default(),
            count: parts.len(),
            token,
            users: 1,
        };
        lend.parts[..parts.len()].clone_from_slice(parts);
        let number = self.free.pop().unwrap_or(self.lends.len());
        if number == self.lends.len() {
            self.lends.push(lend);
        } else {
            self.lends[number] = lend;
        }
        Ok((number as u64, parts.iter().map(Range::len).sum()))
    }

    /// So many connections have it. Without any it is not on its way, and nothing is said of it.
    pub(super) fn shared(&mut self, number: u64, users: u32) {
        self.lends[number as usize].users = users;
        if users == 0 {
            self.end(number);
        }
    }

    /// Its memory can be written again.
    fn end(&mut self, number: u64) {
        let lend = &self.lends[number as usize];
        for part in &lend.parts[..lend.count] {
            self.memories[lend.memory].take_back(part);
        }
        self.free.push(number as usize);
    }

    /// A connection is through with it.
    pub(super) fn returned(&mut self, number: u64) {
        let lend = &mut self.lends[number as usize];
        lend.users -= 1;
        if lend.users > 0 {
            return;
        }
        let token = lend.token;
        self.done.push_back(token);
        self.end(number);
    }

    /// A message that nobody has taken: its memory was never needed.
    pub(super) fn unused(&mut self, token: u64) {
        self.done.push_back(token);
    }

    /// The next message of which no connection needs the memory any more, by the user's token.
    pub(super) fn done(&mut self) -> Option<u64> {
        self.done.pop_front()
    }

    /// A message's memory, and what of it is left behind its first `from` bytes.
    pub(super) fn rest(
        &self,
        number: u64,
        mut from: usize,
    ) -> (&Region, [Range<usize>; PARTS_MAX], usize) {
        let lend = &self.lends[number as usize];
        let mut rest: [Range<usize>; PARTS_MAX] = Default::default();
        let mut count = 0;
        for part in &lend.parts[..lend.count] {
            let skipped = from.min(part.len());
            from -= skipped;
            if skipped < part.len() {
                rest[count] = part.start + skipped..part.end;
                count += 1;
            }
        }
        (&self.memories[lend.memory].region, rest, count)
    }
}
