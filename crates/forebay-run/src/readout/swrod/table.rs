//! What came of each E-link, and whether it is what should have come.

use std::collections::HashMap;

use forebay_readout::Status;
use forebay_wire::felix::{ELINKS, Fid};

use super::fragments::Fragments;
use super::report::{ByName, ElinkReport};
use crate::readout::numbers::Step;
use crate::readout::payload::{Payload, Stream, Wrong};

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
    /// None of those that are told apart.
    is_rest: bool,
    tag: u64,
    missing: u64,
    jumps: u64,
    repeated: u64,
    flagged: [u64; 8],
    wrong: [u64; Wrong::REASONS.len()],
}

impl Link {
    fn new(tag: u64) -> Self {
        Self {
            chunks: 0,
            bytes: 0,
            stream: Stream::default(),
            place: NOWHERE,
            is_rest: false,
            tag,
            missing: 0,
            jumps: 0,
            repeated: 0,
            flagged: [0; 8],
            wrong: [0; _],
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
        self.wrong[wrong.place()] += 1;
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
    pub(super) fragments: Option<Fragments>,
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
            fragments,
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
        if let Some(wrong) = wrong {
            link.wrong(wrong);
        }
        if link.is_rest {
            link.stream = Stream::default();
        } else if !matches!(step, Step::First | Step::Next) {
            link.off(step);
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
        let reasons = Wrong::REASONS.iter().zip(link.wrong);
        bad_payload.extend(
            reasons
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| (*name, count)),
        );
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
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use forebay_wire::felix::{Elink, Generated, TtcMessage};

    use super::*;

    fn chunk(l1id: u8) -> Vec<u8> {
        let mut chunk = vec![0; 40];
        let generated = Generated {
            first: 0xaa,
            l1id,
            elink: 0,
            width: 16,
        };
        assert!(generated.emit(&mut chunk));
        chunk
    }

    fn tag(connector: u16, link: u16) -> u64 {
        Fid::to_host(0, connector, Elink::of_link(link).unwrap()).0
    }

    fn table() -> Table {
        Table::new(Payload::Generated, &[], None)
    }

    #[test]
    fn every_e_link_has_numbers_of_its_own() {
        let mut table = table();
        for l1id in 0..=255 {
            for link in 0..24 {
                if link != 3 || l1id != 7 {
                    table.handle_chunk(tag(1, link), 0, &chunk(l1id));
                }
            }
        }
        table.handle_chunk(tag(1, 5), 0, &chunk(255));
        let report = table.report();
        assert_eq!(report.len(), 24);
        let sound = |one: &ElinkReport| (one.chunks, one.missing, one.repeated) == (256, 0, 0);
        assert_eq!(report.iter().filter(|one| sound(one)).count(), 22);
        assert_eq!(
            (report[3].chunks, report[3].missing, report[3].jumps),
            (255, 1, 1)
        );
        assert_eq!(
            (report[5].chunks, report[5].repeated, report[5].bytes),
            (257, 1, 257 * 40)
        );
        assert_eq!((report[3].connector, report[3].elink), (1, 3 << 6));
        assert_eq!(table.sums(), [24 * 256, 24 * 256 * 40]);
    }

    #[test]
    fn status_and_payload_are_counted_by_bit_and_reason() {
        let mut table = table();
        let (one, trigger) = (tag(0, 0), tag(0, 24));
        table.handle_chunk(one, 0x09, &chunk(0)[..20]);
        table.handle_chunk(one, 0xe0, &chunk(1));
        let mut wrong = chunk(2);
        wrong[30] ^= 1;
        table.handle_chunk(one, 0, &wrong);
        table.handle_chunk(one, 0, &chunk(3)[..7]);
        table.handle_chunk(one, 0, &chunk(4));
        let message = |l1id| {
            let message = TtcMessage {
                l1id,
                l0id: l1id,
                ..TtcMessage::default()
            };
            message.emit()
        };
        for l1id in [0, 1, 5] {
            table.handle_chunk(trigger, 0, &message(l1id));
        }
        table.handle_chunk(trigger, 0, &message(6)[..20]);
        let [first, second] = table.report().try_into().unwrap();
        let flagged: Vec<_> = first.flagged.into_iter().collect();
        let expected = [
            ("fw_busy", 1),
            ("fw_crc", 1),
            ("fw_truncated", 1),
            ("other", 2),
        ];
        assert_eq!(flagged, expected);
        let bad: Vec<_> = first.bad_payload.into_iter().collect();
        assert_eq!(bad, [("ramp", 1), ("short", 1)]);
        assert_eq!(first.missing, 0, "what cannot be read is one that came");
        assert_eq!((second.missing, second.jumps), (3, 1));
        assert_eq!(
            second.bad_payload.into_iter().collect::<Vec<_>>(),
            [("ttc_bytes", 1)]
        );
    }

    #[test]
    fn any_tag_is_counted_and_memory_is_bounded() {
        let mut table = table();
        let tags = (0..70_000_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for tag in tags.clone().chain(tags) {
            table.handle_chunk(tag, 0, &chunk(9));
        }
        assert_eq!(table.sums()[0], 140_000);
        let report = table.report();
        assert_eq!(report.len(), ELINKS_MAX + 1);
        let told_apart = |one: &&ElinkReport| one.fid.is_some() && one.repeated == 1;
        assert_eq!(report.iter().filter(told_apart).count(), ELINKS_MAX);
        let rest = report.last().unwrap();
        assert_eq!(
            (&rest.fid, rest.chunks),
            (&None, 140_000 - 2 * ELINKS_MAX as u64)
        );
        assert_eq!(rest.repeated, 0, "nothing is known of which follows which");
    }

    #[test]
    fn what_was_asked_for_is_told_though_nothing_came_and_has_its_place_in_fragments() {
        let tags = [tag(0, 1), tag(0, 0)];
        let mut table = Table::new(Payload::Generated, &tags, Some(Fragments::new(2, 0)));
        for l1id in 0..100 {
            table.handle_chunk(tags[1], 0, &chunk(l1id));
            table.handle_chunk(tag(0, 9), 0, &chunk(l1id));
        }
        table.fragments.as_mut().unwrap().finish(true);
        let report = table.report();
        let missed: Vec<_> = report
            .iter()
            .map(|one| (one.chunks, one.fragments_missed))
            .collect();
        assert_eq!(missed, [(100, Some(0)), (0, Some(100)), (100, None)]);
    }

    #[test]
    fn nothing_is_held_against_what_is_not_to_be_checked() {
        let mut table = Table::new(Payload::None, &[], None);
        table.handle_chunk(tag(0, 0), 0, b"anything");
        table.handle_chunk(tag(0, 0), 0, b"else");
        let report = table.report();
        assert!(report[0].bad_payload.is_empty() && report[0].jumps == 0);
    }
}
