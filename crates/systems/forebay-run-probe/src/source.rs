//! Where packets come from.

mod made;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use forebay_flow::{Frame, LinkType};
use forebay_link::pcap::{CaptureError, Frames};
use forebay_run::Stop;
use forebay_run::error::RunError;
use forebay_sys::wait::{self, Woken};

use self::made::Made;
pub use self::made::NotTraffic;
use crate::error::ProbeError;

/// The path that stands for standard input.
pub(crate) const STDIN: &str = "-";

/// Standard input, which is at its end when the process shall end. It is read without a buffer in between: what lies there would not wake the wait.
struct Stdin {
    file: File,
    stop: Stop,
}

impl Stdin {
    fn open(stop: &Stop) -> io::Result<Self> {
        let own = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self {
            file: own.into(),
            stop: stop.clone(),
        })
    }
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.stop.is_asked() {
            let fds = [self.file.as_fd(), self.stop.as_fd()];
            let woken = wait::sleep_until_or(fds, u64::MAX, 0).map_err(io::Error::other)?;
            if woken == (Woken::Ready { index: 0 }) {
                return self.file.read(buffer);
            }
        }
        Ok(0)
    }
}

/// Frames of a capture file, or of a profile.
enum Origin {
    File(Frames),
    Made(Box<Made>),
}

/// The frames of a capture.
pub(crate) struct Capture {
    origin: Origin,
    path: String,
}

impl Capture {
    pub(crate) fn open(path: &Path, stop: &Stop) -> Result<Self, ProbeError> {
        let told = path.display().to_string();
        if let Some(made) = Made::of(&told) {
            let origin = Origin::Made(Box::new(made?));
            return Ok(Self { origin, path: told });
        }
        let source: Box<dyn Read + Send> = if told == STDIN {
            let own = Stdin::open(stop).map_err(RunError::file("reading", "standard input"))?;
            Box::new(own)
        } else {
            let opened = File::open(path).map_err(|source| CaptureError::Open {
                path: told.clone(),
                source,
            });
            Box::new(opened.map_err(ProbeError::Unopened)?)
        };
        let frames = Frames::new(source).map_err(|source| ProbeError::Capture {
            path: told.clone(),
            source,
        })?;
        let origin = Origin::File(frames);
        Ok(Self { origin, path: told })
    }

    /// The next frame; none at the end, and behind an error.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, ProbeError> {
        let frames = match &mut self.origin {
            Origin::File(frames) => frames,
            Origin::Made(made) => return made.next().map_err(ProbeError::Profile),
        };
        let next = frames.advance().map(|is_there| {
            let frame = frames.frame();
            is_there.then_some(Frame {
                time_ns: frame.timestamp_ns,
                link: LinkType::of(frame.link_type),
                bytes: frame.bytes,
                wire_bytes: frame.wire_bytes,
            })
        });
        next.map_err(|source| ProbeError::Capture {
            path: self.path.clone(),
            source,
        })
    }
}
