//! Errors in Python's classes, with their text unchanged.

use std::io;

use forebay_client::ip::IpError;
use forebay_client::protocol::MessageError;
use forebay_client::{ClientError, SendError};
use forebay_run_net::NetError;
use pyo3::PyErr;
use pyo3::exceptions::{
    PyBlockingIOError, PyConnectionError, PyConnectionRefusedError, PyConnectionResetError,
    PyOSError, PyOverflowError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError,
};

/// What an end point says.
pub(crate) fn of_net(error: NetError) -> PyErr {
    let text = error.to_string();
    match error {
        NetError::Setting(_) | NetError::TooLong { .. } => PyValueError::new_err(text),
        NetError::Stuck { .. } => PyTimeoutError::new_err(text),
        NetError::Left => PyConnectionError::new_err(text),
        NetError::Door(_) | NetError::Link(_) => of_system(&error, text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// What a client of the multiplexer says.
pub(crate) fn of_client(error: ClientError) -> PyErr {
    let text = error.to_string();
    match error {
        ClientError::Refused(_) => PyConnectionRefusedError::new_err(text),
        ClientError::Gone => PyConnectionResetError::new_err(text),
        ClientError::Silent { .. } => PyTimeoutError::new_err(text),
        ClientError::System(_) => of_system(&error, text),
        ClientError::Message(MessageError::Name) => PyValueError::new_err(text),
        ClientError::Message(_) | ClientError::Unexpected { .. } | ClientError::Ring(_) => {
            PyRuntimeError::new_err(text)
        }
    }
}

/// Why a frame is not sent.
pub(crate) fn of_send(error: SendError) -> PyErr {
    let text = error.to_string();
    match error {
        SendError::Full { .. } => PyBlockingIOError::new_err(text),
        SendError::Length { .. } => PyValueError::new_err(text),
        SendError::Client(error) => of_client(error),
    }
}

/// Numbers of Linux, by which Python finds what its own sockets raise.
const EBADF: i32 = 9;
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const EMSGSIZE: i32 = 90;
const EADDRINUSE: i32 = 98;
const EADDRNOTAVAIL: i32 = 99;
const EPIPE: i32 = 32;
const ENETUNREACH: i32 = 101;
const ECONNRESET: i32 = 104;
const ENOTCONN: i32 = 107;
const ETIMEDOUT: i32 = 110;
const ECONNREFUSED: i32 = 111;

/// What a socket over a stack says.
pub(crate) fn of_ip(error: IpError) -> PyErr {
    let text = error.to_string();
    let system = |code: i32| PyOSError::new_err((code, text.clone()));
    match error {
        IpError::Client(error) => of_client(error),
        IpError::NoAddress => system(EADDRNOTAVAIL),
        IpError::PortTaken { .. } => system(EADDRINUSE),
        IpError::TooMany { .. } => system(EMFILE),
        IpError::NoWay { .. } => system(ENETUNREACH),
        IpError::Full { .. } => PyBlockingIOError::new_err(text),
        IpError::NoSocket { .. } => PyOSError::new_err((EBADF, "the socket is closed")),
        IpError::NoPort { .. } => system(EINVAL),
        IpError::Length { .. } => system(EMSGSIZE),
        IpError::Refused { .. } => system(ECONNREFUSED),
        IpError::Reset { .. } => system(ECONNRESET),
        IpError::TimedOut { .. } => system(ETIMEDOUT),
        IpError::ShutDown { .. } => system(EPIPE),
        IpError::Connecting { .. } => system(ENOTCONN),
        IpError::Prefix { .. }
        | IpError::Gateway { .. }
        | IpError::Queue { .. }
        | IpError::Buffer { .. }
        | IpError::Timeout { .. } => PyValueError::new_err(text),
    }
}

/// A call that is for a client with a stack, or for one without.
pub(crate) fn stack(text: &'static str) -> PyErr {
    PyRuntimeError::new_err(text)
}

/// A call that would have to wait, and may not.
pub(crate) fn would_block() -> PyErr {
    PyBlockingIOError::new_err("nothing is there, and timeout is 0")
}

/// A wait that has ended with nothing.
pub(crate) fn timed_out() -> PyErr {
    PyTimeoutError::new_err("timed out")
}

/// With the number of the system's error, so that Python finds its subclass.
fn of_system(error: &(dyn std::error::Error + 'static), text: String) -> PyErr {
    let mut source = Some(error);
    while let Some(one) = source {
        if let Some(code) = one
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return PyOSError::new_err((code, text));
        }
        source = one.source();
    }
    PyOSError::new_err(text)
}

/// A value outside of its range.
pub(crate) fn value(
    name: &str,
    value: impl std::fmt::Display,
    rule: impl std::fmt::Display,
) -> PyErr {
    PyValueError::new_err(format!("{name} is {value}; {rule}"))
}

/// A port that no socket has, as Python's own say it.
pub(crate) fn port(found: impl std::fmt::Display) -> PyErr {
    PyOverflowError::new_err(format!("port is {found}; it must be from 0 to 65535"))
}

/// A value of another type.
pub(crate) fn kind(
    name: &str,
    value: &pyo3::Bound<'_, pyo3::PyAny>,
    rule: impl std::fmt::Display,
) -> PyErr {
    use pyo3::types::PyAnyMethods;
    let shown = value
        .repr()
        .map_or_else(|_| "something".into(), |text| text.to_string());
    let mut shown: String = shown.chars().take(80).collect();
    if shown.is_empty() {
        shown.push_str("nothing");
    }
    PyTypeError::new_err(format!("{name} is {shown}; {rule}"))
}

/// Something is asked of what was closed.
pub(crate) fn closed(what: &str) -> PyErr {
    PyValueError::new_err(format!("the {what} is closed"))
}
