//! The interface that frames go and come by, as it is before the first of them.

use forebay_link::packet::{FramePort, FrameRingSize};
use forebay_load::{Sizes, TARGETS_MAX, target_name};
use forebay_sys::packet::{FrameSocket, InterfaceState};
pub(crate) use forebay_wire::packet::link::ETHERNET_HEADER_BYTES as HEADER_BYTES;

use crate::LoadError;
use crate::address::Station;

/// The shortest frame without its check sum (IEEE 802.3): shorter ones are filled up on the way, and come back as others.
pub(crate) const FRAME_BYTES_MIN: usize = 60;
/// `ARPHRD_ETHER` of `linux/if_arp.h`.
const ETHERNET: u16 = 1;
/// A ring has so many bytes, or the least number of places.
const RING_BYTES: usize = 8 << 20;
/// All rings of a generator have so many, or that number of places each.
const RINGS_BYTES: usize = 256 << 20;
/// Rings have a multiple of so many places.
const PLACES_MIN: usize = 64;
/// What a place of a ring has beside its frame, about, in bytes.
const PLACE_BYTES: usize = 512;
const MAC_BYTES: usize = 6;

/// Frames of Ethernet on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPlan {
    /// The name of the interface.
    pub interface: String,
    /// The type of the frames: no other frame is seen. 0x0600 to 0xffff.
    pub ethertype: u16,
}

/// The interface, which is up, and of Ethernet.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) interface: String,
    pub(crate) mac: Station,
    pub(crate) ethertype: u16,
    mtu_bytes: usize,
}

impl Place {
    pub(crate) fn find(plan: &RawPlan) -> Result<Self, LoadError> {
        let beside = FrameSocket::open_beside(&plan.interface)?;
        let found = beside.interface();
        let interface = plan.interface.clone();
        if found.is_loopback {
            return Err(LoadError::Loopback { interface });
        }
        let kind = beside.hardware_type();
        if kind != ETHERNET {
            return Err(LoadError::NotEthernet { interface, kind });
        }
        if found.state(&beside) != InterfaceState::Up {
            return Err(LoadError::Down { interface });
        }
        Ok(Self {
            mac: Station(found.mac(&beside)?),
            mtu_bytes: found.mtu_bytes(&beside)? as usize,
            ethertype: plan.ethertype,
            interface,
        })
    }

    /// The longest frame that it takes, in bytes without check sum.
    pub(crate) const fn frame_bytes_max(&self) -> usize {
        self.mtu_bytes + HEADER_BYTES
    }

    /// Whether frames of these lengths can go.
    pub(crate) fn check_sizes(&self, sizes: &Sizes) -> Result<(), LoadError> {
        let (least, most) = (sizes.least(), sizes.most());
        if least < FRAME_BYTES_MIN {
            return Err(LoadError::ShortFrame { bytes: least });
        }
        if most > self.frame_bytes_max() {
            return Err(LoadError::LongFrame {
                bytes: most,
                interface: self.interface.clone(),
                most: self.frame_bytes_max(),
                mtu_bytes: self.mtu_bytes,
                needed: most - HEADER_BYTES,
            });
        }
        Ok(())
    }

    /// Whether these stations can be told apart, and are others than this one.
    pub(crate) fn check_targets(&self, targets: &[Station]) -> Result<(), LoadError> {
        for (at, station) in targets.iter().enumerate() {
            let before = targets[..at].iter().position(|it| it == station);
            let is = match before {
                Some(before) => format!("the address of target {} already", target_name(before)),
                None if *station == self.mac => format!("the address of {} itself", self.interface),
                None => continue,
            };
            return Err(LoadError::Station {
                target: target_name(at),
                station: *station,
                is,
            });
        }
        Ok(())
    }

    /// The header of frames to a station.
    pub(crate) fn header(&self, to: Station) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..MAC_BYTES].copy_from_slice(&to.0);
        header[MAC_BYTES..2 * MAC_BYTES].copy_from_slice(&self.mac.0);
        header[2 * MAC_BYTES..].copy_from_slice(&self.ethertype.to_be_bytes());
        header
    }

    /// Opens a port for frames that are for this interface, from one station or from any, with one of so many rings for frames of at most so many bytes.
    pub(crate) fn port(
        &self,
        from: Option<Station>,
        rings: usize,
        frame_bytes_max: usize,
    ) -> Result<FramePort, LoadError> {
        let ring = ring(rings, frame_bytes_max);
        let port = FramePort::open_of(&self.interface, ring, self.ethertype)?;
        port.accept_addressed(from.map(|station| station.0))?;
        Ok(port)
    }
}

fn ring(rings: usize, frame_bytes_max: usize) -> FrameRingSize {
    let bytes = RING_BYTES.min(RINGS_BYTES / rings.clamp(1, TARGETS_MAX));
    let places = bytes / (frame_bytes_max + PLACE_BYTES);
    FrameRingSize {
        frame_bytes: frame_bytes_max as u32,
        frames: (places / PLACES_MIN * PLACES_MIN).max(PLACES_MIN) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            interface: "eth1".into(),
            mac: Station([2, 0, 0, 0, 0, 1]),
            ethertype: 0x88b5,
            mtu_bytes: 1_500,
        }
    }

    #[test]
    fn frames_that_do_not_fit_are_named_with_what_would() {
        let check = |sizes: Sizes| place().check_sizes(&sizes).map_err(|it| it.to_string());
        assert_eq!(check(Sizes::Range(60, 1_514)), Ok(()));
        let long = check(Sizes::List(vec![60, 1_515])).unwrap_err();
        assert!(
            long.contains("1515 bytes")
                && long.contains("1514 at most")
                && long.contains("ip link set eth1 mtu 1501"),
            "{long}"
        );
        let short = check(Sizes::List(vec![59])).unwrap_err();
        assert!(
            short.contains("59 bytes") && short.contains("60"),
            "{short}"
        );
    }

    #[test]
    fn stations_that_cannot_be_told_apart_are_named() {
        let [own, one, two] = [1, 2, 3].map(|last| Station([2, 0, 0, 0, 0, last]));
        let check = |all: &[Station]| place().check_targets(all).map_err(|it| it.to_string());
        assert_eq!(check(&[one, two]), Ok(()));
        let own = check(&[one, own]).unwrap_err();
        assert!(
            own.contains("target B") && own.contains("eth1 itself"),
            "{own}"
        );
        let again = check(&[one, two, one]).unwrap_err();
        assert!(
            again.contains("target C") && again.contains("target A already"),
            "{again}"
        );
    }

    #[test]
    fn a_header_names_target_place_and_type() {
        let header = place().header(Station([2, 0, 0, 0, 0, 9]));
        assert_eq!(header, [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    }

    #[test]
    fn rings_take_no_more_memory_than_they_may() {
        assert_eq!(ring(1, 1_514).frames, 4_096);
        assert_eq!(ring(1, 65_507).frames, 64);
        let many = ring(TARGETS_MAX, 1_514);
        assert_eq!((many.frames, many.frame_bytes), (128, 1_514));
    }
}
