//! How the two directions of link readout end: what was lost, what there was in all, and the exit code.

use std::collections::BTreeMap;
use std::process::ExitCode;

use crate::output::{bytes, counted, print_line, si};
use crate::session::BROKEN;

/// What there was in all.
pub(crate) struct Totals<'a> {
    /// Lost, by place and reason.
    pub(crate) drops: &'a BTreeMap<String, u64>,
    /// So many of these.
    pub(crate) items: (u64, &'static str),
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) residual_items: u64,
    pub(crate) residual_bytes: u64,
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
            self.residual_items,
            self.residual_bytes,
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
