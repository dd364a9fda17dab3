//! The thread that reads a capture.

use forebay_run::stop::Stop;
use forebay_sys::clock;

use crate::books::CaptureBook;
use crate::flows::Flows;
use crate::source::Capture;

/// Frames after which the clock, the order to end and what the table below has to say are looked at.
const LOOK_FRAMES: u32 = 2_048;
/// Books are shown and records handed over so often, in ns.
const LOOK_NS: u64 = 100_000_000;

/// Reads to the end, or until it shall end: what is wrong with the capture, and what was counted.
pub(crate) fn run<'a>(
    mut capture: Capture,
    mut flows: Flows<'a>,
    mut book: CaptureBook,
    stop: &Stop,
) -> (Option<String>, Flows<'a>) {
    let mut look_ns = clock::monotonic_ns() + LOOK_NS;
    let broken = loop {
        match read(&mut capture, &mut flows) {
            Ok(true) => {}
            Ok(false) => break None,
            // Standard input that is waited for ends with the order.
            Err(_) if stop.is_asked() => break None,
            Err(error) => break Some(error.to_string()),
        }
        if stop.is_asked() {
            break None;
        }
        let now_ns = clock::monotonic_ns();
        if now_ns >= look_ns {
            look_ns = now_ns + LOOK_NS;
            flows.hand_over();
            book.show(&flows, None);
        }
    };
    flows.end_all();
    book.show_end(&flows, None);
    (broken, flows)
}

/// Reads some frames; whether there may be more.
fn read(capture: &mut Capture, flows: &mut Flows<'_>) -> Result<bool, crate::ProbeError> {
    for _ in 0..LOOK_FRAMES {
        let Some(frame) = capture.next()? else {
            return Ok(false);
        };
        flows.take(&frame);
    }
    flows.settle();
    flows.look_below();
    while flows.has_told() {
        flows.hear_below();
    }
    Ok(true)
}
