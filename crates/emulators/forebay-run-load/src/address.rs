//! Where packets of a target go.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The address of a station of Ethernet (IEEE 802), 6 bytes as they are sent; none of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Station(pub(crate) [u8; 6]);

impl FromStr for Station {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no address of Ethernet: write six bytes as 02:00:00:00:00:01");
        let (mut bytes, mut parts) = ([0; 6], text.split(':'));
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2);
            let is_hexadecimal = |part: &&str| part.bytes().all(|it| it.is_ascii_hexdigit());
            let part = part.filter(is_hexadecimal).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() {
            return Err(wrong());
        }
        if bytes[0] & 1 != 0 {
            return Err(format!(
                "{text} is the address of a group: write that of one station, whose first byte is even"
            ));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Where packets of a target go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port of a host, over UDP and TCP.
    Socket(SocketAddr),
    /// A station on an interface.
    Station(Station),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Station(station) => station.fmt(f),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_are_read_as_they_are_written() {
        let station = Station([2, 0, 0xab, 0, 0, 0xff]);
        assert_eq!("02:00:AB:00:00:ff".parse(), Ok(station));
        assert_eq!(station.to_string(), "02:00:ab:00:00:ff");
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "02:00:00:00:00:+1",
            "02-00-00-00-00-01",
        ] {
            let said = wrong.parse::<Station>().unwrap_err();
            assert!(said.contains("six bytes"), "{wrong}: {said}");
        }
        for group in ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01"] {
            let said = group.parse::<Station>().unwrap_err();
            assert!(said.contains("one station"), "{group}: {said}");
        }
    }
}
