//! Keeps idle CPUs from sleeping deeply (`Documentation/power/pm_qos_interface.rst`).
//!
//! A CPU with nothing to do goes to sleep, and how long it takes to wake up depends on how deep: from a few µs to some hundred. A thread that has to
//! run at an instant pays for it, and so does a timer of the kernel. While the file `/dev/cpu_dma_latency` is open, all CPUs of the host keep to the bound
//! that was written there; with 0 they stay awake, and use as much power as if they worked.

mod awake;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};

use crate::SysError;
pub use awake::Awake;

const PATH: &str = "/dev/cpu_dma_latency";

/// A bound that holds as long as this lives.
#[derive(Debug)]
pub struct CpuLatency {
    _file: File,
}

impl CpuLatency {
    /// No idle CPU may take longer than `most_us` (µs) to wake up; 0: none sleeps.
    ///
    /// # Errors
    /// When the device is not there, as in most containers, or the process may not open it.
    pub fn hold(most_us: u32) -> Result<Self, SysError> {
        let failed = |call, why: io::Error| {
            let remedy = match why.kind() {
                io::ErrorKind::NotFound => "give the container the device",
                _ => "needs to be root, or a group's right to write the device (udev)",
            };
            SysError::new(call, PATH, why).with_remedy(remedy)
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(PATH)
            .map_err(|why| failed("open", why))?;
        let bound = i32::try_from(most_us).unwrap_or(i32::MAX);
        file.write_all(&bound.to_ne_bytes())
            .map_err(|why| failed("write", why))?;
        Ok(Self { _file: file })
    }
}

/// The bound that holds now, of all that were asked for, µs.
///
/// # Errors
/// When the device is not there, or the process may not read it.
pub fn bound_us() -> Result<u32, SysError> {
    let mut bytes = [0; 4];
    let mut read = || File::open(PATH)?.read_exact(&mut bytes);
    read().map_err(|why| SysError::new("read", PATH, why))?;
    Ok(u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_as_long_as_it_lives() {
        let held = match CpuLatency::hold(7) {
            Ok(held) => held,
            Err(error) => {
                assert!(error.to_string().contains(PATH), "{error}");
                forebay_testing::skip!("{error}");
                return;
            }
        };
        assert!(bound_us().unwrap() <= 7);
        let tighter = CpuLatency::hold(0).unwrap();
        assert_eq!(bound_us().unwrap(), 0);
        drop(tighter);
        drop(held);
    }
}
