//! The error of every cold call: which call, on what, why, and what to do about it.

use std::io;

/// A system call that failed, with its target and, where one is known, a remedy.
#[derive(Debug, thiserror::Error)]
#[error("{call} {target}: {source}{}", remedy_suffix(.remedy))]
pub struct SysError {
    /// The system call, as its manual page is called.
    pub call: &'static str,
    /// What it was called on: an address with its port, a path, a number.
    pub target: String,
    /// The kernel's answer.
    #[source]
    pub source: io::Error,
    /// What the user can do about it.
    pub remedy: Option<String>,
}

impl SysError {
    /// Makes an error without a remedy.
    pub fn new(
        call: &'static str,
        target: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self {
            call,
            target: target.into(),
            source: source.into(),
            remedy: None,
        }
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Tells the kind of the kernel's answer.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

fn remedy_suffix(remedy: &Option<String>) -> String {
    remedy
        .as_ref()
        .map(|text| format!(" ({text})"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_call_target_reason_and_remedy() {
        let error = SysError::new(
            "bind",
            "127.0.0.1:50000",
            io::Error::from_raw_os_error(libc::EADDRINUSE),
        )
        .with_remedy("another program listens on port 50000");
        let text = error.to_string();
        assert!(text.starts_with("bind 127.0.0.1:50000: "), "{text}");
        assert!(
            text.ends_with("(another program listens on port 50000)"),
            "{text}"
        );
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
