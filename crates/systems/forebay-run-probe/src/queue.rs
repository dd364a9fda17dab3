//! The bounded way of records from the threads that capture to the one that exports: a lane for each of them, of so many records.
//!
//! A lane that is full holds back a reader of a file; of a live input, which nothing may hold back, the records are lost by name. The lane counts what
//! was put into it and what was taken out; both ends count for themselves.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::export::{Amount, Losses, Row};

/// Records that are handed over together.
const BATCH: usize = 256;
/// One look at whether to go on waiting.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Lane {
    batches: VecDeque<Vec<Row>>,
    records: usize,
    put: Amount,
    taken: Amount,
    /// Nothing more comes.
    is_closed: bool,
    /// What was lost in front of it, and for want of room in it.
    losses: Losses,
}

#[derive(Debug)]
struct State {
    lanes: Vec<Lane>,
    /// The lane that is looked at first.
    turn: usize,
    /// Nobody takes anything any more.
    is_left: bool,
}

/// All lanes.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    room: Condvar,
    limit: usize,
}

/// What the exporting end finds.
#[derive(Debug)]
pub(crate) enum Found {
    /// Records of a lane.
    Records(usize, Vec<Row>),
    /// Nothing for now.
    Nothing,
    /// All lanes are closed and empty.
    End,
}

impl Queue {
    pub(crate) fn new(lanes: usize, limit: usize) -> Self {
        Self {
            state: Mutex::new(State {
                lanes: (0..lanes).map(|_| Lane::default()).collect(),
                turn: 0,
                is_left: false,
            }),
            filled: Condvar::new(),
            room: Condvar::new(),
            limit,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most so long for records.
    pub(crate) fn take(&self, wait: Duration) -> Found {
        let mut state = self.state();
        let found = state.take();
        if !matches!(found, Found::Nothing) {
            self.room.notify_all();
            return found;
        }
        let waited = self.filled.wait_timeout(state, wait);
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let found = state.take();
        self.room.notify_all();
        found
    }

    /// What was taken out of a lane.
    pub(crate) fn taken(&self, lane: usize) -> Amount {
        self.state().lanes[lane].taken
    }

    /// What was lost in front of all lanes and for want of room in them, as was told last.
    pub(crate) fn losses(&self) -> Losses {
        let mut all = Losses::default();
        for lane in &self.state().lanes {
            all += lane.losses;
        }
        all
    }

    /// Nobody takes anything any more: what is left stays.
    pub(crate) fn leave(&self) {
        self.state().is_left = true;
        self.room.notify_all();
    }
}

impl State {
    fn take(&mut self) -> Found {
        let lanes = self.lanes.len();
        for at in (0..lanes).map(|at| (self.turn + at) % lanes) {
            let lane = &mut self.lanes[at];
            if let Some(batch) = lane.batches.pop_front() {
                lane.records -= batch.len();
                batch
                    .iter()
                    .for_each(|one| lane.taken += Amount::of(&one.record));
                self.turn = at + 1;
                return Found::Records(at, batch);
            }
        }
        match self.lanes.iter().all(|lane| lane.is_closed) {
            true => Found::End,
            false => Found::Nothing,
        }
    }
}

/// The end of a lane that puts records in. It closes the lane when it goes.
pub(crate) struct Outlet<'a> {
    queue: &'a Queue,
    lane: usize,
    batch: Vec<Row>,
    /// Records that are in the lane, or were.
    pub(crate) given: Amount,
    /// Records that found no room.
    pub(crate) full: Amount,
}

impl<'a> Outlet<'a> {
    pub(crate) fn new(queue: &'a Queue, lane: usize) -> Self {
        Self {
            queue,
            lane,
            batch: Vec::with_capacity(BATCH),
            given: Amount::default(),
            full: Amount::default(),
        }
    }

    /// Takes a record; whether there are enough to be handed over.
    pub(crate) fn push(&mut self, row: Row) -> bool {
        self.batch.push(row);
        self.batch.len() >= BATCH
    }

    /// What was not handed over yet.
    pub(crate) fn held(&self) -> Amount {
        let mut held = Amount::default();
        self.batch
            .iter()
            .for_each(|one| held += Amount::of(&one.record));
        held
    }

    /// What was put into the lane, by the lane's count.
    pub(crate) fn put(&self) -> Amount {
        self.queue.state().lanes[self.lane].put
    }

