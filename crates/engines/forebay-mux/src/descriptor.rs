//! What a client hands over to be sent, which is not believed.
//!
//! A client writes descriptors into memory that it shares with the multiplexer. The caller copies one out *once*, and gives the copy here: a descriptor that
//! is read twice can change between the check and the use. What passes lies in a buffer of the client's own region that the multiplexer did not have before.
//! A lie is counted under its name, costs the client that packet, and, after so many of one kind, its connection. No other client notices.
//!
//! Positions of the rings themselves are checked where they are read, in the rings (`forebay-ring` calls it a fault of the peer).

use forebay_ledger::{DropReason, PerReason, reasons};
use thiserror::Error;

use crate::mac::Mac;
use crate::source::{Source, SourceLimits};
use forebay_settings::{OutOfRange, in_range};

/// Least bytes of a frame: its header.
pub const FRAME_BYTES_MIN: u32 = 14;

reasons! {
    /// What a client lies about when it hands over a packet.
    pub enum TransmitFault {
        /// There is no such buffer.
        BufferUnknown = "buffer_unknown",
        /// It has handed over this buffer before, and not got it back.
        BufferInUse = "buffer_in_use",
        /// The bytes do not lie in one buffer.
        Range = "range",
        /// It is shorter than a frame's header.
        TooShort = "too_short",
        /// It is longer than the link takes.
        TooLong = "too_long",
        /// It gives another station as its sender.
        ForeignSource = "foreign_source",
        /// It is of another VLAN than the client's.
        ForeignVlan = "foreign_vlan",
    }
}

/// What a client handed over: where its packet lies in its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Number of the buffer.
    pub buffer: u32,
    /// First byte in the buffer.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// A descriptor that was refused, with what was expected and what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DescriptorFault {
    /// There is no such buffer.
    #[error("buffer {buffer}; there are {buffers}")]
    BufferUnknown {
        /// What came.
        buffer: u32,
        /// How many there are.
        buffers: u32,
    },
    /// The multiplexer has it already.
    #[error("buffer {buffer} again, before it was given back")]
    BufferInUse {
        /// The buffer.
        buffer: u32,
    },
    /// The bytes do not lie in one buffer.
    #[error("{length} bytes from {offset} on, in a buffer of {buffer_bytes}")]
    Range {
        /// First byte.
        offset: u32,
        /// Bytes.
        length: u32,
        /// Bytes of a buffer.
        buffer_bytes: u32,
    },
    /// It is shorter than a frame's header.
    #[error("a frame of {length} bytes; its header has 14")]
    TooShort {
        /// Its bytes.
        length: u32,
    },
    /// It is longer than the link takes.
    #[error("a frame of {length} bytes; the link takes {frame_bytes_max}")]
    TooLong {
        /// Its bytes.
        length: u32,
        /// Most that the link takes.
        frame_bytes_max: u32,
    },
    /// It gives another station as its sender.
    #[error("a frame from {source_mac}; the client is {client_mac}")]
    ForeignSource {
        /// The sender that the frame names.
        source_mac: Mac,
        /// The client's address.
        client_mac: Mac,
    },
    /// It is of another VLAN than the client's.
    #[error("a frame of {}; the client's is {client_vlan}", named(*vlan))]
    ForeignVlan {
        /// The VLAN of the frame; none: it has no tag.
        vlan: Option<u16>,
        /// The client's VLAN.
        client_vlan: u16,
    },
}

fn named(vlan: Option<u16>) -> String {
    vlan.map_or_else(|| "no VLAN".to_owned(), |vlan| format!("VLAN {vlan}"))
}

impl DescriptorFault {
    /// Under which name it is counted.
    #[must_use]
    pub const fn kind(&self) -> TransmitFault {
        match self {
            Self::BufferUnknown { .. } => TransmitFault::BufferUnknown,
            Self::BufferInUse { .. } => TransmitFault::BufferInUse,
            Self::Range { .. } => TransmitFault::Range,
            Self::TooShort { .. } => TransmitFault::TooShort,
            Self::TooLong { .. } => TransmitFault::TooLong,
            Self::ForeignSource { .. } => TransmitFault::ForeignSource,
            Self::ForeignVlan { .. } => TransmitFault::ForeignVlan,
        }
    }
}

