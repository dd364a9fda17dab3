//! The screen: what stays on top, what scrolls, the keys at the bottom.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::page::{Wish, body, head};
use super::view::View;

const KEYS: &str = " q quit   p pause   Tab sources   s sort   ↑↓ PgUp PgDn Home scroll ";

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Draw anew, if anything.
    Stay,
    /// End.
    Quit,
}

/// The screen's own state.
#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) wish: Wish,
    /// First line of the body that is shown.
    scroll: usize,
    /// Lines of the body, and how many fit, at the last drawing.
    lines: usize,
    room: usize,
    /// What went wrong at the last look.
    pub(super) trouble: Option<String>,
}

impl Screen {
    /// Handles a key.
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Stay;
        }
        let page = self.room.max(2) - 1;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Action::Quit;
            }
            KeyCode::Char('p' | ' ') => self.wish.paused = !self.wish.paused,
            KeyCode::Tab | KeyCode::Char('v') => {
                self.wish.sources = !self.wish.sources;
                self.scroll = 0;
            }
            KeyCode::Char('s') => {
                self.wish.order = self.wish.order.next();
                self.scroll = 0;
            }
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(page),
            KeyCode::PageDown => self.scroll += page,
            KeyCode::Home => self.scroll = 0,
            KeyCode::End => self.scroll = self.lines,
            _ => {}
        }
        self.scroll = self.scroll.min(self.lines.saturating_sub(self.room));
        Action::Stay
    }

    /// Draws the view into whatever room there is.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, view: &View) {
        let width = usize::from(frame.area().width);
        let head = head(view, &self.wish, width);
        let body = body(view, &self.wish, width);
        let height = frame.area().height;
        // What does not fit goes: first the keys, then the body, then the head from below.
        let head_rows = (head.len() as u16).min(height);
        let keys_rows = u16::from(height > head_rows + 3);
        let [top, gap, middle, bottom] = Layout::vertical([
            Constraint::Length(head_rows),
            Constraint::Length(u16::from(height > head_rows + 3)),
            Constraint::Min(0),
            Constraint::Length(keys_rows),
        ])
        .areas(frame.area());
        self.lines = body.len();
        self.room = usize::from(middle.height);
        self.scroll = self.scroll.min(self.lines.saturating_sub(self.room));
        frame.render_widget(Paragraph::new(head), top);
        if let Some(trouble) = &self.trouble {
            frame.render_widget(Paragraph::new(trouble.as_str()), gap);
        }
        let shown: Vec<Line<'_>> = body.into_iter().skip(self.scroll).take(self.room).collect();
        frame.render_widget(Paragraph::new(shown), middle);
        frame.render_widget(Paragraph::new(self.footer()), bottom);
    }

    fn footer(&self) -> Line<'static> {
        let below = self.lines.saturating_sub(self.scroll + self.room);
        let more = if below > 0 {
            format!("  {below} more lines below")
        } else {
            String::new()
        };
        Line::styled(
            format!("{KEYS}{more}"),
            Style::new().add_modifier(Modifier::REVERSED),
        )
    }
}
