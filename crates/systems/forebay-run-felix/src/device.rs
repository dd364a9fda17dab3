//! Where a card and its readers meet: a Unix socket, as a device file is for a real card.
//!
//! A reader connects, names a DMA buffer, and is handed the descriptors of its memory. It keeps the connection as long as it reads: each side sees by its end
//! that the other one is gone, however it went. The memory is the card's own: a reader that is started again goes on at the first block that was not released.

mod door;
mod from_host;

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_ring::{BlockConsumer, BlockRingSpec};
use forebay_settings::NAME;
use forebay_sys::SysError;
use forebay_sys::seqpacket::{Arrived, SeqSocket};
use forebay_wire::felix::board::BOARD_LINKS;
use forebay_wire::felix::{BlockFormat, BlockFormatError, DMA_BUFFERS_MAX, ELINKS, Elink};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use door::{Diagnosis, Diagnostics, Door, NoDiagnostics, Writer};
pub use from_host::{FromHostDevice, FromHostInfo, from_host_spec};

/// What both sides have to speak.
const VERSION: u32 = 1;
/// Longest record of either side, in bytes.
const RECORD_BYTES_MAX: usize = 64 << 10;
/// How long a process that has connected may take to say which buffer it wants, and a card to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a card cannot be read.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// Nobody listens there.
    #[error("no card answers at {}: {source}; start it (forebay emulate card FILE.toml), or name its socket", path.display())]
    NotThere {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: SysError,
    },
    /// What is there is no socket, and will be none.
    #[error("{} is {what}, and no socket of a card: name the one that the card says when it is ready", path.display())]
    NoDoor {
        /// Where.
        path: PathBuf,
        /// What is there instead.
        what: &'static str,
    },
    /// It cannot be asked, however long it is waited for.
    #[error("the card at {} cannot be asked: {source}; {remedy}", path.display())]
    Unreachable {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: SysError,
        /// What would help.
        remedy: &'static str,
    },
    /// A card listens there already.
    #[error("a card is at work at {} already; end it, or give this one another socket", path.display())]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{} is there already and is no socket; it is left alone: give the card another socket", path.display())]
    NoSocket {
        /// Where.
        path: PathBuf,
    },
    /// A reader has written what no honest one does.
    #[error("the reader of DMA buffer {buffer} is broken or hostile: {fault}")]
    Reader {
        /// Number of the DMA buffer.
        buffer: usize,
        /// What it wrote.
        fault: forebay_ring::PeerFault,
    },
    /// It has no from-host buffer.
    #[error("the card at {} takes no messages: it has no from-host buffer; one of a newer version has", path.display())]
    NoFromHost {
        /// Where.
        path: PathBuf,
    },
    /// The card does not answer.
    #[error("the card at {} has not answered for {:.1} s: it stands still, or is none; look after it, or start it again", path.display(), waited.as_secs_f64())]
    Silent {
        /// Where.
        path: PathBuf,
        /// So long was it waited for.
        waited: Duration,
    },
    /// Nobody wants to know any more, and the card had said nothing by then.
    #[error("the card at {} has not answered before the order to end came, {:.1} s after it was asked", path.display(), waited.as_secs_f64())]
    Left {
        /// Where.
        path: PathBuf,
        /// So long was it waited for.
        waited: Duration,
    },
    /// The card gives nothing.
    #[error("the card at {} refuses {asked}: {why}", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// What was asked for.
        asked: String,
        /// What it says.
        why: String,
    },
    /// It says something else than a card does.
    #[error("what listens at {} is no card of this version: {what}", path.display())]
    NotACard {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Its blocks are of a format that there is not.
    #[error("the card at {}: {source}", path.display())]
    Format {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        source: BlockFormatError,
    },
    /// A DMA buffer cannot be mapped.
    #[error("DMA buffer: {0}")]
    Ring(#[from] forebay_ring::RingError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SysError),
}

/// What a card says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// What it is called.
    pub name: String,
    /// What its blocks begin with.
    pub marker: u16,
    /// Whether the words stand in front of the data: a variant of this project.
    pub headers: bool,
    /// Blocks of each DMA buffer.
    pub blocks: Vec<u64>,
    /// E-links of each DMA buffer.
    pub elinks: Vec<Vec<u16>>,
    /// Its from-host buffer, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_host: Option<FromHostInfo>,
    /// Its process.
    pub pid: u32,
}

impl DeviceInfo {
    /// The format of its blocks.
    ///
    /// # Errors
    /// There is none with that marker.
    pub fn format(&self) -> Result<BlockFormat, BlockFormatError> {
        let format = BlockFormat::of_marker(self.marker)?;
        Ok(if self.headers {
            format.with_headers()
        } else {
            format
        })
    }

