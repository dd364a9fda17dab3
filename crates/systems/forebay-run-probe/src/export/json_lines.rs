//! Records as lines of JSON.

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;

use forebay_flow::{EndReason, FlowRecord};
use forebay_run::whole_file::{BeginError, WholeFile};
use serde::Serialize;

use super::{Output, Unwritten, begin};

/// A line. Addresses are those of the initiator and of the other end; `_rev` is the direction towards the initiator.
#[derive(Serialize)]
struct Line {
    src: IpAddr,
    dst: IpAddr,
    src_port: u16,
    dst_port: u16,
    protocol: u8,
    #[serde(skip_serializing_if = "is_zero")]
    vlan: u16,
    packets: u64,
    octets: u64,
    packets_rev: u64,
    octets_rev: u64,
    start_ns: u64,
    end_ns: u64,
    tcp_flags: u8,
    tcp_flags_rev: u8,
    end_reason: &'static str,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_zero(vlan: &u16) -> bool {
    *vlan == 0
}

const fn name(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Idle => "idle_timeout",
        EndReason::Active => "active_timeout",
        EndReason::EndDetected => "end_of_flow",
        EndReason::Forced => "forced_end",
        EndReason::LackOfResources => "lack_of_resources",
    }
}

impl From<&FlowRecord> for Line {
    fn from(record: &FlowRecord) -> Self {
        let key = &record.key;
        Self {
            src: key.source(),
            dst: key.destination(),
            src_port: key.source_port,
            dst_port: key.destination_port,
            protocol: key.protocol,
            vlan: key.vlan,
            packets: record.packets,
            octets: record.octets,
            packets_rev: record.packets_rev,
            octets_rev: record.octets_rev,
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            tcp_flags: record.tcp_flags,
            tcp_flags_rev: record.tcp_flags_rev,
            end_reason: name(record.end_reason),
        }
    }
}

/// A file that has its name when it is whole.
pub(super) struct JsonLines {
    file: WholeFile,
    to: File,
    lines: Vec<u8>,
}

impl JsonLines {
    pub(super) fn create(path: &Path) -> Result<Self, BeginError> {
        let (file, to) = begin(path)?;
        Ok(Self {
            to,
            file,
            lines: Vec::new(),
        })
    }
}

impl Output for JsonLines {
    fn write(&mut self, records: &[FlowRecord]) -> Result<usize, Unwritten> {
        self.lines.clear();
        for record in records {
            // A line of numbers and addresses can always be written into memory.
            let _ = serde_json::to_writer(&mut self.lines, &Line::from(record));
            self.lines.push(b'\n');
        }
        match self.to.write_all(&self.lines) {
            Ok(()) => Ok(records.len()),
            Err(why) => Err(Unwritten {
                records: records.len(),
                why,
            }),
        }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.finish()
    }
}
