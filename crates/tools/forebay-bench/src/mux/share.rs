//! How much of the host's CPU time is used: by the kernel's account (`/proc/stat`), and beside it by threads that run when nobody else wants a CPU, one on each.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_sys::clock::thread_cpu_ns;
use forebay_sys::host::CpuTicks;
use forebay_sys::sched;

use super::Options;
use super::session::Watch;
use crate::child::Booked;

/// The load has begun after so long; a shorter one after a quarter of it.
const BEGIN: Duration = Duration::from_millis(300);
/// Turns of a soaker between two looks at its clock: about 10 µs.
const TURNS: u32 = 200;

/// Parts of the host's CPU time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuShare {
    /// By `/proc/stat`: all that is neither idle nor of threads with a niceness, as the soaker's are.
    pub kernel: f64,
    /// By the soaker: all that it did not get; none: there was no soaker.
    pub soaker: Option<f64>,
}

/// What part of the host is used while a load is made, from when it has begun.
pub(super) struct Sharing {
    wants_soaker: bool,
    soaker: Soaker,
    begin: Duration,
    begun: Option<Instant>,
    from: Option<Reading>,
    share: CpuShare,
}

impl Sharing {
    /// Of a load as it is asked for.
    pub(super) fn of(options: &Options) -> Self {
        Self {
            wants_soaker: options.has_soaker,
            soaker: Soaker::default(),
            begin: BEGIN.min(options.duration / 4),
            begun: None,
            from: None,
            share: CpuShare::default(),
        }
    }

    /// What it came to.
    pub(super) const fn share(&self) -> CpuShare {
        self.share
    }
}

impl Watch for Sharing {
    fn look(&mut self, _: &Booked) -> Result<()> {
        if self.begun.is_none() && self.wants_soaker {
            self.soaker = Soaker::start()?;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if self.from.is_none() && begun.elapsed() >= self.begin {
            self.from = Some(self.soaker.read());
        }
        Ok(())
    }

    fn over(&mut self, _: &Booked) -> Result<()> {
        let soaker = std::mem::take(&mut self.soaker);
        if let Some(from) = self.from {
            self.share = soaker.read().since(&from);
        }
        Ok(())
    }
}

/// Threads that take what nobody else wants, until they are dropped; none of them, where there shall be no soaker.
#[derive(Default)]
struct Soaker {
    is_over: Arc<AtomicBool>,
    /// CPU time of each, in ns.
    soaked_ns: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

/// Both accounts at one instant.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    ticks: CpuTicks,
    soaked_ns: u64,
    cpus: usize,
}

impl Soaker {
    /// Starts one on each CPU that this process may use.
    fn start() -> Result<Self> {
        let mut soaker = Self {
            is_over: Arc::new(AtomicBool::new(false)),
            soaked_ns: Vec::new(),
            threads: Vec::new(),
        };
        for cpu in sched::cpus() {
            let (is_over, soaked_ns) = (Arc::clone(&soaker.is_over), Arc::default());
            soaker.soaked_ns.push(Arc::clone(&soaked_ns));
            let soak = move || soak(cpu, &is_over, &soaked_ns);
            let thread = std::thread::Builder::new().name("soaker".to_owned());
            let thread = thread.spawn(soak).context("starting a soaker")?;
            soaker.threads.push(thread);
        }
        Ok(soaker)
    }

    fn read(&self) -> Reading {
        let soaked = self.soaked_ns.iter();
        Reading {
            at: Instant::now(),
            ticks: CpuTicks::read(),
            soaked_ns: soaked.map(|ns| ns.load(Ordering::Relaxed)).sum(),
            cpus: self.soaked_ns.len(),
        }
    }
}

impl Drop for Soaker {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn soak(cpu: usize, is_over: &AtomicBool, soaked_ns: &AtomicU64) {
    // One that takes more than what is left would be worse than none: the shares then differ, which is told.
    if sched::when_idle().and(sched::pin_to_cpu(cpu)).is_err() {
        return;
    }
    while !is_over.load(Ordering::Relaxed) {
        for _ in 0..TURNS {
            spin_loop();
        }
        soaked_ns.store(thread_cpu_ns(), Ordering::Relaxed);
    }
}

impl Reading {
    /// What was used since an earlier one.
    fn since(&self, before: &Self) -> CpuShare {
        let ticks = self.ticks.since(before.ticks);
        let left = ticks.idle + ticks.nice;
        let all_ns = self.at.duration_since(before.at).as_nanos() as f64 * self.cpus as f64;
        let soaked_ns = self.soaked_ns.saturating_sub(before.soaked_ns) as f64;
        CpuShare {
            kernel: 1.0 - left as f64 / ticks.total().max(1) as f64,
            soaker: (self.cpus > 0).then(|| 1.0 - soaked_ns / all_ns.max(1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_idle_or_soaked() {
        let at = Instant::now();
        let before = Reading {
            at,
            ticks: CpuTicks::default(),
            soaked_ns: 5_000_000_000,
            cpus: 2,
        };
        let after = Reading {
            at: at + Duration::from_secs(10),
            ticks: CpuTicks {
                busy: 1_700,
                nice: 1_100,
                idle: 200,
                stolen: 100,
            },
            soaked_ns: 17_000_000_000,
            cpus: 2,
        };
        let share = after.since(&before);
        assert!((share.kernel - 0.35).abs() < 1e-9, "{share:?}");
        assert!((share.soaker.unwrap() - 0.4).abs() < 1e-9, "{share:?}");
        let bare = |reading: Reading| Reading { cpus: 0, ..reading };
        let share = bare(after).since(&bare(before));
        assert!((share.kernel - 0.35).abs() < 1e-9, "{share:?}");
        assert_eq!(share.soaker, None);
    }

    #[test]
    fn a_soaker_soaks_and_ends() {
        let soaker = Soaker::start().unwrap();
        let before = soaker.read();
        let until = Instant::now() + Duration::from_secs(60);
        while soaker.read().soaked_ns <= before.soaked_ns {
            assert!(Instant::now() < until, "it got no CPU");
            std::thread::sleep(Duration::from_millis(5));
        }
        let share = soaker.read().since(&before);
        assert!(share.soaker.unwrap() < 1.0, "{share:?}");
    }
}
