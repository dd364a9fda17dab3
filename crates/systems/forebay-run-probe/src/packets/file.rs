//! The thread that writes packets into a capture file (pcapng), each with a comment that says what is known of it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use forebay_flow::LinkType;
use forebay_ledger::Leak;
use forebay_run::whole_file::{BeginError, WholeFile};
use forebay_sys::watched::OUTPUT_REMOVED;
use forebay_wire::pcapng::{self, PacketRepr};
use serde::Serialize;

use super::{Bulk, Bunch, Known, Lane};
use crate::books::PacketBook;
use crate::export::{Failed, How};

const OPTION: &str = "--export-packets";
/// Bunches of packets that may wait, of 64 KiB each, or of one packet that is larger.
const BUNCHES_MAX: usize = 256;
/// Books are shown so often.
const LOOK: Duration = Duration::from_millis(100);

/// What a lane brought, and what became of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) came: Bulk,
    pub(crate) written: Bulk,
    pub(crate) unwritten: Bulk,
}

/// Packets that were exported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketsSummary {
    /// The file.
    pub to: String,
    /// Packets that are in it.
    pub packets: u64,
    /// Bytes of them that are in it.
    pub bytes: u64,
}

/// A capture file that is being written.
pub(crate) struct PacketFile {
    whole: WholeFile,
    to: File,
    path: PathBuf,
    from: Receiver<(usize, Bunch)>,
    /// Link types, by the places of their interfaces.
    links: Vec<LinkType>,
    block: Vec<u8>,
    comment: String,
    /// By lane.
    pub(crate) lanes: Vec<Written>,
    why: Option<io::Error>,
    leak: Leak,
}

impl PacketFile {
    /// Begins it; the sender is for as many threads as capture.
    pub(crate) fn create(
        path: &Path,
        leak: Leak,
    ) -> Result<(Self, SyncSender<(usize, Bunch)>), BeginError> {
        let whole = WholeFile::create(path, OPTION)?;
        let to = whole.handle().map_err(|source| BeginError::Place {
            path: path.to_path_buf(),
            option: OPTION,
            source,
        })?;
        let (sender, from) = mpsc::sync_channel(BUNCHES_MAX);
        let file = Self {
            whole,
            to,
            path: path.to_path_buf(),
            from,
            links: Vec::new(),
            block: pcapng::section(),
            comment: String::new(),
            lanes: Vec::new(),
            why: None,
            leak,
        };
        Ok((file, sender))
    }

