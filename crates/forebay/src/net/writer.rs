//! A thread that writes, so that an output that takes nothing for a while holds up nothing but itself.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Messages in a row: their bytes, where each of them ends in these, and the bytes of its payload.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<(usize, usize)>,
}

/// What became of a batch.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) batch: Batch,
    /// Bytes that the system took.
    pub(super) bytes: usize,
    pub(super) outcome: io::Result<()>,
}

/// One batch is written at a time.
#[derive(Debug)]
pub(super) struct Writer {
    to: SyncSender<Batch>,
    from: Receiver<Written>,
    busy: bool,
}

impl Writer {
    pub(super) fn start(file: File) -> io::Result<Self> {
        let (to, batches) = sync_channel::<Batch>(1);
        let (done, from) = sync_channel(1);
        std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || {
                for batch in batches {
                    let (bytes, outcome) = write_all(&file, &batch.bytes);
                    let written = Written {
                        batch,
                        bytes,
                        outcome,
                    };
                    // Nobody waits for it any more.
                    if done.send(written).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            to,
            from,
            busy: false,
        })
    }

    /// Whether a batch is being written, or its outcome was not yet asked for.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Begins to write; only when it is not busy.
    pub(super) fn begin(&mut self, batch: Batch) {
        // A thread that panicked shows when it is asked.
        self.busy = self.to.send(batch).is_ok();
    }

    /// What became of the batch, if that shows within `most`.
    pub(super) fn done(&mut self, most: Duration) -> Option<Written> {
        if !self.busy {
            return None;
        }
        let written = match self.from.recv_timeout(most) {
            Err(RecvTimeoutError::Timeout) => return None,
            Ok(written) => written,
            Err(RecvTimeoutError::Disconnected) => Written {
                batch: Batch::default(),
                bytes: 0,
                outcome: Err(io::Error::other("the thread that writes has ended")),
            },
        };
        self.busy = false;
        Some(written)
    }
}

/// Writes all of it, or says how much was.
fn write_all(mut to: &File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut at = 0;
    while at < bytes.len() {
        match to.write(&bytes[at..]) {
            Ok(0) => return (at, Err(ErrorKind::WriteZero.into())),
            Ok(count) => at += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (at, Err(error)),
        }
    }
    (at, Ok(()))
}
