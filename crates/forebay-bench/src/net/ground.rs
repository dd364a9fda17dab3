//! Where both sides of a measurement run.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Result;

use super::Interrupted;
use super::certificates::Certificates;
use super::namespaces::Namespaces;

/// One of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Listener,
    Sender,
}

/// Where both sides run, and when they are to end early.
pub struct Ground<'a> {
    program: PathBuf,
    namespaces: Option<Namespaces>,
    certificates: Option<Certificates>,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Ground<'a> {
    /// Both sides on this host, over loopback; `program` is `forebay`.
    #[must_use]
    pub fn host(program: PathBuf, stop: &'a dyn Fn() -> bool) -> Self {
        Self {
            program,
            namespaces: None,
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
            program,
            namespaces: Some(Namespaces::make()?),
            certificates: None,
            stop,
        })
    }

    /// How this is named in rows.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.namespaces.is_some() {
            "veth"
        } else {
            "loopback"
        }
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

    /// This program, on one side.
    pub(super) fn forebay(&self, side: Side) -> Command {
        self.command(&self.program, side)
    }

    /// Any program, on one side.
    pub(super) fn command(&self, program: impl AsRef<OsStr>, side: Side) -> Command {
        match &self.namespaces {
            Some(namespaces) => namespaces.command(program.as_ref(), side),
            None => Command::new(program),
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

    /// What both sides are told about encryption: between namespaces nobody else is on the way.
    pub(super) fn security(&self) -> Vec<String> {
        match (&self.certificates, &self.namespaces) {
            (Some(certificates), _) => certificates.options().to_vec(),
            (None, Some(_)) => vec!["--plain".into()],
            (None, None) => Vec::new(),
        }
    }

    /// The address of the listener's side.
    pub(super) fn listener(&self) -> Ipv4Addr {
        match &self.namespaces {
            Some(_) => Namespaces::LISTENER,
            None => Ipv4Addr::LOCALHOST,
        }
    }

    /// An address of the listener's side on which nobody else listens, for programs that want a port by number.
    pub(super) fn own_address(&self) -> Ipv4Addr {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        if self.namespaces.is_some() {
            return Namespaces::LISTENER;
        }
        // Of the loopback network's addresses, one of this process's.
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ipv4Addr::new(127, 64 + high % 128, low, 1 + (number % 250) as u8)
    }
}
