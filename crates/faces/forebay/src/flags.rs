//! Flags of keys: the same declaration as the key of the file.

use std::fmt;
use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Command, Error};
use forebay_settings::{Got, Key, Settings};

use crate::range;

/// What flags say of the keys of a section that have one.
pub(crate) struct Flags<S> {
    said: Vec<(&'static str, Got)>,
    of: PhantomData<S>,
}

impl<S: Settings> Flags<S> {
    /// Writes what was said into what holds.
    pub(crate) fn apply(&self, settings: &mut S) {
        for (key, got) in &self.said {
            let is_taken = settings.set(key, got);
            debug_assert!(is_taken, "{key} does not take {got}");
        }
    }

    /// The flag of a key, if it was said.
    pub(crate) fn said(&self, key: &str) -> Option<&'static str> {
        self.said.iter().find(|(said, _)| *said == key)?;
        Self::declared().find_map(|(one, flag)| (one.name == key).then_some(flag))
    }

    /// Whether nothing was said.
    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    fn declared() -> impl Iterator<Item = (&'static Key, &'static str)> {
        let keys = S::SECTION.keys.iter();
        keys.filter_map(|key| Some((key, key.flag?)))
    }
}

impl<S> fmt::Debug for Flags<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.said).finish()
    }
}

impl<S: Settings> clap::FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self {
            said: Vec::new(),
            of: PhantomData,
        };
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let found = Self::declared().filter_map(|(key, flag)| {
            let got = matches.get_one::<Got>(flag)?;
            Some((key.name, got.clone()))
        });
        self.said.extend(found);
        Ok(())
    }
}

impl<S: Settings> clap::Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        Self::declared().fold(command, |command, (key, flag)| {
            command.arg(
                Arg::new(flag)
                    .long(flag)
                    .value_name(range::value_name(key))
                    .value_parser(|text: &str| range::value(key, text))
                    .help(help::<S>(key)),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// What the key does, its limits, and what holds without the flag.
fn help<S: Settings>(key: &Key) -> String {
    let limits = range::limits(key);
    match range::usual::<S>(key) {
        Some(usual) => format!("{} Takes {limits}; {usual} by default", key.says),
        None => format!("{} Takes {limits}", key.says),
    }
}
