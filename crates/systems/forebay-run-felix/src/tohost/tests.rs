//! To-host beside a card that is a door and rings, and no engine behind.

use std::os::fd::OwnedFd;

use forebay_ledger::Leak;
use forebay_ring::{BlockProducer, BlockRingMemory};
use forebay_run::Stop;
use forebay_wire::felix::{BlockFormat, BlockWriter, Elink, Flags};

use super::*;
use crate::device::Door;
use crate::tohost::ToHostFile;

const BLOCKS: u64 = 10;
const BUFFERS: usize = 2;

struct CardStub {
    door: Door,
    producers: Vec<BlockProducer>,
    memory: Vec<OwnedFd>,
}

impl CardStub {
    /// Each DMA buffer has blocks of three chunks.
    fn open(path: &Path) -> Self {
        let format = BlockFormat::phase2(4096).unwrap();
        let info = DeviceInfo {
            name: "card".into(),
            marker: format.marker(),
            headers: false,
            blocks: vec![64; BUFFERS],
            elinks: vec![vec![0], vec![64]],
            from_host: None,
            pid: std::process::id(),
        };
        let (mut memories, mut producers, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for buffer in 0..BUFFERS {
            let spec = info.spec(buffer).unwrap();
            let made = BlockRingMemory::create(&spec).unwrap();
            memory.extend(
                made.producer_fds()
                    .unwrap()
                    .into_iter()
                    .filter(|_| buffer == 0),
            );
            let mut producer = BlockProducer::map(&spec, made.producer_fds().unwrap()).unwrap();
            let elink = Elink::of_link(buffer as u16).unwrap();
            for number in 0..BLOCKS {
                let block = producer.reserve().unwrap();
                let mut writer = BlockWriter::begin(format, elink, number as u8, block).unwrap();
                for _ in 0..3 {
                    writer.push(&[7; 100], 0, Flags::NONE).unwrap();
                }
                writer.close();
                producer.commit();
            }
            producer.publish();
            producers.push(producer);
            memories.push(made);
        }
        Self {
            door: Door::open(path, info, memories).unwrap(),
            producers,
            memory,
        }
    }

    /// Serves until everything was read, then writes an index that cannot be for the first buffer, and serves on until `is_over`.
    fn work(mut self, is_over: impl Fn() -> bool) {
        let mut is_broken = false;
        while !is_over() {
            self.door.serve().unwrap();
            let mut producers = self.producers.iter_mut();
            if !is_broken && producers.all(|ring| ring.free_blocks() == ring.blocks()) {
                let nonsense = (1_u64 << 62).to_ne_bytes();
                let written = self.memory.iter();
                let written = written.filter(|fd| rustix::io::pwrite(fd, &nonsense, 128).is_ok());
                assert!(written.count() > 0);
                is_broken = true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn what_was_done_before_a_reader_failed_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("card.sock");
    let card = CardStub::open(&path);
    let address = format!("shm://reader-fails-{}", std::process::id());
    let text = format!(
        "[tohost]\ndirectory = {:?}\n[[devices]]\nsocket = {path:?}\ndma_buffers = [0, 1]\naddress = {address:?}\n",
        directory.path().join("out"),
    );
    let file = forebay_config::parse::<ToHostFile>("tohost.toml", &text).unwrap();
    let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
    let tohost = std::thread::spawn(move || file.run(&host));
    card.work(|| tohost.is_finished());
    let summary = tohost.join().unwrap().unwrap();
    let failed = summary.envelope.failed.clone().unwrap();
    assert!(failed.contains("index"), "{failed}");
    let ends: Vec<CardEnd> = summary.buffers.iter().map(|buffer| buffer.end).collect();
    assert_eq!(ends, [CardEnd::Failed, CardEnd::Stopped]);
    assert_eq!(summary.buffers[0].failed.as_ref(), Some(&failed));
    assert_eq!(summary.blocks, BLOCKS * BUFFERS as u64);
    assert_eq!(summary.chunks, 3 * BLOCKS * BUFFERS as u64);
    assert_eq!(summary.envelope.lost("no_subscriber"), summary.chunks);
    assert!(summary.is_closed(), "{summary:?}");
}
