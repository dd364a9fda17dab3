//! How two ends find each other: by the provider's own connections, or, where it has none, by a socket of this host.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{FabricError, Fault};
use crate::hello::{Hello, RECORD_BYTES_MAX};
use crate::sys::{Channel, Credentials, Event, Library, Record, UnixSocket, own_credentials};

/// Longest name of a place, in bytes.
const NAME_BYTES_MAX: usize = 80;
/// What the address of an end point of `shm` begins with; the process's number follows.
const ADDRESS_PREFIX: &str = "fi_shm://";
/// Where its memory lies, as a file named as the rest of the address.
const DIRECTORY: &str = "/dev/shm";

/// What happened to the connection.
pub(crate) enum News {
    Nothing,
    /// It is made; the peer's hello, when it came with this.
    Connected(Option<Hello>),
    /// The peer has gone, or there was none.
    Gone(Fault),
    /// The peer broke the rules.
    Broken(&'static str),
}

/// What holds two ends together.
pub(crate) enum Joint {
    /// The provider's connection.
    Message,
    /// A socket of this host.
    Local(Local),
}

/// A socket of this host over which both ends say their addresses, and by whose end one notices that the other has died.
pub(crate) struct Local {
    socket: Option<UnixSocket>,
    name: Vec<u8>,
    /// What to say when the socket is there; empty: it is said.
    record: Vec<u8>,
    has_peer: bool,
    /// The file of the peer's memory.
    peer_file: PathBuf,
    library: Arc<Library>,
}

impl Joint {
    /// Begins to connect to a place of this host.
    pub(crate) fn to_local(
        peer: &str,
        place: &str,
        hello: Hello,
        address: &[u8],
        library: &Arc<Library>,
    ) -> Result<Self, FabricError> {
        let record = hello.emit_record(address);
        let record = record.ok_or_else(|| no_address(library))?;
        let mut local = Local {
            socket: None,
            name: socket_name(place)?,
            record,
            has_peer: false,
            peer_file: PathBuf::new(),
            library: Arc::clone(library),
        };
        local.connect().map_err(|error| FabricError::Connect {
            address: peer.into(),
            fault: local.fault(&error),
        })?;
        Ok(Self::Local(local))
    }

    /// The joint of one who has been taken in.
    pub(crate) fn from_local(socket: UnixSocket, address: &[u8], library: &Arc<Library>) -> Self {
        Self::Local(Local {
            socket: Some(socket),
            name: Vec::new(),
            record: Vec::new(),
            has_peer: true,
            peer_file: file_of(address),
            library: Arc::clone(library),
        })
    }

    /// What has happened to the connection since.
    pub(crate) fn news(&mut self, channel: &mut Channel) -> Result<News, FabricError> {
        match self {
            Self::Message => message_news(channel),
            Self::Local(local) => local.news(channel),
        }
    }
}

fn message_news(channel: &mut Channel) -> Result<News, FabricError> {
    loop {
        return Ok(match channel.next_event()? {
            None => News::Nothing,
            Some(Event::Connected { data }) if data.is_empty() => News::Connected(None),
            Some(Event::Connected { data }) => match Hello::parse(&data) {
                Ok(hello) => News::Connected(Some(hello)),
                Err(what) => News::Broken(what),
            },
            Some(Event::Shutdown) => News::Gone(channel.fault(libc::ECONNRESET.into())),
            Some(Event::Failed(fault)) => News::Gone(fault),
            Some(Event::Other | Event::Request { .. }) => continue,
        });
    }
}

impl Local {
    pub(crate) fn socket(&self) -> Option<&UnixSocket> {
        self.socket.as_ref()
    }

    /// Says the end, and gives up the socket.
    pub(crate) fn leave(&mut self) -> Option<UnixSocket> {
        let socket = self.socket.take();
        socket.inspect(UnixSocket::end_sending)
    }