    /// Links that it has: up to the last one with an E-link.
    #[must_use]
    pub fn links(&self) -> usize {
        let elinks = self.elinks.iter().flatten();
        let links = elinks
            .filter_map(|number| Elink::new(*number))
            .map(|elink| usize::from(elink.link()));
        let last = links.filter(|link| *link < BOARD_LINKS).max();
        1 + last.unwrap_or(0)
    }

    /// What a card cannot say of itself; none when nothing is wrong.
    fn fault(&self) -> Option<String> {
        let elinks: usize = self.elinks.iter().map(Vec::len).sum();
        let (buffers, most) = (self.blocks.len(), DMA_BUFFERS_MAX);
        if !(1..=most).contains(&buffers) {
            return Some(format!("{buffers} DMA buffers; 1 to {most} are possible"));
        }
        if self.elinks.len() != buffers || elinks > ELINKS {
            let lists = self.elinks.len();
            return Some(format!(
                "{elinks} E-links in {lists} lists for {buffers} DMA buffers; {ELINKS} are possible"
            ));
        }
        let from_host = self.from_host.as_ref().and_then(FromHostInfo::fault);
        let name = (NAME.check)(&self.name).err();
        from_host.or_else(|| name.map(|name| format!("its name: {}", name.wrong)))
    }

    /// The shape of a DMA buffer; none when there is no such buffer or no such format.
    #[must_use]
    pub fn spec(&self, buffer: usize) -> Option<BlockRingSpec> {
        Some(BlockRingSpec {
            name: format!("{}-dma{buffer}", self.name),
            block_bytes: u32::try_from(self.format().ok()?.bytes()).ok()?,
            blocks: *self.blocks.get(buffer)?,
            populate: false,
        })
    }
}

/// What a reader asks for.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    version: u32,
    /// None: only what the card says of itself.
    buffer: Option<usize>,
    /// The from-host buffer instead, to be written.
    #[serde(default)]
    from_host: bool,
    /// Its diagnostics instead: requests of another kind follow on the same connection.
    #[serde(default)]
    diagnostics: bool,
}

/// What may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What the card says of itself.
    Description,
    /// A DMA buffer, to be read.
    Buffer(usize),
    /// The from-host buffer, to be written.
    FromHost,
    /// Registers, and what belongs to them.
    Diagnostics,
}

/// What it is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    /// Five descriptors come along, if a buffer was asked for.
    Opened(DeviceInfo),
    Refused(String),
}

/// A DMA buffer of a card, as its reader has it.
#[derive(Debug)]
pub struct Device {
    /// What the card says of itself.
    pub info: DeviceInfo,
    /// The format of its blocks.
    pub format: BlockFormat,
    /// The blocks.
    pub blocks: BlockConsumer,
    socket: SeqSocket,
}

impl Device {
    /// What the card that listens at `path` says of itself.
    ///
    /// # Errors
    /// There is no card.
    pub fn describe(path: &Path) -> Result<DeviceInfo, DeviceError> {
        Self::describe_unless(path, &|| false)
    }

    /// The same, unless `stops` says meanwhile that nobody wants to know any more.
    ///
    /// # Errors
    /// There is no card, or it had not answered by then.
    pub fn describe_unless(
        path: &Path,
        stops: &dyn Fn() -> bool,
    ) -> Result<DeviceInfo, DeviceError> {
        ask(path, Wanted::Description, stops).map(|(_, info, _)| info)
    }

    /// Opens a DMA buffer of the card that listens at `path`.
    ///
    /// # Errors
    /// There is no card, it refuses, or its memory is none.
    pub fn open(path: &Path, buffer: usize) -> Result<Self, DeviceError> {
        Self::open_unless(path, buffer, &|| false)
    }

    /// The same, unless `stops` says meanwhile that it is not wanted any more.
    ///
    /// # Errors
    /// There is no card, it refuses, its memory is none, or it had not answered by then.
    pub fn open_unless(
        path: &Path,
        buffer: usize,
        stops: &dyn Fn() -> bool,
    ) -> Result<Self, DeviceError> {
        let (socket, info, fds) = ask(path, Wanted::Buffer(buffer), stops)?;
        let format = info.format().map_err(|source| DeviceError::Format {
            path: path.into(),
            source,
        })?;
        let spec = info.spec(buffer).ok_or_else(|| DeviceError::NotACard {
            path: path.into(),
            what: format!("it does not describe buffer {buffer}"),
        })?;
        Ok(Self {
            blocks: BlockConsumer::map(&spec, fds)?,
            format,
            info,
            socket,
        })
    }

