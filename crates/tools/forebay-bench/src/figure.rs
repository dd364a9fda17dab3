//! Published figures, measured on this machine; those of hardware that is not here are computed by a model, and say so.

mod batch;
mod buffers;
mod chunks;
mod components;
mod ctt;
mod definition;
mod grid;
mod huge;
mod loss;
mod mark;
mod memory;
mod mux;
mod offload;
mod profile;
mod published;
mod report;
mod round_trip;
mod scan;
mod series;
mod sources;
pub(crate) mod tdm;
mod test2;

use forebay_run::Stop;
use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use definition::{DEFINITIONS, Definition};
use forebay_report::conditions::Conditions;
use forebay_report::rows::Row;
pub use report::Report;
use scan::Scanned;

/// How figures are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where rows and pictures go.
    pub out: PathBuf,
    /// One short run of each point.
    pub quick: bool,
}

/// Identifier and title of every figure.
#[must_use]
pub fn list() -> Vec<(&'static str, &'static str)> {
    DEFINITIONS
        .iter()
        .map(|definition| (definition.id, definition.title))
        .collect()
}

/// Makes the figures `ids`; all of them when there is none. Figures that show the same measurement share its runs.
///
/// # Errors
/// An unknown identifier, a run that cannot be started, a file that cannot be written.
pub fn make(ids: &[String], options: &Options) -> Result<Vec<Report>> {
    let chosen = choose(ids)?;
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("making {}", options.out.display()))?;
    let out = options
        .out
        .canonicalize()
        .with_context(|| format!("finding {}", options.out.display()))?;
    let options = Options {
        out,
        ..options.clone()
    };
    let conditions = Conditions::now();
    let stop = Stop::of_process()?;
    let mut scanned: BTreeMap<&str, Scanned> = BTreeMap::new();
    let mut reports = Vec::new();
    for definition in chosen {
        let scan = (definition.scan)(options.quick);
        if !scanned.contains_key(scan.name) {
            let file = options.out.join(format!("{}.csv", definition.id));
            let done = scan::carry_out(&scan, &file, &options, &conditions, &stop)?;
            scanned.insert(scan.name, done);
        }
        let done = &scanned[scan.name];
        reports.push(report::write(definition, done, &options, &conditions)?);
        if done.interrupted {
            break;
        }
    }
    if reports.len() > 1 {
        report::write_page(&reports, &options.out)?;
    }
    Ok(reports)
}

fn choose(ids: &[String]) -> Result<Vec<&'static Definition>> {
    if ids.is_empty() {
        return Ok(DEFINITIONS.iter().collect());
    }
    let mut chosen = Vec::new();
    for id in ids {
        let Some(found) = DEFINITIONS
            .iter()
            .find(|definition| definition.id.eq_ignore_ascii_case(id))
        else {
            let known: Vec<_> = DEFINITIONS.iter().map(|definition| definition.id).collect();
            bail!("there is no figure {id:?}; known are {}", known.join(", "));
        };
        chosen.push(found);
    }
    Ok(chosen)
}

/// Rows in which the books did not close.
fn broken(rows: &[Row]) -> usize {
    rows.iter()
        .filter(|row| row.number("residual_items") != 0.0)
        .count()
}
