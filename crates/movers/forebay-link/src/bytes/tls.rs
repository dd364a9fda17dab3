//! Over TCP, encrypted: TLS 1.3, and both sides prove their identity.
//!
//! Each side shows a certificate of an authority that the other one believes; the side that connects also looks whether the host to which it
//! connects stands in the certificate, as name or number. Sessions are not taken up again, and nothing is sent before both sides know each other.

mod certificates;
mod fault;
mod records;

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use forebay_sys::SysError;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls_pki_types::ServerName;

use super::tcp::{Reach, Round, TcpDoor, Wire};
use super::{Address, ByteLink, ByteLinkError, Door, DoorError, FDS_MAX, Received};
pub use certificates::{CertificateError, CertificateFiles, Certificates, PemFile};
pub use fault::TlsFault;
use records::Records;

/// What is kept for a reader that does not read, at the least; twice what belongs together is kept, too.
const KEPT_BYTES_MIN: usize = 128 << 10;
/// Looks at the socket in one go: pieces of records that do not get whole shall not hold up others.
const READS_MAX: usize = 8;
/// How long the drop of a link that has finished waits for what it took to go out.
const LEAVE_TIME: Duration = Duration::from_secs(1);

/// A connection over TCP and TLS, or one that is being made.
#[derive(Debug)]
pub struct TlsLink {
    wire: Wire,
    records: Records,
    /// The socket, and whether it is waited for until there is room in it: also for what was taken already, or belongs to the hand-shake.
    poller: Poller,
    waits_for: Option<Interest>,
    kept_bytes_max: usize,
    /// So much of what has come was told.
    told_bytes: u64,
    finished: bool,
    /// The socket takes no more from this side.
    shut: bool,
    end_told: bool,
}

/// What a look at the socket brought.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Came,
    Nothing,
}

impl TlsLink {
    /// Begins to connect to the first address that the host's name has, and to prove the identity of this side.
    ///
    /// # Errors
    /// The name is unknown or can stand in no certificate, or the system refuses at once.
    pub fn connect(
        host: &str,
        port: u16,
        certificates: &Certificates,
    ) -> Result<Self, ByteLinkError> {
        Self::connect_next(host, port, certificates, &mut Round::default())
    }

    /// The same to the next address of the round.
    pub(super) fn connect_next(
        host: &str,
        port: u16,
        certificates: &Certificates,
        round: &mut Round,
    ) -> Result<Self, ByteLinkError> {
        let Ok(name) = ServerName::try_from(host.to_owned()) else {
            let host = host.to_owned();
            let address = Address::Tcp { host, port }.to_string();
            return Err(ByteLinkError::Unnameable { address });
        };
        let wire = Wire::connect(host, port, Reach::Everywhere, round)?;
        let records = Records::connect(certificates, name).map_err(|error| ByteLinkError::Tls {
            peer: wire.peer.clone(),
            fault: error.into(),
        })?;
        Ok(Self::new(wire, records, Interest::Both)?)
    }

    fn new(wire: Wire, records: Records, interest: Interest) -> Result<Self, SysError> {
        let poller = Poller::create(1)?;
        poller.add(&wire.socket, 0, interest, Trigger::Level)?;
        Ok(Self {
            wire,
            records,
            poller,
            waits_for: Some(interest),
            kept_bytes_max: KEPT_BYTES_MIN,
            told_bytes: 0,
            finished: false,
            shut: false,
            end_told: false,
        })
    }

    /// It is over: tells the peer why, as far as that is possible.
    fn failed(&mut self, fault: TlsFault) -> ByteLinkError {
        // What goes wrong now changes nothing.
        let _ = self.write_out();
        let _ = self.wire.socket.shutdown(Shutdown::Write);
        ByteLinkError::Tls {
            peer: self.wire.peer.clone(),
            fault,
        }
    }

