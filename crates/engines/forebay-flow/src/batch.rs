//! Packets that outlive their frames, with as many of their first bytes as are wanted.

use crate::decode::Packet;

/// Where the bytes of a packet lie.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    header: u8,
    payload: u16,
}

/// Packets for [`crate::Table::handle_batch`], in memory that is made once.
#[derive(Debug)]
pub struct Batch {
    packets: Vec<Packet<'static>>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
    room: usize,
}

/// Bytes of a payload that are kept at most: those of a frame of 1,500 bytes and a few more.
pub const PAYLOAD_BYTES_MAX: usize = 2048;

impl Batch {
    /// Makes room for so many packets. Bytes have room as they come for the first time: up to 2,303 of a packet.
    #[must_use]
    pub fn new(packets: usize) -> Self {
        Self {
            packets: Vec::with_capacity(packets),
            spans: Vec::with_capacity(packets),
            bytes: Vec::new(),
            room: packets,
        }
    }

    /// Whether it has as many packets as there is room for.
    #[must_use]
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.packets.len() >= self.room
    }

    /// Adds a packet without its bytes.
    #[inline]
    pub fn push(&mut self, packet: &Packet<'_>) {
        self.packets.push(packet.without_payload());
    }

    /// Adds a packet with its header and so many bytes of its payload at most, up to [`PAYLOAD_BYTES_MAX`].
    pub fn push_with(&mut self, packet: &Packet<'_>, payload_bytes: usize) {
        let header = first(packet.header, u8::MAX.into());
        let payload = first(packet.payload, payload_bytes.min(PAYLOAD_BYTES_MAX));
        // Those before it may have been added without their bytes.
        self.spans.resize(self.packets.len(), Span::default());
        self.spans.push(Span {
            start: self.bytes.len() as u32,
            header: header.len() as u8,
            payload: payload.len() as u16,
        });
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(payload);
        self.push(packet);
    }

    /// Empties it.
    #[inline]
    pub fn clear(&mut self) {
        self.packets.clear();
        self.spans.clear();
        self.bytes.clear();
    }

    /// The packets, without their bytes.
    #[must_use]
    #[inline]
    pub fn packets(&self) -> &[Packet<'static>] {
        &self.packets
    }

    /// A packet with its bytes; none if no bytes were kept of it.
    #[inline]
    pub(crate) fn with_bytes(&self, n: usize) -> Option<Packet<'_>> {
        let span = self.spans.get(n)?;
        let start = span.start as usize;
        let (header, payload) = (usize::from(span.header), usize::from(span.payload));
        let there = self.bytes.get(start..start + header + payload)?;
        let (header, payload) = there.split_at(header);
        Some(self.packets[n].with_bytes(header, payload))
    }
}

#[inline]
fn first(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::key::FlowKey;
    use crate::record::FlowRecord;
    use crate::table::Table;
    use crate::watch::{Watch, Way};

    fn packet<'a>(header: &'a [u8], payload: &'a [u8]) -> Packet<'a> {
        Packet {
            time_ns: 7,
            key: FlowKey::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17),
            octets: 99,
            tcp_flags: 2,
            header,
            payload,
            payload_bytes: 3000,
            hop_limit: 63,
            fragment: None,
            tunnel: None,
        }
    }

    #[test]
    fn each_packet_has_its_own_bytes() {
        let long = [5; 3000];
        let packets = [
            packet(b"head", b"payload"),
            packet(b"", b"x"),
            packet(b"other", b""),
            packet(b"h", &long),
        ];
        let mut batch = Batch::new(4);
        for _ in 0..2 {
            batch.push_with(&packets[0], 3);
            batch.push(&packets[1]);
            batch.push_with(&packets[2], 10);
            assert!(!batch.is_full());
            batch.push_with(&packets[3], usize::MAX);
            assert!(batch.is_full() && batch.packets().len() == 4);
            assert_eq!(batch.with_bytes(0), Some(packet(b"head", b"pay")));
            assert_eq!(batch.with_bytes(1), Some(packet(b"", b"")));
            assert_eq!(batch.with_bytes(2), Some(packet(b"other", b"")));
            let cut = packet(b"h", &long[..PAYLOAD_BYTES_MAX]);
            assert_eq!(batch.with_bytes(3), Some(cut));
            batch.clear();
        }
        batch.push(&packets[1]);
        assert_eq!(batch.with_bytes(0), None);
        assert_eq!(batch.packets()[0], packet(b"", b""));
    }

    /// Payloads that a table told of, in order.
    struct Payloads(Vec<Vec<u8>>);

    impl Watch for Payloads {
        fn begun(&mut self, _place: u32, packet: &Packet<'_>) {
            self.0.push(packet.payload.to_vec());
        }

        fn packet(&mut self, _place: u32, _way: Way, packet: &Packet<'_>) {
            self.0.push(packet.payload.to_vec());
        }

        fn ended(&mut self, _place: u32, _record: &FlowRecord) {}
    }

    #[test]
    fn a_table_tells_of_each_packet_of_a_long_batch_with_its_own_bytes() {
        let payloads: Vec<Vec<u8>> = (0..100).map(|n| vec![n; 5]).collect();
        let mut batch = Batch::new(payloads.len());
        for payload in &payloads {
            batch.push_with(&packet(b"head", payload), 5);
        }
        let mut told = Payloads(Vec::new());
        let mut table = Table::new(&Config::default()).unwrap();
        table.handle_batch(&batch, &mut told);
        assert_eq!(told.0, payloads);
    }
}
