//! Blocks in, chunks out.

use forebay_wire::felix::{
    BLOCK_HEAD_BYTES, BlockFormat, BlockHead, ELINKS, Elink, Kind, Subchunk,
};

use crate::account::{Account, Damage, Items, LinkAccount, PieceDrop};
use crate::bytes::Bytes;
use crate::config::Config;
use crate::error::BlockError;
use crate::status::Status;
use crate::walk::{Located, Words, fetch_words, is_piece};
use forebay_settings::OutOfRange;

/// What a front end sent for one trigger, or what is left of it.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a, B> {
    /// Whose it is.
    pub elink: Elink,
    /// What is wrong with it.
    pub status: Status,
    /// Its bytes.
    pub payload: Payload<'a, B>,
}

/// Bytes of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a, B> {
    /// All in the block, where they lie.
    Within(B),
    /// Joined of several blocks.
    Joined(&'a [u8]),
}

impl<B: Bytes> Payload<'_, B> {
    /// Bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Within(bytes) => bytes.len(),
            Self::Joined(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a copy of all of them.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::Within(bytes) => bytes.append_to(to),
            Self::Joined(bytes) => to.extend_from_slice(bytes),
        }
    }
}

/// One E-link's state.
#[derive(Debug, Default)]
struct Link {
    /// Sequence number that the next block has; none before the first one.
    sequence: Option<u8>,
    is_open: bool,
    /// The open chunk has ended, and is to be taken.
    has_ended: bool,
    status: Status,
    pieces: u64,
    bytes: Vec<u8>,
    /// What lay here when it was measured last.
    measured: Items,
    account: LinkAccount,
}

/// Decodes the blocks of one DMA buffer, all of one format.
///
/// A block is handed in with [`handle_block`](Self::handle_block) and its chunks are taken with [`poll`](Self::poll), until that says that there are no more. A caller
/// that takes no more for now is offered the same chunk again.
#[derive(Debug)]
pub struct Decoder {
    format: BlockFormat,
    config: Config,
    words: Words,
    /// The block's E-link; none when nothing of a block is to be taken.
    elink: Option<Elink>,
    links: Box<[Link]>,
    /// The link whose buffer was used since it was measured.
    used: Option<Elink>,
    /// What lay in the buffers of all links, each as it was measured last.
    lies: Items,
    account: Account,
}

