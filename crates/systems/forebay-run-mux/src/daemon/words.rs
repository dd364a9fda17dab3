//! What people are told of the card.

use crate::driver::{Change, Link};

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
