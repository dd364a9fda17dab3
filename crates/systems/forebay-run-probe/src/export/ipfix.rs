//! Records as IPFIX messages (RFC 7011), both directions of a flow in one record (RFC 5103).
//!
//! Times are in milliseconds, which every collector reads. Templates stand in front of a file or a connection, and over UDP again after so many messages and so much time. At its end,
//! and every minute, an exporter says what was lost, ignored, filtered and not sent.

use std::io;
use std::net::IpAddr;

use forebay_flow::FlowRecord;
use forebay_flow::plugins::PRIVATE_ENTERPRISE;
use forebay_link::collector::Turn;
use forebay_sys::clock;
use forebay_wire::ipfix::elements::{
    EXPORTING_PROCESS_ID, IGNORED_OCTET_TOTAL_COUNT, IGNORED_PACKET_TOTAL_COUNT,
    METERING_PROCESS_ID, NOT_SENT_FLOW_TOTAL_COUNT, NOT_SENT_OCTET_TOTAL_COUNT,
    NOT_SENT_PACKET_TOTAL_COUNT, SELECTOR_ID, SELECTOR_ID_TOTAL_PKTS_OBSERVED,
    SELECTOR_ID_TOTAL_PKTS_SELECTED,
};
use forebay_wire::ipfix::{Element, FieldSpec, Finished, MessageWriter, RecordWriter, WriteError};

use super::carrier::Carrier;
use super::templates::{Layout, Templates, write_fields};
use super::{Amount, Losses, Output, Row, Unwritten};
use crate::config::ProbeSettings;

/// Templates of what was not measured and not sent (RFC 7011, sections 4.2 and 4.3).
const RELIABILITY: [u16; 2] = [258, 259];
/// Template of what came to the filter and passed (elements of RFC 5477), behind those of all sets of plugins.
const SELECTION: u16 = 32_768;
/// The filter, as the only selector that there is.
const FILTER: u64 = 1;
/// Packets that were lost between the interface and the meter, u64: the registry has no such element.
const UNREAD_PACKETS: FieldSpec = own(120);
/// Octets of packets that the filter did not let pass, u64: the registry has packets alone.
const FILTERED_OCTETS: FieldSpec = own(121);
/// Messages that the first of some records is tried in: behind its template, and without what plugins found behind another one.
const SENDS_MAX: usize = 3;
/// Observation domain.
const DOMAIN: u32 = 1;
const SECOND_NS: u64 = 1_000_000_000;

/// A number of eight bytes with an element of our own.
const fn own(id: u16) -> FieldSpec {
    FieldSpec {
        element: Element {
            enterprise: PRIVATE_ENTERPRISE,
            id,
        },
        bytes: 8,
    }
}

fn write_record(to: &mut RecordWriter<'_>, record: &FlowRecord, layout: Layout) {
    let key = &record.key;
    for address in [key.source(), key.destination()] {
        match address {
            IpAddr::V4(four) => to.bytes(&four.octets()),
            IpAddr::V6(six) => to.bytes(&six.octets()),
        }
    }
    for ns in [record.start_ns, record.end_ns] {
        to.u64(ns / 1_000_000);
    }
    to.u16(key.source_port);
    to.u16(key.destination_port);
    to.u8(key.protocol);
    to.u8(record.end_reason as u8);
    if layout.vlan {
        to.u16(key.vlan);
    }
    let forward = (record.packets, record.octets, record.tcp_flags);
    let reverse = (record.packets_rev, record.octets_rev, record.tcp_flags_rev);
    let directions = if layout.uniflow { 1 } else { 2 };
    for (packets, octets, tcp_flags) in [forward, reverse].into_iter().take(directions) {
        to.u64(packets);
        to.u64(octets);
        to.u8(tcp_flags);
    }
}

pub(super) struct Ipfix {
    carrier: Carrier,
    room: Vec<u8>,
    templates: Templates,
    layout: Layout,
    sequence: u32,
    /// Templates were sent.
    has_told: bool,
    /// Records without what plugins found.
    bare: u64,
}

impl Ipfix {
    pub(super) fn new(carrier: Carrier, settings: &ProbeSettings) -> Self {
        let layout = Layout {
            uniflow: settings.uniflow,
            vlan: settings.vlan_in_key,
        };
        Self {
            room: vec![0; carrier.message_bytes()],
            carrier,
            templates: Templates::new(layout),
            layout,
            sequence: 0,
            has_told: false,
            bare: 0,
        }
    }

    /// Whether a message may be sent. A collector that was away and is there again knows nothing of what was told to it.
    fn turn(&mut self) -> Turn {
        let turn = self.carrier.turn();
        if matches!(turn, Turn::Afresh) {
            (self.sequence, self.has_told) = (0, false);
        }
        turn
    }