    /// Sends what is encrypted, as far as there is room.
    fn write_out(&mut self) -> io::Result<()> {
        while !self.records.outgoing().is_empty() {
            match (&self.wire.socket).write(self.records.outgoing()) {
                Ok(count) => self.records.sent(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.finished && !self.shut {
            self.shut = true;
            // A connection that is gone has ended already.
            let _ = self.wire.socket.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// The same; a peer that takes nothing more may have said why.
    fn flush(&mut self) -> Result<(), ByteLinkError> {
        let Err(error) = self.write_out() else {
            return Ok(());
        };
        while let Ok(count @ 1..) = (&self.wire.socket).read(self.records.room()) {
            if let Err(fault) = self.records.came(count) {
                return Err(self.failed(fault));
            }
        }
        Err(self.wire.lost(error))
    }

    /// Looks at the socket once.
    fn look(&mut self) -> Result<Look, ByteLinkError> {
        loop {
            match (&self.wire.socket).read(self.records.room()) {
                Ok(0) => {
                    let what = if self.records.is_known() {
                        "it ended without saying that it would, as one that is cut off does"
                    } else {
                        "it ended in the TLS hand-shake; does it speak TLS?"
                    };
                    let error = io::Error::new(ErrorKind::UnexpectedEof, what);
                    return Err(self.wire.lost(error));
                }
                Ok(count) => {
                    if let Err(fault) = self.records.came(count) {
                        return Err(self.failed(fault));
                    }
                    self.flush()?;
                    return Ok(Look::Came);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Look::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.wire.lost(error)),
            }
        }
    }

    /// Gets on with the hand-shake; whether both sides know each other.
    fn meet(&mut self) -> Result<bool, ByteLinkError> {
        if !self.wire.is_connected()? {
            return Ok(false);
        }
        self.flush()?;
        for _ in 0..READS_MAX {
            if self.records.is_known() || self.look()? == Look::Nothing {
                break;
            }
        }
        Ok(self.records.is_known())
    }

    fn watch(&mut self, interest: Option<Interest>) -> Result<(), SysError> {
        let socket = &self.wire.socket;
        match (self.waits_for, interest) {
            (before, after) if before == after => {}
            (_, None) => self.poller.remove(socket)?,
            (None, Some(interest)) => self.poller.add(socket, 0, interest, Trigger::Level)?,
            (Some(_), Some(interest)) => self.poller.modify(socket, 0, interest, Trigger::Level)?,
        }
        self.waits_for = interest;
        Ok(())
    }

    fn has_news(&self) -> bool {
        self.records.plain_total() > self.told_bytes
    }

    fn has_room_to_keep(&self) -> bool {
        self.records.plain().len() < self.kept_bytes_max
    }
}

impl ByteLink for TlsLink {
    fn send(&mut self, parts: &[&[u8]]) -> Result<usize, ByteLinkError> {
        if self.finished {
            let error = io::Error::new(ErrorKind::BrokenPipe, "this side has finished");
            return Err(self.wire.lost(error));
        }
        if !self.meet()? {
            return Ok(0);
        }
        let mut taken = 0;
        while self.records.outgoing().is_empty() {
            match self.records.encrypt_parts(parts, taken) {
                Ok(0) => break,
                Ok(count) => taken += count,
                Err(fault) => return Err(self.failed(fault)),
            }
            self.flush()?;
        }
        Ok(taken)
    }

    fn receive(&mut self) -> Result<Received, ByteLinkError> {
        if !self.meet()? {
            return Ok(Received::Nothing);
        }
        for _ in 0..=READS_MAX {
            if self.has_news() {
                self.told_bytes = self.records.plain_total();
                return Ok(Received::Some);
            }
            if self.records.peer_ended {
                self.end_told = true;
                return Ok(Received::Ended);
            }
            if !self.has_room_to_keep() || self.look()? == Look::Nothing {
                return Ok(Received::Nothing);
            }
        }
        Ok(Received::Nothing)
    }

    fn bytes(&self) -> &[u8] {
        // Before that it is part of the hand-shake.
        if self.records.is_known() {
            self.records.plain()
        } else {
            &[]
        }
    }

    fn used(&mut self, count: usize) {
        self.records.plain_used(count);
    }

    fn copied_bytes(&self) -> u64 {
        // By rustls out of the record, and from there to the others.
        2 * self.records.plain_total()
    }

    fn expect(&mut self, bytes_max: usize) -> Result<(), ByteLinkError> {
        self.kept_bytes_max = self.kept_bytes_max.max(bytes_max.saturating_mul(2));
        Ok(())
    }

    fn finish(&mut self) {
        if self.finished {
            return;
        }
        self.finished = true;
        if self.records.is_known() {
            // Without keys to say it, the end of the connection has to do.
            let _ = self.records.end();
        }
        let _ = self.write_out();
    }

    fn arm(&mut self, for_room: bool) -> Result<bool, ByteLinkError> {
        let was_known = self.records.is_known();
        let is_known = self.meet()?;
        let end_untold = self.records.peer_ended && !self.end_told;
        if is_known != was_known || self.has_news() || end_untold {
            return Ok(false);
        }
        let unsent = !self.records.outgoing().is_empty();
        if for_room && is_known && !unsent {
            return Ok(false);
        }
        let reads = !self.end_told && self.has_room_to_keep();
        // That it is connected shows as room.
        let writes = unsent || !self.wire.is_connected()?;
        self.watch(match (reads, writes) {
            (true, true) => Some(Interest::Both),
            (true, false) => Some(Interest::Readable),
            (false, true) => Some(Interest::Writable),
            (false, false) => None,
        })?;
        Ok(true)
    }

    fn lingers(&mut self) -> bool {
        self.finished && self.records.is_known() && !self.records.outgoing().is_empty()
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        [Some(self.poller.as_fd()), None]
    }

    fn peer(&self) -> &str {
        &self.wire.peer
    }
}

impl Drop for TlsLink {
    fn drop(&mut self) {
        let until = Instant::now() + LEAVE_TIME;
        while self.lingers() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(most) = Timespec::try_from(left) else {
                return;
            };
            let mut sockets = [PollFd::new(&self.wire.socket, PollFlags::OUT)];
            let woken = poll(&mut sockets, Some(&most));
            if left.is_zero() || woken.is_err() || self.write_out().is_err() {
                return;
            }
        }
    }
}

/// Where connections over TCP and TLS come in.
#[derive(Debug)]
pub struct TlsDoor {
    door: TcpDoor,
    certificates: Certificates,
}

impl TlsDoor {
    /// Listens on the first address that the host's name has.
    ///
    /// # Errors
    /// The name is unknown, or the address in use or not of this host.
    pub fn listen(host: &str, port: u16, certificates: &Certificates) -> Result<Self, DoorError> {
        Ok(Self {
            door: TcpDoor::listen(host, port)?,
            certificates: certificates.clone(),
        })
    }
}

impl Door for TlsDoor {
    /// The next peer that has come: it proves its identity later, when its link is asked to get on.
    fn accept(&mut self) -> Result<Option<Box<dyn ByteLink>>, DoorError> {
        let Some(wire) = self.door.take()? else {
            return Ok(None);
        };
        let failed = |error| DoorError::Accept {
            address: wire.peer.clone(),
            source: io::Error::other(error),
        };
        let records = Records::listen(&self.certificates.server).map_err(failed)?;
        let link = TlsLink::new(wire, records, Interest::Readable)?;
        Ok(Some(Box::new(link)))
    }

    fn address(&self) -> Result<Address, DoorError> {
        self.door.address()
    }

    fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
        self.door.fds()
    }
}
