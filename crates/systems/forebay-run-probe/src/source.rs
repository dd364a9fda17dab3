//! Where packets come from.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use forebay_flow::{Frame, LinkType};
use forebay_link::pcap::{CaptureError, Frames};

use crate::error::ProbeError;

/// The path that stands for standard input.
pub(crate) const STDIN: &str = "-";

/// The frames of a capture file.
pub(crate) struct Capture {
    frames: Frames,
    path: String,
}

impl Capture {
    pub(crate) fn open(path: &Path) -> Result<Self, ProbeError> {
        let told = path.display().to_string();
        let source: Box<dyn Read + Send> = if told == STDIN {
            Box::new(io::stdin())
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
        Ok(Self { frames, path: told })
    }

    /// The next frame; none at the end. After an error there is none.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, ProbeError> {
        let next = self.frames.advance().and_then(|is_there| {
            if !is_there {
                return Ok(None);
            }
            let frame = self.frames.frame();
            let link = LinkType::of(frame.link_type).ok_or(CaptureError::LinkType {
                packet: frame.number,
                offset: frame.offset,
                link_type: frame.link_type,
            })?;
            Ok(Some(Frame {
                time_ns: frame.timestamp_ns,
                link,
                bytes: frame.bytes,
                wire_bytes: frame.wire_bytes,
            }))
        });
        next.map_err(|source| ProbeError::Capture {
            path: self.path.clone(),
            source,
        })
    }
}
