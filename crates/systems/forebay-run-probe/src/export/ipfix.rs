//! Records as IPFIX messages (RFC 7011), both directions of a flow in one record (RFC 5103).
//!
//! Times are in milliseconds, which every collector reads. Templates stand in front of a file or a connection, and over UDP again after so many messages and so much time. At its end,
//! and every minute, an exporter says what it has ignored and not sent.

use std::io;
use std::net::IpAddr;

use forebay_flow::{FlowRecord, Volume};
use forebay_sys::clock;
use forebay_wire::ipfix::elements::{
    DESTINATION_IPV4_ADDRESS, DESTINATION_IPV6_ADDRESS, DESTINATION_TRANSPORT_PORT,
    EXPORTING_PROCESS_ID, FLOW_END_MILLISECONDS, FLOW_END_REASON, FLOW_START_MILLISECONDS,
    IGNORED_OCTET_TOTAL_COUNT, IGNORED_PACKET_TOTAL_COUNT, METERING_PROCESS_ID,
    NOT_SENT_FLOW_TOTAL_COUNT, NOT_SENT_OCTET_TOTAL_COUNT, NOT_SENT_PACKET_TOTAL_COUNT,
    OCTET_DELTA_COUNT, PACKET_DELTA_COUNT, PROTOCOL_IDENTIFIER, SOURCE_IPV4_ADDRESS,
    SOURCE_IPV6_ADDRESS, SOURCE_TRANSPORT_PORT, TCP_CONTROL_BITS, VLAN_ID,
};
use forebay_wire::ipfix::{FieldSpec, Finished, MessageWriter, RecordWriter, WriteError};

use super::carrier::Carrier;
use super::lasting::Turn;
use super::{Amount, Output, Unwritten};
use crate::config::ProbeSettings;

/// Template of flows of IPv4, and of IPv6.
const TEMPLATES: [u16; 2] = [256, 257];
/// Templates of what was not measured and not sent (RFC 7011, sections 4.2 and 4.3).
const RELIABILITY: [u16; 2] = [258, 259];
/// Observation domain.
const DOMAIN: u32 = 1;
const SECOND_NS: u64 = 1_000_000_000;

/// What stands in a record.
#[derive(Clone, Copy)]
struct Layout {
    /// There is one direction.
    uniflow: bool,
    /// VLANs are part of the key.
    vlan: bool,
}

/// Fields of a record.
fn fields(is_ipv6: bool, layout: Layout) -> Vec<FieldSpec> {
    let addresses = if is_ipv6 {
        [SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS]
    } else {
        [SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS]
    };
    let whole = [
        FLOW_START_MILLISECONDS,
        FLOW_END_MILLISECONDS,
        SOURCE_TRANSPORT_PORT,
        DESTINATION_TRANSPORT_PORT,
        PROTOCOL_IDENTIFIER,
        FLOW_END_REASON,
    ];
    let counts = [
        FieldSpec::whole(PACKET_DELTA_COUNT),
        FieldSpec::whole(OCTET_DELTA_COUNT),
        // Of the flags the lower eight are measured.
        FieldSpec::reduced(TCP_CONTROL_BITS, 1),
    ];
    let reverse = |spec: FieldSpec| {
        let element = spec.element.reverse()?;
        Some(FieldSpec { element, ..spec })
    };
    let vlan = layout.vlan.then_some(VLAN_ID);
    let specs = addresses.into_iter().chain(whole).chain(vlan);
    let mut specs: Vec<_> = specs.map(FieldSpec::whole).chain(counts).collect();
    if !layout.uniflow {
        specs.extend(counts.into_iter().filter_map(reverse));
    }
    specs
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
    templates: [Vec<FieldSpec>; 2],
    layout: Layout,
    sequence: u32,
    /// Templates were sent.
    has_told: bool,
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
            templates: [false, true].map(|is_ipv6| fields(is_ipv6, layout)),
            layout,
            sequence: 0,
            has_told: false,
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
}

