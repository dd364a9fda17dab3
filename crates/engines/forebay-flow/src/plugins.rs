//! What is read of flows beside their counts: plugins, one file each, chosen by name.
//!
//! A [`Plugins`] set is a [`Watch`] of a table. Each plugin keeps its state of a flow at the flow's place, in memory that is made once, and is told of
//! packets until it is satisfied, or sees that the flow is none of its own. When the flow ends, what was found is its [`Fields`].
//!
//! Whatever comes from the wire is read within limits: texts are cut (`text.rs` says where), what is put together from several packets lies in a fixed number of buffers
//! (`pieces.rs`), and no field is longer than its column says.

mod column;
mod fields;
mod kind;
mod pieces;
mod reader;
mod stream;
mod text;

mod basic;
mod bursts;
mod dhcp;
mod dns;
mod entropy;
mod hello;
mod http;
mod ntp;
mod pstats;
mod quic;
mod rtt;
mod ssdp;
#[cfg(test)]
mod tests;
mod tls;

use core::fmt;
use core::mem;

use forebay_wire::packet::{TCP, UDP};

use crate::batch::Batch;
use crate::decode::Packet;
use crate::key::FlowKey;
use crate::record::FlowRecord;
use crate::watch::{Watch, Way};

pub use column::{Column, Kind, PRIVATE_ENTERPRISE};
pub use fields::{Fields, Value};
pub use kind::PluginKind;

use fields::Writer;

/// A packet, as a plugin is shown it.
#[derive(Clone, Copy, Debug)]
struct Seen<'a> {
    packet: &'a Packet<'a>,
    way: Way,
    /// It begins its flow.
    is_first: bool,
}

impl<'a> Seen<'a> {
    const fn is_tcp(&self) -> bool {
        self.packet.key.protocol == TCP
    }

    /// What the packet carries, of the packet of a datagram or segment whose header is there; empty of others.
    const fn payload(&self) -> &'a [u8] {
        if self.packet.is_first_part() {
            self.packet.payload
        } else {
            &[]
        }
    }
}

/// Whether the flow is one of UDP to or from a port.
const fn is_udp_of(key: &FlowKey, port: u16) -> bool {
    key.protocol == UDP && (key.source_port == port || key.destination_port == port)
}

/// What a plugin wants of a flow from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// More packets.
    More,
    /// Nothing: it has what it wants.
    Satisfied,
    /// Nothing: the flow is none of its own, and it has nothing to say of it.
    NotMine,
    /// Nothing: all buffers are in use. It has nothing to say of it.
    NoRoom,
}

/// Bytes of a segment that are read of the begin of a stream.
const STREAM_BYTES: usize = 1500;

/// Bytes that a plugin reads of such a packet that looks at the begin of streams; 0 of what is no TCP.
const fn stream_bytes(packet: &Packet<'_>) -> usize {
    if packet.key.protocol == TCP {
        STREAM_BYTES
    } else {
        0
    }
}

/// Reads packets of flows, and keeps what it found by their places.
trait Plugin: fmt::Debug + Send {
    /// Bytes of the payload of such a packet that it may read; 0 if none.
    fn wants_bytes(&self, _packet: &Packet<'_>) -> usize {
        0
    }
    /// A packet of the flow at a place. Until the flow ends, or the plugin wants no more, it is given each one.
    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict;
    /// Writes its columns, in order, or nothing if it has found nothing.
    fn write(&self, place: usize, to: &mut Writer<'_>);
    /// The flow has ended, or is none of its own: what it holds beside its state is free.
    fn forget(&mut self, _place: usize) {}
}

/// Plugins of a flow, a bit for each that was chosen.
#[derive(Clone, Copy, Debug, Default)]
struct Interest {
    /// They want more packets.
    open: u16,
    /// They may have something to say.
    told: u16,
}

/// The plugins that were chosen, with what they keep of the flows of one table.
#[derive(Debug, Default)]
pub struct Plugins {
    chosen: Vec<(PluginKind, Box<dyn Plugin>)>,
    flows: Vec<Interest>,
    row: Vec<u8>,
    no_room: u64,
}

impl Plugins {
    /// Makes the memory of these plugins, each once, for a table with so many places ([`crate::Table::places`]). Of those named twice the second is left out.
    #[must_use]
    pub fn new(kinds: &[PluginKind], places: usize) -> Self {
        let mut chosen: Vec<(PluginKind, Box<dyn Plugin>)> = Vec::new();
        for kind in PluginKind::ALL {
            if kinds.contains(&kind) {
                chosen.push((kind, kind.make(places)));
            }
        }
        let of_flows = if chosen.is_empty() { 0 } else { places };
        Self {
            chosen,
            flows: vec![Interest::default(); of_flows],
            row: Vec::new(),
            no_room: 0,
        }
    }

