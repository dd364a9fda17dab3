//! What came of each E-link, and whether it is what should have come.

use std::collections::HashMap;

use forebay_readout::Status;
use forebay_readout::fragments::Fragments;
use forebay_readout::numbers::Step;
use forebay_readout::payload::{Payload, PerWrong, Stream, Wrong};
use forebay_wire::felix::{ELINKS, Elink, Fid};

use super::latency::{Latency, Number};
use super::report::{ByName, ElinkReport};

/// Connectors whose E-links are found by place; those of others by their whole number.
const CONNECTORS_MAX: usize = 64;
/// Tags that are told apart; what comes of others is counted for all of them together.
pub const ELINKS_MAX: usize = 1 << 16;
/// The bits that say which E-link of a connector it is.
const OF_CONNECTOR: u64 = 0x07ff << 16;
/// In no fragment.
const NOWHERE: u32 = u32::MAX;

/// One E-link.
#[derive(Clone, Debug)]
struct Link {
    chunks: u64,
    bytes: u64,
    stream: Stream,
    /// Its place in fragments.
    place: u32,
    /// Of the trigger of its last chunk; kept where latencies are measured.
    number: Number,
    /// None of those that are told apart.
    is_rest: bool,
    tag: u64,
    missing: u64,
    jumps: u64,
    repeated: u64,
    flagged: [u64; 8],
    wrong: PerWrong<u64>,
}

impl Link {
    fn new(tag: u64) -> Self {
        Self {
            chunks: 0,
            bytes: 0,
            stream: Stream::default(),
            place: NOWHERE,
            number: Number::default(),
            is_rest: false,
            tag,
            missing: 0,
            jumps: 0,
            repeated: 0,
            flagged: [0; 8],
            wrong: PerWrong::default(),
        }
    }

    #[cold]
    fn flag(&mut self, status: u8) {
        for (bit, count) in self.flagged.iter_mut().enumerate() {
            *count += u64::from(status >> bit & 1);
        }
    }

    #[cold]
    fn wrong(&mut self, wrong: Wrong) {
        self.wrong[wrong.kind()] += 1;
    }

    #[cold]
    fn off(&mut self, step: Step) {
        match step {
            Step::First | Step::Next => {}
            Step::Repeated => self.repeated += 1,
            Step::Jumped(missing) => {
                self.jumps += 1;
                self.missing += u64::from(missing);
            }
        }
    }
}

/// E-links of one connector.
#[derive(Debug)]
struct Connector {
    /// What all its tags have in common.
    bits: u64,
    /// Where its E-links are; 0 for those that are not known.
    links: Box<[u32]>,
}

/// All E-links, found by their tags.
#[derive(Debug)]
pub(super) struct Table {
    against: Payload,
    /// The first one stands for all that are not told apart.
    links: Vec<Link>,
    connectors: Vec<Connector>,
    others: HashMap<u64, u32>,
    /// The tag that came last, and where its E-link is.
    last: (u64, usize),
    /// What became of chunks, all E-links together.
    pub(super) outcomes: Outcomes,
    pub(super) fragments: Option<Fragments>,
    pub(super) latency: Option<Latency>,
}

/// Chunks and bytes by what was found in them, one of these for each chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcomes {
    /// As they should be.
    pub(super) sound: [u64; 2],
    /// Not so, by reason.
    pub(super) wrong: PerWrong<[u64; 2]>,
}

impl Outcomes {
    #[cold]
    fn wrong(&mut self, wrong: Wrong, bytes: u64) {
        let [chunks, sum] = &mut self.wrong[wrong.kind()];
        *chunks += 1;
        *sum += bytes;
    }
}

/// The sums of all E-links.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Chunks, their bytes, missing ones, repeated ones, jumps.
    pub(super) of_chunks: [u64; 5],
    pub(super) flagged: [u64; 8],
    pub(super) wrong: PerWrong<u64>,
    /// Complete and incomplete ones.
    pub(super) fragments: [u64; 2],
    pub(super) latency_unknown: u64,
}

impl Table {
    /// With the E-links that were asked for one by one, in this order in fragments.
    pub(super) fn new(against: Payload, tags: &[u64], fragments: Option<Fragments>) -> Self {
        let mut rest = Link::new(0);
        rest.is_rest = true;
        let mut table = Self {
            against,
            links: vec![rest],
            connectors: Vec::new(),
            others: HashMap::new(),
            last: (0, usize::MAX),
            outcomes: Outcomes::default(),
            fragments,
            latency: None,
        };
        for (place, tag) in tags.iter().enumerate() {
            let at = table.find(*tag);
            table.links[at].place = place as u32;
        }
        table
    }

