//! What a key of the configuration is: its kind, range, default and reason, said once for reader, errors and reference.

/// Keys of certificates, wherever `plain` is one.
pub const CERTIFICATES: [Key; 3] = [
    Key {
        name: "tls_certificate",
        kind: Kind::Path,
        default: Default::Depends("plain on loopback, refused elsewhere"),
        says: "This side's certificate as PEM: tcp:// is then encrypted by TLS, and both sides prove who they are. With `tls_key` and `tls_authority`.",
    },
    Key {
        name: "tls_key",
        kind: Kind::Path,
        default: Default::Depends("none"),
        says: "The key of that certificate as PEM.",
    },
    Key {
        name: "tls_authority",
        kind: Kind::Path,
        default: Default::Depends("none"),
        says: "Certificates of the authority that both sides' certificates are of, as PEM.",
    },
];

/// Longest name.
const NAME_CHARS_MAX: usize = 48;

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// An integer in a range, both ends included.
    Integer(u64, u64),
    /// 0, or an integer in a range, both ends included.
    ZeroOr(u64, u64),
    /// A power of two in a range, both ends included.
    PowerOfTwo(u64, u64),
    /// One of two integers.
    Either(u64, u64),
    /// Several different integers in a range.
    Integers(u64, u64),
    /// A name that enters accounts and file names.
    Name,
    /// A path; a relative one starts where the command runs.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An IP address.
    Address,
    /// An IP address and a port.
    Socket,
    /// Several different addresses with ports.
    Sockets,
    /// An address of messaging.
    Link,
}

/// What holds when a key is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// This value, as it would be written.
    Value(&'static str),
    /// Something that depends on other things, in words.
    Depends(&'static str),
    /// The key must be there.
    Required,
}

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As it is written, the unit last.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds without it.
    pub default: Default,
    /// What it does, and why one would change it.
    pub says: &'static str,
}

/// A key from its four parts, for tables of them.
pub const fn key(name: &'static str, kind: Kind, default: Default, says: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        says,
    }
}

/// One section of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Its name in brackets.
    pub name: &'static str,
    /// Whether it may stand several times, in double brackets.
    pub many: bool,
    /// What it is about.
    pub says: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

impl Section {
    /// The key of that name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The section as it is written.
    #[must_use]
    pub fn header(&self) -> String {
        let name = self.name;
        if self.many {
            format!("[[{name}]]")
        } else {
            format!("[{name}]")
        }
    }
}

impl Kind {
    /// What would be right, in words; `unit` is that of the key.
    #[must_use]
    pub fn right(self, unit: &str) -> String {
        match self {
            Self::Flag => "true or false".into(),
            Self::Integer(min, max) => format!("an integer from {min} to {max}{unit}"),
            Self::ZeroOr(min, max) => format!("0, or an integer from {min} to {max}{unit}"),
            Self::PowerOfTwo(min, max) => format!("a power of two from {min} to {max}{unit}"),
            Self::Either(one, other) => format!("{one} or {other}{unit}"),
            Self::Integers(min, max) => {
                format!("a list of different integers from {min} to {max}{unit}")
            }
            Self::Name => "a text of 1 to 48 letters, digits, '-', '_' and '.'".into(),
            Self::Path => "a text: a path".into(),
            Self::Choice(words) => quoted(words, " or "),
            Self::Address => "a text: an IP address, as \"127.0.0.1\" or \"::1\"".into(),
            Self::Socket => "a text: address and port, as \"127.0.0.1:9400\"".into(),
            Self::Sockets => {
                "a list of different addresses with ports, as [\"10.0.0.7:50000\"]".into()
            }
            Self::Link => {
                "a text: an address of messaging, as \"tcp://127.0.0.1:7100\" or \"shm://felix\""
                    .into()
            }
        }
    }
}

impl Kind {
    /// Least and largest number, where there are such.
    #[must_use]
    pub fn bounds(self) -> Option<(u64, u64)> {
        match self {
            Self::Integer(min, max)
            | Self::ZeroOr(min, max)
            | Self::PowerOfTwo(min, max)
            | Self::Integers(min, max)
            | Self::Either(min, max) => Some((min, max)),
            _ => None,
        }
    }

    /// What is wrong with a number, and what to do; none when nothing is.
    #[must_use]
    pub fn number_fault(self, number: i128) -> Option<(&'static str, String)> {
        let (min, max) = self.bounds()?;
        if let Self::Either(one, other) = self {
            let either = [one, other].map(i128::from).contains(&number);
            return (!either).then(|| ("it is neither", "choose one of them".into()));
        }
        if number == 0 && matches!(self, Self::ZeroOr(..)) {
            return None;
        }
        if number < i128::from(min) {
            return Some(("it is too small", format!("write {min} or more")));
        }
        if number > i128::from(max) {
            return Some(("it is too large", format!("write {max} or less")));
        }
        let next = number.unsigned_abs().next_power_of_two();
        if matches!(self, Self::PowerOfTwo(..)) && next != number.unsigned_abs() {
            return Some(("it is no power of two", format!("write {next}")));
        }
        None
    }
}

impl Key {
    /// The unit in the key's name, with a blank before it; empty when there is none.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        const UNITS: [(&str, &str); 6] = [
            ("bytes", " bytes"),
            ("ms", " ms"),
            ("us", " µs"),
            ("s", " s"),
            ("datagrams", " datagrams"),
            ("events", " events"),
        ];
        let name = self.name.trim_end_matches("_max");
        let last = name.rsplit('_').next().unwrap_or(name);
        let named = UNITS.iter().find(|(suffix, _)| *suffix == last);
        named.filter(|_| last != name).map_or("", |(_, unit)| unit)
    }

    /// What would be right, in words.
    #[must_use]
    pub fn right(&self) -> String {
        self.kind.right(self.unit())
    }
}

/// What is wrong with a name that shall enter accounts and file names; none when nothing is.
#[must_use]
pub fn name_fault(text: &str) -> Option<String> {
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    match text.chars().find(|c| !plain(c)) {
        Some(other) => Some(format!("{other:?} cannot stand in a name")),
        None if text.is_empty() => Some("it is empty".into()),
        None if text.len() > NAME_CHARS_MAX => Some(format!("it has {} characters", text.len())),
        None if text.starts_with(['.', '-']) => Some("it begins with a sign".into()),
        None => None,
    }
}

/// Words in quotes, joined.
pub(super) fn quoted(words: &[&str], between: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    words.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_names() {
        let unit = |name| {
            let kind = Kind::Integer(0, 1);
            Key {
                name,
                kind,
                default: Default::Required,
                says: "",
            }
            .unit()
        };
        assert_eq!(unit("timeout_ms"), " ms");
        assert_eq!(unit("message_bytes_max"), " bytes");
        assert_eq!(unit("spin_us"), " µs");
        assert_eq!(unit("trigger_bits"), "");
        assert_eq!(unit("senders"), "");
    }
}
