//! Over TLS: which side may talk to which, and what each side is told when it may not.

mod authority;
mod files;
mod hostile;
mod peers;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use forebay_link::bytes::{
    Address, ByteLink, ByteLinkError, Certificates, Door, Room, Security, Terms, TlsFault,
};

pub(crate) use authority::{Authority, Pems, files_in};

use crate::world::{Backend, Deadline, Found, free_port_of, tcp_garbage};

/// Where a child finds what it proves itself with.
pub(crate) const CERTIFICATES: &str = "BYTES_CERTIFICATES";
/// The loopback host that is spoken to over TLS; all others are plain.
pub(crate) const HOST: &str = "127.0.0.2";

pub(crate) fn over_tls() -> Found {
    Ok(Backend {
        fresh: || free_port_of(HOST),
        end_may_be_death: false,
        // What is encrypted and has no room in the socket goes with the process that is killed.
        death_cuts: true,
        unread_cuts: true,
        drop_waits: false,
        copies_regions: false,
        share: 1,
        garbage: tcp_garbage,
    })
}

/// What this test binary and its children prove themselves with.
pub(crate) fn own() -> &'static Pems {
    static OWN: LazyLock<Pems> = LazyLock::new(|| match std::env::var(CERTIFICATES) {
        Ok(directory) => {
            let files = files_in(&PathBuf::from(directory));
            let read = |path| fs::read_to_string(path).unwrap();
            Pems {
                certificate: read(files.certificate),
                key: read(files.key),
                authority: read(files.authority),
            }
        }
        Err(_) => Authority::new("tests").issue(&[HOST]),
    });
    &OWN
}

pub(crate) fn terms(address: &Address, room: Room) -> Terms {
    static LOADED: LazyLock<Certificates> = LazyLock::new(|| own().load().unwrap());
    let security = match address {
        Address::Tcp { host, .. } if host == HOST => Security::Tls(LOADED.clone()),
        // A device for RDMA has no address on loopback.
        Address::Fabric { provider, .. } if provider == "verbs" => Security::Plain,
        _ => Security::default(),
    };
    Terms { room, security }
}

fn with(certificates: &Certificates) -> Terms {
    Terms {
        room: Room::default(),
        security: Security::Tls(certificates.clone()),
    }
}

/// How both ends of a connection part that neither can want: the side that connects, the side that listens.
fn quarrel(address: &Address, near: Terms, far: Terms) -> [ByteLinkError; 2] {
    let mut door = forebay_link::bytes::listen(address, far).unwrap();
    let address = match (address, door.address().unwrap()) {
        // A name stays a name.
        (Address::Tcp { host, .. }, Address::Tcp { port, .. }) => {
            let host = host.clone();
            Address::Tcp { host, port }
        }
        (_, other) => panic!("{other}"),
    };
    let mut near = forebay_link::bytes::connect(&address, near).unwrap();
    let mut far: Option<Box<dyn ByteLink>> = None;
    let mut ends = [None, None];
    let deadline = Deadline::begin();
    while ends.iter().any(Option::is_none) {
        if far.is_none() {
            far = accept(&mut *door);
        }
        if ends[0].is_none() {
            ends[0] = talk(&mut *near);
        }
        if let Some(far) = far.as_mut().filter(|_| ends[1].is_none()) {
            ends[1] = talk(&mut **far);
        }
        deadline.check();
    }
    ends.map(Option::unwrap)
}

fn accept(door: &mut dyn Door) -> Option<Box<dyn ByteLink>> {
    door.accept().unwrap()
}

/// As an end point does; the error that ends it.
fn talk(link: &mut dyn ByteLink) -> Option<ByteLinkError> {
    let done = link.send(&[b"FN\x01 and more"]);
    let done = done.and_then(|_| link.receive());
    let bytes = link.bytes().len();
    link.used(bytes);
    done.err()
}

fn fault(error: &ByteLinkError) -> &TlsFault {
    match error {
        ByteLinkError::Tls { fault, .. } => fault,
        other => panic!("{other}"),
    }
}
