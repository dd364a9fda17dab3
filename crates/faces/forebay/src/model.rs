//! `forebay model`: computations that stand for hardware that is not here.

mod told;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use forebay_config::{ConfigFile, Document, Sections, Source, read};
use forebay_ctt::fit::{Case, Fit, search};
use forebay_ctt::published::{FITTED_ON, Published};
use forebay_ctt::sweep::{LINES, MEMORIES};
use forebay_ctt::{
    Edition, MemoryParameters, NAMED, NamedProfile, Outcome, Parameters, TableParameters, Trace,
};
use forebay_run::Stop;
use forebay_settings::Settings as _;

use crate::output::{Format, note_line, parse_bytes, print_line};

/// Computes what hardware that is not here would do. No result of it is a measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Ctt(CttArgs),
}

/// A model of CESNET's connection table (CTT) at 400 Gb/s: drops, hits and latency for seven made-up profiles, beside the published values.
///
/// The inside of the real table is not public: each parameter has its source or the word assumed (--print-parameters), and six of them are fitted to the published values of two
/// profiles, G_MR and N_M; those of the other five are predictions, but for hits of whole packets, from which the share of the heaviest flows of each was set. Packets are those of `forebay emulate traffic`, which are synthetic. This is a model and no
/// measurement.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay model ctt\n  forebay model ctt --set memory.channels=4 --profile nix-like-morning\n  forebay model ctt --print-parameters > ctt.toml\n  forebay model ctt --parameters ctt.toml --sweep --format json\n\nExit codes: 0 it was computed, 1 its books do not close, 2 it could not be done: a file with mistakes is told with line, key and remedy. 130: interrupted."
)]
struct CttArgs {
    /// A file of parameters, in TOML; what it leaves out is as --print-parameters says.
    #[arg(long, value_name = "FILE.toml")]
    parameters: Option<PathBuf>,
    /// Sets a parameter, in the place of what the file says, as memory.channels=4. May be given several times.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Profiles, by their names; all seven without it.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = profile)]
    profile: Vec<&'static NamedProfile>,
    /// Packets of each profile.
    #[arg(long, value_name = "N", default_value = "2M", value_parser = packets)]
    packets: u64,
    /// Profiles follow from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Searches for the fitted constants first, with all other parameters as they are; some minutes. What it finds is printed, and used.
    #[arg(long)]
    fit: bool,
    /// Lines of 400 and 800 Gb/s with other memories, in the place of the comparison.
    #[arg(long)]
    sweep: bool,
    /// Prints the parameters with their sources, as a file, and computes nothing else.
    #[arg(long, conflicts_with = "sweep")]
    print_parameters: bool,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Most packets of a profile: each takes some memory.
const PACKETS_MAX: u64 = 200_000_000;
/// From so many on, the 16 shares that the heaviest flows have in turn were all there.
const PACKETS_SETTLED: u64 = 2_000_000;
const BROKEN: u8 = 1;
const INTERRUPTED: u8 = 130;

fn packets(text: &str) -> Result<u64, String> {
    let least = NamedProfile::packets_min();
    let packets = parse_bytes(text)
        .ok()
        .filter(|packets| (least..=PACKETS_MAX).contains(packets));
    packets.ok_or_else(|| {
        format!(
            "{text:?} is no number of packets; write it as 500k or 2M, {least} to {PACKETS_MAX}"
        )
    })
}

fn profile(text: &str) -> Result<&'static NamedProfile, String> {
    let names = NAMED.each_ref().map(|profile| profile.name).join(", ");
    let found = NAMED.iter().find(|profile| profile.name == text);
    found.ok_or_else(|| format!("there is no profile {text:?}; there are {names}"))
}

/// The file of parameters.
pub(crate) struct ParametersFile(Parameters);

impl ConfigFile for ParametersFile {
    const SECTIONS: Sections = &[TableParameters::SECTION, MemoryParameters::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (table, _) = document.one::<TableParameters>();
        let (memory, _) = document.one::<MemoryParameters>();
        Some(Self(Parameters { table, memory }))
    }
}

/// What was computed of a profile in an edition.
struct Computed {
    profile: &'static NamedProfile,
    edition: Edition,
    outcome: Outcome,
}

