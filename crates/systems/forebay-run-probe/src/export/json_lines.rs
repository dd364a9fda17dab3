//! Records as lines of JSON.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;

use forebay_flow::plugins::{Fields, Kind, Value};
use forebay_flow::{EndReason, FlowRecord};
use forebay_run::whole_file::{BeginError, WholeFile};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Output, Row, Unwritten, begin};

/// A line. Addresses are those of the initiator and of the other end; `_rev` is the direction towards the initiator.
#[derive(Serialize)]
struct Line<'a> {
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
    #[serde(flatten)]
    found: Found<'a>,
}

/// What plugins found: a key for each column that has a value.
struct Found<'a>(&'a Fields);

impl Serialize for Found<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (column, value) in self.0.values() {
            if let Some(value) = value {
                map.serialize_entry(column.name, &Cell(column.kind, value))?;
            }
        }
        map.end()
    }
}

/// A value as JSON has it: octets are hexadecimal, and a text is what it is, with the escapes of JSON.
struct Cell<'a>(Kind, Value<'a>);

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(kind, value) = *self;
        match kind {
            Kind::Unsigned(_) => serializer.serialize_u64(value.unsigned()),
            Kind::Float => serializer.serialize_f64(value.float()),
            Kind::Text => serializer.serialize_str(&value.text()),
            Kind::Octets => serializer.collect_str(&Hex(value.bytes())),
            Kind::Unsigneds(bytes) => serializer.collect_seq(value.unsigneds(bytes)),
            Kind::Signeds => {
                let each = value.bytes().iter();
                serializer.collect_seq(each.map(|byte| i8::from_be_bytes([*byte])))
            }
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_zero(vlan: &u16) -> bool {
    *vlan == 0
}

/// What the end of a flow is called.
pub(super) const fn end_name(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Idle => "idle_timeout",
        EndReason::Active => "active_timeout",
        EndReason::EndDetected => "end_of_flow",
        EndReason::Forced => "forced_end",
        EndReason::LackOfResources => "lack_of_resources",
    }
}

impl<'a> Line<'a> {
    fn of(Row { record, fields }: &'a Row) -> Self {
        let FlowRecord { key, .. } = record;
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
            end_reason: end_name(record.end_reason),
            found: Found(fields),
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
    fn write(&mut self, rows: &[Row]) -> Result<usize, Unwritten> {
        self.lines.clear();
        for row in rows {
            // A line of numbers, addresses and texts can always be written into memory.
            let _ = serde_json::to_writer(&mut self.lines, &Line::of(row));
            self.lines.push(b'\n');
        }
        match self.to.write_all(&self.lines) {
            Ok(()) => Ok(rows.len()),
            Err(why) => Err(Unwritten {
                records: rows.len(),
                why,
            }),
        }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.file.finish()
    }
}
