//! The live view: looks at the ledger now and then, draws, and listens to keys and stop.

use std::mem::ManuallyDrop;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_ledger::LedgerReader;
use forebay_run::run_dir::open_ledger;
use forebay_run::{Input, Stop, wait_input};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::sample::Sample;
use super::screen::{Action, Screen};
use super::view::{State, View, Watch};

/// How long a key or a signal may wait.
const REACTION: Duration = Duration::from_millis(100);

/// How long the terminal may take to be given back after a signal, before the program ends as it is.
const FAREWELL: Duration = Duration::from_secs(2);
/// Exit code of an end by a signal that could not be served in order.
const ENDED_BY_SIGNAL: i32 = 129;

/// Shows the run until a key or a signal ends it, or the terminal is gone. The terminal is restored then, and also when the program
/// fails.
pub fn watch(path: &Path, reader: LedgerReader, interval: Duration) -> Result<()> {
    let stop = Stop::of_process()?;
    guard(stop.clone())?;
    // Also sets a hook that restores the terminal before a panic is told.
    let terminal = match ratatui::try_init() {
        // It hung up while it was taken.
        Err(_) if gone() => return Ok(()),
        taken => taken.context("cannot take the terminal; use --once")?,
    };
    // When dropped it shows the cursor, and says so on a terminal that may be gone, which would be a panic.
    let mut terminal = ManuallyDrop::new(terminal);
    let mut looker = Looker {
        path,
        reader,
        watch: Watch::default(),
        interval,
    };
    let end = run(&mut terminal, &mut looker, &stop);
    if matches!(end, Ok(End::Gone)) || gone() {
        // Nobody is there whose terminal could be restored; an error is that of writing to it.
        return Ok(());
    }
    let restored = terminal
        .show_cursor()
        .and_then(|()| ratatui::try_restore())
        .context("cannot restore the terminal; `reset` does");
    end.map(drop).and(restored)
}

/// Whether the terminal has hung up.
fn gone() -> bool {
    wait_input(std::io::stdin(), Duration::ZERO) == Input::Gone
}

/// Ends the program some time after a signal or a hang-up: the reader of keys turns for ever when its terminal vanishes while it reads.
fn guard(stop: Stop) -> Result<()> {
    let wait = move || {
        let code = loop {
            if stop.is_asked() {
                break ENDED_BY_SIGNAL;
            }
            if gone() {
                break 0;
            }
            std::thread::sleep(REACTION);
        };
        std::thread::sleep(FAREWELL);
        std::process::exit(code);
    };
    let thread = std::thread::Builder::new().name("guard".into());
    thread.spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// Why the view ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Asked,
    Gone,
}

fn run(terminal: &mut DefaultTerminal, looker: &mut Looker<'_>, stop: &Stop) -> Result<End> {
    let mut screen = Screen::default();
    let mut view = looker.look()?;
    let mut next = Instant::now() + looker.interval;
    loop {
        terminal.draw(|frame| screen.draw(frame, &view))?;
        let left = next.saturating_duration_since(Instant::now());
        let input = wait_input(std::io::stdin(), left.min(REACTION));
        if stop.is_asked() {
            return Ok(End::Asked);
        }
        if input == Input::Gone {
            return Ok(End::Gone);
        }
        // Asked also when nothing came: a change of the terminal's size is no input.
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && screen.handle_key(key) == Action::Quit
            {
                return Ok(End::Asked);
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + looker.interval;
            if !screen.wish.paused {
                screen.trouble = looker.refresh(&mut view);
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
    /// Looks again; tells what went wrong, and leaves the view as it was then.
    fn refresh(&mut self, view: &mut View) -> Option<String> {
        match self.look() {
            Ok(new) => {
                *view = new;
                None
            }
            Err(error) => Some(format!("{error:#}")),
        }
    }

    fn look(&mut self) -> Result<View> {
        let view = self.watch.view(Sample::take(&self.reader)?);
        if view.state == State::Live {
            return Ok(view);
        }
        // Another run may have begun in the same directory.
        match open_ledger(self.path) {
            Ok(reader) if reader.run_id() != self.reader.run_id() => {
                self.reader = reader;
                self.watch = Watch::default();
                Ok(self.watch.view(Sample::take(&self.reader)?))
            }
            _ => Ok(view),
        }
    }
}
