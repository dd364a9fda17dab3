//! Frames onto a link from within the kernel, and programs with one verdict for all: what a measurement holds a real program against.

use forebay_settings::in_range;

use crate::abi::{Plain as _, RawSchedule};
use crate::elf::{INSTRUCTION_BYTES, Object, load_map};
use crate::error::XdpError;
use crate::programs::{Verdict, WHY_NOT, may_use};
use crate::sys::{Kind, Link, Map, MapKind, Mode, Program, interface_number};
use crate::table::spec;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/repeat.bpf.o"));

/// Most bytes of a frame: a page of the kernel holds its own head and that of the frame, too (`net/bpf/test_run.c`).
pub const REPEATED_BYTES_MAX: usize = 3_000;
/// Least rate, in frames a second: below it the program of the kernel does not wait long enough.
pub const REPEATED_RATE_MIN_HZ: f64 = 25e3;

/// What is sent with one call, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeat {
    /// How many frames.
    pub frames: u32,
    /// Frames a second, [`REPEATED_RATE_MIN_HZ`] at least. What cannot be sent in time is sent as soon as it can be.
    pub rate_hz: f64,
    /// The source port of the first frame, if it is one of UDP in IPv4 without options; those behind it have the ports that follow, …
    pub first_port: u16,
    /// … so many in all, again and again; 0: frames are left as they are.
    pub flows: u16,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Frames that were handed to the interface.
    pub frames: u64,
    /// From the first to the last of them, in ns.
    pub elapsed_ns: u64,
}

/// Sends one frame many times with one call: the kernel runs a program that hands it to an interface, without a socket between (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18).
///
/// The driver takes such frames in batches. What it has no room for it drops and counts itself: compare what came in at the other end. Both ends of a virtual cable
/// (veth) must be up, and the other one must have an XDP program, else nothing comes in there. A call keeps one CPU busy, and takes some 30 ms for itself.
#[derive(Debug)]
pub struct Repeater {
    program: Program,
    schedule: Map,
    number: u32,
    interface: String,
}

impl Repeater {
    /// One that sends on an interface of this thread's network namespace.
    ///
    /// # Errors
    /// There is no program in this binary, or no such interface; this process lacks `CAP_BPF` or `CAP_NET_ADMIN`; the kernel refuses the program.
    pub fn open(interface: &str) -> Result<Self, XdpError> {
        if OBJECT.is_empty() {
            return Err(XdpError::NotBuilt { why: WHY_NOT });
        }
        let number = interface_number(interface)?;
        may_use(&[])?;
        let schedule = [4, size_of::<RawSchedule>()];
        let schedule = Map::new(spec("schedule", MapKind::Array, schedule, 1), None)?;
        let (mut code, loads) = Object::parse(OBJECT)?.program("xdp/repeat")?;
        for load in loads {
            load_map(&mut code, load.at, schedule.number());
        }
        Ok(Self {
            program: Program::load(Kind::Xdp, "repeat", &code)?,
            schedule,
            number,
            interface: interface.to_owned(),
        })
    }

    /// Sends a frame of 14 to [`REPEATED_BYTES_MAX`] bytes, and returns when the last one was handed over.
    ///
    /// # Errors
    /// The frame is too short or too long, the rate too low, the interface down or gone, or a signal came: some may have been sent.
    pub fn send(&self, frame: &[u8], repeat: &Repeat) -> Result<Repeated, XdpError> {
        let (rate_hz, least) = (repeat.rate_hz as u64, REPEATED_RATE_MIN_HZ as u64);
        in_range("rate_hz", rate_hz, least, u64::MAX)?;
        self.schedule.set_first(&RawSchedule {
            period: (1024e9 / repeat.rate_hz) as u64,
            wanted: repeat.frames.into(),
            interface: self.number,
            first_port: repeat.first_port,
            flows: repeat.flows,
            ..RawSchedule::ZERO
        })?;
        let ran = self.program.run_live(frame, repeat.frames);
        ran.map_err(|source| XdpError::System {
            call: "bpf(BPF_PROG_TEST_RUN)",
            target: self.interface.clone(),
            source,
        })?;
        let mut after = [RawSchedule::ZERO];
        self.schedule.first(&mut after)?;
        let [after] = after;
        Ok(Repeated {
            frames: after.sent,
            elapsed_ns: after.ended_ns - after.begun_ns,
        })
    }
}

/// A program on an interface that has the same verdict for all frames, until it is dropped.
#[derive(Debug)]
pub struct OneVerdict {
    _link: Link,
}

impl OneVerdict {
    /// Puts it into the driver of an interface of this thread's network namespace.
    ///
    /// # Errors
    /// As [`Repeater::open`]; the driver takes no program, or has another one.
    pub fn attach(interface: &str, verdict: Verdict) -> Result<Self, XdpError> {
        let number = interface_number(interface)?;
        may_use(&[])?;
        let answer = match verdict {
            Verdict::Drop => DROP,
            Verdict::Pass => PASS,
        };
        let code = [answer_is(answer), exit()];
        let program = Program::load(Kind::Xdp, "one_verdict", code.as_flattened())?;
        let link = program.attach(number, Mode::Native);
        let link = link.map_err(|source| XdpError::System {
            call: "bpf(BPF_LINK_CREATE)",
            target: interface.to_owned(),
            source,
        })?;
        Ok(Self { _link: link })
    }
}

/// `XDP_DROP` and `XDP_PASS`.
const DROP: i32 = 1;
const PASS: i32 = 2;

type Instruction = [u8; INSTRUCTION_BYTES];

/// Code and a number; registers and offset are 0 (RFC 9669, section 3).
const fn instruction(code: u8, number: i32) -> Instruction {
    let [a, b, c, d] = number.to_ne_bytes();
    [code, 0, 0, 0, a, b, c, d]
}

/// Sets register 0 to a number.
const fn answer_is(number: i32) -> Instruction {
    instruction(0xb7, number)
}

/// Ends with register 0.
const fn exit() -> Instruction {
    instruction(0x95, 0)
}
