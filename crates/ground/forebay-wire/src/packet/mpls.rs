//! A stack of MPLS labels (RFC 3032, section 2.1).
//!
//! ```text
//! +0  label (20 bits), traffic class (3), 1: the last one (1), time to live (8)
//! ```

use super::PacketError;

/// More are an attack.
const LABELS_MAX: usize = 16;

/// What a stack says, and what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    /// The label in front, which routers of the way act on.
    pub top: u32,
    /// How many there are.
    pub labels: usize,
    /// What is behind the last one; its first bits tell an IP packet.
    pub payload: &'a [u8],
}

impl<'a> Stack<'a> {
    /// Takes what a frame of type 0x8847 or 0x8848 carries.
    ///
    /// # Errors
    /// It ends before the last label, or has more than 16.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let mut rest = bytes;
        let mut top = None;
        for labels in 1..=LABELS_MAX {
            let (entry, behind) = rest.split_first_chunk().ok_or(PacketError::MplsHeader)?;
            let entry = u32::from_be_bytes(*entry);
            let top = *top.get_or_insert(entry >> 12);
            rest = behind;
            if entry & 0x100 != 0 {
                return Ok(Self {
                    top,
                    labels,
                    payload: rest,
                });
            }
        }
        Err(PacketError::MplsDepth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_stack() {
        // Labels 100 and 16, of which the second is the last one.
        let bytes = [0, 6, 0x40, 64, 0, 1, 1, 64, 0x45];
        let stack = Stack::parse(&bytes).unwrap();
        assert_eq!((stack.top, stack.labels), (100, 2));
        assert_eq!(stack.payload, [0x45]);
        for end in 0..8 {
            let error = Stack::parse(&bytes[..end]).unwrap_err();
            assert_eq!(error, PacketError::MplsHeader, "{end}");
            assert!(error.is_short());
        }
    }

    #[test]
    fn a_stack_ends() {
        let stack = |labels: usize| {
            let mut bytes = [0, 1, 0, 64].repeat(labels);
            bytes[4 * labels - 2] |= 1;
            Stack::parse(&bytes).map(|stack| stack.labels)
        };
        assert_eq!(stack(16), Ok(16));
        assert_eq!(stack(17), Err(PacketError::MplsDepth));
        assert!(!PacketError::MplsDepth.is_short());
    }
}