/// What a client may hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitLimits {
    /// Buffers of its region, 1 to 2^20.
    pub buffers: u32,
    /// Bytes of each, 64 to 2^20.
    pub buffer_bytes: u32,
    /// Longest frame with its header, in bytes, 64 to 65,550: the MTU and 14, and 4 for each VLAN tag.
    pub frame_bytes_max: u32,
    /// The sender that its frames may name.
    pub source: SourceLimits,
}

impl TransmitLimits {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is outside.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        in_range("buffers", self.buffers.into(), 1, 1 << 20)?;
        in_range("buffer_bytes", self.buffer_bytes.into(), 64, 1 << 20)?;
        in_range("frame_bytes_max", self.frame_bytes_max.into(), 64, 65_550)
    }
}

/// Checks what one client hands over.
#[derive(Clone, Debug)]
pub struct DescriptorCheck {
    limits: TransmitLimits,
    /// A bit for each buffer that the multiplexer has.
    taken: Box<[u64]>,
    faults: PerReason<TransmitFault, u64, { TransmitFault::COUNT }>,
}

impl DescriptorCheck {
    /// Nothing was handed over yet.
    ///
    /// # Errors
    /// A limit is outside its range.
    pub fn new(limits: &TransmitLimits) -> Result<Self, OutOfRange> {
        limits.validate()?;
        Ok(Self {
            limits: *limits,
            taken: vec![0; limits.buffers.div_ceil(64) as usize].into(),
            faults: PerReason::default(),
        })
    }

    /// Takes a buffer over, if what is said of it can be true.
    ///
    /// # Errors
    /// What cannot be true, which is counted here. The buffer stays the client's, if it is one and was not handed over before.
    #[inline]
    pub fn take(&mut self, descriptor: Descriptor) -> Result<(), DescriptorFault> {
        let taken = self.check(descriptor);
        match taken {
            Ok(()) => self.flip(descriptor.buffer),
            Err(fault) => self.faults[fault.kind()] += 1,
        }
        taken
    }

    #[inline]
    fn check(&self, of: Descriptor) -> Result<(), DescriptorFault> {
        let (buffer, offset, length) = (of.buffer, of.offset, of.length);
        let limits = &self.limits;
        let (buffers, buffer_bytes) = (limits.buffers, limits.buffer_bytes);
        if buffer >= buffers {
            return Err(DescriptorFault::BufferUnknown { buffer, buffers });
        }
        if self.has(buffer) {
            return Err(DescriptorFault::BufferInUse { buffer });
        }
        if offset
            .checked_add(length)
            .is_none_or(|end| end > buffer_bytes)
        {
            return Err(DescriptorFault::Range {
                offset,
                length,
                buffer_bytes,
            });
        }
        if length < FRAME_BYTES_MIN {
            return Err(DescriptorFault::TooShort { length });
        }
        let frame_bytes_max = limits.frame_bytes_max;
        if length > frame_bytes_max {
            return Err(DescriptorFault::TooLong {
                length,
                frame_bytes_max,
            });
        }
        Ok(())
    }

    /// Looks at the sender that a packet names, in a copy that the client cannot change any longer.
    ///
    /// # Errors
    /// It is another station, or of another VLAN, which is counted here. The buffer is still taken: the caller gives it back.
    #[inline]
    pub fn check_source(&mut self, named: Source) -> Result<(), DescriptorFault> {
        let checked = self.limits.source.check(named);
        if let Err(fault) = checked {
            self.faults[fault.kind()] += 1;
        }
        checked
    }

    /// Gives a buffer back to the client, when its packet was sent or dropped. Whether the multiplexer had it.
    #[inline]
    pub fn give_back(&mut self, buffer: u32) -> bool {
        let had = buffer < self.limits.buffers && self.has(buffer);
        if had {
            self.flip(buffer);
        }
        had
    }

