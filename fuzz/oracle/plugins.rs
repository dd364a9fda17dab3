//! What must hold of plugins for any packets. Shared by the fuzz target and by the test that replays its corpus.
//!
//! No panic; every value is as long as its column says, texts are bounded, and no flow is given up for want of buffers while there are more than flows.
//!
//! Each step is a packet: what it is (bit 0 TCP, bit 1 the other way, bit 2 SYN, bits 3 to 6 which port), its place in the stream, bytes of its payload (u16), payload.

use forebay_flow::plugins::{Fields, Kind, PluginKind, Plugins};
use forebay_flow::{Batch, Config, FlowKey, FlowRecord, Packet, Table};

const PORTS: [u16; 8] = [53, 5353, 443, 80, 1900, 123, 67, 5000];
const TCP: u8 = 6;
const UDP: u8 = 17;
/// No text or list is longer: 255 bytes, each of which may have been replaced by three.
const VALUE_BYTES_MAX: usize = 3 * 255;

fn header(is_tcp: bool, is_syn: bool, sequence: u8) -> Vec<u8> {
    if !is_tcp {
        return vec![0; 8];
    }
    let mut header = vec![0; 20];
    header[6..8].copy_from_slice(&(1000 + u16::from(sequence)).to_be_bytes());
    (header[12], header[13]) = (5 << 4, if is_syn { 0x02 } else { 0x10 });
    header
}

fn judge(record: &FlowRecord, fields: &Fields) {
    assert!(record.packets + record.packets_rev > 0);
    let mut count = 0;
    for (column, value) in fields.values() {
        count += 1;
        let Some(value) = value else { continue };
        let bytes = value.bytes().len();
        match column.kind {
            Kind::Unsigned(_) | Kind::Float => {
                assert_eq!(bytes, usize::from(column.kind.number_bytes()))
            }
            Kind::Text => {
                assert!(str::from_utf8(value.bytes()).is_ok() && bytes <= VALUE_BYTES_MAX)
            }
            Kind::Octets => assert!(bytes <= 255),
            Kind::Unsigneds(_) | Kind::Signeds => {
                assert!(
                    bytes.is_multiple_of(column.kind.number_bytes().into())
                        && bytes <= VALUE_BYTES_MAX
                );
            }
        }
    }
    assert_eq!(count, PluginKind::columns_of(fields.set()).count());
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let config = Config {
        flows: 32,
        ..Config::default()
    };
    let mut table = Table::new(&config).expect("sound");
    let mut plugins = Plugins::new(&PluginKind::ALL, table.places());
    let mut batch = Batch::new(8);
    let mut judge = |record: &FlowRecord, fields: Fields| judge(record, &fields);
    let (mut steps, mut time_ns) = (bytes, 0);
    while let Some((&[what, sequence, l0, l1], rest)) = steps.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let (payload, rest) = rest.split_at(length.min(rest.len()));
        steps = rest;
        time_ns += 1_000_000;
        let (is_tcp, is_syn) = (what & 1 != 0, what & 4 != 0);
        let port = PORTS[usize::from(what >> 3) % PORTS.len()];
        let protocol = if is_tcp { TCP } else { UDP };
        let key = FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol);
        let key = key.with_ports(50_000, port);
        let header = header(is_tcp, is_syn, sequence);
        let packet = Packet {
            time_ns,
            key: if what & 2 == 0 { key } else { key.turned() },
            octets: (20 + header.len() + payload.len()) as u32,
            tcp_flags: if is_tcp { header[13] } else { 0 },
            header: &header,
            payload,
            payload_bytes: payload.len() as u32,
            hop_limit: 64,
            fragment: None,
            tunnel: None,
        };
        plugins.batch(&mut batch, &packet);
        if batch.is_full() {
            table.handle_batch(&batch, &mut plugins.watch(&mut judge));
            batch.clear();
        }
    }
    let mut watch = plugins.watch(&mut judge);
    table.handle_batch(&batch, &mut watch);
    table.end_all_watched(&mut watch);
    assert_eq!(plugins.no_room(), 0);
}
