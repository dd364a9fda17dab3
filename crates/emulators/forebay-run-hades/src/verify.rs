//! Reading back what was written: the structure of every event and, for emulated sources, every byte of payload.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use forebay_emu::Verifier;
use forebay_run::error::RunError;
use forebay_wire::hld_scan::{Ending, Item, Scanner};

use crate::{GeneratorPlan, wrong};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// What was found in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Files read.
    pub files: u64,
    /// Events.
    pub events: u64,
    /// Of these, flagged incomplete.
    pub events_incomplete: u64,
    /// Sub-events.
    pub subevents: u64,
    /// Bytes.
    pub bytes: u64,
    /// Places that cannot be read.
    pub broken: u64,
    /// Sub-events that are not what the emulator sent.
    pub payload_mismatches: u64,
    /// Files without a stop event at their end.
    pub unfinished: u64,
}

impl Verified {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.broken == 0 && self.payload_mismatches == 0 && self.unfinished == 0
    }
}

/// Reads `files`; with `generator` each sub-event is compared with what it must have sent.
///
/// # Errors
/// A file cannot be read.
pub fn verify<P: AsRef<Path>>(
    files: &[P],
    generator: Option<&GeneratorPlan>,
) -> Result<Verified, RunError> {
    let mut found = Verified::default();
    let verifier = generator.map(|plan| Verifier::new(&plan.config()));
    let mut verifier = verifier.transpose().map_err(wrong)?;
    for path in files {
        verify_file(path.as_ref(), verifier.as_mut(), &mut found)?;
    }
    Ok(found)
}

fn verify_file(
    path: &Path,
    mut verifier: Option<&mut Verifier>,
    found: &mut Verified,
) -> Result<(), RunError> {
    let mut file = File::open(path).map_err(RunError::file("opening", path))?;
    let mut scanner = Scanner::new();
    found.files += 1;
    loop {
        let room = scanner.room(CHUNK_BYTES);
        let count = file.read(room).map_err(RunError::file("reading", path))?;
        found.bytes += count as u64;
        if count == 0 {
            scanner.finish();
        } else {
            scanner.filled(count);
        }
        while let Some(item) = scanner.poll_item() {
            count_item(&item, verifier.as_deref_mut(), found);
        }
        if count == 0 {
            found.unfinished += u64::from(!matches!(scanner.ending(), Some(Ending::Clean)));
            return Ok(());
        }
    }
}

fn count_item(item: &Item<'_>, verifier: Option<&mut Verifier>, found: &mut Verified) {
    match item {
        Item::Event(found_event) => {
            let event = found_event.event;
            found.events += 1;
            found.events_incomplete += u64::from(event.header().id.is_incomplete());
            let mut verifier = verifier;
            for sub in event.sub_events() {
                let Ok(sub) = sub else {
                    found.broken += 1;
                    break;
                };
                found.subevents += 1;
                if let Some(verifier) = verifier.as_deref_mut() {
                    found.payload_mismatches += u64::from(verifier.check(sub.as_bytes()).is_err());
                }
            }
        }
        Item::Broken { .. } => found.broken += 1,
        Item::Start { .. } | Item::Stop { .. } => {}
    }
}
