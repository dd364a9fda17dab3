//! Peers that are not accepted: each side says so, and what to do.

use forebay_link::bytes::{Address, ByteLinkError, DoorError, Room, Security, Terms, TlsFault};

use super::{Authority, HOST, fault, quarrel, with};
use crate::world::{Deadline, free_port_of};

fn here() -> Address {
    free_port_of(HOST)
}

fn told(error: &ByteLinkError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
}

#[test]
fn a_plain_peer_at_a_tls_door_is_named_on_both_sides() {
    let certificates = Authority::new("a").issue(&[HOST]).load().unwrap();
    let [near, far] = quarrel(&here(), Terms::default(), with(&certificates));
    assert_eq!(*fault(&near), TlsFault::TlsPeer);
    assert!(matches!(fault(&far), TlsFault::PlainPeer { .. }), "{far}");
    told(&near, &["speaks TLS", "--tls-certificate", "--plain"]);
    told(
        &far,
        &["messaging without TLS", "--tls-certificate", "--plain"],
    );
    assert_eq!([near.reason(), far.reason()], ["tls_peer", "plain_peer"]);
}

#[test]
fn a_tls_peer_at_a_plain_door_is_named_on_both_sides() {
    let certificates = Authority::new("a").issue(&[HOST]).load().unwrap();
    let [near, far] = quarrel(&here(), with(&certificates), Terms::default());
    assert!(matches!(fault(&near), TlsFault::PlainPeer { .. }), "{near}");
    assert_eq!(*fault(&far), TlsFault::TlsPeer);
    told(&near, &["messaging without TLS", "--plain"]);
}

#[test]
fn two_authorities_do_not_believe_each_other() {
    let [one, two] = ["one", "two"].map(|name| Authority::new(name).issue(&[HOST]).load().unwrap());
    let [near, far] = quarrel(&here(), with(&one), with(&two));
    told(&near, &["of another authority", "--tls-authority"]);
    told(&far, &["another authority", "--tls-authority"]);
    assert_eq!(near.reason(), "bad_certificate");
    assert_eq!(far.reason(), "certificate_refused");
    // Also when one was made anew under the name of the other.
    let [one, two] = [(); 2].map(|()| Authority::new("same").issue(&[HOST]).load().unwrap());
    let [near, far] = quarrel(&here(), with(&one), with(&two));
    told(&near, &["of another authority", "--tls-authority"]);
    told(&far, &["another authority", "--tls-authority"]);
}

#[test]
fn a_listener_refuses_who_is_of_another_authority() {
    // The side that connects believes both.
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let listener = ours.issue(&[HOST]);
    let mut stranger = other.issue(&[HOST]);
    stranger.authority += &listener.authority;
    let near = with(&stranger.load().unwrap());
    let [near, far] = quarrel(&here(), near, with(&listener.load().unwrap()));
    told(
        &near,
        &[
            "does not accept this side's certificate",
            "another authority",
        ],
    );
    told(&far, &["its certificate is of another authority"]);
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new("a");
    let near = authority.issue(&[HOST]).load().unwrap();
    for hosts in [&["127.0.0.3"][..], &["localhost"], &[]] {
        let far = authority.issue(hosts).load().unwrap();
        let [near, far] = quarrel(&here(), with(&near), with(&far));
        told(&near, &["is not for this address", "subjectAltName"]);
        told(&far, &["does not accept this side's certificate"]);
    }
    // What the side that connects is called does not matter.
    let near = authority.issue(&["elsewhere.example.org"]).load().unwrap();
    let far = authority.issue(&["127.0.0.3"]).load().unwrap();
    let [near, _] = quarrel(&here(), with(&near), with(&far));
    told(&near, &["is not for this address"]);
}

#[test]
fn a_name_is_held_against_names() {
    let authority = Authority::new("a");
    let near = authority.issue(&[]).load().unwrap();
    let far = authority.issue(&["localhost"]).load().unwrap();
    let address = Address::Tcp {
        host: "localhost".into(),
        port: 0,
    };
    let mut door = forebay_link::bytes::listen(&address, with(&far)).unwrap();
    let Address::Tcp { port, .. } = door.address().unwrap() else {
        panic!("no port");
    };
    let host = "localhost".into();
    let mut near = forebay_link::bytes::connect(&Address::Tcp { host, port }, with(&near)).unwrap();
    crate::world::meet(&mut *door, &mut *near);
}

#[test]
fn a_host_that_can_stand_in_no_certificate_is_named() {
    let certificates = Authority::new("a").issue(&[HOST]).load().unwrap();
    let address = Address::Tcp {
        host: "no..name".into(),
        port: 1,
    };
    let error = forebay_link::bytes::connect(&address, with(&certificates)).unwrap_err();
    assert!(matches!(error, ByteLinkError::Unnameable { .. }) && error.is_final());
}

