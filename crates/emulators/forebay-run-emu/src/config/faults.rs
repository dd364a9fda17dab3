//! What goes wrong, where and when.

use forebay_config::Block;
use forebay_emu::Pick;
use forebay_emu::card::{CardFault, CardFaultKind, CardFaultRule};
use forebay_settings::settings;
use forebay_wire::felix::Elink;

use super::positive;

settings! {
    /// What goes wrong, where and when; everything else is as it was, and what is lost by it is booked under its name.
    pub struct FaultSettings in [[faults]] {
        /// What: a block that does not go out, jumps in its number, or is damaged; a chunk that is flagged, cut off or changed; a link that is silent (for_us), stops in the middle of a chunk, or does not listen to XOFF.
        kind: Option<CardFaultKind>,
        /// On this E-link alone.
        elink: Option<u16> [0..=2047] => "all but that of messages about triggers",
        /// From this trigger of the run on, counted from 0.
        first: u64 [0..=1 << 60] = 0,
        /// For so many triggers. 0: to the end.
        count: u64 [zero or 1..=1 << 60] = 0,
        /// At each so-many-th of them.
        every: u64 [1..=1 << 60] = 1,
        /// At each of them with this probability, in millionths, instead of `every`.
        chance_ppm: Option<u64> [1..=1_000_000] => "certain",
        /// For stuck_link: how long it is silent.
        for_us: u64 [1..=10_000_000] = 1000,
    }
}

impl FaultSettings {
    /// The rule; none when the block does not say what goes wrong.
    pub(super) fn rule(&self, block: &Block<'_, '_>) -> Option<CardFaultRule> {
        if !block.has("kind") {
            block.complain_whole(
                "it does not say what goes wrong",
                "kind and, if you like, where and when",
                "add kind = \"lost_block\"",
            );
        }
        let kind = self.kind?;
        if kind != CardFaultKind::StuckLink {
            block.idle("for_us", "only a stuck_link lasts for a time");
        }
        let fault = match kind {
            CardFaultKind::LostBlock => CardFault::LostBlock,
            CardFaultKind::JumpedSequence => CardFault::JumpedSequence,
            CardFaultKind::BadTrailer => CardFault::BadTrailer,
            CardFaultKind::WrongMarker => CardFault::WrongMarker,
            CardFaultKind::CrcFlag => CardFault::CrcFlag,
            CardFaultKind::ErrorFlag => CardFault::ErrorFlag,
            CardFaultKind::BusyFlag => CardFault::BusyFlag,
            CardFaultKind::Truncated => CardFault::Truncated,
            CardFaultKind::BitFlip => CardFault::BitFlip,
            CardFaultKind::StoppedLink => CardFault::StoppedLink,
            CardFaultKind::XoffIgnored => CardFault::XoffIgnored,
            CardFaultKind::StuckLink => CardFault::StuckLink {
                for_ns: self.for_us * 1000,
            },
        };
        let first = self.first;
        let after = positive(self.count).map_or(u64::MAX, |count| first.saturating_add(count));
        if self.chance_ppm.is_some() {
            block.idle("every", "it has a chance");
        }
        Some(CardFaultRule {
            elink: self.elink.and_then(Elink::new),
            fault,
            triggers: first..after,
            pick: match (self.chance_ppm, self.every) {
                (Some(ppm), _) => Pick::Chance(ppm as f64 / 1e6),
                (None, 0 | 1) => Pick::Always,
                (None, every) => Pick::Every(every),
            },
        })
    }
}
