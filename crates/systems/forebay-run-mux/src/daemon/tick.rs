//! What is done ten times a second: books are shown, and what has changed of the card is told.

use forebay_run::Host;

use super::Daemon;
use crate::books::Books;
use crate::driver::{Change, Link};

impl Daemon {
    /// Shows the books, and tells of the card.
    pub(super) fn tick(&mut self, host: &Host, books: &mut Books) {
        for change in self.card_changes() {
            host.say(format_args!("{change}"));
        }
        self.answers.held = self.answers_given();
        let (mux, driver) = (&self.mux, &mut self.driver);
        let shown = books.show(&self.plan, mux, driver, &self.answers);
        if let Err(error) = &shown
            && !self.is_unread
        {
            host.warn(&format!("the card's counts cannot be read: {error}"));
        }
        self.is_unread = shown.is_err();
    }

    /// What is different of the card since the last time, in words.
    pub(super) fn card_changes(&mut self) -> Vec<String> {
        let now = self.driver.card.look();
        let name = self.driver.card.name();
        let longest = self.sizes.mtu_bytes;
        let changes = self.watch.observe(now);
        changes.map(|change| told(name, change, longest)).collect()
    }
}

/// A change in words; what to do about it, where there is something. Frames of clients are made for packets of so many bytes at most.
fn told(name: &str, change: Change, longest: u32) -> String {
    match change {
        Change::Link { to: Link::Up, .. } => format!("{name} is up"),
        Change::Link {
            to: Link::NoCarrier,
            ..
        } => {
            format!("{name} has no carrier: what clients send is lost until it is back")
        }
        Change::Link { to: Link::Down, .. } => {
            format!("{name} is down: what clients send is lost until it is up")
        }
        Change::Link { to: Link::Gone, .. } => format!("{name} is gone"),
        Change::Mtu { from, to } if to > longest => format!(
            "{name} has an MTU of {to} bytes instead of {from}: clients have frames for {longest}, longer ones are dropped until the multiplexer is started again"
        ),
        Change::Mtu { from, to } => format!("{name} has an MTU of {to} bytes instead of {from}"),
        Change::Mac { from, to } => format!("{name} has the address {to} instead of {from}"),
    }
}