#[test]
fn beyond_loopback_nothing_starts_without_certificates_or_a_word() {
    for host in [
        "0.0.0.0",
        "::",
        "192.0.2.1",
        "2001:db8::1",
        "::ffff:0.0.0.0",
        "::ffff:192.0.2.1",
        "::ffff:10.1.2.3",
        "::ffff:126.255.255.255",
        "::ffff:128.0.0.1",
        // IPv4 in the way of old, which is none: the bits are not those of ::1.
        "::127.0.0.1",
        "fe80::1",
    ] {
        let address = Address::Tcp {
            host: host.into(),
            port: 0,
        };
        let refused = forebay_link::bytes::listen(&address, Room::default()).unwrap_err();
        assert!(matches!(refused, DoorError::NotSecured { .. }), "{refused}");
        for remedy in ["--tls-certificate", "--plain"] {
            assert!(refused.to_string().contains(remedy), "{refused}");
        }
        let refused = forebay_link::bytes::connect(&address, Room::default()).unwrap_err();
        assert!(matches!(refused, ByteLinkError::NotSecured { .. }));
        assert!(refused.is_final());
        told(&refused, &["--tls-certificate", "--plain"]);
    }
    // The word, and the loopback by name, and an IPv4 number written as IPv6.
    let plain = Terms {
        security: Security::Plain,
        ..Terms::default()
    };
    for (host, terms) in [
        ("0.0.0.0", plain),
        ("localhost", Terms::default()),
        ("127.3.2.1", Terms::default()),
    ] {
        let address = Address::Tcp {
            host: host.into(),
            port: 0,
        };
        forebay_link::bytes::listen(&address, terms).unwrap();
    }
    // A host may have no IPv6: that is no want of certificates.
    for host in ["::1", "::ffff:127.0.0.1", "::ffff:127.3.2.1"] {
        let address = Address::Tcp {
            host: host.into(),
            port: 0,
        };
        if let Err(error) = forebay_link::bytes::listen(&address, Terms::default()) {
            assert!(!matches!(error, DoorError::NotSecured { .. }), "{error}");
        }
        if let Err(error) = forebay_link::bytes::connect(&address, Terms::default()) {
            assert!(
                !matches!(error, ByteLinkError::NotSecured { .. }),
                "{error}"
            );
        }
    }
}

#[test]
fn what_follows_the_hand_shake_in_the_same_segment_wakes_nobody_too_late() {
    // The listener speaks as soon as it may: with what tells the other side that it is accepted.
    let address = here();
    let certificates = Authority::new("a").issue(&[HOST]).load().unwrap();
    for _ in 0..20 {
        let mut door = forebay_link::bytes::listen(&address, with(&certificates)).unwrap();
        let mut near = forebay_link::bytes::connect(&address, with(&certificates)).unwrap();
        let mut far = crate::world::admit(&mut *door, &mut *near);
        let deadline = Deadline::begin();
        while far.send(&[b"at once"]).unwrap() == 0 {
            near.arm(false).unwrap();
            deadline.check();
        }
        while near.bytes().len() < 7 {
            // Asked before a sleep, it does not let one sleep on what it has.
            if near.arm(false).unwrap() {
                assert!(near.bytes().is_empty());
            }
            near.receive().unwrap();
            deadline.check();
        }
        assert_eq!(near.bytes(), b"at once");
    }
}

#[test]
fn what_cannot_be_encrypted_is_refused_when_it_is_to_be() {
    let certificates = Authority::new("a").issue(&[HOST]).load().unwrap();
    let address: Address = "fabric+tcp://127.0.0.1:7100".parse().unwrap();
    let refused = forebay_link::bytes::connect(&address, with(&certificates)).unwrap_err();
    assert!(matches!(refused, ByteLinkError::NotSecurable { .. }) && refused.is_final());
    told(&refused, &["only tcp://", "--tls-certificate"]);
    let refused = forebay_link::bytes::listen(&address, with(&certificates)).unwrap_err();
    assert!(
        matches!(refused, DoorError::NotSecurable { .. }),
        "{refused}"
    );
}

#[test]
fn libfabric_does_not_leave_the_host_without_a_word() {
    for address in ["fabric+tcp://0.0.0.0:0", "fabric+verbs://192.0.2.1:7100"] {
        let address: Address = address.parse().unwrap();
        let refused = forebay_link::bytes::connect(&address, Room::default()).unwrap_err();
        assert!(matches!(refused, ByteLinkError::Unencrypted { .. }) && refused.is_final());
        told(&refused, &["--plain", "--tls-certificate"]);
        let refused = forebay_link::bytes::listen(&address, Room::default()).unwrap_err();
        assert!(
            matches!(refused, DoorError::Unencrypted { .. }),
            "{refused}"
        );
    }
}
