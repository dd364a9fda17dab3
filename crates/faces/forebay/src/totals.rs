//! How the two directions of link readout end: what was lost, what there was in all, and the exit code.

use std::process::ExitCode;

use forebay_ledger::{Closed, NO_SUBSCRIBER};
use forebay_run::record::Envelope;

use crate::output::{counted, print_line};
use crate::session::BROKEN;
use forebay_report::text::{bytes, si};

/// What was lost, and what there was in all: so many items of so many bytes.
pub(crate) fn print_totals(envelope: &Envelope, (items, name): (u64, &str), all_bytes: u64) {
    for (reason, count) in envelope.drops_by_reason() {
        match reason.ends_with(NO_SUBSCRIBER) {
            true => print_line(format_args!("not subscribed ({reason}): {count}")),
            false => print_line(format_args!("lost at {reason}: {count}")),
        }
    }
    print_line(format_args!(
        "{} of {} in {:.2} s ({}); CPU {:.2} s; residual {} items, {} bytes",
        counted(items, name),
        bytes(all_bytes as f64),
        envelope.duration_s,
        si(items as f64 / envelope.duration_s.max(1e-9), "Hz"),
        envelope.cpu_s(),
        envelope.books.residual_items,
        envelope.books.residual_bytes,
    ));
    print_left(&envelope.books);
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
