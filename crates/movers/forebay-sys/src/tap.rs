//! The end of a virtual interface that a process has: frames that the host sends on the interface come out of it, and those that are put in come in there
//! (`Documentation/networking/tuntap.rst` of the kernel).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::SysError;

const DEVICE: &str = "/dev/net/tun";

/// One end of a virtual Ethernet interface, without waiting. The interface goes with its last end, unless somebody has made it to stay.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    name: String,
}

/// A request with room as the kernel has it, whose union is larger than what is used of it.
fn request(name: &str) -> Option<libc::ifreq> {
    // SAFETY: `ifreq` is plain memory, of which all zeroes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Some(request)
}

impl Tap {
    /// Makes the interface `name`, or takes the free end of one that is there.
    ///
    /// # Errors
    /// The kernel has no such device, the process may not (`CAP_NET_ADMIN`), the name is longer than 15 bytes, or the interface's end is taken.
    pub fn open(name: &str) -> Result<Self, SysError> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(|errno| {
            SysError::new("open", DEVICE, errno)
                .with_remedy("the kernel needs tun, and the process the device file")
        })?;
        let failed = |error| SysError::new("ioctl(TUNSETIFF)", name, error);
        let mut request = request(name).ok_or_else(|| {
            failed(std::io::ErrorKind::InvalidInput.into())
                .with_remedy("an interface's name has 15 bytes at most")
        })?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the kernel reads and writes `request`, which lives through the call.
        let made = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if made != 0 {
            let error = failed(std::io::Error::last_os_error());
            return Err(match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    error.with_remedy("making an interface needs the capability CAP_NET_ADMIN")
                }
                std::io::ErrorKind::InvalidInput => error.with_remedy(
                    "an interface of another kind may have that name: take one that is free",
                ),
                _ => error,
            });
        }
        let name = name.to_owned();
        Ok(Self { fd, name })
    }

    /// Has the kernel take no more than so many bytes of frames that were put in and that it still has, with what each costs it besides; without it takes any number.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn limit_send_bytes(&self, bytes: u32) -> Result<(), SysError> {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the kernel reads the number, which lives through the call.
        let set = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TUNSETSNDBUF, &raw const bytes) };
        if set != 0 {
            let error = std::io::Error::last_os_error();
            return Err(SysError::new("ioctl(TUNSETSNDBUF)", &*self.name, error));
        }
        Ok(())
    }

    /// Another descriptor of the same end, for another thread or another poller.
    ///
    /// # Errors
    /// Descriptors run out.
    pub fn share(&self) -> Result<Self, SysError> {
        let fd = self.fd.try_clone();
        Ok(Self {
            fd: fd.map_err(|error| SysError::new("dup", &*self.name, error))?,
            name: self.name.clone(),
        })
    }

    /// Takes the next frame that the host has sent on the interface, and gives its length: of one that is longer than `room` there is a part.
    ///
    /// # Errors
    /// `EAGAIN` if there is none; `EBADFD` if the interface is there no more.
    pub fn receive(&self, room: &mut [u8]) -> Result<usize, rustix::io::Errno> {
        rustix::io::read(&self.fd, room)
    }

    /// Puts a frame in.
    ///
    /// # Errors
    /// `EAGAIN` if there is no room, `EIO` if the interface is down, `EINVAL` if it is no frame, `EBADFD` if the interface is there no more.
    pub fn send(&self, frame: &[u8]) -> Result<usize, rustix::io::Errno> {
        rustix::io::write(&self.fd, frame)
    }
}

/// Readable when a frame is there, writable when there is room for one and the interface is up.
impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_fit_is_no_request() {
        let fits = "x".repeat(libc::IFNAMSIZ - 1);
        let made = request(&fits).unwrap();
        assert_eq!(made.ifr_name.last(), Some(&0));
        assert!(
            made.ifr_name
                .iter()
                .rev()
                .skip(1)
                .all(|&byte| byte == b'x' as libc::c_char)
        );
        assert!(request(&format!("{fits}x")).is_none());
    }
}
