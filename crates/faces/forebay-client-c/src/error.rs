//! Errors as codes, each with a text for the thread that made it.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_client::ip::IpError;
use forebay_client::{ClientError, SendError};

use crate::types::*;

thread_local! {
    /// What went wrong last in this thread; empty: nothing.
    static TEXT: RefCell<CString> = RefCell::default();
}

/// A call that failed: its code, and its text.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    text: String,
}

impl Failure {
    pub(crate) fn new(code: i32, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(FOREBAY_CLIENT_ARGUMENT, text)
    }

    /// A call that is for a client with a stack, or for one without.
    pub(crate) fn stack(text: &str) -> Self {
        Self::new(FOREBAY_CLIENT_STACK, text)
    }

    /// A number that names nothing which the program has.
    pub(crate) fn no_frame(number: u32, what: &str) -> Self {
        let text = format!("{number} is no {what} that this program has");
        Self::new(FOREBAY_CLIENT_NO_FRAME, text)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let code = match &error {
            ClientError::System(_) => FOREBAY_CLIENT_SYSTEM,
            ClientError::Refused(_) => FOREBAY_CLIENT_REFUSED,
            ClientError::Silent { .. } => FOREBAY_CLIENT_SILENT,
            ClientError::Gone => FOREBAY_CLIENT_GONE,
            ClientError::Message(_) | ClientError::Unexpected { .. } | ClientError::Ring(_) => {
                FOREBAY_CLIENT_PROTOCOL
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let code = match error {
            SendError::Full { .. } => FOREBAY_CLIENT_FULL,
            SendError::Length { .. } => FOREBAY_CLIENT_LENGTH,
            SendError::Client(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<IpError> for Failure {
    fn from(error: IpError) -> Self {
        let code = match error {
            IpError::Client(error) => return error.into(),
            IpError::NoAddress => FOREBAY_CLIENT_NO_ADDRESS,
            IpError::Prefix { .. }
            | IpError::Gateway { .. }
            | IpError::Queue { .. }
            | IpError::Buffer { .. }
            | IpError::Timeout { .. }
            | IpError::NoPort { .. } => FOREBAY_CLIENT_ARGUMENT,
            IpError::PortTaken { .. } | IpError::TooMany { .. } => FOREBAY_CLIENT_TAKEN,
            IpError::NoSocket { .. } => FOREBAY_CLIENT_NO_SOCKET,
            IpError::NoWay { .. } => FOREBAY_CLIENT_NO_WAY,
            IpError::Length { .. } => FOREBAY_CLIENT_LENGTH,
            IpError::Full { .. } => FOREBAY_CLIENT_FULL,
            IpError::Refused { .. } => FOREBAY_CLIENT_PEER_REFUSED,
            IpError::Reset { .. } => FOREBAY_CLIENT_PEER_RESET,
            IpError::TimedOut { .. } => FOREBAY_CLIENT_PEER_SILENT,
            IpError::ShutDown { .. } => FOREBAY_CLIENT_SHUT_DOWN,
            IpError::Connecting { .. } => FOREBAY_CLIENT_CONNECTING,
        };
        Self::new(code, error.to_string())
    }
}

/// Runs what a call does: its code is given back and its text kept, and no panic leaves it.
pub(crate) fn guarded(call: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    // What a panic leaves of a client is not used again: see `Handle::enter`.
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(code)) => return code,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = format!("a defect of the library: {}", said.unwrap_or("no text"));
            Failure::new(FOREBAY_CLIENT_DEFECT, text)
        }
    };
    keep(&failure.text);
    failure.code
}

fn keep(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no text any more.
    let _ = TEXT.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut() {
            *kept = text;
        }
    });
}

/// The text of this thread, which stays where it is until its next call that fails.
pub(crate) fn text() -> *const std::ffi::c_char {
    let kept = TEXT.try_with(|kept| kept.try_borrow().map(|text| text.as_ptr()).ok());
    kept.ok().flatten().unwrap_or(c"".as_ptr())
}

/// The name of a code.
pub(crate) const fn name(code: i32) -> &'static CStr {
    match code {
        FOREBAY_CLIENT_OK => c"ok",
        FOREBAY_CLIENT_FRAME => c"frame",
        FOREBAY_CLIENT_ROOM => c"room",
        FOREBAY_CLIENT_DUE => c"due",
        FOREBAY_CLIENT_EARLY => c"early",
        FOREBAY_CLIENT_READY => c"ready",
        FOREBAY_CLIENT_ARGUMENT => c"argument",
        FOREBAY_CLIENT_SYSTEM => c"system",
        FOREBAY_CLIENT_REFUSED => c"refused",
        FOREBAY_CLIENT_SILENT => c"silent",
        FOREBAY_CLIENT_GONE => c"gone",
        FOREBAY_CLIENT_PROTOCOL => c"protocol",
        FOREBAY_CLIENT_FULL => c"full",
        FOREBAY_CLIENT_LENGTH => c"length",
        FOREBAY_CLIENT_NO_FRAME => c"no_frame",
        FOREBAY_CLIENT_BUSY => c"busy",
        FOREBAY_CLIENT_DEFECT => c"defect",
        FOREBAY_CLIENT_STACK => c"stack",
        FOREBAY_CLIENT_NO_SOCKET => c"no_socket",
        FOREBAY_CLIENT_TAKEN => c"taken",
        FOREBAY_CLIENT_NO_WAY => c"no_way",
        FOREBAY_CLIENT_NO_ADDRESS => c"no_address",
        FOREBAY_CLIENT_PEER_REFUSED => c"peer_refused",
        FOREBAY_CLIENT_PEER_RESET => c"peer_reset",
        FOREBAY_CLIENT_PEER_SILENT => c"peer_silent",
        FOREBAY_CLIENT_SHUT_DOWN => c"shut_down",
        FOREBAY_CLIENT_CONNECTING => c"connecting",
        _ => c"unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> String {
        // SAFETY: the text of this thread ends with a zero and stays until its next failure.
        let text = unsafe { CStr::from_ptr(text()) };
        text.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn a_panic_is_a_code_and_a_text() {
        assert_eq!(said(), "");
        let code = guarded(|| panic!("number {}", 7));
        assert_eq!(code, FOREBAY_CLIENT_DEFECT);
        assert_eq!(said(), "a defect of the library: number 7");
        assert_eq!(guarded(|| Ok(FOREBAY_CLIENT_DUE)), FOREBAY_CLIENT_DUE);
        assert_eq!(said(), "a defect of the library: number 7", "it stays");
    }

    #[test]
    fn a_text_is_of_its_thread() {
        guarded(|| Err(Failure::argument("of\0here")));
        let there = std::thread::spawn(said).join().expect("no panic");
        assert_eq!((said().as_str(), there.as_str()), ("of here", ""));
    }

    #[test]
    fn each_code_has_its_name() {
        let names: std::collections::BTreeSet<_> = (-21..=5).map(name).collect();
        assert_eq!(names.len(), 27);
        assert!(!names.contains(c"unknown"));
        assert_eq!([name(-22), name(6)], [c"unknown"; 2]);
    }
}
