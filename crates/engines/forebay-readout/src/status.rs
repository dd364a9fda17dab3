//! What is known of a chunk.

use core::fmt;

use forebay_wire::felix::Flags;

/// What is wrong with a chunk, as it is published with it: a set of bits, 0 is good.
///
/// | bit | name | what is wrong |
/// |---|---|---|
/// | 1 | `fw_truncated` | the firmware cut it off |
/// | 2 | `sw_truncated` | its end was lost: a block is missing or damaged, it was too long, or the run ended |
/// | 4 | `fw_error` | the firmware or the front end made a mistake |
/// | 8 | `fw_crc` | the firmware found its check sum wrong |
/// | 16 | `sw_malformed` | another chunk began before it ended |
/// | 32 | `fw_busy` | the front end was busy |
///
/// Values of other software of the field are not public; several bits may be set at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u8);

impl Status {
    /// Nothing is wrong.
    pub const GOOD: Self = Self(0);
    /// The firmware cut it off.
    pub const FW_TRUNCATED: Self = Self(1);
    /// Its end was lost on the way here.
    pub const SW_TRUNCATED: Self = Self(2);
    /// The firmware or the front end made a mistake.
    pub const FW_ERROR: Self = Self(4);
    /// The firmware found its check sum wrong.
    pub const FW_CRC: Self = Self(8);
    /// Another chunk began before it ended.
    pub const SW_MALFORMED: Self = Self(16);
    /// The front end was busy.
    pub const FW_BUSY: Self = Self(32);

    /// All single bits, with their names.
    pub const NAMES: [(Self, &'static str); 6] = [
        (Self::FW_TRUNCATED, "fw_truncated"),
        (Self::SW_TRUNCATED, "sw_truncated"),
        (Self::FW_ERROR, "fw_error"),
        (Self::FW_CRC, "fw_crc"),
        (Self::SW_MALFORMED, "sw_malformed"),
        (Self::FW_BUSY, "fw_busy"),
    ];

    /// Whether nothing is wrong.
    #[inline]
    #[must_use]
    pub const fn is_good(self) -> bool {
        self.0 == 0
    }

    /// Whether it has all bits of `other`.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What the flags of a subchunk mean.
    #[inline]
    #[must_use]
    pub const fn of_flags(flags: Flags) -> Self {
        // busy, CRC, error, truncated, from bit 0 on.
        const BY_FLAGS: [u8; 16] = {
            let mut all = [0; 16];
            let mut flags = 0;
            while flags < 16 {
                if flags & 1 != 0 {
                    all[flags] |= Status::FW_BUSY.0;
                }
                if flags & 2 != 0 {
                    all[flags] |= Status::FW_CRC.0;
                }
                if flags & 4 != 0 {
                    all[flags] |= Status::FW_ERROR.0;
                }
                if flags & 8 != 0 {
                    all[flags] |= Status::FW_TRUNCATED.0;
                }
                flags += 1;
            }
            all
        };
        Self(BY_FLAGS[(flags.bits() & 0xf) as usize])
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_good() {
            return f.write_str("good");
        }
        let mut between = "";
        for (bit, name) in Self::NAMES {
            if self.has(bit) {
                write!(f, "{between}{name}")?;
                between = "+";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_firmware_have_their_bits() {
        for (flags, status, text) in [
            (Flags::NONE, 0, "good"),
            (Flags::BUSY, 32, "fw_busy"),
            (Flags::CRC, 8, "fw_crc"),
            (Flags::ERROR, 4, "fw_error"),
            (Flags::TRUNCATED.and(Flags::CRC), 9, "fw_truncated+fw_crc"),
        ] {
            let found = Status::of_flags(flags);
            assert_eq!((found.0, found.to_string().as_str()), (status, text));
        }
    }
}
