//! What can go wrong on an E-link of a card, and when.
//!
//! Whether a rule strikes is a function of the seed, the rule, the E-link and the trigger, so a run with the same seed fails in the same way.

use std::ops::Range;

use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_settings::{Got, Kind, Setting};
use forebay_wire::felix::{Elink, Flags, Layout};

use super::config::CardConfigError;
use super::payload::{Chunk, End, Flip, Spoil};
use crate::config::in_range;
use crate::fault::Pick;
use crate::rng::hash;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardFault {
    /// The block in which the chunk ends takes its sequence number and does not go out.
    LostBlock,
    /// The sequence number of that block jumps by 1 to 31, and those behind it count on from there.
    JumpedSequence,
    /// A word of that block says more bytes than there are. It is in the DMA buffer, and what is in it is lost.
    BadTrailer,
    /// That block begins with another marker. It is in the DMA buffer, and what is in it is lost.
    WrongMarker,
    /// The chunk is flagged: its check sum was wrong.
    CrcFlag,
    /// The chunk is flagged: the link or the front end made a mistake.
    ErrorFlag,
    /// The chunk is flagged: the front end was busy. Words of 16 bits cannot say it.
    BusyFlag,
    /// The chunk loses its end on the link, and is flagged.
    Truncated,
    /// A bit of the chunk behind its head is another one, unflagged.
    BitFlip,
    /// The link is silent for a time before the chunk.
    StuckLink {
        /// How long, in nanoseconds, 1 to 10,000,000,000.
        for_ns: u64,
    },
    /// The link stops for good in the middle of the chunk. Its front end goes on, and what it makes is lost.
    StoppedLink,
    /// The front end sends the chunk though it was told to stop.
    XoffIgnored,
}

impl CardFault {
    /// The names of all, in counters and files.
    pub const NAMES: [&str; CardFaultKind::COUNT] = {
        let mut names = [""; CardFaultKind::COUNT];
        let mut at = 0;
        while at < names.len() {
            names[at] = CardFaultKind::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Of which kind it is.
    #[must_use]
    pub const fn kind(self) -> CardFaultKind {
        match self {
            Self::LostBlock => CardFaultKind::LostBlock,
            Self::JumpedSequence => CardFaultKind::JumpedSequence,
            Self::BadTrailer => CardFaultKind::BadTrailer,
            Self::WrongMarker => CardFaultKind::WrongMarker,
            Self::CrcFlag => CardFaultKind::CrcFlag,
            Self::ErrorFlag => CardFaultKind::ErrorFlag,
            Self::BusyFlag => CardFaultKind::BusyFlag,
            Self::Truncated => CardFaultKind::Truncated,
            Self::BitFlip => CardFaultKind::BitFlip,
            Self::StuckLink { .. } => CardFaultKind::StuckLink,
            Self::StoppedLink => CardFaultKind::StoppedLink,
            Self::XoffIgnored => CardFaultKind::XoffIgnored,
        }
    }

    /// Its name in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.kind().name()
    }
}

reasons! {
    /// The kinds of [`CardFault`], for counters.
    pub enum CardFaultKind {
        /// [`CardFault::LostBlock`].
        LostBlock = "lost_block",
        /// [`CardFault::JumpedSequence`].
        JumpedSequence = "jumped_sequence",
        /// [`CardFault::BadTrailer`].
        BadTrailer = "bad_trailer",
        /// [`CardFault::WrongMarker`].
        WrongMarker = "wrong_marker",
        /// [`CardFault::CrcFlag`].
        CrcFlag = "crc_flag",
        /// [`CardFault::ErrorFlag`].
        ErrorFlag = "error_flag",
        /// [`CardFault::BusyFlag`].
        BusyFlag = "busy_flag",
        /// [`CardFault::Truncated`].
        Truncated = "truncated",
        /// [`CardFault::BitFlip`].
        BitFlip = "bit_flip",
        /// [`CardFault::StuckLink`].
        StuckLink = "stuck_link",
        /// [`CardFault::StoppedLink`].
        StoppedLink = "stopped_link",
        /// [`CardFault::XoffIgnored`].
        XoffIgnored = "xoff_ignored",
    }
}

/// A kind is a word of a file.
impl Setting for CardFaultKind {
    const KIND: Kind = Kind::Choice(&CardFault::NAMES);

