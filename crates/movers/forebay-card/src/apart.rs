//! The half that sends in a thread of its own: what the kernel does to send a frame is done beside all else. Over a virtual cable that is the way in at the far end, too.
//!
//! ```text
//! this half: send_with ─▶ 64 places for frames ─▶ thread: send_with, flush ─▶ card
//!            fates, room ◀──── board ◀─────────────────── what became of each
//! ```
//!
//! The places are a frame pool within the process, and a side that sleeps is woken, no other one. What is on the board is written once for a batch. A frame waits in its place
//! until the thread's driver has a copy; then alone the place is free again, so that there is no room while the card has none, and packets wait where policies see them.
//!
//! | of frames | counted by |
//! |---|---|
//! | taken | this half, as it writes one into its place |
//! | held | a census of the places, and that of the thread's driver |
//! | out, dropped, of those also the ones that the thread's driver refused | the thread's driver, by the other end's word |

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_mux::Items;
use forebay_ring::{
    Descriptor, FRAME_BYTES_STEP, Frame, FramePoolMemory, FramePoolSpec, FrameReceiver, FrameSender,
};
use forebay_sys::SysError;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::eventfd::EventFd;

use super::account::{CardOutDrop, OutDrops, SendCounts};
use super::fates::Fates;
use super::{Driver, DriverError, FRAME_BYTES_MIN, Fate, Fill, Flushed, SendSide, Sent};

/// Places: what waits in them no policy reaches any more. They are 0.8 ms of 1 Gb/s in frames of 1,518 bytes, and twice what the thread takes at once.
const PLACES: u32 = 64;
/// Frames that the thread takes at once.
const BATCH_FRAMES: usize = 32;
/// So many are shown to the thread before the batch is whole, so that it begins meanwhile.
const SHOW_FRAMES: usize = 16;
/// A wait for room is over when so many places were freed, or no more of them are for now: a wake-up for each would cost more than the frame.
const ROOM_FRAMES: usize = 32;

/// A card without room is looked at again after so long.
const BUSY_LOOK: Duration = Duration::from_micros(200);
/// One that has not said the fate of all frames, after so long.
const FATE_LOOK: Duration = Duration::from_millis(1);
/// A sleep is never longer.
const SLEEP: Duration = Duration::from_millis(100);

const BELL: u64 = 0;
const CARD: u64 = 1;

/// What this half waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// That places are free.
    Room,
    /// That all frames are with the card.
    End,
}

/// What the thread tells this half.
#[derive(Debug, Default)]
struct Told {
    fates: Fates,
    /// The card has no room.
    lacks_room: bool,
    awaited: Option<Awaited>,
    /// Places that were freed since room is awaited.
    freed: usize,
}

/// What both sides reach, for a moment at a time.
#[derive(Debug)]
struct Board {
    told: Mutex<Told>,
    /// Not writable while this half waits.
    room: EventFd,
    is_over: AtomicBool,
}

/// What the thread works on. It is locked for a batch; this half locks it to count.
#[derive(Debug)]
struct Work {
    driver: Box<dyn SendSide>,
    places: FrameReceiver,
    /// A frame that the driver had no room for.
    next: Option<Descriptor>,
    /// The card has no room.
    lacks_room: bool,
    /// Frames that the driver has taken.
    passed: u64,
    /// Those whose fate it has said.
    told: u64,
    /// Frames that it refused, why, and how many it had taken before.
    refused: VecDeque<(u64, CardOutDrop)>,
    fates: Fates,
}

