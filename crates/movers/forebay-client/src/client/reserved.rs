//! Frames that are made piece by piece where they are sent from.

use forebay_ring::Frame;

use super::Client;
use crate::error::SendError;

/// A buffer in which a frame is made. It is handed over by [`Client::send_reserved`], or goes back by [`Client::put_back`].
#[derive(Debug)]
#[must_use = "a buffer that is neither sent nor put back is lost until the client ends"]
pub struct Reserved(Frame);

impl Reserved {
    /// The number of the buffer, below the frames of the transmit pool: no other one that is reserved has it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number()
    }
}

impl Client {
    /// A buffer to make a frame in; it still has what was there before.
    ///
    /// # Errors
    /// All buffers are on their way, or the memory has what an honest daemon does not write.
    pub fn reserve(&mut self) -> Result<Reserved, SendError> {
        let frame = match self.is_ready()? {
            true => self.sender.acquire(),
            false => None,
        };
        let Some(frame) = frame else {
            self.is_full = true;
            self.counts.refused_full += 1;
            let frames = self.welcome.transmit.frames;
            return Err(SendError::Full { frames });
        };
        self.reserved += 1;
        Ok(Reserved(frame))
    }

    /// The bytes of a buffer that is reserved, as many as a frame can have.
    pub fn reserved_mut(&mut self, reserved: &mut Reserved) -> &mut [u8] {
        let most = self.frame_bytes_max();
        let bytes = self.sender.bytes_mut(&mut reserved.0).unwrap_or_default();
        let most = most.min(bytes.len());
        &mut bytes[..most]
    }

    /// Hands over the first `bytes` of the buffer, with the next [`Self::flush`] or [`Self::wait`].
    ///
    /// # Errors
    /// The link takes no frame of that length: the buffer comes back with the error. Of other errors ([`Self::send`]) nothing comes back.
    pub fn send_reserved(
        &mut self,
        reserved: Reserved,
        bytes: usize,
    ) -> Result<(), (SendError, Option<Reserved>)> {
        if let Err(error) = self.admit(bytes) {
            return Err((error, Some(reserved)));
        }
        self.reserved -= 1;
        match self.hand_over(reserved.0, bytes) {
            Ok(sent) => self.is_full = !sent,
            Err(error) => return Err((error.into(), None)),
        }
        self.note(bytes).map_err(|error| (error, None))
    }

    /// Puts a buffer back that is not to be sent.
    pub fn put_back(&mut self, reserved: Reserved) {
        self.reserved -= 1;
        self.sender.put_back(reserved.0);
    }
}
