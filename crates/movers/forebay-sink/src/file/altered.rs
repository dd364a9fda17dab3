//! What somebody else does to the open file: it is removed, cut or renamed.

use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_ledger::{Taint, TaintKind};
use forebay_sys::watched::{Fate, fate, moved_to};
use forebay_wire::hld::{EVENT_HEADER_BYTES, EventId};

use super::HldWriter;
use super::open::frame;
use crate::books::SinkBooks;
use crate::kept::Kept;
use crate::writer::Told;

/// So many times a removed or cut file is told by its name; further ones are counted.
const REMOVED_TOLD_MAX: u32 = 16;

impl HldWriter {
    /// Looks whether the open file is as it was left. What is not there any more is counted, and a new file begins with the
    /// next block; true when the books must be committed.
    pub(super) fn look(&mut self, books: &mut SinkBooks) -> bool {
        let Some(open) = &self.open else { return false };
        let (path, fate) = (open.path.clone(), fate(&open.file, open.offset));
        match fate {
            Ok(Fate::Whole) => false,
            // Blocks are on their way into it.
            Ok(Fate::Longer) if !self.staged.is_empty() => false,
            Ok(Fate::Longer) => {
                tracing::warn!(path = %path.display(), "what is behind its events is cut off");
                open.cut_back();
                false
            }
            Ok(Fate::Removed) => {
                self.lose("removed", false, books);
                true
            }
            Ok(Fate::Cut { bytes }) => {
                self.lose(&format!("cut to {bytes} bytes"), true, books);
                true
            }
            Err(error) => {
                self.taint(&error, &path);
                false
            }
        }
    }

    /// Closes a file that somebody removed or cut. What is left of the latter becomes a sound file again.
    fn lose(&mut self, how: &str, has_front: bool, books: &mut SinkBooks) {
        // What is on its way goes the way of the file.
        self.drain(books);
        let Some(open) = self.open.take() else { return };
        let kept = has_front.then(|| {
            let bytes = open.file.metadata().map_or(0, |data| data.len());
            Kept::count(&open.file, open.run, bytes)
        });
        if let Some(kept) = kept
            && open.file.set_len(kept.end).is_ok()
            && kept.end > 0
        {
            let stop = frame(EventId::STOP, open.run);
            if open.file.write_all_at(&stop, kept.end).is_ok() {
                books.book.add(books.words.written, stop.len() as u64);
            }
        }
        let kept = kept.unwrap_or_default();
        let events = open.events.saturating_sub(kept.events);
        let bytes = open.offset - kept.end.max(EVENT_HEADER_BYTES as u64);
        self.count_removed(how, &open.path, (events, bytes), books);
    }

    pub(super) fn count_removed(
        &mut self,
        how: &str,
        path: &Path,
        (events, bytes): (u64, u64),
        books: &mut SinkBooks,
    ) {
        books.book.add(books.words.removed_files, 1);
        books.book.add_tally(books.words.removed, events, bytes);
        for word in books.words.file {
            books.book.set(word, 0);
        }
        let path = path.display();
        self.tell_removed(format!(
            "{path} was {how} while it was written: {events} events ({bytes} bytes) that were in it are gone"
        ));
    }

    /// Tells what was on its way to a file that somebody cut.
    pub(super) fn tell_waiting(&mut self, path: &Path, events: u64, bytes: u64) {
        let path = path.display();
        self.tell_removed(format!(
            "{path} was cut while {events} events ({bytes} bytes) were on their way to it: they are dropped (file_cut)"
        ));
    }

    fn tell_removed(&mut self, text: String) {
        if self.removed_told == REMOVED_TOLD_MAX {
            return;
        }
        self.removed_told += 1;
        tracing::error!("output_removed: {text}; further events go into a new file");
        let taint = Taint::new(TaintKind::OutputRemoved, text);
        self.reports.push(Told::Tainted(taint));
    }

    /// Tells once that the open file has another name now: its events are there, where nobody may look for them.
    pub(super) fn look_for_name(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| !open.moved_told) else {
            return;
        };
        if let Some(now) = moved_to(&open.file, &open.path) {
            open.moved_told = true;
            let (path, now) = (open.path.display(), now.display());
            let text = format!("{path} was renamed while it was written; it is now {now}");
            self.reports.push(Told::Warning(text));
        }
    }
}
