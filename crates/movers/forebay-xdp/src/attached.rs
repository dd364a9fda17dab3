//! Where a program was put, until it is taken off.

use std::io;

use crate::error::XdpError;
use crate::sys::{Link, Mode, Program};

/// A program on an interface.
#[derive(Debug)]
pub(crate) struct Attached {
    /// None when it was taken off.
    link: Option<Link>,
    pub(crate) number: u32,
    pub(crate) mode: Mode,
}

impl Attached {
    /// Puts a program on an interface of this number: into the driver if that can do it, else behind it.
    pub(crate) fn put(program: &Program, interface: &str, number: u32) -> Result<Self, XdpError> {
        let (link, mode) = attach(program, interface, number)?;
        Ok(Self {
            link: Some(link),
            number,
            mode,
        })
    }

    /// Whether it is still where it was put.
    pub(crate) fn is_there(&self) -> Result<bool, XdpError> {
        let Some(link) = &self.link else {
            return Ok(false);
        };
        Ok(link.interface()? == self.number)
    }

    pub(crate) fn take_off(&mut self) {
        self.link = None;
    }
}

/// Takes a program off its interface, by its number (`ip -d link show` tells it), whichever process put it there; false if no link has it. This is what an administrator may do: needs
/// `CAP_SYS_ADMIN`. A program without a link stays. It is there for tests, which have a probe lose its program: nothing of the product calls it.
///
/// # Errors
/// The kernel refuses the call.
#[doc(hidden)]
pub fn take_off_program(number: u32) -> Result<bool, XdpError> {
    match Link::of_program(number)? {
        Some(link) => link.detach().map(|()| true),
        None => Ok(false),
    }
}

fn attach(program: &Program, interface: &str, number: u32) -> Result<(Link, Mode), XdpError> {
    let attach = |mode| program.attach(number, mode);
    let attached = match attach(Mode::Native) {
        Ok(link) => Ok((link, Mode::Native)),
        Err(error) if is_foreign(&error) => Err(error),
        Err(_) => attach(Mode::Generic).map(|link| (link, Mode::Generic)),
    };
    attached.map_err(|source| {
        if is_foreign(&source) {
            return XdpError::Foreign {
                interface: interface.to_owned(),
            };
        }
        XdpError::System {
            call: "bpf(BPF_LINK_CREATE)",
            target: interface.to_owned(),
            source,
        }
    })
}

/// Another link (`EBUSY`), or a program without one (`EBUSY`, `EEXIST`), of this mode or of the other.
fn is_foreign(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}
