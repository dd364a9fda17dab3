//! What a key takes: its limits, what would be right in words, and what is wrong with a value.

use std::ops::RangeInclusive;

/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 48;

/// What a key takes.
#[derive(Debug, Clone, Copy)]
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
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A text.
    Text(&'static Text),
    /// Several different texts.
    Texts(&'static Text),
}

/// A kind of text.
#[derive(Debug)]
pub struct Text {
    /// What would be right, in words.
    pub right: &'static str,
    /// The same of a list.
    pub right_list: &'static str,
    /// Whether a text is one.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub check: fn(&str) -> Result<(), Wrong>,
}

/// What is wrong with a value, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong, after which "; right: …" may stand.
    pub wrong: String,
    /// What to do.
    pub remedy: String,
}

impl Wrong {
    /// From the two texts.
    #[must_use]
    pub fn new(wrong: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (wrong, remedy) = (wrong.into(), remedy.into());
        Self { wrong, remedy }
    }
}

/// A name that enters accounts and file names.
pub static NAME: Text = Text {
    right: "a text of 1 to 48 letters, digits, '-', '_' and '.'",
    right_list: "a list of different texts of 1 to 48 letters, digits, '-', '_' and '.'",
    check: |text| {
        let remedy = "choose another name, beginning with a letter or digit";
        let plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
        let wrong = match text.chars().find(|c| !plain(c)) {
            Some(other) => format!("{other:?} cannot stand in a name"),
            None if text.is_empty() => "it is empty".into(),
            None if text.len() > NAME_CHARS_MAX => format!("it has {} characters", text.len()),
            None if text.starts_with(['.', '-']) => "it begins with a sign".into(),
            None => return Ok(()),
        };
        Err(Wrong::new(wrong, remedy))
    },
};

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
            Self::Choice(words) => quoted(words, " or "),
            Self::Text(text) => text.right.into(),
            Self::Texts(text) => text.right_list.into(),
        }
    }

    /// Least and largest number, where there are such.
    #[must_use]
    pub const fn bounds(self) -> Option<(u64, u64)> {
        match self {
            Self::Integer(min, max)
            | Self::ZeroOr(min, max)
            | Self::PowerOfTwo(min, max)
            | Self::Integers(min, max)
            | Self::Either(min, max) => Some((min, max)),
            Self::Flag | Self::Choice(_) | Self::Text(_) | Self::Texts(_) => None,
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

    /// An integer, or several, between `limits`. Limits beyond those of the type do not compile.
    #[must_use]
    pub const fn within(self, limits: &RangeInclusive<u64>) -> Self {
        let (min, max) = self.narrowed(limits);
        match self {
            Self::Integers(..) => Self::Integers(min, max),
            _ => Self::Integer(min, max),
        }
    }

    /// 0, or an integer between `limits`.
    #[must_use]
    pub const fn zero_or(self, limits: &RangeInclusive<u64>) -> Self {
        let (min, max) = self.narrowed(limits);
        Self::ZeroOr(min, max)
    }

    /// A power of two between `limits`.
    #[must_use]
    pub const fn power_of_two(self, limits: &RangeInclusive<u64>) -> Self {
        let (min, max) = self.narrowed(limits);
        Self::PowerOfTwo(min, max)
    }

    /// One of two integers.
    #[must_use]
    pub const fn either(self, one: u64, other: u64) -> Self {
        let (one, other) = self.narrowed(&(one..=other));
        Self::Either(one, other)
    }

    /// The ends of `limits`, which must lie within those of the type.
    const fn narrowed(self, limits: &RangeInclusive<u64>) -> (u64, u64) {
        let (min, max) = (*limits.start(), *limits.end());
        // What has no limits takes none.
        let (least, most) = match self.bounds() {
            Some(bounds) => bounds,
            None => (1, 0),
        };
        assert!(
            least <= min && min <= max && max <= most,
            "limits are not in order, or beyond those of the type"
        );
        (min, max)
    }
}

/// Words in quotes, joined.
#[must_use]
pub fn quoted(words: &[&str], between: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    words.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_stand_in_an_account_and_a_file_name() {
        for name in ["a", "7", "source-1_b.c", &"n".repeat(48)] {
            assert_eq!((NAME.check)(name), Ok(()), "{name}");
        }
        for (name, says) in [
            ("", "empty"),
            ("a b", "' '"),
            ("a/b", "'/'"),
            (".a", "sign"),
            ("-a", "sign"),
            (&"n".repeat(49), "49 characters"),
        ] {
            let told = (NAME.check)(name).unwrap_err();
            assert!(told.wrong.contains(says), "{name}: {told:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_number_is_told() {
        let fault = |kind: Kind, number| kind.number_fault(number).map(|(wrong, _)| wrong);
        let small = Some("it is too small");
        let large = Some("it is too large");
        for (kind, number, wrong) in [
            (Kind::Integer(2, 9), 1, small),
            (Kind::Integer(2, 9), 2, None),
            (Kind::Integer(2, 9), 9, None),
            (Kind::Integer(2, 9), 10, large),
            (Kind::Integer(2, 9), -3, small),
            (Kind::ZeroOr(2, 9), 0, None),
            (Kind::ZeroOr(2, 9), 1, small),
            (Kind::PowerOfTwo(4, 16), 8, None),
            (Kind::PowerOfTwo(4, 16), 9, Some("it is no power of two")),
            (Kind::Either(16, 24), 24, None),
            (Kind::Either(16, 24), 20, Some("it is neither")),
            (Kind::Flag, 7, None),
        ] {
            assert_eq!(fault(kind, number), wrong, "{kind:?} {number}");
        }
    }
}
