//! Processes that a measurement starts, and that do not outlive it.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A process that ends with its owner, however that ends.
pub(crate) struct Running(Child);

impl Running {
    /// Starts it without input; its output is there to be read, and its errors go where `errors` says.
    pub(crate) fn start(command: &mut Command, errors: Stdio) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors);
        let started = command.spawn();
        let what = || format!("starting {}", command.get_program().display());
        Ok(Self(started.with_context(what)?))
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_process_ends_with_its_owner() {
        let mut sleeping = Command::new("sh");
        sleeping.args(["-c", "echo at work; exec sleep 1000"]);
        let mut running = Running::start(&mut sleeping, Stdio::null()).unwrap();
        let mut stdout = running.stdout.take().unwrap();
        let mut told = [0; 7];
        stdout.read_exact(&mut told).unwrap();
        drop(running);
        // The pipe is closed when the process has gone.
        assert_eq!(stdout.read_to_end(&mut Vec::new()).unwrap(), 1);
    }
}
