//! Addresses of the network interfaces of this process's network namespace (`getifaddrs(3)`).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::SysError;
use crate::sockaddr::{self, SOCKADDR_BYTES};

/// All of them, each with the name of its interface.
///
/// # Errors
/// The system has no memory for them, or no socket to ask by.
pub fn addresses() -> Result<Vec<(String, IpAddr)>, SysError> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the pointer is live; on success the list is ours and is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        let why = io::Error::last_os_error();
        return Err(SysError::new("getifaddrs", "this host", why));
    }
    let mut found = Vec::new();
    let mut entry: *const libc::ifaddrs = list;
    while !entry.is_null() {
        // SAFETY: a non-null entry of a list that is freed only after the loop.
        let item = unsafe { &*entry };
        // SAFETY: the same entry's address is null or lives as long as the list.
        if let Some(address) = unsafe { address_of(item.ifa_addr) } {
            // SAFETY: the name of an entry is a string that lives as long as the list.
            let name = unsafe { CStr::from_ptr(item.ifa_name) };
            found.push((name.to_string_lossy().into_owned(), address.ip()));
        }
        entry = item.ifa_next;
    }
    // SAFETY: `list` came from `getifaddrs` and nothing points into it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// An address by which this host is reached through an interface, with the name that has it (an address may have a label behind the interface's name): what takes the frames of
/// such a one takes those of the host, too.
///
/// # Errors
/// As of [`addresses`].
pub fn reached_by(interface: &str) -> Result<Option<(String, IpAddr)>, SysError> {
    let is_here = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let of_it = |name: &str| name.split(':').next() == Some(interface);
    let mut here = addresses()?.into_iter().filter(|(name, _)| of_it(name));
    Ok(here.find(|(_, address)| is_here(address)))
}

/// # Safety
/// `address` is null or leads to a whole socket address of its family.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<SocketAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, so at least the family is there.
    let length = match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => 16,
        libc::AF_INET6 => SOCKADDR_BYTES,
        _ => return None,
    };
    // SAFETY: an address of that family has so many bytes.
    sockaddr::parse(unsafe { std::slice::from_raw_parts(address.cast(), length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address() {
        let loopback = ("lo".to_owned(), IpAddr::from([127, 0, 0, 1]));
        assert!(addresses().unwrap().contains(&loopback));
    }
}
