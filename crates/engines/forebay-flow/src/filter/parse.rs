//! The language of rules, one line of words each, the same in files and on the command line.
//!
//! ```text
//! rule     = action { term }                               no term twice; all must hold
//! action   = "pass" | "drop" | "sample" "1/"N | "trim" BYTES | "export" [ BYTES ]
//! term     = ( "src" | "dst" | "net" ) ADDRESS[ "/"BITS ]  net: at one of both ends
//!          | ( "src-port" | "dst-port" | "port" ) PORT[ "-"PORT ]
//!          | "tcp" | "udp" | "sctp" | "icmp" | "icmp6" | "proto" NUMBER
//! ```

use core::fmt;
use core::net::IpAddr;
use core::str::{FromStr, SplitAsciiWhitespace};

use forebay_wire::packet::{SCTP, TCP, UDP};
use thiserror::Error;

use super::rule::{Action, Prefix, Protocol, Rule, Side, bits_of};

const NETWORK_WORDS: [&str; 3] = ["src", "dst", "net"];
const PORT_WORDS: [&str; 3] = ["src-port", "dst-port", "port"];
const PROTOCOLS: [(&str, u8); 5] = [
    ("tcp", TCP),
    ("udp", UDP),
    ("sctp", SCTP),
    ("icmp", 1),
    ("icmp6", 58),
];
const ONE_IN_MAX: u32 = 1_000_000;
const BYTES_MAX: u32 = 262_144;

/// What is wrong with a rule; [`Self::remedy`] says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// It says nothing.
    #[error("it is empty")]
    Empty,
    /// It does not begin with an action.
    #[error("{0:?} is no action")]
    Action(String),
    /// A word that begins no term.
    #[error("{0:?} begins no term")]
    Term(String),
    /// A word lacks what belongs behind it.
    #[error("behind {0:?} something is missing")]
    Missing(&'static str),
    /// A term that is there already.
    #[error("{0:?} is there twice")]
    Twice(&'static str),
    /// No share as of sampling.
    #[error("{0:?} is no share of packets")]
    Share(String),
    /// No number of bytes.
    #[error("{0:?} is no number of bytes")]
    Bytes(String),
    /// No address or prefix.
    #[error("{0:?} is no address or prefix")]
    Prefix(String),
    /// A prefix whose address has bits behind those that are compared.
    #[error("{given:?} has bits behind its prefix")]
    HostBits {
        /// What came.
        given: String,
        /// The prefix that it lies in.
        prefix: String,
    },
    /// No port or range of ports.
    #[error("{0:?} is no port or range of ports")]
    Ports(String),
    /// No number of a protocol.
    #[error("{0:?} is no number of a protocol")]
    Protocol(String),
    /// A port of a protocol without ports.
    #[error("a protocol without ports is given with one")]
    NoPorts,
}

impl RuleError {
    /// What to do.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Empty | Self::Action(_) => {
                "begin with pass, drop, sample 1/N, trim BYTES or export, as \"drop src 10.0.0.0/8 port 53 udp\""
                    .into()
            }
            Self::Term(_) => {
                "write src, dst or net with an address or prefix, src-port, dst-port or port with a port or range, or tcp, udp, sctp, icmp, icmp6 or proto NUMBER"
                    .into()
            }
            Self::Missing(word) => format!("add it, as \"{}\"", example(word)),
            Self::Twice(_) => "take one of them out, or make two rules of it".into(),
            Self::Share(_) => format!("write 1/N with N from 1 to {ONE_IN_MAX}, as 1/100"),
            Self::Bytes(_) => format!("write a number from 0 to {BYTES_MAX}"),
            Self::Prefix(_) => {
                "write it in numbers, as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32".into()
            }
            Self::HostBits { prefix, .. } => format!("write {prefix}"),
            Self::Ports(_) => {
                "write a number from 0 to 65535, or two as 1024-65535, the smaller first".into()
            }
            Self::Protocol(_) => "write a number from 0 to 255, as proto 47".into(),
            Self::NoPorts => "take the port out, or write tcp, udp or sctp".into(),
        }
    }
}

fn example(word: &str) -> String {
    let behind = match word {
        "sample" => "1/100",
        "trim" => "128",
        "proto" => "47",
        word if PORT_WORDS.contains(&word) => "53",
        _ => "10.0.0.0/8",
    };
    format!("{word} {behind}")
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut words = text.split_ascii_whitespace();
        let first = words.next().ok_or(RuleError::Empty)?;
        let action = action(first, &mut words)?;
        let mut rule = Self::of_all(action);
        while let Some(word) = words.next() {
            rule.add(word, &mut words)?;
        }
        let is_portless = |own: Protocol| !matches!(own.0, TCP | UDP | SCTP);
        if rule.protocol.is_some_and(is_portless) && rule.ports != [None; 3] {
            return Err(RuleError::NoPorts);
        }
        Ok(rule)
    }
}

