//! `forebay run`: whatever a file describes: an event builder, a card, a reader of cards, a subscriber, time-division UDP, a mover, or a chain of them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use forebay_run::Stop;
use forebay_run::chain::{self, Chain, Kind, Member, MemberEnd};
use forebay_run::child::{BY_STDIN, take_orders_by_stdin};
use forebay_run_emu::card::CardPlan;
use forebay_run_emu::config::{FileKind, kind_of};
use forebay_run_evb::config::Chain as EvbFile;
use forebay_run_felix::config::SwrodFile;
use forebay_run_felix::toflx::ToFlxPlan;
use forebay_run_felix::tohost::ToHostFile;
use forebay_run_mover::MoverPlan;
use forebay_run_mux::MuxPlan;
use forebay_run_probe::config::ProbeFile;
use serde_json::{Value, json};

use crate::emulate::{self, CardArgs};
use crate::evb::{self, EvbArgs};
use crate::mover;
use crate::mux;
use crate::output::{Format, note_line, print_line};
use crate::probe;
use crate::session::BROKEN;
use crate::set::SetArg;
use crate::swrod;
use crate::tdm;
use crate::tdm::file::{ReceiveFile, SendFile};
use crate::toflx::{self, ToFlxArgs};
use crate::tohost::{self, ToHostArgs};
use crate::totals::exit_code;

/// A program that a file describes, alone or as a member of a chain.
pub(crate) struct Program {
    pub(crate) kind: Kind,
    /// Its name in the reference, and how its file is run.
    pub(crate) title: &'static str,
    pub(crate) command: &'static str,
    run: fn(Job) -> Result<ExitCode>,
}

/// What is to be run.
struct Job {
    file: PathBuf,
    set: SetArg,
    format: Format,
    /// The flags of the event builder.
    evb: EvbArgs,
}

/// All of them, in the order of the reference.
pub(crate) static PROGRAMS: [Program; 10] = [
    Program {
        kind: Kind::of::<EvbFile>(),
        title: "A chain",
        command: "forebay evb FILE.toml",
        run: |job| evb::run(&job.evb),
    },
    Program {
        kind: Kind::of::<CardPlan>(),
        title: "A card",
        command: "forebay emulate card FILE.toml",
        run: |job| emulate::run_card(&CardArgs::of_file(job.file, job.set, job.format)),
    },
    Program {
        kind: Kind::of::<ToHostFile>(),
        title: "To-host",
        command: "forebay tohost FILE.toml",
        run: |Job {
                  file, set, format, ..
              }| tohost::run(&ToHostArgs { file, set, format }),
    },
    Program {
        kind: Kind::of::<ToFlxPlan>(),
        title: "To-flx",
        command: "forebay toflx FILE.toml",
        run: |Job {
                  file, set, format, ..
              }| toflx::run(&ToFlxArgs { file, set, format }),
    },
    Program {
        kind: Kind::of::<SwrodFile>(),
        title: "A subscriber",
        command: "forebay run FILE.toml",
        run: |job| swrod::run_file(job.set.load(&job.file)?, job.format),
    },
    Program {
        kind: Kind::of::<ReceiveFile>(),
        title: "A receiver of time-division UDP",
        command: "forebay run FILE.toml",
        run: |job| {
            let file: ReceiveFile = job.set.load(&job.file)?;
            tdm::receive::run(&file.with(job.format))
        },
    },
    Program {
        kind: Kind::of::<SendFile>(),
        title: "A sender of time-division UDP",
        command: "forebay run FILE.toml",
        run: |job| {
            let file: SendFile = job.set.load(&job.file)?;
            tdm::send::run(&file.with(job.format))
        },
    },
    Program {
        kind: Kind::of::<ProbeFile>(),
        title: "A flow probe",
        command: "forebay run FILE.toml",
        run: |job| {
            let ProbeFile(plan) = job.set.load(&job.file)?;
            probe::carry_out(plan, job.format)
        },
    },
    Program {
        kind: Kind::of::<MuxPlan>(),
        title: "A multiplexer",
        command: "forebay mux run FILE.toml",
        run: |job| mux::carry_out(job.set.load(&job.file)?, job.format),
    },
    Program {
        kind: Kind::of::<MoverPlan>(),
        title: "A mover",
        command: "forebay run FILE.toml",
        run: |job| mover::carry_out(job.set.load(&job.file)?, job.format),
    },
];

/// What can be a member of a chain.
pub(crate) fn kinds() -> [Kind; PROGRAMS.len()] {
    PROGRAMS.each_ref().map(|program| program.kind)
}

/// Runs what a file describes: an event builder, a card, to-host, to-flx, a subscriber, time-division UDP, a mover, or a chain of them.
///
/// A chain names its members, each with its sections below `[members.NAME]`. They are started together, each in a directory of its own below that of the chain, and end in the order of
/// the data: the first Ctrl-C goes to those that connect to no other member, a second one to all; a member that dies ends the chain. Flags are those of
/// `forebay evb`, for its files alone.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay run examples/hades.toml\n  forebay run examples/chain.toml\n  forebay run examples/chain.toml --only card\n\nExit codes of a chain: 0 the books of all members close, 1 they do not, 2 a member could not do it, or died."
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    evb: EvbArgs,
    /// Runs this member of a chain alone, here and now.
    #[arg(long, value_name = "NAME", requires = "file")]
    only: Option<String>,
    /// Of a member behind a launcher: it is told by standard input when it shall end.
    #[arg(long = BY_STDIN.trim_start_matches('-'), hide = true, requires = "only")]
    orders_by_stdin: bool,
}

