//! Calls of bpf(2), one safe function each, and the memory of a ring of the kernel.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::abi::Plain;
use crate::error::XdpError;

mod mapping;
pub(crate) mod ring;
pub(crate) mod umem;
pub(crate) mod xsk;

const MAP_CREATE: libc::c_long = 0;
const LOOKUP: libc::c_long = 1;
const NEXT_KEY: libc::c_long = 4;
const UPDATE: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const TEST_RUN: libc::c_long = 10;
const INFO: libc::c_long = 15;
const BTF_LOAD: libc::c_long = 18;
const LINK_CREATE: libc::c_long = 28;

/// Kinds of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    PerCpuArray = 6,
    Sockets = 17,
    Ring = 27,
}

const PROGRAM_XDP: u32 = 6;
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
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
    interface: u32,
    btf: u32,
    btf_key: u32,
    btf_value: u32,
}

#[repr(C)]
#[derive(Default)]
struct ElementAttributes {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

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
struct BtfAttributes {
    types: u64,
    log: u64,
    types_bytes: u32,
    log_bytes: u32,
    log_level: u32,
    unused: u32,
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

/// # Safety
/// `attributes` is the structure of this command, and what its pointers say is there for as many bytes as the command reads or writes.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the size is that of the structure; the rest is the caller's promise.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as i32)
}

/// The number of something that was just opened, which is nobody else's.
fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel made it in the call before, and nobody else has seen it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn address<T>(bytes: &[T]) -> u64 {
    bytes.as_ptr() as u64
}

fn address_mut<T>(bytes: &mut [T]) -> u64 {
    bytes.as_mut_ptr() as u64
}

fn short_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    bytes
}

fn failed(call: &'static str, target: &str) -> impl FnOnce(io::Error) -> XdpError {
    let target = target.to_owned();
    move |source| XdpError::System {
        call,
        target,
        source,
    }
}

/// What a map is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: MapKind,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) entries: u32,
}

/// A map of the kernel.
#[derive(Debug)]
pub(crate) struct Map {
    descriptor: OwnedFd,
    spec: MapSpec,
}

impl Map {
    /// Makes it, empty. With types: of its keys and values, by their numbers.
    pub(crate) fn new(
        spec: MapSpec,
        types: Option<(&OwnedFd, u32, u32)>,
    ) -> Result<Self, XdpError> {
        let mut attributes = MapAttributes {
            kind: spec.kind as u32,
            key_bytes: spec.key_bytes,
            value_bytes: spec.value_bytes,
            entries: spec.entries,
            name: short_name(spec.name),
            ..MapAttributes::default()
        };
        if let Some((btf, key, value)) = types {
            attributes.btf = btf.as_raw_fd() as u32;
            (attributes.btf_key, attributes.btf_value) = (key, value);
        }
        // SAFETY: the structure of this command, without pointers.
        let descriptor = unsafe { bpf(MAP_CREATE, &mut attributes) }
            .map_err(failed("bpf(BPF_MAP_CREATE)", spec.name))?;
        Ok(Self {
            descriptor: owned(descriptor),
            spec,
        })
    }

    pub(crate) fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// The key behind this one, or the first; none behind the last. Of a key that is there no more it is the first, so that a walk sees keys twice at worst.
    pub(crate) fn key_behind<T: Plain>(&self, key: Option<&T>) -> Result<Option<T>, XdpError> {
        assert_eq!(size_of::<T>(), self.spec.key_bytes as usize);
        let mut next = [T::ZERO];
        let mut attributes = ElementAttributes {
            map: self.number() as u32,
            key: key.map_or(0, |key| address(bytes_of(key))),
            value: address_mut(&mut next),
            ..ElementAttributes::default()
        };
        // SAFETY: both have as many bytes as a key of the map, as is checked above, and a `Plain` may have any.
        match unsafe { bpf(NEXT_KEY, &mut attributes) } {
            Ok(_) => Ok(next.first().copied()),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(failed("bpf(BPF_MAP_GET_NEXT_KEY)", self.spec.name)(error)),
        }
    }

