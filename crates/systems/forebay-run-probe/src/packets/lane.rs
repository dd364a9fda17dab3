//! The bounded way of packets from a thread that captures to the one that writes them.
//!
//! A way that is full holds back a reader of a file; of a live input, which nothing may hold back, the packets are lost by name, and their flows are not.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use forebay_flow::Frame;
use forebay_flow::filter::Verdict;
use forebay_flow::{Packet, Volume};
use forebay_ledger::Leak;
use forebay_sys::{clock, wait};

use super::{Bulk, Bunch, Known};

/// Bytes of packets that are handed over together.
const BUNCH_BYTES: usize = 64 << 10;
/// One look at whether there is room, in ns.
const LOOK_NS: u64 = 1_000_000;

/// What went into a lane and came out of it, by the lane's own count.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    put: Shared,
    taken: Shared,
}

/// Packets and bytes that both ends see. Each is exact when both ends are at rest.
#[derive(Debug, Default)]
struct Shared {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Shared {
    fn add(&self, amount: Bulk) {
        self.packets.fetch_add(amount.packets, Ordering::Relaxed);
        self.bytes.fetch_add(amount.bytes, Ordering::Relaxed);
    }

    fn sub(&self, amount: Bulk) {
        self.packets.fetch_sub(amount.packets, Ordering::Relaxed);
        self.bytes.fetch_sub(amount.bytes, Ordering::Relaxed);
    }

    fn volume(&self) -> Volume {
        Volume {
            packets: self.packets.load(Ordering::Relaxed),
            octets: self.bytes.load(Ordering::Relaxed),
        }
    }
}

impl Lane {
    pub(crate) fn put(&self) -> Volume {
        self.put.volume()
    }

    pub(crate) fn taken(&self) -> Volume {
        self.taken.volume()
    }

    fn send(
        &self,
        to: &SyncSender<(usize, Bunch)>,
        bunch: (usize, Bunch),
    ) -> Result<(), TrySendError<(usize, Bunch)>> {
        // Before it can be taken: what was taken is never more than what was put.
        let amount = bunch.1.amount();
        self.put.add(amount);
        to.try_send(bunch).inspect_err(|_| self.put.sub(amount))
    }

    pub(super) fn take(&self, bunch: &Bunch) {
        self.taken.add(bunch.amount());
    }
}

/// The end of a lane that a thread has which captures.
pub(crate) struct Tap<'a> {
    lane: &'a Lane,
    place: usize,
    /// None when nothing more comes.
    to: Option<SyncSender<(usize, Bunch)>>,
    /// Only what a rule of the filter exports.
    by_rule: bool,
    bunch: Bunch,
    /// Packets that were to be exported.
    pub(crate) came: Bulk,
    /// Those that are in the lane, or were.
    pub(crate) given: Bulk,
    /// Those that found no room.
    pub(crate) full: Bulk,
    pub(crate) leak: Leak,
}

