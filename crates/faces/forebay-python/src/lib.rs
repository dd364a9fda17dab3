//! The module `forebay._native`: messaging for Python, and the client of the multiplexer.
//!
//! Messages go in and out in batches, as buffers or NumPy arrays; no line of Python runs for a single one. The end points are those of
//! [`forebay_run_net`]. What is here holds them for Python: arguments, errors, the interpreter's lock, signals, and a thread that works for an end
//! point while Python does something else.

#![forbid(unsafe_code)]

mod arguments;
mod batch;
mod buffers;
mod end;
mod failure;
mod format;
mod gathered;
mod keeper;
mod mux_client;
mod mux_socket;
mod mux_tcp;
mod publisher;
mod receiver;
mod sender;
mod subscriber;
mod turnstile;

/// Messaging between processes and hosts, whose names `forebay.net` has, and the client of the multiplexer.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::batch::{Batch, BatchIterator};
    #[pymodule_export]
    use crate::mux_client::MuxClient;
    #[pymodule_export]
    use crate::mux_socket::UdpSocket;
    #[pymodule_export]
    use crate::mux_tcp::{TcpListener, TcpSocket};
    #[pymodule_export]
    use crate::publisher::Publisher;
    #[pymodule_export]
    use crate::receiver::Receiver;
    #[pymodule_export]
    use crate::sender::Sender;
    #[pymodule_export]
    use crate::subscriber::Subscriber;
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name of it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
