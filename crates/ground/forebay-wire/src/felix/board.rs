//! The registers of a card, and the blocks that it writes to test its DMA buffers.
//!
//! Registers have 64 bits at every sixteenth byte, as those of FELIX have. Names, addresses and widths are this project's: the register map of the firmware is not
//! copied here, and a real card needs a map of its own. Where no register is, 0 is read. What a register is for stands beside it in [`REGISTERS`].
//!
//! ```text
//! test block   u32 head, as of every block | u64 number of the block, from 0 | words of the pattern up to the last byte    (little-endian)
//! ```

/// Bytes from one register to the next.
pub const REGISTER_STRIDE: u32 = 16;
/// Links of a card, at most.
pub const BOARD_LINKS: usize = 24;
/// DMA buffers of a card, at most.
pub const BOARD_BUFFERS: usize = 8;
/// E-link number in the heads of test blocks: the last one there is.
pub const TEST_ELINK: u16 = 0x7ff;
/// Words of a test block before its pattern: head and number.
pub const TEST_HEAD_WORDS: usize = 3;
/// What counters of PRBS errors stop at.
pub const PRBS_ERRORS_MOST: u64 = 0xffff;
/// What a bus answers when nobody does: all bits are one.
pub const NO_ANSWER: u64 = u64::MAX;
/// Bit 0 of `TTC_STATUS`: the clock of the input is there.
pub const TTC_LOCKED: u64 = 1;
/// Value of `TTC_SELECT` for the test input; 0 is the live one.
pub const TTC_TEST_INPUT: u64 = 1;
/// Bit 0 of `FIFO_STATUS`: the front end is told to stop.
pub const FIFO_XOFF: u64 = 1;

/// What may be done with a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It says what the card is, and never changes.
    Constant,
    /// It says what the card does.
    Status,
    /// What is written is read again, and nothing else happens.
    Stored,
    /// What is written is done.
    Action,
}

/// A register, or several of the same kind behind each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// Its name.
    pub name: &'static str,
    /// Of the first one.
    pub address: u32,
    /// How many there are.
    pub count: u16,
    /// Bits that it has, from the lowest; the others read as 0.
    pub width_bits: u8,
    /// What may be done with it.
    pub access: Access,
    /// What a stored one has after a reset.
    pub reset: u64,
}

impl Register {
    /// The address of the n-th one.
    #[must_use]
    pub const fn at(&self, n: usize) -> u32 {
        self.address + n as u32 * REGISTER_STRIDE
    }

    /// The bits that it has.
    #[must_use]
    pub const fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.width_bits)
    }

    /// The register at an address, and which of them; none where nothing is.
    #[must_use]
    pub fn find(address: u32) -> Option<(&'static Self, usize)> {
        let holds = |register: &&Self| {
            let past = register.at(usize::from(register.count));
            (register.address..past).contains(&address) && address.is_multiple_of(REGISTER_STRIDE)
        };
        let register = REGISTERS.iter().find(holds)?;
        let n = (address - register.address) / REGISTER_STRIDE;
        Some((register, n as usize))
    }
}

const fn register(
    name: &'static str,
    address: u32,
    count: u16,
    width_bits: u8,
    access: Access,
    reset: u64,
) -> Register {
    Register {
        name,
        address,
        count,
        width_bits,
        access,
        reset,
    }
}

