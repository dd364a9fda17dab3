//! Where connections come in.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use forebay_wire::fabric::Hello;

use crate::config::Config;
use crate::endpoint::{Endpoint, SharedDomain, room};
use crate::error::FabricError;
use crate::provider::{Found, Libfabric, host_and_port};
use crate::sys::{Channel, Domain, Event, Fabric, Info, PassiveEndpoint};
use crate::totals::ListenerTotals;

/// Events that one call looks at.
const EVENTS_MAX: usize = 64;
/// Domains that connections may have come in over: one for each device.
const DOMAINS_MAX: usize = 64;

/// A place where connections come in. Nothing here waits.
pub struct Listener {
    passive: PassiveEndpoint,
    fabric: Arc<Fabric>,
    domains: Vec<Arc<Domain>>,
    provider: String,
    config: Config,
    totals: ListenerTotals,
}

impl Listener {
    pub(crate) fn listen(
        libfabric: &Libfabric,
        provider: &str,
        place: &str,
        config: &Config,
    ) -> Result<Self, FabricError> {
        let address = format!("fabric+{provider}://{place}");
        let found = libfabric.find(provider, config)?;
        let place = host_and_port(place)?;
        let refused = |error| not_listening(&address, error);
        let info = libfabric.find_at(provider, &found, place, true);
        let info = info.map_err(|error| in_use(libfabric, provider, &found, place, error));
        let info = info.map_err(refused)?;
        let fabric = Fabric::open(&info)?;
        let domain = Domain::open(&fabric, &info)?;
        let passive = PassiveEndpoint::listen(&fabric, &info).map_err(refused)?;
        Ok(Self {
            passive,
            fabric,
            domains: vec![domain],
            provider: provider.into(),
            config: found.config,
            totals: ListenerTotals::default(),
        })
    }

    /// The next peer that has come; its connection is made a little later. When there is none, one may sleep until [`fd`](Self::fd) says so.
    ///
    /// # Errors
    /// None can be taken in for now, as without memory or descriptors.
    pub fn accept(&mut self) -> Result<Option<Endpoint>, FabricError> {
        for _ in 0..EVENTS_MAX {
            match self.passive.events.read()? {
                None if self.passive.may_sleep() => return Ok(None),
                None => {}
                Some(Event::Request { info, data }) => match Hello::parse(&data) {
                    Ok(hello) => return self.take_in(&info, hello).map(Some),
                    Err(_) => {
                        self.passive.reject(&info);
                        self.totals.refused += 1;
                    }
                },
                Some(Event::Failed(_) | Event::Shutdown) => self.totals.given_up += 1,
                Some(Event::Connected { .. } | Event::Other) => {}
            }
        }
        Ok(None)
    }

    /// Where it really listens: `host:port`.
    ///
    /// # Errors
    /// The provider does not say.
    pub fn local_address(&self) -> Result<String, FabricError> {
        self.passive.address()
    }

    /// Readable when a peer has come, or something has happened to one that is coming.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.passive.events.fd()
    }

    /// Whether nothing wakes a sleeper, so that it has to look again by itself.
    #[must_use]
    pub fn must_be_polled(&self) -> bool {
        self.fd().is_none()
    }

    /// What to register regions with that are sent over connections that come in here. A listener at one address has one domain; at all addresses of
    /// several devices, the connection's own is [`Endpoint::domain`].
    #[must_use]
    pub fn domain(&self) -> SharedDomain {
        SharedDomain(Arc::clone(&self.domains[0]))
    }

    /// What was counted.
    #[must_use]
    pub fn totals(&self) -> ListenerTotals {
        self.totals
    }

    fn take_in(&mut self, info: &Info, hello: Hello) -> Result<Endpoint, FabricError> {
        let made = self.answer(info, hello);
        if made.is_ok() {
            self.totals.accepted += 1;
        } else {
            self.totals.given_up += 1;
            self.passive.reject(info);
        }
        made
    }

    fn answer(&mut self, info: &Info, hello: Hello) -> Result<Endpoint, FabricError> {
        let domain = self.domain_of(info)?;
        let opened = Channel::open(&domain, info, room(&self.config))?;
        let peer = format!("fabric+{}://{}", self.provider, info.first().destination());
        let mut endpoint = Endpoint::new(opened, peer, self.config)?;
        endpoint.meet(hello);
        let answer = self.config.hello().emit();
        endpoint.channel().accept(&answer)?;
        Ok(endpoint)
    }

    fn domain_of(&mut self, info: &Info) -> Result<Arc<Domain>, FabricError> {
        let name = info.first().domain();
        if let Some(domain) = self.domains.iter().find(|domain| domain.name == name) {
            return Ok(Arc::clone(domain));
        }
        let domain = Domain::open(&self.fabric, info)?;
        if self.domains.len() < DOMAINS_MAX {
            self.domains.push(Arc::clone(&domain));
        }
        Ok(domain)
    }
}

/// Below, a port can also be one that only root may have.
const UNPRIVILEGED: u16 = 1024;

/// `verbs` looks for a free address when it is asked for one, and says of a port in use only that it has nothing: another port of the host tells.
fn in_use(
    libfabric: &Libfabric,
    provider: &str,
    found: &Found,
    (host, port): (&str, &str),
    error: FabricError,
) -> FabricError {
    let says_nothing = error
        .fault()
        .is_some_and(|fault| fault.errno == libc::ENODATA);
    let may_be = port.parse().is_ok_and(|port: u16| port >= UNPRIVILEGED);
    if says_nothing
        && may_be
        && libfabric
            .find_at(provider, found, (host, "0"), true)
            .is_ok()
    {
        return FabricError::Call {
            call: "fi_getinfo",
            fault: libfabric.0.fault(libc::EADDRINUSE),
        };
    }
    error
}

fn not_listening(address: &str, error: FabricError) -> FabricError {
    match error {
        FabricError::Call { fault, .. } => FabricError::Listen {
            address: address.into(),
            fault,
        },
        other => other,
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("provider", &self.provider)
            .field("address", &self.local_address().ok())
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}
