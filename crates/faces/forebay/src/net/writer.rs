//! A thread that writes, so that an output that takes nothing for a while holds up nothing but itself.

use std::io::{self, ErrorKind, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use forebay_sys::watched::{Gone, LOOK, WatchedFile};

/// How long the end waits for a last look.
const LAST_LOOK: Duration = Duration::from_secs(2);

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

/// What somebody did to the file.
#[derive(Debug)]
pub(super) enum Found {
    /// Messages that were written are gone.
    Gone(Gone),
    /// For the operator.
    Note(String),
}

/// One batch is written at a time.
#[derive(Debug)]
pub(super) struct Writer {
    to: Option<SyncSender<Batch>>,
    from: Receiver<Written>,
    found: Receiver<Found>,
    busy: bool,
}

impl Writer {
    pub(super) fn start(mut file: WatchedFile) -> io::Result<Self> {
        let (to, batches) = sync_channel::<Batch>(1);
        let (done, from) = sync_channel(1);
        let (tell, found) = channel();
        std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || {
                loop {
                    let batch = batches.recv_timeout(LOOK);
                    look(&mut file, &tell);
                    let batch = match batch {
                        Ok(batch) => batch,
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => return,
                    };
                    let (bytes, outcome) = write_all(&mut file, &batch);
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
            to: Some(to),
            from,
            found,
            busy: false,
        })
    }

    /// What was found at the last looks at the file.
    pub(super) fn found(&self) -> Option<Found> {
        self.found.try_recv().ok()
    }

    /// Nothing more is written, and nothing is being written: what is found at the last look.
    pub(super) fn end(&mut self) -> Vec<Found> {
        drop(self.to.take());
        let mut found = Vec::new();
        while let Ok(one) = self.found.recv_timeout(LAST_LOOK) {
            found.push(one);
        }
        found
    }

    /// Whether a batch is being written, or its outcome was not yet asked for.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Begins to write; only when it is not busy.
    pub(super) fn begin(&mut self, batch: Batch) {
        // A thread that panicked shows when it is asked.
        self.busy = self.to.as_ref().is_some_and(|to| to.send(batch).is_ok());
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

fn look(file: &mut WatchedFile, tell: &Sender<Found>) {
    let gone = file.look().map(Found::Gone);
    let notes = file.notes().into_iter().map(Found::Note);
    for found in gone.into_iter().chain(notes) {
        // Nobody asks any more.
        let _ = tell.send(found);
    }
}

/// Writes all of it, or says how much was; the file knows where messages lie in it.
fn write_all(to: &mut WatchedFile, batch: &Batch) -> (usize, io::Result<()>) {
    let mut at = 0;
    let mut outcome = Ok(());
    while at < batch.bytes.len() {
        match to.write(&batch.bytes[at..]) {
            Ok(0) => {
                outcome = Err(ErrorKind::WriteZero.into());
                break;
            }
            Ok(count) => at += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    let mut begin = 0;
    let written = batch.ends.iter().take_while(|(end, _)| *end <= at);
    for (end, payload_bytes) in written {
        to.note((end - begin) as u64, 1, *payload_bytes as u64);
        begin = *end;
    }
    (at, outcome)
}
