//! A chain: several programs of one host that one file describes and one command runs.
//!
//! A member is a program with a file of its own; its sections stand below `[members.NAME]`, and it is started as `forebay run FILE --only NAME`. Members are joined by equal
//! addresses: where one listens, another one connects. Each has a directory below that of the chain, with its ledger and its record.

mod run;

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_settings::{self as settings, Got, Section, Setting, Settings, Text, settings};

use forebay_config::document::{FoundMember, LAUNCHER, MEMBER};
use forebay_config::mistake::Words;
use forebay_config::{
    self as config, ConfigError, ConfigFile, Document, Mistakes, Sections, Source,
};
use forebay_sys::clock;
pub use run::{MemberEnd, lock, run};
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::run_dir::replace;

settings! {
    /// A chain as a whole: programs of this host that are joined by equal addresses, and run and ended together.
    pub struct ChainSettings in [chain] {
        /// Where the directory of each member lies, called as the member, with its ledger and its record. Made if it is not there.
        directory: PathBuf = "forebay-run".into(),
        /// Ends the chain after so long: members that connect to no other one are told to, and the others end with them.
        duration_s: Option<u64> [1..=31_536_000] => "until its members end, Ctrl-C or SIGTERM",
    }
}

settings! {
    /// What a member is; its sections are those of the kind's own file, as `[members.card.ttc]`. Its `directory` is that of the chain with its name.
    struct MemberSettings in [] {
        /// The kind of its file: `card`, `tohost`, `toflx`, `swrod`, `evb`, `mover`, `tdm-receive` or `tdm-send`.
        kind: Option<String>,
        /// Command in front of it, as `["taskset", "-c", "3"]`, `["ip", "netns", "exec", "NAME"]` or `["ssh", "HOST"]`: words, not a line of a shell. It gets its orders by standard
        /// input. On another host the program and the file have the same paths, `directory` is an absolute one, addresses are of the network, and no path has a space or a sign of a shell, which `ssh` would take for its own.
        launch: Option<Launcher> => "it is started as it is",
    }
}

/// The command in front of a member, word by word.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Launcher(Vec<String>);

static WORDS: Text = Text {
    right: "a word",
    right_list: LAUNCHER,
    check: |_| Ok(()),
};

impl Setting for Launcher {
    const KIND: settings::Kind = settings::Kind::Texts(&WORDS);

    fn of(got: &Got) -> Option<Self> {
        match got {
            Got::List(words) => words
                .iter()
                .map(|word| word.text().map(str::to_owned))
                .collect::<Option<_>>()
                .map(Self),
            Got::Flag(_) | Got::Integer(_) | Got::Text(_) => None,
        }
    }

    fn got(&self) -> Option<Got> {
        let words = self.0.iter().map(|word| Got::Text(word.clone()));
        Some(Got::List(words.collect()))
    }
}

/// Sections of a chain.
pub const SECTIONS: Sections = &[
    ChainSettings::SECTION,
    &Section {
        name: MEMBER,
        ..*MemberSettings::SECTION
    },
];

/// Where a member meets others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joints {
    /// Where it connects to another program, with which it then ends.
    pub connects: Vec<String>,
    /// Where it connects to another program, which ends behind it.
    pub delivers: Vec<String>,
    /// Where others connect to it.
    pub listens: Vec<String>,
    /// Where it may listen beside that: what it finds at its start decides.
    pub may_listen: Vec<String>,
}

impl Joints {
    fn is_at(&self, address: &String) -> bool {
        self.listens.contains(address) || self.may_listen.contains(address)
    }
}

/// A file that can be a member of a chain.
pub trait Member: ConfigFile {
    /// What the kind is called.
    const KIND: &'static str;
    /// The key of its directory, as `section.key`.
    const DIRECTORY: &'static str;

    /// Where it meets others.
    fn joints(&self) -> Joints;
}

/// A kind of members.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    /// The sections of its file.
    pub sections: Sections,
    directory: &'static str,
    joints: fn(&Source) -> Result<Joints, Mistakes>,
}

impl Kind {
    /// All mistakes in a file of its kind.
    ///
    /// # Errors
    /// They are told.
    pub fn check(&self, source: &Source) -> Result<(), Mistakes> {
        (self.joints)(source).map(|_| ())
    }

