//! Which network interface holds an address, and what clock and stamps that interface has.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType};

use crate::SysError;
use crate::addresses;

/// The clock and the stamps of one network interface (`ETHTOOL_GET_TS_INFO`; `net/ethtool/ioctl.c`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceClock {
    /// The interface's name.
    pub interface: String,
    /// `/dev/ptp` followed by this number is its hardware clock; none on loopback, veth and most virtual cards.
    pub phc_index: Option<u32>,
    /// The driver tells when it hands a datagram to the card.
    pub transmit_software: bool,
    /// The card tells when a datagram leaves.
    pub transmit_hardware: bool,
    /// The kernel tells when it takes a datagram from the driver.
    pub receive_software: bool,
    /// The card tells when a datagram arrives.
    pub receive_hardware: bool,
}

/// Asks for the clock of the interface that holds `local`.
///
/// # Errors
/// When no interface of this host (and network namespace) holds the address, or its driver does not answer.
pub fn phc_of(local: IpAddr) -> Result<InterfaceClock, SysError> {
    let name = interface_of(local)?;
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)
        .map_err(|errno| SysError::new("socket", "UDP", errno))?;
    let mut info = TsInfo {
        cmd: ETHTOOL_GET_TS_INFO,
        ..TsInfo::default()
    };
    let mut request = Request {
        name,
        data: &raw mut info,
        padding: [0; 16],
    };
    // SAFETY: the request has the layout of `struct ifreq`, its pointer leads to a live `struct ethtool_ts_info`, and the
    // kernel writes no more than that structure.
    let answer =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    let interface = text(&name);
    if answer != 0 {
        let why = io::Error::last_os_error();
        return Err(SysError::new("ioctl(ETHTOOL_GET_TS_INFO)", interface, why));
    }
    Ok(clock(interface, &info))
}

/// From `linux/ethtool.h`.
const ETHTOOL_GET_TS_INFO: u32 = 0x41;

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Debug, Default)]
struct TsInfo {
    cmd: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

const _: () = assert!(size_of::<TsInfo>() == 44);

/// `struct ifreq` with its pointer; the union behind the name is 24 bytes.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut TsInfo,
    padding: [u8; 16],
}

const _: () = assert!(size_of::<Request>() == 40);

fn clock(interface: String, info: &TsInfo) -> InterfaceClock {
    let has = |flag: u32| info.so_timestamping & flag != 0;
    InterfaceClock {
        interface,
        // The kernel says -1 for none.
        phc_index: u32::try_from(info.phc_index).ok(),
        transmit_software: has(libc::SOF_TIMESTAMPING_TX_SOFTWARE),
        transmit_hardware: has(libc::SOF_TIMESTAMPING_TX_HARDWARE),
        receive_software: has(libc::SOF_TIMESTAMPING_RX_SOFTWARE),
        receive_hardware: has(libc::SOF_TIMESTAMPING_RX_HARDWARE),
    }
}

fn text(name: &[u8; libc::IFNAMSIZ]) -> String {
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

fn interface_of(local: IpAddr) -> Result<[u8; libc::IFNAMSIZ], SysError> {
    let mut all = addresses::addresses()?.into_iter();
    let found = all.find(|(_, address)| *address == local.to_canonical());
    let found = found.map(|(name, _)| name_of(name.as_bytes()));
    found.ok_or_else(|| {
        let missing = io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
        SysError::new("getifaddrs", local.to_string(), missing)
            .with_remedy("name an address that `ip address` shows for one interface")
    })
}

fn name_of(name: &[u8]) -> [u8; libc::IFNAMSIZ] {
    let mut out = [0; libc::IFNAMSIZ];
    // The last byte stays 0, as the kernel wants it.
    for (to, from) in out[..libc::IFNAMSIZ - 1].iter_mut().zip(name) {
        *to = *from;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_software_stamps_and_no_hardware_clock() {
        for address in ["127.0.0.1", "::ffff:127.0.0.1"] {
            let found = phc_of(address.parse().unwrap()).unwrap();
            assert_eq!(
                found,
                InterfaceClock {
                    interface: "lo".to_owned(),
                    phc_index: None,
                    transmit_software: true,
                    transmit_hardware: false,
                    receive_software: true,
                    receive_hardware: false,
                }
            );
        }
    }

    #[test]
    fn an_address_of_nobody_is_named_with_a_remedy() {
        for address in ["192.0.2.1", "0.0.0.0"] {
            let text = phc_of(address.parse().unwrap()).unwrap_err().to_string();
            assert!(
                text.contains(address) && text.contains("ip address"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_card_with_a_clock_is_read_as_one() {
        let info = TsInfo {
            so_timestamping: 0x5f,
            phc_index: 3,
            ..TsInfo::default()
        };
        let found = clock("eth1".to_owned(), &info);
        assert_eq!(found.phc_index, Some(3));
        assert!(found.transmit_hardware && found.receive_hardware);
        assert!(found.transmit_software && found.receive_software);
    }
}
