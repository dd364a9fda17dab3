//! One block of a file: its keys, read against their declarations.

use std::ops::Range;

use forebay_settings::{Got, Key, Kind, Section, Settings, Text, Wrong};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::document::{Document, find};
use super::mistake::Words;
use super::spelling::nearest;

/// One block.
pub struct Block<'p, 'a> {
    /// The file that it is in.
    pub document: &'p Document<'a>,
    /// What it may have.
    pub section: &'static Section,
    name: String,
    table: Option<&'p DeTable<'a>>,
    span: Range<usize>,
}

impl<'p, 'a> Block<'p, 'a> {
    /// A block that the file leaves out.
    pub(crate) fn empty(document: &'p Document<'a>, section: &'static Section) -> Self {
        Self {
            document,
            section,
            name: section.name.to_owned(),
            table: None,
            span: 0..0,
        }
    }

    /// A block of the file. Keys that the section does not have are mistakes.
    pub(crate) fn new(
        document: &'p Document<'a>,
        section: &'static Section,
        name: String,
        table: &'p DeTable<'a>,
        span: Range<usize>,
    ) -> Self {
        let block = Self {
            document,
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

    /// What the block says, with what holds where it says nothing. Each value that its key does not take is a mistake, and then stays what it is without it.
    pub fn read<S: Settings>(&self) -> S {
        let mut settings = S::default();
        for key in S::SECTION.keys {
            if let Some(got) = self.value(key.name).and_then(|value| self.got(key, value)) {
                let is_taken = settings.set(key.name, &got);
                debug_assert!(is_taken, "{} does not take {got}", self.path_of(key.name));
            }
        }
        settings
    }

    /// The value of a key, if it is one that the key takes.
    fn got(&self, key: &Key, value: &Spanned<DeValue<'a>>) -> Option<Got> {
        match key.kind {
            Kind::Flag => self.flag(key, value).map(Got::Flag),
            Kind::Integer(..) | Kind::ZeroOr(..) | Kind::PowerOfTwo(..) | Kind::Either(..) => {
                self.integer(key, value).map(Got::Integer)
            }
            Kind::Integers(..) => self.list(key, value, |entry| {
                self.integer(key, entry).map(Got::Integer)
            }),
            Kind::Choice(words) => self.word(key, value, words).map(Got::Text),
            Kind::Text(kind) => self.text(key, value, kind).map(Got::Text),
            Kind::Texts(kind) => self.list(key, value, |entry| {
                self.text(key, entry, kind).map(Got::Text)
            }),
        }
    }

    fn flag(&self, key: &Key, value: &Spanned<DeValue<'a>>) -> Option<bool> {
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

    fn word(
        &self,
        key: &Key,
        value: &Spanned<DeValue<'a>>,
        words: &[&'static str],
    ) -> Option<String> {
        let text = self.text_of(key, value)?;
        if words.contains(&text.as_str()) {
            return Some(text);
        }
        let remedy = match nearest(&text, words.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "choose one of them".into(),
        };
        self.refuse(key, value, "there is no such choice", &remedy)
    }

    fn text(&self, key: &Key, value: &Spanned<DeValue<'a>>, kind: &Text) -> Option<String> {
        let text = self.text_of(key, value)?;
        match (kind.check)(&text) {
            Ok(()) => Some(text),
            Err(Wrong { wrong, remedy }) => self.refuse(key, value, &wrong, &remedy),
        }
    }

    /// A mistake in the value of `name`, found by looking further than at this key.
    pub fn complain(&self, name: &str, wrong: &str, right: &str, remedy: &str) {
        let (span, value) = match self.value(name) {
            Some(value) => (value.span(), self.written(value)),
            None => (self.span.clone(), String::new()),
        };
        let (wrong, right, remedy) = (wrong.into(), right.into(), remedy.into());
        self.document.note(
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
        self.document.note(self.span.clone(), words);
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
        self.document
            .text()
            .get(..self.span.start)
            .map_or(0, |before| before.matches('\n').count())
            + 1
    }

    fn path_of(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    fn value(&self, name: &str) -> Option<&'p Spanned<DeValue<'a>>> {
        let key = self.section.key(name);
        debug_assert!(key.is_some(), "{} is not declared", self.path_of(name));
        find(self.table?, name).map(|(_, value)| value)
    }

    fn written(&self, value: &Spanned<DeValue<'a>>) -> String {
        self.document
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
        self.document.note(value.span(), words);
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

    fn integer(&self, key: &Key, value: &Spanned<DeValue<'a>>) -> Option<u64> {
        match value.get_ref() {
            DeValue::Integer(integer) => self.in_range(key, value, integer),
            DeValue::String(text) => {
                // Of `100MB` it cannot be known whether bytes were meant.
                let is_bytes_of_bits = key.name.ends_with("_bps") && text.contains('B');
                let remedy = match amount(text).filter(|_| !is_bytes_of_bits) {
                    Some(number) => format!("write {number}"),
                    None => format!("write {}, in digits", key.right()),
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

    /// All entries of a list, which must be different from each other.
    fn list(
        &self,
        key: &Key,
        value: &Spanned<DeValue<'a>>,
        read: impl Fn(&Spanned<DeValue<'a>>) -> Option<Got>,
    ) -> Option<Got> {
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
            match read(entry) {
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
        good.then_some(Got::List(all))
    }

    fn unknown(&self, name: &str, span: Range<usize>, value: &Spanned<DeValue<'a>>) {
        let guess = nearest(name, self.section.keys.iter().map(|key| key.name));
        let home = self.document.home(name);
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
        self.document.note(span, words);
    }
}

/// The number that a text such as `4Mi`, `64 k` or `1_000` stands for.
#[must_use]
pub fn amount(text: &str) -> Option<u64> {
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
