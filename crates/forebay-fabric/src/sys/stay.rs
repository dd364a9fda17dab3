//! Ends a process that the provider `shm` holds up for good.
//!
//! The provider guards the memory that processes share with locks that are waited for by spinning (`pthread_spin_lock`, `prov/shm`, seen with libfabric
//! 1.17). A process that is killed between taking one and giving it back leaves it taken, and whoever needs it next never returns from the library: it
//! neither ends when it is asked to nor serves anybody. Nothing outside the library can give the lock back. So a call that lasts without end while the peer
//! is dead is noticed by a thread of its own, which says what has happened and ends the process. A peer that lives and was stopped (`SIGSTOP`) is waited for.

use std::io::Write;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// How often calls are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks that find a thread in the same call before its process is ended. A process that is stopped as a whole is not looked at either.
const LOOKS: u32 = 20;
/// How long the process may take to end by itself: the library has something to do then, too.
const END_WITHIN: Duration = Duration::from_secs(2);
/// What it ends with: it could not be done.
const EXIT: i32 = 2;

/// Whether a thread is inside of the library for an end point.
#[derive(Debug, Default)]
pub(super) struct Stay {
    /// Calls begun and ended: odd while one is under way.
    turns: AtomicU64,
    /// The peer's process; 0: not known.
    peer: AtomicI32,
}

/// What was seen of an end point.
struct Seen {
    stay: Weak<Stay>,
    turns: u64,
    looks: u32,
}

static WATCHED: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

impl Stay {
    /// One that is looked at from now on.
    pub(super) fn watched() -> Arc<Self> {
        static WATCH: Once = Once::new();
        let stay = Arc::new(Self::default());
        let seen = Seen {
            stay: Arc::downgrade(&stay),
            turns: 0,
            looks: 0,
        };
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.push(seen);
        drop(watched);
        WATCH.call_once(|| {
            // Without the thread all is as it was: a call may last without end.
            let _ = thread::Builder::new()
                .name("fabric-watch".into())
                .spawn(watch);
        });
        stay
    }

    /// A call begins. Nobody else calls for the same end point meanwhile.
    pub(super) fn begin(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        debug_assert!(turns.is_multiple_of(2), "a call begins within another one");
        self.turns.store(turns | 1, Ordering::Relaxed);
    }

    /// It has come back.
    pub(super) fn end(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        debug_assert!(!turns.is_multiple_of(2), "a call ends that has not begun");
        self.turns
            .store((turns | 1).wrapping_add(1), Ordering::Relaxed);
    }

    /// The peer has this address of the provider: `fi_shm://PROCESS:…`.
    pub(super) fn meets(&self, address: &[u8]) {
        let text = std::str::from_utf8(address).unwrap_or_default();
        let process = text
            .strip_prefix("fi_shm://")
            .and_then(|rest| rest.split(':').next());
        let peer = process.and_then(|number| number.parse().ok());
        self.peer.store(peer.unwrap_or(0), Ordering::Relaxed);
    }

    fn peer_is_dead(&self) -> bool {
        let peer = self.peer.load(Ordering::Relaxed);
        if peer <= 0 {
            return false;
        }
        // SAFETY: signal 0 asks whether there is such a process, and is sent to nobody.
        let code = unsafe { libc::kill(peer, 0) };
        match code {
            0 => is_zombie(peer),
            _ => std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH),
        }
    }

    fn is_held_up(&self, seen: &mut u64, looks: &mut u32) -> bool {
        let turns = self.turns.load(Ordering::Relaxed);
        let is_in_the_same_call = turns % 2 == 1 && turns == *seen;
        *looks = if is_in_the_same_call { *looks + 1 } else { 0 };
        *seen = turns;
        *looks >= LOOKS && self.peer_is_dead()
    }
}

/// Whether all of a process has ended, and nobody has asked for its end (`/proc/PID/stat`: state, and how many threads).
fn is_zombie(process: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let mut fields = text
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace();
    let is_over = matches!(fields.next(), Some("Z" | "X"));
    let threads = fields.nth(16).and_then(|count| count.parse::<u32>().ok());
    is_over && threads.is_none_or(|count| count <= 1)
}

