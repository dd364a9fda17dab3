//! Where both sides of a measurement run.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Result;

use super::certificates::Certificates;
use super::child::{Running, Says};
use super::namespaces::Namespaces;
use super::remote::{PeerHost, Remote};
use super::{Interrupted, Skipped};
use forebay_report::conditions::Told;

/// One of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Listener,
    Sender,
}

/// Where both sides run, and when they are to end early.
pub struct Ground<'a> {
    program: PathBuf,
    place: Place,
    certificates: Option<Certificates>,
    stop: &'a dyn Fn() -> bool,
}

enum Place {
    Host,
    Apart(Namespaces),
    Away(Box<Remote>),
}

impl<'a> Ground<'a> {
    /// Both sides on this host, over loopback; `program` is `forebay`.
    #[must_use]
    pub fn host(program: PathBuf, stop: &'a dyn Fn() -> bool) -> Self {
        Self {
            program,
            place: Place::Host,
            certificates: None,
            stop,
        }
    }

    /// Each side in a network namespace of its own, joined by a pair of virtual Ethernet devices, until this is dropped.
    ///
    /// # Errors
    /// Without the privilege to make them.
    pub fn apart(program: PathBuf, stop: &'a dyn Fn() -> bool) -> Result<Self> {
        Ok(Self {
            place: Place::Apart(Namespaces::make()?),
            ..Self::host(program, stop)
        })
    }

    /// The listening side on another host, the connecting one on this.
    ///
    /// # Errors
    /// The host cannot be reached, or has not this version of `forebay`.
    pub fn away(program: PathBuf, peer: PeerHost, stop: &'a dyn Fn() -> bool) -> Result<Self> {
        Ok(Self {
            place: Place::Away(Box::new(Remote::connect(peer)?)),
            ..Self::host(program, stop)
        })
    }

    /// How this is named in rows.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.place {
            Place::Host => "loopback".to_owned(),
            Place::Apart(_) => "veth".to_owned(),
            Place::Away(remote) => remote.address().to_string(),
        }
    }

    /// What the other host is, if there is one.
    #[must_use]
    pub fn told(&self) -> Option<&Told> {
        match &self.place {
            Place::Away(remote) => Some(remote.told()),
            _ => None,
        }
    }

    /// Why `what` cannot be measured here, if that is known before it is tried.
    #[must_use]
    pub fn excludes(&self, what: &str) -> Option<Skipped> {
        let reason = match (&self.place, what) {
            (Place::Away(_), "libzmq") => "the program that drives it is built on this host alone",
            (Place::Away(_), "shm") => "shared memory joins processes of one host",
            _ => return None,
        };
        Some(Skipped {
            what: what.to_owned(),
            reason: reason.to_owned(),
        })
    }

    pub(super) fn stop(&self) -> &dyn Fn() -> bool {
        self.stop
    }

    /// What was `done`, unless the user wants it to end: a terminal's Ctrl-C ends both sides too, and what they then say is no result.
    pub(super) fn unless_stopped<T>(&self, done: Result<T>) -> Result<T> {
        if (self.stop)() {
            return Err(Interrupted.into());
        }
        done
    }

    /// This program, as it is called on one side.
    pub(super) fn forebay(&self, side: Side) -> Command {
        match (&self.place, side) {
            (Place::Away(remote), Side::Listener) => Command::new(remote.program()),
            _ => Command::new(&self.program),
        }
    }

    /// Starts a program on one side.
    pub(super) fn start(
        &self,
        name: &str,
        program: Command,
        side: Side,
        says: Says,
    ) -> Result<Running> {
        Running::start(name, &mut self.placed(program, side), says)
    }

    /// Runs a program to its end on the host of one side.
    pub(super) fn output(&self, program: Command, side: Side) -> std::io::Result<Output> {
        let mut program = match &self.place {
            Place::Away(_) => self.placed(program, side),
            _ => program,
        };
        // An open input: a program on another host ends with it.
        program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?
            .wait_with_output()
    }

    fn placed(&self, program: Command, side: Side) -> Command {
        match (&self.place, side) {
            (Place::Apart(namespaces), _) => namespaces.command(&program, side),
            (Place::Away(remote), Side::Listener) => remote.command(&program),
            _ => program,
        }
    }

    /// The same, over TLS; nothing where no certificates can be made.
    ///
    /// # Errors
    /// `openssl` is there and fails.
    pub fn secured(program: PathBuf, stop: &'a dyn Fn() -> bool) -> Result<Option<Self>> {
        let made = Certificates::make()?;
        Ok(made.map(|certificates| Self {
            certificates: Some(certificates),
            ..Self::host(program, stop)
        }))
    }

    /// What both sides are told about encryption: between namespaces nobody else is on the way, and between hosts nothing goes
    /// but what the measurement makes up.
    pub(super) fn security(&self) -> Vec<String> {
        match (&self.certificates, &self.place) {
            (Some(certificates), _) => certificates.options().to_vec(),
            (None, Place::Host) => Vec::new(),
            (None, _) => vec!["--plain".into()],
        }
    }

    /// The address of the listener's side.
    pub(super) fn listener(&self) -> IpAddr {
        match &self.place {
            Place::Host => Ipv4Addr::LOCALHOST.into(),
            Place::Apart(_) => Namespaces::LISTENER.into(),
            Place::Away(remote) => remote.address(),
        }
    }

    /// The same with a port that the system chooses.
    pub(super) fn listening(&self) -> SocketAddr {
        SocketAddr::new(self.listener(), 0)
    }

    /// An address of the listener's side on which nobody else listens, for programs that want a port by number.
    pub(super) fn own_address(&self) -> IpAddr {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        if !matches!(self.place, Place::Host) {
            return self.listener();
        }
        // Of the loopback network's addresses, one of this process's.
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ipv4Addr::new(127, 64 + high % 128, low, 1 + (number % 250) as u8).into()
    }
}
