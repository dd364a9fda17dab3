//! How much of the host's CPU time is used: by the kernel's account (`/proc/stat`), and beside it by threads that run when nobody else wants a CPU, one on each.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_sys::clock::thread_cpu_ns;
use forebay_sys::host::CpuTicks;
use forebay_sys::process::user_ticks;
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
    /// By `/proc/stat`: all that is neither idle nor the soaker's. That of threads with a niceness is the soaker's, but for what clients with one had outside the kernel.
    pub kernel: f64,
    /// By the soaker: all that it did not get; none: there was no soaker.
    pub soaker: Option<f64>,
}

/// What part of the host is used while a load is made, from when it has begun.
pub(super) struct Sharing {
    wants_soaker: bool,
    soaker: Soaker,
    /// Of each client: what it had outside the kernel when it was there last, if it has a niceness.
    niced: Vec<Option<u64>>,
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
            niced: options
                .clients
                .iter()
                .map(|client| (client.niceness > 0).then_some(0))
                .collect(),
            begin: BEGIN.min(options.duration / 4),
            begun: None,
            from: None,
            share: CpuShare::default(),
        }
    }

    /// Looks at clients with a niceness, while they are there.
    fn note(&mut self, clients: &[Booked]) {
        for (niced, client) in self.niced.iter_mut().zip(clients) {
            let Some(ticks) = niced else { continue };
            // One that has ended has what it had.
            *ticks = user_ticks(client.child.pid()).unwrap_or(*ticks);
        }
    }

    fn read(&self) -> Reading {
        Reading {
            niced_ticks: self.niced.iter().flatten().sum(),
            ..self.soaker.read()
        }
    }

    /// What it came to.
    pub(super) const fn share(&self) -> CpuShare {
        self.share
    }
}

impl Watch for Sharing {
    fn look(&mut self, _: &Booked, clients: &[Booked]) -> Result<()> {
        if self.begun.is_none() && self.wants_soaker {
            self.soaker = Soaker::start()?;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.note(clients);
        if self.from.is_none() && begun.elapsed() >= self.begin {
            self.from = Some(self.read());
        }
        Ok(())
    }

    fn over(&mut self, _: &Booked, clients: &[Booked]) -> Result<()> {
        self.note(clients);
        if let Some(from) = self.from {
            self.share = self.read().since(&from);
        }
        self.soaker = Soaker::default();
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
    /// Of clients with a niceness, outside the kernel.
    niced_ticks: u64,
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
            niced_ticks: 0,
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
        let niced = self.niced_ticks.saturating_sub(before.niced_ticks);
        // Without a soaker no thread with a niceness is left out.
        let soaked = if self.cpus > 0 {
            ticks.nice.saturating_sub(niced)
        } else {
            0
        };
        let left = ticks.idle + soaked;
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
            niced_ticks: 40,
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
            niced_ticks: 40,
            soaked_ns: 17_000_000_000,
            cpus: 2,
        };
        let share = after.since(&before);
        assert!((share.kernel - 0.35).abs() < 1e-9, "{share:?}");
        assert!((share.soaker.unwrap() - 0.4).abs() < 1e-9, "{share:?}");
        // A client with a niceness has used 200 of the 1,100.
        let niced_ticks = 240;
        let share = Reading {
            niced_ticks,
            ..after
        }
        .since(&before);
        assert!((share.kernel - 0.45).abs() < 1e-9, "{share:?}");
        let bare = |reading: Reading| Reading { cpus: 0, ..reading };
        let share = bare(after).since(&bare(before));
        assert!((share.kernel - 0.9).abs() < 1e-9, "{share:?}");
        assert_eq!(share.soaker, None);
    }

    #[test]
    fn what_a_process_with_a_niceness_uses_is_told_by_its_own_account() {
        struct Busy(std::process::Child);
        impl Drop for Busy {
            fn drop(&mut self) {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }
        let mut nice = std::process::Command::new("nice");
        nice.args(["-n", "5", "sh", "-c", "while :; do :; done"]);
        let busy = Busy(nice.spawn().unwrap());
        let (pid, until) = (busy.0.id(), Instant::now() + Duration::from_secs(60));
        let before = (user_ticks(pid).unwrap(), CpuTicks::read());
        while user_ticks(pid).unwrap() < before.0 + 30 {
            assert!(Instant::now() < until, "it got no CPU");
            std::thread::sleep(Duration::from_millis(5));
        }
        // By the kernel's account of the host it is no less, but for rounding, and for what a hypervisor took meanwhile.
        let host = CpuTicks::read().since(before.1);
        assert!(host.nice + host.stolen >= 20, "{host:?}");
        assert!(user_ticks(u32::MAX).is_err());
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
