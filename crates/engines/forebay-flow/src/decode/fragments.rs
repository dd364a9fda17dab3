//! The ports of first fragments, for the later ones of their packets.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;

use forebay_wire::packet::{FragmentPlace, Ip};

use crate::config::DecodeConfig;
use crate::key::{KeyHash, number};

/// Places in a row: a packet is looked for in one row.
const WAYS: usize = 4;

/// What later fragments lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) protocol: u8,
}

/// What the fragments of a packet have in common. Those of IPv6 may say different protocols: what is behind the fragment header need not be the last header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Of {
    source: u128,
    destination: u128,
    id: u32,
    protocol: u8,
    is_ipv4: bool,
}

impl Of {
    fn new(ip: &Ip<'_>, place: FragmentPlace) -> Self {
        let is_ipv4 = matches!(ip.source, IpAddr::V4(_));
        Self {
            source: number(ip.source),
            destination: number(ip.destination),
            id: place.id,
            protocol: if is_ipv4 { ip.protocol } else { 0 },
            is_ipv4,
        }
    }
}

impl Hash for Of {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.source);
        state.write_u128(self.destination);
        state.write_u64(u64::from(self.id) << 8 | u64::from(self.protocol));
    }
}

#[derive(Clone, Copy, Debug)]
struct First {
    of: Of,
    time_ns: u64,
    ports: Ports,
}

/// First fragments in rows by their hash; in a full row the oldest one goes.
#[derive(Debug)]
pub(super) struct FragmentCache {
    rows: Vec<[Option<First>; WAYS]>,
    hash: KeyHash,
    timeout_ns: u64,
    /// Later fragments whose first one was found.
    pub(super) joined: u64,
    /// Later fragments whose first one was not.
    pub(super) unknown: u64,
}

impl FragmentCache {
    pub(super) fn new(config: &DecodeConfig) -> Self {
        let rows = (config.fragments as usize).next_power_of_two() / WAYS;
        Self {
            rows: vec![[None; WAYS]; rows],
            hash: KeyHash::new(config.hash_seed),
            timeout_ns: config.fragment_timeout_ns,
            joined: 0,
            unknown: 0,
        }
    }

    pub(super) fn remember(
        &mut self,
        time_ns: u64,
        ip: &Ip<'_>,
        place: FragmentPlace,
        ports: Ports,
    ) {
        let of = Of::new(ip, place);
        let row = self.row(&of);
        let is_same = |first: &Option<First>| first.is_some_and(|first| first.of == of);
        let at = row.iter().position(is_same).unwrap_or_else(|| {
            let ages = row.iter().enumerate();
            // Before all times: a free one.
            let oldest = ages.min_by_key(|(_, first)| first.map(|first| first.time_ns));
            oldest.map_or(0, |(at, _)| at)
        });
        row[at] = Some(First { of, time_ns, ports });
    }

    /// Looks for the first fragment, and counts whether it is there.
    pub(super) fn find(
        &mut self,
        time_ns: u64,
        ip: &Ip<'_>,
        place: FragmentPlace,
    ) -> Option<Ports> {
        let of = Of::new(ip, place);
        let timeout_ns = self.timeout_ns;
        let mut firsts = self.row(&of).iter().flatten();
        let found = firsts
            .find(|first| first.of == of && time_ns.saturating_sub(first.time_ns) <= timeout_ns)
            .map(|first| first.ports);
        match found {
            Some(_) => self.joined += 1,
            None => self.unknown += 1,
        }
        found
    }

    fn row(&mut self, of: &Of) -> &mut [Option<First>; WAYS] {
        let mask = self.rows.len() - 1;
        let at = self.hash.of(of) as usize & mask;
        &mut self.rows[at]
    }
}
