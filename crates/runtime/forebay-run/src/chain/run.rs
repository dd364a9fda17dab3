//! A chain at work: its members are started, watched, and ended in the order of the data.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Chain, MemberPlan, Roll};
use crate::child::{BY_STDIN, Ended, Part};
use crate::error::RunError;
use crate::run_dir::{in_use, lock_or};
use crate::stop::{Stop, Urgency};

/// One look at the members.
const LOOK: Duration = Duration::from_millis(20);
/// How long the others may take to end by the end of their input.
const END_LIMIT: Duration = Duration::from_secs(90);
/// How long members may take to close their books once they are hurried: they take 3 s at most.
const HURRY_LIMIT: Duration = Duration::from_secs(5);

/// How a member ended.
#[derive(Debug)]
pub struct MemberEnd {
    /// How its process ended, and the record that it printed.
    pub ended: Ended,
    /// Its kind.
    pub kind: &'static str,
    /// What went wrong, with the last line of its log; none when it ended well.
    pub failed: Option<String>,
}

/// Runs a chain until its members have ended, or `stop` says so. `tell` is told which member the chain ends for.
///
/// # Errors
/// Its directory cannot be used, or a member cannot be started.
pub fn run(
    chain: &Chain,
    stop: &Stop,
    mut tell: impl FnMut(&str),
) -> Result<Vec<MemberEnd>, RunError> {
    let directory = &chain.directory;
    fs::create_dir_all(directory).map_err(RunError::file("creating directory", directory))?;
    let _lock = lock(directory)?;
    Roll::of(chain).write(directory)?;
    if let Some(duration) = chain.duration {
        stop.end_after(duration);
    }
    let started = chain.members.iter().map(|member| {
        let part = start(chain, member)?;
        let feeders = chain.feeders(member);
        Ok(Started {
            part,
            has_input: chain.has_input(member) || !feeders.is_empty(),
            feeders,
            is_told: false,
        })
    });
    let mut parts = Vec::new();
    for started in started {
        match started {
            Ok(started) => parts.push(started),
            Err(error) => {
                // Those that are there close their books.
                parts.iter().for_each(|one: &Started| one.part.stop());
                for one in parts {
                    one.part.finish(HURRY_LIMIT);
                }
                return Err(error);
            }
        }
    }
    watch(&mut parts, stop, &mut tell);
    let ended = parts.into_iter().zip(&chain.members);
    Ok(ended
        .map(|(started, member)| {
            let ended = started.part.finish(HURRY_LIMIT);
            MemberEnd {
                failed: ended.failure(&log(directory, &member.name)),
                ended,
                kind: member.kind,
            }
        })
        .collect())
}

/// Keeps other chains out of a directory as long as it lives; none where there are no locks.
///
/// # Errors
/// Another one is at work there.
pub fn lock(directory: &Path) -> Result<Option<fs::File>, RunError> {
    lock_or(directory, || {
        let text = "another chain is at work there; give this one another directory";
        in_use(directory, text.into())
    })
}

/// A member at work.
struct Started {
    part: Part,
    /// It ends by the end of its input, or when all that deliver to it have ended.
    has_input: bool,
    /// The members that deliver to it.
    feeders: Vec<usize>,
    /// It was told to end since these have ended.
    is_told: bool,
}

fn log(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.log"))
}

fn start(chain: &Chain, member: &MemberPlan) -> Result<Part, RunError> {
    // A launcher may run it in another folder.
    let file = std::path::absolute(&chain.file).map_err(RunError::file("finding", &chain.file))?;
    let file = file.display().to_string();
    let words = ["run", &file, "--only", &member.name, "--format", "json"];
    let mut words = words.map(str::to_owned).to_vec();
    let log = Some(log(&chain.directory, &member.name));
    if member.launch.is_empty() {
        let leak = chain.leak.as_ref().filter(|(name, _)| *name == member.name);
        return Part::start(&member.name, &words, log, leak.map(|(_, text)| &**text));
    }
    words.push(BY_STDIN.to_owned());
    Part::launch(&member.name, &member.launch, &words, log)
}

/// Waits until all have ended. The first order to end goes to those that connect to no other one; a further one, or the death of a member, to all.
fn watch(parts: &mut [Started], stop: &Stop, tell: &mut impl FnMut(&str)) {
    let mut told = Urgency::Go;
    let mut until: Option<Instant> = None;
    while !parts.iter_mut().all(|one| one.part.has_ended()) {
        let mut wanted = stop.urgency();
        let fed = fed(parts);
        for at in 0..parts.len() {
            let goes_on = goes_on_without(parts, &fed, at);
            let part = &mut parts[at].part;
            if part.has_ended() && !part.has_finished() && told < Urgency::Hurry {
                tell(&format!("{} has failed, and the chain ends", part.name()));
                wanted = wanted.max(Urgency::Hurry);
            } else if part.has_ended() && !goes_on {
                // Without one of them the others have less to do: those that it fed end with it, and the others are told to.
                wanted = wanted.max(Urgency::Drain);
            }
        }
        if wanted > told {
            told = wanted;
            let all = wanted >= Urgency::Hurry;
            for (one, is_fed) in parts.iter().zip(&fed) {
                // A part that is still delivered to ends when that is over.
                if !one.has_input || all && (!is_fed || wanted == Urgency::Now) {
                    one.part.stop();
                }
            }
            let limit = if all { HURRY_LIMIT } else { END_LIMIT };
            until = Some(Instant::now() + limit);
        }
        if told == Urgency::Now || until.is_some_and(|until| Instant::now() >= until) {
            parts.iter().for_each(|one| one.part.stop());
            break;
        }
        end_the_unfed(parts, &fed);
        std::thread::sleep(LOOK);
    }
}

/// Of each whether a member at work delivers to it.
fn fed(parts: &mut [Started]) -> Vec<bool> {
    let has_ended: Vec<bool> = parts.iter_mut().map(|one| one.part.has_ended()).collect();
    let is_fed = |one: &Started| one.feeders.iter().any(|at| !has_ended[*at]);
    parts.iter().map(is_fed).collect()
}

/// Whether all that one delivered to are still delivered to by others: several sources of one sink need not end together.
fn goes_on_without(parts: &[Started], fed: &[bool], at: usize) -> bool {
    let all = parts.iter().zip(fed);
    let mut consumers = all.filter(|(one, _)| one.feeders.contains(&at)).peekable();
    consumers.peek().is_some() && consumers.all(|(_, is_fed)| *is_fed)
}

/// Those to which nobody delivers any more take what has come, and end.
fn end_the_unfed(parts: &mut [Started], fed: &[bool]) {
    for (one, is_fed) in parts.iter_mut().zip(fed) {
        if !one.feeders.is_empty() && !is_fed && !one.is_told {
            one.is_told = true;
            one.part.stop();
        }
    }
}
