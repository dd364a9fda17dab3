//! The paths that a source names: in its `use` items, and in its code.

use std::collections::BTreeSet;

use super::super::rust_text::code_only;

/// A path from the root: `crate` and the modules below it, or another crate first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// All paths in the source of `module`, from the root; `all` are the modules that there are.
pub(super) fn named(source: &str, module: &str, all: &BTreeSet<String>) -> Vec<Named> {
    let code = code_only(source);
    let tokens = tokens(&code);
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        file: segments(module),
        inline: Vec::new(),
        depth: 0,
        all,
        found: Vec::new(),
    };
    reader.read();
    reader.found
}

fn segments(module: &str) -> Vec<String> {
    let parts = module.split('/').filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl Token<'_> {
    fn is_word(&self) -> bool {
        self.text
            .starts_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

/// Words, `::`, and single signs.
fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let bytes = match word.unwrap_or(rest.len()) {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                bytes => bytes,
            };
            let (text, after) = rest.split_at(bytes);
            tokens.push(Token {
                text,
                line: number + 1,
            });
            rest = after.trim_start();
        }
    }
    tokens
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    /// The module of the file.
    file: Vec<String>,
    /// Modules within the file that are open, each with the depth of its braces.
    inline: Vec<(String, usize)>,
    depth: usize,
    all: &'a BTreeSet<String>,
    found: Vec<Named>,
}

impl Reader<'_> {
    fn text(&self, ahead: usize) -> &str {
        self.tokens
            .get(self.at + ahead)
            .map_or("", |token| token.text)
    }

    fn read(&mut self) {
        while let Some(token) = self.tokens.get(self.at) {
            match token.text {
                "use" => {
                    self.at += 1;
                    self.tree(&mut Vec::new());
                    continue;
                }
                "mod" if self.text(2) == "{" => {
                    self.inline.push((self.text(1).to_owned(), self.depth));
                    self.at += 1;
                }
                "{" => self.depth += 1,
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    let depth = self.depth;
                    self.inline.pop_if(|(_, opened)| *opened == depth);
                }
                _ if token.is_word() && self.text(1) == "::" => {
                    self.path();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// A path in code, up to what is no name.
    fn path(&mut self) {
        let line = self.tokens[self.at].line;
        // Behind `>::` or `::`: not the begin of a path.
        let is_first = self.at == 0 || self.tokens[self.at - 1].text != "::";
        let mut path = vec![self.text(0).to_owned()];
        self.at += 1;
        while self.text(0) == "::" {
            self.at += 1;
            match self.tokens.get(self.at) {
                Some(token) if token.is_word() => path.push(token.text.to_owned()),
                _ => break,
            }
            self.at += 1;
        }
        if is_first {
            self.note(&path, line);
        }
    }

    /// A tree of `use`, behind what it begins with.
    fn tree(&mut self, begin: &mut Vec<String>) {
        let length = begin.len();
        while let Some(token) = self.tokens.get(self.at) {
            let line = token.line;
            match token.text {
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | ";" | "") {
                        let at = self.at;
                        self.tree(begin);
                        // A sign that has no place there is passed over.
                        self.at += usize::from(self.text(0) == "," || self.at == at);
                    }
                    self.at += usize::from(self.text(0) == "}");
                    break;
                }
                "::" => {}
                "as" => self.at += 1,
                "*" => self.note(begin, line),
                _ if token.is_word() => {
                    begin.push(token.text.to_owned());
                    if self.text(1) != "::" {
                        self.note(begin, line);
                    }
                }
                _ => break,
            }
            self.at += 1;
        }
        begin.truncate(length);
    }

    /// Notes a path as it is seen from the root, if it goes to a module or a crate.
    fn note(&mut self, path: &[String], line: usize) {
        let mut here = self.file.clone();
        here.extend(self.inline.iter().map(|(name, _)| name.clone()));
        let mut rest = path;
        let from_root = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => {
                while let Some(word @ ("self" | "super")) = rest.first().map(String::as_str) {
                    if word == "super" {
                        here.pop();
                    }
                    rest = &rest[1..];
                }
                return self.push(&here, rest, line);
            }
            Some(first) => match self.child(&here, first) {
                Some(parent) => return self.push(&parent, path, line),
                None => {
                    return self.found.push(Named {
                        path: path.to_vec(),
                        line,
                    });
                }
            },
            None => return,
        };
        self.push(&from_root, &path[1..], line);
    }

    /// The module of this file that has a file of that name below it.
    fn child(&self, here: &[String], name: &str) -> Option<Vec<String>> {
        let lengths = (self.file.len()..=here.len()).rev();
        let mut parents = lengths.map(|length| here[..length].to_vec());
        parents.find(|parent| {
            let mut child = parent.clone();
            child.push(name.to_owned());
            self.all.contains(&child.join("/"))
        })
    }

    fn push(&mut self, from: &[String], rest: &[String], line: usize) {
        let mut path = vec!["crate".to_owned()];
        path.extend_from_slice(from);
        path.extend(rest.iter().filter(|word| *word != "self").cloned());
        self.found.push(Named { path, line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        let all = ["", "a", "a/b", "a/b/c", "d"].map(str::to_owned).into();
        let found = named(source, "a/b", &all).into_iter();
        found.map(|named| named.path.join("/")).collect()
    }

    #[test]
    fn trees_are_taken_apart() {
        assert_eq!(
            paths("use crate::{d::{self, X as Y}, a::b::*}; pub(crate) use super::Z;"),
            ["crate/d", "crate/d/X", "crate/a/b", "crate/a/Z"]
        );
        assert_eq!(
            paths("use c::{D, E}; use std::fs;"),
            ["crate/a/b/c/D", "crate/a/b/c/E", "std/fs"]
        );
    }

    #[test]
    fn code_names_modules_by_crate_super_and_children() {
        assert_eq!(
            paths("fn f(x: &crate::d::T) { super::g::<u8>(c::h()); x.y(); }"),
            ["crate/d/T", "crate/a/g", "crate/a/b/c/h"]
        );
        assert_eq!(paths("<X as super::T>::n(); ::std::f()"), ["crate/a/T"]);
    }

    #[test]
    fn within_a_module_of_the_file_super_is_the_file() {
        let source =
            "mod tests { use super::*; fn f() { super::super::g(); c::h() } }\nuse super::Z;";
        assert_eq!(
            paths(source),
            ["crate/a/b", "crate/a/g", "crate/a/b/c/h", "crate/a/Z"]
        );
    }

    #[test]
    fn comments_and_texts_name_nothing() {
        assert!(paths("// crate::d::X\nlet a = \"crate::d\"; /* use d::X; */").is_empty());
    }

    #[test]
    fn lines_are_those_of_the_names() {
        let all = ["", "d"].map(str::to_owned).into();
        let found = named("use crate::{\n    X,\n    d::Y,\n};", "d", &all);
        assert_eq!(
            found.iter().map(|named| named.line).collect::<Vec<_>>(),
            [2, 3]
        );
    }
}
