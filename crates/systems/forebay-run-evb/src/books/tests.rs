//! What a plan declares.

use std::path::Path;

use super::*;
use crate::plan::SourceKey;
use crate::presets;

#[test]
fn a_crash_has_the_last_of_the_receivers_reasons() {
    let names: Vec<_> = ReceiverDrop::all().map(DropReason::name).collect();
    assert_eq!(names.last(), Some(&"receiver_crash"));
    // Each reason once, and none is another one's.
    let once: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(once.len(), Reject::ALL.len() + 1);
}

/// Everything that comes to a port of one source is that source's, if it is not looked at whose it is.
#[test]
fn a_port_has_an_account_for_strangers_unless_it_is_one_sources_alone() {
    let has_strangers = |keys: &[SourceKey]| {
        let local = std::net::Ipv4Addr::LOCALHOST.into();
        let mut plan = presets::plan("run", Path::new("."), local, 50_000, keys.len());
        plan.ports.truncate(1);
        for (source, key) in plan.sources.iter_mut().zip(keys) {
            (source.port, source.key) = (0, *key);
        }
        let books = Books::declare(&plan).unwrap();
        let [port] = books.ports.as_slice() else {
            panic!("one port")
        };
        assert_eq!(port.sources.len(), keys.len());
        assert_eq!(port.stray.is_some(), port.stray_id.is_some());
        port.stray.is_some()
    };
    let [one, two] = [1, 2].map(SourceKey::SubEventId);
    assert!(!has_strangers(&[SourceKey::Port]));
    assert!(has_strangers(&[one]));
    assert!(has_strangers(&[one, two]));
}
