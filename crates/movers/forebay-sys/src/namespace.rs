//! Network namespaces of other processes.

use std::fs::File;
use std::os::fd::AsFd as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::SysError;

/// Moves the calling thread into the network namespace of a process, and no other thread: what it opens from now on belongs there.
///
/// # Errors
/// There is no such process, or this one lacks `CAP_SYS_ADMIN`.
pub fn enter_network_of(pid: u32) -> Result<(), SysError> {
    let path = format!("/proc/{pid}/ns/net");
    let file = File::open(&path).map_err(|why| SysError::new("open", path.clone(), why))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|errno| {
        SysError::new("setns", path, errno).with_remedy("it needs root (CAP_SYS_ADMIN)")
    })
}
