//! When triggers come.

use forebay_config::Block;
use forebay_emu::Limit;
use forebay_emu::card::{Spread, Trains, TtcConfig};
use forebay_settings::settings;

use super::positive;
use super::words::SpreadWord;

settings! {
    /// Triggers (timing, trigger and control).
    pub struct TtcSettings in [ttc] {
        /// Triggers asked for in a second of the card's time, on average. BUSY holds some of them back.
        rate_hz: u64 [1..=100_000_000] = 100_000,
        /// How they are spread: at the same distance, at random, or at random over trains of filled bunches.
        spread: SpreadWord = SpreadWord::Fixed,
        /// For trains: how many in an orbit of 3564 bunches.
        trains: u16 [1..=3564] = Trains::default().trains,
        /// For trains: bunches of a train.
        train_bunches: u16 [1..=3564] = Trains::default().bunches,
        /// For trains: empty bunches between two trains.
        gap_bunches: u16 [0..=3564] = Trains::default().gap_bunches,
        /// No other trigger for so many bunches after one.
        dead_time_bunches: u64 [0..=3564] = 0,
        /// Resets the trigger number (ECR) so often. 0: never.
        ecr_period_us: u64 [zero or 1..=3_600_000_000] = 0,
        /// The DMA buffer that gets a message about each trigger, on E-link 0x600.
        messages_to: Option<usize> [0..=7] => "no messages",
        /// What these messages say of each trigger.
        trigger_type: u16 [0..=65_535] = 1,
        /// Ends the run after so many triggers. 0: not by number.
        triggers: u64 [zero or 1..=1 << 48] = 0,
        /// Ends the run after so much of the card's time. 0: by Ctrl-C or SIGTERM.
        duration_ms: u64 [zero or 1..=1 << 40] = 0,
    }
}

impl TtcSettings {
    /// Triggers of a card with so many DMA buffers.
    pub(super) fn config(&self, block: &Block<'_, '_>, buffers: usize) -> TtcConfig {
        let spread = match self.spread {
            SpreadWord::Fixed => Spread::Fixed,
            SpreadWord::Poisson => Spread::Poisson,
            SpreadWord::Trains => Spread::Trains(Trains {
                trains: self.trains,
                bunches: self.train_bunches,
                gap_bunches: self.gap_bunches,
            }),
        };
        if self.spread != SpreadWord::Trains {
            for name in ["trains", "train_bunches", "gap_bunches"] {
                block.idle(name, "triggers are not spread over trains");
            }
        }
        if self.messages_to.is_some_and(|buffer| buffer >= buffers) {
            no_such_buffer(block, "messages_to", buffers);
        }
        TtcConfig {
            spread,
            dead_time_bunches: self.dead_time_bunches,
            ecr_period_ns: positive(self.ecr_period_us).map(|us| us * 1000),
            to_host: self.messages_to,
            trigger_type: self.trigger_type,
            limit: Limit {
                events: positive(self.triggers),
                duration_ns: positive(self.duration_ms).map(|ms| ms * 1_000_000),
            },
            ..TtcConfig::at_rate(self.rate_hz as f64)
        }
    }
}

/// The key names a DMA buffer that a card with so many does not have.
pub(super) fn no_such_buffer(block: &Block<'_, '_>, key: &str, buffers: usize) {
    block.complain(
        key,
        &format!("there is no such buffer: the card has {buffers}, counted from 0"),
        &format!("an integer from 0 to {}", buffers - 1),
        "name another one, or give [card] more dma_buffers",
    );
}
