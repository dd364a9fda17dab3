//! DHCP for IPv4 (RFC 2131, options by RFC 2132): the hardware address, the name and the kind of the client, the last kind of message, and which address was given.

use core::net::Ipv4Addr;

use super::column::{Column, Kind};
use super::fields::Writer;
use super::reader::Reader;
use super::text::Text;
use super::{Packet, Plugin, Seen, Verdict, is_udp_of};

pub(super) const COLUMNS: &[Column] = &[
    Column::own("dhcp_message", 90, Kind::Unsigned(1)),
    Column::own("dhcp_client_mac", 91, Kind::Octets),
    Column::own("dhcp_host_name", 92, Kind::Text),
    Column::own("dhcp_vendor_class", 93, Kind::Text),
    Column::own("dhcp_requested_address", 94, Kind::Text),
    Column::own("dhcp_your_address", 95, Kind::Text),
    Column::own("dhcp_lease_s", 96, Kind::Unsigned(4)),
];

const SERVER_PORT: u16 = 67;
const BYTES: usize = 576;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Bytes between the client's hardware address and the cookie: the rest of its field, a server's name and a file's.
const NAMES_BYTES: usize = 10 + 64 + 128;
const ACK: u8 = 5;
const NAK: u8 = 6;
/// Packets that are looked at.
const PACKETS_MAX: u8 = 8;

#[derive(Clone, Debug)]
struct State {
    requested: Option<[u8; 4]>,
    yours: Option<[u8; 4]>,
    lease_s: Option<u32>,
    message: u8,
    packets: u8,
    mac: [u8; 6],
    host_name: Text<63>,
    vendor_class: Text<63>,
}

/// 160 bytes a flow.
#[derive(Debug)]
pub(super) struct Dhcp(Vec<State>);

const _: () = assert!(size_of::<State>() <= 160);

impl State {
    const EMPTY: Self = Self {
        requested: None,
        yours: None,
        lease_s: None,
        message: 0,
        packets: 0,
        mac: [0; 6],
        host_name: Text::EMPTY,
        vendor_class: Text::EMPTY,
    };

    /// Takes a message, as far as it can be read; none if it is another one.
    fn message(&mut self, bytes: &[u8]) -> Option<()> {
        let mut reader = Reader(bytes);
        let [op, hardware, length, _hops] = reader.chunk()?;
        if !matches!((op, hardware, length), (1 | 2, 1, 6)) {
            return None;
        }
        let _id_seconds_flags_client = reader.take(12)?;
        let yours: [u8; 4] = reader.chunk()?;
        let _server_and_relay = reader.take(8)?;
        let mac = reader.chunk()?;
        reader.take(NAMES_BYTES)?;
        if reader.chunk()? != COOKIE {
            return None;
        }
        self.mac = mac;
        if yours != [0; 4] {
            self.yours = Some(yours);
        }
        // Options end with their end, or where the bytes do.
        while self.option(&mut reader).is_some() {}
        Some(())
    }

    fn option(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let kind = match reader.u8()? {
            0 => return Some(()),
            255 => return None,
            kind => kind,
        };
        let value = reader.part8()?.0;
        match kind {
            12 => self.host_name.set(value),
            50 => self.requested = value.try_into().ok(),
            51 => self.lease_s = value.try_into().ok().map(u32::from_be_bytes),
            53 => self.message = *value.first()?,
            60 => self.vendor_class.set(value),
            _ => {}
        }
        Some(())
    }
}

fn address(to: &mut Writer<'_>, address: Option<[u8; 4]>) {
    let text = address.map(|address| Ipv4Addr::from(address).to_string());
    to.text(text.unwrap_or_default().as_bytes());
}

impl Dhcp {
    pub(super) fn new(places: usize) -> Self {
        Self(vec![State::EMPTY; places])
    }
}

impl Plugin for Dhcp {
    fn wants_bytes(&self, packet: &Packet<'_>) -> usize {
        if is_udp_of(&packet.key, SERVER_PORT) {
            BYTES
        } else {
            0
        }
    }

    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        if seen.is_first && !is_udp_of(&seen.packet.key, SERVER_PORT) {
            return Verdict::NotMine;
        }
        let state = &mut self.0[place];
        if seen.is_first {
            *state = State::EMPTY;
        }
        let is_one = state.message(seen.payload()).is_some();
        if seen.is_first && !is_one {
            return Verdict::NotMine;
        }
        state.packets += 1;
        if matches!(state.message, ACK | NAK) || state.packets >= PACKETS_MAX {
            Verdict::Satisfied
        } else {
            Verdict::More
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.0[place];
        to.u8(Some(state.message).filter(|message| *message > 0));
        to.octets(&state.mac);
        to.text(state.host_name.bytes());
        to.text(state.vendor_class.bytes());
        address(to, state.requested);
        address(to, state.yours);
        to.u32(state.lease_s);
    }
}
