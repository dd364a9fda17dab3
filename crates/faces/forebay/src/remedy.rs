//! What a user can do about an error of the system, where the error does not say it itself.

use std::io;

use crate::output::causes;

/// The numbers of Linux, which name what `io::ErrorKind` has no name for.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// An error with its causes, and with what to do.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let text = causes(error);
    match system(&text).as_ref().and_then(of) {
        Some(remedy) => format!("{text}; {remedy}"),
        None => text,
    }
}

/// The kernel's answer that a text ends with; what says more than the kernel did says what to do.
fn system(text: &str) -> Option<io::Error> {
    let (_, number) = text.strip_suffix(')')?.rsplit_once("(os error ")?;
    number.parse().ok().map(io::Error::from_raw_os_error)
}

fn of(error: &io::Error) -> Option<&'static str> {
    Some(match (error.raw_os_error(), error.kind()) {
        (Some(EMFILE), _) => {
            "raise the limit of open files with `ulimit -n 8192` in this shell (LimitNOFILE= of a service), or use fewer sources"
        }
        (Some(ENFILE), _) => "raise fs.file-max: the whole host has too many open files",
        (_, io::ErrorKind::AddrInUse) => {
            "choose another port, or end the program that has this one (`ss -lntup` names it)"
        }
        (_, io::ErrorKind::AddrNotAvailable) => {
            "choose an address of this host (`ip address` names them)"
        }
        (_, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            "make room there (`df -h`), or choose another directory"
        }
        (_, io::ErrorKind::FileTooLarge) => {
            "raise the limit of the size of files with `ulimit -f unlimited`"
        }
        (_, io::ErrorKind::PermissionDenied) => {
            "choose another place, or ask its owner for the right"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_gets_a_remedy_unless_it_has_one() {
        for (number, remedy) in [
            (EMFILE, "ulimit -n"),
            (98, "another port"),
            (28, "df -h"),
            (27, "ulimit -f"),
        ] {
            let error = anyhow::Error::new(io::Error::from_raw_os_error(number)).context("binding");
            assert!(told(&error).contains(remedy), "{}", told(&error));
        }
        let inner = io::Error::from_raw_os_error(98);
        let text = format!("bind: {inner} (end the other one)");
        let error = anyhow::Error::new(inner).context(text.clone());
        assert_eq!(told(&error), text);
        assert_eq!(told(&anyhow::anyhow!("other")), "other");
    }
}
