//! What was taken, sent, dropped and is held.

use super::{Outbound, Totals};

/// Messages and bytes that were dropped, each counted by its reason where that happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// For want of credit, as the policy for a slow receiver says.
    pub slow: [u64; 2],
    /// Held when the connection was gone or the receiver let go.
    pub lost: [u64; 2],
    /// Longer than the receiver's buffers.
    pub too_long: [u64; 2],
}

impl Dropped {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> [u64; 2] {
        [0, 1].map(|of| self.slow[of] + self.lost[of] + self.too_long[of])
    }
}

impl<M> Outbound<M> {
    /// Messages and bytes that were sent and not confirmed: when the connection breaks, nobody here can say what became of them. They may have
    /// taken effect at the receiver, or not.
    #[must_use]
    pub fn unconfirmed(&self) -> [u64; 2] {
        let [messages, bytes] = self.confirmed;
        [self.totals.messages - messages, self.totals.bytes - bytes]
    }

    /// Messages and bytes that the receiver has confirmed, by its own count.
    #[must_use]
    pub fn confirmed(&self) -> [u64; 2] {
        self.confirmed
    }

    /// Whether everything that was pushed is sent, and given back.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.held[0] == 0 && self.credited == self.totals.buffers
    }

    /// What was sent and dropped so far; with nothing held, what the end frame says.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let [messages_dropped, bytes_dropped] = self.dropped.sum();
        Totals {
            messages_dropped,
            bytes_dropped,
            ..self.totals
        }
    }

    /// What was dropped so far.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Messages and bytes pushed: taken or dropped.
    #[must_use]
    pub fn pushed(&self) -> [u64; 2] {
        self.pushed
    }

    /// Messages and bytes in buffers that the link has not taken.
    #[must_use]
    pub fn held(&self) -> [u64; 2] {
        self.held
    }

    /// Pushed − sent − dropped − held, in messages and bytes; anything but 0 is a fault of this engine.
    #[must_use]
    pub fn residual(&self) -> [i128; 2] {
        let left = |pushed: u64, sent: u64, dropped: u64, held: u64| {
            let held = i128::from(held.cast_signed());
            i128::from(pushed) - i128::from(sent) - i128::from(dropped) - held
        };
        let totals = self.totals();
        [
            left(
                self.pushed[0],
                totals.messages,
                totals.messages_dropped,
                self.held[0],
            ),
            left(
                self.pushed[1],
                totals.bytes,
                totals.bytes_dropped,
                self.held[1],
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    /// Sound books have no residual: each term is put off here by 3 messages and 70 bytes.
    #[test]
    fn a_term_that_is_off_is_the_residual() {
        let off = |put: fn(&mut Outbound)| {
            let mut sending = Outbound::new(&Config::default(), 1).unwrap();
            sending.push(0, 1, 0, &[0; 10]);
            assert_eq!((sending.pushed(), sending.held()), ([1, 10], [1, 10]));
            put(&mut sending);
            sending.residual()
        };
        assert_eq!(off(|_| ()), [0, 0]);
        assert_eq!(off(|it| it.pushed = [4, 80]), [3, 70], "nowhere");
        assert_eq!(off(|it| it.held = [4, 80]), [-3, -70]);
        assert_eq!(
            off(|it| (it.totals.messages, it.totals.bytes) = (3, 70)),
            [-3, -70]
        );
        assert_eq!(off(|it| it.dropped.slow = [3, 70]), [-3, -70]);
        assert_eq!(off(|it| it.dropped.lost = [3, 70]), [-3, -70]);
        assert_eq!(off(|it| it.dropped.too_long = [3, 70]), [-3, -70]);
        // More taken off than was held shows as what it is.
        assert_eq!(off(|it| it.held = [u64::MAX, 0]), [2, 10]);
    }
}
