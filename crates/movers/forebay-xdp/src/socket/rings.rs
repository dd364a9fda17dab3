//! Both ends of the rings of a socket. The numbers of their places go on from 0 to 2^32, and then from 0 again.
//!
//! What the kernel says of its end is held against this one: of a number that cannot be, nothing is read and nothing written.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::abi::Plain;
use crate::sys::xsk::RingMemory;

/// The end that writes: of the fill ring and of the send ring.
#[derive(Debug)]
pub(crate) struct Giving<T> {
    memory: RingMemory,
    /// The number of the place that is written next.
    at: u32,
    /// Up to where the kernel has read, as was last seen.
    read: u32,
    of: PhantomData<T>,
}

impl<T: Plain> Giving<T> {
    pub(crate) fn new(memory: RingMemory) -> Self {
        Self {
            at: memory.producer().load(Ordering::Relaxed),
            read: memory.consumer().load(Ordering::Relaxed),
            memory,
            of: PhantomData,
        }
    }

    /// Whether a place is free.
    pub(crate) fn has_room(&mut self) -> bool {
        if self.at.wrapping_sub(self.read) < self.memory.entries() {
            return true;
        }
        // SYNC POINT: the kernel reads no place before this number any more.
        self.read = self.memory.consumer().load(Ordering::Acquire);
        // One that is ahead of what was written cannot be, and gives no room either.
        self.at.wrapping_sub(self.read) < self.memory.entries()
    }

    /// Writes the next place, which the kernel sees after [`show`](Self::show); false if none is free.
    pub(crate) fn push(&mut self, value: T) -> bool {
        let has_room = self.has_room();
        if has_room {
            self.memory.write(self.at, value);
            self.at = self.at.wrapping_add(1);
        }
        has_room
    }

    /// Shows the kernel all that was written.
    pub(crate) fn show(&self) {
        // SYNC POINT: all places before it are written.
        self.memory.producer().store(self.at, Ordering::Release);
    }

    /// Places that the kernel has not read.
    pub(crate) fn waiting(&self) -> u32 {
        // SYNC POINT: none is needed, as no place is touched for it.
        let read = self.memory.consumer().load(Ordering::Relaxed);
        self.at.wrapping_sub(read).min(self.memory.entries())
    }

    pub(crate) fn needs_wakeup(&self) -> bool {
        self.memory.needs_wakeup()
    }
}

/// The end that reads: of the receive ring and of the completion ring.
#[derive(Debug)]
pub(crate) struct Taking<T> {
    memory: RingMemory,
    /// The number of the place that is read next.
    at: u32,
    /// Up to where the kernel has written, as was last seen.
    written: u32,
    of: PhantomData<T>,
}

impl<T: Plain> Taking<T> {
    pub(crate) fn new(memory: RingMemory) -> Self {
        let at = memory.consumer().load(Ordering::Relaxed);
        Self {
            at,
            written: at,
            memory,
            of: PhantomData,
        }
    }

    /// Sees what the kernel has written, and gives how many places [`pop`](Self::pop) will read.
    pub(crate) fn look(&mut self) -> u32 {
        // SYNC POINT: all places before this number are written.
        let written = self.memory.producer().load(Ordering::Acquire);
        if written.wrapping_sub(self.at) <= self.memory.entries() {
            self.written = written;
        }
        self.written.wrapping_sub(self.at)
    }

