//! Calls of bpf(2), one safe function each, and the memory of a ring of the kernel.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use crate::abi::Plain;
use crate::error::XdpError;

mod mapping;
mod program;
pub(crate) mod ring;
pub(crate) mod umem;
pub(crate) mod xsk;

pub use program::Mode;
pub(crate) use program::{Kind, Link, Program};

const MAP_CREATE: libc::c_long = 0;
const LOOKUP: libc::c_long = 1;
const NEXT_KEY: libc::c_long = 4;
const UPDATE: libc::c_long = 2;
const BTF_LOAD: libc::c_long = 18;

/// Kinds of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    PerCpuArray = 6,
    Sockets = 17,
    Ring = 27,
}

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
struct BtfAttributes {
    types: u64,
    log: u64,
    types_bytes: u32,
    log_bytes: u32,
    log_level: u32,
    unused: u32,
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
        if spec.kind == MapKind::PerCpuArray {
            possible_cpus()?;
        }
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

    /// What it is called.
    pub(crate) const fn name(&self) -> &'static str {
        self.spec.name
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

#[cfg(test)]
impl Map {
    /// The same map by another descriptor.
    pub(crate) fn again(&self) -> Self {
        Self {
            descriptor: self.descriptor.try_clone().unwrap(),
            spec: self.spec,
        }
    }

    /// Sets the value of a key.
    pub(crate) fn put<K: Plain, V: Plain>(&self, key: &K, value: &V) {
        let sizes = (size_of::<K>() as u32, size_of::<V>() as u32);
        assert_eq!(sizes, (self.spec.key_bytes, self.spec.value_bytes));
        let mut attributes = ElementAttributes {
            map: self.number() as u32,
            key: address(bytes_of(key)),
            value: address(bytes_of(value)),
            ..ElementAttributes::default()
        };
        // SAFETY: both have as many bytes as the map's, as is checked above.
        unsafe { bpf(UPDATE, &mut attributes) }.unwrap();
    }
}

/// CPUs that the kernel keeps a place for: a number that stays until it is booted again. It is read once, as a confined process may not read it.
pub(crate) fn possible_cpus() -> Result<usize, XdpError> {
    static CPUS: OnceLock<usize> = OnceLock::new();
    if let Some(cpus) = CPUS.get() {
        return Ok(*cpus);
    }
    let cpus = read_possible_cpus()?;
    Ok(*CPUS.get_or_init(|| cpus))
}

fn read_possible_cpus() -> Result<usize, XdpError> {
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
