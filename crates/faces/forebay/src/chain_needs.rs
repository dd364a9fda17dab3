//! What the members of a chain need of this host, and what is probably not meant in them.

use std::path::Path;

use anyhow::Result;
use forebay_config::{Source, read};
use forebay_host::doctor::Needs;
use forebay_run::chain::{Chain, Member};
use forebay_run_emu::card::CardPlan;
use forebay_run_evb::config::needs::Memory;
use forebay_run_evb::config::{self, Chain as EvbFile};

use crate::check::warnings_of;
use crate::session::run_id;

/// What all members need that run here.
#[derive(Debug, Default)]
pub(crate) struct ChainNeeds {
    pub(crate) needs: Needs,
    /// What is allowed and probably not meant, with the member's name.
    pub(crate) warnings: Vec<String>,
}

impl ChainNeeds {
    /// # Errors
    /// The file has changed since `chain` was read.
    pub(crate) fn of(chain: &Chain) -> Result<Self> {
        let mut all = Self::default();
        let source = Source::read(&chain.file, &[])?;
        for member in &chain.members {
            let name = &member.name;
            if let [launcher, ..] = &member.launch[..] {
                let why = match is_program(launcher) {
                    true => "it may run on another host, and what that lacks is not looked at",
                    false => "there is no such program on this host",
                };
                all.warnings
                    .push(format!("{name}: {launcher} is in front of it: {why}"));
                continue;
            }
            let own = source.clone().only(Some(name));
            let (needs, warnings) = match member.kind {
                EvbFile::KIND => of_evb(&own)?,
                CardPlan::KIND => (of_card(&own)?, Vec::new()),
                _ => (Needs::default(), Vec::new()),
            };
            all.needs = all.needs.and(needs);
            let named = warnings.iter().map(|text| format!("{name}: {text}"));
            all.warnings.extend(named);
        }
        Ok(all)
    }
}

/// Whether a command is found, as a path or on that of this process.
fn is_program(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

fn of_evb(source: &Source) -> Result<(Needs, Vec<String>)> {
    let plan = config::of_source(source, &run_id())?.plan;
    let needs = plan.host_needs(Memory::of(&plan)?.total_bytes());
    Ok((needs, warnings_of(&plan)))
}

fn of_card(source: &Source) -> Result<Needs> {
    let plan: CardPlan = read(source)?;
    Ok(Needs {
        memory_bytes: plan.dma_bytes(),
        ..Needs::default()
    })
}
