//! The receiver stage that subscribes to E-links: each chunk becomes a sub-event in the queue of its source.
//!
//! Publishers wait for this side, so a full queue holds them back, up to the card, and nothing is lost to speed.

mod intake;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use forebay_ledger::{Leak, Taint, TaintKind, Words};
use forebay_link::bytes::{Address, Security};
use forebay_run::error::RunError;
use forebay_run::stage::{Report, StageControl};
use forebay_run_net::{Certificates, Entry, NetError, NetRecord, Settings, Subscriber};
use forebay_sys::clock;

use super::{DRAIN_LIMIT_NS, SLEEP};
use crate::error::EvbError;
use crate::plan::{ElinksPlan, Plan, SourceKey};
use intake::Intake;

/// The subscriber cannot go on.
fn lost(error: NetError) -> EvbError {
    EvbError::Elinks(Box::new(error))
}

/// Runs the stage until all publishers have ended in order or it is told to stop.
///
/// # Errors
/// A part cannot be mapped, the ledger is another run's, or publishers refuse for good what is asked for.
pub(crate) fn run(
    plan: &Plan,
    elinks: &ElinksPlan,
    words: &Words,
    rings: Vec<OwnedFd>,
    control: &StageControl,
    leak: Leak,
) -> Result<(), RunError> {
    let mut intake = Intake::attach(plan, elinks, words, rings, control, leak)?;
    let mut subscriber = subscriber(plan, elinks)?;
    control.ready()?;
    let outcome = serve(&mut subscriber, &mut intake);
    let trouble = (subscriber.connections_made() == 0).then(|| subscriber.trouble());
    // Nothing that comes now would be in a queue and in the books before its publisher hears of it: it is lost by name.
    subscriber.acknowledge().decline();
    let summary = subscriber.finish(Duration::ZERO, |_| {});
    // Whatever hindered the subscriber, the builder gets what came, and hears that nothing more does.
    intake.close();
    outcome?;
    if let Some(why) = trouble {
        let text = format!("E-links: no publisher was there: {why}");
        control.tell(&Report::Warning(text));
    }
    tell(control, &summary.map_err(lost)?);
    Ok(())
}

/// Of all publishers that are named, for the E-links of all sources.
fn subscriber(plan: &Plan, elinks: &ElinksPlan) -> Result<Subscriber, RunError> {
    let parse = |text: &String| {
        text.parse::<Address>()
            .map_err(|_| EvbError::NotInPlan { what: "publisher" }.into())
    };
    let publishers: Vec<Address> = elinks
        .publishers
        .iter()
        .map(parse)
        .collect::<Result<_, RunError>>()?;
    let mut settings = Settings {
        gathers: true,
        ..Settings::default()
    };
    settings.messages.buffer_bytes = elinks.said.buffer_bytes;
    settings.messages.buffer_count = elinks.said.buffer_count;
    // A stage that was killed has left its own behind.
    settings.out = Some(plan.run_dir.join(format!("elinks-{}", std::process::id())));
    settings.security = security(elinks)?;
    let mut subscriber = Subscriber::connect(&publishers, &settings).map_err(lost)?;
    let tags = plan.sources.iter().filter_map(|source| match source.key {
        SourceKey::Elink(tag) => Some(Entry::one(tag)),
        _ => None,
    });
    subscriber.subscribe(&tags.collect::<Vec<_>>());
    Ok(subscriber)
}

fn security(elinks: &ElinksPlan) -> Result<Security, RunError> {
    let said = &elinks.said.security;
    let certificates = said.files().map(|files| Certificates::load(&files));
    let certificates = certificates.transpose();
    let certificates = certificates.map_err(|error| EvbError::from(Box::new(error)))?;
    Ok(said.with(certificates))
}

fn serve(subscriber: &mut Subscriber, intake: &mut Intake<'_>) -> Result<(), RunError> {
    let mut ending = false;
    while !subscriber.has_ended() {
        let mut came = [0; 2];
        subscriber
            .poll_viewed(SLEEP, |viewed| {
                came = [came[0] + 1, came[1] + viewed.payload.len() as u64];
                intake.arrived(viewed.payload.len() as u64);
                intake.take_viewed(&viewed);
            })
            .map_err(lost)?;
        intake.flush();
        // In the queues, and in the books: only now the publishers are told.
        subscriber.acknowledge().taken(came[0], came[1]);
        intake.look_for_order()?;
        let Some(since_ns) = intake.stopped_ns() else {
            continue;
        };
        if !ending {
            ending = true;
            subscriber.begin_end();
        }
        let is_over = clock::monotonic_ns() > since_ns + DRAIN_LIMIT_NS;
        if is_over || subscriber.publishers() == 0 {
            break;
        }
    }
    Ok(())
}

/// What an operator should know of the way here, and whether the books of this end close.
fn tell(control: &StageControl, record: &NetRecord) {
    let lost = record.dropped + record.dropped_at_peers;
    if lost > 0 {
        let drops = record.envelope.drops.iter();
        let mut reasons: BTreeMap<&str, u64> = drops
            .map(|(name, lost)| (name.as_str(), lost.items))
            .collect();
        if record.dropped_at_peers > 0 {
            reasons.insert("dropped_by_publisher", record.dropped_at_peers);
        }
        let text = format!("E-links: {lost} chunks were lost on their way here: {reasons:?}");
        control.tell(&Report::Warning(text));
    }
    let books = &record.envelope.books;
    if !books.is_closed() {
        let text = format!(
            "E-links: {} chunks, {} bytes are left over, {} chunks, {} bytes are left inside",
            books.residual_items, books.residual_bytes, books.left_items, books.left_bytes
        );
        let taint = Taint::new(TaintKind::Residual, text);
        control.tell(&Report::Tainted(taint));
    }
}