    fn connect(&mut self) -> io::Result<()> {
        match UnixSocket::connect(&self.name) {
            Ok(socket) => {
                socket.send(&self.record)?;
                self.record.clear();
                self.socket = Some(socket);
                Ok(())
            }
            // Too many wait there: again with the next look.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn news(&mut self, channel: &mut Channel) -> Result<News, FabricError> {
        if !self.record.is_empty() {
            return Ok(match self.connect() {
                Ok(()) => News::Nothing,
                Err(error) => News::Gone(self.fault(&error)),
            });
        }
        let Some(socket) = &self.socket else {
            return Ok(News::Nothing);
        };
        let mut buffer = [0; RECORD_BYTES_MAX + 1];
        let bytes = match socket.receive(&mut buffer) {
            Ok(Record::Nothing) => return Ok(News::Nothing),
            Ok(Record::Bytes(bytes)) => bytes,
            Ok(Record::End) => {
                self.clean_up();
                let code = if self.has_peer {
                    libc::ECONNRESET
                } else {
                    libc::ECONNREFUSED
                };
                return Ok(News::Gone(self.library.fault(code)));
            }
            Err(error) => return Ok(News::Gone(self.fault(&error))),
        };
        if self.has_peer {
            return Ok(News::Broken("it spoke a second time"));
        }
        let credentials = match socket.credentials() {
            Ok(credentials) => credentials,
            Err(error) => return Ok(News::Gone(self.fault(&error))),
        };
        match read_record(&buffer[..bytes], credentials) {
            Ok((hello, address)) => {
                channel.set_peer(address)?;
                self.peer_file = file_of(address);
                self.has_peer = true;
                Ok(News::Connected(Some(hello)))
            }
            Err(what) => Ok(News::Broken(what)),
        }
    }

    /// A peer that was killed leaves its file behind, and one that has closed does not.
    fn clean_up(&self) {
        if !self.peer_file.as_os_str().is_empty() {
            std::fs::remove_file(&self.peer_file).ok();
        }
    }

    fn fault(&self, error: &io::Error) -> Fault {
        io_fault(&self.library, error)
    }
}

pub(crate) fn io_fault(library: &Library, error: &io::Error) -> Fault {
    library.fault(error.raw_os_error().unwrap_or(libc::EIO))
}

fn no_address(library: &Library) -> FabricError {
    FabricError::Call {
        call: "fi_getname",
        fault: library.fault(libc::ENAMETOOLONG),
    }
}

/// Reads a peer's record: a hello, and an address that is of the process that has the socket, which is the same user's.
pub(crate) fn read_record(
    record: &[u8],
    peer: Credentials,
) -> Result<(Hello, &[u8]), &'static str> {
    if peer.uid != own_credentials().uid {
        return Err("it is another user's");
    }
    let (hello, address) = Hello::parse_record(record)?;
    if !is_address_of(address, peer.pid) {
        return Err("the address that it gave is not its own");
    }
    Ok((hello, address))
}

/// `fi_shm://PID:UID:NUMBER` and a zero: a file of this name in `/dev/shm` is mapped, so nothing else may be in it.
fn is_address_of(address: &[u8], pid: i32) -> bool {
    let prefix = format!("{ADDRESS_PREFIX}{pid}:");
    let Some((0, text)) = address.split_last() else {
        return false;
    };
    let Some(rest) = text.strip_prefix(prefix.as_bytes()) else {
        return false;
    };
    let mut numbers = rest.split(|&byte| byte == b':');
    let is_number =
        |part: &[u8]| (1..=10).contains(&part.len()) && part.iter().all(u8::is_ascii_digit);
    numbers
        .by_ref()
        .take(2)
        .filter(|part| is_number(part))
        .count()
        == 2
        && numbers.next().is_none()
}

/// The file of an address that [`is_address_of`] a process.
fn file_of(address: &[u8]) -> PathBuf {
    let text = address.strip_prefix(ADDRESS_PREFIX.as_bytes());
    let name = text.and_then(|text| std::str::from_utf8(text.strip_suffix(b"\0")?).ok());
    name.map_or_else(PathBuf::new, |name| PathBuf::from(DIRECTORY).join(name))
}

/// The socket's name of a place.
pub(crate) fn socket_name(place: &str) -> Result<Vec<u8>, FabricError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !(1..=NAME_BYTES_MAX).contains(&place.len()) || !place.bytes().all(fits) {
        return Err(FabricError::Place {
            place: place.escape_debug().to_string(),
            what: "no name of 1 to 80 letters, digits, '-', '_' and '.'",
        });
    }
    Ok(format!("forebay-fabric/{place}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_peers_own_address_is_taken() {
        assert!(is_address_of(b"fi_shm://12:0:7\0", 12));
        for address in [
            &b""[..],
            b"\0",
            b"fi_shm://12:0:7",
            b"fi_shm://13:0:7\0",
            b"fi_shm://12:0\0",
            b"fi_shm://12:0:7:8\0",
            b"fi_shm://12:0:\0",
            b"fi_shm://12:0:../x\0",
            b"fi_shm://12:0:7\0\0",
            b"fi_ns://12:0:7\0",
        ] {
            assert!(!is_address_of(address, 12), "{}", address.escape_ascii());
        }
    }

    #[test]
    fn the_file_of_an_address() {
        let file = file_of(b"fi_shm://12:0:7\0");
        assert_eq!(file, PathBuf::from("/dev/shm/12:0:7"));
        assert_eq!(file_of(b"12:0:7"), PathBuf::new());
    }

    #[test]
    fn another_users_record_is_refused() {
        let own = own_credentials();
        let record = Hello {
            page_bytes: 1,
            receive_pages: 1,
        }
        .emit_record(format!("fi_shm://{}:0:1\0", own.pid).as_bytes())
        .unwrap();
        assert!(read_record(&record, own).is_ok());
        let other = Credentials {
            uid: own.uid + 1,
            ..own
        };
        assert!(read_record(&record, other).is_err());
        let other = Credentials {
            pid: own.pid + 1,
            ..own
        };
        assert!(read_record(&record, other).is_err());
    }

    #[test]
    fn names_have_few_characters() {
        assert!(socket_name("run-7.a_b").is_ok());
        for name in ["", "a/b", "a b", &"x".repeat(81)] {
            assert!(socket_name(name).is_err(), "{name}");
        }
    }
}
