//! Connections to collectors of records, over TCP or TLS: this side writes, and of what the other one says only its end counts. What is wrong with TLS is told
//! with the options of `forebay probe`, which alone has collectors.

mod fault;
mod pace;
mod stream;
mod tls;
mod trust;

pub use fault::TlsFault;
pub use pace::Pace;
pub use stream::{Place, Stream, first, is_wait};
pub use tls::{TlsStream, host_of};
pub use trust::Trust;
