//! The program that steers the frames of an interface to sockets.

use forebay_settings::in_range;

use crate::abi::{Plain, QUEUES, RawSteered};
use crate::attached::Attached;
use crate::connections::Tally;
use crate::elf::{Object, load_map};
use crate::error::XdpError;
use crate::programs::{WHY_NOT, may_use};
use crate::socket::Port;
use crate::sys::{Kind, Map, MapKind, Mode, Program, interface_number, possible_cpus};
use crate::table::spec;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/redirect.bpf.o"));

/// Queues of an interface that may have a port.
pub const QUEUES_MAX: u32 = QUEUES as u32;

/// A program of the kernel on an interface that gives the frames of each queue to the [`Port`] of that queue. Frames of a queue without a port go on as if it were not
/// there.
///
/// It is taken off when it is dropped, and when the process ends in whatever way. Frames that go to a port come to no other program: this is for an interface at a tap or a
/// mirror port, and never for one through which a host is reached.
#[derive(Debug)]
pub struct Redirect {
    _program: Program,
    sockets: Map,
    counted: Map,
    attached: Attached,
}

/// What the program has counted, in frames and octets of whole frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steered {
    /// Given to the port of the queue, if that had room.
    pub redirected: Tally,
    /// Let go on, as the queue has no port.
    pub passed: Tally,
}

impl Redirect {
    /// Loads the program and puts it on an interface of this thread's network namespace: into the driver if that can do it, else behind it. No queue has a port yet.
    ///
    /// # Errors
    /// There is no program in this binary, no such interface, or another program is on it, which stays; this process lacks rights.
    pub fn attach(interface: &str) -> Result<Self, XdpError> {
        if OBJECT.is_empty() {
            return Err(XdpError::NotBuilt { why: WHY_NOT });
        }
        may_use(&[])?;
        let number = interface_number(interface)?;
        let sockets = Map::new(spec("sockets", MapKind::Sockets, [4, 4], QUEUES_MAX), None)?;
        let steered = [4, size_of::<RawSteered>()];
        let counted = Map::new(spec("steered", MapKind::PerCpuArray, steered, 1), None)?;
        let (mut code, loads) = Object::parse(OBJECT)?.program("xdp/redirect")?;
        for load in loads {
            let map = match load.map {
                "sockets" => &sockets,
                "steered" => &counted,
                _ => return Err(XdpError::Object("has a map that is not known")),
            };
            load_map(&mut code, load.at, map.number());
        }
        let program = Program::load(Kind::Xdp, "redirect", &code)?;
        let attached = Attached::put(&program, interface, number)?;
        Ok(Self {
            _program: program,
            sockets,
            counted,
            attached,
        })
    }

    /// Gives the frames of a port's queue to it from now on, until it is closed.
    ///
    /// # Errors
    /// The port is of another interface, or of a queue above 63; the kernel refuses.
    pub fn steer(&self, port: &Port) -> Result<(), XdpError> {
        if port.interface_number() != self.attached.number {
            let port = port.interface().to_owned();
            return Err(XdpError::OtherInterface { port });
        }
        in_range("queue", port.queue().into(), 0, (QUEUES_MAX - 1).into())?;
        self.sockets.set_socket(port.queue(), port.socket())
    }

    /// Where frames meet the program.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.attached.mode
    }

    /// Whether it is still where it was put: it may have been taken off, or the interface be gone. What it has counted is there all the same.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn is_attached(&self) -> Result<bool, XdpError> {
        self.attached.is_there()
    }

    /// Takes the program off its interface: what is in the rings of the ports stays there.
    pub fn detach(&mut self) {
        self.attached.take_off();
    }

    /// What it has counted of a queue, by the program itself; of all above 63 together at 64.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn steered(&self, queue: u32) -> Result<Steered, XdpError> {
        let mut of_cpus = vec![RawSteered::ZERO; possible_cpus()?];
        self.counted.first(&mut of_cpus)?;
        let queue = queue as usize;
        let tally = |found: Option<&[u64; 2]>| {
            let [frames, octets] = found.copied().unwrap_or_default();
            Tally { frames, octets }
        };
        let mut sum = Steered::default();
        for of_cpu in &of_cpus {
            sum.redirected += tally(of_cpu.redirected.get(queue));
            sum.passed += tally(of_cpu.passed.get(queue));
        }
        Ok(sum)
    }

    /// What went on over this queue and all above it, as they had no port.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn passed_from(&self, queue: u32) -> Result<Tally, XdpError> {
        let mut of_cpus = vec![RawSteered::ZERO; possible_cpus()?];
        self.counted.first(&mut of_cpus)?;
        let from = queue as usize;
        let passed = of_cpus
            .iter()
            .flat_map(|of_cpu| of_cpu.passed.into_iter().skip(from));
        Ok(passed.fold(Tally::default(), |mut sum, [frames, octets]| {
            sum += Tally { frames, octets };
            sum
        }))
    }
}
