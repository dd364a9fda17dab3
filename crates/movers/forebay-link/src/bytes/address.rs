//! Where an end point is, and by which backend.

use std::fmt;
use std::str::FromStr;

use forebay_settings::{Text, Wrong, text_setting};
use thiserror::Error;

/// Longest name of a place in shared memory, in bytes: it has to fit into a Unix socket's address.
const NAME_BYTES_MAX: usize = 80;

/// An address of messaging.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// `tcp://host:port`; a port of 0 is any free one, for a listener.
    Tcp {
        /// Name or number; an IPv6 number without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// `shm://name`: shared memory of this host, among processes of one user.
    Shm {
        /// Letters, digits, `-`, `_` and `.`; up to 80.
        name: String,
    },
    /// `fabric+provider://place`: libfabric.
    Fabric {
        /// The provider, as `fi_info -l` calls it.
        provider: String,
        /// What the provider takes for an address: `host:port`.
        place: String,
    },
}

/// Why it is no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// No `://`, or something unknown before it.
    #[error(
        "{text}: no such backend; write tcp://HOST:PORT, shm://NAME or fabric+PROVIDER://PLACE, as in tcp://127.0.0.1:7100"
    )]
    Scheme {
        /// What was given.
        text: String,
    },
    /// The port is missing or out of range.
    #[error("{text}: no port from 0 to 65535; write tcp://HOST:PORT, as in tcp://127.0.0.1:7100")]
    Port {
        /// What was given.
        text: String,
    },
    /// The host is missing.
    #[error("{text}: no host; write tcp://HOST:PORT, as in tcp://127.0.0.1:7100")]
    Host {
        /// What was given.
        text: String,
    },
    /// A number of IPv6 without brackets: where it ends and the port begins is anybody's guess.
    #[error("{text}: a number of IPv6 stands in brackets; write {right}")]
    Brackets {
        /// What was given.
        text: String,
        /// What may have been meant.
        right: String,
    },
    /// A provider of libfabric's that is not used.
    #[error("{text}: the provider {provider} is refused: {why}")]
    Refused {
        /// What was given.
        text: String,
        /// Which one.
        provider: String,
        /// Why, and what to use in its place.
        why: &'static str,
    },
    /// The name is empty, too long or has other characters.
    #[error(
        "{text}: no name of 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.'; as in shm://run7"
    )]
    Name {
        /// What was given.
        text: String,
    },
}

impl Address {
    /// Whether what is sent there from a region is shown to the peer where it lies, and no byte of it is looked at on the way.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        matches!(self, Self::Shm { .. })
    }

    /// The address of the `n`-th of several that belong together: the port is `n` higher, or the name goes on with `-n`. A port of 0 stays any free one.
    ///
    /// # Errors
    /// There is no such port.
    pub fn nth(&self, n: u16) -> Result<Self, AddressError> {
        let further = |port: u16| {
            let next = if port == 0 {
                Some(0)
            } else {
                port.checked_add(n)
            };
            next.ok_or_else(|| AddressError::Port {
                text: format!("{self}, {n} ports further"),
            })
        };
        Ok(match self {
            Self::Tcp { host, port } => Self::Tcp {
                host: host.clone(),
                port: further(*port)?,
            },
            Self::Shm { name } => Self::Shm {
                name: format!("{name}-{n}"),
            },
            Self::Fabric { provider, place } => {
                let split = place.rsplit_once(':');
                let port = split.and_then(|(host, port)| Some((host, port.parse().ok()?)));
                let (host, port) = port.ok_or_else(|| AddressError::Port {
                    text: self.to_string(),
                })?;
                Self::Fabric {
                    provider: provider.clone(),
                    place: format!("{host}:{}", further(port)?),
                }
            }
        })
    }

    /// What stands in front of `://`.
    #[must_use]
    pub fn scheme(&self) -> String {
        match self {
            Self::Tcp { .. } => "tcp".into(),
            Self::Shm { .. } => "shm".into(),
            Self::Fabric { provider, .. } => format!("fabric+{provider}"),
        }
    }

    /// Whether only this host can come to it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let is_here = |host: &str| {
            let number = host.parse::<std::net::IpAddr>();
            host == "localhost" || number.is_ok_and(|ip| ip.to_canonical().is_loopback())
        };
        match self {
            Self::Tcp { host, .. } => is_here(host),
            Self::Shm { .. } => true,
            Self::Fabric { place, .. } => {
                host_and_port("", place).is_ok_and(|(host, _)| is_here(&host))
            }
        }
    }
}

