//! What goes wrong, and how it shows.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]
#![allow(clippy::print_stdout, reason = "tests say what they met")]

mod pair;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use forebay_fabric::{Blame, Config, Endpoint, FabricError, Libfabric, Listener, Received};
use pair::{Pair, libfabric, listener, pair, until};

const PLACE: &str = "FABRIC_TEST_PLACE";

fn small() -> Config {
    Config {
        page_bytes: 8_000,
        receive_pages: 8,
        send_pages: 8,
        ..Config::default()
    }
}

/// Not a test of its own: the peer that the tests start as a process and kill. It connects, takes one page, and does nothing more.
#[test]
fn peer() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let (provider, place) = place.split_once("://").unwrap();
    let libfabric = Libfabric::load().unwrap();
    let mut endpoint = libfabric.connect(provider, place, &small()).unwrap();
    until("a page comes", || {
        (endpoint.receive().unwrap() == Received::Some).then_some(())
    });
    endpoint.used(usize::MAX);
    println!("has one page");
    std::io::stdin().read_exact(&mut [0]).ok();
}

struct Peer(Child);

impl Peer {
    fn start(provider: &str, listener: &Listener) -> Self {
        let place = format!("{provider}://{}", listener.local_address().unwrap());
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peer", "--nocapture"])
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    fn has_one_page(&mut self) {
        let mut said = Vec::new();
        let mut byte = [0];
        while !said.ends_with(b"has one page") {
            self.0
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut byte)
                .unwrap();
            said.push(byte[0]);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn meet_peer(listener: &mut Listener) -> Endpoint {
    let mut endpoint = until("the peer comes", || listener.accept().unwrap());
    until("it is connected", || {
        endpoint.receive().unwrap();
        endpoint.is_connected().then_some(())
    });
    endpoint
}

/// The peer is killed while pages are under way.
fn killed(provider: &str) {
    let Some((_, mut listener)) = listener(provider, &small()) else {
        return;
    };
    let mut peer = Peer::start(provider, &listener);
    let mut endpoint = meet_peer(&mut listener);
    until("the first page goes out", || {
        (endpoint.send(&[&[1; 8_000]]).unwrap() > 0).then_some(())
    });
    until("the first page is out of hands", || {
        endpoint.receive().unwrap();
        (endpoint.totals().pages_completed == 1).then_some(())
    });
    peer.has_one_page();
    // All that the way there holds, and then pages that stay under way.
    let mut refused = 0;
    until("the sender is held back", || {
        refused = match endpoint.send(&[&[2; 8_000]]).unwrap() {
            0 => refused + 1,
            _ => 0,
        };
        (refused > 1_000).then_some(())
    });
    let under_way = endpoint.totals().pages_under_way;
    assert!(under_way > 0);
    peer.0.kill().unwrap();
    peer.0.wait().unwrap();
    let error = until("the loss shows", || endpoint.receive().err());
    let FabricError::Lost {
        unconfirmed_pages, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(error.blame(), Blame::Peer);
    assert_eq!(*unconfirmed_pages, under_way, "{error}");
    let totals = endpoint.totals();
    assert_eq!(totals.pages_sent, totals.pages_completed + under_way);
    assert!(endpoint.send(&[b"more"]).is_err());
    assert!(endpoint.arm(true).is_err());
    // The next one is served.
    drop(endpoint);
    let mut peer = Peer::start(provider, &listener);
    let mut endpoint = meet_peer(&mut listener);
    until("its page goes out", || {
        (endpoint.send(&[b"again"]).unwrap() > 0).then_some(())
    });
    until("its page is out of hands", || {
        endpoint.receive().unwrap();
        (endpoint.totals().pages_completed == 1).then_some(())
    });
    peer.has_one_page();
    assert_eq!(listener.totals().accepted, 2);
    drop(peer);
    let error = until("its loss shows", || endpoint.receive().err()).to_string();
    assert!(error.contains("of 0 pages it is not known"), "{error}");
}

#[test]
fn a_peer_that_is_killed_over_tcp() {
    killed("tcp");
}

/// Both ends in this process, one dropped without an end.
fn dropped(provider: &str) {
    let Some(Pair { near, mut far, .. }) = pair(provider, &small()) else {
        return;
    };
    drop(near);
    let error = until("the loss shows", || far.receive().err());
    assert!(
        matches!(
            error,
            FabricError::Lost {
                unconfirmed_pages: 0,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_peer_that_goes_without_an_end_over_tcp() {
    dropped("tcp");
}

#[test]
fn nobody_listens_over_tcp() {
    let Some((libfabric, listener)) = listener("tcp", &small()) else {
        return;
    };
    let address = listener.local_address().unwrap();
    drop(listener);
    let mut endpoint = libfabric.connect("tcp", &address, &small()).unwrap();
    let error = until("it is refused", || endpoint.receive().err());
    assert!(matches!(error, FabricError::Connect { .. }), "{error}");
    assert_eq!(error.fault().unwrap().errno, libc::ECONNREFUSED);
    assert_eq!(endpoint.send(&[b"a"]).unwrap_err(), error);
}

fn in_use(provider: &str) {
    let Some((libfabric, listener)) = listener(provider, &small()) else {
        return;
    };
    let address = listener.local_address().unwrap();
    let error = libfabric.listen(provider, &address, &small()).unwrap_err();
    assert!(matches!(error, FabricError::Listen { .. }), "{error}");
    assert_eq!(error.fault().unwrap().errno, libc::EADDRINUSE, "{error}");
    drop(listener);
    libfabric.listen(provider, &address, &small()).unwrap();
}

#[test]
fn a_place_is_in_use_over_tcp() {
    in_use("tcp");
}

#[test]
fn providers_that_are_none() {
    let Some(libfabric) = libfabric() else { return };
    let connect = |provider: &str| {
        let error = libfabric.connect(provider, "127.0.0.1:1", &small());
        error.unwrap_err()
    };
    let error = connect("warp");
    let FabricError::ProviderMissing { provider, there } = &error else {
        panic!("{error}");
    };
    assert_eq!(provider, "warp");
    assert!(there.iter().any(|name| name == "tcp"), "{error}");
    for refused in ["sockets", "shm"] {
        assert!(!there.iter().any(|name| name == refused), "{error}");
    }
    assert!(libfabric.probe("warp").is_err());
    for (refused, remedy) in [
        ("sockets", "its successor is tcp"),
        ("shm", "use shm://NAME"),
    ] {
        let error = connect(refused);
        assert!(
            matches!(error, FabricError::ProviderRefused { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(remedy), "{error}");
        assert_eq!(error.blame(), Blame::Configuration);
        let error = libfabric.listen(refused, "127.0.0.1:0", &small());
        assert!(matches!(error, Err(FabricError::ProviderRefused { .. })));
    }
    // It has datagrams only.
    if libfabric.probe("udp").is_ok() {
        let error = connect("udp");
        assert!(
            matches!(error, FabricError::NoConnections { .. }),
            "{error}"
        );
    }
}

#[test]
fn what_providers_have() {
    let Some(libfabric) = libfabric() else { return };
    let names = libfabric.providers().unwrap();
    println!("{names:?}");
    for name in &names {
        println!("{:?}", libfabric.probe(name).unwrap());
    }
    let tcp = libfabric.probe("tcp").unwrap();
    assert!(
        tcp.has_connections && tcp.can_be_used && tcp.has_wait_fd,
        "{tcp:?}"
    );
    for refused in ["sockets", "shm"] {
        let found = libfabric.probe(refused);
        assert!(found.is_err() || !found.unwrap().can_be_used, "{refused}");
    }
}

#[test]
fn a_host_without_the_library() {
    let error = Libfabric::load_from("libfabric-of-nobody.so.1").unwrap_err();
    assert!(matches!(error, FabricError::LibraryMissing { .. }));
    assert!(
        error.to_string().contains("install the package libfabric1"),
        "{error}"
    );
    assert_eq!(error.blame(), Blame::Resource);
    // A library, but another one.
    let error = Libfabric::load_from("libc.so.6").unwrap_err();
    assert!(matches!(
        error,
        FabricError::SymbolMissing {
            symbol: "fi_version",
            ..
        }
    ));
}

/// What signals do stays the program's business.
#[test]
fn no_signal_is_taken_over() {
    let handled = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = |name: &str| status.lines().find(|line| line.starts_with(name));
        let both = [line("SigCgt"), line("SigIgn")].map(Option::unwrap);
        both.map(str::to_owned)
    };
    // The library is loaded once for all tests: in a process of its own.
    let role = "FABRIC_TEST_SIGNALS";
    if std::env::var_os(role).is_none() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_signal_is_taken_over"])
            .env(role, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{said}");
        return;
    }
    let before = handled();
    let Some(_pair) = pair("tcp", &small()) else {
        return;
    };
    assert_eq!(handled(), before);
}

#[test]
fn settings_and_places_that_are_none() {
    let Some(libfabric) = libfabric() else { return };
    let none = Config {
        page_bytes: 0,
        ..small()
    };
    let error = libfabric.listen("tcp", "127.0.0.1:0", &none).unwrap_err();
    assert!(matches!(
        error,
        FabricError::OutOfRange {
            name: "page_bytes",
            ..
        }
    ));
    for place in ["127.0.0.1", "127.0.0.1:70000", ":1", "::1:1"] {
        let error = libfabric.listen("tcp", place, &small()).unwrap_err();
        assert!(matches!(error, FabricError::Place { .. }), "{error}");
    }
    let error = libfabric.connect("tcp", "no-such-host.invalid:1", &small());
    assert!(matches!(error.unwrap_err(), FabricError::Connect { .. }));
}

/// More pages than the provider has places for are cut to those.
#[test]
fn a_provider_limits_the_pages() {
    let config = Config {
        page_bytes: 64,
        receive_pages: 60_000,
        send_pages: 60_000,
        ..Config::default()
    };
    let Some(Pair { near, .. }) = pair("tcp", &config) else {
        return;
    };
    let taken = *near.config();
    println!("{taken:?}");
    assert!(taken.send_pages < 60_000 && taken.send_pages >= 64);
}

/// Strangers on the port: the listener goes on.
#[test]
fn rubbish_on_the_port() {
    let Some((libfabric, mut listener)) = listener("tcp", &small()) else {
        return;
    };
    let address = listener.local_address().unwrap();
    let junk: [&[u8]; 6] = [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &[0; 5_000],
        &[0xff; 5_000],
        // What the provider's own request begins with, and nonsense behind it.
        &[3, 1, 0, 0xff, 0xff, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9],
    ];
    let mut open = Vec::new();
    for bytes in junk {
        for stays in [false, true] {
            let mut stranger = TcpStream::connect(&address).unwrap();
            stranger.write_all(bytes).ok();
            for _ in 0..50 {
                assert!(listener.accept().unwrap().is_none());
                std::thread::yield_now();
            }
            if stays {
                open.push(stranger);
            }
        }
    }
    let mut near = libfabric.connect("tcp", &address, &small()).unwrap();
    let mut far = pair::meet(&mut listener, &mut near);
    until("a page comes", || {
        near.send(&[b"fine"]).unwrap();
        (far.receive().unwrap() == Received::Some).then_some(())
    });
    assert_eq!(far.bytes(), b"fine");
    assert_eq!(listener.totals().accepted, 1);
    println!("{:?}", listener.totals());
    drop(open);
    // Strangers that have gone leave nothing behind that wakes it again and again.
    until("it is quiet", || {
        assert!(listener.accept().unwrap().is_none());
        (!pair::is_readable([listener.fd(), None], 0)).then_some(())
    });
}

fn gone_before_it_is_taken_in(provider: &str) {
    let Some((libfabric, mut listener)) = listener(provider, &small()) else {
        return;
    };
    let address = listener.local_address().unwrap();
    for _ in 0..10 {
        let mut near = libfabric.connect(provider, &address, &small()).unwrap();
        near.receive().unwrap();
        drop(near);
        for _ in 0..20 {
            // Taken in or not, it is of no use, and does no harm.
            if let Some(mut far) = listener.accept().unwrap() {
                until("the loss shows", || far.receive().err());
            }
        }
    }
    let mut near = libfabric.connect(provider, &address, &small()).unwrap();
    pair::meet(&mut listener, &mut near);
}

#[test]
fn one_who_does_not_wait_to_be_taken_in_over_tcp() {
    gone_before_it_is_taken_in("tcp");
}
