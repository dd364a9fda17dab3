//! Host-wide counters of IP and UDP from `/proc/net/snmp`.
//!
//! They belong to the whole host (its network namespace): reassembly failures cannot be charged to a socket.

use crate::SysError;

/// The counters that the books use, since boot; take differences.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Snmp {
    /// Fragments that came for reassembly.
    pub ip_reasm_reqds: u64,
    /// Reassemblies that failed (a fragment lost, a time-out, no memory); one may be a whole datagram or less.
    pub ip_reasm_fails: u64,
    /// Datagrams delivered to sockets.
    pub udp_in_datagrams: u64,
    /// Datagrams for ports without a listener.
    pub udp_no_ports: u64,
    /// Datagrams not delivered, all reasons together (includes the receive buffer errors).
    pub udp_in_errors: u64,
    /// Datagrams dropped as a receive buffer was full.
    pub udp_rcvbuf_errors: u64,
    /// Datagrams dropped for a wrong checksum.
    pub udp_in_csum_errors: u64,
    /// Datagrams dropped as UDP's memory (`net.ipv4.udp_mem`) was used up.
    pub udp_mem_errors: u64,
}

/// Why the text was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnmpError {
    /// A protocol's pair of lines is missing.
    #[error("no `{0}` lines in /proc/net/snmp")]
    NoProtocol(&'static str),
    /// A counter is missing or not a number; kernels before 5.12 have no `MemErrors`, which reads 0.
    #[error("no counter {protocol} {name} in /proc/net/snmp")]
    NoCounter {
        /// The lines' first word.
        protocol: &'static str,
        /// The counter's heading.
        name: &'static str,
    },
}

/// Reads the text of `/proc/net/snmp`: per protocol a line of headings and a line of values.
///
/// # Errors
/// When a counter is missing.
pub fn parse(text: &str) -> Result<Snmp, SnmpError> {
    let ip = Table::find(text, "Ip:")?;
    let udp = Table::find(text, "Udp:")?;
    Ok(Snmp {
        ip_reasm_reqds: ip.counter("ReasmReqds")?,
        ip_reasm_fails: ip.counter("ReasmFails")?,
        udp_in_datagrams: udp.counter("InDatagrams")?,
        udp_no_ports: udp.counter("NoPorts")?,
        udp_in_errors: udp.counter("InErrors")?,
        udp_rcvbuf_errors: udp.counter("RcvbufErrors")?,
        udp_in_csum_errors: udp.counter("InCsumErrors").unwrap_or(0),
        udp_mem_errors: udp.counter("MemErrors").unwrap_or(0),
    })
}

/// Reads the counters of this process's network namespace.
///
/// # Errors
/// When the file cannot be read or understood.
pub fn read() -> Result<Snmp, SysError> {
    const PATH: &str = "/proc/net/snmp";
    let text =
        std::fs::read_to_string(PATH).map_err(|source| SysError::new("read", PATH, source))?;
    parse(&text).map_err(|error| {
        SysError::new(
            "read",
            PATH,
            std::io::Error::new(std::io::ErrorKind::InvalidData, error),
        )
    })
}

struct Table<'a> {
    protocol: &'static str,
    headings: &'a str,
    values: &'a str,
}

impl<'a> Table<'a> {
    fn find(text: &'a str, protocol: &'static str) -> Result<Self, SnmpError> {
        let mut rests = text.lines().filter_map(|line| line.strip_prefix(protocol));
        match (rests.next(), rests.next()) {
            (Some(headings), Some(values)) => Ok(Self {
                protocol,
                headings,
                values,
            }),
            _ => Err(SnmpError::NoProtocol(protocol)),
        }
    }

    fn counter(&self, name: &'static str) -> Result<u64, SnmpError> {
        let column = self
            .headings
            .split_whitespace()
            .position(|heading| heading == name);
        column
            .and_then(|column| self.values.split_whitespace().nth(column))
            .and_then(|value| value.parse().ok())
            .ok_or(SnmpError::NoCounter {
                protocol: self.protocol,
                name,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOLDEN: &str = "\
Ip: Forwarding DefaultTTL InReceives ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs
Ip: 1 64 1000 0 44 11 3 0
Icmp: InMsgs
Icmp: 5
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 900 7 20 950 18 0 2 0 1
UdpLite: InDatagrams NoPorts InErrors
UdpLite: 0 0 0
";

    #[test]
    fn golden() {
        let snmp = parse(GOLDEN).unwrap();
        assert_eq!(
            (
                snmp.ip_reasm_reqds,
                snmp.ip_reasm_fails,
                snmp.udp_in_datagrams
            ),
            (44, 3, 900)
        );
        assert_eq!(
            (
                snmp.udp_no_ports,
                snmp.udp_in_errors,
                snmp.udp_rcvbuf_errors
            ),
            (7, 20, 18)
        );
        assert_eq!((snmp.udp_in_csum_errors, snmp.udp_mem_errors), (2, 1));
    }

    #[test]
    fn a_missing_counter_is_named() {
        assert_eq!(parse("").unwrap_err(), SnmpError::NoProtocol("Ip:"));
        let text = GOLDEN.replace("ReasmFails", "Renamed");
        assert_eq!(
            parse(&text).unwrap_err(),
            SnmpError::NoCounter {
                protocol: "Ip:",
                name: "ReasmFails"
            }
        );
    }

    #[test]
    fn this_host_has_them() {
        read().unwrap();
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(Ip:|Udp:|[ -~]|\n){0,80}") {
            let _ = parse(&text);
        }
    }
}