    /// A chunk has come.
    #[inline]
    pub(super) fn handle_chunk(&mut self, tag: u64, status: u8, chunk: &[u8]) {
        if (tag, true) != (self.last.0, self.last.1 < self.links.len()) {
            self.last = (tag, self.find(tag));
        }
        let link = &mut self.links[self.last.1];
        link.chunks += 1;
        link.bytes += chunk.len() as u64;
        if status != 0 {
            link.flag(status);
        }
        let elink = Fid(tag).elink();
        let (wrong, step) = link
            .stream
            .verify(self.against, elink, Status(status), chunk);
        match wrong {
            Some(wrong) => {
                link.wrong(wrong);
                self.outcomes.wrong(wrong, chunk.len() as u64);
            }
            None => {
                self.outcomes.sound[0] += 1;
                self.outcomes.sound[1] += chunk.len() as u64;
            }
        }
        if link.is_rest {
            link.stream = Stream::default();
        } else if !matches!(step, Step::First | Step::Next) {
            link.off(step);
        }
        if let Some(latency) = &mut self.latency
            && !link.is_rest
            && elink != Elink::TTC_TO_HOST
            && let Some(number) = link.number.step(step, link.stream.low_bits(chunk))
        {
            latency.record(number);
        }
        if let Some(fragments) = &mut self.fragments
            && link.place != NOWHERE
            && let Some(l1id) = link.stream.low_bits(chunk)
        {
            fragments.handle_chunk(link.place as usize, l1id);
        }
    }

    /// Where the E-link of a tag is.
    fn find(&mut self, tag: u64) -> usize {
        let (bits, number) = (tag & !OF_CONNECTOR, usize::from(Fid(tag).elink().number()));
        let mut known = self.connectors.iter_mut();
        if let Some(connector) = known.find(|connector| connector.bits == bits) {
            let place = &mut connector.links[number];
            if *place == 0 {
                *place = begin(&mut self.links, tag);
            }
            return *place as usize;
        }
        if self.connectors.len() < CONNECTORS_MAX {
            self.connectors.push(Connector {
                bits,
                links: vec![0; ELINKS].into(),
            });
            return self.find(tag);
        }
        if let Some(place) = self.others.get(&tag) {
            return *place as usize;
        }
        let place = begin(&mut self.links, tag);
        if place > 0 {
            self.others.insert(tag, place);
        }
        place as usize
    }

    /// Everything, E-links together.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals {
            latency_unknown: self.latency.as_ref().map_or(0, |it| it.unknown),
            ..Totals::default()
        };
        if let Some(fragments) = &self.fragments {
            let account = fragments.account();
            totals.fragments = [account.complete, account.incomplete];
        }
        let add = |sums: &mut [u64], new: &[u64]| {
            sums.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
        };
        for link in &self.links {
            let of_chunks = [
                link.chunks,
                link.bytes,
                link.missing,
                link.repeated,
                link.jumps,
            ];
            add(&mut totals.of_chunks, &of_chunks);
            add(&mut totals.flagged, &link.flagged);
            totals.wrong.add(&link.wrong);
        }
        totals
    }

    /// Chunks and their bytes.
    pub(super) fn sums(&self) -> [u64; 2] {
        self.links.iter().fold([0; 2], |[chunks, bytes], link| {
            [chunks + link.chunks, bytes + link.bytes]
        })
    }

    /// What each E-link had, in the order of their tags; the rest last, if there is one.
    pub(super) fn report(&self) -> Vec<ElinkReport> {
        let mut links: Vec<&Link> = self.links[1..].iter().collect();
        links.sort_unstable_by_key(|link| link.tag);
        let rest = self.links.first().filter(|rest| rest.chunks > 0);
        links
            .into_iter()
            .chain(rest)
            .map(|link| self.told(link))
            .collect()
    }

    fn told(&self, link: &Link) -> ElinkReport {
        let fid = Fid(link.tag);
        let named = |bit: usize| Status::NAMES.get(bit).map_or("other", |(_, name)| *name);
        let (mut flagged, mut bad_payload) = (ByName::new(), ByName::new());
        for (bit, count) in link
            .flagged
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            *flagged.entry(named(bit)).or_default() += count;
        }
        let wrong = link.wrong.iter().filter(|(_, count)| *count > 0);
        bad_payload.extend(wrong.map(|(why, count)| (why.name(), count)));
        let fragments = self.fragments.as_ref();
        let place = (link.place != NOWHERE).then_some(link.place as usize);
        ElinkReport {
            fid: (!link.is_rest).then(|| fid.to_string()),
            detector: fid.detector(),
            connector: fid.connector(),
            elink: fid.elink().number(),
            chunks: link.chunks,
            bytes: link.bytes,
            flagged,
            bad_payload,
            jumps: link.jumps,
            missing: link.missing,
            repeated: link.repeated,
            fragments_missed: fragments.zip(place).map(|(it, place)| it.missed(place)),
        }
    }
}

/// A place for the E-link of a tag; 0 when there are too many.
fn begin(links: &mut Vec<Link>, tag: u64) -> u32 {
    if links.len() > ELINKS_MAX {
        return 0;
    }
    links.push(Link::new(tag));
    (links.len() - 1) as u32
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
