//! One file while it is read: its text, its blocks, and the mistakes found so far.

use std::cell::RefCell;
use std::ops::Range;

use forebay_settings::{NAME, Section, Settings, quoted};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::block::Block;
use super::mistake::{Mistake, Mistakes, Words};
use super::source::Source;
use super::spelling::nearest;

/// Most faults in the writing of a file that are told at once: later ones often follow from the first.
const SYNTAX_FAULTS_SHOWN: usize = 3;

/// The table that has the members of a chain.
const MEMBERS: &str = "members";
/// The section of one of them, as the reference calls it.
pub const MEMBER: &str = "members.NAME";
/// The key that says what a member is.
const KIND: &str = "kind";
const LAUNCH: &str = "launch";
/// What the command in front of a member is.
pub const LAUNCHER: &str = "a list of words, the first of them a program";

/// The sections of a kind of file.
pub type Sections = &'static [&'static Section];

/// The file that is read.
pub struct Document<'a> {
    source: &'a Source,
    /// The sections that its kind of file has.
    pub(crate) sections: Sections,
    root: DeTable<'a>,
    /// What stands below `[members]` of a chain.
    members: Option<Spanned<DeValue<'a>>>,
    /// In front of each key of a member.
    prefix: String,
    mistakes: RefCell<Vec<Mistake>>,
}

/// A member of a chain, as it stands in the file.
#[derive(Debug)]
pub struct FoundMember {
    /// What it is called.
    pub name: String,
    /// Its kind, one of those that there are.
    pub kind: &'static str,
    /// The command in front of it; empty: none.
    pub launch: Vec<String>,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

impl<'a> Document<'a> {
    /// What `make` finds in a file with these sections, or all mistakes in it. It is not asked about a file that is no TOML.
    ///
    /// # Errors
    /// All mistakes.
    pub fn read<T>(
        source: &'a Source,
        sections: Sections,
        make: impl FnOnce(&Self) -> Option<T>,
    ) -> Result<T, Mistakes> {
        let (table, errors) = DeTable::parse_recoverable(source.file_text());
        let mut document = Self {
            source,
            sections,
            root: DeTable::new(),
            members: None,
            prefix: String::new(),
            mistakes: RefCell::default(),
        };
        document.note_syntax(&errors);
        let mut root = table.into_inner();
        if let Some(member) = source.member() {
            document.prefix = format!("{MEMBERS}.{member}.");
            root = document.member(root, member);
        } else if sections.iter().any(|section| section.name == MEMBER) {
            document.members = root.remove(MEMBERS);
        }
        source.lay_over(&document, &mut root);
        document.root = root;
        let made = if errors.is_empty() {
            document.check_sections();
            make(&document)
        } else {
            None
        };
        document.conclude(made)
    }

    /// Notes a mistake.
    pub fn note(&self, span: Range<usize>, words: Words) {
        let file = self.source.file_text();
        let mistake = if span.start <= file.len() {
            Mistake::at(file, span, words)
        } else {
            Mistake::of_command_line(words)
        };
        self.mistakes.borrow_mut().push(mistake);
    }

    /// Whether nothing is wrong so far.
    pub fn is_clean(&self) -> bool {
        self.mistakes.borrow().is_empty()
    }

    fn conclude<T>(self, value: Option<T>) -> Result<T, Mistakes> {
        let mut mistakes = self.mistakes.into_inner();
        match value {
            Some(value) if mistakes.is_empty() => Ok(value),
            _ => {
                mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
                Err(Mistakes {
                    file: self.source.name().to_owned(),
                    mistakes,
                })
            }
        }
    }

    /// The text, that of the command line's keys behind that of the file.
    pub(crate) fn text(&self) -> &'a str {
        self.source.text()
    }

