//! A virtual cable in a network namespace of its thread, and sockets at its ends.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;

/// Two ends of a cable, that nobody but the test sends on.
pub(crate) fn cable() -> Result<(), String> {
    // SAFETY: only this thread, which the test made for it, moves to the new namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!(
            "no network namespace may be made (needs root): {error}"
        ));
    }
    for interfaces in ["default", "all"] {
        let path = format!("/proc/sys/net/ipv6/conf/{interfaces}/disable_ipv6");
        // Where there is no IPv6, nothing is sent either.
        let _ = std::fs::write(path, "1");
    }
    for line in [
        "link add near type veth peer name far",
        "link set near arp off up",
        "link set far arp off up",
    ] {
        let answer = Command::new("ip").args(line.split(' ')).output();
        match answer {
            Ok(answer) if answer.status.success() => {}
            Ok(answer) => {
                let said = String::from_utf8_lossy(&answer.stderr).into_owned();
                return Err(format!("ip {line}: {said}"));
            }
            Err(why) => return Err(format!("ip {line}: {why}")),
        }
    }
    Ok(())
}

/// A socket for whole frames on an interface of this namespace.
pub(crate) fn packet_socket(interface: &str, protocol: u16) -> (OwnedFd, libc::sockaddr_ll) {
    let name = std::ffi::CString::new(interface).unwrap();
    let protocol = protocol.to_be();
    // SAFETY: calls with numbers, a text that ends with 0, and an address of its length; all bytes of an address may be 0.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let socket = libc::socket(libc::AF_PACKET, kind, protocol.into());
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let bytes = size_of::<libc::sockaddr_ll>() as u32;
        let bound = libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes);
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        (socket, address)
    }
}

pub(crate) fn send(socket: &OwnedFd, frame: &[u8]) {
    loop {
        // SAFETY: the bytes are there.
        let sent = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent == frame.len() as isize {
            return;
        }
        let error = std::io::Error::last_os_error();
        let is_full = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS));
        assert!(is_full, "{error}");
        std::thread::yield_now();
    }
}

/// Frames that a socket has; of a longer one that was cut, its length is not told here.
pub(crate) fn received(socket: &OwnedFd) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut room = [0_u8; 4096];
    loop {
        // SAFETY: as many bytes are there.
        let got =
            unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), 0) };
        let Ok(bytes) = usize::try_from(got) else {
            return frames;
        };
        frames.push(room[..bytes].to_vec());
    }
}
