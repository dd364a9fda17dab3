//! A peer that says anything at a TLS door, or is cut off: the door stays open, and the link ends with an error that is one of ours.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use forebay_link::bytes::{Address, ByteLink, ByteLinkError, Door, Received, Room, TlsFault};
use proptest::prelude::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::{Authority, HOST, Pems, fault, with};
use crate::world::{Deadline, free_port_of, listen, meet, take};

fn place(address: &Address) -> (String, u16) {
    match address {
        Address::Tcp { host, port } => (host.clone(), *port),
        other => panic!("{other}"),
    }
}

/// A TLS client that is none of ours: it proves itself with `own`, or not at all.
fn foreign(listener: &Pems, own: Option<&Pems>) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(listener.authority.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            let chain = chain.map(Result::unwrap).collect();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    ClientConnection::new(Arc::new(config), ServerName::try_from(HOST).unwrap()).unwrap()
}

/// How a link ends with a peer that is none of ours; and how that one does.
fn meet_foreign(listener: &Pems, own: Option<&Pems>) -> (ByteLinkError, std::io::Error) {
    let mut door =
        forebay_link::bytes::listen(&free_port_of(HOST), with(&listener.load().unwrap())).unwrap();
    let mut socket = TcpStream::connect(place(&door.address().unwrap())).unwrap();
    let mut link = take(&mut *door);
    let mut peer = foreign(listener, own);
    std::thread::scope(|scope| {
        let told = scope.spawn(move || {
            let mut stream = rustls::Stream::new(&mut peer, &mut socket);
            stream
                .write_all(b"FN\x01")
                .and_then(|()| stream.read(&mut [0; 16]))
                .unwrap_err()
        });
        let deadline = Deadline::begin();
        let error = loop {
            match link.receive() {
                Ok(_) => deadline.check(),
                Err(error) => break error,
            }
        };
        drop(link);
        (error, told.join().unwrap())
    })
}

#[test]
fn who_shows_no_certificate_is_let_go_and_told() {
    let listener = Authority::new("ours").issue(&[HOST]);
    let (error, told) = meet_foreign(&listener, None);
    assert_eq!(*fault(&error), TlsFault::NoCertificate);
    assert_eq!(error.reason(), "no_certificate");
    assert!(told.to_string().contains("CertificateRequired"), "{told}");
}

#[test]
fn an_expired_certificate_is_let_go_and_told() {
    let authority = Authority::new("ours");
    let (error, told) = meet_foreign(&authority.issue(&[HOST]), Some(&authority.expired(&[])));
    let text = error.to_string();
    assert!(
        text.contains("has expired") && text.contains("clocks"),
        "{text}"
    );
    assert!(told.to_string().contains("CertificateExpired"), "{told}");
}

/// Ends a link that is given anything: whose fault it is.
fn ends(link: &mut dyn ByteLink) -> Option<ByteLinkError> {
    match link.receive() {
        Ok(Received::Nothing) => None,
        Ok(found) => panic!("{found:?} of a stranger"),
        Err(error) => Some(error),
    }
}

/// Until it has ended.
fn ends_at_last(link: &mut dyn ByteLink) -> ByteLinkError {
    let deadline = Deadline::begin();
    loop {
        if let Some(error) = ends(link) {
            return error;
        }
        deadline.check();
    }
}

/// The first flight of a client.
fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    foreign(super::own(), None).write_tls(&mut bytes).unwrap();
    bytes
}

fn visit(door: &mut dyn Door) -> (TcpStream, Box<dyn ByteLink>) {
    let socket = TcpStream::connect(place(&door.address().unwrap())).unwrap();
    (socket, take(door))
}