    /// The sections of a member; none, and a mistake, when there is no such member.
    fn member(&self, mut root: DeTable<'a>, name: &str) -> DeTable<'a> {
        let members = root.remove(MEMBERS).map(Spanned::into_inner);
        let mut names = Vec::new();
        if let Some(DeValue::Table(mut members)) = members {
            let found = members.remove(name).map(Spanned::into_inner);
            if let Some(DeValue::Table(mut member)) = found {
                member.remove(KIND);
                member.remove(LAUNCH);
                return member;
            }
            names.extend(members.keys().map(|name| name.get_ref().to_string()));
        }
        let right = match names.is_empty() {
            true => "a file with [members.NAME]".to_owned(),
            false => names.join(", "),
        };
        self.note(
            0..0,
            Words {
                key: format!("{MEMBERS}.{name}"),
                wrong: "the file has no such member".into(),
                right,
                remedy: "name another one behind --only".into(),
                ..Words::default()
            },
        );
        DeTable::new()
    }

    /// The members of a chain, in the order of the file.
    pub fn members(&self, kinds: &[&'static str]) -> Vec<FoundMember> {
        let Some(members) = &self.members else {
            return Vec::new();
        };
        let DeValue::Table(members) = members.get_ref() else {
            self.refuse_member(
                members.span(),
                MEMBERS,
                "it is no section",
                "write [members.NAME]",
            );
            return Vec::new();
        };
        let mut found = Vec::new();
        for (name, member) in members {
            let (span, name) = (name.span(), name.get_ref().to_string());
            let key = format!("{MEMBERS}.{name}");
            if let Err(wrong) = (NAME.check)(&name) {
                self.refuse_member(span, &key, &wrong.wrong, &wrong.remedy);
                continue;
            }
            let DeValue::Table(member) = member.get_ref() else {
                self.refuse_member(span, &key, "it is no section", &format!("write [{key}]"));
                continue;
            };
            let Some((_, kind)) = find(member, KIND) else {
                let remedy = format!("add kind = \"{}\"", kinds[0]);
                self.refuse_member(span, &key, "it does not say what it is", &remedy);
                continue;
            };
            let Some(launch) = self.launch(&key, member) else {
                continue;
            };
            let text = kind.get_ref().as_str().unwrap_or_default();
            match kinds.iter().find(|one| **one == text) {
                Some(kind) => found.push(FoundMember {
                    name,
                    kind,
                    launch,
                    span,
                }),
                None => self.note(
                    kind.span(),
                    Words {
                        key: format!("{key}.{KIND}"),
                        value: self.text().get(kind.span()).unwrap_or_default().to_owned(),
                        wrong: "there is no such kind".into(),
                        right: quoted(kinds, " or "),
                        remedy: match nearest(text, kinds.iter().copied()) {
                            Some(near) => format!("did you mean \"{near}\"?"),
                            None => "choose one of them".into(),
                        },
                    },
                ),
            }
        }
        found.sort_by_key(|one: &FoundMember| one.span.start);
        found
    }

    /// The command in front of a member; none, and a mistake, when it is no list of words.
    fn launch(&self, key: &str, member: &DeTable<'_>) -> Option<Vec<String>> {
        let Some((_, launch)) = find(member, LAUNCH) else {
            return Some(Vec::new());
        };
        let word = |word: &Spanned<DeValue<'_>>| {
            let word = word.get_ref().as_str().filter(|word| !word.is_empty());
            word.map(str::to_owned)
        };
        let words = match launch.get_ref() {
            DeValue::Array(words) => words.iter().map(word).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        let words = words.filter(|words| !words.is_empty());
        if words.is_none() {
            self.note(
                launch.span(),
                Words {
                    key: format!("{key}.{LAUNCH}"),
                    value: self
                        .text()
                        .get(launch.span())
                        .unwrap_or_default()
                        .to_owned(),
                    wrong: "it is no command".into(),
                    right: LAUNCHER.into(),
                    remedy: "write it as [\"taskset\", \"-c\", \"3\"], or leave it out".into(),
                },
            );
        }
        words
    }

    fn refuse_member(&self, span: Range<usize>, key: &str, wrong: &str, remedy: &str) {
        self.note(
            span,
            Words {
                key: key.to_owned(),
                wrong: wrong.into(),
                right: "[members.NAME] with kind and the sections of that kind below it".into(),
                remedy: remedy.into(),
                ..Words::default()
            },
        );
    }

    /// Notes the mistakes of a part of the file that was read apart.
    pub fn take_over(&self, mistakes: Mistakes) {
        self.mistakes.borrow_mut().extend(mistakes.mistakes);
    }

    fn note_syntax(&self, errors: &[toml::de::Error]) {
        for error in errors.iter().take(SYNTAX_FAULTS_SHOWN) {
            let words = Words {
                wrong: format!("this is not TOML: {}", error.message().replace('\n', ", ")),
                right: "key = value, with texts in \"quotes\", below a [section]".into(),
                remedy: "correct this line; https://toml.io shows the format".into(),
                ..Words::default()
            };
            self.note(error.span().unwrap_or(0..0), words);
        }
    }

    /// Finds what is no section of such a file.
    fn check_sections(&self) {
        for (key, value) in &self.root {
            let name: &str = key.get_ref();
            if self.sections.iter().any(|section| section.name == name) {
                continue;
            }
            let home = self.home(name);
            let guess = nearest(name, self.sections.iter().map(|section| section.name));
            let is_table = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
            let remedy = match (home, guess) {
                (Some(home), _) if !is_table => format!("put it below {}", home.header()),
                (_, Some(guess)) => format!("did you mean {}?", self.header(guess)),
                _ => "take it out; `forebay check --reference` lists all keys".into(),
            };
            let headers = self.sections.iter().map(|section| section.header());
            let headers: Vec<_> = headers.collect();
            let wrong = if is_table {
                "there is no such section"
            } else {
                "it stands outside of any section"
            };
            self.note(
                key.span(),
                Words {
                    key: name.to_owned(),
                    wrong: wrong.into(),
                    right: headers.join(", "),
                    remedy,
                    ..Words::default()
                },
            );
        }
    }

    /// Whether the file has a section of that name, right or wrong.
    pub fn has(&self, section: &Section) -> bool {
        find(&self.root, section.name).is_some()
    }

    /// The section that has a key of that name.
    pub(crate) fn home(&self, name: &str) -> Option<&'static Section> {
        let mut sections = self.sections.iter();
        sections
            .find(|section| section.key(name).is_some())
            .copied()
    }

    fn header(&self, name: &str) -> String {
        let section = self.sections.iter().find(|section| section.name == name);
        section.map_or_else(String::new, |section| section.header())
    }

    /// What the one block of a section says, and the block for its rules; an empty one where the file has none.
    pub fn one<'p, S: Settings>(&'p self) -> (S, Block<'p, 'a>) {
        let block = self.block(S::SECTION);
        (block.read(), block)
    }