    fn of(got: &Got) -> Option<Self> {
        Self::named(got.text()?)
    }

    fn got(&self) -> Option<Got> {
        Some(Got::Text(self.name().into()))
    }
}

/// How often each kind of fault struck.
pub type CardFaults = PerReason<CardFaultKind, u64, { CardFaultKind::COUNT }>;

/// One fault, where, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct CardFaultRule {
    /// The E-link; none for all but the one for messages about triggers.
    pub elink: Option<Elink>,
    /// What goes wrong.
    pub fault: CardFault,
    /// Triggers of the run, counted from 0, at whose chunks it may.
    pub triggers: Range<u64>,
    /// Which of them.
    pub pick: Pick,
}

impl CardFaultRule {
    /// The fault at each trigger, on all E-links.
    #[must_use]
    pub fn new(fault: CardFault) -> Self {
        Self {
            elink: None,
            fault,
            triggers: 0..u64::MAX,
            pick: Pick::Always,
        }
    }

    /// On this E-link alone.
    #[must_use]
    pub fn on(self, elink: Elink) -> Self {
        Self {
            elink: Some(elink),
            ..self
        }
    }

    /// At one trigger alone.
    #[must_use]
    pub fn at(self, trigger: u64) -> Self {
        self.during(trigger..trigger.saturating_add(1))
    }

    /// Only for triggers of this range.
    #[must_use]
    pub fn during(self, triggers: Range<u64>) -> Self {
        Self { triggers, ..self }
    }

    /// Only for these of the range.
    #[must_use]
    pub fn pick(self, pick: Pick) -> Self {
        Self { pick, ..self }
    }

    pub(super) fn validate(&self, elinks: &[Elink], layout: Layout) -> Result<(), CardConfigError> {
        if let Some(elink) = self.elink.filter(|elink| !elinks.contains(elink)) {
            return Err(CardConfigError::FaultElink { elink });
        }
        if self.fault == CardFault::BusyFlag && layout == Layout::Trailers16 {
            return Err(CardConfigError::BusyFlag);
        }
        if let CardFault::StuckLink { for_ns } = self.fault {
            in_range("faults.for_ns", for_ns, 1, 10_000_000_000)?;
        }
        match self.pick {
            Pick::Always => {}
            Pick::Every(n) => in_range("faults.every", n, 1, u64::MAX)?,
            Pick::Chance(chance) => in_range("faults.chance", chance, 0.0, 1.0)?,
        }
        Ok(())
    }

    fn strikes(&self, key: u64, trigger: u64) -> bool {
        self.triggers.contains(&trigger)
            && match self.pick {
                Pick::Always => true,
                Pick::Every(n) => (trigger - self.triggers.start).is_multiple_of(n),
                Pick::Chance(chance) => {
                    ((hash(key, trigger) >> 11) as f64) < chance * (1_u64 << 53) as f64
                }
            }
    }
}

/// What befalls one chunk on the link.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Strike {
    pub(super) stuck_ns: u64,
    pub(super) ignores_xoff: bool,
    pub(super) stops: bool,
    pub(super) cuts: bool,
    flags: Flags,
    flips: bool,
    spoil: Spoil,
    random: u64,
}

