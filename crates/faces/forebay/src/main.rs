//! The `forebay` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod address;
mod audit;
mod bench;
mod card;
mod chain_needs;
mod check;
mod check_readout;
mod demo;
mod doctor;
mod elink_text;
mod elinks;
mod emulate;
mod evb;
mod fcheck;
mod figure;
mod flags;
mod inspect;
mod live;
mod load;
mod manual;
mod metrics;
mod model;
mod mover;
mod mux;
mod mux_bench;
mod mux_client;
mod mux_hostile;
mod net;
mod output;
mod probe;
mod range;
mod record;
mod reference;
mod remedy;
mod replay;
mod run;
mod session;
mod set;
mod sweep;
mod swrod;
mod tdm;
mod toflx;
mod tohost;
mod top;
mod totals;

/// Takes data from many senders over Ethernet and says where every byte went.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "Try it: forebay demo"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::DemoArgs),
    Evb(evb::EvbArgs),
    Run(run::RunArgs),
    Replay(replay::ReplayArgs),
    Mover(mover::MoverArgs),
    Load(load::LoadArgs),
    Net(net::NetArgs),
    Elinks(elinks::ElinksArgs),
    #[command(name = "tohost")]
    ToHost(tohost::ToHostArgs),
    #[command(name = "toflx")]
    ToFlx(toflx::ToFlxArgs),
    Emulate(emulate::EmulateArgs),
    Card(card::CardArgs),
    Inspect(inspect::InspectArgs),
    Fcheck(fcheck::FcheckArgs),
    Swrod(swrod::SwrodArgs),
    Tdm(tdm::TdmArgs),
    Probe(probe::ProbeArgs),
    Mux(mux::MuxArgs),
    Model(model::ModelArgs),
    Audit(audit::AuditArgs),
    Top(top::TopArgs),
    Check(check::CheckArgs),
    Doctor(doctor::DoctorArgs),
    #[command(hide = true)]
    Completions(manual::CompletionsArgs),
    /// Prints the manual page.
    #[command(hide = true)]
    Man,
    Figure(figure::FigureArgs),
    Bench(bench::BenchArgs),
    Sweep(sweep::SweepArgs),
    /// One stage of a run; the supervisor starts it.
    #[command(hide = true)]
    Stage {
        /// Name of the stage.
        role: String,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    output::log_to_stderr();
    let code = run(cli);
    output::end_notes();
    code
}

fn run(cli: Cli) -> ExitCode {
    forebay_run::let_writes_fail();
    let done = match cli.verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Evb(args) => evb::run(&args),
        Verb::Run(args) => run::run(args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Mover(args) => mover::run(&args),
        Verb::Load(args) => load::run(&args),
        Verb::Net(args) => net::run(&args),
        Verb::Elinks(args) => elinks::run(&args),
        Verb::ToHost(args) => tohost::run(&args),
        Verb::ToFlx(args) => toflx::run(&args),
        Verb::Emulate(args) => emulate::run(&args),
        Verb::Card(args) => card::run(&args),
        Verb::Inspect(args) => inspect::run(&args),
        Verb::Fcheck(args) => fcheck::run(&args),
        Verb::Swrod(args) => swrod::run(&args),
        Verb::Tdm(args) => tdm::run(&args),
        Verb::Probe(args) => probe::run(&args),
        Verb::Mux(args) => mux::run(&args),
        Verb::Model(args) => model::run(&args),
        Verb::Audit(args) => audit::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Completions(args) => manual::completions::<Cli>(&args),
        Verb::Man => manual::man::<Cli>(),
        Verb::Figure(args) => figure::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Sweep(args) => sweep::run(&args),
        Verb::Stage { role: _ } => forebay_run_evb::stages::run_child()
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
    };
    let code = done.unwrap_or_else(|error| {
        output::note_line(format_args!("forebay: {}", remedy::told(&error)));
        ExitCode::from(2)
    });
    let Some(error) = output::lost() else {
        return code;
    };
    output::note_line(format_args!(
        "forebay: the result could not be written to standard output: {error}"
    ));
    ExitCode::from(2)
}