static LINK: Text = Text {
    right: "a text: an address of messaging, as \"tcp://127.0.0.1:7100\" or \"shm://felix\"",
    right_list: "a list of different addresses of messaging, as [\"tcp://127.0.0.1:7100\"]",
    check: |text| match text.parse::<Address>() {
        Ok(_) => Ok(()),
        Err(error) => Err(Wrong::new(
            "it is no address of messaging",
            error.to_string(),
        )),
    },
};

text_setting!(Address, LINK);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let scheme = || AddressError::Scheme { text: text.into() };
        let (backend, place) = text.split_once("://").ok_or_else(scheme)?;
        match backend.split_once('+') {
            None if backend == "tcp" => {
                let (host, port) = host_and_port(text, place)?;
                Ok(Self::Tcp { host, port })
            }
            None if backend == "shm" => name(text, place).map(|name| Self::Shm { name }),
            Some(("fabric", provider)) if is_name(provider.as_bytes()) => {
                if let Some(why) = forebay_fabric::why_refused(provider) {
                    return Err(AddressError::Refused {
                        text: text.into(),
                        provider: provider.into(),
                        why,
                    });
                }
                host_and_port(text, place)?;
                Ok(Self::Fabric {
                    provider: provider.into(),
                    place: place.into(),
                })
            }
            _ => Err(scheme()),
        }
    }
}

/// What a number of IPv6 without brackets may have meant: all but a long last part the number, or all of it.
fn without_brackets(text: &str, place: &str) -> Option<AddressError> {
    let is_number = |text: &str| text.parse::<std::net::Ipv6Addr>().is_ok();
    let is_port = |text: &str| text.len() > 2 && text.parse::<u16>().is_ok();
    let parts = place.rsplit_once(':');
    let with_port = parts.filter(|(host, port)| is_number(host) && is_port(port));
    let (host, port) = match with_port {
        Some(parts) => parts,
        None if is_number(place) => (place, "PORT"),
        None => return None,
    };
    let backend = text.strip_suffix(place).unwrap_or("tcp://");
    Some(AddressError::Brackets {
        text: text.into(),
        right: format!("{backend}[{host}]:{port}"),
    })
}

/// Takes `host:port` or `[IPv6]:port` apart.
pub(super) fn host_and_port(text: &str, place: &str) -> Result<(String, u16), AddressError> {
    if let Some(error) = without_brackets(text, place) {
        return Err(error);
    }
    let (host, port) = place
        .rsplit_once(':')
        .ok_or_else(|| AddressError::Port { text: text.into() })?;
    // More than one colon without brackets: which one is the port's is anybody's guess.
    let plain = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let number: u16 = port
        .parse()
        .ok()
        .filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))
        .ok_or_else(|| AddressError::Port { text: text.into() })?;
    let host = match plain {
        Some(host) => host,
        None if host.contains(':') => "",
        None => host,
    };
    let unfit = |c: char| c.is_whitespace() || matches!(c, '/' | '@' | '?' | '#');
    if host.is_empty() || host.contains(unfit) {
        return Err(AddressError::Host { text: text.into() });
    }
    Ok((host.into(), number))
}

fn name(text: &str, name: &str) -> Result<String, AddressError> {
    if is_name(name.as_bytes()) {
        return Ok(name.into());
    }
    Err(AddressError::Name { text: text.into() })
}