    /// Whether the card is gone, however it went.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        has_ended(&self.socket)
    }
}

/// Whether the other side of a connection is gone, or says something that it has no reason to.
fn has_ended(socket: &SeqSocket) -> bool {
    let mut record = [0; 64];
    !matches!(socket.receive(&mut record), Ok(Arrived::Nothing))
}

/// Why a connection was not made: whether a card may still come there, or something else has to change.
fn unreachable(path: &Path, source: SysError) -> DeviceError {
    let path = path.to_path_buf();
    let found = std::fs::metadata(&path).map(|found| found.file_type());
    let remedy = match (source.kind(), found) {
        (ErrorKind::ConnectionRefused, Ok(kind)) if !kind.is_socket() => {
            let what = if kind.is_dir() {
                "a directory"
            } else {
                "a file"
            };
            return DeviceError::NoDoor { path, what };
        }
        (ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock, _) => {
            return DeviceError::NotThere { path, source };
        }
        (ErrorKind::PermissionDenied, _) => {
            "read it as the user of the card, or give the card a socket that both may open"
        }
        (_, Ok(kind)) if kind.is_socket() => {
            "what listens there is no card: name the socket that the card says when it is ready"
        }
        _ => "name the socket that the card says when it is ready",
    };
    DeviceError::Unreachable {
        path,
        source,
        remedy,
    }
}

/// Asks a card for a buffer, or only for what it says of itself, unless `stops` says meanwhile that nobody wants it any more.
pub fn ask(
    path: &Path,
    wanted: Wanted,
    stops: &dyn Fn() -> bool,
) -> Result<(SeqSocket, DeviceInfo, Vec<OwnedFd>), DeviceError> {
    let owned = || path.to_path_buf();
    let socket = SeqSocket::connect(path).map_err(|source| unreachable(path, source))?;
    let what = |error: serde_json::Error| DeviceError::NotACard {
        path: owned(),
        what: error.to_string(),
    };
    let request = Request {
        version: VERSION,
        buffer: match wanted {
            Wanted::Buffer(buffer) => Some(buffer),
            _ => None,
        },
        from_host: wanted == Wanted::FromHost,
        diagnostics: wanted == Wanted::Diagnostics,
    };
    let request = serde_json::to_vec(&request).map_err(what)?;
    socket.send(&request, &[])?;
    let (text, fds) = hear(&socket, path, stops)?;
    match serde_json::from_slice(&text).map_err(what)? {
        Answer::Opened(info) => match info.fault() {
            Some(what) => Err(DeviceError::NotACard {
                path: owned(),
                what,
            }),
            None => Ok((socket, info, fds)),
        },
        Answer::Refused(why) => Err(DeviceError::Refused {
            path: owned(),
            asked: match wanted {
                Wanted::Description => "to say what it is".into(),
                Wanted::Buffer(buffer) => format!("DMA buffer {buffer}"),
                Wanted::FromHost => "its from-host buffer".into(),
                Wanted::Diagnostics => "its diagnostics".into(),
            },
            why,
        }),
    }
}

/// What a card answers, and the descriptors that came along.
pub fn hear(
    socket: &SeqSocket,
    path: &Path,
    stops: &dyn Fn() -> bool,
) -> Result<(Vec<u8>, Vec<OwnedFd>), DeviceError> {
    let mut record = vec![0; RECORD_BYTES_MAX];
    let mut fds = Vec::new();
    let begun = Instant::now();
    loop {
        match socket.receive_with_fds(&mut record, &mut fds)? {
            Arrived::Record(bytes) => {
                record.truncate(bytes);
                return Ok((record, fds));
            }
            Arrived::End => {
                return Err(DeviceError::NotACard {
                    path: path.into(),
                    what: "it hangs up".into(),
                });
            }
            Arrived::Nothing if begun.elapsed() > PATIENCE => {
                return Err(DeviceError::Silent {
                    path: path.into(),
                    waited: begun.elapsed(),
                });
            }
            Arrived::Nothing if stops() => {
                return Err(DeviceError::Left {
                    path: path.into(),
                    waited: begun.elapsed(),
                });
            }
            Arrived::Nothing => {
                let mut fds = [PollFd::new(socket, PollFlags::IN)];
                let moment = Timespec {
                    tv_sec: 0,
                    tv_nsec: 100_000_000,
                };
                // Interrupted or not: it is looked at again.
                let _ = rustix::event::poll(&mut fds, Some(&moment));
            }
        }
    }
}

#[cfg(test)]
mod tests;
