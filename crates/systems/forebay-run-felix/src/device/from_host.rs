//! The from-host buffer of a card, as its writer has it.

use std::path::Path;

use forebay_ring::{BlockProducer, BlockRingSpec};
use forebay_sys::seqpacket::SeqSocket;
use forebay_wire::felix::{PACKET_BYTES, PacketFormat};
use serde::{Deserialize, Serialize};

use super::{DeviceError, DeviceInfo, Wanted, ask, has_ended};

/// What a card says of its from-host buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromHostInfo {
    /// Packets of the buffer.
    pub packets: u64,
    /// Format of a packet, by its name.
    pub format: String,
    /// Longest message that it takes.
    pub message_bytes_max: u32,
}

impl FromHostInfo {
    /// What no card can say of it.
    pub fn fault(&self) -> Option<String> {
        if PacketFormat::of_name(&self.format).is_none() {
            return Some(format!("packets of the format {:?}", self.format));
        }
        let spec = from_host_spec("card", self.packets);
        spec.validate().err().map(|error| error.to_string())
    }
}

/// The shape of the from-host buffer of a card of that name.
pub fn from_host_spec(card: &str, packets: u64) -> BlockRingSpec {
    BlockRingSpec {
        name: format!("{card}-from-host"),
        block_bytes: PACKET_BYTES as u32,
        blocks: packets,
        populate: false,
    }
}

impl DeviceInfo {
    /// The shape of the from-host buffer, if there is one.
    #[must_use]
    pub fn from_host_spec(&self) -> Option<BlockRingSpec> {
        let packets = self.from_host.as_ref()?.packets;
        Some(from_host_spec(&self.name, packets))
    }
}

/// The from-host buffer of a card.
#[derive(Debug)]
pub struct FromHostDevice {
    /// What the card says of itself.
    pub info: DeviceInfo,
    /// Format of its packets.
    pub format: PacketFormat,
    /// Longest message that it takes.
    pub message_bytes_max: u32,
    /// The packets.
    pub packets: BlockProducer,
    socket: SeqSocket,
}

impl FromHostDevice {
    /// Opens the from-host buffer of the card that listens at `path`.
    ///
    /// # Errors
    /// There is no card, it refuses, it has no such buffer, or its memory is none.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let (socket, info, fds) = ask(path, Wanted::FromHost, &|| false)?;
        let none = || DeviceError::NoFromHost { path: path.into() };
        let (spec, offered) = info
            .from_host_spec()
            .zip(info.from_host.as_ref())
            .ok_or_else(none)?;
        let format = PacketFormat::of_name(&offered.format).ok_or_else(none)?;
        Ok(Self {
            packets: BlockProducer::map(&spec, fds)?,
            format,
            message_bytes_max: offered.message_bytes_max,
            info,
            socket,
        })
    }

    /// Whether the card is gone, however it went.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        has_ended(&self.socket)
    }
}

#[cfg(test)]
mod tests {
    use forebay_ring::{BlockConsumer, BlockRingMemory};

    use super::super::{Device, Door, Writer};
    use super::*;

    fn info() -> DeviceInfo {
        DeviceInfo {
            name: "card".into(),
            marker: 0xc0ce,
            headers: false,
            blocks: vec![64],
            elinks: vec![vec![0]],
            from_host: Some(FromHostInfo {
                packets: 2048,
                format: "rm4".into(),
                message_bytes_max: 100,
            }),
            pid: std::process::id(),
        }
    }

    fn door(path: &Path, info: DeviceInfo) -> Door {
        let memory = BlockRingMemory::create(&info.spec(0).unwrap()).unwrap();
        Door::open(path, info, vec![memory]).unwrap()
    }

    fn opens(door: &mut Door, path: &Path) -> Result<FromHostDevice, DeviceError> {
        let path = path.to_path_buf();
        let opening = std::thread::spawn(move || FromHostDevice::open(&path));
        while !opening.is_finished() {
            door.serve().unwrap();
            std::thread::yield_now();
        }
        opening.join().unwrap()
    }

    #[test]
    fn one_writes_at_a_time_and_the_next_when_all_of_the_last_one_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("card.sock");
        let mut door = door(&path, info());
        let none = opens(&mut door, &path).unwrap_err().to_string();
        assert!(none.contains("no messages"), "{none}");
        let spec = info().from_host_spec().unwrap();
        let memory = BlockRingMemory::create(&spec).unwrap();
        let mut reader = BlockConsumer::map(&spec, memory.consumer_fds().unwrap()).unwrap();
        door.offer_from_host(Some(memory));
        let mut writer = opens(&mut door, &path).unwrap();
        assert_eq!(
            (writer.format, writer.message_bytes_max, door.writer()),
            (PacketFormat::Rm4, 100, Writer::Here)
        );
        assert_eq!(door.readers(), 0, "it reads nothing");
        writer.packets.reserve().unwrap().fill(9);
        writer.packets.commit();
        writer.packets.publish();
        assert_eq!(reader.look().unwrap(), 1);
        let second = opens(&mut door, &path).unwrap_err().to_string();
        assert!(second.contains("another writer"), "{second}");
        assert!(!writer.is_gone());
        drop(writer);
        let early = opens(&mut door, &path).unwrap_err().to_string();
        assert!(early.contains("still being read"), "{early}");
        assert_eq!(door.writer(), Writer::Gone);
        door.settle_writer();
        let writer = opens(&mut door, &path).unwrap();
        assert_eq!(writer.packets.position(), PACKET_BYTES as u64, "it goes on");
        door.dismiss_writer();
        assert!(writer.is_gone());
    }

    #[test]
    fn sides_of_an_older_version_understand_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("card.sock");
        let older = DeviceInfo {
            from_host: None,
            ..info()
        };
        let text = serde_json::to_string(&older).unwrap();
        assert!(!text.contains("from_host"), "{text}");
        let asked: super::super::Request =
            serde_json::from_str(r#"{"version":1,"buffer":0}"#).unwrap();
        assert!(!asked.from_host && asked.buffer == Some(0));
        // What an older card answers: what it says of itself, and no memory.
        let mut door = door(&path, older);
        let described = {
            let path = path.clone();
            std::thread::spawn(move || Device::describe(&path))
        };
        while !described.is_finished() {
            door.serve().unwrap();
            std::thread::yield_now();
        }
        assert_eq!(described.join().unwrap().unwrap().from_host, None);
    }

    #[test]
    fn a_from_host_buffer_that_cannot_be_is_none() {
        let fault = |packets, format: &str| {
            let info = FromHostInfo {
                packets,
                format: format.into(),
                message_bytes_max: 100,
            };
            info.fault()
        };
        assert_eq!(fault(2048, "rm5"), None);
        assert!(fault(2047, "rm5").is_some_and(|wrong| wrong.contains("2047")));
        assert!(fault(2048, "rm6").is_some_and(|wrong| wrong.contains("rm6")));
    }
}
