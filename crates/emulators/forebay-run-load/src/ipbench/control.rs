//! The sockets of the control protocol: a listener, and a few controllers.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::host::CpuTicks;
use socket2::{SockRef, TcpKeepalive};

use super::{Act, GREETING, SYNTAX, Session};
use crate::LoadError;

/// Controllers at a time. When one more comes, the oldest that has not the target goes: half of a connection that is left of a dead host keeps nobody out.
const CONTROLLERS_MAX: usize = 16;
/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 1 << 10;
/// After so long without a word the kernel asks whether a controller's host is there, and again as often as it is set to.
const SILENCE: Duration = Duration::from_secs(10);
const EVENTS: usize = CONTROLLERS_MAX + 1;
const LISTENER: u64 = 0;

#[derive(Debug)]
struct Controller {
    stream: TcpStream,
    /// What came behind its last line.
    line: Vec<u8>,
    session: Session,
}

/// The control protocol's end at a target.
#[derive(Debug)]
pub(crate) struct Control {
    listener: TcpListener,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    poller: Poller,
    controllers: HashMap<u64, Controller>,
    accepted: u64,
    /// The connection that has the target.
    owner: Option<u64>,
    /// Tests that came to their end.
    pub(crate) tests: u64,
}

impl AsFd for Control {
    /// Readable when there is something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

impl Control {
    /// Listens.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub(crate) fn open(address: SocketAddr) -> Result<Self, LoadError> {
        let failed = |source| LoadError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let poller = Poller::create(EVENTS)?;
        poller.add(&listener, LISTENER, Interest::Readable, Trigger::Level)?;
        Ok(Self {
            listener,
            address,
            poller,
            controllers: HashMap::new(),
            accepted: 0,
            owner: None,
            tests: 0,
        })
    }

    /// Does what there is to do; never waits.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub(crate) fn turn(&mut self) -> Result<(), LoadError> {
        let ready = self.poller.wait(Some(Duration::ZERO), Duration::ZERO)?;
        let tokens: Vec<u64> = ready.map(|ready| ready.token).collect();
        for token in tokens {
            match token {
                LISTENER => self.accept(),
                token => self.serve(token),
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let token = LISTENER + 1 + self.accepted;
            // One that is not taken in is closed, which it sees.
            if !crate::echo::take_in(&self.poller, &stream, token) || keep_alive(&stream).is_err() {
                continue;
            }
            let mut controller = Controller {
                stream,
                line: Vec::new(),
                session: Session::new(),
            };
            if controller.say(GREETING).is_err() {
                continue;
            }
            if self.controllers.len() == CONTROLLERS_MAX {
                let others = self
                    .controllers
                    .keys()
                    .filter(|key| self.owner != Some(**key));
                let oldest = others.min().copied();
                oldest.map(|oldest| self.controllers.remove(&oldest));
            }
            self.accepted += 1;
            self.controllers.insert(token, controller);
        }
    }

    fn serve(&mut self, token: u64) {
        let Some(mut controller) = self.controllers.remove(&token) else {
            return;
        };
        if self.hear(token, &mut controller).is_ok() {
            self.controllers.insert(token, controller);
        } else if self.owner == Some(token) {
            self.owner = None;
        }
    }

    /// Answers the lines that came; an error is the end of the connection.
    fn hear(&mut self, token: u64, controller: &mut Controller) -> io::Result<()> {
        let mut bytes = [0; LINE_BYTES_MAX];
        let room = LINE_BYTES_MAX - controller.line.len();
        let count = match controller.stream.read(&mut bytes[..room]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) => return crate::echo::is_later(error),
        };
        controller.line.extend_from_slice(&bytes[..count]);
        while let Some(end) = controller.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = controller.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let taken = self.owner.is_some();
            let (text, act) = controller.session.handle_line(&line, taken, CpuTicks::read);
            controller.say(&text)?;
            match act {
                Act::Stay => {}
                Act::Take => self.owner = Some(token),
                Act::Close => return Err(ErrorKind::ConnectionAborted.into()),
                Act::Finish => {
                    self.tests += 1;
                    return Err(ErrorKind::ConnectionAborted.into());
                }
                Act::Abort => {
                    if let Some(owner) = self.owner.take() {
                        self.controllers.remove(&owner);
                    }
                    return Err(ErrorKind::ConnectionAborted.into());
                }
            }
        }
        if controller.line.len() == LINE_BYTES_MAX {
            controller.say(SYNTAX)?;
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(())
    }
}

/// Has the kernel find out that the host of a controller is gone.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let keep_alive = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(SILENCE);
    SockRef::from(stream).set_tcp_keepalive(&keep_alive)
}

impl Controller {
    /// Answers are short: one that does not fit into the socket is the end of the connection.
    fn say(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())
    }
}
