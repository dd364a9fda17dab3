//! To-host's file.

use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_config::{Block, ConfigFile, Document, Sections};
use forebay_msg::Config;
use forebay_run::chain::{Joints, Member};
use forebay_run_net::section::SecuritySettings;
use forebay_run_net::{Address, Settings};
use forebay_settings::{Settings as _, settings};
use forebay_wire::felix::DMA_BUFFERS_MAX;

use super::text_of;
use crate::tohost::{DevicePlan, ToHostFile};

settings! {
    /// To-host as a whole.
    pub struct ToHostSettings in [tohost] {
        /// Where ledger and record lie, and below it those of each publisher. Made if it is not there.
        directory: PathBuf = "forebay-tohost".into(),
        /// Serves Prometheus' text format at GET /metrics there.
        metrics: Option<SocketAddr> => "not served",
        /// Detector in the 64-bit fids, which are the tags.
        detector: u8 [0..=255] = 0,
        /// Connector in the fids.
        connector: u16 [0..=65_535] = 0,
        /// Opens a DMA buffer when so many have subscribed to it: what comes before is dropped by name otherwise.
        subscribers_min: usize [0..=4096] = 0,
        /// How long a card that is not there yet is waited for.
        card_wait_s: u64 [0..=1_000_000] = 10,
        /// Longest chunk that is joined of several blocks; what is beyond is dropped by name.
        chunk_bytes_max: usize [1..=64 << 20] = forebay_readout::Config::default().chunk_bytes_max,
        /// Ends the run after so long.
        duration_s: Option<u64> [1..=31_536_000] => "until the cards end, Ctrl-C or SIGTERM",
    }
}

settings! {
    /// Cards that are read. Each DMA buffer has a thread and an address of its own.
    pub struct DeviceSettings in [[devices]] {
        /// Where the card is opened.
        socket: Option<PathBuf>,
        /// Which of its buffers: others may be read by other processes.
        dma_buffers: Option<Vec<usize>> [0..=7] => "all that the card has",
        /// Where the first of them is published; the n-th further one n ports higher, or with `-n` behind the name.
        address: Option<Address>,
        /// Network buffers of each subscriber: chunks are gathered in them.
        buffer_bytes: u32 [64..=Config::BUFFER_BYTES_MOST] = Config::default().buffer_bytes,
        /// How many of them.
        buffer_count: u32 [1..=Config::BUFFER_COUNT_MOST] = Config::default().buffer_count,
        /// Over shared memory: chunks from so many bytes on, within one block, are not copied; subscribers look at them in the card's DMA buffer, and the block is given back when all have. 0: all are copied.
        by_reference_bytes: usize [zero or 1..=65_535] = 0,
        /// A network buffer goes out at the latest so long after its first chunk.
        flush_us: u64 [1..=10_000_000] = Config::default().flush_ns / 1000,
        /// How long a subscriber of the policy block may hold the card up before it is let go.
        block_ms: u64 [1..=3_600_000] = Config::default().block_ns / 1_000_000,
        /// Subscribers of each buffer at a time.
        subscribers_max: usize [1..=4096] = 128,
        ..security: SecuritySettings,
    }
}

impl ConfigFile for ToHostFile {
    const SECTIONS: Sections = &[ToHostSettings::SECTION, DeviceSettings::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, whole) = document.one::<ToHostSettings>();
        let blocks = document.many::<DeviceSettings>();
        if blocks.is_empty() {
            whole.complain_whole(
                "no card is named",
                "one [[devices]] block or more",
                "add [[devices]] with socket = \"card0.sock\" and address = \"shm://felix\"",
            );
        }
        let mut devices: Vec<DevicePlan> = Vec::new();
        for (device, block) in blocks {
            devices.extend(read(device, &block, &devices));
        }
        Some(Self { said, devices })
    }
}

