//! The library and its providers.

use std::sync::Arc;

use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::listener::Listener;
use crate::sys::{
    Domain, Entry, FI_EP_DGRAM, FI_EP_MSG, FI_EP_RDM, FI_MR_LOCAL, Fabric, Info, Library, Query,
    has_wait_fd,
};

/// Providers that are not used, and why.
const REFUSED: &[(&str, &str)] = &[
    (
        "sockets",
        "it loses connections and data; its successor is tcp",
    ),
    (
        "shm",
        "a peer that is killed can hold its process up for ever; use shm://NAME",
    ),
];

/// Why a provider is not used, and what to use in its place; `None`: it may be used.
#[must_use]
pub fn why_refused(provider: &str) -> Option<&'static str> {
    let found = REFUSED.iter().find(|(name, _)| *name == provider);
    found.map(|(_, why)| *why)
}

/// The library, loaded; a clone is the same one.
#[derive(Debug, Clone)]
pub struct Libfabric(pub(crate) Arc<Library>);

/// What a provider is and has, as the library says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name.
    pub name: String,
    /// Its version: major, minor.
    pub version: (u32, u32),
    /// Whether it has connections (`FI_EP_MSG`).
    pub has_connections: bool,
    /// Whether it has reliable datagrams (`FI_EP_RDM`).
    pub has_reliable_datagrams: bool,
    /// Whether it has datagrams (`FI_EP_DGRAM`).
    pub has_datagrams: bool,
    /// Capabilities, as bits of `<rdma/fabric.h>`, all of its end points together.
    pub capabilities: u64,
    /// Whether [`Libfabric::connect`] and [`Libfabric::listen`] can use it.
    pub can_be_used: bool,
    /// Whether memory that is sent from has to be registered.
    pub needs_registration: bool,
    /// Whether data get on without a call from the program.
    pub has_automatic_progress: bool,
    /// Whether one can sleep until something comes; else it has to be asked again and again.
    pub has_wait_fd: bool,
    /// Sends, and receives, that an end point has by default.
    pub operations: (usize, usize),
    /// Pieces of memory that one send can gather.
    pub send_parts: usize,
    /// Longest message, in bytes.
    pub message_bytes_max: usize,
}

impl Libfabric {
    /// Loads `libfabric.so.1`, at the first call.
    ///
    /// # Errors
    /// It is not there, or too old.
    pub fn load() -> Result<Self, FabricError> {
        Library::load().map(Self)
    }

    /// Loads a library from elsewhere; it stays loaded.
    ///
    /// # Errors
    /// It is not there, is no libfabric, or is too old.
    pub fn load_from(path: &str) -> Result<Self, FabricError> {
        Library::load_from(path).map(Self)
    }

