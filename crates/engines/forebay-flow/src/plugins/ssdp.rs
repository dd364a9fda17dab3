//! SSDP: what announces and looks for services of UPnP on the local link, to port 1900.

use super::column::{Column, Kind};
use super::fields::Writer;
use super::http::Head;
use super::text::Text;
use super::{Packet, Plugin, Seen, Verdict, is_udp_of};

pub(super) const COLUMNS: &[Column] = &[
    Column::own("ssdp_method", 70, Kind::Text),
    Column::cesnet("ssdp_location_port", 821, Kind::Unsigned(2)),
    Column::cesnet("ssdp_server", 822, Kind::Text),
    Column::cesnet("ssdp_user_agent", 823, Kind::Text),
    Column::cesnet("ssdp_nt", 824, Kind::Text),
    Column::cesnet("ssdp_st", 825, Kind::Text),
];

const PORT: u16 = 1900;
const BYTES: usize = 1024;
const METHODS: [&[u8]; 3] = [b"NOTIFY", b"M-SEARCH", b"HTTP/1.1"];

#[derive(Clone, Debug)]
struct State {
    location_port: Option<u16>,
    method: Text<15>,
    server: Text<127>,
    user_agent: Text<127>,
    nt: Text<127>,
    st: Text<127>,
}

/// 536 bytes a flow.
#[derive(Debug)]
pub(super) struct Ssdp(Vec<State>);

const _: () = assert!(size_of::<State>() <= 536);

impl State {
    const EMPTY: Self = Self {
        location_port: None,
        method: Text::EMPTY,
        server: Text::EMPTY,
        user_agent: Text::EMPTY,
        nt: Text::EMPTY,
        st: Text::EMPTY,
    };

    /// Takes a message; whether it is one.
    fn message(&mut self, bytes: &[u8]) -> Option<()> {
        let head = Head::of(bytes)?;
        let method = head.first_line().split(|byte| *byte == b' ').next()?;
        if !METHODS.contains(&method) {
            return None;
        }
        *self = Self::EMPTY;
        self.method.set(method);
        for (name, value) in head {
            match name.to_ascii_uppercase().as_slice() {
                b"LOCATION" => self.location_port = port(value),
                b"SERVER" => self.server.set(value),
                b"USER-AGENT" => self.user_agent.set(value),
                b"NT" => self.nt.set(value),
                b"ST" => self.st.set(value),
                _ => {}
            }
        }
        Some(())
    }
}

/// The port in an address as `http://10.0.0.1:5000/x`, 80 without one.
fn port(location: &[u8]) -> Option<u16> {
    let place = location.strip_prefix(b"http://")?;
    let host = place.split(|byte| *byte == b'/').next()?;
    match host.iter().rposition(|byte| *byte == b':') {
        None => Some(80),
        Some(colon) => str::from_utf8(&host[colon + 1..]).ok()?.parse().ok(),
    }
}

impl Ssdp {
    pub(super) fn new(places: usize) -> Self {
        Self(vec![State::EMPTY; places])
    }
}

impl Plugin for Ssdp {
    fn wants_bytes(&self, packet: &Packet<'_>) -> usize {
        if is_udp_of(&packet.key, PORT) {
            BYTES
        } else {
            0
        }
    }

    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        if !is_udp_of(&seen.packet.key, PORT) {
            return Verdict::NotMine;
        }
        match self.0[place].message(seen.payload()) {
            Some(()) => Verdict::Satisfied,
            None => Verdict::NotMine,
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.0[place];
        to.text(state.method.bytes());
        to.u16(state.location_port);
        to.text(state.server.bytes());
        to.text(state.user_agent.bytes());
        to.text(state.nt.bytes());
        to.text(state.st.bytes());
    }
}
