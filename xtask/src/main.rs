//! The project's own checks: `cargo xtask tidy`, `cargo xtask ci`, `cargo xtask accounts`, `cargo xtask python`, `cargo xtask fuzz SECONDS`,
//! `cargo xtask drill BINARY`, `cargo xtask mutants`, `cargo xtask tests-list`.
//!
//! What it is not: a build system. Cargo builds; this crate asks questions that the compiler does not.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a command line tool reports on standard output"
)]

mod accounts;
mod child;
mod ci;
mod drill;
mod entries;
mod fuzz;
mod mutants;
mod python;
mod suite;
mod tests_list;
mod tidy;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask tidy | ci | accounts | python | fuzz SECONDS | drill BINARY [OPTIONS] | mutants [OPTIONS] | tests-list [--help]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode> {
    let root = forebay_testing::root();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(&root, &[])?,
        ["ci"] => ci::run(&root)?,
        ["accounts"] => accounts::run(&root)?,
        ["python"] => python::run(&root, &mut suite::Tally::default()).map(drop)?,
        ["tests-list"] => tests_list::run(&root)?,
        ["tests-list", "--help"] => println!("{}", tests_list::HELP),
        ["fuzz", seconds] => fuzz::run(
            &root,
            seconds.parse().context("SECONDS must be a whole number")?,
        )?,
        // What it found is on standard output, which may be JSON alone.
        ["drill", binary, ref options @ ..] => {
            let nothing_found = drill::run(&root, binary, options)?;
            return Ok(ExitCode::from(u8::from(!nothing_found)));
        }
        ["mutants", ref options @ ..] => {
            let nothing_lives = mutants::run(&root, options)?;
            return Ok(ExitCode::from(u8::from(!nothing_lives)));
        }
        _ => bail!("{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The cargo that runs us, so that a second installation in `PATH` is not mixed in.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