fn read(said: DeviceSettings, block: &Block<'_, '_>, before: &[DevicePlan]) -> Option<DevicePlan> {
    for name in ["socket", "address"] {
        if !block.has(name) {
            block.complain_whole(
                &format!("its {name} is not named"),
                "socket and address of each card",
                &format!("add {name}"),
            );
        }
    }
    let device = DevicePlan {
        settings: Settings {
            messages: Config {
                buffer_bytes: said.buffer_bytes,
                buffer_count: said.buffer_count,
                flush_ns: said.flush_us * 1000,
                block_ns: said.block_ms * 1_000_000,
                ..Config::default()
            },
            connections_max: said.subscribers_max,
            security: said.security.with(said.security.certificates(block)),
            ..Settings::default()
        },
        socket: said.socket?,
        buffers: said.dma_buffers,
        by_reference_bytes: Some(said.by_reference_bytes).filter(|bytes| *bytes > 0),
        address: said.address?,
    };
    if !device.address.is_shown() {
        block.idle(
            "by_reference_bytes",
            "subscribers see the card's memory over shm:// only",
        );
    }
    if before.iter().any(|one| one.address == device.address) {
        block.complain(
            "address",
            "another block publishes there already",
            "an address for each card; the further buffers of one take the names or ports behind it",
            "choose another name, or a port that is farther away",
        );
    }
    if before.iter().any(|one| is_read_by(one, &device)) {
        block.complain_whole(
            "another block reads these DMA buffers of that card already",
            "each buffer once",
            "name different dma_buffers in both blocks",
        );
    }
    Some(device)
}

/// Whether one of these reads a buffer that the other one reads, too.
fn is_read_by(one: &DevicePlan, other: &DevicePlan) -> bool {
    let shares = match (&one.buffers, &other.buffers) {
        (Some(some), Some(others)) => some.iter().any(|buffer| others.contains(buffer)),
        _ => true,
    };
    one.socket == other.socket && shares
}

impl Member for ToHostFile {
    const KIND: &'static str = "tohost";
    const DIRECTORY: &'static str = "tohost.directory";

    fn joints(&self) -> Joints {
        let mut joints = Joints::default();
        for device in &self.devices {
            joints.connects.push(text_of(&device.socket));
            let (sure, buffers) = match &device.buffers {
                Some(buffers) => (buffers.len(), buffers.len()),
                None => (1, DMA_BUFFERS_MAX),
            };
            for n in 0..buffers {
                let address = match n {
                    0 => Ok(device.address.clone()),
                    n => device.address.nth(n as u16),
                };
                // One that is beyond the last port is found when the card says how many it has.
                let Ok(address) = address else { break };
                let at = if n < sure {
                    &mut joints.listens
                } else {
                    &mut joints.may_listen
                };
                at.push(address.to_string());
            }
        }
        joints
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;

    use super::*;

    #[test]
    fn what_two_blocks_cannot_both_have_is_told() {
        let told = |more: &str| {
            let text = format!("[[devices]]\nsocket = \"a\"\naddress = \"shm://x\"\n{more}");
            parse::<ToHostFile>("tohost.toml", &text).map_err(|mistakes| mistakes.to_string())
        };
        let other = "[[devices]]\nsocket = \"b\"\naddress = \"shm://y\"\n";
        assert_eq!(told(other).unwrap().devices.len(), 2);
        for (more, wrong) in [
            (
                "[[devices]]\nsocket = \"b\"\naddress = \"shm://x\"\n",
                "publishes there already",
            ),
            (
                "[[devices]]\nsocket = \"a\"\naddress = \"shm://y\"\n",
                "reads these DMA buffers",
            ),
            (
                "[[devices]]\nsocket = \"b\"\naddress = \"tcp://127.0.0.1:7200\"\nby_reference_bytes = 512\n",
                "over shm:// only",
            ),
        ] {
            let told = told(more).unwrap_err();
            assert!(told.contains(wrong), "{more}: {told}");
        }
        let apart = "dma_buffers = [0]\n[[devices]]\nsocket = \"a\"\naddress = \"shm://y\"\ndma_buffers = [1]\n";
        assert!(told(apart).is_ok());
    }
}
