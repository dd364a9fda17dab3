//! Frames of a port that come where clients read: nothing takes them out of the buffer that the kernel, or the card itself, has written.

use std::sync::Mutex;

use forebay_mux::buffers::Lent;
use forebay_ring::{FramePoolSpec, Region};
use forebay_xdp::{Arrived, Port, SharedBuffers};

use super::super::shared::{Desk, Landed, SharedMemory};
use super::{DriverError, QUEUE, XdpOptions, lock};

/// The memory that a port receives into, and the buffers of it that are lent.
#[derive(Debug)]
pub(super) struct PortBuffers {
    region: Region,
    frame_bytes: usize,
    client_frames: u32,
    card_frames: u32,
    /// Those that the port has, by their numbers.
    lent: Vec<Option<Lent>>,
    /// Those that it is to have next.
    spare: Vec<Lent>,
    /// Frames that were taken out of its ring, the last one first.
    came: Vec<Arrived>,
}

impl PortBuffers {
    /// Opens a port with so many buffers for clients, and as many more as it may have at a time.
    pub(super) fn open(
        interface: &str,
        client_frames: u32,
        options: &XdpOptions,
    ) -> Result<(Port, Self), DriverError> {
        let (card_frames, frame_bytes) = (options.port.receive_buffers, options.port.buffer_bytes);
        let spec = FramePoolSpec {
            name: "card".into(),
            frames: client_frames + card_frames,
            frame_bytes,
        };
        let bytes = spec.data_bytes();
        let (region, buffers) = Region::create_with(&spec.name, bytes, |file| {
            Ok::<_, DriverError>(SharedBuffers::map(file, bytes as usize, &options.port)?)
        })?;
        let port = Port::open_shared(interface, QUEUE, buffers)?;
        let longest_bytes = port.piece_bytes_max();
        if options.frame_bytes_max > longest_bytes {
            return Err(DriverError::SharedLength {
                interface: interface.to_owned(),
                frame_bytes_max: options.frame_bytes_max,
                longest_bytes,
            });
        }
        let landing = Self {
            region,
            frame_bytes: frame_bytes as usize,
            client_frames,
            card_frames,
            lent: (0..spec.frames).map(|_| None).collect(),
            spare: Vec::new(),
            came: Vec::new(),
        };
        Ok((port, landing))
    }

    pub(super) const fn client_frames(&self) -> u32 {
        self.client_frames
    }

    pub(super) fn memory(&self) -> Result<SharedMemory, DriverError> {
        Ok(SharedMemory {
            card_frames: self.card_frames,
            frame_bytes: self.frame_bytes as u32,
            reader: self.region.reader_fd()?,
        })
    }

    /// Takes so many frames out of the port's ring at most; how many. The port is free while they are landed: a desk may send.
    pub(super) fn take(&mut self, port: &Mutex<Port>, most: usize) -> usize {
        let came = &mut self.came;
        came.clear();
        let mut port = lock(port);
        if port.look() > 0 {
            port.take(most as u32, |arrived| came.push(arrived));
        }
        came.reverse();
        came.len()
    }

    /// Hands the next one of them over, once it is as it should be.
    pub(super) fn land(
        &mut self,
        desk: &mut dyn Desk,
        frame_bytes_max: usize,
        complete: impl FnOnce(&mut [u8]),
    ) -> Landed {
        let Some(arrived) = self.came.pop() else {
            return Landed::Nothing;
        };
        let place = self.lent.get_mut(arrived.buffer as usize);
        let Some(buffer) = place.and_then(Option::take) else {
            return Landed::Nothing;
        };
        let at = arrived.buffer as usize * self.frame_bytes + arrived.start;
        let frame = self.region.part_mut(at, arrived.bytes);
        let (landed, back) = match frame.filter(|frame| !frame.is_empty()) {
            None => (Landed::Nothing, Some(buffer)),
            Some(frame) if frame.len() > frame_bytes_max => (Landed::TooLong, Some(buffer)),
            Some(frame) => {
                complete(frame);
                let back = desk.land(buffer, arrived.start as u32, frame);
                (Landed::Frame(arrived.bytes as u32), back)
            }
        };
        self.spare.extend(back);
        landed
    }

    /// Lends the port as many buffers as it may have.
    pub(super) fn lend(&mut self, port: &Mutex<Port>, desk: &mut dyn Desk) {
        let mut port = lock(port);
        let mut is_more = false;
        while let Some(buffer) = self.spare.pop().or_else(|| desk.lend()) {
            let number = buffer.number();
            if !port.lend(number) {
                self.spare.push(buffer);
                break;
            }
            self.lent[number as usize] = Some(buffer);
            is_more = true;
        }
        if is_more {
            port.show_lent();
        }
    }
}
