//! A key and a section of a file, as their declarations say them.

use std::fmt;

use crate::kind::Kind;

/// What holds when a key is left out.
#[derive(Debug, Clone, Copy)]
pub enum Absent {
    /// This value, as it would be written.
    Value(fn() -> String),
    /// Something that depends on other things, in words.
    Depends(&'static str),
    /// The key must be there.
    Required,
}

/// In Markdown.
impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "`{}`", value()),
            Self::Depends(words) => f.write_str(words),
            Self::Required => f.write_str("required"),
        }
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// As it is written, the unit last.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds without it.
    pub absent: Absent,
    /// What it does, and why one would change it.
    pub says: &'static str,
    /// The flag of the command line that says it too, without its hyphens.
    pub flag: Option<&'static str>,
}

/// One section of a file.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its name in brackets; empty for keys that several sections share.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_names() {
        let unit = |name| {
            let key = Key {
                name,
                kind: Kind::Integer(0, 1),
                absent: Absent::Required,
                says: "",
                flag: None,
            };
            key.unit()
        };
        assert_eq!(unit("timeout_ms"), " ms");
        assert_eq!(unit("message_bytes_max"), " bytes");
        assert_eq!(unit("spin_us"), " µs");
        assert_eq!(unit("trigger_bits"), "");
        assert_eq!(unit("senders"), "");
    }
}
