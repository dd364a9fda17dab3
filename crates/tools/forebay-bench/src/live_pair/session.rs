//! One run: the collector, the probe, the generator, and their ends in the order of the packets.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_run::Stop;

use super::collector::Collector;
use super::ground::{FAR, Ground, NEAR, Wire};
use super::sheet::{Side, Told};
use super::{Offload, OneCpu, Options};
use crate::child::{Booked, Child};

/// What was sent is at the far end after so long at most.
const ARRIVE_MOST: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);
/// What is counted is told so often.
const TELL: Duration = Duration::from_millis(200);

/// What is counted while a run goes on.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Which of the runs.
    pub offload: Offload,
    /// Packets that were sent.
    pub sent: u64,
    /// Those of them that the probe has, with those that are counted below user space.
    pub taken: u64,
    /// Those that the kernel found no room for in the probe's ring.
    pub lost: u64,
}

/// A run to be done.
pub(super) struct Session<'a> {
    pub(super) options: &'a Options,
    pub(super) ground: &'a Ground,
    pub(super) offload: Offload,
    pub(super) has_collector: bool,
}

impl Session<'_> {
    /// Carries it out: to its end, or until the user has had enough.
    pub(super) fn carry_out(&self, stop: &Stop, look: &mut dyn FnMut(&Seen)) -> Result<Side> {
        let out = self
            .options
            .out
            .join(format!("offload-{}", self.offload.name()));
        std::fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
        let collector = self
            .has_collector
            .then(|| Collector::start(self.ground, &out));
        let collector = collector.transpose()?;
        let before = self.ground.wire()?;
        let mut probe = self.probe(&out)?;
        let mut generator = match self.generator(&out) {
            Err(error) => {
                probe.child.terminate();
                let _ = probe.child.end();
                return Err(error);
            }
            generator => generator?,
        };
        let interrupted = self.wait(&mut generator, &mut probe, stop, look)?;
        let generated = generator.child.record()?;
        let wire = self.settled(before)?;
        probe.child.terminate();
        let told = Told {
            generator: generated,
            probe: probe.child.record()?,
            wire,
            collected: collector.map(Collector::end).transpose()?,
            interrupted,
        };
        Side::of(self.offload, told)
    }

    /// This program on the wire, on the CPU that it is to have.
    fn program(&self, niceness: impl Fn(OneCpu) -> u8) -> Command {
        let program = &self.options.program;
        let Some(one) = self.options.one_cpu else {
            return self.ground.command(program);
        };
        let mut command = self.ground.command("taskset");
        command.args(["--cpu-list", &one.cpu.to_string()]);
        command.args(["nice", "-n", &niceness(one).to_string()]);
        command.arg(program);
        command
    }

    fn probe(&self, out: &Path) -> Result<Booked> {
        let mut command = self.program(|one| one.niceness);
        command.args(["probe", "--interface", FAR, "--promiscuous", "on"]);
        command.args(["--format", "json", "--offload", self.offload.name()]);
        command.args(&self.options.probe_args);
        let export = match self.has_collector {
            true => Collector::address(),
            false => "none".to_owned(),
        };
        let directory = out.join("probe");
        command.args(["--export", &export, "--out"]).arg(&directory);
        Booked::begin(Child::start(&mut command, "the probe")?, directory)
    }

    fn generator(&self, out: &Path) -> Result<Booked> {
        let options = self.options;
        let mut command = self.program(|_| 0);
        command.args(["emulate", "traffic", "--interface", NEAR]);
        command.args(["--profile", &options.profile, "--format", "json"]);
        command.args(["--rate", &options.packet_rate_hz.to_string()]);
        command.args(["--seed", &options.seed.to_string()]);
        if let Some(packets) = options.packets {
            command.args(["--packets", &packets.to_string()]);
        }
        let directory = out.join("generator");
        Booked::begin(
            Child::start(command.arg("--out").arg(&directory), "the generator")?,
            directory,
        )
    }

    /// Waits until the generator has sent all, or ends it as the user wants; whether that was so.
    fn wait(
        &self,
        generator: &mut Booked,
        probe: &mut Booked,
        stop: &Stop,
        look: &mut dyn FnMut(&Seen),
    ) -> Result<bool> {
        let mut told = Instant::now();
        while !generator.child.is_over()? {
            if stop.is_asked() {
                generator.child.terminate();
                return Ok(true);
            }
            if probe.child.is_over()? {
                generator.child.terminate();
                return Ok(false);
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                look(&self.seen(generator, probe));
            }
            std::thread::sleep(LOOK);
        }
        Ok(false)
    }

    fn seen(&self, generator: &Booked, probe: &Booked) -> Seen {
        Seen {
            offload: self.offload,
            sent: generator.sum(&["interface"], |line| line.outgoing.items),
            taken: probe.sum(&["packets"], |line| line.incoming.items),
            lost: probe.sum(&["ring"], |line| {
                line.dropped.iter().map(|lost| lost.items).sum()
            }),
        }
    }

    /// What the wire has carried since, when all of it is at the far end.
    fn settled(&self, before: Wire) -> Result<Wire> {
        let begun = Instant::now();
        loop {
            let wire = self.ground.wire()?;
            let since = Wire {
                sent: wire.sent - before.sent,
                arrived: wire.arrived - before.arrived,
                dropped: wire.dropped - before.dropped,
            };
            if since.arrived >= since.sent || begun.elapsed() > ARRIVE_MOST {
                return Ok(since);
            }
            std::thread::sleep(LOOK);
        }
    }
}
