//! One block of a file: its keys, read against their declarations.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;

use forebay_link::bytes::{Address, AddressError};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use forebay_settings::Choices;

use super::keys::{Key, Kind, Section, name_fault};
use super::mistake::Words;
use super::page::{Page, find};
use super::spelling::nearest;

/// One block.
pub struct Block<'p, 'a> {
    /// The file that it is in.
    pub page: &'p Page<'a>,
    /// What it may have.
    pub section: &'static Section,
    name: String,
    table: Option<&'p DeTable<'a>>,
    span: Range<usize>,
}

impl<'p, 'a> Block<'p, 'a> {
    /// A block that the file leaves out.
    pub fn empty(page: &'p Page<'a>, section: &'static Section) -> Self {
        Self {
            page,
            section,
            name: section.name.to_owned(),
            table: None,
            span: 0..0,
        }
    }

    /// A block of the file. Keys that the section does not have are mistakes.
    pub fn new(
        page: &'p Page<'a>,
        section: &'static Section,
        name: String,
        table: &'p DeTable<'a>,
        span: Range<usize>,
    ) -> Self {
        let block = Self {
            page,
            section,
            name,
            table: Some(table),
            span,
        };
        for (key, value) in table {
            if section.key(key.get_ref()).is_none() {
                block.unknown(key.get_ref(), key.span(), value);
            }
        }
        block
    }

