//! The packet filter: rules that are tried in their order, of which the first that matches says what becomes of a packet.
//!
//! It stands between decoder and table, and judges packets by their flow's addresses, ports and protocol, which the decoder has read of the whole packet: a
//! [`Action::Trim`] takes bytes from those that read payloads, and changes neither the flow of a packet nor its octets. A packet that no rule matches passes.
//! Each rule counts what it matched and what it discarded; the caller counts what it then did not hand on, and both must agree.

mod parse;
mod rule;

pub use self::parse::RuleError;
pub use self::rule::{Action, Prefix, Protocol, Rule, Side};

use crate::decode::{Frame, Packet};
use crate::record::Volume;
use forebay_settings::{OutOfRange, in_range};

/// Rules of a filter at most: they are tried one after the other.
pub const RULES_MAX: usize = 256;

/// What a rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Packets that it was the first to match.
    pub matched: Volume,
    /// Those of them that it discarded: dropped, or left out by sampling.
    pub discarded: Volume,
    /// Packets of which it took bytes.
    pub trimmed: u64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It goes on.
    pub passes: bool,
    /// The place of the rule that matched, from 0; none if none did.
    pub rule: Option<u16>,
    /// A rule asks for the packet itself to be exported, with so many of its first bytes at most.
    pub export_bytes: Option<u32>,
    /// Bytes of its frame that it goes on with, at most those that there are.
    pub frame_bytes: usize,
}

#[derive(Debug)]
struct Counted {
    rule: Rule,
    counts: RuleCounts,
    /// Packets that sampling leaves out before the next one that it keeps.
    left_out_next: u32,
}

/// Rules with their counts.
#[derive(Debug, Default)]
pub struct Filter {
    rules: Vec<Counted>,
}

impl Filter {
    /// With these rules, tried in this order.
    ///
    /// # Errors
    /// There are more than [`RULES_MAX`].
    pub fn new(rules: &[Rule]) -> Result<Self, OutOfRange> {
        in_range("filter rules", rules.len() as u64, 0, RULES_MAX as u64)?;
        let counted = |rule: &Rule| Counted {
            rule: *rule,
            counts: RuleCounts::default(),
            left_out_next: 0,
        };
        Ok(Self {
            rules: rules.iter().map(counted).collect(),
        })
    }

    /// Whether it lets everything pass as it is.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules in their order, with their counts.
    pub fn rules(&self) -> impl Iterator<Item = (&Rule, &RuleCounts)> {
        self.rules.iter().map(|one| (&one.rule, &one.counts))
    }

    /// What all rules together have discarded, by their own counts.
    #[must_use]
    pub fn discarded(&self) -> Volume {
        let mut sum = Volume::default();
        for (_, counts) in self.rules() {
            sum += counts.discarded;
        }
        sum
    }

    /// Says what becomes of a packet that was read from `frame`. Where it is trimmed, its header and payload end with the bytes that are left of the frame.
    #[inline]
    pub fn judge(&mut self, frame: &Frame<'_>, packet: &mut Packet<'_>) -> Verdict {
        let mut rules = self.rules.iter_mut().enumerate();
        match rules.find(|(_, one)| one.rule.matches(&packet.key)) {
            Some((place, one)) => one.act(place as u16, frame, packet),
            None => Verdict {
                passes: true,
                rule: None,
                export_bytes: None,
                frame_bytes: frame.bytes.len(),
            },
        }
    }
}

impl Counted {
    fn act(&mut self, place: u16, frame: &Frame<'_>, packet: &mut Packet<'_>) -> Verdict {
        let volume = Volume {
            packets: 1,
            octets: packet.octets.into(),
        };
        self.counts.matched += volume;
        let mut verdict = Verdict {
            passes: true,
            rule: Some(place),
            export_bytes: None,
            frame_bytes: frame.bytes.len(),
        };
        match self.rule.action {
            Action::Pass => {}
            Action::Drop => verdict.passes = false,
            Action::Sample { one_in } => verdict.passes = self.is_sampled(one_in),
            Action::Trim { bytes } => verdict.frame_bytes = self.trim(bytes, frame, packet),
            Action::Export { bytes } => verdict.export_bytes = Some(bytes.unwrap_or(u32::MAX)),
        }
        if !verdict.passes {
            self.counts.discarded += volume;
        }
        verdict
    }

    /// Of each `one_in` packets the first is kept: systematic sampling by count (RFC 5475, section 5.1).
    const fn is_sampled(&mut self, one_in: u32) -> bool {
        if self.left_out_next == 0 {
            self.left_out_next = one_in.saturating_sub(1);
            return true;
        }
        self.left_out_next -= 1;
        false
    }

    fn trim(&mut self, bytes: u32, frame: &Frame<'_>, packet: &mut Packet<'_>) -> usize {
        let left = (bytes as usize).min(frame.bytes.len());
        if left < frame.bytes.len() {
            self.counts.trimmed += 1;
            let end = frame.bytes.as_ptr().addr() + left;
            packet.header = before(packet.header, end);
            packet.payload = before(packet.payload, end);
        }
        left
    }
}

/// What of a part of a frame lies before an address; an empty part lies anywhere.
fn before(part: &[u8], end: usize) -> &[u8] {
    let left = end.saturating_sub(part.as_ptr().addr()).min(part.len());
    &part[..left]
}

#[cfg(test)]
mod tests;