    /// The kind of such files.
    #[must_use]
    pub const fn of<M: Member>() -> Self {
        fn joints<M: Member>(source: &Source) -> Result<Joints, Mistakes> {
            config::read::<M>(source).map(|member| member.joints())
        }
        Self {
            name: M::KIND,
            sections: M::SECTIONS,
            directory: M::DIRECTORY,
            joints: joints::<M>,
        }
    }
}

/// One program of a chain.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    /// What it is called.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// The command in front of it.
    pub launch: Vec<String>,
    /// Where it meets others.
    pub joints: Joints,
    directory_key: &'static str,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Its file.
    pub file: PathBuf,
    /// Where the directories of its members lie.
    pub directory: PathBuf,
    /// It ends after so long.
    pub duration: Option<Duration>,
    /// Its members, in the order of the file.
    pub members: Vec<MemberPlan>,
    /// The fault switch of the tests, behind the name of the member that it is for.
    pub leak: Option<(String, String)>,
}

/// What a chain leaves in its directory at its start: whose books below it belong together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Roll {
    /// When it was started, in ns since the Unix epoch: books that began before are of an older run.
    pub started_ns: u64,
    /// Its members, by name.
    pub members: BTreeMap<String, RollEntry>,
}

/// A member in the [`Roll`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RollEntry {
    /// Its kind.
    pub kind: String,
    /// A command is in front of it: its directory may be on another host.
    pub is_launched: bool,
    /// Another member has the other end of one of its links of messages or events.
    pub is_linked: bool,
    /// It is a card whose memory another member reads, or that reader.
    #[serde(default)]
    pub shares_memory: bool,
}

impl Roll {
    const NAME: &str = "chain.json";

    fn of(chain: &Chain) -> Self {
        let entry = |one: &MemberPlan| RollEntry {
            kind: one.kind.to_owned(),
            is_launched: !one.launch.is_empty(),
            is_linked: chain.meets_others(one, |address| address.contains("://")),
            // A card's memory has no scheme.
            shares_memory: chain.meets_others(one, |address| !address.contains("://")),
        };
        let members = chain.members.iter();
        Self {
            started_ns: clock::realtime_ns(),
            members: members.map(|one| (one.name.clone(), entry(one))).collect(),
        }
    }

    /// Of the chain whose directory this is; none when it is no chain's.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Self>, RunError> {
        let path = directory.join(Self::NAME);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RunError::file("reading", &path)(error)),
        };
        let read = serde_json::from_slice(&text).map_err(std::io::Error::from);
        read.map(Some).map_err(RunError::file("reading", &path))
    }

    fn write(&self, directory: &Path) -> Result<(), RunError> {
        let path = directory.join(Self::NAME);
        let written = serde_json::to_vec(self).map_err(std::io::Error::from);
        written
            .and_then(|text| replace(&path, &text))
            .map_err(RunError::file("writing", &path))
    }
}

/// Whether the text is the file of a chain.
#[must_use]
pub fn is_chain(text: &str) -> bool {
    let (table, _) = toml::de::DeTable::parse_recoverable(text);
    let mut keys = table.get_ref().keys();
    keys.any(|key| ["chain", "members"].contains(&&**key.get_ref()))
}

/// The kind of a file that is no chain: the one whose directory it may name.
#[must_use]
pub fn kind_of(text: &str, kinds: &[Kind]) -> Option<&'static str> {
    let (table, _) = toml::de::DeTable::parse_recoverable(text);
    let has = |section: &str| {
        table
            .get_ref()
            .keys()
            .any(|key| &**key.get_ref() == section)
    };
    let kind = kinds.iter().find(|kind| {
        let section = kind.directory.split('.').next();
        section.is_some_and(has)
    })?;
    Some(kind.name)
}

impl Chain {
    /// Reads the file of a chain, and those of all members in it.
    ///
    /// # Errors
    /// It cannot be read, or has mistakes: all of them are told, those of its members too.
    pub fn load(path: &Path, kinds: &[Kind]) -> Result<Self, ConfigError> {
        let source = Source::read(path, &[])?;
        Ok(Self::of(path, &source, kinds)?)
    }

