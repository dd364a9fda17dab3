//! What people are told of the card.

use crate::driver::{CardInDrop, Change, Link};

/// A change in words; what to do about it, where there is something. Frames of clients are made for packets of so many bytes at most.
pub(super) fn told(name: &str, change: Change, longest: u32) -> String {
    match change {
        Change::Link { to: Link::Up, .. } => format!("{name} is up"),
        Change::Link {
            to: Link::NoCarrier,
            ..
        } => {
            format!("{name} has no carrier: what clients send is lost until it is back")
        }
        Change::Link { to: Link::Down, .. } => {
            format!("{name} is down: what clients send is lost until it is up")
        }
        Change::Link { to: Link::Gone, .. } => format!("{name} is gone"),
        Change::Mtu { from, to } if to > longest => format!(
            "{name} has an MTU of {to} bytes instead of {from}: clients have frames for {longest}, longer ones are dropped until the multiplexer is started again"
        ),
        Change::Mtu { from, to } => format!("{name} has an MTU of {to} bytes instead of {from}"),
        Change::Mac { from, to } => format!("{name} has the address {to} instead of {from}"),
    }
}

/// Frames that were lost as they came to the card, and what to do about it.
pub(super) fn lost(name: &str, why: CardInDrop, frames: u64, longest: u32) -> String {
    let because = match why {
        CardInDrop::TooLong => format!(
            "are longer than {longest} bytes, which the MTU gave at the start: start again with a larger one, or, where a kernel joins packets, `ethtool -K IF tso off gso off` at the other end and `ethtool -K {name} gro off` here"
        ),
        CardInDrop::RingFull => {
            "came faster than the daemon took them: `cpu` and `real_time` give it more of the host"
                .to_owned()
        }
        CardInDrop::NoBuffer => {
            "came faster than the daemon gave buffers back, or are longer than one: `cpu` and `real_time` give it more of the host, and a shorter MTU at the other end shorter frames".to_owned()
        }
        CardInDrop::Cut | CardInDrop::Disbelieved => {
            "were not given whole by the kernel or the capture: report it, with what `forebay doctor` says of the host".to_owned()
        }
    };
    let reason = why.name();
    format!(
        "{name}: frames are lost as they come ({reason}, {frames} so far; told once): they {because}"
    )
}
