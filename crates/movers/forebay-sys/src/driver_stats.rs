//! What the driver of a network interface says of it: counters that it keeps itself, under names of its own (`ethtool -S`), and its queues (`ethtool -l`;
//! `net/ethtool/ioctl.c`).

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use rustix::net::{AddressFamily, SocketType};

use crate::SysError;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETH_SS_STATS: u32 = 1;
const NAME_BYTES: usize = 32;
/// Counters of one interface that are read; a driver with more has none to show here.
const COUNTERS_MAX: usize = 16_384;
const PAGE_BYTES: usize = 4096;

/// The counters of the interface `name`, in this process's network namespace; none where its driver keeps none.
///
/// # Errors
/// There is no such interface, or its driver has no such counters.
pub fn driver_stats(name: &str) -> Result<BTreeMap<String, u64>, SysError> {
    let asked = Asked::new(name)?;
    let count = asked.count()?;
    let names = asked.names(count)?;
    Ok(names.into_iter().zip(asked.values(count)?).collect())
}

/// Queues of the interface `name` that packets come in by; none where its driver does not say.
///
/// # Errors
/// There is no such interface.
pub fn receive_queues(name: &str) -> Result<Option<u32>, SysError> {
    // Command; most of them for receiving, for sending, for others and for both; and how many there are, in this order.
    let mut room = Room::of(9 * 4)?;
    room.words()[0] = ETHTOOL_GCHANNELS;
    let asked = Asked::new(name)?.ask("ioctl(ETHTOOL_GCHANNELS)", &mut room);
    match asked {
        Ok(()) => {
            let words = room.words();
            Ok(Some(words[5].saturating_add(words[8])))
        }
        Err(error) if error.source.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One interface, and a socket to ask about it.
struct Asked {
    socket: OwnedFd,
    name: [u8; libc::IFNAMSIZ],
}

/// `struct ifreq` with its pointer; the union behind the name is 24 bytes.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut c_void,
    padding: [u8; 16],
}

const _: () = assert!(size_of::<Request>() == 40);

impl Asked {
    fn new(interface: &str) -> Result<Self, SysError> {
        let mut name = [0; libc::IFNAMSIZ];
        if interface.len() >= libc::IFNAMSIZ {
            let long = io::Error::from_raw_os_error(libc::ENODEV);
            return Err(SysError::new("ioctl(SIOCETHTOOL)", interface, long));
        }
        name[..interface.len()].copy_from_slice(interface.as_bytes());
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)
            .map_err(|errno| SysError::new("socket", "UDP", errno))?;
        Ok(Self { socket, name })
    }

    /// How many counters there are.
    fn count(&self) -> Result<usize, SysError> {
        // Command, reserved, the mask of the sets asked for, and the size of the one set.
        let mut room = Room::of(20)?;
        let words = room.words();
        (words[0], words[2]) = (ETHTOOL_GSSET_INFO, 1 << ETH_SS_STATS);
        self.ask("ioctl(ETHTOOL_GSSET_INFO)", &mut room)?;
        let words = room.words();
        // The kernel clears the mask where the driver has no such set.
        let count = if words[2] == 0 { 0 } else { words[4] as usize };
        if count > COUNTERS_MAX {
            let text = format!("{count} counters; {COUNTERS_MAX} are read");
            let much = io::Error::new(io::ErrorKind::InvalidData, text);
            return Err(SysError::new(
                "ioctl(ETHTOOL_GSSET_INFO)",
                self.text(),
                much,
            ));
        }
        Ok(count)
    }

    fn names(&self, count: usize) -> Result<Vec<String>, SysError> {
        let mut room = Room::of(12 + count * NAME_BYTES)?;
        let words = room.words();
        (words[0], words[1], words[2]) = (ETHTOOL_GSTRINGS, ETH_SS_STATS, count as u32);
        self.ask("ioctl(ETHTOOL_GSTRINGS)", &mut room)?;
        let names = room.bytes()[12..].chunks_exact(NAME_BYTES);
        Ok(names.take(count).map(name_of).collect())
    }

    fn values(&self, count: usize) -> Result<Vec<u64>, SysError> {
        let mut room = Room::of(8 + count * 8)?;
        let words = room.words();
        (words[0], words[1]) = (ETHTOOL_GSTATS, count as u32);
        self.ask("ioctl(ETHTOOL_GSTATS)", &mut room)?;
        let values = room.bytes()[8..].chunks_exact(8);
        let values = values.filter_map(|word| word.try_into().ok());
        Ok(values.take(count).map(u64::from_ne_bytes).collect())
    }

    fn ask(&self, call: &'static str, room: &mut Room) -> Result<(), SysError> {
        let mut request = Request {
            name: self.name,
            data: room.start,
            padding: [0; 16],
        };
        // SAFETY: the request has the layout of `struct ifreq`. Its pointer leads to a live mapping of our own, writable as
        // far as was asked for and followed by a page that nobody may touch: a driver whose number of counters has grown since it was asked makes
        // the kernel's copy end there with an error, not in other memory.
        let answer = unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                libc::SIOCETHTOOL as _,
                &raw mut request,
            )
        };
        if answer < 0 {
            return Err(SysError::new(call, self.text(), io::Error::last_os_error()));
        }
        Ok(())
    }

    fn text(&self) -> String {
        name_of(&self.name)
    }
}

