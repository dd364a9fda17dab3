//! What a receiver dropped of a source and has not told the builder yet.
//!
//! Sub-events whose trigger numbers are known are told by notes: records of their own with nothing in them but a run of numbers, before the next message. How many
//! others were dropped goes with that message, in the place of its tag.

use forebay_evb::{Dropped, Run};
use forebay_ring::{Meta, Producer, Record};
use forebay_wire::hadtu::UNIT_HEADER_BYTES;

/// Flag of a note: its payload is a run of trigger numbers.
const NUMBERED: u32 = 1;
/// Most notes before one message.
pub(super) const NOTES_MAX: usize = 8;
/// What a note takes in a ring: a record's header, and its payload rounded up.
pub(super) const NOTE_BYTES: usize = 64;
/// What a record takes in a ring beside its bytes, at most: header and rounding.
pub(super) const RECORD_EXTRA_BYTES: usize = 64;

/// Sub-events that were dropped since the last record, as far as they are known: the next ones say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unsaid(Dropped);

impl Unsaid {
    /// So many sub-events; a predecessor knew their numbers.
    pub(super) fn restored(items: u64) -> Self {
        Self(Dropped::unnumbered(items))
    }

    pub(super) fn items(&self) -> u64 {
        self.0.items()
    }

    pub(super) fn add(&mut self, dropped: &Dropped) {
        self.0.append(dropped);
    }

    /// So many more of which no number is known.
    pub(super) fn add_unnumbered(&mut self, items: u64) {
        self.0.add_unnumbered(items);
    }

    /// What goes with a record.
    pub(super) fn meta(&mut self, items: u32, stamp_ns: u64) -> Meta {
        Meta {
            tag: self.0.take_unnumbered(),
            items,
            flags: 0,
            stamp_ns,
        }
    }

    /// Says what numbers it can before a record of `spare_bytes`: as many as fit beside that. The others are said before the next one. True when any was said.
    #[inline]
    pub(super) fn say(&mut self, ring: &mut Producer, spare_bytes: usize) -> bool {
        self.0.has_numbers() && self.say_numbers(ring, spare_bytes, NOTES_MAX)
    }

    #[cold]
    fn say_numbers(&mut self, ring: &mut Producer, spare_bytes: usize, most: usize) -> bool {
        let needed_bytes = (spare_bytes + RECORD_EXTRA_BYTES + NOTE_BYTES) as u64;
        let mut any = false;
        for _ in 0..most {
            if ring.free_bytes() < needed_bytes {
                break;
            }
            let Ok(mut loan) = ring.reserve(Run::BYTES) else {
                break;
            };
            let Some(run) = self.0.take_run() else {
                break;
            };
            loan.copy_from_slice(&run.to_bytes());
            let meta = Meta {
                tag: run.items,
                items: 0,
                flags: NUMBERED,
                stamp_ns: 0,
            };
            loan.commit(Run::BYTES, meta);
            any = true;
        }
        any
    }

    /// What was dropped last has no message behind it that could say so: notes do, and an empty record for what is left. Without room it stays inferred lost as
    /// well.
    pub(super) fn say_at_the_end(&mut self, ring: &mut Producer) {
        self.say_numbers(ring, NOTE_BYTES, usize::MAX);
        let left = std::mem::take(self).items();
        if let (1.., Ok(mut loan)) = (left, ring.reserve(UNIT_HEADER_BYTES)) {
            loan.fill(0);
            *self = Self::restored(left);
            let meta = self.meta(0, 0);
            loan.commit(UNIT_HEADER_BYTES, meta);
        }
    }
}

/// The trigger numbers that `record` says were dropped, if it is such a note; `payload` gives its first bytes, which any process may have written.
pub(crate) fn numbers(
    record: &Record,
    payload: impl FnOnce() -> Option<[u8; Run::BYTES]>,
) -> Option<Run> {
    let Meta {
        tag, items, flags, ..
    } = record.meta;
    if items > 0 || tag == 0 || flags & NUMBERED == 0 || (record.len as usize) < Run::BYTES {
        return None;
    }
    payload().map(|bytes| Run::from_bytes(bytes, tag))
}

#[cfg(test)]
mod tests {
    use forebay_ring::{Consumers, Producers, RingSetMemory, RingSetSpec};
    use forebay_wire::subevent::{SubEventHeader, SubEventRepr};

    use super::*;

    /// A ring of so many bytes, both ends.
    fn ring(bytes: u64) -> (Producers, Consumers) {
        let spec = RingSetSpec::new("unsaid", vec![bytes], 1500);
        let memory = RingSetMemory::create(&spec).unwrap();
        let producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
        let consumers = Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
        (producers, consumers)
    }

    /// What the records in the ring say: items without a number, or a run.
    fn said(producers: &mut Producers, consumers: &mut Consumers) -> Vec<(u32, Option<Run>)> {
        producers.rings[0].publish();
        let mut all = vec![];
        while let Some(record) = consumers.rings[0].next().unwrap() {
            let ring = &consumers.rings[0];
            let run = numbers(&record, || ring.view(record.position, 8)?.array(0));
            assert_eq!((record.meta.items, record.len), (0, 8));
            all.push((record.meta.tag, run));
            consumers.rings[0].release(record.end);
        }
        all
    }