/// The half that a daemon has.
#[derive(Debug)]
struct ApartSend {
    places: FrameSender,
    work: Arc<Mutex<Work>>,
    board: Arc<Board>,
    thread: Option<JoinHandle<()>>,
    has_failed: bool,
    frame_bytes_max: usize,
    /// Frames that the thread is not shown yet.
    unshown: usize,
    /// There was no room for the last one.
    lacks_room: bool,
    taken: Items,
    refused: OutDrops,
    no_room: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a driver of frames of at most so many bytes send in a thread of its own, which has the rights of the one that calls this. It ends with [`SendSide::close`], or when the half is dropped.
///
/// # Errors
/// There is no memory, no descriptor or no thread for it.
pub fn apart(driver: Driver, frame_bytes_max: usize) -> Result<Driver, DriverError> {
    let frame_bytes = u32::try_from(frame_bytes_max).unwrap_or(u32::MAX - FRAME_BYTES_STEP);
    let spec = FramePoolSpec {
        name: "mux-send".into(),
        frames: PLACES,
        frame_bytes: frame_bytes.max(1).next_multiple_of(FRAME_BYTES_STEP),
    };
    let memory = FramePoolMemory::create(&spec)?;
    let places = FrameReceiver::map(&spec, memory.receiver_fds()?)?;
    let mut poller = Poller::create(2)?;
    poller.add(&places.data, BELL, Interest::Readable, Trigger::Level)?;
    let work = Arc::new(Mutex::new(Work {
        driver: driver.send,
        places,
        next: None,
        lacks_room: false,
        passed: 0,
        told: 0,
        refused: VecDeque::new(),
        fates: Fates::default(),
    }));
    let board = Arc::new(Board {
        told: Mutex::default(),
        room: EventFd::create()?,
        is_over: AtomicBool::new(false),
    });
    let sender = FrameSender::map(&spec, memory.sender_fds()?)?;
    let (its_work, its_board) = (Arc::clone(&work), Arc::clone(&board));
    let thread = std::thread::Builder::new().name("fb-send".into());
    let thread = thread
        .spawn(move || send_on(&its_work, &its_board, &mut poller))
        .map_err(|error| SysError::new("clone", "fb-send", error))?;
    let send = Box::new(ApartSend {
        places: sender,
        work,
        board,
        thread: Some(thread),
        has_failed: false,
        frame_bytes_max,
        unshown: 0,
        lacks_room: false,
        taken: Items::default(),
        refused: OutDrops::default(),
        no_room: 0,
    });
    Ok(Driver { send, ..driver })
}

/// The thread: sends what is there until it is over, and sleeps when there is nothing.
fn send_on(work: &Mutex<Work>, board: &Board, poller: &mut Poller) {
    let (mut has_asked, mut is_watched) = (false, false);
    loop {
        let mut at_work = lock(work);
        if board.is_over.load(Ordering::Acquire) {
            return;
        }
        if at_work.step(board) > 0 {
            if std::mem::take(&mut has_asked) {
                at_work.places.data.finish();
            }
            continue;
        }
        // It is looked once more behind the question for the bell, also whether it is over.
        if !std::mem::replace(&mut has_asked, true) {
            at_work.places.data.prepare();
            continue;
        }
        if at_work.lacks_room != is_watched {
            is_watched = at_work.lacks_room;
            let card = at_work.driver.descriptor();
            // Where it cannot be waited for, the time to look again is enough.
            let _ = if is_watched {
                poller.add(card, CARD, Interest::Writable, Trigger::Edge)
            } else {
                poller.remove(card)
            };
        }
        let patience = at_work.patience();
        drop(at_work);
        if poller.wait(Some(patience), Duration::ZERO).is_err() {
            return;
        }
        lock(work).places.data.finish();
        has_asked = false;
    }
}

impl Work {
    /// Gives the card a batch, and tells what became of frames; how many places are free again.
    fn step(&mut self, board: &Board) -> usize {
        if self.lacks_room || self.told < self.passed {
            self.lacks_room = self.driver.flush() != Flushed::All;
        }
        // What the card has no room for waits in its place, where there is an end of places.
        let taken = if self.lacks_room { 0 } else { self.take() };
        if taken > 0 {
            self.lacks_room = self.driver.flush() != Flushed::All;
        }
        self.lacks_room |= self.next.is_some();
        self.learn();
        self.tell(board, taken);
        taken
    }

    fn take(&mut self) -> usize {
        for taken in 0..BATCH_FRAMES {
            // Both ends of the pool are here, so that nothing wrong is said of a place.
            let there = || self.places.next().ok().flatten();
            let Some(place) = self.next.take().or_else(there) else {
                return taken;
            };
            match self.hand(&place) {
                Sent::NoRoom => {
                    self.next = Some(place);
                    return taken;
                }
                Sent::Taken => self.passed += 1,
                Sent::Refused(why) => self.refused.push_back((self.passed, why)),
            }
            self.places.free(place.frame);
        }
        BATCH_FRAMES
    }

    /// Has the driver copy a frame out of its place.
    fn hand(&mut self, place: &Descriptor) -> Sent {
        let Self { driver, places, .. } = self;
        let frame = places.view(place);
        driver.send_with(place.len as usize, &mut |room| {
            frame.is_some_and(|frame| frame.copy_to(0, room))
        })
    }

    /// Hears what became of frames. One that was refused has its fate behind those that were taken before.
    fn learn(&mut self) {
        let Self {
            driver,
            told,
            refused,
            fates,
            ..
        } = self;
        let mut catch_up = |told: u64, fates: &mut Fates| {
            while let Some((before, why)) = refused.front()
                && *before <= told
            {
                fates.note(Fate::Dropped(*why), 1);
                refused.pop_front();
            }
        };
        catch_up(*told, fates);
        driver.fates(&mut |fate| {
            fates.note(fate, 1);
            *told += 1;
            catch_up(*told, fates);
        });
    }