pub(crate) fn run(args: &ModelArgs) -> Result<ExitCode> {
    let What::Ctt(args) = &args.what;
    let source = match &args.parameters {
        Some(path) => Source::read(path, &args.set)?,
        None => Source::of_text("the parameters", "").with(&args.set),
    };
    let ParametersFile(mut parameters) = read(&source)?;
    // A search that is interrupted tells what it has found; all else writes nothing, and ends by the signal itself.
    let stop = match args.fit {
        true => Stop::of_process()?,
        false => Stop::of_library()?,
    };
    if args.fit {
        let fit = fit(args, &parameters, &stop);
        told::fit(&fit);
        parameters = fit.parameters;
        if stop.is_asked() {
            return Ok(ExitCode::from(INTERRUPTED));
        }
    }
    if args.print_parameters {
        told::parameters(&parameters, args.format)?;
        return Ok(ExitCode::SUCCESS);
    }
    compute(args, &parameters, &stop)
}

fn compute(args: &CttArgs, parameters: &Parameters, stop: &Stop) -> Result<ExitCode> {
    if args.packets < PACKETS_SETTLED {
        note_line(format_args!(
            "forebay: warning: with fewer than {PACKETS_SETTLED} packets the heaviest flows have not had all of their shares, and drops differ"
        ));
    }
    let begin = Instant::now();
    let profiles: Vec<&'static NamedProfile> = match args.profile.is_empty() {
        true => NAMED.iter().collect(),
        false => args.profile.clone(),
    };
    let variants: Vec<(String, Parameters)> = match args.sweep {
        false => vec![(String::new(), parameters.clone())],
        true => sweep(parameters),
    };
    let mut computed: Vec<Vec<Computed>> = variants.iter().map(|_| Vec::new()).collect();
    for profile in profiles {
        for edition in [Edition::Default, Edition::Small] {
            if stop.is_asked() {
                return Ok(ExitCode::from(INTERRUPTED));
            }
            let trace = Trace::of_profile(profile, edition, args.packets, args.seed);
            for ((_, parameters), computed) in variants.iter().zip(&mut computed) {
                let outcome = trace.run(parameters);
                computed.push(Computed {
                    profile,
                    edition,
                    outcome,
                });
            }
        }
    }
    let is_closed = computed.iter().flatten().all(|one| one.outcome.is_closed());
    let packets: u64 = computed
        .iter()
        .flatten()
        .map(|one| one.outcome.packets_in)
        .sum();
    let took_s = begin.elapsed().as_secs_f64();
    if args.sweep {
        told::sweep(&variants, &computed, args.format)?;
    } else {
        told::comparison(parameters, &computed[0], args.format)?;
    }
    if args.format == Format::Text {
        print_line(format_args!(
            "{:.1} M packets in {took_s:.1} s. A model, fitted on {}: no measurement.",
            packets as f64 / 1e6,
            FITTED_ON.join(" and ")
        ));
    }
    ensure!(packets > 0, "no packets were made");
    if !is_closed {
        note_line("forebay: THE BOOKS OF THE MODEL DO NOT CLOSE");
        return Ok(ExitCode::from(BROKEN));
    }
    Ok(ExitCode::SUCCESS)
}

/// Each line with each memory.
fn sweep(base: &Parameters) -> Vec<(String, Parameters)> {
    let each = LINES.iter().flat_map(|line| {
        MEMORIES.iter().map(move |memory| {
            let name = format!("{}, {}", line.name, memory.name);
            (name, memory.of(&line.of(base)))
        })
    });
    each.collect()
}

/// Searches on the two profiles.
fn fit(args: &CttArgs, from: &Parameters, stop: &Stop) -> Fit {
    let mut cases = Vec::new();
    for profile in NAMED
        .iter()
        .filter(|profile| FITTED_ON.contains(&profile.stands_for))
    {
        let Some(published) = Published::of(profile.stands_for) else {
            continue;
        };
        for edition in [Edition::Default, Edition::Small] {
            let trace = Trace::of_profile(profile, edition, args.packets, args.seed);
            cases.push(Case {
                published,
                edition,
                trace,
            });
        }
    }
    let mut told = 0;
    search(&cases, from, &mut |fit| {
        if fit.tries >= told {
            told = fit.tries + 20;
            note_line(format_args!(
                "forebay: {} tries, error {:.2}",
                fit.tries, fit.error
            ));
        }
        !stop.is_asked()
    })
}