    /// Sends a message with the first of these records: how many, which may be none where their template has filled it.
    fn send(&mut self, rows: &[Row]) -> Result<usize, Unwritten> {
        let tells = self.carrier.tells(self.has_told);
        let Self {
            carrier,
            room,
            templates,
            layout,
            sequence,
            bare,
            ..
        } = self;
        if tells {
            templates.forget_told();
        }
        let fill = |writer: &mut MessageWriter<'_>| {
            for row in rows {
                match push(writer, templates, row, *layout) {
                    Ok(is_bare) => *bare += u64::from(is_bare),
                    Err(_) if !writer.is_empty() => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        let message = message(room, *sequence, fill);
        // The first one is it that has no place in a message.
        let message = message.map_err(|why| Unwritten { records: 1, why })?;
        let count = message.records as usize;
        *sequence = message.next_sequence;
        self.has_told |= tells;
        let sent = carrier.send(message.bytes, count, tells);
        sent.map_err(|why| {
            templates.forget_told();
            Unwritten {
                records: count,
                why,
            }
        })
    }
}

/// Puts a record into a message, behind its template if that was not told yet; whether it had to go without what plugins found.
fn push(
    writer: &mut MessageWriter<'_>,
    templates: &mut Templates,
    row: &Row,
    layout: Layout,
) -> Result<bool, WriteError> {
    let is_ipv6 = row.record.key.version() == 6;
    let told = templates.tell(writer, is_ipv6, row.fields.set());
    let pushed = told.and_then(|id| {
        writer.push_record(id, |to| {
            write_record(to, &row.record, layout);
            write_fields(to, &row.fields);
        })
    });
    let Err(WriteError::NeverFits { .. }) = pushed else {
        return pushed.map(|()| false);
    };
    let id = templates.tell(writer, is_ipv6, 0)?;
    let pushed = writer.push_record(id, |to| write_record(to, &row.record, layout));
    pushed.map(|()| true)
}

impl Output for Ipfix {
    fn write(&mut self, rows: &[Row]) -> Result<usize, Unwritten> {
        match self.turn() {
            Turn::Send | Turn::Afresh => {}
            Turn::Sent(count) => return Ok(count),
            Turn::Wait => return Ok(0),
        }
        for _ in 0..SENDS_MAX {
            match self.send(rows)? {
                // It is under way.
                0 if !self.carrier.is_idle() => return Ok(0),
                // Templates alone: in the next message the first record has more room.
                0 => {}
                records => return Ok(records),
            }
        }
        Err(Unwritten {
            records: 1,
            why: io::Error::other("a record has no room in a message beside its template"),
        })
    }

    fn load(&mut self, waiting: usize) {
        self.carrier.load(waiting);
    }

    fn next_ns(&self) -> Option<u64> {
        self.carrier.next_ns()
    }

    fn tend(&mut self) {
        // No record is under way.
        self.turn();
    }

    fn away(&self) -> Option<&str> {
        self.carrier.away()
    }

    fn bare(&self) -> u64 {
        self.bare
    }

    fn report(&mut self, before: &Losses, not_sent: Amount) -> io::Result<()> {
        if !self.carrier.is_idle() {
            // It goes with the next one.
            return Ok(());
        }
        let pid = std::process::id();
        let metering = [
            FieldSpec::whole(METERING_PROCESS_ID),
            FieldSpec::whole(IGNORED_PACKET_TOTAL_COUNT),
            FieldSpec::whole(IGNORED_OCTET_TOTAL_COUNT),
            UNREAD_PACKETS,
        ];
        let exporting = [
            EXPORTING_PROCESS_ID,
            NOT_SENT_FLOW_TOTAL_COUNT,
            NOT_SENT_PACKET_TOTAL_COUNT,
            NOT_SENT_OCTET_TOTAL_COUNT,
        ];
        let selection = [
            FieldSpec::whole(SELECTOR_ID),
            FieldSpec::whole(SELECTOR_ID_TOTAL_PKTS_OBSERVED),
            FieldSpec::whole(SELECTOR_ID_TOTAL_PKTS_SELECTED),
            FILTERED_OCTETS,
        ];
        let fill = |writer: &mut MessageWriter<'_>| {
            let [of_metering, of_exporting] = RELIABILITY;
            writer.push_options_template(of_metering, 1, &metering)?;
            let specs = exporting.map(FieldSpec::whole);
            writer.push_options_template(of_exporting, 1, &specs)?;
            if before.filter.is_some() {
                writer.push_options_template(SELECTION, 1, &selection)?;
            }
            writer.push_record(of_metering, |to| {
                to.u32(pid);
                to.u64(before.ignored.packets);
                to.u64(before.ignored.octets);
                to.u64(before.unread_packets);
            })?;
            writer.push_record(of_exporting, |to| {
                to.u32(pid);
                to.u64(not_sent.flows);
                to.u64(not_sent.volume.packets);
                to.u64(not_sent.volume.octets);
            })?;
            let Some(filter) = before.filter else {
                return Ok(());
            };
            writer.push_record(SELECTION, |to| {
                to.u64(FILTER);
                to.u64(filter.came_packets);
                to.u64(filter.came_packets - filter.discarded.packets);
                to.u64(filter.discarded.octets);
            })
        };
        let message = message(&mut self.room, self.sequence, fill)?;
        self.sequence = message.next_sequence;
        self.carrier.send(message.bytes, 0, false).map(drop)
    }

    fn goes_on(&self) -> bool {
        self.carrier.goes_on()
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.carrier.finish()
    }
}

/// A message with what `fill` puts into it.
fn message(
    room: &mut [u8],
    sequence: u32,
    fill: impl FnOnce(&mut MessageWriter<'_>) -> Result<(), WriteError>,
) -> io::Result<Finished<'_>> {
    let mut writer = MessageWriter::new(room, DOMAIN, sequence).map_err(io::Error::other)?;
    fill(&mut writer).map_err(io::Error::other)?;
    let now_s = clock::realtime_ns() / SECOND_NS;
    Ok(writer.finish(now_s as u32))
}

#[cfg(test)]
mod tests;