    /// The same of all blocks of a section that may stand several times.
    pub fn many<'p, S: Settings>(&'p self) -> Vec<(S, Block<'p, 'a>)> {
        let blocks = self.blocks(S::SECTION).into_iter();
        blocks.map(|block| (block.read(), block)).collect()
    }

    fn block<'p>(&'p self, section: &'static Section) -> Block<'p, 'a> {
        let found = find(&self.root, section.name);
        let Some((key, value)) = found else {
            return Block::empty(self, section);
        };
        match value.get_ref() {
            DeValue::Table(table) => {
                let name = format!("{}{}", self.prefix, section.name);
                Block::new(self, section, name, table, key.span())
            }
            other => {
                let wrong = match other {
                    DeValue::Array(_) => "it can stand only once",
                    _ => "it is a section, not a key",
                };
                self.wrong_shape(section, key.span(), wrong);
                Block::empty(self, section)
            }
        }
    }

    fn blocks<'p>(&'p self, section: &'static Section) -> Vec<Block<'p, 'a>> {
        let Some((key, value)) = find(&self.root, section.name) else {
            return Vec::new();
        };
        let DeValue::Array(blocks) = value.get_ref() else {
            self.wrong_shape(section, key.span(), "it is a list of blocks");
            return Vec::new();
        };
        let mut found = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            match block.get_ref() {
                DeValue::Table(table) => {
                    let name = format!("{}{}[{index}]", self.prefix, section.name);
                    found.push(Block::new(self, section, name, table, block.span()));
                }
                _ => self.wrong_shape(section, block.span(), "it is a list of blocks"),
            }
        }
        found
    }

    fn wrong_shape(&self, section: &Section, span: Range<usize>, wrong: &str) {
        let header = section.header();
        self.note(
            span,
            Words {
                key: section.name.to_owned(),
                wrong: wrong.into(),
                right: format!("{header} with its keys below"),
                remedy: format!("write {header} on a line of its own"),
                ..Words::default()
            },
        );
    }
}

type Entry<'p, 'a> = (&'p Spanned<DeString<'a>>, &'p Spanned<DeValue<'a>>);

/// Key and value of that name.
pub(crate) fn find<'p, 'a>(table: &'p DeTable<'a>, name: &str) -> Option<Entry<'p, 'a>> {
    table.iter().find(|(key, _)| &**key.get_ref() == name)
}