    /// Writes what comes until all threads that capture are through: what was written, and what went wrong.
    pub(crate) fn run(mut self, lanes: &[Lane], mut book: PacketBook) -> Ended {
        self.lanes.resize_with(lanes.len(), Default::default);
        loop {
            match self.from.recv_timeout(LOOK) {
                Ok((lane, bunch)) => {
                    lanes[lane].take(&bunch);
                    self.write(lane, &bunch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            book.show(lanes, &self.lanes);
        }
        self.end(lanes, book)
    }

    fn end(mut self, lanes: &[Lane], mut book: PacketBook) -> Ended {
        // Of a run without packets it is a capture without any.
        self.flush();
        book.show(lanes, &self.lanes);
        let mut sum = Bulk::default();
        self.lanes.iter().for_each(|lane| sum += lane.written);
        let path = self.path.display().to_string();
        let failed = match self.why {
            Some(why) => Some(Failed {
                text: format!("writing {path}: {why}; what was written is in {path}.part"),
                how: How::Unwritten,
            }),
            None => (self.whole.finish().err()).map(|why| Failed {
                text: format!("writing {path}: {why}"),
                how: match why.to_string().starts_with(OUTPUT_REMOVED) {
                    true => How::Removed,
                    false => How::Unwritten,
                },
            }),
        };
        let summary = PacketsSummary {
            to: path,
            packets: sum.packets,
            bytes: sum.bytes,
        };
        (summary, failed)
    }

    fn write(&mut self, lane: usize, bunch: &Bunch) {
        let (mut rest, mut put) = (bunch.bytes.as_slice(), Bulk::default());
        for known in &bunch.known {
            let (bytes, behind) = rest.split_at(known.bytes as usize);
            rest = behind;
            if self.leak.take("packet_queue") {
                continue;
            }
            self.lanes[lane].came += Bulk::of(known);
            put += self.put(lane, known, bytes);
        }
        match self.flush() {
            true => self.lanes[lane].written += put,
            false => self.lanes[lane].unwritten += put,
        }
    }

    /// Adds a packet, behind the interface that it needs: what was added of packets.
    fn put(&mut self, lane: usize, known: &Known, bytes: &[u8]) -> Bulk {
        let found = self.links.iter().position(|link| *link == known.link);
        let interface = found.unwrap_or_else(|| {
            self.block.extend(pcapng::interface(known.link.number()));
            self.links.push(known.link);
            self.links.len() - 1
        });
        tell(&mut self.comment, known);
        let packet = PacketRepr {
            interface: interface as u32,
            time_ns: known.time_ns,
            wire_bytes: known.wire_bytes,
            bytes,
            comment: &self.comment,
            queue: lane as u32,
        };
        packet.emit(&mut self.block);
        Bulk {
            packets: 1,
            bytes: bytes.len() as u64,
        }
    }

    /// Writes what was added; whether it, and all before, was written.
    fn flush(&mut self) -> bool {
        if self.why.is_none() {
            self.why = self.to.write_all(&self.block).err();
        }
        self.block.clear();
        self.why.is_none()
    }
}

/// What is in the file, and what went wrong.
pub(crate) type Ended = (PacketsSummary, Option<Failed>);

/// What is known of a packet, as its comment says it.
fn tell(to: &mut String, known: &Known) {
    to.clear();
    // Writing to a text cannot fail.
    let _ = write!(to, "flow={:016x}", known.key.identity());
    if let Some(rule) = known.rule {
        let _ = write!(to, " rule={}", u32::from(rule) + 1);
    }
    if known.bytes < known.captured_bytes {
        let _ = write!(to, " trimmed_from={}", known.captured_bytes);
    }
}

#[cfg(test)]
mod tests {
    use forebay_flow::FlowKey;

    use super::*;

    /// A bunch of packets of these lengths.
    fn bunch(link: LinkType, lengths: &[u32]) -> Bunch {
        let mut bunch = Bunch::default();
        for &bytes in lengths {
            bunch.known.push(known(link, bytes, bytes, None));
            bunch.bytes.resize(bunch.bytes.len() + bytes as usize, 7);
        }
        bunch
    }

    fn known(link: LinkType, bytes: u32, captured_bytes: u32, rule: Option<u16>) -> Known {
        Known {
            time_ns: 5,
            link,
            wire_bytes: 1_500,
            captured_bytes,
            bytes,
            key: FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17),
            rule,
        }
    }

    fn bulk(packets: u64, bytes: u64) -> Bulk {
        Bulk { packets, bytes }
    }

    fn terms(file: &PacketFile, lane: usize) -> [Bulk; 3] {
        let lane = &file.lanes[lane];
        [lane.came, lane.written, lane.unwritten]
    }

    /// Interface and length of each packet in a capture, block by block (draft-ietf-opsawg-pcapng).
    fn packets(mut bytes: &[u8]) -> Vec<(u32, u32)> {
        let mut packets = Vec::new();
        while !bytes.is_empty() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            if word(0) == 6 {
                packets.push((word(8), word(20)));
            }
            bytes = &bytes[word(4) as usize..];
        }
        packets
    }

    #[test]
    fn each_packet_of_a_lane_is_written_or_not_and_is_in_the_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let (mut file, _sender) = PacketFile::create(&path, Leak::off()).unwrap();
        file.lanes.resize_with(2, Written::default);
        let (ip, ethernet) = (LinkType::RawIp, LinkType::Ethernet);
        file.write(1, &bunch(ip, &[20, 30]));
        file.write(0, &bunch(ethernet, &[60]));
        file.write(1, &bunch(ip, &[5]));
        let none = bulk(0, 0);
        assert_eq!(terms(&file, 0), [bulk(1, 60), bulk(1, 60), none]);
        assert_eq!(terms(&file, 1), [bulk(3, 55), bulk(3, 55), none]);
        // The disk is full; what comes behind it is not written either.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let disk = std::mem::replace(&mut file.to, full);
        file.write(1, &bunch(ip, &[400, 500]));
        file.to = disk;
        file.write(1, &bunch(ip, &[6_000]));
        assert_eq!(
            terms(&file, 1),
            [bulk(6, 6_955), bulk(3, 55), bulk(3, 6_900)]
        );
        file.why = None;
        file.whole.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(packets(&bytes), [(0, 20), (0, 30), (1, 60), (0, 5)]);
    }

    #[test]
    fn a_comment_says_what_is_known() {
        let mut said = String::new();
        let mut tells = |bytes, captured_bytes, rule| {
            tell(
                &mut said,
                &known(LinkType::RawIp, bytes, captured_bytes, rule),
            );
            let (flow, rest) = said.split_at("flow=0123456789abcdef".len());
            assert!(flow.starts_with("flow="), "{flow}");
            rest.to_owned()
        };
        assert_eq!(tells(9, 9, None), "");
        assert_eq!(tells(9, 10, Some(0)), " rule=1 trimmed_from=10");
        assert_eq!(tells(9, 9, Some(u16::MAX)), " rule=65536");
    }
}
