//! Signals, in a process of their own.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::fd::AsFd;

use forebay_run::stop::{Cause, Stop, Urgency};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::process;
use forebay_sys::wait::sleep_until_or;

#[test]
fn each_signal_is_more_urgent_than_the_one_before() {
    let stop = Stop::of_process().unwrap();
    for urgency in [Urgency::Drain, Urgency::Hurry, Urgency::Now] {
        process::terminate(std::process::id()).unwrap();
        while stop.urgency() < urgency {
            sleep_until_or([stop.as_fd()], monotonic_ns() + 60_000_000_000, 0).unwrap();
            stop.drain();
        }
        assert_eq!(stop.urgency(), urgency);
    }
    assert_eq!(stop.cause(), Some(Cause::Signal));
}