    /// Tells the other side, with so many places that are free again.
    fn tell(&mut self, board: &Board, freed: usize) {
        let has_moved = !self.fates.is_empty();
        let mut told = lock(&board.told);
        told.fates.append(&mut self.fates);
        told.lacks_room = self.lacks_room;
        self.places.publish();
        told.freed += freed;
        let is_end = freed < BATCH_FRAMES && !self.lacks_room;
        let is_so = match told.awaited {
            Some(Awaited::Room) => {
                is_end || told.freed >= ROOM_FRAMES || (self.lacks_room && told.freed > 0)
            }
            Some(Awaited::End) => is_end || (self.lacks_room && has_moved),
            None => false,
        };
        if is_so {
            told.awaited = None;
            board.room.drain();
        }
    }

    /// How long nothing has to be done, if nothing comes.
    const fn patience(&self) -> Duration {
        if self.lacks_room {
            BUSY_LOOK
        } else if self.told < self.passed {
            FATE_LOOK
        } else {
            SLEEP
        }
    }
}

impl ApartSend {
    fn refuse(&mut self, why: CardOutDrop) -> Sent {
        self.refused[why] += 1;
        Sent::Refused(why)
    }

    fn has_no_room(&mut self) -> Sent {
        self.lacks_room = true;
        self.no_room += 1;
        Sent::NoRoom
    }

    /// Shows the thread what was taken, and wakes it if it sleeps.
    fn show(&mut self) {
        self.unshown = 0;
        self.places.publish();
        self.places.data.notify();
    }

    fn place(&mut self) -> Option<Frame> {
        self.thread.as_ref()?;
        if let place @ Some(_) = self.places.acquire() {
            return place;
        }
        self.show();
        self.places.reclaim().ok()?;
        self.places.acquire()
    }
}

impl SendSide for ApartSend {
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        if bytes > self.frame_bytes_max {
            return self.refuse(CardOutDrop::TooLong);
        }
        if bytes < FRAME_BYTES_MIN {
            return self.refuse(CardOutDrop::TooShort);
        }
        let Some(mut place) = self.place() else {
            return self.has_no_room();
        };
        let room = self.places.bytes_mut(&mut place);
        if !room
            .and_then(|room| room.get_mut(..bytes))
            .is_some_and(fill)
        {
            self.places.put_back(place);
            return self.refuse(CardOutDrop::NotFilled);
        }
        if let Err(unsent) = self.places.send(place, 0, bytes as u32, 0) {
            self.places.put_back(unsent.frame);
            return self.has_no_room();
        }
        self.lacks_room = false;
        self.taken.add(bytes as u32);
        self.unshown += 1;
        if self.unshown == SHOW_FRAMES {
            self.show();
        }
        Sent::Taken
    }

    fn flush(&mut self) -> Flushed {
        self.show();
        let mut told = lock(&self.board.told);
        // An end of places that says nonsense is none of this process's: its places stay taken.
        let _ = self.places.reclaim();
        let is_empty = self.places.free_frames() == PLACES as usize;
        if is_empty && !told.lacks_room {
            return Flushed::All;
        }
        let has_room = self.places.free_frames() > 0;
        let awaited = match self.lacks_room {
            true if has_room => {
                self.lacks_room = false;
                None
            }
            true => Some(Awaited::Room),
            false => Some(Awaited::End),
        };
        let before = std::mem::replace(&mut told.awaited, awaited);
        if before != awaited {
            told.freed = 0;
        }
        match (before, awaited) {
            (None, Some(_)) => self.board.room.fill(),
            (Some(_), None) => _ = self.board.room.drain(),
            _ => {}
        }
        match told.lacks_room {
            true => Flushed::Waits,
            false => Flushed::UnderWay,
        }
    }

    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        // To hear them may take long, and the thread shall not wait for that.
        let mut fates = std::mem::take(&mut lock(&self.board.told).fates);
        fates.tell(told);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.board.room.as_fd()
    }

    fn check(&mut self) -> Result<(), DriverError> {
        let has_ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        match self.has_failed || has_ended {
            true => Err(DriverError::SendThread),
            false => Ok(()),
        }
    }

    fn close(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let has_ended = thread.is_finished();
        self.board.is_over.store(true, Ordering::Release);
        self.places.data.notify();
        self.has_failed = thread.join().is_err() || has_ended;
    }

    /// Behind the batch that the thread gives the card now, so that no frame is counted twice, or not at all.
    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        let mut work = lock(&self.work);
        work.learn();
        // Also what a thread that has failed had freed and not told.
        work.tell(&self.board, 0);
        let _ = self.places.reclaim();
        let its = work.driver.counts()?;
        let dropped = OutDrops::from_fn(|why| its.dropped[why] + its.refused[why]);
        Ok(SendCounts {
            taken: self.taken,
            out: its.out,
            dropped,
            held: its.held + u64::from(PLACES) - self.places.free_frames() as u64,
            refused: self.refused,
            no_room: self.no_room,
        })
    }
}

impl Drop for ApartSend {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