    /// Its version: major, minor.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.0.version()
    }

    /// The names of all providers that have something to offer here; layers over another provider not counted.
    ///
    /// # Errors
    /// The library cannot say.
    pub fn providers(&self) -> Result<Vec<String>, FabricError> {
        let info = Info::query(&self.0, &Query::default())?;
        let mut names: Vec<_> = info.entries().map(|entry| entry.provider()).collect();
        names.retain(|name| !name.is_empty() && !name.contains(';'));
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// What a provider is and has.
    ///
    /// # Errors
    /// There is none of this name here.
    pub fn probe(&self, provider: &str) -> Result<Provider, FabricError> {
        let query = Query {
            provider: Some(provider),
            ..Query::default()
        };
        let all = Info::query(&self.0, &query).map_err(|_| self.missing(provider))?;
        let entries: Vec<_> = all
            .entries()
            .filter(|entry| entry.provider() == provider)
            .collect();
        let has = |kind| entries.iter().any(|entry| entry.endpoint_kind() == kind);
        let first = entries.first().ok_or_else(|| self.missing(provider))?;
        let usable = self.find(provider, &Config::default()).ok();
        let info = usable.as_ref().map(|found| found.info.first());
        let best = info.as_ref().unwrap_or(first);
        Ok(Provider {
            name: provider.into(),
            version: best.provider_version(),
            has_connections: has(FI_EP_MSG),
            has_reliable_datagrams: has(FI_EP_RDM),
            has_datagrams: has(FI_EP_DGRAM),
            capabilities: entries.iter().fold(0, |caps, entry| caps | entry.caps()),
            can_be_used: usable.is_some(),
            needs_registration: best.mr_mode() & FI_MR_LOCAL != 0,
            has_automatic_progress: best.data_progress_is_automatic(),
            has_wait_fd: usable.as_ref().is_some_and(|found| waits(&found.info)),
            operations: (best.send_operations(), best.receive_operations()),
            send_parts: best.send_parts(),
            message_bytes_max: best.message_bytes_max(),
        })
    }

    /// Listens. `place` is `host:port` (port 0: any free one).
    ///
    /// # Errors
    /// The provider is missing or refused, a setting is out of range, or the place cannot be had.
    pub fn listen(
        &self,
        provider: &str,
        place: &str,
        config: &Config,
    ) -> Result<Listener, FabricError> {
        Listener::listen(self, provider, place, config)
    }

    /// Begins to connect; the end point says later what came of it. A host's name is looked up here and may take its time; all else does not wait.
    ///
    /// # Errors
    /// The provider is missing or refused, a setting is out of range, or nothing can be there.
    pub fn connect(
        &self,
        provider: &str,
        place: &str,
        config: &Config,
    ) -> Result<Endpoint, FabricError> {
        Endpoint::connect(self, provider, place, config)
    }

    /// The provider's best offer for these settings, and the settings as far as it takes them.
    pub(crate) fn find(&self, provider: &str, config: &Config) -> Result<Found, FabricError> {
        config.check()?;
        if let Some(why) = why_refused(provider) {
            let provider = provider.into();
            return Err(FabricError::ProviderRefused { provider, why });
        }
        let mut query = Query {
            provider: Some(provider),
            endpoint: FI_EP_MSG,
            send_operations: config.send_pages + config.region_sends + 1,
            receive_operations: config.receive_pages,
            confirm_delivery: config.confirm_delivery,
            ..Query::default()
        };
        let info = Info::query(&self.0, &query).or_else(|_| {
            // More than it has; then what it has by default.
            (query.send_operations, query.receive_operations) = (0, 0);
            Info::query(&self.0, &query)
        });
        let info = info.map_err(|error| self.why_not(provider, error))?;
        let config = limit(config, info.first());
        Ok(Found {
            info,
            config,
            send_operations: query.send_operations,
            receive_operations: query.receive_operations,
        })
    }

    /// The same with an address.
    pub(crate) fn find_at(
        &self,
        provider: &str,
        found: &Found,
        place: (&str, &str),
        listens: bool,
    ) -> Result<Info, FabricError> {
        let query = Query {
            provider: Some(provider),
            endpoint: FI_EP_MSG,
            node: Some(place.0),
            service: Some(place.1),
            listens,
            send_operations: found.send_operations,
            receive_operations: found.receive_operations,
            confirm_delivery: found.config.confirm_delivery,
        };
        Info::query(&self.0, &query)
    }

    fn why_not(&self, provider: &str, error: FabricError) -> FabricError {
        let is_there = self
            .providers()
            .is_ok_and(|names| names.iter().any(|name| name == provider));
        match error {
            FabricError::Call { fault, .. } if is_there => FabricError::NoConnections {
                provider: provider.into(),
                fault,
            },
            FabricError::Call { .. } => self.missing(provider),
            other => other,
        }
    }

    fn missing(&self, provider: &str) -> FabricError {
        let mut there = self.providers().unwrap_or_default();
        there.retain(|name| why_refused(name).is_none());
        FabricError::ProviderMissing {
            provider: provider.escape_debug().to_string(),
            there,
        }
    }
}

/// What a provider offers for settings.
pub(crate) struct Found {
    pub(crate) info: Info,
    /// The settings as far as the provider takes them.
    pub(crate) config: Config,
    send_operations: usize,
    receive_operations: usize,
}

fn limit(config: &Config, entry: Entry<'_>) -> Config {
    let sends = entry.send_operations().saturating_sub(1).max(1);
    let mut limited = *config;
    limited.send_pages = config.send_pages.min(sends);
    limited.region_sends = config.region_sends.min(sends);
    limited.receive_pages = config.receive_pages.min(entry.receive_operations().max(1));
    limited.page_bytes = config.page_bytes.min(entry.message_bytes_max());
    limited
}

/// Only an attempt tells.
fn waits(info: &Info) -> bool {
    let domain = Fabric::open(info).and_then(|fabric| Domain::open(&fabric, info));
    domain.is_ok_and(|domain| has_wait_fd(&domain))
}

/// Takes `host:port` or `[IPv6]:port` apart.
pub(crate) fn host_and_port(place: &str) -> Result<(&str, &str), FabricError> {
    let wrong = |what| FabricError::Place {
        place: place.escape_debug().to_string(),
        what,
    };
    let (host, port) = place
        .rsplit_once(':')
        .ok_or_else(|| wrong("no port; write HOST:PORT"))?;
    if port.parse::<u16>().is_err() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong("no port from 0 to 65535 behind the last colon"));
    }
    let plain = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    match plain {
        Some(host) if !host.is_empty() => Ok((host, port)),
        None if !host.is_empty() && !host.contains(':') => Ok((host, port)),
        _ => Err(wrong("no host; write HOST:PORT or [IPv6]:PORT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_apart() {
        assert_eq!(host_and_port("daq-1:70"), Ok(("daq-1", "70")));
        assert_eq!(host_and_port("[::1]:0"), Ok(("::1", "0")));
        for place in ["", "a", ":1", "a:", "a:+1", "a:65536", "::1:1", "[]:1"] {
            assert!(host_and_port(place).is_err(), "{place}");
        }
    }
}
