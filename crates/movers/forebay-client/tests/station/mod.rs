//! A client with sockets at a place, in the hands of a test.

use std::net::SocketAddr;

use forebay_client::ip::{IpClient, Network};

use crate::place::{Place, place};

/// A client with sockets, and its place.
pub(crate) struct Station {
    pub(crate) ip: IpClient,
    pub(crate) place: Place,
}

impl Station {
    pub(crate) fn new(number: u8, vlan: Option<u16>) -> Self {
        let v4 = format!("10.0.0.{number}");
        let v6 = format!("fd00::{number}");
        let (client, place) = place(number, vlan, &[&v4, &v6]);
        let ip = IpClient::open(client, &Network::default()).unwrap();
        Self { ip, place }
    }

    /// A turn, and what was sent.
    pub(crate) fn turn(&mut self) -> Vec<Vec<u8>> {
        self.ip.turn().unwrap();
        self.ip.client_mut().flush();
        self.place.taken()
    }
}

/// Carries frames both ways until none goes.
pub(crate) fn carry(a: &mut Station, b: &mut Station) {
    loop {
        let (from_a, from_b) = (a.turn(), b.turn());
        if from_a.is_empty() && from_b.is_empty() {
            break;
        }
        from_a.iter().for_each(|frame| b.place.give(frame));
        from_b.iter().for_each(|frame| a.place.give(frame));
    }
}

pub(crate) fn to(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}