    /// Whether the key is there, right or wrong.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Whether something is on.
    pub fn flag(&self, name: &str) -> Option<bool> {
        let (key, value) = self.read(name)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            DeValue::String(text) if matches!(&**text, "true" | "false" | "on" | "off") => {
                let flag = matches!(&**text, "true" | "on");
                self.refuse(
                    key,
                    value,
                    "it is a text",
                    &format!("write {flag} without quotes"),
                )
            }
            other => self.wrong_type(key, value, other),
        }
    }

    /// An integer in the range of its key.
    pub fn integer(&self, name: &str) -> Option<u64> {
        let (key, value) = self.read(name)?;
        self.integer_of(key, value)
    }

    /// Several different integers in the range of their key.
    pub fn integers(&self, name: &str) -> Option<Vec<u64>> {
        self.list(name, |key, value| self.integer_of(key, value))
    }

    /// One of the words of its key.
    pub fn choice(&self, name: &str) -> Option<&'static str> {
        let (key, value) = self.read(name)?;
        let Kind::Choice(words) = key.kind else {
            return None;
        };
        let text = self.text_of(key, value)?;
        let chosen = words.iter().find(|word| **word == text);
        if chosen.is_none() {
            let remedy = match nearest(&text, words.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "choose one of them".into(),
            };
            return self.refuse(key, value, "there is no such choice", &remedy);
        }
        chosen.copied()
    }

    /// One of the words of its key, which are those of the choice.
    pub fn one_of<C: Choices>(&self, name: &str) -> Option<C> {
        self.choice(name).and_then(C::named)
    }

    /// A name that can enter accounts and file names.
    pub fn name(&self, name: &str) -> Option<String> {
        let (key, value) = self.read(name)?;
        let text = self.text_of(key, value)?;
        let Some(wrong) = name_fault(&text) else {
            return Some(text);
        };
        self.refuse(
            key,
            value,
            &wrong,
            "choose another name, beginning with a letter or digit",
        )
    }

    /// A path, as it is written.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let (key, value) = self.read(name)?;
        let text = self.text_of(key, value)?;
        if text.is_empty() || text.contains('\0') {
            return self.refuse(key, value, "it is no path", "name a directory, as \"data\"");
        }
        Some(PathBuf::from(text))
    }

    /// An IP address.
    pub fn address(&self, name: &str) -> Option<IpAddr> {
        let (key, value) = self.read(name)?;
        let text = self.text_of(key, value)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            let remedy = "write the address in numbers; a name of a host is not looked up";
            return self.refuse(key, value, "it is no IP address", remedy);
        }
        parsed
    }

    /// An IP address and a port.
    pub fn socket(&self, name: &str) -> Option<SocketAddr> {
        let (key, value) = self.read(name)?;
        self.socket_of(key, value)
    }

    /// Several of these.
    pub fn sockets(&self, name: &str) -> Option<Vec<SocketAddr>> {
        self.list(name, |key, value| self.socket_of(key, value))
    }

    /// An address of messaging.
    pub fn link(&self, name: &str) -> Option<Address> {
        let (key, value) = self.read(name)?;
        let text = self.text_of(key, value)?;
        match text.parse() {
            Ok(address) => Some(address),
            Err(error) => {
                let error: AddressError = error;
                self.refuse(
                    key,
                    value,
                    "it is no address of messaging",
                    &error.to_string(),
                )
            }
        }
    }

    /// A mistake in the value of `name`, found by looking further than at this key.
    pub fn complain(&self, name: &str, wrong: &str, right: &str, remedy: &str) {
        let (span, value) = match self.value(name) {
            Some(value) => (value.span(), self.written(value)),
            None => (self.span.clone(), String::new()),
        };
        let (wrong, right, remedy) = (wrong.into(), right.into(), remedy.into());
        self.page.note(
            span,
            Words {
                key: self.path_of(name),
                value,
                wrong,
                right,
                remedy,
            },
        );
    }

    /// A mistake of the block as a whole.
    pub fn complain_whole(&self, wrong: &str, right: &str, remedy: &str) {
        let (wrong, right, remedy) = (wrong.into(), right.into(), remedy.into());
        let words = Words {
            key: self.name.clone(),
            value: String::new(),
            wrong,
            right,
            remedy,
        };
        self.page.note(self.span.clone(), words);
    }

    /// A key that has no meaning here, because of another key.
    pub fn idle(&self, name: &str, because: &str) {
        if self.has(name) {
            let right = format!("no {name} here");
            self.complain(
                name,
                &format!("it has no meaning here: {because}"),
                &right,
                "take it out",
            );
        }
    }

    /// The line on which the block begins.
    pub fn line(&self) -> usize {
        self.page
            .text()
            .get(..self.span.start)
            .map_or(0, |before| before.matches('\n').count())
            + 1
    }

    fn path_of(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    fn value(&self, name: &str) -> Option<&'p Spanned<DeValue<'a>>> {
        find(self.table?, name).map(|(_, value)| value)
    }

    /// Declaration and value of a key.
    fn read(&self, name: &str) -> Option<(&'static Key, &'p Spanned<DeValue<'a>>)> {
        let key = self.section.key(name);
        debug_assert!(
            key.is_some(),
            "{}.{name} is not declared",
            self.section.name
        );
        Some((key?, self.value(name)?))
    }

    fn written(&self, value: &Spanned<DeValue<'a>>) -> String {
        self.page
            .text()
            .get(value.span())
            .unwrap_or_default()
            .to_owned()
    }

    /// Notes what is wrong with one value.
    fn refuse<T>(
        &self,
        key: &Key,
        value: &Spanned<DeValue<'a>>,
        wrong: &str,
        remedy: &str,
    ) -> Option<T> {
        let words = Words {
            key: self.path_of(key.name),
            value: self.written(value),
            wrong: wrong.into(),
            right: key.right(),
            remedy: remedy.into(),
        };
        self.page.note(value.span(), words);
        None
    }

    fn wrong_type<T>(
        &self,
        key: &Key,
        value: &Spanned<DeValue<'a>>,
        found: &DeValue<'a>,
    ) -> Option<T> {
        let is = match found {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a section",
        };
        self.refuse(
            key,
            value,
            &format!("it is {is}"),
            &format!("write {}", key.right()),
        )
    }

    fn text_of(&self, key: &Key, value: &Spanned<DeValue<'a>>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
                let remedy = format!("write it in quotes: \"{}\"", self.written(value));
                self.refuse(key, value, "it has no quotes", &remedy)
            }
            other => self.wrong_type(key, value, other),
        }
    }

    fn integer_of(&self, key: &Key, value: &Spanned<DeValue<'a>>) -> Option<u64> {
        match value.get_ref() {
            DeValue::Integer(integer) => self.in_range(key, value, integer),
            DeValue::String(text) => {
                let remedy = match amount(text) {
                    Some(number) => format!("write {number}"),
                    None => "write the number without quotes".into(),
                };
                self.refuse(key, value, "it is a text", &remedy)
            }
            other => self.wrong_type(key, value, other),
        }
    }

    fn in_range(
        &self,
        key: &Key,
        value: &Spanned<DeValue<'a>>,
        integer: &DeInteger<'a>,
    ) -> Option<u64> {
        let digits = integer.as_str().replace('_', "");
        let Ok(number) = i128::from_str_radix(&digits, integer.radix()) else {
            return self.refuse(
                key,
                value,
                "it is far too large",
                &format!("write {}", key.right()),
            );
        };
        if let Some((wrong, remedy)) = key.kind.number_fault(number) {
            return self.refuse(key, value, wrong, &remedy);
        }
        u64::try_from(number).ok()
    }

    fn socket_of(&self, key: &Key, value: &Spanned<DeValue<'a>>) -> Option<SocketAddr> {
        let text = self.text_of(key, value)?;
        let parsed = text.parse::<SocketAddr>().ok();
        if parsed.is_none() {
            let remedy = match text.parse::<IpAddr>() {
                Ok(address) => format!("add the port: \"{}\"", SocketAddr::new(address, 50000)),
                Err(_) => {
                    "write address and port in numbers; a name of a host is not looked up".into()
                }
            };
            return self.refuse(key, value, "it is no address with a port", &remedy);
        }
        parsed
    }

    /// All entries of a list, which must be different from each other.
    fn list<T: PartialEq>(
        &self,
        name: &str,
        read: impl Fn(&Key, &Spanned<DeValue<'a>>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let (key, value) = self.read(name)?;
        let DeValue::Array(entries) = value.get_ref() else {
            let remedy = format!("write it in brackets: [{}]", self.written(value));
            return self.refuse(key, value, "it is no list", &remedy);
        };
        if entries.is_empty() {
            return self.refuse(key, value, "it is empty", "name at least one");
        }
        let mut all = Vec::new();
        let mut good = true;
        for entry in entries {
            match read(key, entry) {
                Some(one) if all.contains(&one) => {
                    good = false;
                    self.refuse::<()>(
                        key,
                        entry,
                        "it is in the list already",
                        "take one of them out",
                    );
                }
                Some(one) => all.push(one),
                None => good = false,
            }
        }
        good.then_some(all)
    }

    fn unknown(&self, name: &str, span: Range<usize>, value: &Spanned<DeValue<'a>>) {
        let guess = nearest(name, self.section.keys.iter().map(|key| key.name));
        let home = self.page.home(name);
        let remedy = match (guess, home) {
            (_, Some(home)) => format!("it belongs below {}", home.header()),
            (Some(guess), None) => format!("did you mean {guess}?"),
            (None, None) => "take it out, or choose one of these".into(),
        };
        let keys: Vec<_> = self.section.keys.iter().map(|key| key.name).collect();
        let words = Words {
            key: self.path_of(name),
            value: self.written(value),
            wrong: "there is no such key".into(),
            right: keys.join(", "),
            remedy,
        };
        self.page.note(span, words);
    }
}

/// The number that a text such as `4Mi`, `64 k` or `2s` stands for, in bytes or milliseconds.
fn amount(text: &str) -> Option<u64> {
    let text = text.trim().replace('_', "");
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let scale = match unit.trim().trim_end_matches(['B', 'b']) {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_words_become_numbers_to_write() {
        assert_eq!(amount("4Mi"), Some(4 << 20));
        assert_eq!(amount("64 kB"), Some(64_000));
        assert_eq!(amount("4_096"), Some(4096));
        assert_eq!(amount("many"), None);
        assert_eq!(amount("99999999999999999999"), None);
        assert_eq!(amount("18446744073709551615Gi"), None);
    }
}
