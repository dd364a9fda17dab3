//! What a card says of each trigger.

use core::fmt;

use thiserror::Error;

/// Bytes of a message.
pub const TTC_MESSAGE_BYTES: usize = 26;
/// Its layout; 1 was one of 20 bytes.
const FORMAT: u8 = 2;

/// A message of TTC to host: one for each trigger.
///
/// ```text
///  0 format u8, 2   1 bytes u8, 26   2 bunch 12 bits   4 trigger number 24 bits, resets of it 8 bits
///  8 orbit u32   12 trigger type u16   16 number of level 0 u32   20 triggers since the start 48 bits      (little-endian)
/// ```
/// Source: `FlxParser.cpp` and `FlxChecker.cpp` of ftools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TtcMessage {
    /// Bunch of the orbit, 0 to 3563 in the LHC; 12 bits.
    pub bunch: u16,
    /// Trigger number (L1ID), 24 bits.
    pub l1id: u32,
    /// Resets of the trigger number (ECR).
    pub resets: u8,
    /// Orbit.
    pub orbit: u32,
    /// Trigger type.
    pub trigger_type: u16,
    /// Number of level 0, whose low 24 bits are the trigger number's.
    pub l0id: u32,
    /// Triggers since the start, 48 bits.
    pub triggers: u64,
}

/// What makes bytes no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TtcError {
    /// Another length.
    #[error("{bytes} bytes; a message has 26")]
    Bytes {
        /// Bytes that there are.
        bytes: usize,
    },
    /// Another layout.
    #[error("format {format} with {said} bytes; 2 with 26 is known")]
    Format {
        /// What it says it is.
        format: u8,
        /// How long it says it is.
        said: u8,
    },
    /// Its two trigger numbers differ.
    #[error("trigger number {l1id:#x}, but {l0id:#x} of level 0")]
    Numbers {
        /// Trigger number.
        l1id: u32,
        /// Number of level 0.
        l0id: u32,
    },
}

impl TtcError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Bytes { .. } => "bytes",
            Self::Format { .. } => "format",
            Self::Numbers { .. } => "numbers",
        }
    }
}

impl TtcMessage {
    /// The message in these bytes.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, TtcError> {
        let Ok(bytes) = <&[u8; TTC_MESSAGE_BYTES]>::try_from(bytes) else {
            return Err(TtcError::Bytes { bytes: bytes.len() });
        };
        let [format, said] = [bytes[0], bytes[1]];
        if (format, usize::from(said)) != (FORMAT, TTC_MESSAGE_BYTES) {
            return Err(TtcError::Format { format, said });
        }
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let message = Self {
            bunch: half(2) & 0xfff,
            l1id: word(4) & 0xff_ffff,
            resets: bytes[7],
            orbit: word(8),
            trigger_type: half(12),
            l0id: word(16),
            triggers: u64::from(word(20)) | u64::from(half(24)) << 32,
        };
        let (l1id, l0id) = (message.l1id, message.l0id);
        if l0id & 0xff_ffff != l1id {
            return Err(TtcError::Numbers { l1id, l0id });
        }
        Ok(message)
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; TTC_MESSAGE_BYTES] {
        let mut bytes = [0; TTC_MESSAGE_BYTES];
        bytes[0] = FORMAT;
        bytes[1] = TTC_MESSAGE_BYTES as u8;
        bytes[2..4].copy_from_slice(&(self.bunch & 0xfff).to_le_bytes());
        let number = self.l1id & 0xff_ffff | u32::from(self.resets) << 24;
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.orbit.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.trigger_type.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.l0id.to_le_bytes());
        bytes[20..26].copy_from_slice(&self.triggers.to_le_bytes()[..6]);
        bytes
    }
}

impl fmt::Display for TtcMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "trigger {:#x}, {} resets, orbit {}, bunch {}, type {:#06x}, {} triggers",
            self.l1id, self.resets, self.orbit, self.bunch, self.trigger_type, self.triggers
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_golden_message_has_its_fields_at_their_bytes() {
        let message = TtcMessage {
            bunch: 0xdeb,
            l1id: 0x12_3456,
            resets: 0x78,
            orbit: 0x9abc_def0,
            trigger_type: 0x8123,
            l0id: 0xff12_3456,
            triggers: 0x1234_5678_9abc,
        };
        let bytes = message.emit();
        assert_eq!(
            bytes,
            [
                2, 26, 0xeb, 0x0d, 0x56, 0x34, 0x12, 0x78, 0xf0, 0xde, 0xbc, 0x9a, 0x23, 0x81, 0,
                0, 0x56, 0x34, 0x12, 0xff, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12
            ]
        );
        assert_eq!(TtcMessage::parse(&bytes), Ok(message));
    }

    #[test]
    fn what_is_none_is_named() {
        let good = TtcMessage::default().emit();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            TtcMessage::parse(&bytes)
        };
        assert_eq!(
            TtcMessage::parse(&good[..25]),
            Err(TtcError::Bytes { bytes: 25 })
        );
        assert_eq!(
            with(0, 1),
            Err(TtcError::Format {
                format: 1,
                said: 26
            })
        );
        assert_eq!(
            with(1, 20),
            Err(TtcError::Format {
                format: 2,
                said: 20
            })
        );
        assert_eq!(with(4, 1), Err(TtcError::Numbers { l1id: 1, l0id: 0 }));
        assert!(with(19, 7).is_ok(), "only the low 24 bits are the same");
    }
}
