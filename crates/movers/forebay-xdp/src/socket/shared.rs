//! A port whose frames come into memory that others read: a file, whose buffers are lent to the kernel one by one, by their numbers.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::config::PortConfig;
use super::open::no_memory;
use super::{Port, PortCounts};
use crate::error::XdpError;
use crate::sys::umem::{Buffer, Umem};
use crate::sys::xsk::{CONTINUED, Descriptor};

/// Both sizes of buffers divide it or are it.
const PAGE_BYTES: usize = 4_096;

/// Memory for a port: buffers of a file, for frames that come, and others behind them, for frames that go.
#[derive(Debug)]
pub struct SharedBuffers {
    config: PortConfig,
    umem: Umem,
    rights: Vec<Buffer>,
}

/// A frame that came, in a buffer of the file. It is not lent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The number of the buffer, from 0 on.
    pub buffer: u32,
    /// Where in it the frame begins, in bytes.
    pub start: usize,
    /// Its length, in bytes. It lies in the buffer.
    pub bytes: usize,
}

impl SharedBuffers {
    /// Maps so many bytes of a file, for a port with these settings, for the kernel to write: whole pages and whole buffers, which is a multiple of 4,096. The file can be sealed against
    /// writing through any other mapping then.
    ///
    /// # Errors
    /// A setting is outside its range, or the kernel refuses.
    pub fn map(file: BorrowedFd<'_>, bytes: usize, config: &PortConfig) -> Result<Self, XdpError> {
        config.validate()?;
        if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) {
            return Err(no_memory("(shared receive buffers)"));
        }
        let (sends, each) = (config.send_buffers, config.buffer_bytes);
        let made = Umem::over_file(file.as_raw_fd(), bytes, sends, each);
        let (umem, rights) = made.ok_or_else(|| no_memory("(shared receive buffers)"))?;
        Ok(Self {
            // A frame of several pieces would lie in several buffers: the kernel loses it, and counts that.
            config: PortConfig {
                pieces: false,
                ..*config
            },
            umem,
            rights,
        })
    }
}

impl Port {
    /// Opens a port as [`open`](Self::open) does, of which frames come into these buffers: those that are [lent](Self::lend), `receive_buffers` of them at most.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_shared(
        interface: &str,
        queue: u32,
        buffers: SharedBuffers,
    ) -> Result<Self, XdpError> {
        let SharedBuffers {
            config,
            umem,
            rights,
        } = buffers;
        Self::open_over((interface, queue), &config, (umem, rights))
    }

    /// Lends the kernel a buffer for a frame that comes; false if it is lent, is none of the file, or as many are lent as may be. The kernel sees it after [`show_lent`](Self::show_lent).
    pub fn lend(&mut self, buffer: u32) -> bool {
        if self.lent == self.lent_max || !self.fill.has_room() {
            return false;
        }
        let Some(address) = self.umem.lend_shared(buffer) else {
            return false;
        };
        self.lent += 1;
        self.fill.push(address)
    }

    /// Shows the kernel the buffers that were lent.
    pub fn show_lent(&mut self) {
        self.fill.show();
        if self.fill.needs_wakeup() {
            // What it says is told by the next call, too.
            let _ = self.socket.wake_receiver();
        }
    }

    /// Takes at most so many of the frames that the last [`look`](Self::look) saw, in the order in which they came, and says where each lies: that buffer is here until it is lent again. What the
    /// kernel says that cannot be is counted as disbelieved, and a buffer that it names is given for nothing, with 0 bytes.
    pub fn take(&mut self, most: u32, mut arrived: impl FnMut(Arrived)) {
        let Some(receiving) = self.receiving.as_mut().filter(|_| self.is_sharing) else {
            return;
        };
        for _ in 0..most {
            let Some(descriptor) = receiving.ring.pop() else {
                break;
            };
            let frame = take_back(&mut self.umem, &mut self.counts, &descriptor);
            self.lent -= u32::from(frame.is_some());
            frame.into_iter().for_each(&mut arrived);
        }
        receiving.ring.give_back();
    }
}

/// The buffer that a descriptor of the kernel names, with the frame in it.
fn take_back(umem: &mut Umem, counts: &mut PortCounts, of: &Descriptor) -> Option<Arrived> {
    let found = umem.take_back_shared(of.address);
    let bytes = of.length as usize;
    let is_true = of.options & CONTINUED == 0
        && found.is_some_and(|(_, start)| start + bytes <= umem.buffer_bytes());
    if is_true {
        counts.received += 1;
        counts.received_octets += bytes as u64;
    } else {
        counts.disbelieved += 1;
    }
    found.map(|(buffer, start)| Arrived {
        buffer,
        start,
        bytes: if is_true { bytes } else { 0 },
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// What a kernel that lies says is counted, and no buffer is lost by it.
    #[test]
    fn descriptors_that_cannot_be_true_are_counted_and_give_their_buffer_back() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * 4_096).unwrap();
        let (mut umem, _) = Umem::over_file(file.as_raw_fd(), 4 * 4_096, 2, 4_096).unwrap();
        for number in 0..3 {
            umem.lend_shared(number).unwrap();
        }
        let mut counts = PortCounts::default();
        let mut told = |address: u64, length, options| {
            let of = Descriptor {
                address,
                length,
                options,
            };
            take_back(&mut umem, &mut counts, &of).map(|it| (it.buffer, it.start, it.bytes))
        };
        // One that is not lent, one of the sender's, one of nobody.
        for address in [3 * 4_096, 4 * 4_096, u64::MAX] {
            assert_eq!(told(address, 60, 0), None);
        }
        // Longer than what is left of its buffer; of several pieces; true, to the last byte; said twice.
        assert_eq!(told(256, 3_841, 0), Some((0, 256, 0)));
        assert_eq!(told(4_096 + 256, 60, CONTINUED), Some((1, 256, 0)));
        assert_eq!(told(8_192 + 256, 3_840, 0), Some((2, 256, 3_840)));
        assert_eq!(told(8_192 + 256, 3_840, 0), None);
        let counted = (counts.disbelieved, counts.received, counts.received_octets);
        assert_eq!(counted, (6, 1, 3_840));
        assert!((0..3).all(|number| umem.lend_shared(number).is_some()));
    }
}
