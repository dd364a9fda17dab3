//! Rust source with comments and the contents of literals blanked, so that words can be searched in code alone.

/// Returns `source` with comments, strings and characters replaced by spaces; line breaks stay where they are.
pub(super) fn code_only(source: &str) -> String {
    let mut blanker = Blanker {
        rest: source,
        out: String::with_capacity(source.len()),
        after_word: false,
    };
    while !blanker.rest.is_empty() {
        blanker.step();
    }
    blanker.out
}

struct Blanker<'a> {
    rest: &'a str,
    out: String,
    /// Whether the last character belonged to a word: then an `r` or `b` before a quote starts no literal.
    after_word: bool,
}

impl Blanker<'_> {
    fn step(&mut self) {
        match self.literal_length() {
            Some(length) => self.blank(length),
            None => self.keep(),
        }
    }

    fn literal_length(&self) -> Option<usize> {
        let rest = self.rest;
        if rest.starts_with("//") {
            return Some(rest.find('\n').unwrap_or(rest.len()));
        }
        if rest.starts_with("/*") {
            return Some(block_comment(rest));
        }
        if !self.after_word {
            let prefix = ["br", "cr", "r", "b", "c", ""]
                .into_iter()
                .find(|p| starts_literal(rest, p))?;
            return Some(prefix.len() + quoted(&rest[prefix.len()..], prefix.ends_with('r')));
        }
        starts_literal(rest, "").then(|| quoted(rest, false))
    }

    fn blank(&mut self, length: usize) {
        let (gone, rest) = self.rest.split_at(length);
        self.out
            .extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
        self.after_word = false;
    }

    fn keep(&mut self) {
        let mut characters = self.rest.chars();
        if let Some(c) = characters.next() {
            self.out.push(c);
            self.after_word = c.is_alphanumeric() || c == '_';
        }
        self.rest = characters.as_str();
    }
}

/// Does `text` begin with a literal that has this prefix?
fn starts_literal(text: &str, prefix: &str) -> bool {
    let Some(body) = text.strip_prefix(prefix) else {
        return false;
    };
    match prefix {
        "r" | "br" | "cr" => body.trim_start_matches('#').starts_with('"'),
        "c" => body.starts_with('"'),
        _ => body.starts_with('"') || is_character(body),
    }
}

/// Tells `'a'` and `'\n'` from the lifetime `'a`.
fn is_character(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next() == Some('\'')
        && match characters.next() {
            Some('\\') => true,
            Some(_) => characters.next() == Some('\''),
            None => false,
        }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of the literal that begins with `"`, `'` or, when raw, with `#`s and `"`.
fn quoted(text: &str, raw: bool) -> usize {
    if raw {
        let hashes = text.len() - text.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        let body = hashes + 1;
        return text[body..]
            .find(&end)
            .map_or(text.len(), |found| body + found + end.len());
    }
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != bytes[0] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Splits code where its tests begin: at the first `#[cfg(test)]` or `#[cfg(all(test, …))]`.
pub(super) fn split_tests(code: &str) -> (&str, &str) {
    let starts = ["#[cfg(test)]", "#[cfg(all(test,"].map(|attribute| code.find(attribute));
    let start = starts.into_iter().flatten().min().unwrap_or(code.len());
    code.split_at(start)
}

/// The words (identifiers and keywords) of a line of code, in order.
pub(super) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// Pairs of neighbouring words of a line of code.
pub(super) fn word_pairs(line: &str) -> Vec<(&str, &str)> {
    let all: Vec<&str> = words(line).collect();
    all.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(source: &str) -> Vec<String> {
        code_only(source)
            .lines()
            .flat_map(words)
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn comments_and_literals_are_blank_and_code_stays() {
        assert_eq!(
            words_of("let a = \"no\"; // no\nb /* no /* no */ no */ c"),
            ["let", "a", "b", "c"]
        );
        assert_eq!(
            words_of("x(r#\"no \" no\"#, b\"no\", br\"no\", 'n', b'n', '\\'', '\"') y"),
            ["x", "y"]
        );
        assert_eq!(words_of("let s = \"a \\\" no\"; yes"), ["let", "s", "yes"]);
    }

    #[test]
    fn a_lifetime_is_not_a_character() {
        assert_eq!(
            words_of("fn f<'a>(x: &'a str) {}"),
            ["fn", "f", "a", "x", "a", "str"]
        );
    }

    #[test]
    fn a_word_that_ends_in_r_starts_no_raw_string() {
        assert_eq!(words_of("for\"no\" yes"), ["for", "yes"]);
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "a\n/* one\ntwo */\n\"three\nfour\"\nb";
        assert_eq!(code_only(source).lines().count(), source.lines().count());
    }

    #[test]
    fn tests_begin_at_the_first_attribute_that_says_so() {
        assert_eq!(
            split_tests("a\n#[cfg(all(test, x))]\nb\n#[cfg(test)]\n").0,
            "a\n"
        );
        assert_eq!(split_tests("a\n#[cfg(loom)]\n"), ("a\n#[cfg(loom)]\n", ""));
    }

    #[test]
    fn unfinished_literals_end_with_the_text() {
        for source in ["\"abc", "/* abc", "r#\"abc", "'\\", "\"abc\\", "b'"] {
            assert_eq!(
                code_only(source).chars().count(),
                source.chars().count(),
                "{source}"
            );
        }
    }
}