fn is_name(name: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(fits)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Shm { name } => write!(f, "shm://{name}"),
            Self::Fabric { provider, place } => write!(f, "fabric+{provider}://{place}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn several_that_belong_together_have_addresses_in_turn() {
        let nth = |text: &str, n| text.parse::<Address>().unwrap().nth(n);
        for (text, n, third) in [
            ("tcp://[::1]:7100", 3, "tcp://[::1]:7103"),
            ("tcp://host:0", 3, "tcp://host:0"),
            ("shm://run7", 3, "shm://run7-3"),
            (
                "fabric+tcp://10.0.0.1:7100",
                3,
                "fabric+tcp://10.0.0.1:7103",
            ),
        ] {
            assert_eq!(nth(text, n).unwrap().to_string(), third);
        }
        let beyond = nth("tcp://host:65534", 2).unwrap_err().to_string();
        assert!(
            beyond.contains("65534") && beyond.contains("2 ports"),
            "{beyond}"
        );
    }

    #[test]
    fn addresses_come_back_from_their_text() {
        for text in [
            "tcp://127.0.0.1:7100",
            "tcp://daq-07.example.org:0",
            "tcp://[::1]:7100",
            "shm://run_7.a-b",
            "fabric+tcp://127.0.0.1:7100",
            "fabric+verbs://[fe80::1]:1",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert!(text.starts_with(&format!("{}://", address.scheme())));
        }
    }

    #[test]
    fn what_is_none_is_named() {
        let error = |text: &str| text.parse::<Address>().unwrap_err();
        for text in [
            "",
            "tcp",
            "udp://a:1",
            "fabric://a:1",
            "fabric+://a:1",
            "://",
            "fabric+a b://c:1",
        ] {
            assert!(matches!(error(text), AddressError::Scheme { .. }), "{text}");
        }
        for text in [
            "tcp://a",
            "tcp://a:",
            "tcp://a:+1",
            "tcp://a:65536",
            "fabric+tcp://a",
        ] {
            assert!(matches!(error(text), AddressError::Port { .. }), "{text}");
        }
        for text in ["tcp://:1", "tcp://[]:1", "tcp://a/b:1", "tcp://a b:1"] {
            assert!(matches!(error(text), AddressError::Host { .. }), "{text}");
        }
        for (text, right) in [
            ("tcp://::1", "tcp://[::1]:PORT"),
            ("tcp://::1:7100", "tcp://[::1]:7100"),
            (
                "fabric+tcp://fe80::1:2:3",
                "fabric+tcp://[fe80::1:2:3]:PORT",
            ),
        ] {
            let error = error(text);
            assert!(matches!(error, AddressError::Brackets { .. }), "{text}");
            assert!(error.to_string().ends_with(right), "{error}");
        }
        for text in ["shm://", "shm://a/b", "shm://../a"] {
            assert!(matches!(error(text), AddressError::Name { .. }), "{text}");
        }
        let long = format!("shm://{}", "x".repeat(NAME_BYTES_MAX + 1));
        assert!(matches!(error(&long), AddressError::Name { .. }));
    }

    /// A name or a port behind it: what to use in its place is said all the same.
    #[test]
    fn a_provider_that_is_refused_is_told_with_its_remedy() {
        for (text, remedy) in [
            ("fabric+shm://run7", "use shm://NAME"),
            ("fabric+shm://127.0.0.1:7100", "use shm://NAME"),
            ("fabric+sockets://127.0.0.1:7100", "its successor is tcp"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(matches!(error, AddressError::Refused { .. }), "{error}");
            let error = error.to_string();
            assert!(
                error.starts_with(text) && error.ends_with(remedy),
                "{error}"
            );
        }
    }

    #[test]
    fn what_stays_on_this_host() {
        let is_local = |text: &str| text.parse::<Address>().unwrap().is_local();
        assert!(is_local("tcp://127.0.0.5:1") && is_local("tcp://[::1]:1") && is_local("shm://a"));
        assert!(is_local("tcp://localhost:1"));
        assert!(is_local("fabric+tcp://127.0.0.1:0") && is_local("fabric+tcp://[::1]:7"));
        assert!(
            !is_local("tcp://10.0.0.1:1")
                && !is_local("tcp://0.0.0.0:1")
                && !is_local("fabric+tcp://a:1")
                && !is_local("fabric+verbs://[fe80::1]:1")
        );
    }
}
