//! Where connections come in.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::config::Config;
use crate::endpoint::{Endpoint, SharedDomain, room};
use crate::error::FabricError;
use crate::hello::Hello;
use crate::joint::{Joint, io_fault, read_record, socket_name};
use crate::provider::{Found, LOCAL, Libfabric, host_and_port};
use crate::sys::{
    Channel, Domain, Event, Fabric, Info, Library, PassiveEndpoint, Record, UnixSocket,
};
use crate::totals::ListenerTotals;

/// Events that one call looks at.
const EVENTS_MAX: usize = 64;
/// Connections that may wait without having said a word; then the oldest one is given up.
const SILENT_MAX: usize = 64;
/// Domains that connections may have come in over: one for each device.
const DOMAINS_MAX: usize = 64;

/// A place where connections come in. Nothing here waits.
pub struct Listener {
    inner: Inner,
    fabric: Arc<Fabric>,
    domains: Vec<Arc<Domain>>,
    provider: String,
    config: Config,
    library: Arc<Library>,
    totals: ListenerTotals,
}

enum Inner {
    Message(PassiveEndpoint),
    Local {
        socket: UnixSocket,
        place: String,
        info: Info,
        silent: VecDeque<UnixSocket>,
    },
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
        let (inner, fabric, domain) = if provider == LOCAL {
            listen_local(&libfabric.0, &address, place, found.info)?
        } else {
            let place = host_and_port(place)?;
            let refused = |error| not_listening(&address, error);
            let info = libfabric.find_at(provider, &found, place, true);
            let info = info.map_err(|error| in_use(libfabric, provider, &found, place, error));
            let info = info.map_err(refused)?;
            let fabric = Fabric::open(&info)?;
            let domain = Domain::open(&fabric, &info)?;
            let passive = PassiveEndpoint::listen(&fabric, &info).map_err(refused)?;
            (Inner::Message(passive), fabric, domain)
        };
        Ok(Self {
            inner,
            fabric,
            domains: vec![domain],
            provider: provider.into(),
            config: found.config,
            library: Arc::clone(&libfabric.0),
            totals: ListenerTotals::default(),
        })
    }

    /// The next one who has come; its connection is made a little later. When there is nobody, one may sleep until [`fds`](Self::fds) say so.
    ///
    /// # Errors
    /// None can be taken in for now, as without memory or descriptors.
    pub fn accept(&mut self) -> Result<Option<Endpoint>, FabricError> {
        let accepted = match self.inner {
            Inner::Message(_) => self.accept_message(),
            Inner::Local { .. } => self.accept_local(),
        };
        if let Ok(Some(_)) = accepted {
            self.totals.accepted += 1;
        }
        accepted
    }

    /// Where it really listens: `host:port`, or the name.
    ///
    /// # Errors
    /// The provider does not say.
    pub fn local_address(&self) -> Result<String, FabricError> {
        match &self.inner {
            Inner::Message(passive) => passive.address(),
            Inner::Local { place, .. } => Ok(place.clone()),
        }
    }

    /// Readable when somebody has come, or something has happened to one who is coming.
    #[must_use]
    pub fn fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        match &self.inner {
            Inner::Message(passive) => [passive.events.fd(), None],
            Inner::Local { socket, .. } => [Some(socket.as_fd()), None],
        }
    }

    /// Whether nothing wakes a sleeper now, so that it has to look again by itself.
    #[must_use]
    pub fn must_be_polled(&self) -> bool {
        match &self.inner {
            Inner::Message(passive) => passive.events.fd().is_none(),
            Inner::Local { silent, .. } => !silent.is_empty(),
        }
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

    fn accept_message(&mut self) -> Result<Option<Endpoint>, FabricError> {
        for _ in 0..EVENTS_MAX {
            let Inner::Message(passive) = &mut self.inner else {
                return Ok(None);
            };
            match passive.events.read()? {
                None if passive.may_sleep() => return Ok(None),
                None => {}
                Some(Event::Request { info, data }) => match Hello::parse(&data) {
                    Ok(hello) => return self.take_in(info, hello).map(Some),
                    Err(_) => {
                        passive.reject(&info);
                        self.totals.refused += 1;
                    }
                },
                Some(Event::Failed(_) | Event::Shutdown) => self.totals.given_up += 1,
                Some(Event::Connected { .. } | Event::Other) => {}
            }
        }
        Ok(None)
    }

    fn take_in(&mut self, info: Info, hello: Hello) -> Result<Endpoint, FabricError> {
        let made = self.answer(&info, hello);
        if made.is_err() {
            self.totals.given_up += 1;
            if let Inner::Message(passive) = &mut self.inner {
                passive.reject(&info);
            }
        }
        made
    }

    fn answer(&mut self, info: &Info, hello: Hello) -> Result<Endpoint, FabricError> {
        let domain = self.domain_of(info)?;
        let opened = Channel::open(&domain, info, room(&self.config), true)?;
        let peer = format!("fabric+{}://{}", self.provider, info.first().destination());
        let mut endpoint = Endpoint::new(opened, Joint::Message, peer, self.config)?;
        endpoint.meet(hello);
        let answer = Hello::of(&self.config).emit();
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

    fn accept_local(&mut self) -> Result<Option<Endpoint>, FabricError> {
        let Inner::Local { socket, silent, .. } = &mut self.inner else {
            return Ok(None);
        };
        for _ in 0..EVENTS_MAX {
            let come = socket.accept().map_err(|error| FabricError::Call {
                call: "accept4",
                fault: io_fault(&self.library, &error),
            })?;
            let Some(come) = come else { break };
            silent.push_back(come);
            if silent.len() > SILENT_MAX {
                silent.pop_front();
                self.totals.given_up += 1;
            }
        }
        for _ in 0..silent.len() {
            let Inner::Local { silent, .. } = &mut self.inner else {
                return Ok(None);
            };
            let Some(come) = silent.pop_front() else {
                break;
            };
            if let Some(endpoint) = self.hear(come)? {
                return Ok(Some(endpoint));
            }
        }
        Ok(None)
    }

    /// Listens to one who has come: is taken in, waits on, or is turned away.
    fn hear(&mut self, come: UnixSocket) -> Result<Option<Endpoint>, FabricError> {
        let mut buffer = [0; crate::hello::RECORD_BYTES_MAX + 1];
        let Inner::Local { silent, info, .. } = &mut self.inner else {
            return Ok(None);
        };
        let bytes = match come.receive(&mut buffer) {
            Ok(Record::Bytes(bytes)) => bytes,
            Ok(Record::Nothing) => {
                silent.push_back(come);
                return Ok(None);
            }
            Ok(Record::End) | Err(_) => {
                self.totals.given_up += 1;
                return Ok(None);
            }
        };
        let credentials = come.credentials().map_err(|error| FabricError::Call {
            call: "SO_PEERCRED",
            fault: io_fault(&self.library, &error),
        })?;
        let Ok((hello, address)) = read_record(&buffer[..bytes], credentials) else {
            self.totals.refused += 1;
            return Ok(None);
        };
        let mut opened = Channel::open(&self.domains[0], info, room(&self.config), false)?;
        if opened.channel.set_peer(address).is_err() {
            self.totals.given_up += 1;
            return Ok(None);
        }
        let own = opened.channel.own_address()?;
        let answer = Hello::of(&self.config)
            .emit_record(&own)
            .unwrap_or_default();
        if come.send(&answer).is_err() {
            self.totals.given_up += 1;
            return Ok(None);
        }
        let peer = format!("fabric+{LOCAL}://process {}", credentials.pid);
        let joint = Joint::from_local(come, address, &self.library);
        let mut endpoint = Endpoint::new(opened, joint, peer, self.config)?;
        endpoint.meet(hello);
        endpoint.set_connected();
        Ok(Some(endpoint))
    }
}

type Listening = (Inner, Arc<Fabric>, Arc<Domain>);

fn listen_local(
    library: &Library,
    address: &str,
    place: &str,
    info: Info,
) -> Result<Listening, FabricError> {
    let name = socket_name(place)?;
    let fabric = Fabric::open(&info)?;
    let domain = Domain::open(&fabric, &info)?;
    let socket = UnixSocket::listen(&name).map_err(|error| FabricError::Listen {
        address: address.into(),
        fault: io_fault(library, &error),
    })?;
    let inner = Inner::Local {
        socket,
        place: place.into(),
        info,
        silent: VecDeque::new(),
    };
    Ok((inner, fabric, domain))
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