impl<'a> Tap<'a> {
    pub(crate) fn new(
        (place, lane): (usize, &'a Lane),
        to: SyncSender<(usize, Bunch)>,
        by_rule: bool,
    ) -> Self {
        Self {
            lane,
            place,
            to: Some(to),
            by_rule,
            bunch: Bunch::default(),
            came: Bulk::default(),
            given: Bulk::default(),
            full: Bulk::default(),
            leak: Leak::off(),
        }
    }

    /// Takes a packet, if it is to be exported; whether there are enough to be handed over.
    pub(crate) fn take(
        &mut self,
        frame: &Frame<'_>,
        packet: &Packet<'_>,
        verdict: &Verdict,
    ) -> bool {
        let most = match (self.by_rule, verdict.export_bytes) {
            (false, _) => verdict.frame_bytes,
            (true, Some(most)) => verdict.frame_bytes.min(most as usize),
            (true, None) => return false,
        };
        let (Some(link), Some(bytes)) = (frame.link, frame.bytes.get(..most)) else {
            return false;
        };
        self.came.packets += 1;
        self.came.bytes += bytes.len() as u64;
        if self.leak.take("tap") {
            return false;
        }
        let captured_bytes = frame.bytes.len() as u32;
        self.bunch.known.push(Known {
            time_ns: frame.time_ns,
            link,
            wire_bytes: frame.wire_bytes.max(captured_bytes),
            captured_bytes,
            bytes: most as u32,
            key: packet.key,
            rule: verdict.rule,
        });
        self.bunch.bytes.extend_from_slice(bytes);
        self.bunch.bytes.len() >= BUNCH_BYTES || self.bunch.known.len() >= BUNCH_BYTES / 64
    }

    /// What was not handed over yet.
    pub(crate) fn held(&self) -> Bulk {
        let mut held = Bulk::default();
        for known in &self.bunch.known {
            held += Bulk::of(known);
        }
        held
    }

    pub(crate) fn put(&self) -> Volume {
        self.lane.put()
    }

    /// Hands over what there is: waits for room as long as `waits` says, and then loses it.
    pub(crate) fn hand_over(&mut self, waits: impl Fn() -> bool) {
        if self.bunch.known.is_empty() {
            return;
        }
        let amount = self.bunch.amount();
        let mut bunch = mem::take(&mut self.bunch);
        while let Some(to) = &self.to {
            match self.lane.send(to, (self.place, bunch)) {
                Ok(()) => {
                    self.given += amount;
                    return;
                }
                Err(TrySendError::Full((_, back))) if waits() => bunch = back,
                Err(_) => break,
            }
            wait::sleep_until(clock::monotonic_ns() + LOOK_NS, 0);
        }
        self.full += amount;
    }

    /// Nothing more comes.
    pub(crate) fn close(&mut self) {
        self.to = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use forebay_flow::{DecodeConfig, Decoder, LinkType};

    use super::*;
    use crate::books::DATAGRAM;

    fn take(tap: &mut Tap<'_>, export_bytes: Option<u32>) -> bool {
        let frame = Frame {
            time_ns: 5,
            link: Some(LinkType::RawIp),
            bytes: &DATAGRAM,
            wire_bytes: 90,
        };
        let mut decoder = Decoder::new(&DecodeConfig::default()).unwrap();
        let packet = decoder.handle_frame(&frame).unwrap();
        let verdict = Verdict {
            passes: true,
            rule: Some(3),
            export_bytes,
            frame_bytes: 28,
        };
        tap.take(&frame, &packet, &verdict)
    }

    fn bulk(packets: u64, bytes: u64) -> Bulk {
        Bulk { packets, bytes }
    }

    #[test]
    fn a_full_lane_loses_by_name_and_one_that_waits_nothing() {
        let (lane, (to, from)) = (Lane::default(), mpsc::sync_channel(1));
        let mut tap = Tap::new((4, &lane), to, false);
        for held in 1..=3 {
            assert!(!take(&mut tap, None));
            assert_eq!(tap.held(), bulk(held, 28 * held));
        }
        tap.hand_over(|| panic!("there is room"));
        assert_eq!((tap.held(), tap.given), (bulk(0, 0), bulk(3, 84)));
        take(&mut tap, None);
        tap.hand_over(|| false);
        assert_eq!((tap.given, tap.full), (bulk(3, 84), bulk(1, 28)));
        let of_lane = |volume: Volume| bulk(volume.packets, volume.octets);
        assert_eq!(of_lane(tap.put()), bulk(3, 84));
        // It waits until there is room.
        take(&mut tap, None);
        tap.hand_over(|| {
            let (place, bunch) = from.recv().unwrap();
            lane.take(&bunch);
            place == 4
        });
        assert_eq!((tap.came, tap.given), (bulk(5, 140), bulk(4, 112)));
        assert_eq!(of_lane(lane.taken()), bulk(3, 84));
        let (_, bunch) = from.recv().unwrap();
        let known = bunch.known[0];
        assert_eq!((known.wire_bytes, known.captured_bytes), (90, 30));
        assert_eq!(
            (known.rule, bunch.bytes),
            (Some(3), DATAGRAM[..28].to_vec())
        );
        // No collector is there.
        drop(from);
        take(&mut tap, None);
        tap.hand_over(|| true);
        tap.close();
        take(&mut tap, None);
        tap.hand_over(|| true);
        assert_eq!(tap.full, bulk(3, 84));
    }

    #[test]
    fn where_a_rule_exports_others_are_left() {
        let (lane, (to, _from)) = (Lane::default(), mpsc::sync_channel(1));
        let mut tap = Tap::new((0, &lane), to, true);
        take(&mut tap, None);
        assert_eq!(tap.came, bulk(0, 0));
        take(&mut tap, Some(9));
        take(&mut tap, Some(u32::MAX));
        assert_eq!(tap.came, bulk(2, 37));
    }

    /// How many packets of so many bytes each are taken until they are to be handed over.
    fn taken_until_full(frame_bytes: usize) -> u64 {
        let (lane, (to, _from)) = (Lane::default(), mpsc::sync_channel(1));
        let mut tap = Tap::new((0, &lane), to, false);
        let mut bytes = DATAGRAM.to_vec();
        bytes.resize(frame_bytes, 0);
        let frame = Frame {
            time_ns: 5,
            link: Some(LinkType::RawIp),
            bytes: &bytes,
            wire_bytes: 90,
        };
        let mut decoder = Decoder::new(&DecodeConfig::default()).unwrap();
        let packet = decoder.handle_frame(&frame).unwrap();
        let verdict = Verdict {
            passes: true,
            rule: None,
            export_bytes: None,
            frame_bytes,
        };
        while !tap.take(&frame, &packet, &verdict) {}
        tap.came.packets
    }

    #[test]
    fn packets_go_when_their_bytes_or_their_number_are_enough() {
        assert_eq!([1 << 10, 1 << 15, 30].map(taken_until_full), [64, 2, 1_024]);
    }

    #[test]
    fn a_lane_that_is_closed_has_what_was_put_into_it_and_then_an_end() {
        let (lane, (to, from)) = (Lane::default(), mpsc::sync_channel(1));
        let mut tap = Tap::new((4, &lane), to, false);
        take(&mut tap, None);
        tap.hand_over(|| false);
        tap.close();
        assert_eq!(from.try_recv().map(|(place, _)| place), Ok(4));
        assert_eq!(
            from.try_recv().err(),
            Some(mpsc::TryRecvError::Disconnected)
        );
    }
}
