//! How the two directions of link readout end: what was lost, what there was in all, and the exit code.

use std::collections::BTreeMap;
use std::process::ExitCode;

use forebay_ledger::Closed;

use crate::output::{counted, print_line};
use crate::session::BROKEN;
use forebay_report::text::{bytes, si};

/// What there was in all.
pub(crate) struct Totals<'a> {
    /// Lost, by place and reason.
    pub(crate) drops: &'a BTreeMap<String, u64>,
    /// So many of these.
    pub(crate) items: (u64, &'static str),
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) books: Closed,
}

impl Totals<'_> {
    pub(crate) fn print(&self) {
        for (reason, count) in self.drops {
            match reason.ends_with("no_subscriber") {
                true => print_line(format_args!("not subscribed ({reason}): {count}")),
                false => print_line(format_args!("lost at {reason}: {count}")),
            }
        }
        let (items, name) = self.items;
        print_line(format_args!(
            "{} of {} in {:.2} s ({}); CPU {:.2} s; residual {} items, {} bytes",
            counted(items, name),
            bytes(self.bytes as f64),
            self.seconds,
            si(items as f64 / self.seconds.max(1e-9), "Hz"),
            self.cpu_seconds,
            self.books.residual_items,
            self.books.residual_bytes,
        ));
        print_left(&self.books);
    }
}

/// What an ended run still says to be inside, if anything.
pub(crate) fn print_left(books: &Closed) {
    if books.left_items > 0 || books.left_bytes > 0 {
        print_line(format_args!(
            "STILL INSIDE by the books: {} items, {} bytes",
            books.left_items, books.left_bytes
        ));
    }
}

/// Whether the books close, and then whether it came to its end with all of its cards.
pub(crate) fn exit_code(is_closed: bool, is_whole: bool) -> ExitCode {
    match (is_closed, is_whole) {
        (false, _) => ExitCode::from(BROKEN),
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::from(2),
    }
}