    /// Hands over what there is, when there is room: waits for that as long as `waits` says, and then loses it.
    pub(crate) fn hand_over(&mut self, waits: impl Fn() -> bool) {
        if self.batch.is_empty() {
            return;
        }
        let amount = self.held();
        let batch = mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let mut state = self.queue.state();
        while state.lanes[self.lane].records + batch.len() > self.queue.limit {
            if state.is_left || !waits() {
                self.full += amount;
                return;
            }
            let waited = self.queue.room.wait_timeout(state, LOOK);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let lane = &mut state.lanes[self.lane];
        lane.records += batch.len();
        batch
            .iter()
            .for_each(|one| lane.put += Amount::of(&one.record));
        lane.batches.push_back(batch);
        self.given += amount;
        drop(state);
        self.queue.filled.notify_one();
    }

    /// Nothing more comes.
    pub(crate) fn close(&self) {
        self.queue.state().lanes[self.lane].is_closed = true;
        self.queue.filled.notify_one();
    }

    /// Tells what was lost in front of the lane; what found no room in it is known here.
    pub(crate) fn tell(&self, before: Losses) {
        self.queue.state().lanes[self.lane].losses = Losses {
            no_room: self.full,
            ..before
        };
    }
}

impl Drop for Outlet<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use forebay_flow::Volume;

    use super::*;
    use crate::export::tests::row;

    const NO_WAIT: Duration = Duration::ZERO;

    fn give(outlet: &mut Outlet<'_>, octets: u64, waits: bool) {
        outlet.push(row(octets));
        outlet.hand_over(|| waits);
    }

    #[test]
    fn a_full_lane_loses_by_name_and_no_other_lanes_records() {
        let queue = Queue::new(2, 2);
        let (mut one, mut two) = (Outlet::new(&queue, 0), Outlet::new(&queue, 1));
        (1..=3).for_each(|octets| give(&mut one, octets, false));
        give(&mut two, 10, false);
        let counts = |outlet: &Outlet<'_>| (outlet.given.volume.octets, outlet.full.volume.octets);
        assert_eq!((counts(&one), counts(&two)), ((3, 3), (10, 0)));
        assert_eq!((one.put(), two.put()), (one.given, two.given));
        // What is told of both lanes, again and again, is their sum.
        for unread_packets in [1, 5] {
            let before = Losses {
                unread_packets,
                ..Losses::default()
            };
            one.tell(before);
            two.tell(before);
        }
        let told = queue.losses();
        assert_eq!((told.unread_packets, told.filter), (10, None));
        assert_eq!((told.no_room, told.no_room.flows), (one.full, 1));
        // In turns.
        let mut lanes = Vec::new();
        while let Found::Records(lane, records) = queue.take(NO_WAIT) {
            lanes.push((lane, records[0].record.octets));
        }
        assert_eq!(lanes, [(0, 1), (1, 10), (0, 2)]);
        assert_eq!((queue.taken(0), queue.taken(1)), (one.given, two.given));
        drop((one, two));
        assert!(matches!(queue.take(NO_WAIT), Found::End));
    }

    #[test]
    fn a_batch_is_handed_over_when_it_is_full_and_not_before() {
        let queue = Queue::new(1, BATCH);
        let mut outlet = Outlet::new(&queue, 0);
        let is_full: Vec<_> = (1..=BATCH).map(|_| outlet.push(row(1))).collect();
        let mut right = [false; BATCH];
        right[BATCH - 1] = true;
        assert_eq!(is_full, right);
        outlet.hand_over(|| false);
        assert_eq!(outlet.given.flows, BATCH as u64);
        assert!(!outlet.push(row(1)));
    }

    #[test]
    fn what_lanes_ignored_is_told_for_all_of_them() {
        let queue = Queue::new(3, 2);
        for (lane, packets) in [(0, 3), (2, 40)] {
            let octets = packets * 100;
            Outlet::new(&queue, lane).tell(Losses {
                ignored: Volume { packets, octets },
                ..Losses::default()
            });
        }
        let (packets, octets) = (43, 4_300);
        assert_eq!(queue.losses().ignored, Volume { packets, octets });
    }

    #[test]
    fn a_sender_that_waits_loses_nothing_until_nobody_takes_any_more() {
        let queue = Queue::new(1, 2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut outlet = Outlet::new(&queue, 0);
                (0..1_000).for_each(|octets| give(&mut outlet, octets, true));
                assert_eq!((outlet.given.flows, outlet.full.flows), (1_000, 0));
            });
            let mut next = 0;
            loop {
                match queue.take(Duration::from_secs(10)) {
                    Found::Records(_, records) => {
                        assert_eq!(records[0].record.octets, next);
                        next += 1;
                    }
                    Found::Nothing => {}
                    Found::End => break,
                }
            }
            assert_eq!(next, 1_000);
        });
        let left = Queue::new(1, 2);
        left.leave();
        let mut outlet = Outlet::new(&left, 0);
        (0..3).for_each(|octets| give(&mut outlet, octets, true));
        assert_eq!((outlet.given.flows, outlet.full.flows), (2, 1));
    }
}