fn action(word: &str, words: &mut SplitAsciiWhitespace<'_>) -> Result<Action, RuleError> {
    match word {
        "pass" => Ok(Action::Pass),
        "drop" => Ok(Action::Drop),
        "sample" => {
            let one_in = share(words.next().ok_or(RuleError::Missing("sample"))?)?;
            Ok(Action::Sample { one_in })
        }
        "trim" => {
            let bytes = bytes(words.next().ok_or(RuleError::Missing("trim"))?)?;
            Ok(Action::Trim { bytes })
        }
        "export" => {
            // What begins with a figure is no term.
            let mut ahead = words.clone();
            let number = ahead.next().filter(|next| begins_with_figure(next));
            if number.is_some() {
                *words = ahead;
            }
            Ok(Action::Export {
                bytes: number.map(bytes).transpose()?,
            })
        }
        other => Err(RuleError::Action(other.into())),
    }
}

fn begins_with_figure(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

fn share(word: &str) -> Result<u32, RuleError> {
    let one_in = word.strip_prefix("1/").and_then(|n| number(n, ONE_IN_MAX));
    one_in
        .filter(|n| *n > 0)
        .ok_or_else(|| RuleError::Share(word.into()))
}

fn bytes(word: &str) -> Result<u32, RuleError> {
    number(word, BYTES_MAX).ok_or_else(|| RuleError::Bytes(word.into()))
}

/// A number in figures alone, without a sign.
fn number(word: &str, most: u32) -> Option<u32> {
    let figures = word.bytes().all(|c| c.is_ascii_digit());
    let number = figures.then(|| word.parse().ok())??;
    (number <= most).then_some(number)
}

impl Rule {
    fn add(&mut self, word: &str, words: &mut SplitAsciiWhitespace<'_>) -> Result<(), RuleError> {
        if let Some((at, name)) = place(&NETWORK_WORDS, word) {
            let next = words.next().ok_or(RuleError::Missing(name))?;
            return put(&mut self.networks[at], name, prefix(next)?);
        }
        if let Some((at, name)) = place(&PORT_WORDS, word) {
            let next = words.next().ok_or(RuleError::Missing(name))?;
            return put(&mut self.ports[at], name, ports(next)?);
        }
        if word == "proto" {
            let next = words.next().ok_or(RuleError::Missing("proto"))?;
            let own = number(next, 255).ok_or_else(|| RuleError::Protocol(next.into()))?;
            return put(&mut self.protocol, "protocol", Protocol(own as u8));
        }
        match PROTOCOLS.iter().find(|(name, _)| *name == word) {
            Some((_, own)) => put(&mut self.protocol, "protocol", Protocol(*own)),
            None => Err(RuleError::Term(word.into())),
        }
    }
}

fn place(words: &[&'static str; 3], word: &str) -> Option<(usize, &'static str)> {
    let at = words.iter().position(|own| *own == word)?;
    Some((at, words[at]))
}

fn put<T>(to: &mut Option<T>, name: &'static str, value: T) -> Result<(), RuleError> {
    match to.replace(value) {
        Some(_) => Err(RuleError::Twice(name)),
        None => Ok(()),
    }
}

fn prefix(word: &str) -> Result<Prefix, RuleError> {
    let wrong = || RuleError::Prefix(word.into());
    let (address, bits) = match word.split_once('/') {
        Some((address, bits)) => (address, Some(number(bits, 128).ok_or_else(wrong)? as u8)),
        None => (word, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits = bits.unwrap_or(bits_of(address));
    let prefix = Prefix::new(address, bits).ok_or_else(wrong)?;
    if prefix.address() != address {
        return Err(RuleError::HostBits {
            given: word.into(),
            prefix: prefix.to_string(),
        });
    }
    Ok(prefix)
}

fn ports(word: &str) -> Result<(u16, u16), RuleError> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let port = |text| number(text, u16::MAX.into()).map(|port| port as u16);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(RuleError::Ports(word.into())),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, bits) = (self.address(), self.bits());
        if bits == bits_of(address) {
            return write!(f, "{address}");
        }
        write!(f, "{address}/{bits}")
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Drop => f.write_str("drop"),
            Self::Sample { one_in } => write!(f, "sample 1/{one_in}"),
            Self::Trim { bytes } => write!(f, "trim {bytes}"),
            Self::Export { bytes: Some(bytes) } => write!(f, "export {bytes}"),
            Self::Export { bytes: None } => f.write_str("export"),
        }
    }
}

/// As it is written, its terms in one order.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.action)?;
        for side in Side::ALL {
            if let Some(prefix) = self.networks[side as usize] {
                write!(f, " {} {prefix}", NETWORK_WORDS[side as usize])?;
            }
        }
        for side in Side::ALL {
            match self.ports[side as usize] {
                Some((first, last)) if first == last => {
                    write!(f, " {} {first}", PORT_WORDS[side as usize])?;
                }
                Some((first, last)) => {
                    write!(f, " {} {first}-{last}", PORT_WORDS[side as usize])?;
                }
                None => {}
            }
        }
        match self.protocol {
            None => Ok(()),
            Some(own) => match PROTOCOLS.iter().find(|(_, number)| *number == own.0) {
                Some((name, _)) => write!(f, " {name}"),
                None => write!(f, " proto {}", own.0),
            },
        }
    }
}