    fn of(path: &Path, source: &Source, kinds: &[Kind]) -> Result<Self, Mistakes> {
        Document::read(source, SECTIONS, |document| {
            let (said, whole) = document.one::<ChainSettings>();
            let names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
            let mut members = Vec::new();
            let found = document.members(&names);
            if found.is_empty() && document.is_clean() {
                whole.complain_whole(
                    "it has no member",
                    "one [members.NAME] or more",
                    "add [members.card] with kind = \"card\", and the sections of a card below it",
                );
            }
            for found in found {
                let FoundMember {
                    name,
                    kind,
                    launch,
                    span,
                } = found;
                let kind = kinds.iter().find(|one| one.name == kind)?;
                let own = source.clone().only(Some(&name));
                match (kind.joints)(&own) {
                    Ok(joints) => members.push((
                        span,
                        MemberPlan {
                            name,
                            kind: kind.name,
                            launch,
                            joints,
                            directory_key: kind.directory,
                        },
                    )),
                    Err(mistakes) => document.take_over(mistakes),
                }
            }
            refuse_twins(document, &members);
            Some(Self {
                file: path.to_path_buf(),
                directory: said.directory,
                duration: said.duration_s.map(Duration::from_secs),
                members: members.into_iter().map(|(_, member)| member).collect(),
                leak: None,
            })
        })
    }

    /// Members that connect to an address at which no member listens, with the address: somebody outside of the chain has to.
    #[must_use]
    pub fn open_ends(&self) -> Vec<(&str, &str)> {
        let members = self.members.iter();
        let ends = members.flat_map(|one| {
            let Joints {
                connects, delivers, ..
            } = &one.joints;
            let addresses = connects.iter().chain(delivers);
            addresses.map(move |at| (&*one.name, at))
        });
        let open = ends.filter(|(_, address)| !self.is_at(address));
        open.map(|(name, address)| (name, &**address)).collect()
    }

    /// Where the ledger and the record of a member lie, as `SECTION.KEY=VALUE` of the command line.
    #[must_use]
    pub fn directory_of(&self, member: &MemberPlan) -> String {
        let own = self.directory.join(&member.name);
        let directory = toml::Value::from(own.display().to_string());
        format!("{}={directory}", member.directory_key)
    }

    /// Whether a member connects to another one, with which it then ends.
    fn has_input(&self, member: &MemberPlan) -> bool {
        let mut connects = member.joints.connects.iter();
        connects.any(|address| self.is_at(address))
    }

    /// Whether a member and another one meet at an address of a kind.
    fn meets_others(&self, member: &MemberPlan, is_of_kind: impl Fn(&str) -> bool) -> bool {
        let others = || self.members.iter().filter(|one| one.name != member.name);
        let to = |from: &MemberPlan, at: &MemberPlan| {
            let ends = from.joints.connects.iter().chain(&from.joints.delivers);
            let mut ends = ends.filter(|address| is_of_kind(address));
            ends.any(|address| at.joints.is_at(address))
        };
        others().any(|other| to(member, other) || to(other, member))
    }

    /// The members that deliver to one, which has nothing to do when they have ended.
    fn feeders(&self, member: &MemberPlan) -> Vec<usize> {
        let feeds = |one: &MemberPlan| {
            let mut delivers = one.joints.delivers.iter();
            delivers.any(|address| member.joints.is_at(address))
        };
        let members = self.members.iter().enumerate();
        let feeders = members.filter(|(_, one)| feeds(one));
        feeders.map(|(at, _)| at).collect()
    }

    fn is_at(&self, address: &String) -> bool {
        self.members.iter().any(|one| one.joints.is_at(address))
    }
}

/// Two members that listen at the same address.
fn refuse_twins(document: &Document<'_>, members: &[(Range<usize>, MemberPlan)]) {
    let mut listeners: HashMap<&str, &str> = HashMap::new();
    for (span, member) in members {
        for address in &member.joints.listens {
            let Some(other) = listeners.insert(address, &member.name) else {
                continue;
            };
            document.note(
                span.clone(),
                Words {
                    key: format!("members.{}", member.name),
                    wrong: format!("{other} listens at {address} already"),
                    right: "an address of its own for each member".into(),
                    remedy: "choose another address for one of them".into(),
                    ..Words::default()
                },
            );
        }
    }
}

#[cfg(test)]
mod tests;
