//! What carries payload.

use super::TdmError;
use super::cursor::{Put, Take};
use super::fields::COUNT_MAX;

/// Payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Number of the packet in the session, from 0.
    pub packet: u64,
    /// Where its payload lies in the stream.
    pub offset: u64,
    /// When it was given to the kernel.
    pub sent_ns: u64,
    /// The window.
    pub window: u32,
    /// The packet of the window.
    pub index: u32,
    /// The bytes.
    pub payload: &'a [u8],
}

impl<'a> Data<'a> {
    pub(super) fn take(take: &mut Take<'a>) -> Result<Self, TdmError> {
        let data = Self {
            packet: take.u64()?,
            offset: take.u64()?,
            sent_ns: take.u64()?,
            window: take.u32()?,
            index: take.u32()?,
            payload: &[],
        };
        // Numbers that are added to: far from where they would wrap.
        take.within("packet", data.packet, 0, COUNT_MAX)?;
        take.within("offset", data.offset, 0, COUNT_MAX)?;
        // What is left is looked at without being taken: it is not part of what the check covers.
        Ok(Self {
            payload: take.rest(),
            ..data
        })
    }

    pub(super) fn put(&self, put: &mut Put<'_>) {
        put.u64(self.packet);
        put.u64(self.offset);
        put.u64(self.sent_ns);
        put.u64(u64::from(self.window) << 32 | u64::from(self.index));
    }
}
