//! Files of time-division UDP: the receiver, or one of its senders, as a member of a chain.
//!
//! A file says what a chain has to know, which is where the two meet and where their books lie; all else is said by the flags of the commands.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Command};
use forebay_config::{Block, ConfigFile, Document, Sections};
use forebay_run::chain::{Joints, Member};
use forebay_run_tdm::PORT;
use forebay_settings::{Settings as _, Text, Wrong, settings, text_setting};

use super::receive::ReceiveArgs;
use super::send::SendArgs;
use crate::output::Format;

/// A flag with its value in one word, as `--senders=2`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flag(String);

impl FromStr for Flag {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

static FLAG: Text = Text {
    right: "a text: a flag, as \"--senders=2\"",
    right_list: "a list of different flags with their values, as [\"--senders=2\", \"--windows=100\"]",
    check: |text| {
        if !text.starts_with("--") {
            return Err(Wrong::new(
                "it is no flag",
                "write flag and value as one text, as \"--senders=2\"",
            ));
        }
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        if name == "--format" {
            return Err(Wrong::new(
                "the form of what is printed is that of `forebay run`",
                "leave it out",
            ));
        }
        if text == "--output=-" {
            return Err(Wrong::new(
                "standard output has the record",
                "write to a directory, or to an address of messages",
            ));
        }
        Ok(())
    },
};

text_setting!(Flag, FLAG);

settings! {
    /// A receiver of time-division UDP, with the flags of `forebay tdm receive`.
    struct ReceiveSettings in [receive] {
        /// Where senders come to it (`--bind`).
        bind: SocketAddr = SocketAddr::from(([127, 0, 0, 1], PORT)),
        /// Where ledger and record lie (`--out`). Made if it is not there.
        directory: PathBuf = "forebay-tdm".into(),
        /// Further flags of the command, each with its value in one text, as `--senders=2`.
        flags: Vec<Flag> = Vec::new() => "none",
    }
}

settings! {
    /// A sender of time-division UDP, with the flags of `forebay tdm send`.
    struct SendSettings in [send] {
        /// Where its receiver listens.
        receiver: SocketAddr = SocketAddr::from(([127, 0, 0, 1], PORT)),
        /// Where ledger and record lie (`--out`). Made if it is not there.
        directory: PathBuf = "forebay-tdm-send".into(),
        /// Further flags of the command, each with its value in one text, as `--id=north`.
        flags: Vec<Flag> = Vec::new() => "none",
    }
}

/// The file of a receiver.
#[derive(Debug)]
pub(crate) struct ReceiveFile {
    args: ReceiveArgs,
    at: SocketAddr,
}

/// The file of a sender.
#[derive(Debug)]
pub(crate) struct SendFile {
    args: SendArgs,
    to: SocketAddr,
}

/// Reads the flags of a command as its command line is read, behind what keys of the file say.
fn read<A: Args>(
    block: &Block<'_, '_>,
    command: &'static str,
    (directory, own): (&Path, String),
    flags: &[Flag],
) -> Option<A> {
    let out = format!("--out={}", directory.display());
    let flags = flags.iter().map(|flag| flag.0.clone());
    let words = [own, out].into_iter().chain(flags);
    let flags = Command::new(command)
        .no_binary_name(true)
        .disable_help_flag(true);
    let matches = A::augment_args(flags).try_get_matches_from(words);
    let read = matches.and_then(|found| A::from_arg_matches(&found));
    read.map_err(|error| {
        let told = error.render().to_string();
        let first = told.lines().take_while(|line| !line.is_empty());
        let first: Vec<&str> = first.map(str::trim).collect();
        let first = first.join(" ");
        block.complain(
            "flags",
            first.trim_start_matches("error: "),
            &format!("flags of `forebay {command}`"),
            &format!("see `forebay {command} --help`"),
        );
    })
    .ok()
}

impl ConfigFile for ReceiveFile {
    const SECTIONS: Sections = &[ReceiveSettings::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, block) = document.one::<ReceiveSettings>();
        let own = format!("--bind={}", said.bind);
        let args = read(&block, "tdm receive", (&said.directory, own), &said.flags)?;
        Some(Self {
            args,
            at: said.bind,
        })
    }
}

impl ConfigFile for SendFile {
    const SECTIONS: Sections = &[SendSettings::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, block) = document.one::<SendSettings>();
        let own = said.receiver.to_string();
        let args = read(&block, "tdm send", (&said.directory, own), &said.flags)?;
        Some(Self {
            args,
            to: said.receiver,
        })
    }
}

/// How the two are joined: of one address of this host there is one receiver.
fn address(at: SocketAddr) -> String {
    format!("tdm://{at}")
}

impl Member for ReceiveFile {
    const KIND: &'static str = "tdm-receive";
    const DIRECTORY: &'static str = "receive.directory";

    fn joints(&self) -> Joints {
        Joints {
            listens: vec![address(self.at)],
            ..Joints::default()
        }
    }
}

impl Member for SendFile {
    const KIND: &'static str = "tdm-send";
    const DIRECTORY: &'static str = "send.directory";

    fn joints(&self) -> Joints {
        Joints {
            delivers: vec![address(self.to)],
            ..Joints::default()
        }
    }
}

impl ReceiveFile {
    pub(crate) fn with(mut self, format: Format) -> ReceiveArgs {
        self.args.format = format;
        self.args
    }
}

impl SendFile {
    pub(crate) fn with(mut self, format: Format) -> SendArgs {
        self.args.format = format;
        self.args
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;

    use super::*;

    fn told<F: ConfigFile>(text: &str) -> String {
        match parse::<F>("tdm.toml", text) {
            Ok(_) => panic!("{text}: accepted"),
            Err(mistakes) => mistakes.to_string(),
        }
    }

    #[test]
    fn a_receiver_and_its_sender_meet_at_one_address() {
        let receiver = "[receive]\nbind = \"127.0.0.1:9\"\nflags = [\"--senders=3\"]\n";
        let receiver = parse::<ReceiveFile>("tdm.toml", receiver).unwrap();
        let sender = "[send]\nreceiver = \"127.0.0.1:9\"\nflags = [\"--share=2\"]\n";
        let sender = parse::<SendFile>("tdm.toml", sender).unwrap();
        assert_eq!(sender.joints().delivers, receiver.joints().listens);
        let said = format!("{:?} {:?}", receiver.args, sender.args);
        assert!(
            said.contains("senders: 3") && said.contains("share: 2"),
            "{said}"
        );
    }

    #[test]
    fn what_is_no_flag_of_the_command_is_told() {
        for (flag, wrong) in [
            ("--sender=3", "unexpected argument '--sender'"),
            ("--senders=0", "invalid value '0' for '--senders"),
            ("--bind=127.0.0.1:1", "cannot be used multiple times"),
            ("--output=-", "standard output has the record"),
            ("--format=json", "the form of what is printed"),
            ("3", "it is no flag"),
        ] {
            let told = told::<ReceiveFile>(&format!("[receive]\nflags = [\"{flag}\"]\n"));
            assert!(
                told.contains(wrong) && told.contains("remedy"),
                "{flag}: {told}"
            );
        }
        let told = told::<SendFile>("[send]\nflags = [\"--heaps\"]\n");
        assert!(told.contains("--input"), "{told}");
    }
}
