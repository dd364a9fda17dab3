//! What the members of a chain need of this host, and what is probably not meant in them.

use std::path::Path;

use anyhow::{Context, Result};
use forebay_config::{Source, read};
use forebay_host::doctor::{Check, Facts, MEMORY, Needs, examine};
use forebay_run::chain::{Chain, Member};
use forebay_run_emu::card::CardPlan;
use forebay_run_evb::config::needs::Memory;
use forebay_run_evb::config::{self, Chain as EvbFile};
use forebay_run_evb::plan::Plan;

use crate::check::warnings_of;
use crate::session::run_id;

/// What all members need that run here.
#[derive(Debug, Default)]
pub(crate) struct ChainNeeds {
    members: Vec<Needs>,
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
            all.members.push(needs);
            let named = warnings.iter().map(|text| format!("{name}: {text}"));
            all.warnings.extend(named);
        }
        Ok(all)
    }

    /// What they need together; of sockets and messages what the largest does.
    pub(crate) fn all(&self) -> Needs {
        self.members
            .iter()
            .copied()
            .fold(Needs::default(), Needs::and)
    }

    /// This host against them: memory is theirs together, and all else is what each process may have.
    pub(crate) fn examine(&self) -> Vec<Check> {
        let facts = Facts::read(self.all().socket_buffer_bytes);
        let mut checks = examine(&facts, &Needs::default());
        for needs in &self.members {
            for (worst, own) in checks.iter_mut().zip(examine(&facts, needs)) {
                if own.standing > worst.standing {
                    *worst = own;
                }
            }
        }
        let together = Needs {
            memory_bytes: self.all().memory_bytes,
            ..Needs::default()
        };
        let together = examine(&facts, &together);
        for (check, all) in checks.iter_mut().zip(together) {
            if check.name == MEMORY {
                *check = all;
            }
        }
        checks
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

/// What an event builder needs.
pub(crate) fn needs_of(plan: &Plan) -> Result<Needs> {
    let memory = Memory::of(plan).context("the ledger of this run")?;
    Ok(plan.host_needs(memory.total_bytes()))
}

fn of_evb(source: &Source) -> Result<(Needs, Vec<String>)> {
    let plan = config::of_source(source, &run_id())?.plan;
    Ok((needs_of(&plan)?, warnings_of(&plan)))
}

fn of_card(source: &Source) -> Result<Needs> {
    let plan: CardPlan = read(source)?;
    Ok(Needs {
        memory_bytes: plan.dma_bytes(),
        ..Needs::default()
    })
}
