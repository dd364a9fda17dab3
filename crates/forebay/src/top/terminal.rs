//! The live view: looks at the ledger now and then, draws, and listens to keys and signals.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_ledger::LedgerReader;
use forebay_run::run_dir::open_ledger;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::sample::Sample;
use super::screen::{Action, Screen};
use super::view::{State, View, Watch};

/// How long a key or a signal may wait.
const REACTION: Duration = Duration::from_millis(100);

/// Shows the run until a key or a signal ends it. The terminal is restored then, and also when the program fails.
pub(super) fn watch(path: &Path, reader: LedgerReader, interval: Duration) -> Result<()> {
    let signals = forebay_run::signals()?;
    // Also sets a hook that restores the terminal before a panic is told.
    let mut terminal = ratatui::try_init().context("cannot take the terminal; use --once")?;
    let mut looker = Looker {
        path,
        reader,
        watch: Watch::new(),
        interval,
    };
    let done = run(&mut terminal, &mut looker, &signals);
    let restored = ratatui::try_restore().context("cannot restore the terminal; `reset` does");
    done.and(restored)
}

fn run(
    terminal: &mut DefaultTerminal,
    looker: &mut Looker<'_>,
    signals: &forebay_run::StopSignals,
) -> Result<()> {
    let mut screen = Screen::default();
    let mut view = looker.look()?;
    let mut next = Instant::now() + looker.interval;
    loop {
        terminal.draw(|frame| screen.draw(frame, &view))?;
        let wait = next.saturating_duration_since(Instant::now()).min(REACTION);
        while event::poll(if signals.count() > 0 {
            Duration::ZERO
        } else {
            wait
        })? {
            // A change of size only needs a new drawing.
            if let Event::Key(key) = event::read()?
                && screen.handle_key(key) == Action::Quit
            {
                return Ok(());
            }
            terminal.draw(|frame| screen.draw(frame, &view))?;
            if Instant::now() >= next {
                break;
            }
        }
        if signals.count() > 0 {
            return Ok(());
        }
        if Instant::now() >= next {
            next = Instant::now() + looker.interval;
            if !screen.wish.paused {
                screen.trouble = match looker.look() {
                    Ok(new) => {
                        view = new;
                        None
                    }
                    Err(error) => Some(format!("{error:#}")),
                };
            }
        }
    }
}

/// Looks at the newest run of a directory.
struct Looker<'a> {
    path: &'a Path,
    reader: LedgerReader,
    watch: Watch,
    interval: Duration,
}

impl Looker<'_> {
    fn look(&mut self) -> Result<View> {
        let view = self.watch.view(Sample::take(&self.reader)?);
        if view.state == State::Live {
            return Ok(view);
        }
        // Another run may have begun in the same directory.
        match open_ledger(self.path) {
            Ok(reader) if reader.run_id() != self.reader.run_id() => {
                self.reader = reader;
                self.watch = Watch::new();
                Ok(self.watch.view(Sample::take(&self.reader)?))
            }
            _ => Ok(view),
        }
    }
}