fn watch() {
    loop {
        thread::sleep(LOOK_EVERY);
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_held_up = false;
        watched.retain_mut(|seen| {
            let stay = seen.stay.upgrade();
            let held = stay.is_some_and(|stay| stay.is_held_up(&mut seen.turns, &mut seen.looks));
            is_held_up |= held;
            seen.stay.strong_count() > 0
        });
        drop(watched);
        if is_held_up {
            end();
        }
    }
}

fn end() -> ! {
    let held_up = (LOOK_EVERY * LOOKS).as_secs();
    // First, as whoever reads what is said may be held up, too.
    let limit = thread::Builder::new().spawn(|| {
        thread::sleep(END_WITHIN);
        end_at_once()
    });
    let _ = writeln!(
        std::io::stderr(),
        "forebay: held up for {held_up} s in libfabric's provider shm, which does not come back: a process at the other end was killed while it held a lock \
         of the memory that both share. This process is ended, and its books stay as they stand; start it again, and use shm:// in place of fabric+shm:// \
         where processes may be killed"
    );
    if limit.is_err() {
        end_at_once();
    }
    std::process::exit(EXIT)
}

fn end_at_once() -> ! {
    // SAFETY: ends the process at once; takes nothing but a number.
    unsafe { libc::_exit(EXIT) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::*;

    const CHILD: &str = "FOREBAY_TEST_HELD_UP";

    /// The address of a process that was.
    fn dead() -> String {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        format!("fi_shm://{}:0:1", child.id())
    }

    fn alive() -> String {
        format!("fi_shm://{}:0:1", std::process::id())
    }

    #[test]
    fn who_has_ended_is_dead_also_when_nobody_has_asked_for_its_end() {
        let stay = Stay::default();
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        stay.meets(format!("fi_shm://{}:0:1", child.id()).as_bytes());
        assert!(!stay.peer_is_dead());
        child.kill().unwrap();
        let limit = Instant::now() + Duration::from_secs(10);
        while !stay.peer_is_dead() {
            assert!(Instant::now() < limit, "a zombie counts as alive");
            thread::sleep(Duration::from_millis(1));
        }
        child.wait().unwrap();
        assert!(stay.peer_is_dead());
    }

    #[test]
    fn only_one_call_that_lasts_is_taken_for_held_up() {
        let (stay, mut seen, mut looks) = (Stay::default(), 0, 0);
        stay.meets(dead().as_bytes());
        for _ in 0..3 * LOOKS {
            // Between calls, or in another one at each look.
            assert!(!stay.is_held_up(&mut seen, &mut looks));
        }
        for _ in 0..3 * LOOKS {
            stay.begin();
            assert!(!stay.is_held_up(&mut seen, &mut looks));
            stay.end();
        }
        stay.begin();
        // One that lives may go on.
        for (_, peer) in (0..3 * LOOKS).zip([alive(), "shm".into()].iter().cycle()) {
            stay.meets(peer.as_bytes());
            assert!(!stay.is_held_up(&mut seen, &mut looks));
        }
        stay.meets(dead().as_bytes());
        assert!(stay.is_held_up(&mut seen, &mut looks));
        looks = 0;
        let found = (1..3 * LOOKS).position(|_| stay.is_held_up(&mut seen, &mut looks));
        assert_eq!(found, Some(LOOKS as usize - 1));
    }

    #[test]
    fn a_process_that_is_held_up_in_a_call_is_ended_and_says_why() {
        if std::env::var_os(CHILD).is_some() {
            let stay = Stay::watched();
            stay.meets(dead().as_bytes());
            stay.begin();
            thread::sleep(Duration::from_secs(30));
            std::process::exit(9);
        }
        let begun = Instant::now();
        let name = "sys::stay::tests::a_process_that_is_held_up_in_a_call_is_ended_and_says_why";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(EXIT), "{said}");
        assert!(said.contains("was killed while it held a lock"), "{said}");
        assert!(begun.elapsed() >= LOOK_EVERY * LOOKS);
    }
}