    /// Whether none was chosen.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// How often a plugin gave up a flow because all buffers for what comes in several packets were in use.
    #[must_use]
    pub const fn no_room(&self) -> u64 {
        self.no_room
    }

    /// Whether no plugin wants more packets of the flow at a place.
    #[must_use]
    #[inline]
    pub fn is_satisfied(&self, place: u32) -> bool {
        self.flows
            .get(place as usize)
            .is_none_or(|interest| interest.open == 0)
    }

    /// Whether a plugin wants more of the flow at a place than headers, lengths and times.
    fn reads_payload(&self, place: u32) -> bool {
        let open = self.flows.get(place as usize).map_or(0, |flow| flow.open);
        let mut chosen = self.chosen.iter().enumerate();
        chosen.any(|(n, (kind, _))| open >> n & 1 != 0 && kind.reads_payload())
    }

    /// Puts a packet into a batch, with the bytes that may be read.
    #[inline]
    pub fn batch(&self, batch: &mut Batch, packet: &Packet<'_>) {
        if self.is_empty() {
            batch.push(packet);
        } else {
            let wanted = self.chosen.iter();
            let bytes = wanted.map(|(_, plugin)| plugin.wants_bytes(packet)).max();
            batch.push_with(packet, bytes.unwrap_or_default());
        }
    }

    /// A watch that reads packets, and hands on each record with what was found.
    #[inline]
    pub fn watch<'a, F: FnMut(&FlowRecord, Fields)>(
        &'a mut self,
        ended: &'a mut F,
    ) -> Watching<'a, F> {
        Watching {
            plugins: self,
            ended,
        }
    }

    fn handle(&mut self, place: u32, seen: &Seen<'_>) {
        let place = place as usize;
        let mut interest = self.flows[place];
        let mut left = interest.open;
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            let bit = 1 << n;
            left &= !bit;
            let (_, plugin) = &mut self.chosen[n];
            match plugin.handle(place, seen) {
                Verdict::More => {}
                Verdict::Satisfied => interest.open &= !bit,
                verdict @ (Verdict::NotMine | Verdict::NoRoom) => {
                    interest.open &= !bit;
                    interest.told &= !bit;
                    self.no_room += u64::from(verdict == Verdict::NoRoom);
                    plugin.forget(place);
                }
            }
        }
        self.flows[place] = interest;
    }

    fn begun(&mut self, place: u32, packet: &Packet<'_>) {
        let all = ((1_u32 << self.chosen.len()) - 1) as u16;
        self.flows[place as usize] = Interest {
            open: all,
            told: all,
        };
        let seen = Seen {
            packet,
            way: Way::Forward,
            is_first: true,
        };
        self.handle(place, &seen);
    }

    fn fields(&mut self, place: u32) -> Fields {
        let place = place as usize;
        let mut left = mem::take(&mut self.flows[place]).told;
        let mut writer = Writer::new(&mut self.row);
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            let (kind, plugin) = &mut self.chosen[n];
            writer.begin(*kind);
            plugin.write(place, &mut writer);
            writer.end(*kind);
            plugin.forget(place);
        }
        writer.finish()
    }
}

/// A set of plugins at work on a table.
#[derive(Debug)]
pub struct Watching<'a, F> {
    plugins: &'a mut Plugins,
    ended: &'a mut F,
}

impl<F: FnMut(&FlowRecord, Fields)> Watch for Watching<'_, F> {
    #[inline]
    fn begun(&mut self, place: u32, packet: &Packet<'_>) {
        if !self.plugins.is_empty() {
            self.plugins.begun(place, packet);
        }
    }

    #[inline]
    fn packet(&mut self, place: u32, way: Way, packet: &Packet<'_>) {
        if !self.plugins.is_satisfied(place) {
            let seen = Seen {
                packet,
                way,
                is_first: false,
            };
            self.plugins.handle(place, &seen);
        }
    }

    #[inline]
    fn wants(&self, place: u32) -> bool {
        !self.plugins.is_satisfied(place)
    }

    fn wants_payload(&self, place: u32) -> bool {
        self.plugins.reads_payload(place)
    }

    #[inline]
    fn ended(&mut self, place: u32, record: &FlowRecord) {
        let fields = if self.plugins.is_empty() {
            Fields::default()
        } else {
            self.plugins.fields(place)
        };
        (self.ended)(record, fields);
    }
}