macro_rules! registers {
    ($($(#[doc = $says:literal])* $name:ident: $address:literal, $count:expr, $width:literal, $access:ident, $reset:literal;)*) => {
        $($(#[doc = $says])* pub const $name: Register = register(stringify!($name), $address, $count, $width, Access::$access, $reset);)*
        /// All of them, by address.
        pub const REGISTERS: &[Register] = &[$($name),*];
    };
}

registers! {
    /// The kind of card, as 0x712.
    BOARD_ID: 0x000, 1, 16, Constant, 0;
    /// The firmware's version: major and minor, 8 bits each, and patch, 16 bits.
    FIRMWARE_VERSION: 0x010, 1, 32, Constant, 0;
    /// First 32 bits of the commit that it was built from.
    FIRMWARE_COMMIT: 0x020, 1, 32, Constant, 0;
    /// What the links speak: 0 GBT, 1 FULL mode.
    FIRMWARE_MODE: 0x030, 1, 4, Constant, 0;
    /// Bytes of a block.
    BLOCK_BYTES: 0x040, 1, 16, Constant, 0;
    /// Links.
    LINKS: 0x050, 1, 5, Constant, 0;
    /// DMA buffers.
    DMA_BUFFERS: 0x060, 1, 4, Constant, 0;
    /// For tests of the bus.
    SCRATCH: 0x100, 16, 64, Stored, 0;
    /// Aligns these links anew (a bit each).
    LINK_RESET: 0x200, 1, 24, Action, 0;
    /// Links that are aligned.
    LINK_ALIGNED: 0x210, 1, 24, Status, 0;
    /// Links that send PRBS.
    PRBS_ENABLE: 0x220, 1, 24, Stored, 0;
    /// Its order: 7, 15, 23 or 31 (ITU-T O.150).
    PRBS_ORDER: 0x230, 1, 5, Stored, 31;
    /// Lets these links' checkers find the sequence anew, and sets their counters to 0.
    PRBS_CLEAR: 0x240, 1, 24, Action, 0;
    /// Links whose checker has found the sequence.
    PRBS_LOCKED: 0x250, 1, 24, Status, 0;
    /// Bits that each checker has compared.
    PRBS_BITS: 0x260, 1, 48, Status, 0;
    /// Bits that were wrong, of each link; it stops at 65,535.
    PRBS_ERRORS: 0x300, BOARD_LINKS as u16, 16, Status, 0;
    /// What each link says it is, while it sends no PRBS.
    LINK_TX_ID: 0x500, BOARD_LINKS as u16, 8, Stored, 0;
    /// What each link hears the other end say; 0: nothing.
    LINK_RX_ID: 0x700, BOARD_LINKS as u16, 8, Status, 0;
    /// DMA buffers that take test blocks only.
    DMA_TEST_HOLD: 0x900, 1, 8, Stored, 0;
    /// Their pattern, by [`Pattern::number`].
    DMA_TEST_PATTERN: 0x910, 1, 2, Stored, 0;
    /// What the random pattern follows from.
    DMA_TEST_SEED: 0x920, 1, 32, Stored, 0;
    /// Of each DMA buffer: writes so many test blocks, numbered from 0. Read: how many are left.
    DMA_TEST_BLOCKS: 0x930, BOARD_BUFFERS as u16, 16, Action, 0;
    /// Bit 0: locked.
    TTC_STATUS: 0xb00, 1, 1, Status, 0;
    /// Which input counts: 0 live, 1 test.
    TTC_SELECT: 0xb10, 1, 1, Stored, 0;
    /// Triggers.
    TTC_L1A_COUNT: 0xb20, 1, 48, Status, 0;
    /// Resets of the bunch counter.
    TTC_BCR_COUNT: 0xb30, 1, 48, Status, 0;
    /// Resets of the trigger number.
    TTC_ECR_COUNT: 0xb40, 1, 32, Status, 0;
    /// Sets the counters to 0.
    TTC_CLEAR: 0xb50, 1, 1, Action, 0;
    /// The link whose queue the test uses.
    FIFO_TEST_LINK: 0xc00, 1, 5, Stored, 0;
    /// Sixteenths of the queue at which the front end is told to stop.
    FIFO_XOFF_MARK: 0xc10, 1, 4, Stored, 12;
    /// Sixteenths at which it may go on.
    FIFO_XON_MARK: 0xc20, 1, 4, Stored, 4;
    /// Puts so many bytes into that queue.
    FIFO_TEST_PUSH: 0xc30, 1, 16, Action, 0;
    /// Takes so many out.
    FIFO_TEST_POP: 0xc40, 1, 16, Action, 0;
    /// Bytes in it.
    FIFO_FILL: 0xc50, 1, 24, Status, 0;
    /// Bit 0: the front end is told to stop.
    FIFO_STATUS: 0xc60, 1, 1, Status, 0;
    /// Its size in bytes.
    FIFO_BYTES: 0xc70, 1, 24, Constant, 0;
}

/// What stands in the words of a test block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// The word's place in the block, and above it the low 16 bits of the block's number.
    Address,
    /// One bit, which walks.
    WalkingOne,
    /// 0xAAAAAAAA and 0x55555555 in turn.
    Checkerboard,
    /// Words that look random, from a seed.
    Random,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Address,
        Self::WalkingOne,
        Self::Checkerboard,
        Self::Random,
    ];

    /// What `DMA_TEST_PATTERN` has to say.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// The pattern that two bits say.
    #[must_use]
    pub const fn of_number(number: u64) -> Self {
        Self::ALL[(number & 3) as usize]
    }

    /// The word at a place of a block with this number.
    #[must_use]
    pub const fn word(self, seed: u32, number: u64, place: usize) -> u32 {
        self.of_base(self.base(seed, number), number, place)
    }

    /// What all words of a block have in common.
    const fn base(self, seed: u32, number: u64) -> u32 {
        scrambled(seed ^ number as u32)
    }

    const fn of_base(self, base: u32, number: u64, place: usize) -> u32 {
        match self {
            Self::Address => (number as u32) << 16 | place as u32 & 0xffff,
            Self::WalkingOne => 1 << ((number + place as u64) & 31),
            Self::Checkerboard => 0xaaaa_aaaa >> ((number + place as u64) & 1),
            Self::Random => scrambled(base.wrapping_add((place as u32).wrapping_mul(0x9e37_79b9))),
        }
    }

    /// Puts number and pattern into a block, behind its head. A last piece of less than a word stays as it is.
    pub fn fill(self, seed: u32, number: u64, block: &mut [u8]) {
        let base = self.base(seed, number);
        for (place, word) in block.chunks_exact_mut(4).enumerate().skip(1) {
            let value = match place {
                1 => number as u32,
                2 => (number >> 32) as u32,
                _ => self.of_base(base, number, place),
            };
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// The words of a block, the first one of its head; a last piece of less than a word is none.
pub fn words_of(block: &[u8]) -> impl Iterator<Item = u32> {
    let (words, _) = block.as_chunks();
    words.iter().map(|word| u32::from_le_bytes(*word))
}

/// A bijection of 32 bits that mixes them well (the finaliser of `MurmurHash3`).
const fn scrambled(mut x: u32) -> u32 {
    x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec;

    use super::*;

    #[test]
    fn no_two_registers_share_an_address() {
        let mut last = 0;
        let mut names = BTreeSet::new();
        for register in REGISTERS {
            assert!(register.address >= last, "{}", register.name);
            assert!((1..=64).contains(&register.width_bits) && register.count > 0);
            assert_eq!(register.reset & !register.mask(), 0);
            assert!(names.insert(register.name));
            last = register.at(usize::from(register.count));
        }
    }

    #[test]
    fn registers_are_found_by_their_addresses() {
        assert_eq!(Register::find(0x100 + 5 * 16), Some((&SCRATCH, 5)));
        assert_eq!(Register::find(0x01), None);
        assert_eq!(Register::find(0x070), None);
        assert_eq!(Register::find(u32::MAX), None);
        assert_eq!(LINK_TX_ID.at(23), 0x670);
        assert_eq!((SCRATCH.mask(), LINKS.mask()), (u64::MAX, 0x1f));
    }

    #[test]
    fn golden_words_of_each_pattern() {
        let words = |pattern: Pattern| [3, 4].map(|place| pattern.word(7, 0x0001_0002, place));
        assert_eq!(words(Pattern::Address), [0x0002_0003, 0x0002_0004]);
        assert_eq!(words(Pattern::WalkingOne), [1 << 5, 1 << 6]);
        assert_eq!(words(Pattern::Checkerboard), [0x5555_5555, 0xaaaa_aaaa]);
        assert_ne!(words(Pattern::Random)[0], words(Pattern::Random)[1]);
        for pattern in Pattern::ALL {
            assert_eq!(Pattern::of_number(pattern.number()), pattern);
        }
        let mut block = vec![0xff; 16];
        Pattern::Address.fill(0, 0x0001_0002, &mut block);
        assert_eq!(
            block,
            [255, 255, 255, 255, 2, 0, 1, 0, 0, 0, 0, 0, 3, 0, 2, 0]
        );
    }
}