    /// Value of element 0 of an array; of each CPU one after the other where each has its own.
    pub(crate) fn first<T: Plain>(&self, values: &mut [T]) -> Result<(), XdpError> {
        assert_eq!(size_of::<T>(), self.spec.value_bytes as usize);
        let cpus = match self.spec.kind {
            MapKind::PerCpuArray => possible_cpus()?,
            MapKind::Hash | MapKind::Array | MapKind::Sockets | MapKind::Ring => 1,
        };
        assert_eq!(values.len(), cpus);
        let key = [0_u32];
        let mut attributes = ElementAttributes {
            map: self.number() as u32,
            key: address(&key),
            value: address_mut(values),
            ..ElementAttributes::default()
        };
        // SAFETY: the key has the 4 bytes of an array's. The kernel writes a value, rounded up to 8 bytes, for each possible CPU or once: as many as there is
        // room for, as is checked above; all sizes are multiples of 8, and a `Plain` may have any bytes.
        unsafe { bpf(LOOKUP, &mut attributes) }
            .map_err(failed("bpf(BPF_MAP_LOOKUP_ELEM)", self.spec.name))?;
        Ok(())
    }

    /// Sets element 0 of an array that all CPUs share.
    pub(crate) fn set_first<T: Plain>(&self, value: &T) -> Result<(), XdpError> {
        assert_eq!(size_of::<T>(), self.spec.value_bytes as usize);
        assert_eq!(self.spec.kind, MapKind::Array);
        let (key, value) = ([0_u32], std::slice::from_ref(value));
        let mut attributes = ElementAttributes {
            map: self.number() as u32,
            key: address(&key),
            value: address(value),
            ..ElementAttributes::default()
        };
        // SAFETY: the key has the 4 bytes of an array's, and the value those of the map's, as is checked above.
        unsafe { bpf(UPDATE, &mut attributes) }
            .map_err(failed("bpf(BPF_MAP_UPDATE_ELEM)", self.spec.name))?;
        Ok(())
    }
}

/// CPUs that the kernel keeps a place for.
pub(crate) fn possible_cpus() -> Result<usize, XdpError> {
    // Of `0-3` or `0,2-5` the last number is that of the last one.
    let path = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(path).map_err(failed("read", path))?;
    let last = text.trim().rsplit(['-', ',']).next().unwrap_or_default();
    let last: usize = last.parse().map_err(|_| XdpError::System {
        call: "read",
        target: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, text.clone()),
    })?;
    Ok(last + 1)
}

/// Gives the kernel types.
pub(crate) fn load_types(types: &[u8]) -> Result<OwnedFd, XdpError> {
    let mut attributes = BtfAttributes {
        types: address(types),
        types_bytes: types.len() as u32,
        ..BtfAttributes::default()
    };
    // SAFETY: the kernel reads as many bytes as there are.
    let descriptor = unsafe { bpf(BTF_LOAD, &mut attributes) }
        .map_err(failed("bpf(BPF_BTF_LOAD)", "types of the map of flows"))?;
    Ok(owned(descriptor))
}

/// A program of the kind XDP that the kernel has verified.
#[derive(Debug)]
pub(crate) struct Program {
    descriptor: OwnedFd,
}

impl Program {
    /// Loads instructions.
    ///
    /// # Errors
    /// The verifier refuses them; it is asked for its reason then.
    pub(crate) fn load(name: &'static str, code: &[u8]) -> Result<Self, XdpError> {
        let source = match Self::try_load(name, code, &mut []) {
            Ok(program) => return Ok(program),
            Err(source) => source,
        };
        let mut log = vec![0_u8; 1 << 20];
        // What it said before its end is of no use without the source.
        let _ = Self::try_load(name, code, &mut log);
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

    fn try_load(name: &str, code: &[u8], log: &mut [u8]) -> io::Result<Self> {
        let license = CString::new("Apache-2.0 OR MIT").unwrap_or_default();
        let mut attributes = ProgramAttributes {
            kind: PROGRAM_XDP,
            instructions: (code.len() / crate::elf::INSTRUCTION_BYTES) as u32,
            code: address(code),
            license: license.as_ptr() as u64,
            flags: HAS_FRAGMENTS,
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
        })
    }

    /// The same program by another descriptor.
    pub(crate) fn again(&self) -> Result<Self, XdpError> {
        let descriptor = self.descriptor.try_clone();
        let descriptor = descriptor.map_err(failed("dup", "program"))?;
        Ok(Self { descriptor })
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
        Ok(info.interface)
    }
}

/// Number of an interface in the namespace of this thread.
pub(crate) fn interface_number(name: &str) -> Result<u32, XdpError> {
    let missing = || XdpError::NoInterface(name.to_owned());
    let text = CString::new(name).map_err(|_| missing())?;
    // SAFETY: a text that ends with 0.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(missing()),
        number => Ok(number),
    }
}

/// The bytes of a value.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a `Plain` has no padding, so that all of its bytes have values.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A value of its bytes; none if they are too few.
pub(crate) fn of_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: as many bytes as it has are there, as is checked above, and any are valid.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}
