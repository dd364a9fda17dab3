//! The card, by the driver that the file names.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::config::{DriverChoice, XdpCopyChoice};
use crate::driver::packet::{self, PacketOptions, PacketRing};
use crate::driver::pcap::{self, PcapOptions};
use crate::driver::tap::{self, TapOptions};
use crate::driver::xdp::{self, Copying, PortConfig, XdpOptions};
use crate::driver::{Driver, DriverError, FRAME_BYTES_MAX, apart};
use crate::error::MuxError;
use crate::plan::{MuxPlan, Sizes};

/// Opens the card with room for frames as long as its MTU says.
pub(super) fn open_card(plan: &MuxPlan) -> Result<(Driver, Sizes), MuxError> {
    let mut driver = open(plan, FRAME_BYTES_MAX)?;
    let sizes = plan.sizes(driver.card.look().mtu_bytes)?;
    let frame_bytes_max = sizes.frame_bytes_max as usize;
    if frame_bytes_max != FRAME_BYTES_MAX {
        drop(driver);
        driver = open(plan, frame_bytes_max)?;
    }
    // Before the daemon is confined, which each of its threads is then.
    if plan.settings.driver_threads > 1 {
        driver = apart(driver, frame_bytes_max)?;
    }
    Ok((driver, sizes))
}

/// Marks a card as this process's, in its network namespace and for as long as the mark is kept; none: another multiplexer has marked it. It is a socket with a name of no file, to which nobody can
/// do more than keep it from this process: it is for a warning.
pub(super) fn mark(card: &str) -> Option<Mark> {
    let name = format!("forebay-mux-{card}");
    let bound =
        SocketAddr::from_abstract_name(name).and_then(|name| UnixListener::bind_addr(&name));
    match bound {
        Err(error) if error.kind() == ErrorKind::AddrInUse => None,
        bound => Some(Mark(bound.ok())),
    }
}

/// A socket, which is held open while this process has the card.
#[derive(Debug)]
pub(super) struct Mark(
    #[expect(dead_code, reason = "it is kept, and not used")] Option<UnixListener>,
);

fn open(plan: &MuxPlan, frame_bytes_max: usize) -> Result<Driver, DriverError> {
    let settings = &plan.settings;
    let interface = settings.interface.as_deref().unwrap_or_default();
    let packets = PacketOptions {
        frame_bytes_max,
        ..PacketOptions::default()
    };
    match settings.driver {
        DriverChoice::Packet => packet::open(interface, &packets),
        DriverChoice::PacketBlocks => {
            let ring = PacketRing::BLOCKS;
            packet::open(interface, &PacketOptions { ring, ..packets })
        }
        DriverChoice::Xdp => {
            let usual = XdpOptions::default();
            let options = XdpOptions {
                port: PortConfig {
                    copying: copying(settings.xdp_copy),
                    ..usual.port
                },
                frame_bytes_max,
                shared_frames: plan.shares().then_some(settings.receive_buffers),
                ..usual
            };
            xdp::open(interface, &options)
        }
        DriverChoice::Tap => {
            let options = TapOptions {
                frame_bytes_max,
                ..TapOptions::default()
            };
            tap::open(interface, &options)
        }
        DriverChoice::Pcap => pcap::open(&PcapOptions {
            input: settings.pcap_read.clone(),
            output: settings.pcap_write.clone(),
            frame_bytes_max,
            ..PcapOptions::default()
        }),
    }
}

const fn copying(said: XdpCopyChoice) -> Copying {
    match said {
        XdpCopyChoice::IfNeeded => Copying::IfNeeded,
        XdpCopyChoice::Always => Copying::Copy,
        XdpCopyChoice::Never => Copying::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_past_the_stack_copies_as_the_file_says() {
        for (said, wanted) in [
            ("if-needed", Copying::IfNeeded),
            ("always", Copying::Copy),
            ("never", Copying::Never),
        ] {
            let said = XdpCopyChoice::named(said).unwrap();
            assert_eq!(copying(said), wanted);
        }
    }
}