pub(crate) fn run(args: RunArgs) -> Result<ExitCode> {
    let RunArgs {
        mut evb,
        only,
        orders_by_stdin,
    } = args;
    if orders_by_stdin {
        take_orders_by_stdin()?;
    }
    let Some(file) = evb.file.clone() else {
        return evb::run(&evb);
    };
    // What cannot be read is told by what reads it.
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let is_chain = chain::is_chain(&text);
    let kind = match (&only, is_chain) {
        (Some(name), _) => {
            let (kind, directory) = member(&file, name)?;
            // What the command line says itself stands behind it, and holds.
            evb.set.keys.insert(0, directory);
            Some(kind)
        }
        (None, true) => None,
        (None, false) => match kind_of(&text) {
            Some(FileKind::Card) => Some(CardPlan::KIND),
            Some(FileKind::ToHost) => Some(ToHostFile::KIND),
            Some(FileKind::ToFlx) => Some(ToFlxPlan::KIND),
            Some(FileKind::Batch) => bail!(
                "{}: a batch of cards is for `forebay card validate`",
                file.display()
            ),
            None => Some(chain::kind_of(&text, &kinds()).unwrap_or(EvbFile::KIND)),
        },
    };
    if kind != Some(EvbFile::KIND) && evb.says_flags() {
        bail!(
            "{}: flags are those of the event builder, and this is none; say keys of a file with --set, or write them into it",
            file.display()
        );
    }
    let format = evb.format();
    let Some(kind) = kind else {
        if !evb.set.keys.is_empty() {
            bail!("--set is for one member of a chain: name it with --only");
        }
        return run_chain(&Chain::load(&file, &kinds())?, format);
    };
    evb.set.only = only;
    let set: SetArg = evb.set.clone();
    let job = Job {
        file,
        set,
        format,
        evb,
    };
    let mut programs = PROGRAMS.iter();
    match programs.find(|program| program.kind.name == kind) {
        Some(program) => (program.run)(job),
        None => bail!("{}: nothing runs {kind:?}", job.file.display()),
    }
}

/// The kind of a member, and its directory as a key of the command line.
fn member(file: &Path, name: &str) -> Result<(&'static str, String)> {
    let chain = Chain::load(file, &kinds())?;
    let names: Vec<&str> = chain.members.iter().map(|one| &*one.name).collect();
    match chain.members.iter().find(|one| one.name == name) {
        Some(member) => Ok((member.kind, chain.directory_of(member))),
        None => bail!(
            "{}: there is no member {name:?}; its members are {}",
            file.display(),
            names.join(", ")
        ),
    }
}

fn run_chain(chain: &Chain, format: Format) -> Result<ExitCode> {
    for (name, address) in chain.open_ends() {
        note_line(format_args!(
            "forebay: {name} connects to {address}, where no member of this chain listens"
        ));
    }
    let stop = Stop::of_process()?;
    let members = chain::run(chain, &stop, |text| {
        note_line(format_args!("forebay: {text}"))
    })?;
    for member in &members {
        if let Some(failed) = &member.failed {
            note_line(format_args!("forebay: {failed}"));
        }
    }
    match format {
        Format::Json => print_line(json_of(chain, &members)),
        Format::Text => print(chain, &members),
    }
    let has_code = |code| members.iter().any(|one| one.ended.code == Some(code));
    let is_closed = !has_code(i32::from(BROKEN)) && left_over(&members) == [0; 4];
    Ok(exit_code(
        is_closed,
        members.iter().all(|one| one.failed.is_none()),
    ))
}

const BOOKS: [&str; 4] = [
    "residual_items",
    "residual_bytes",
    "left_items",
    "left_bytes",
];

/// What the books of all members leave over, and still hold.
fn left_over(members: &[MemberEnd]) -> [u64; 4] {
    let sum = |key: &str| {
        let of_member = |one: &MemberEnd| one.ended.real(&format!("/{key}")).abs() as u64;
        members.iter().map(of_member).sum()
    };
    BOOKS.map(sum)
}

fn json_of(chain: &Chain, members: &[MemberEnd]) -> Value {
    let members_json: Vec<Value> = members
        .iter()
        .map(|one| {
            json!({
                "name": one.ended.name,
                "kind": one.kind,
                "pid": one.ended.pid,
                "exit_code": one.ended.code,
                "failed": one.failed,
                "record": one.ended.said,
            })
        })
        .collect();
    let mut all = json!({ "directory": chain.directory, "members": members_json });
    for (key, sum) in BOOKS.iter().zip(left_over(members)) {
        all[*key] = sum.into();
    }
    all
}

fn print(chain: &Chain, members: &[MemberEnd]) {
    for one in members {
        let own = left_over(std::slice::from_ref(one));
        let books = match (&one.ended.said, own) {
            (None, _) => "it left no record".to_owned(),
            (Some(_), [0, 0, 0, 0]) => "its books close".to_owned(),
            (Some(_), [items, bytes, left, _]) => {
                format!(
                    "its books leave over {items} items and {bytes} bytes, and still hold {left} items"
                )
            }
        };
        print_line(format_args!(
            "{} ({}): {}; {books}",
            one.ended.name, one.kind, one.ended.how
        ));
    }
    print_line(format_args!(
        "records and ledgers: {}",
        chain.directory.display()
    ));
}
