//! Connections to collectors of records, over TCP or TLS: this side writes, and of what the other one says only its end counts. What is wrong with TLS is told
//! with the options of `forebay probe`, which alone has collectors.

mod fault;
mod lasting;
mod pace;
mod patience;
mod stream;
mod tls;
mod trust;
mod waiting;

pub use fault::TlsFault;
pub use lasting::{Lasting, Turn};
pub use pace::Pace;
pub use patience::Patience;
pub use stream::{Place, Stream, first, is_wait};
pub use tls::{TlsStream, host_of};
pub use trust::Trust;
pub use waiting::{GoesOn, Tcp};