impl Strike {
    /// The chunk as it comes out of the link.
    pub(super) fn apply(self, mut chunk: Chunk) -> Chunk {
        let bytes = chunk.bytes;
        // At least one byte is left, and at least one is not.
        let part = 1 + self.random as usize % (bytes - 1);
        chunk.flags = chunk.flags.and(self.flags);
        chunk.spoil = self.spoil;
        chunk.random = (self.random >> 32) as u8;
        if self.flips {
            // Behind the head; of one that is nothing but a head, a byte that is always the same.
            let at = if bytes > 8 {
                8 + self.random as usize % (bytes - 8)
            } else {
                5
            };
            chunk.flip = Some(Flip {
                at: at as u16,
                mask: 1 << (self.random >> 40 & 7),
            });
        }
        if self.stops {
            (chunk.bytes, chunk.end) = (part, End::Never);
        } else if self.cuts {
            (chunk.bytes, chunk.end) = (part, End::Timeout);
            chunk.flags = chunk.flags.and(Flags::TRUNCATED);
        }
        chunk
    }
}

/// The rules of one E-link.
#[derive(Debug, Clone)]
pub(super) struct LinkFaults {
    rules: Vec<(u64, CardFaultRule)>,
    /// Chunks that were looked at, and what befalls the last one.
    looked: u64,
    pub(super) strike: Strike,
    pub(super) has_stopped: bool,
    pub(super) counts: CardFaults,
}

impl LinkFaults {
    /// None when no rule is for it.
    pub(super) fn new(rules: &[CardFaultRule], elink: Elink, seed: u64) -> Option<Box<Self>> {
        let is_for = |rule: &CardFaultRule| match rule.elink {
            Some(one) => one == elink,
            None => elink != Elink::TTC_TO_HOST,
        };
        let key = |n: usize| hash(hash(seed, 1 << 32 | n as u64), u64::from(elink.number()));
        let rules: Vec<_> = (0_usize..).map(key).zip(rules.iter().cloned()).collect();
        let rules: Vec<_> = rules.into_iter().filter(|(_, rule)| is_for(rule)).collect();
        (!rules.is_empty()).then(|| {
            Box::new(Self {
                rules,
                looked: 0,
                strike: Strike::default(),
                has_stopped: false,
                counts: CardFaults::default(),
            })
        })
    }

    /// The first trigger from this one on that a rule may strike.
    pub(super) fn sound_until(&self, trigger: u64) -> u64 {
        if self.has_stopped {
            return trigger;
        }
        let begins = |(_, rule): &(u64, CardFaultRule)| {
            (rule.triggers.end > trigger).then_some(rule.triggers.start.max(trigger))
        };
        self.rules
            .iter()
            .filter_map(begins)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Finds what befalls the chunk of a trigger; true when it is new.
    pub(super) fn look(&mut self, trigger: u64) -> bool {
        if self.looked > trigger {
            return false;
        }
        self.looked = trigger + 1;
        self.strike = Strike::default();
        for (key, rule) in self
            .rules
            .iter()
            .filter(|(key, rule)| rule.strikes(*key, trigger))
        {
            let strike = &mut self.strike;
            strike.random ^= hash(*key, !trigger);
            let mut count = 1;
            match rule.fault {
                CardFault::LostBlock => strike.spoil.lost = true,
                CardFault::JumpedSequence => strike.spoil.jumps = true,
                CardFault::BadTrailer => strike.spoil.trailer = true,
                CardFault::WrongMarker => strike.spoil.marker = true,
                CardFault::CrcFlag => strike.flags = strike.flags.and(Flags::CRC),
                CardFault::ErrorFlag => strike.flags = strike.flags.and(Flags::ERROR),
                CardFault::BusyFlag => strike.flags = strike.flags.and(Flags::BUSY),
                CardFault::Truncated => strike.cuts = true,
                CardFault::BitFlip => strike.flips = true,
                CardFault::StuckLink { for_ns } => strike.stuck_ns += for_ns,
                CardFault::StoppedLink => strike.stops = true,
                // Counted when it matters.
                CardFault::XoffIgnored => (strike.ignores_xoff, count) = (true, 0),
            }
            self.counts[rule.fault.kind()] += count;
        }
        true
    }
}
