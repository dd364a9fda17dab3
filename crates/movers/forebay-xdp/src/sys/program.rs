//! Programs in the kernel, and where they are attached.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{address, address_mut, bpf, failed, owned, short_name};
use crate::error::XdpError;

const PROG_LOAD: libc::c_long = 5;
const TEST_RUN: libc::c_long = 10;
const INFO: libc::c_long = 15;
const LINK_CREATE: libc::c_long = 28;
const LINK_BY_ID: libc::c_long = 30;
const LINK_NEXT_ID: libc::c_long = 31;
const LINK_DETACH: libc::c_long = 34;
/// `BPF_LINK_TYPE_XDP`.
const LINK_OF_XDP: u32 = 6;

/// Kinds of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At sockets: its value is how many bytes of a frame go to the socket.
    Filter = 1,
    /// On an interface.
    Xdp = 6,
}

/// `BPF_XDP`, where a link attaches it.
const ATTACH_XDP: u32 = 37;
/// Frames may be in several buffers (jumbo frames).
const HAS_FRAGMENTS: u32 = 1 << 5;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;
/// In the driver, or in the common code behind it.
const FLAG_GENERIC: u32 = 1 << 1;
const FLAG_NATIVE: u32 = 1 << 2;

#[repr(C)]
#[derive(Default)]
struct ProgramAttributes {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestAttributes {
    program: u32,
    answer: u32,
    in_bytes: u32,
    out_bytes: u32,
    input: u64,
    output: u64,
    repeat: u32,
    duration_ns: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkAttributes {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Of the commands that find a link by its number.
#[repr(C)]
#[derive(Default)]
struct NumberAttributes {
    number: u32,
    next: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct InfoAttributes {
    descriptor: u32,
    bytes: u32,
    info: u64,
}

/// As far as a link of XDP has it.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    unused: u32,
    interface: u32,
    unused_too: u32,
}

/// A program that the kernel has verified.
#[derive(Debug)]
pub(crate) struct Program {
    descriptor: OwnedFd,
    kind: Kind,
}

impl Program {
    /// Loads instructions.
    ///
    /// # Errors
    /// The verifier refuses them; it is asked for its reason then.
    pub(crate) fn load(kind: Kind, name: &'static str, code: &[u8]) -> Result<Self, XdpError> {
        let source = match Self::try_load(kind, name, code, &mut []) {
            Ok(program) => return Ok(program),
            Err(source) => source,
        };
        let mut log = vec![0_u8; 1 << 20];
        // What it said before its end is of no use without the source.
        let _ = Self::try_load(kind, name, code, &mut log);
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&log[..end]).into_owned();
        let lines: Vec<&str> = text.lines().rev().take(12).collect();
        let log = lines.into_iter().rev().collect::<Vec<_>>().join("; ");
        Err(XdpError::Refused {
            program: name,
            source,
            log,
        })
    }

    fn try_load(kind: Kind, name: &str, code: &[u8], log: &mut [u8]) -> io::Result<Self> {
        let license = CString::new("Apache-2.0 OR MIT").unwrap_or_default();
        let mut attributes = ProgramAttributes {
            kind: kind as u32,
            instructions: (code.len() / crate::elf::INSTRUCTION_BYTES) as u32,
            code: address(code),
            license: license.as_ptr() as u64,
            flags: match kind {
                Kind::Filter => 0,
                Kind::Xdp => HAS_FRAGMENTS,
            },
            name: short_name(name),
            ..ProgramAttributes::default()
        };
        if !log.is_empty() {
            attributes.log_level = 1;
            attributes.log_bytes = log.len() as u32;
            attributes.log = address_mut(log);
        }
        // SAFETY: the kernel reads as many instructions as there are and a text that ends with 0, and writes into the log as many bytes as it has.
        let descriptor = unsafe { bpf(PROG_LOAD, &mut attributes) }?;
        Ok(Self {
            descriptor: owned(descriptor),
            kind,
        })
    }

    /// The same program by another descriptor.
    pub(crate) fn again(&self) -> Result<Self, XdpError> {
        let descriptor = self.descriptor.try_clone();
        let descriptor = descriptor.map_err(failed("dup", "program"))?;
        Ok(Self {
            descriptor,
            kind: self.kind,
        })
    }

    /// What it is.
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Runs it on a frame in place of an interface, so many times; gives its verdict, how many bytes are left, and the time of a run, in ns.
    pub(crate) fn run(
        &self,
        frame: &[u8],
        changed: &mut [u8],
        repeat: u32,
    ) -> io::Result<(u32, usize, u32)> {
        let mut attributes = TestAttributes {
            program: self.descriptor.as_raw_fd() as u32,
            in_bytes: frame.len() as u32,
            out_bytes: changed.len() as u32,
            input: address(frame),
            output: if changed.is_empty() {
                0
            } else {
                address_mut(changed)
            },
            repeat,
            ..TestAttributes::default()
        };
        // SAFETY: the kernel reads as many bytes as the frame has, and writes as many as `changed` has at most.
        unsafe { bpf(TEST_RUN, &mut attributes) }?;
        Ok((
            attributes.answer,
            attributes.out_bytes as usize,
            attributes.duration_ns,
        ))
    }

    /// Runs it so many times on copies of a frame that are real ones: what it hands to an interface goes out there.
    pub(crate) fn run_live(&self, frame: &[u8], repeat: u32) -> io::Result<()> {
        let mut attributes = TestAttributes {
            program: self.descriptor.as_raw_fd() as u32,
            in_bytes: frame.len() as u32,
            input: address(frame),
            repeat,
            flags: LIVE_FRAMES,
            ..TestAttributes::default()
        };
        // SAFETY: the kernel reads as many bytes as the frame has, and writes none.
        unsafe { bpf(TEST_RUN, &mut attributes) }.map(drop)
    }

    /// Puts it on an interface for as long as the link is open.
    pub(crate) fn attach(&self, interface: u32, mode: Mode) -> io::Result<Link> {
        let mut attributes = LinkAttributes {
            program: self.descriptor.as_raw_fd() as u32,
            interface,
            attach_type: ATTACH_XDP,
            flags: match mode {
                Mode::Native => FLAG_NATIVE,
                Mode::Generic => FLAG_GENERIC,
            },
        };
        // SAFETY: the structure of this command, without pointers.
        let descriptor = unsafe { bpf(LINK_CREATE, &mut attributes) }?;
        Ok(Link {
            descriptor: owned(descriptor),
        })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Where on its way a frame meets the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes anything of the frame.
    Native,
    /// In the common code behind the driver, which any interface has, and which is slower.
    Generic,
}

/// A program on an interface. The kernel takes it off when the last descriptor is closed, however the process ends.
#[derive(Debug)]
pub(crate) struct Link {
    descriptor: OwnedFd,
}

impl Link {
    /// Number of the interface; 0 when the program was taken off, or the interface is gone.
    pub(crate) fn interface(&self) -> Result<u32, XdpError> {
        Ok(self.info()?.interface)
    }

    fn info(&self) -> Result<LinkInfo, XdpError> {
        let mut info = LinkInfo::default();
        let info_bytes = size_of::<LinkInfo>() as u32;
        let mut attributes = InfoAttributes {
            descriptor: self.descriptor.as_raw_fd() as u32,
            bytes: info_bytes,
            info: std::ptr::from_mut(&mut info) as u64,
        };
        // SAFETY: the kernel writes at most as many bytes as the structure has, and any bytes are valid there.
        unsafe { bpf(INFO, &mut attributes) }
            .map_err(failed("bpf(BPF_OBJ_GET_INFO_BY_FD)", "link"))?;
        Ok(info)
    }

    /// The link by which the program of this number is on an interface, whichever process it belongs to.
    pub(crate) fn of_program(program: u32) -> Result<Option<Self>, XdpError> {
        let mut number = 0;
        loop {
            let mut attributes = NumberAttributes {
                number,
                ..NumberAttributes::default()
            };
            // SAFETY: the structure of this command, without pointers.
            match unsafe { bpf(LINK_NEXT_ID, &mut attributes) } {
                Ok(_) => number = attributes.next,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
                Err(error) => return Err(failed("bpf(BPF_LINK_GET_NEXT_ID)", "links")(error)),
            }
            let mut attributes = NumberAttributes {
                number,
                ..NumberAttributes::default()
            };
            // SAFETY: the structure of this command, without pointers.
            let link = match unsafe { bpf(LINK_BY_ID, &mut attributes) } {
                Ok(descriptor) => Self {
                    descriptor: owned(descriptor),
                },
                // It has gone meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                Err(error) => return Err(failed("bpf(BPF_LINK_GET_FD_BY_ID)", "link")(error)),
            };
            let info = link.info()?;
            let is_there = info.interface != 0;
            if is_there && (info.kind, info.program) == (LINK_OF_XDP, program) {
                return Ok(Some(link));
            }
        }
    }

    /// Takes its program off, for all that have the link.
    pub(crate) fn detach(&self) -> Result<(), XdpError> {
        let mut attributes = [self.descriptor.as_raw_fd() as u32];
        // SAFETY: the structure of this command, which is the number of a descriptor.
        unsafe { bpf(LINK_DETACH, &mut attributes) }
            .map(drop)
            .map_err(failed("bpf(BPF_LINK_DETACH)", "link"))
    }
}
