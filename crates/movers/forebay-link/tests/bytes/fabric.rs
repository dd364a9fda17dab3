//! The backends over libfabric, where it can be loaded.

use std::any::Any;

use forebay_fabric::{Config, Libfabric};
use forebay_link::bytes::Address;

use crate::world::{Backend, Found, any_number, strangers_on};

/// None that the kernel gives away by itself.
const PORT: u16 = 7_107;
/// The IPv4 address of a host's RDMA device.
const VERBS_HOST: &str = "FOREBAY_VERBS_HOST";

pub(crate) fn over_fabric_tcp() -> Found {
    let backend = Backend {
        fresh: own_host,
        end_may_be_death: false,
        death_cuts: true,
        unread_cuts: true,
        drop_waits: false,
        copies_regions: false,
        share: 1,
        garbage: |address| strangers_on(place_of(address)),
    };
    usable("tcp").map(|()| backend)
}

/// Where [`VERBS_HOST`] says that RDMA is to be tried; `./x test-rdma` says so in its guest.
pub(crate) fn over_fabric_verbs() -> Found {
    if std::env::var_os(VERBS_HOST).is_none() {
        return Err(format!(
            "{VERBS_HOST} names no address of an RDMA device; ./x test-rdma makes one"
        ));
    }
    let backend = Backend {
        fresh: verbs_host,
        end_may_be_death: false,
        death_cuts: true,
        unread_cuts: true,
        drop_waits: true,
        copies_regions: true,
        share: 50,
        garbage: verbs_strangers,
    };
    // It was asked for: that it is not there is no reason to skip.
    match usable("verbs") {
        Ok(()) => Ok(backend),
        Err(reason) => panic!("{VERBS_HOST} is set, and {reason}"),
    }
}

fn usable(provider: &str) -> Result<(), String> {
    let found = Libfabric::load().and_then(|libfabric| libfabric.probe(provider));
    match found {
        Ok(found) if found.can_be_used => Ok(()),
        Ok(_) => Err(format!("{provider} cannot be used here")),
        Err(error) => Err(error.to_string()),
    }
}

/// A loopback host that nobody else has, so that no port has to be free.
fn own_host() -> Address {
    let [.., b, c, d] = any_number().to_be_bytes();
    Address::Fabric {
        provider: "tcp".into(),
        place: format!("127.{}.{c}.{}:{PORT}", b.max(1), d.clamp(1, 254)),
    }
}

/// A port of the device's host that nobody else has for RDMA, whose ports are its own.
fn verbs_host() -> Address {
    let host = std::env::var(VERBS_HOST).unwrap();
    let port = PORT + (any_number() % 20_000) as u16;
    Address::Fabric {
        provider: "verbs".into(),
        place: format!("{host}:{port}"),
    }
}

/// Connections of the same provider whose first words are another's, or that go at once: RDMA has no door for any other bytes.
fn verbs_strangers(address: &Address) -> Vec<Box<dyn Any>> {
    let visit = |page_bytes| {
        let config = Config {
            page_bytes,
            ..Config::default()
        };
        Libfabric::load()
            .unwrap()
            .connect("verbs", place_of(address), &config)
    };
    drop(visit(1_000));
    vec![Box::new(visit(66_000).unwrap())]
}

fn place_of(address: &Address) -> &str {
    match address {
        Address::Fabric { place, .. } => place,
        other => panic!("{other} is not over libfabric"),
    }
}
