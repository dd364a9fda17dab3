//! How a port is opened.

use crate::error::XdpError;
use crate::sys::xsk::flag;

/// Most buffers of a kind.
const BUFFERS_MAX: u32 = 1 << 20;

/// Whether frames are copied between the driver's memory and the port's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// They are: with any driver.
    Copy,
    /// They are not where the driver can do without, and are where it cannot.
    IfNeeded,
    /// They are not: with a driver that can.
    Never,
}

/// How a port is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Buffers for frames that come: a power of two of at most 2^20, or 0 for a port that takes none.
    pub receive_buffers: u32,
    /// Places of the receive ring, a power of two: with as many as buffers, it is never full.
    pub receive_ring: u32,
    /// Buffers for frames that go, and places of the send ring: a power of two of at most 2^20, or 0 for a port that sends none.
    pub send_buffers: u32,
    /// Size of each buffer, in bytes: 2,048 or 4,096. The kernel leaves 256 of them free in front of a frame that comes.
    pub buffer_bytes: u32,
    /// Whether frames are copied.
    pub copying: Copying,
    /// Frames that are longer than a buffer come, if kernel and driver can do that. If not, they are lost, and counted.
    pub pieces: bool,
}

impl Default for PortConfig {
    /// 4,096 buffers each way of 4,096 bytes, and a copy only where it is needed.
    fn default() -> Self {
        Self {
            receive_buffers: 4_096,
            receive_ring: 4_096,
            send_buffers: 4_096,
            buffer_bytes: 4_096,
            copying: Copying::IfNeeded,
            pieces: true,
        }
    }
}

impl PortConfig {
    pub(super) fn validate(&self) -> Result<(), XdpError> {
        let within = |name, value: u32, low: u32, high: u32| {
            let is_right = value.is_power_of_two() && (low..=high).contains(&value);
            let error = XdpError::Power {
                name,
                value: value.into(),
                low: low.into(),
                high: high.into(),
            };
            if is_right { Ok(()) } else { Err(error) }
        };
        within("buffer_bytes", self.buffer_bytes, 2_048, 4_096)?;
        if self.receive_buffers > 0 {
            within("receive_buffers", self.receive_buffers, 2, BUFFERS_MAX)?;
            within("receive_ring", self.receive_ring, 2, BUFFERS_MAX)?;
        }
        if self.send_buffers > 0 || self.receive_buffers == 0 {
            within("send_buffers", self.send_buffers, 2, BUFFERS_MAX)?;
        }
        Ok(())
    }

    /// Flags of bind, in the order in which they are tried: with frames of several pieces first, which Linux before 6.6 and some drivers do not have.
    pub(super) fn tries(&self) -> impl Iterator<Item = u16> {
        let copies: &[u16] = match self.copying {
            Copying::Copy => &[flag::COPY],
            Copying::Never => &[flag::ZERO_COPY],
            Copying::IfNeeded => &[flag::ZERO_COPY, flag::COPY],
        };
        let pieces: &[u16] = if self.pieces {
            &[flag::PIECES, 0]
        } else {
            &[0]
        };
        let both = copies
            .iter()
            .flat_map(move |copy| pieces.iter().map(move |pieces| copy | pieces));
        both.map(|flags| flags | flag::NEED_WAKEUP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_better_is_tried_first() {
        let tries = |copying, pieces| {
            let config = PortConfig {
                copying,
                pieces,
                ..PortConfig::default()
            };
            config.tries().collect::<Vec<_>>()
        };
        assert_eq!(tries(Copying::IfNeeded, true), [28, 12, 26, 10]);
        assert_eq!(tries(Copying::Never, true), [28, 12]);
        assert_eq!(tries(Copying::Copy, false), [10]);
    }

    #[test]
    fn settings_are_checked_at_both_ends_where_they_are_used() {
        fn with(change: impl FnOnce(&mut PortConfig)) -> Option<&'static str> {
            let mut config = PortConfig::default();
            change(&mut config);
            match config.validate() {
                Err(XdpError::Power { name, .. }) => Some(name),
                other => other.err().map(|_| "another error"),
            }
        }
        type Set = fn(&mut PortConfig, u32);
        let all: [(&str, Set, u32); 4] = [
            ("buffer_bytes", |it, value| it.buffer_bytes = value, 2_048),
            ("receive_buffers", |it, value| it.receive_buffers = value, 2),
            ("receive_ring", |it, value| it.receive_ring = value, 2),
            ("send_buffers", |it, value| it.send_buffers = value, 2),
        ];
        for (name, set, low) in all {
            let high = if low == 2 { BUFFERS_MAX } else { 4_096 };
            for right in [low, high] {
                assert_eq!(with(|it| set(it, right)), None, "{name} {right}");
            }
            for wrong in [low / 2, low + low / 2, high * 2] {
                assert_eq!(with(|it| set(it, wrong)), Some(name), "{name} {wrong}");
            }
        }
        // An end that is not there has no ring, and one of both is there.
        assert_eq!(with(|it| it.send_buffers = 0), None);
        let only_sends = |it: &mut PortConfig| (it.receive_buffers, it.receive_ring) = (0, 3);
        assert_eq!(with(only_sends), None);
        let neither = |it: &mut PortConfig| (it.receive_buffers, it.send_buffers) = (0, 0);
        assert_eq!(with(neither), Some("send_buffers"));
        assert_eq!(with(|it| it.receive_ring = 0), Some("receive_ring"));
    }
}
