//! `forebay mux status` and `forebay mux set`: a multiplexer at work.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use forebay_run::Stop;
use forebay_run_mux::control::{AskError, Change, Control, Target};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::wait;
use serde_json::{Value, json};

use super::table::table;
use crate::output::{Format, is_unread, parse_duration, print_line};

/// Shows how a multiplexer at work stands.
///
/// For each class its policy, and for each client: whether it is there, what it may hold and holds, what it was given, asked to send and sent, the longest that a packet waited, its lies, and what was
/// dropped where and why. With --watch the table comes again and has rates, until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay mux status --control /run/forebay-mux.control\n  forebay mux status --watch 1s\n  forebay mux status --format json\n\nExit codes: 0 it answered, 2 there is no multiplexer, or this user may not ask it."
)]
pub(crate) struct MuxStatusArgs {
    #[command(flatten)]
    at: At,
    /// Shows it again and again, so long apart.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    watch: Option<Duration>,
    /// Text for people, or a JSON object for each look.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Changes settings of a multiplexer at work, all that are said or none.
///
/// Keys are those of the multiplexer's file. Of a client: class, level, rate_bps, burst_bytes, quantum_bytes, sojourn_max_us, transmit_queue, queue, guarantee. Of a class, by its number: all
/// keys of `[[classes]]`. A number may have a unit (100M), and `default` is what holds without the key. No packet is lost by it. It holds until the multiplexer ends: write it into the file as well.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay mux set --control /run/forebay-mux.control client a rate_bps=100M sojourn_max_us=12000\n  forebay mux set class 0 policy=priority level_guard_us=1000 client a level=0 client b level=1\n\nExit codes: 0 all of it is set, 2 nothing is: something is wrong with it, there is no multiplexer, or this user may not ask it."
)]
pub(crate) struct MuxSetArgs {
    #[command(flatten)]
    at: At,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// `client NAME` or `class NUMBER`, and its settings; several of them, one behind the other.
    #[arg(
        required = true,
        value_name = "client NAME|class NUMBER|KEY=VALUE",
        num_args = 1..
    )]
    words: Vec<String>,
}

/// Where the multiplexer is.
#[derive(Debug, clap::Args)]
struct At {
    /// Its control socket: `control` in its file.
    #[arg(long, value_name = "PATH", default_value = "forebay-mux.control")]
    control: PathBuf,
}

pub(crate) fn status(args: &MuxStatusArgs) -> Result<ExitCode> {
    told(look(args), args.format)
}

fn look(args: &MuxStatusArgs) -> Result<ExitCode> {
    let Some(apart) = args.watch else {
        let now = Control::connect(&args.at.control)?.status()?;
        show(&now, None, args.format);
        return Ok(ExitCode::SUCCESS);
    };
    if apart < Duration::from_millis(100) {
        return Err(Words(format!("--watch {apart:?}: 100 ms or more")).into());
    }
    let stop = Stop::of_process()?;
    let mut before = None;
    while !stop.is_asked() && !is_unread() {
        let begun_ns = monotonic_ns();
        let now = Control::connect(&args.at.control)?.status()?;
        show(&now, before.as_ref(), args.format);
        before = Some(now);
        let until_ns = begun_ns + apart.as_nanos() as u64;
        wait::sleep_until_or([std::os::fd::AsFd::as_fd(&stop)], until_ns, 0)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(now: &Value, before: Option<&Value>, format: Format) {
    match format {
        Format::Json => print_line(now),
        Format::Text => print_line(table(now, before)),
    }
}

/// The result; of one that failed, what it was as JSON on standard output as well, where that is asked for.
fn told(done: Result<ExitCode>, format: Format) -> Result<ExitCode> {
    if let (Err(error), Format::Json) = (&done, format) {
        let refused = match error.downcast_ref() {
            Some(AskError::Refused(refused)) => json!(refused),
            other => {
                let is_words = error.is::<Words>();
                let reason = match other {
                    Some(_) => "no_answer",
                    None if is_words => "words",
                    None => "system",
                };
                json!({"reason": reason, "text": error.to_string(), "mistakes": []})
            }
        };
        print_line(json!({ "refused": refused }));
    }
    done
}

pub(crate) fn set(args: &MuxSetArgs) -> Result<ExitCode> {
    told(set_all(args), args.format)
}

fn set_all(args: &MuxSetArgs) -> Result<ExitCode> {
    let changes = changes(&args.words)?;
    let changed = Control::connect(&args.at.control)?.set(changes)?;
    match args.format {
        Format::Json => print_line(json!({ "changed": changed })),
        Format::Text => changed.iter().for_each(print_line),
    }
    Ok(ExitCode::SUCCESS)
}

/// What was said cannot be read.
#[derive(Debug)]
struct Words(String);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Words {}

/// What the words say.
fn changes(words: &[String]) -> Result<Vec<Change>> {
    read(words).map_err(|error| Words(error.to_string()).into())
}

fn read(words: &[String]) -> Result<Vec<Change>> {
    let mut changes: Vec<Change> = Vec::new();
    // The client or class that was named last.
    let mut at = 0;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some((key, value)) = word.split_once('=') {
            let Some(change) = changes.get_mut(at) else {
                bail!(
                    "{word}: of which client or class? right: client NAME {word}, or class NUMBER {word}"
                );
            };
            let before = change.keys.insert(key.to_owned(), value.to_owned());
            if before.is_some() {
                bail!(
                    "{word}: {key} of {} is said twice; take one of them out",
                    change.of
                );
            }
            continue;
        }
        let name = words.next().filter(|name| !name.contains('='));
        let of = match (word.as_str(), name) {
            ("client", Some(name)) => Target::Client(name.clone()),
            ("class", Some(number)) => match number.parse() {
                Ok(number) => Target::Class(number),
                Err(_) => bail!("class {number}: it is no number; right: class 0, the first one"),
            },
            ("client" | "class", None) => bail!(
                "{word}: which one? right: client NAME or class NUMBER, and KEY=VALUE behind it"
            ),
            _ => bail!(
                "{word}: it is no setting; right: client NAME or class NUMBER, and KEY=VALUE behind it"
            ),
        };
        let known = changes.iter().position(|change| change.of == of);
        at = known.unwrap_or(changes.len());
        if known.is_none() {
            let keys = BTreeMap::new();
            changes.push(Change { of, keys });
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<Vec<Change>> {
        let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        changes(&words)
    }

    #[test]
    fn settings_are_of_what_stands_before_them() {
        let all = said("class 0 policy=priority client a level=1 rate_bps=100M client b level=0");
        let told: Vec<_> = all
            .unwrap()
            .iter()
            .map(|change| format!("{}: {:?}", change.of, change.keys))
            .collect();
        let expected = [
            r#"class 0: {"policy": "priority"}"#,
            r#"client a: {"level": "1", "rate_bps": "100M"}"#,
            r#"client b: {"level": "0"}"#,
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn words_that_say_nothing_are_told_with_what_would_be_right() {
        for (words, told) in [
            ("rate_bps=1", "right: client NAME rate_bps=1"),
            ("client", "which one?"),
            ("client level=1", "which one?"),
            ("class one level=1", "it is no number"),
            ("place a level=1", "it is no setting"),
            (
                "client a level=1 level=2",
                "level of client a is said twice",
            ),
            (
                "client a level=1 class 0 policy=window client a level=2",
                "level of client a is said twice",
            ),
        ] {
            let error = said(words).unwrap_err().to_string();
            assert!(error.contains(told), "{words}: {error}");
        }
    }
}
