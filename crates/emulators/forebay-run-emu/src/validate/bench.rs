//! An emulated card on a test bench: its board in virtual time, and DMA buffers that are rings in shared memory as those of a card at work are.

use forebay_emu::card::Dma;
use forebay_emu::card::board::{Board, BoardConfig, Repair, TtcBurst};
use forebay_readout::validate::{Access, Burst, Card, Counts, Remedy, Workshop};
use forebay_ring::{BlockConsumer, BlockProducer, BlockRingMemory, BlockRingSpec, RingError};

use super::ValidateError;

/// Blocks of each DMA buffer.
const BLOCKS: u64 = 256;

pub(super) struct Bench {
    board: Board,
    rings: Rings,
    readers: Vec<BlockConsumer>,
    /// As long as they are mapped.
    _memories: Vec<BlockRingMemory>,
    block: Vec<u8>,
    /// Of the card's time, in nanoseconds.
    pub(super) ns: u64,
}

struct Rings(Vec<BlockProducer>);

impl Dma for Rings {
    fn reserve(&mut self, buffer: usize) -> Option<&mut [u8]> {
        self.0.get_mut(buffer)?.reserve().ok()
    }

    fn commit(&mut self, buffer: usize) {
        if let Some(ring) = self.0.get_mut(buffer)
            && ring.commit()
        {
            ring.publish();
        }
    }

    fn free_blocks(&mut self, buffer: usize) -> u64 {
        self.0.get_mut(buffer).map_or(0, BlockProducer::free_blocks)
    }

    fn blocks(&self, buffer: usize) -> u64 {
        self.0.get(buffer).map_or(0, BlockProducer::blocks)
    }
}

impl Bench {
    pub(super) fn new(name: &str, config: &BoardConfig) -> Result<Self, ValidateError> {
        let of_card = |source| ValidateError::Board {
            card: name.to_owned(),
            source,
        };
        let board = Board::new(config).map_err(of_card)?;
        let (mut rings, mut readers, mut memories) = (Vec::new(), Vec::new(), Vec::new());
        for buffer in 0..config.buffers {
            let spec = BlockRingSpec {
                name: format!("{name}-dma{buffer}"),
                block_bytes: config.format.bytes() as u32,
                blocks: BLOCKS,
                populate: false,
            };
            let memory = BlockRingMemory::create(&spec)?;
            rings.push(BlockProducer::map(&spec, memory.producer_fds()?)?);
            readers.push(BlockConsumer::map(&spec, memory.consumer_fds()?)?);
            memories.push(memory);
        }
        Ok(Self {
            board,
            rings: Rings(rings),
            readers,
            _memories: memories,
            block: Vec::new(),
            ns: 0,
        })
    }

    pub(super) fn board(&self) -> &Board {
        &self.board
    }
}

impl Card for Bench {
    type Error = RingError;

    fn access(&mut self, accesses: &[Access]) -> Result<Vec<u64>, RingError> {
        let mut values = Vec::new();
        for access in accesses {
            match *access {
                Access::Read(address) => values.push(self.board.read(address)),
                Access::Write(address, value) => self.board.write(address, value),
            }
        }
        Ok(values)
    }

    fn run(&mut self, ns: u64) -> Result<(), RingError> {
        self.ns += ns;
        self.board.advance(ns, &mut self.rings);
        Ok(())
    }

    fn take_blocks(
        &mut self,
        buffer: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, RingError> {
        let Some(reader) = self.readers.get_mut(buffer) else {
            return Ok(0);
        };
        take(reader, &mut self.block, each)
    }

    fn take_interrupts(&mut self, buffer: usize) -> Result<u64, RingError> {
        Ok(self.board.take_interrupts(buffer))
    }

    fn send_ttc(&mut self, burst: &Burst) -> Result<Counts, RingError> {
        let sent = self.board.send_ttc(&TtcBurst {
            rate_hz: burst.rate_hz,
            for_ns: burst.for_ns,
            ecr_period_ns: burst.ecr_period_ns,
        });
        self.run(burst.for_ns)?;
        Ok(Counts {
            l1a: sent.l1a,
            bcr: sent.bcr,
            ecr: sent.ecr,
        })
    }
}

/// Reads what is in a ring, and gives it back: how many blocks.
pub(super) fn take(
    reader: &mut BlockConsumer,
    copy: &mut Vec<u8>,
    each: &mut dyn FnMut(&[u8]),
) -> Result<u64, RingError> {
    let there = reader.look()?;
    for ahead in 0..there {
        if let Some(view) = reader.block(ahead) {
            copy.resize(view.len(), 0);
            if view.copy_to(0, copy) {
                each(copy);
            }
        }
    }
    reader.take(there);
    reader.release(reader.read_position());
    reader.notify();
    Ok(there)
}

impl Workshop for Bench {
    fn repair(&mut self, remedy: Remedy) {
        self.board.repair(match remedy {
            Remedy::Reseat => Repair::Reseat,
            Remedy::Reprogram => Repair::Reprogram,
            Remedy::CleanFibre => Repair::CleanFibre,
            Remedy::Replug => Repair::Replug,
            Remedy::Transceiver => Repair::Transceiver,
            Remedy::Resolder => Repair::Resolder,
        });
    }
}
