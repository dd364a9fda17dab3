//! Looks at the load and at the daemon while both are at work, and makes the change half-way.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use forebay_run_mux::control::{Changed, Control};

use super::span::{Reading, Span};
use super::{DemoOptions, Ground};
use crate::child::Booked;
use crate::mux::session::Watch;

/// What was counted is told so often; ten times in a short run.
const TELL: Duration = Duration::from_secs(1);
/// The load shows its books ten times a second: two looks of it.
const SHOWN: Duration = Duration::from_millis(200);

pub(super) struct Watching<'a> {
    options: &'a DemoOptions,
    ground: &'a Ground,
    control: PathBuf,
    tell: &'a mut dyn FnMut(&Span),
    begun: Option<Instant>,
    /// What was told last, and when.
    told: Option<(Instant, Reading)>,
    /// Where the half that is measured now begins.
    open: Option<Reading>,
    /// When the change was made.
    changed_at: Option<Instant>,
    changed: Vec<Changed>,
    before: Option<Span>,
    after: Option<Span>,
}

impl<'a> Watching<'a> {
    pub(super) fn new(
        options: &'a DemoOptions,
        ground: &'a Ground,
        control: PathBuf,
        tell: &'a mut dyn FnMut(&Span),
    ) -> Self {
        Self {
            options,
            ground,
            control,
            tell,
            begun: None,
            told: None,
            open: None,
            changed_at: None,
            changed: Vec::new(),
            before: None,
            after: None,
        }
    }

    /// What the daemon said it changed.
    pub(super) fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// Before the change, and after it.
    pub(super) fn spans(self) -> (Option<Span>, Option<Span>) {
        (self.before, self.after)
    }

    fn begun(&mut self) -> Instant {
        *self.begun.get_or_insert_with(Instant::now)
    }

    fn read(&mut self, load: &Booked) -> Result<Reading> {
        let status = Control::connect(&self.control)?.status()?;
        let dropped = self.ground.dropped_back()?;
        let at_s = self.begun().elapsed().as_secs_f64();
        Reading::of(at_s, &load.snapshot()?, &status, dropped)
    }

    fn tell(&mut self, load: &Booked) -> Result<()> {
        let apart = TELL.min(self.options.duration / 10);
        let told = self.told.take();
        self.told = match told {
            Some((at, before)) if at.elapsed() >= apart => {
                let now = self.read(load)?;
                (self.tell)(&now.since(&before));
                Some((Instant::now(), now))
            }
            Some(told) => Some(told),
            None => Some((Instant::now(), self.read(load)?)),
        };
        Ok(())
    }

    /// When what is counted is that of the present policy alone: at the begin, and after the change, the line's queue fills or empties.
    fn settles_at(&self, begun: Instant) -> Instant {
        let most = self.options.duration / 4;
        let settle = self
            .options
            .empties_in()
            .unwrap_or(most)
            .saturating_add(SHOWN);
        self.changed_at.unwrap_or(begun) + settle.min(most)
    }

    /// The half ends here; none where it has not begun.
    fn half(&mut self, load: &Booked) -> Result<Option<Span>> {
        let Some(open) = self.open.take() else {
            return Ok(None);
        };
        let span = self.read(load)?.since(&open);
        // What is counted is shown from time to time: in less than that there is nothing to be seen.
        let is_long = span.to_s - span.from_s >= SHOWN.as_secs_f64();
        let is_asked = span.clients.iter().all(|client| client.asked_packets > 0);
        Ok(Some(span).filter(|_| is_long && is_asked))
    }

    fn change(&mut self) -> Result<()> {
        let control = Control::connect(&self.control)?;
        let changed = control.set(self.options.change());
        self.changed = changed.context("changing the policy")?;
        self.changed_at = Some(Instant::now());
        Ok(())
    }
}

impl Watch for Watching<'_> {
    fn look(&mut self, load: &Booked, _: &[Booked]) -> Result<()> {
        let begun = self.begun();
        self.tell(load)?;
        if self.open.is_none() && Instant::now() >= self.settles_at(begun) {
            self.open = Some(self.read(load)?);
        }
        if self.changed_at.is_none() && begun.elapsed() >= self.options.duration / 2 {
            self.before = self.half(load)?;
            self.change()?;
        }
        Ok(())
    }

    fn over(&mut self, load: &Booked, _: &[Booked]) -> Result<()> {
        let half = self.half(load)?;
        match self.changed_at {
            None => self.before = half,
            Some(_) => self.after = half,
        }
        Ok(())
    }
}