fn name_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let name = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
    name.trim().to_owned()
}

/// Memory that the kernel may write to its end, and not beyond.
struct Room {
    start: *mut c_void,
    /// Of what may be written.
    bytes: usize,
}

impl Room {
    /// For at least so many bytes, all 0.
    fn of(bytes: usize) -> Result<Self, SysError> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let refused = |errno| SysError::new("mmap", format!("{bytes} bytes"), errno);
        // SAFETY: a fresh mapping at an address of the kernel's choice; nothing else is there.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes + PAGE_BYTES,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        }
        .map_err(refused)?;
        let room = Self { start, bytes };
        // SAFETY: these pages are the front of the mapping just made; the last page stays closed.
        unsafe { rustix::mm::mprotect(start, bytes, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(refused)?;
        Ok(room)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes are readable while this value lives, and initialised: the kernel gave the pages as zeros.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.bytes) }
    }

    fn words(&mut self) -> &mut [u32] {
        // SAFETY: as for `bytes`; a page is aligned for any word, and the exclusive borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / 4) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that was made, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.start, self.bytes + PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_of_nobody_is_named() {
        for name in ["forebay-none", "a-name-longer-than-any-interface"] {
            for error in [
                driver_stats(name).unwrap_err(),
                receive_queues(name).unwrap_err(),
            ] {
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }

    #[test]
    fn every_interface_has_counters_or_says_why_not() {
        for link in crate::netlink::links().unwrap() {
            match driver_stats(&link.name) {
                Ok(counters) => assert!(
                    counters.keys().all(|name| name.len() <= NAME_BYTES),
                    "{counters:?}"
                ),
                Err(error) => assert!(error.to_string().contains(&link.name), "{error}"),
            }
        }
    }

    /// What the guard is for: a write to the last byte that was asked for works, and the memory behind it is closed.
    #[test]
    fn the_room_ends_where_it_was_asked_to() {
        for bytes in [1, PAGE_BYTES, PAGE_BYTES + 1] {
            let mut room = Room::of(bytes).unwrap();
            assert!(room.bytes().len() >= bytes);
            if let Some(last) = room.words().last_mut() {
                *last = 7;
            }
            let behind = room.start.wrapping_byte_add(room.bytes);
            let pipe = rustix::pipe::pipe().unwrap();
            // SAFETY: the kernel copies from the address and answers with an error where nobody may read; nothing is dereferenced here.
            let wrote = unsafe { libc::write(pipe.1.as_raw_fd(), behind, 1) };
            assert_eq!(wrote, -1);
            assert_eq!(
                io::Error::last_os_error().raw_os_error(),
                Some(libc::EFAULT)
            );
        }
    }
}