    /// Buffers that the multiplexer has.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken.iter().map(|word| word.count_ones()).sum()
    }

    /// Lies so far, by their names.
    #[must_use]
    pub const fn faults(&self) -> &PerReason<TransmitFault, u64, { TransmitFault::COUNT }> {
        &self.faults
    }

    fn has(&self, buffer: u32) -> bool {
        self.taken[buffer as usize / 64] & 1 << (buffer % 64) != 0
    }

    fn flip(&mut self, buffer: u32) {
        self.taken[buffer as usize / 64] ^= 1 << (buffer % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const LIMITS: TransmitLimits = TransmitLimits {
        buffers: 70,
        buffer_bytes: 2048,
        frame_bytes_max: 1518,
        source: SourceLimits {
            mac: Some(Mac([2, 0, 0, 0, 0, 1])),
            vlan: Some(5),
        },
    };

    fn of(buffer: u32, offset: u32, length: u32) -> Descriptor {
        Descriptor {
            buffer,
            offset,
            length,
        }
    }

    #[test]
    fn what_cannot_be_true_has_a_name_and_says_what_was_expected() {
        let mut check = DescriptorCheck::new(&LIMITS).unwrap();
        let mut said = |descriptor| check.take(descriptor).unwrap_err().to_string();
        assert_eq!(said(of(70, 0, 64)), "buffer 70; there are 70");
        let range = "1500 bytes from 549 on, in a buffer of 2048";
        assert_eq!(said(of(0, 549, 1500)), range);
        let range = "64 bytes from 4294967295 on, in a buffer of 2048";
        assert_eq!(said(of(0, u32::MAX, 64)), range);
        assert_eq!(said(of(0, 0, 13)), "a frame of 13 bytes; its header has 14");
        let long = "a frame of 1519 bytes; the link takes 1518";
        assert_eq!(said(of(0, 0, 1519)), long);
        assert_eq!(check.take(of(69, 548, 1500)), Ok(()));
        let again = check.take(of(69, 0, 64)).unwrap_err().to_string();
        assert_eq!(again, "buffer 69 again, before it was given back");
        assert_eq!(check.taken(), 1);
        assert!(check.give_back(69) && !check.give_back(69) && !check.give_back(70));
        assert_eq!(check.take(of(69, 0, 14)), Ok(()));
        assert_eq!(check.take(of(68, 530, 1518)), Ok(()));
        let counted = check.faults().iter().map(|(_, count)| count);
        assert!(counted.eq([1, 1, 2, 1, 1, 0, 0]));
    }

    #[test]
    fn a_foreign_sender_is_counted_under_its_name() {
        let mut check = DescriptorCheck::new(&LIMITS).unwrap();
        let named = |last, vlan| Source {
            mac: Mac([2, 0, 0, 0, 0, last]),
            vlan,
        };
        assert_eq!(check.check_source(named(1, Some(5))), Ok(()));
        assert!(check.check_source(named(2, Some(5))).is_err());
        assert_eq!(check.faults()[TransmitFault::ForeignSource], 1);
        assert_eq!(check.faults()[TransmitFault::ForeignVlan], 0);
        assert!(check.check_source(named(1, Some(6))).is_err());
        assert!(check.check_source(named(1, None)).is_err());
        assert_eq!(check.faults()[TransmitFault::ForeignSource], 1);
        assert_eq!(check.faults()[TransmitFault::ForeignVlan], 2);
    }

    #[test]
    fn limits_outside_their_range_are_named() {
        let named = |limits: TransmitLimits| limits.validate().unwrap_err().name;
        let buffers = TransmitLimits {
            buffers: 0,
            ..LIMITS
        };
        assert_eq!(named(buffers), "buffers");
        let bytes = TransmitLimits {
            buffer_bytes: 63,
            ..LIMITS
        };
        assert_eq!(named(bytes), "buffer_bytes");
        let frame = TransmitLimits {
            frame_bytes_max: 65_551,
            ..LIMITS
        };
        assert_eq!(named(frame), "frame_bytes_max");
    }

    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![0..80_u32, 0..3000_u32, any::<u32>(), Just(u32::MAX)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a set of numbers and arithmetic in 64 bits: what passes lies in a buffer that was not taken.
        #[test]
        fn whatever_is_said_only_the_true_passes(
            steps in proptest::collection::vec((number(), number(), number(), any::<bool>()), 0..200),
        ) {
            let mut check = DescriptorCheck::new(&LIMITS).unwrap();
            let mut taken = HashSet::new();
            let (mut passed, mut refused) = (0, 0);
            for (buffer, offset, length, is_back) in steps {
                if is_back {
                    prop_assert_eq!(check.give_back(buffer), taken.remove(&buffer));
                    continue;
                }
                let end = u64::from(offset) + u64::from(length);
                let is_true = buffer < 70 && end <= 2048 && (14..=1518).contains(&length);
                let is_new = is_true && taken.insert(buffer);
                prop_assert_eq!(check.take(of(buffer, offset, length)).is_ok(), is_new);
                if is_new { passed += 1 } else { refused += 1 }
                prop_assert_eq!(check.taken() as usize, taken.len());
            }
            prop_assert_eq!(check.faults().total(), refused);
            prop_assert!(passed >= taken.len());
        }
    }
}