    /// Reads the next place that was seen by [`look`](Self::look).
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.at == self.written {
            return None;
        }
        let value = self.memory.read(self.at);
        self.at = self.at.wrapping_add(1);
        Some(value)
    }

    /// The places that the kernel has written, and that were not read; they stay.
    pub(crate) fn there(&self) -> impl Iterator<Item = T> {
        // SYNC POINT: all places before this number are written.
        let written = self.memory.producer().load(Ordering::Acquire);
        let count = written.wrapping_sub(self.at);
        let count = if count <= self.memory.entries() {
            count
        } else {
            0
        };
        (0..count).map(|place| self.memory.read(self.at.wrapping_add(place)))
    }

    /// Gives the kernel the places back that were read.
    pub(crate) fn give_back(&self) {
        // SYNC POINT: the kernel may write them from now on.
        self.memory.consumer().store(self.at, Ordering::Release);
    }

    /// Places that the kernel has written, and that were not read.
    pub(crate) fn waiting(&self) -> u32 {
        let written = self.memory.producer().load(Ordering::Relaxed);
        written.wrapping_sub(self.at).min(self.memory.entries())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use proptest::prelude::*;

    /// Numbers just before 2^32, and others.
    fn begin() -> impl Strategy<Value = u32> {
        prop_oneof![
            (0..40_u32).prop_map(|back| 0_u32.wrapping_sub(back)),
            any::<u32>()
        ]
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u8),
        Show,
        /// The other side takes, or gives, so many.
        Other(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1..20_u8).prop_map(Step::Push),
            Just(Step::Show),
            (1..20_u8).prop_map(Step::Other)
        ];
        proptest::collection::vec(step, 1..60)
    }

    proptest! {
        #[test]
        fn what_is_given_is_read_in_order_and_never_written_over(begin in begin(), bits in 1..5_u32, steps in steps()) {
            let entries = 1 << bits;
            let mut ring = Giving::<u64>::new(RingMemory::alone(entries, begin, 8));
            // What the kernel may read, what is not shown yet, and the number of the next value.
            let (mut shown, mut hidden, mut next) = (VecDeque::new(), VecDeque::new(), 0_u64);
            for step in steps {
                match step {
                    Step::Push(count) => for _ in 0..count {
                        let has_room = shown.len() + hidden.len() < entries as usize;
                        prop_assert_eq!(ring.push(next), has_room);
                        if has_room {
                            hidden.push_back(next);
                        }
                        next += 1;
                    },
                    Step::Show => {
                        ring.show();
                        shown.append(&mut hidden);
                    }
                    Step::Other(count) => for _ in 0..count {
                        let consumer = ring.memory.consumer().load(Ordering::Relaxed);
                        let producer = ring.memory.producer().load(Ordering::Relaxed);
                        prop_assert_eq!(producer.wrapping_sub(consumer) as usize, shown.len());
                        let Some(value) = shown.pop_front() else { break };
                        prop_assert_eq!(ring.memory.read::<u64>(consumer), value);
                        ring.memory.consumer().store(consumer.wrapping_add(1), Ordering::Relaxed);
                    },
                }
                prop_assert_eq!(ring.waiting() as usize, shown.len() + hidden.len());
            }
        }

        #[test]
        fn what_is_taken_is_what_was_written(begin in begin(), bits in 1..5_u32, steps in steps()) {
            let entries = 1 << bits;
            let mut ring = Taking::<u64>::new(RingMemory::alone(entries, begin, 8));
            let (mut written, mut read, mut next) = (VecDeque::new(), 0, 0_u64);
            for step in steps {
                match step {
                    Step::Other(count) => for _ in 0..count {
                        let producer = ring.memory.producer().load(Ordering::Relaxed);
                        if written.len() + read == entries as usize {
                            break;
                        }
                        ring.memory.write(producer, next);
                        ring.memory.producer().store(producer.wrapping_add(1), Ordering::Relaxed);
                        written.push_back(next);
                        next += 1;
                    },
                    Step::Push(count) => {
                        prop_assert_eq!(ring.look() as usize, written.len());
                        for _ in 0..count {
                            let value = ring.pop();
                            prop_assert_eq!(value, written.pop_front());
                            read += usize::from(value.is_some());
                        }
                    }
                    Step::Show => {
                        ring.give_back();
                        read = 0;
                    }
                }
                prop_assert_eq!(ring.waiting() as usize, written.len());
                prop_assert!(ring.there().eq(written.iter().copied()));
                let consumer = ring.memory.consumer().load(Ordering::Relaxed);
                let producer = ring.memory.producer().load(Ordering::Relaxed);
                prop_assert_eq!(producer.wrapping_sub(consumer) as usize, written.len() + read);
            }
        }

        #[test]
        fn a_number_that_cannot_be_is_not_followed(begin in begin(), ahead in 9..u32::MAX - 9) {
            let mut taking = Taking::<u64>::new(RingMemory::alone(8, begin, 8));
            taking.memory.producer().store(begin.wrapping_add(ahead), Ordering::Relaxed);
            prop_assert_eq!((taking.look(), taking.pop()), (0, None));
            let mut giving = Giving::<u64>::new(RingMemory::alone(8, begin, 8));
            for value in 0..8 {
                prop_assert!(giving.push(value));
            }
            // Ahead of what was written, or further behind than there are places.
            giving.memory.consumer().store(begin.wrapping_add(ahead), Ordering::Relaxed);
            prop_assert!(!giving.push(8));
        }
    }
}
