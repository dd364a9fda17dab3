//! The card's side of the place where cards and readers meet.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay_ring::BlockRingMemory;
use forebay_sys::SysError;
use forebay_sys::seqpacket::{Arrived, SeqListener, SeqSocket};

use super::{Answer, DeviceError, DeviceInfo, PATIENCE, Request, VERSION, Wanted};

/// Readers that may be connected at a time.
const READERS_MAX: usize = 64;

#[derive(Debug)]
struct Reader {
    socket: SeqSocket,
    /// None: it has not asked yet.
    has: Option<Wanted>,
    since: Instant,
}

/// The process that writes the from-host buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writer {
    /// Nobody.
    #[default]
    Nobody,
    /// Somebody.
    Here,
    /// One that is gone; no other is let in until [`settle_writer`](Door::settle_writer) says that what it wrote was read.
    Gone,
}

/// What the diagnostics of a card work on.
pub trait Diagnostics {
    /// Carries a request out.
    fn answer(&mut self, asked: &[u8]) -> Diagnosis;
    /// The process that was at the diagnostics is gone: DMA buffers and triggers are those of the data again.
    fn end(&mut self);
}

/// The answer to one request.
#[derive(Debug)]
pub struct Diagnosis {
    /// What is told; none when it cannot be written down.
    pub text: Option<Vec<u8>>,
    /// Nothing was done.
    pub is_refused: bool,
}

/// Of a card that has none.
#[derive(Debug)]
pub enum NoDiagnostics {}

impl Diagnostics for NoDiagnostics {
    fn answer(&mut self, _: &[u8]) -> Diagnosis {
        match *self {}
    }

    fn end(&mut self) {
        match *self {}
    }
}

/// The card's side.
#[derive(Debug)]
pub struct Door<B = NoDiagnostics> {
    path: PathBuf,
    /// Which file that is: somebody may have put another one there.
    file: Option<[u64; 2]>,
    info: DeviceInfo,
    memories: Vec<BlockRingMemory>,
    from_host: Option<BlockRingMemory>,
    writer: Writer,
    board: Option<B>,
    listener: SeqListener,
    readers: Vec<Reader>,
    /// Readers that were turned away.
    refused: u64,
}

