//! A network interface: its number, its kind, and whether it is up.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::netdevice::{index_to_name, name_to_index};

use crate::SysError;

/// A network interface, by the number that it keeps when it is renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// What it was called when it was found.
    pub name: String,
    /// Its number; one that is made again has another one.
    pub index: u32,
    /// It is loopback, which shows each packet twice: as it goes out and as it comes in.
    pub is_loopback: bool,
}

/// How an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceState {
    /// It takes packets.
    Up,
    /// It is there, and is set down.
    Down,
    /// It is there no more.
    Gone,
}

impl Interface {
    pub(super) fn find(socket: BorrowedFd<'_>, name: &str) -> Result<Self, SysError> {
        let index = name_to_index(socket, name).map_err(|errno| {
            let error = SysError::new("ioctl(SIOCGIFINDEX)", name, errno);
            match errno {
                Errno::NODEV => {
                    error.with_remedy("no such interface; `ip link` lists those that there are")
                }
                _ => error,
            }
        })?;
        let flags = flags(socket, name)
            .map_err(|error| SysError::new("ioctl(SIOCGIFFLAGS)", name, error))?;
        Ok(Self {
            name: name.to_owned(),
            index,
            is_loopback: flags & libc::IFF_LOOPBACK != 0,
        })
    }

    /// The longest packet that it takes now, in bytes without the link header (SIOCGIFMTU); `socket` is any one of its network namespace.
    ///
    /// # Errors
    /// The interface is there no more.
    pub fn mtu_bytes(&self, socket: impl AsFd) -> Result<u32, SysError> {
        let answer = self.ask(socket.as_fd(), libc::SIOCGIFMTU);
        let answer =
            answer.map_err(|error| SysError::new("ioctl(SIOCGIFMTU)", &*self.name, error))?;
        // SAFETY: this is the field of the union that SIOCGIFMTU writes.
        let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
        Ok(u32::try_from(mtu).unwrap_or(0))
    }

    /// Its Ethernet address (SIOCGIFHWADDR); `socket` is any one of its network namespace.
    ///
    /// # Errors
    /// The interface is there no more.
    pub fn mac(&self, socket: impl AsFd) -> Result<[u8; 6], SysError> {
        let answer = self.ask(socket.as_fd(), libc::SIOCGIFHWADDR);
        let answer =
            answer.map_err(|error| SysError::new("ioctl(SIOCGIFHWADDR)", &*self.name, error))?;
        // SAFETY: this is the field of the union that SIOCGIFHWADDR writes.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
        Ok(std::array::from_fn(|at| address.sa_data[at] as u8))
    }

    /// Whether it has a carrier now: the other end of its cable is there and up (ETHTOOL_GLINK). One that is down or gone has none.
    pub fn has_carrier(&self, socket: impl AsFd) -> bool {
        let socket = socket.as_fd();
        let name = index_to_name(socket, self.index);
        name.is_ok_and(|name| has_carrier(socket, &name))
    }

    /// Asks for a value by the name that it has now.
    fn ask(&self, socket: BorrowedFd<'_>, what: libc::Ioctl) -> std::io::Result<libc::ifreq> {
        let name = index_to_name(socket, self.index)?;
        ask(socket, &name, what)
    }

    /// How it is now; `socket` is any one of its network namespace. What cannot be found out counts as gone.
    pub fn state(&self, socket: impl AsFd) -> InterfaceState {
        let socket = socket.as_fd();
        let flags = index_to_name(socket, self.index)
            .map_err(std::io::Error::from)
            .and_then(|name| flags(socket, &name));
        match flags {
            Ok(flags) if flags & libc::IFF_UP != 0 => InterfaceState::Up,
            Ok(_) => InterfaceState::Down,
            Err(_) => InterfaceState::Gone,
        }
    }
}

/// From `linux/ethtool.h`.
const ETHTOOL_GLINK: u32 = 0x0a;

/// Of `linux/ethtool.h`: a number that is asked for, and the answer.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

fn has_carrier(socket: BorrowedFd<'_>, name: &str) -> bool {
    let Some(flags) = flags(socket, name).ok().filter(|it| it & libc::IFF_UP != 0) else {
        return false;
    };
    // The flag follows the link some time later; it is for the drivers that do not say how their link is.
    link(socket, name).unwrap_or(flags & libc::IFF_RUNNING != 0)
}

/// Whether the driver says that its link is there; nothing if it does not say.
fn link(socket: BorrowedFd<'_>, name: &str) -> Option<bool> {
    let mut value = EthtoolValue {
        command: ETHTOOL_GLINK,
        data: 0,
    };
    let mut request = request(name);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the pointer of the request leads to a live `struct ethtool_value`, and the kernel writes no more than that structure.
    let answer =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    (answer == 0).then_some(value.data != 0)
}

/// The flags of an interface (netdevice(7)).
fn flags(socket: BorrowedFd<'_>, name: &str) -> std::io::Result<i32> {
    let answer = ask(socket, name, libc::SIOCGIFFLAGS)?;
    // SAFETY: this is the field of the union that SIOCGIFFLAGS writes.
    let flags = unsafe { answer.ifr_ifru.ifru_flags };
    Ok(i32::from(flags))
}

/// Asks for a value of an interface by its name.
fn ask(socket: BorrowedFd<'_>, name: &str, what: libc::Ioctl) -> std::io::Result<libc::ifreq> {
    let mut request = request(name);
    // SAFETY: the kernel reads the name and writes the value to `request`, which lives through the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
    if answer != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(request)
}

/// A request for the interface of this name.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: `ifreq` is plain memory, of which all zeroes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    request
}