#[test]
fn a_cut_at_any_place_of_the_hand_shake_is_a_loss() {
    let mut door = listen(&free_port_of(HOST), Room::default()).unwrap();
    let hello = hello();
    for cut in [0, 1, 4, 5, 6, hello.len() / 2, hello.len() - 1, hello.len()] {
        let (mut socket, mut link) = visit(&mut *door);
        socket.write_all(&hello[..cut]).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let error = ends_at_last(&mut *link);
        assert!(
            matches!(error, ByteLinkError::Lost { .. }),
            "{cut}: {error}"
        );
    }
}

#[test]
fn a_stranger_can_make_this_side_keep_only_so_much() {
    let mut door = listen(&free_port_of(HOST), Room::default()).unwrap();
    let (mut socket, mut link) = visit(&mut *door);
    socket.set_nonblocking(true).unwrap();
    // A first message that says it has 16 MiB, in records that are all right.
    let mut record = vec![0x16, 3, 1, 0x40, 0];
    record.extend([1, 0xff, 0xff, 0xff]);
    record.resize(5 + 0x4000, 0);
    let mut sent = 0;
    let deadline = Deadline::begin();
    let error = loop {
        match socket.write(&record[sent % record.len()..]) {
            Ok(count) => sent += count,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if let Some(error) = ends(&mut *link) {
            break error;
        }
        deadline.check();
    };
    assert!(
        matches!(fault(&error), TlsFault::Protocol { .. }),
        "{error}"
    );
}

/// In records of one byte a message of the hand-shake takes six times its length: it is not kept until it is whole.
#[test]
fn a_stranger_that_says_little_in_many_records_is_let_go_before_the_message_is_whole() {
    const KEPT_BYTES: usize = 96 << 10;
    let mut door = listen(&free_port_of(HOST), Room::default()).unwrap();
    let (mut socket, mut link) = visit(&mut *door);
    socket.set_nonblocking(true).unwrap();
    // A first message that says it has almost 64 KiB.
    let mut said = Vec::new();
    for byte in [1, 0, 0xff, 0]
        .into_iter()
        .chain(std::iter::repeat_n(0, 24 << 10))
    {
        said.extend([0x16, 3, 1, 0, 1, byte]);
    }
    let (mut sent, mut read) = (0, 0);
    // Little by little: what it has sent is with this side, or nearly.
    let deadline = Deadline::begin();
    let error = loop {
        if sent < said.len() && read > 2 {
            let most = said.len().min(sent + 1024);
            match socket.write(&said[sent..most]) {
                Ok(count) => (sent, read) = (sent + count, 0),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        read += 1;
        if let Some(error) = ends(&mut *link) {
            break error;
        }
        deadline.check();
    };
    assert!(
        matches!(fault(&error), TlsFault::Protocol { .. }),
        "{error}"
    );
    assert!(
        (KEPT_BYTES..KEPT_BYTES + (16 << 10)).contains(&sent),
        "after {sent} bytes: {error}"
    );
}

#[test]
fn an_end_that_was_not_said_is_a_loss() {
    // An attacker on the way can end the connection, but cannot say the end.
    let mut door = listen(&free_port_of(HOST), Room::default()).unwrap();
    let mut near = crate::world::connect(&door.address().unwrap(), Room::default()).unwrap();
    let mut far = meet(&mut *door, &mut *near);
    drop(near);
    let error = ends_at_last(&mut *far);
    assert!(matches!(error, ByteLinkError::Lost { .. }), "{error}");
}

#[derive(Debug, Clone)]
enum Say {
    Anything(Vec<u8>),
    /// A record with a head that is all right.
    Record(u8, Vec<u8>),
    /// What a good client says first, with a byte changed.
    Hello(usize, u8),
}

fn say() -> impl Strategy<Value = Say> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..600);
    prop_oneof![
        bytes().prop_map(Say::Anything),
        (0x14..0x19_u8, bytes()).prop_map(|(kind, bytes)| Say::Record(kind, bytes)),
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Say::Hello(at, byte)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_a_stranger_says_nothing_comes_of_it(said in prop::collection::vec(say(), 1..6)) {
        let mut door = listen(&free_port_of(HOST), Room::default()).unwrap();
        let (mut socket, mut link) = visit(&mut *door);
        let mut over = None;
        for say in said {
            let bytes = match say {
                Say::Anything(bytes) => bytes,
                Say::Record(kind, bytes) => {
                    let [high, low] = (bytes.len() as u16).to_be_bytes();
                    [&[kind, 3, 3, high, low], &bytes[..]].concat()
                }
                Say::Hello(at, byte) => {
                    let mut bytes = hello();
                    let at = at % bytes.len();
                    bytes[at] = byte;
                    bytes
                }
            };
            // It may have been let go.
            let _ = socket.write_all(&bytes);
            over = over.or_else(|| ends(&mut *link));
        }
        let _ = socket.shutdown(Shutdown::Write);
        let error = over.unwrap_or_else(|| ends_at_last(&mut *link));
        let ours = matches!(error, ByteLinkError::Tls { .. } | ByteLinkError::Lost { .. });
        prop_assert!(ours, "{}", error);
        // A good peer is still let in.
        let mut near = crate::world::connect(&door.address().unwrap(), Room::default()).unwrap();
        meet(&mut *door, &mut *near);
    }

    /// A good listener's bytes are damaged on their way: the side that connects ends, too, or nothing was damaged that matters.
    #[test]
    fn what_is_damaged_on_the_way_is_noticed(at in 0..3_000_usize, bit in 0..8_u8) {
        let mut door = listen(&free_port_of(HOST), Room::default()).unwrap();
        let relay = std::net::TcpListener::bind((HOST, 0)).unwrap();
        let host = HOST.to_owned();
        let port = relay.local_addr().unwrap().port();
        let mut near = crate::world::connect(&Address::Tcp { host, port }, Room::default()).unwrap();
        let (mut there, _) = relay.accept().unwrap();
        let mut here = TcpStream::connect(place(&door.address().unwrap())).unwrap();
        let mut far = take(&mut *door);
        for socket in [&here, &there] {
            socket.set_nonblocking(true).unwrap();
        }
        let (mut passed, mut read) = (0, Vec::new());
        let mut piece = [0; 4096];
        let deadline = Deadline::begin();
        let message = [7_u8; 4_000];
        let (mut sent, mut idle) = (0, 0);
        let over = loop {
            idle += 1;
            if let Ok(count) = there.read(&mut piece) {
                idle = 0;
                let _ = here.write_all(&piece[..count]);
            }
            if let Ok(count) = here.read(&mut piece) {
                idle = 0;
                if (passed..passed + count).contains(&at) {
                    piece[at - passed] ^= 1 << bit;
                }
                passed += count;
                let _ = there.write_all(&piece[..count]);
            }
            // One of them notices; the other one is told or finds the end.
            match far.send(&[&message[sent..]]).and_then(|count| { sent += count; far.receive() }) {
                Ok(_) => {}
                Err(error) => break Some(error),
            }
            match near.receive() {
                Ok(_) => {
                    read.extend_from_slice(near.bytes());
                    let count = near.bytes().len();
                    near.used(count);
                }
                Err(error) => break Some(error),
            }
            if read.len() == message.len() {
                break None;
            }
            if idle > 1_000 {
                // A damaged length has made it wait for what never comes: as long as the connection is there.
                let _ = there.shutdown(Shutdown::Both);
            }
            deadline.check();
        };
        // What was read is a beginning of what was sent, whatever happened.
        prop_assert!(read.iter().all(|byte| *byte == 7));
        if let Some(error) = over {
            let ours = matches!(error, ByteLinkError::Tls { .. } | ByteLinkError::Lost { .. });
            prop_assert!(ours, "{}", error);
        } else {
            // The versions in the heads of records are not protected and not looked at.
            prop_assert_eq!(read.len(), message.len());
        }
    }
}