impl<B: Diagnostics> Door<B> {
    /// Listens at `path`, where a card that was killed may have left its socket.
    ///
    /// # Errors
    /// A card is at work there, or the directory cannot be written.
    pub fn open(
        path: &Path,
        info: DeviceInfo,
        memories: Vec<BlockRingMemory>,
    ) -> Result<Self, DeviceError> {
        let listener = match SeqListener::bind(path, READERS_MAX as u16) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_left_over(path)?;
                SeqListener::bind(path, READERS_MAX as u16)?
            }
            bound => bound?,
        };
        Ok(Self {
            path: path.to_path_buf(),
            file: identity(path),
            info,
            memories,
            from_host: None,
            writer: Writer::Nobody,
            board: None,
            listener,
            readers: Vec::new(),
            refused: 0,
        })
    }

    /// Lets in processes that have come, answers those that have asked, and notices those that have gone.
    ///
    /// # Errors
    /// Descriptors run out.
    pub fn serve(&mut self) -> Result<(), DeviceError> {
        while let Some(socket) = self.listener.accept()? {
            if self.readers.len() == READERS_MAX {
                self.refused += 1;
                let answer = Answer::Refused(format!("{READERS_MAX} readers are connected"));
                // A process that does not take it sees the end.
                let _ = say(&socket, &answer, &[]);
                continue;
            }
            self.readers.push(Reader {
                socket,
                has: None,
                since: Instant::now(),
            });
        }
        let mut at = 0;
        while at < self.readers.len() {
            if self.attend(at)? {
                at += 1;
            } else {
                match self.readers.swap_remove(at).has {
                    Some(Wanted::FromHost) => self.writer = Writer::Gone,
                    Some(Wanted::Diagnostics) => self.board.iter_mut().for_each(B::end),
                    Some(Wanted::Description | Wanted::Buffer(_)) | None => {}
                }
            }
        }
        Ok(())
    }

    /// One reader; false when it has gone or is turned away.
    fn attend(&mut self, at: usize) -> Result<bool, DeviceError> {
        let mut record = [0; 4096];
        let reader = &self.readers[at];
        match reader.socket.receive(&mut record)? {
            Arrived::End => Ok(false),
            Arrived::Nothing => Ok(reader.has.is_some() || reader.since.elapsed() < PATIENCE),
            Arrived::Record(bytes) => {
                let asked = record.get(..bytes).unwrap_or_default();
                if reader.has == Some(Wanted::Diagnostics) {
                    return Ok(self.diagnose(at, &record[..bytes.min(4096)]));
                }
                let again = reader.has.is_some();
                let answer = if again {
                    Err("this connection has a buffer already; open another one".into())
                } else {
                    self.answer(asked)
                };
                match answer {
                    Ok((wanted, fds)) => {
                        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                        let answer = Answer::Opened(self.info.clone());
                        let reader = &mut self.readers[at];
                        if wanted != Wanted::Description {
                            reader.has = Some(wanted);
                        }
                        if wanted == Wanted::FromHost {
                            self.writer = Writer::Here;
                        }
                        Ok(say(&reader.socket, &answer, &fds) && reader.has.is_some())
                    }
                    Err(why) => {
                        self.refused += 1;
                        say(&self.readers[at].socket, &Answer::Refused(why), &[]);
                        Ok(again)
                    }
                }
            }
        }
    }

    fn answer(&self, asked: &[u8]) -> Result<(Wanted, Vec<OwnedFd>), String> {
        let request: Request =
            serde_json::from_slice(asked).map_err(|error| format!("no request: {error}"))?;
        if request.version != VERSION {
            return Err(format!(
                "version {} was asked for, {VERSION} is spoken",
                request.version
            ));
        }
        if request.from_host {
            return self.answer_writer();
        }
        if request.diagnostics {
            return match (&self.board, self.is_diagnosed()) {
                (None, _) => Err("it has none".into()),
                (_, true) => Err("somebody else is at them".into()),
                (_, false) => Ok((Wanted::Diagnostics, Vec::new())),
            };
        }
        let Some(buffer) = request.buffer else {
            return Ok((Wanted::Description, Vec::new()));
        };
        let memory = self.memories.get(buffer).ok_or_else(|| {
            let last = self.memories.len().saturating_sub(1);
            format!("there is no such buffer; 0 to {last} are")
        })?;
        if let Some(reader) = self.reader_of(Wanted::Buffer(buffer)) {
            return Err(taken("reader", reader));
        }
        let fds = memory.consumer_fds().map_err(|error| error.to_string())?;
        Ok((Wanted::Buffer(buffer), fds))
    }

    fn answer_writer(&self) -> Result<(Wanted, Vec<OwnedFd>), String> {
        let memory = self
            .from_host
            .as_ref()
            .ok_or("it takes no messages, or no more")?;
        match self.writer {
            Writer::Nobody => {}
            Writer::Here => {
                let writer = self.reader_of(Wanted::FromHost);
                return Err(writer.map_or_else(
                    || "another writer has it".to_owned(),
                    |writer| taken("writer", writer),
                ));
            }
            Writer::Gone => return Err("what the last writer wrote is still being read".into()),
        }
        let fds = memory.producer_fds().map_err(|error| error.to_string())?;
        Ok((Wanted::FromHost, fds))
    }

    /// A request on a connection for diagnostics; false when its answer cannot be said.
    fn diagnose(&mut self, at: usize, asked: &[u8]) -> bool {
        let Some(board) = &mut self.board else {
            return false;
        };
        let told = board.answer(asked);
        self.refused += u64::from(told.is_refused);
        let socket = &self.readers[at].socket;
        told.text
            .is_some_and(|text| socket.send(&text, &[]).unwrap_or(false))
    }

    /// What its diagnostics work on, from now on.
    pub fn offer_board(&mut self, board: B) {
        self.board = Some(board);
    }

    /// What its diagnostics work on.
    pub fn board_mut(&mut self) -> Option<&mut B> {
        self.board.as_mut()
    }

    /// Whether somebody is at its diagnostics.
    #[must_use]
    pub fn is_diagnosed(&self) -> bool {
        self.readers
            .iter()
            .any(|reader| reader.has == Some(Wanted::Diagnostics))
    }

    /// The memory of the from-host buffer, from now on: that of another one is not handed out any more. None: there is none.
    pub fn offer_from_host(&mut self, memory: Option<BlockRingMemory>) {
        self.from_host = memory;
    }

    /// The process that writes the from-host buffer.
    #[must_use]
    pub fn writer(&self) -> Writer {
        self.writer
    }

    /// What the writer that is gone had written was read: another one may come.
    pub fn settle_writer(&mut self) {
        if self.writer == Writer::Gone {
            self.writer = Writer::Nobody;
        }
    }

    /// Hangs up on the writer: what he writes is nonsense.
    pub fn dismiss_writer(&mut self) {
        self.readers
            .retain(|reader| reader.has != Some(Wanted::FromHost));
        self.writer = Writer::Nobody;
    }

    /// Whether somebody reads that buffer.
    #[must_use]
    pub fn reads(&self, buffer: usize) -> bool {
        self.reader_of(Wanted::Buffer(buffer)).is_some()
    }

    fn reader_of(&self, wanted: Wanted) -> Option<&Reader> {
        let mut readers = self.readers.iter();
        readers.find(|reader| reader.has == Some(wanted))
    }

    /// Buffers that have a reader.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.readers
            .iter()
            .filter(|reader| matches!(reader.has, Some(Wanted::Buffer(_))))
            .count()
    }

    /// How many processes were turned away.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What the card says of itself.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }
}

impl<B> Drop for Door<B> {
    fn drop(&mut self) {
        if identity(&self.path) == self.file {
            // It may be gone already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Device and number of a file.
fn identity(path: &Path) -> Option<[u64; 2]> {
    let data = fs::symlink_metadata(path).ok()?;
    Some([data.dev(), data.ino()])
}

/// Removes the socket that a card which was killed has left. What is no socket stays, and so does one at which somebody listens, though he may not answer.
fn remove_left_over(path: &Path) -> Result<(), DeviceError> {
    let of = |source| SysError::new("stat", path.display().to_string(), source);
    let found = fs::symlink_metadata(path).map_err(of)?;
    if !found.file_type().is_socket() {
        return Err(DeviceError::NoSocket { path: path.into() });
    }
    match SeqSocket::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        _ => return Err(DeviceError::InUse { path: path.into() }),
    }
    let of = |source| SysError::new("unlink", path.display().to_string(), source);
    Ok(fs::remove_file(path).map_err(of)?)
}

/// Why somebody does not get what another one has: with that one's process, where the kernel knows it here.
fn taken(what: &str, by: &Reader) -> String {
    match by.socket.peer() {
        Ok(peer) if peer.pid != 0 => {
            let does = if what == "reader" { "reads" } else { "writes" };
            format!(
                "another {what} has it: process {} {does} this card",
                peer.pid
            )
        }
        _ => format!("another {what} has it"),
    }
}

fn say(socket: &SeqSocket, answer: &Answer, fds: &[BorrowedFd<'_>]) -> bool {
    serde_json::to_vec(answer).is_ok_and(|text| socket.send(&text, fds).unwrap_or(false))
}
