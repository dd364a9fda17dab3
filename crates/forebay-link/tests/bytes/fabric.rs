//! The backends over libfabric, where it can be loaded.

use std::any::Any;

use forebay_fabric::{Config, Libfabric};
use forebay_link::bytes::Address;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

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
        kills_hang: false,
        unread_cuts: true,
        drop_waits: false,
        copies_regions: false,
        share: 1,
        garbage: |address| strangers_on(place_of(address)),
    };
    usable("tcp").map(|()| backend)
}

pub(crate) fn over_fabric_shm() -> Found {
    let backend = Backend {
        fresh: free_place,
        end_may_be_death: false,
        death_cuts: true,
        // The provider has spin locks in the memory that both ends write to: who is killed with one of them never gives it back.
        kills_hang: true,
        unread_cuts: false,
        drop_waits: false,
        copies_regions: false,
        share: 1,
        garbage: records,
    };
    usable("shm").map(|()| backend)
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
        kills_hang: false,
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

fn free_place() -> Address {
    Address::Fabric {
        provider: "shm".into(),
        place: format!("test-{:016x}", any_number()),
    }
}

fn place_of(address: &Address) -> &str {
    match address {
        Address::Fabric { place, .. } => place,
        other => panic!("{other} is not over libfabric"),
    }
}

/// On the socket by which two processes of a host find each other.
fn records(address: &Address) -> Vec<Box<dyn Any>> {
    let name = format!("forebay-fabric/{}", place_of(address));
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let visit = || {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::connect(&socket, &name).unwrap();
        socket
    };
    let say = |record: &[u8]| {
        let socket = visit();
        rustix::net::send(&socket, record, SendFlags::NOSIGNAL).unwrap();
        socket
    };
    drop(visit());
    drop(say(b"GET / HTTP/1.1\r\n\r\n"));
    let stay = [say(&[0xff; 4096]), say(&[0]), visit()];
    stay.map(|socket| Box::new(socket) as Box<dyn Any>).into()
}