impl Output for Ipfix {
    fn write(&mut self, records: &[FlowRecord]) -> Result<usize, Unwritten> {
        match self.turn() {
            Turn::Send | Turn::Afresh => {}
            Turn::Sent(count) => return Ok(count),
            Turn::Wait => return Ok(0),
        }
        let tells = self.carrier.tells(self.has_told);
        let Self {
            carrier,
            room,
            templates,
            layout,
            sequence,
            ..
        } = self;
        let fill = |writer: &mut MessageWriter<'_>| {
            let templates = TEMPLATES.iter().zip(templates.iter().filter(|_| tells));
            for (id, specs) in templates {
                writer.push_template(*id, specs)?;
            }
            for record in records {
                let id = TEMPLATES[usize::from(record.key.version() == 6)];
                let pushed = writer.push_record(id, |to| write_record(to, record, *layout));
                match pushed {
                    Ok(()) => {}
                    Err(_) if writer.records() > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        let message = message(room, *sequence, fill);
        let message = message.map_err(|why| Unwritten {
            records: records.len(),
            why,
        })?;
        let count = message.records as usize;
        *sequence = message.next_sequence;
        self.has_told |= tells;
        let sent = carrier.send(message.bytes, count, tells);
        sent.map_err(|why| Unwritten {
            records: count,
            why,
        })
    }

    fn report(&mut self, ignored: Volume, not_sent: Amount) -> io::Result<()> {
        if !self.carrier.is_idle() {
            // It goes with the next one.
            return Ok(());
        }
        let pid = std::process::id();
        let metering = [
            METERING_PROCESS_ID,
            IGNORED_PACKET_TOTAL_COUNT,
            IGNORED_OCTET_TOTAL_COUNT,
        ];
        let exporting = [
            EXPORTING_PROCESS_ID,
            NOT_SENT_FLOW_TOTAL_COUNT,
            NOT_SENT_PACKET_TOTAL_COUNT,
            NOT_SENT_OCTET_TOTAL_COUNT,
        ];
        let fill = |writer: &mut MessageWriter<'_>| {
            let [of_metering, of_exporting] = RELIABILITY;
            let specs = metering.map(FieldSpec::whole);
            writer.push_options_template(of_metering, 1, &specs)?;
            let specs = exporting.map(FieldSpec::whole);
            writer.push_options_template(of_exporting, 1, &specs)?;
            writer.push_record(of_metering, |to| {
                to.u32(pid);
                to.u64(ignored.packets);
                to.u64(ignored.octets);
            })?;
            writer.push_record(of_exporting, |to| {
                to.u32(pid);
                to.u64(not_sent.flows);
                to.u64(not_sent.volume.packets);
                to.u64(not_sent.volume.octets);
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
mod tests {
    use forebay_flow::{EndReason, FlowKey};
    use forebay_wire::ipfix::{Messages, SetKind};

    use super::*;

    #[test]
    fn a_report_before_the_first_record_takes_no_template_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.ipfix");
        let carrier = Carrier::file(&path).unwrap();
        let mut ipfix = Box::new(Ipfix::new(carrier, &ProbeSettings::default()));
        let record = FlowRecord {
            key: FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17),
            packets: 3,
            octets: 300,
            packets_rev: 0,
            octets_rev: 0,
            start_ns: 1,
            end_ns: 2,
            tcp_flags: 0,
            tcp_flags_rev: 0,
            end_reason: EndReason::Idle,
        };
        let (none, no_flows) = (Volume::default(), Amount::default());
        ipfix.report(none, no_flows).unwrap();
        for _ in 0..2 {
            assert!(ipfix.write(&[record]).is_ok_and(|written| written == 1));
        }
        ipfix.finish().unwrap();
        let file = std::fs::read(&path).unwrap();
        let kinds = Messages::new(&file).flat_map(|message| {
            let sets = message.unwrap().sets().map(|set| set.kind());
            sets.collect::<Vec<_>>()
        });
        let kinds: Vec<_> = kinds.collect();
        let data = SetKind::Data;
        let report = [SetKind::OptionsTemplates, data(258), data(259)];
        let records = [SetKind::Templates, data(256), data(256)];
        assert_eq!(kinds, [report, records].concat());
    }
}
