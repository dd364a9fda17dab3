//! The files of to-host, to-flx and the subscriber: TOML in, plans out, or every mistake with its place and its remedy. It is the machinery of
//! [configuration files](forebay_config) with other sections.

mod swrod;
mod toflx;
mod tohost;

use std::path::Path;

pub use swrod::{PayloadCheck, SwrodFile, SwrodSettings};
pub use toflx::{CardSettings, ToFlxSettings};
pub use tohost::{DeviceSettings, ToHostSettings};

/// A card's socket as an address.
fn text_of(socket: &Path) -> String {
    socket.display().to_string()
}