    fn dropped(triggers: impl Iterator<Item = u32>) -> Dropped {
        let mut dropped = Dropped::default();
        for trigger in triggers {
            let repr = SubEventRepr {
                trigger_word: trigger << 8,
                ..SubEventRepr::default()
            };
            dropped.add(&SubEventHeader::parse(&repr.header_bytes(0)).unwrap());
        }
        dropped
    }

    #[test]
    fn a_record_says_no_more_than_its_tag_can_and_the_next_one_the_rest() {
        let most = u64::from(u32::MAX);
        let mut unsaid = Unsaid::restored(most);
        unsaid.add_unnumbered(7);
        let first = unsaid.meta(3, 9);
        assert_eq!((first.tag, first.items, first.stamp_ns), (u32::MAX, 3, 9));
        assert_eq!(unsaid, Unsaid::restored(7));
        assert_eq!((unsaid.meta(1, 9).tag, unsaid.items()), (7, 0));
    }

    #[test]
    fn notes_say_the_numbers_before_a_record_and_leave_it_its_room() {
        let (mut producers, mut consumers) = ring(64 * 1024);
        let mut unsaid = Unsaid::default();
        unsaid.add(&dropped((5..25).chain((100..120).step_by(2))));
        unsaid.add_unnumbered(3);
        unsaid.say(&mut producers.rings[0], 1_000);
        let run = |first, step, items| (items, Some(Run { first, step, items }));
        let told = said(&mut producers, &mut consumers);
        assert_eq!(told, [run(5, 1, 20), run(100, 2, 10)]);
        assert_eq!((unsaid.meta(1, 0).tag, unsaid.items()), (3, 0));
        // With room for a record and no more nothing is said before it.
        unsaid.add(&dropped(7..9));
        let ring = &mut producers.rings[0];
        while ring.free_bytes() >= (1_000 + RECORD_EXTRA_BYTES + NOTE_BYTES) as u64 {
            let loan = ring.reserve(1_000).unwrap();
            loan.commit(
                1_000,
                Meta {
                    items: 1,
                    ..Meta::default()
                },
            );
        }
        unsaid.say(ring, 1_000);
        assert_eq!(unsaid.items(), 2);
        let spare = ring.free_bytes() as usize - RECORD_EXTRA_BYTES - NOTE_BYTES;
        unsaid.say(ring, spare);
        assert_eq!(unsaid.items(), 0, "with room for both, to the byte, it is");
        // And no more than a few before one record.
        let (mut producers, mut consumers) = self::ring(64 * 1024);
        unsaid.add(&dropped((0..40).map(|at| 10_000 + at * at)));
        unsaid.say(&mut producers.rings[0], 1_000);
        assert_eq!(said(&mut producers, &mut consumers).len(), NOTES_MAX);
    }

    /// A message, an empty record, one without the flag or too short for a run are no notes, and are not read.
    #[test]
    fn what_is_no_note_says_no_numbers() {
        let note = Meta {
            tag: 4,
            flags: NUMBERED,
            ..Meta::default()
        };
        let record = |meta, len| Record {
            position: 0,
            len,
            meta,
            end: 64,
        };
        let run = Run {
            first: 7,
            step: 2,
            items: 4,
        };
        let read = || Some(run.to_bytes());
        assert_eq!(numbers(&record(note, 8), read), Some(run));
        for (meta, len) in [
            (Meta { items: 1, ..note }, 8),
            (Meta { tag: 0, ..note }, 8),
            (Meta { flags: 0, ..note }, 8),
            (note, 7),
        ] {
            assert_eq!(numbers(&record(meta, len), read), None, "{meta:?} {len}");
        }
    }

    /// What was dropped last is said by notes and an empty record; where nothing was there is none.
    #[test]
    fn what_no_message_can_say_is_said_at_the_end() {
        for (unnumbered, numbered) in [(0, 0), (5, 0), (0, 4), (5, 4)] {
            let (mut producers, mut consumers) = ring(64 * 1024);
            let mut unsaid = Unsaid::restored(unnumbered);
            unsaid.add(&dropped(90..90 + numbered));
            unsaid.say_at_the_end(&mut producers.rings[0]);
            let run = Run {
                first: 90,
                step: 1,
                items: numbered,
            };
            let note = (numbered > 0).then_some((numbered, Some(run)));
            let rest = (unnumbered > 0).then_some((unnumbered as u32, None));
            let all: Vec<_> = note.into_iter().chain(rest).collect();
            assert_eq!(said(&mut producers, &mut consumers), all);
            assert_eq!(unsaid, Unsaid::default());
        }
    }

    /// A ring without room for all notes still says how many sub-events there were.
    #[test]
    fn what_has_no_room_for_its_numbers_is_said_without_them() {
        let (mut producers, mut consumers) = ring(64 * 1024);
        let ring = &mut producers.rings[0];
        while ring.free_bytes() > 20 * NOTE_BYTES as u64 {
            ring.reserve(900).unwrap().commit(8, Meta::default());
        }
        let mut unsaid = Unsaid::default();
        unsaid.add(&dropped((0..900).map(|at| at * at)));
        unsaid.say_at_the_end(ring);
        let told = said(&mut producers, &mut consumers);
        let items: u32 = told.iter().map(|(items, _)| items).sum();
        assert_eq!(items, 900);
        let runs = told.iter().filter(|(_, run)| run.is_some()).count();
        assert!((10..20).contains(&runs), "{told:?}");
        assert_eq!(told.last().unwrap().1, None, "{told:?}");
    }
}