impl Decoder {
    /// A decoder for blocks of a format.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn new(format: BlockFormat, config: &Config) -> Result<Self, OutOfRange> {
        config.validate()?;
        Ok(Self {
            format,
            config: *config,
            words: Words::new(format.layout()),
            elink: None,
            links: (0..ELINKS).map(|_| Link::default()).collect(),
            used: None,
            lies: [0; 2],
            account: Account::default(),
        })
    }

    /// Takes the next block in. The chunks of the one before have to be taken.
    ///
    /// # Errors
    /// It is damaged as a whole and dropped. There may be a chunk to take all the same: that which was open on its E-link.
    #[inline]
    pub fn handle_block<B: Bytes>(&mut self, block: B) -> Result<(), BlockError> {
        self.account.blocks += 1;
        self.words.clear();
        self.elink = None;
        if let Some(used) = self.used.take() {
            self.links[usize::from(used.number())].measure(&mut self.lies);
        }
        let head = self.head(block).inspect_err(|error| {
            self.account.dropped_blocks[error.into()] += 1;
        })?;
        self.elink = Some(head.elink);
        self.used = self.elink;
        let link = &mut self.links[usize::from(head.elink.number())];
        let expected = link.sequence.unwrap_or(head.sequence);
        link.sequence = Some((head.sequence + 1) % BlockHead::SEQUENCES);
        if head.sequence != expected {
            let missing = head.sequence.wrapping_sub(expected) % BlockHead::SEQUENCES;
            self.account.missing_blocks += u64::from(missing);
            self.account.damage[Damage::Gap] += 1;
            link.account.gaps += 1;
            link.cut_off(Status::SW_TRUNCATED);
        }
        match self.words.read(block) {
            Ok([pieces, bytes]) => {
                self.account.decoded += 1;
                link.account.blocks += 1;
                self.account.pieces[0] += pieces;
                self.account.pieces[1] += bytes;
                Ok(())
            }
            Err(error) => {
                self.account.dropped_blocks[(&error).into()] += 1;
                if link.cut_off(Status::SW_TRUNCATED) {
                    self.account.damage[Damage::Interrupted] += 1;
                }
                Err(error)
            }
        }
    }

    /// Looks at a block without taking it in: its head, if it is a sound one. The chunks of the block before have to be taken.
    ///
    /// # Errors
    /// What [`handle_block`](Self::handle_block) would say of it.
    pub fn look<B: Bytes>(&mut self, block: B) -> Result<BlockHead, BlockError> {
        let head = self.head(block)?;
        let read = self.words.read(block);
        self.words.clear();
        read.map(|_| head)
    }

    /// Fetches the words of the blocks that come next, up to [`FETCHED_BLOCKS`](crate::FETCHED_BLOCKS) of them, into the processor's caches: for callers that take chunks where they
    /// lie, and do not touch their data. Callers that copy them fetch whole blocks, one ahead, and so do those that have [small ones](Self::is_worth_fetching_words).
    #[inline]
    pub fn fetch_words<B: Bytes>(&self, blocks: &[B]) {
        fetch_words(self.format.layout(), blocks);
    }

    /// Whether blocks are so large that but few chunks lie in two of them: those are joined, which touches their data.
    #[must_use]
    pub fn is_worth_fetching_words(format: BlockFormat) -> bool {
        format.bytes() >= 8192
    }

    /// The subchunks of the block that was handed in last, in the order of their data, and where that begins; those that [`poll`](Self::poll) is through with are
    /// not among them.
    pub fn subchunks(&self) -> impl Iterator<Item = (usize, Subchunk)> {
        self.words.iter()
    }

    fn head(&self, block: impl Bytes) -> Result<BlockHead, BlockError> {
        let (found, expected) = (block.len(), self.format.bytes());
        let word = block.u32_le(0).filter(|_| found == expected);
        let word = word.ok_or(BlockError::Bytes { found, expected })?;
        let head = BlockHead::from_word(word);
        let (found, expected) = (head.marker, self.format.marker());
        if found != expected {
            return Err(BlockError::Marker { found, expected });
        }
        Ok(head)
    }

    /// Offers the chunks of the block that was handed in last, which has to be the same bytes, one after the other until `take` refuses one; true when there
    /// are no more.
    #[inline]
    pub fn poll<B: Bytes>(&mut self, block: B, mut take: impl FnMut(Chunk<'_, B>) -> bool) -> bool {
        let Some(elink) = self.elink else {
            return true;
        };
        let link = &mut self.links[usize::from(elink.number())];
        let account = &mut self.account;
        loop {
            if link.has_ended && !link.offer(elink, account, &mut take) {
                return false;
            }
            if !link.is_open && !whole(&mut self.words, block, elink, link, account, &mut take) {
                return false;
            }
            let Some(Located { subchunk, at }) = self.words.peek() else {
                self.elink = None;
                return true;
            };
            match subchunk.kind {
                // Nobody said that the one before ends here.
                Kind::First | Kind::Both if link.is_open => {
                    account.damage[Damage::Unended] += 1;
                    link.cut_off(Status::SW_MALFORMED);
                    continue;
                }
                Kind::First => link.is_open = true,
                Kind::Middle | Kind::Last if !link.is_open => {
                    account.lose(PieceDrop::Orphan, subchunk.data_bytes());
                    self.words.skip(subchunk);
                    continue;
                }
                Kind::Undefined => {
                    account.lose(PieceDrop::UndefinedKind, subchunk.data_bytes());
                    self.words.skip(subchunk);
                    link.cut_off(Status::SW_MALFORMED);
                    continue;
                }
                Kind::Timeout if is_piece(subchunk) && !link.is_open => {
                    account.lose(PieceDrop::Orphan, subchunk.data_bytes());
                    self.words.skip(subchunk);
                    continue;
                }
                _ if !is_piece(subchunk) => {
                    self.words.skip(subchunk);
                    continue;
                }
                _ => {}
            }
            let data = block.part(at, subchunk.data_bytes());
            link.append(data, self.config.chunk_bytes_max, account);
            link.status = link.status.and(Status::of_flags(subchunk.flags));
            link.has_ended = matches!(subchunk.kind, Kind::Last | Kind::Timeout);
            self.words.skip(subchunk);
        }
    }

    /// At the end of a run: offers the chunks that are still open, flagged. True when there are no more.
    pub fn finish<B: Bytes>(&mut self, mut take: impl FnMut(Chunk<'_, B>) -> bool) -> bool {
        for (number, link) in self.links.iter_mut().enumerate() {
            if link.is_open && !link.has_ended {
                self.account.damage[Damage::Unfinished] += 1;
                link.cut_off(Status::SW_TRUNCATED);
            }
            let elink = Elink::from_bits(number as u16);
            if link.has_ended && !link.offer(elink, &mut self.account, &mut take) {
                return false;
            }
            link.measure(&mut self.lies);
        }
        true
    }

    /// The books. What is held is measured now, in the block and in the links' buffers.
    #[must_use]
    pub fn account(&self) -> Account {
        let mut held = self.lies;
        if let Some(used) = self.used {
            let link = &self.links[usize::from(used.number())];
            for ((held, before), now) in held.iter_mut().zip(link.measured).zip(link.lies()) {
                *held = *held - before + now;
            }
        }
        let unread = self.words.iter().map(|(_, subchunk)| subchunk);
        for subchunk in unread.filter(|subchunk| is_piece(*subchunk)) {
            held[0] += 1;
            held[1] += subchunk.data_bytes() as u64;
        }
        Account {
            held,
            ..self.account
        }
    }

    /// What an E-link had.
    #[must_use]
    pub fn link(&self, elink: Elink) -> &LinkAccount {
        &self.links[usize::from(elink.number())].account
    }

    /// The format of its blocks.
    #[must_use]
    pub fn format(&self) -> BlockFormat {
        self.format
    }
}

/// Offers the whole chunks that come next, where they lie: most of what most blocks have. False when one was refused.
#[inline]
fn whole<B: Bytes>(
    words: &mut Words,
    block: B,
    elink: Elink,
    link: &mut Link,
    account: &mut Account,
    take: &mut impl FnMut(Chunk<'_, B>) -> bool,
) -> bool {
    let mut flagged = 0;
    let (chunks, bytes, taken) = words.each_whole(|word, at, bytes| {
        // The words tile the block: it is there.
        let Some(data) = block.part(at, bytes) else {
            return false;
        };
        let status = if word & FLAGS == 0 {
            Status::GOOD
        } else {
            status_of(word)
        };
        let taken = take(Chunk {
            elink,
            status,
            payload: Payload::Within(data),
        });
        if taken && !status.is_good() {
            flag(status, account);
            flagged += 1;
        }
        taken
    });
    link.account.flagged += flagged;
    link.took(chunks, chunks, bytes, account);
    taken
}

/// Where a word has its flags.
const FLAGS: u32 = 0xf << 25;

#[cold]
fn status_of(word: u32) -> Status {
    Status::of_flags(Subchunk::from_word32(word).flags)
}

#[cold]
fn flag(status: Status, account: &mut Account) {
    for (count, (bit, _)) in account.flagged.iter_mut().zip(Status::NAMES) {
        *count += u64::from(status.has(bit));
    }
}

impl Link {
    /// Pieces that lie in its buffer, and the bytes there.
    fn lies(&self) -> Items {
        [self.pieces, self.bytes.len() as u64]
    }

    /// Puts what lies here now into the sum of all links, in place of what lay here before.
    #[inline]
    fn measure(&mut self, sum: &mut Items) {
        let now = self.lies();
        for ((sum, before), now) in sum.iter_mut().zip(&mut self.measured).zip(now) {
            *sum += now;
            *sum -= *before;
            *before = now;
        }
    }

    /// Ends the open chunk, if there is one that has not ended.
    fn cut_off(&mut self, status: Status) -> bool {
        let cut = self.is_open && !self.has_ended;
        if cut {
            self.status = self.status.and(status);
            self.has_ended = true;
        }
        cut
    }

    fn append(&mut self, data: Option<impl Bytes>, most: usize, account: &mut Account) {
        let Some(data) = data else {
            // The words tile the block: it is there.
            return;
        };
        self.pieces += 1;
        let room = most - self.bytes.len();
        let kept = data.len().min(room);
        if let Some(part) = data.part(0, kept) {
            part.append_to(&mut self.bytes);
            account.copied_bytes += kept as u64;
        }
        let beyond = (data.len() - kept) as u64;
        if beyond > 0 {
            if !self.status.has(Status::SW_TRUNCATED) {
                account.damage[Damage::TooLong] += 1;
            }
            self.status = self.status.and(Status::SW_TRUNCATED);
            account.dropped[PieceDrop::TooLong][1] += beyond;
        }
    }

    /// Offers the chunk that has ended.
    fn offer<B: Bytes>(
        &mut self,
        elink: Elink,
        account: &mut Account,
        take: &mut impl FnMut(Chunk<'_, B>) -> bool,
    ) -> bool {
        let taken = take(Chunk {
            elink,
            status: self.status,
            payload: Payload::Joined(&self.bytes),
        });
        if !taken {
            return false;
        }
        if !self.status.is_good() {
            flag(self.status, account);
            self.account.flagged += 1;
        }
        self.took(1, self.pieces, self.bytes.len() as u64, account);
        self.is_open = false;
        self.has_ended = false;
        self.status = Status::GOOD;
        self.pieces = 0;
        self.bytes.clear();
        true
    }

    #[inline]
    fn took(&mut self, chunks: u64, pieces: u64, bytes: u64, account: &mut Account) {
        account.chunks += chunks;
        account.chunk_bytes += bytes;
        account.joined[0] += pieces;
        account.joined[1] += bytes;
        self.account.chunks += chunks;
        self.account.bytes += bytes;
    }
}

impl Account {
    fn lose(&mut self, why: PieceDrop, bytes: usize) {
        self.damage[why.into()] += 1;
        let [pieces, sum] = &mut self.dropped[why];
        *pieces += 1;
        *sum += bytes as u64;
    }
}

const _: () = assert!(BLOCK_HEAD_BYTES == size_of::<u32>());
