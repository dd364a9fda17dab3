//! The joined books as text.

use super::{Joined, JoinedLink};
use crate::balance::{DropLine, Residual};
use crate::closing::last_words;
use crate::table::{Table, bytes, items};

/// A difference of less than this between two runs is that of their starts and ends, in s.
const APART_S: f64 = 0.05;

impl Joined {
    /// The sheet: the parties with what they lost, every link with both ends, and what does not balance.
    #[must_use]
    pub fn sheet(&self) -> String {
        self.tables() + &self.closing(true)
    }

    /// The sheet without its last words.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut text = String::new();
        for party in &self.parties {
            let verdict = &party.verdict;
            let own = if verdict.closed {
                "its own books close"
            } else {
                "ITS OWN BOOKS DO NOT CLOSE"
            };
            let how = verdict.condition.name();
            text += &format!(
                "{}: run {}, {how} ({}), {own}\n",
                party.name,
                verdict.balance.run_id,
                verdict.reason.name(),
            );
            let lost = verdict.losses_text();
            let lines = party.said.iter().chain(&party.lines).map(String::as_str);
            for line in lines.chain(lost.lines()) {
                text += &format!("  {line}\n");
            }
        }
        text.push('\n');
        text + &self.links_text()
    }

    /// Every link with both ends, and what was lost on it by name.
    #[must_use]
    pub fn links_text(&self) -> String {
        self.table() + &self.lost()
    }

    fn table(&self) -> String {
        let head = [
            "link",
            "which",
            "unit",
            "sent",
            "received",
            "dropped",
            "unconfirmed",
            "unexplained",
        ];
        let mut table = Table::new(3, &head);
        for link in &self.links {
            let [sent, received] = [
                (&link.senders, link.sent.items),
                (&link.receivers, link.received.items),
            ]
            .map(|(who, amount)| {
                if who.is_empty() {
                    "unknown".to_owned()
                } else {
                    items(amount.into())
                }
            });
            table.row(vec![
                link.place.clone(),
                link.which.clone(),
                link.unit.map_or_else(String::new, |unit| unit.to_string()),
                sent,
                received,
                items(total(&link.dropped)),
                items(link.unconfirmed.items.into()),
                link.unexplained
                    .map_or_else(|| "unknown".to_owned(), |left| items(left.items)),
            ]);
        }
        table.render()
    }

    fn lost(&self) -> String {
        let mut text = String::new();
        for link in &self.links {
            for lost in &link.dropped {
                text += &format!(
                    "  {} {}: {} {} lost as {}\n",
                    link.place,
                    link.which,
                    items(lost.items.into()),
                    unit(link),
                    lost.reason
                );
            }
        }
        text
    }

    /// The last words: what is lost, incomplete or unconfirmed at each party, and whether the books balance; `all_read` where nobody's are missing.
    #[must_use]
    pub fn closing(&self, all_read: bool) -> String {
        let mut wrong: Vec<_> = self.links.iter().filter(|link| !link.is_closed()).collect();
        wrong.sort_by_key(|link| std::cmp::Reverse(weight(link)));
        let mut text = String::from("\n");
        for link in self.links.iter().filter(|link| link.underway) {
            let left = link.unexplained.unwrap_or_default();
            text += &format!(
                "{}: on its way when the books end, as one of them did not end by itself.\n",
                what(link, left)
            );
        }
        let unconfirmed = self.links.iter().filter(|link| link.unconfirmed.items > 0);
        unconfirmed.for_each(|link| text += &link.unconfirmed_text());
        if self.closed {
            let parties = self.parties.iter().filter(|party| !party.said.is_empty());
            let said = parties.map(|party| format!("{}: {}", party.name, party.said.join("; ")));
            let said: Vec<String> = said.collect();
            let read = if all_read { "" } else { " that could be read" };
            let books = format!("of all parties{read} balance, link by link");
            return text + &last_words(&said, &books) + "\n";
        }
        text += "THE BOOKS DO NOT BALANCE:\n";
        for link in &wrong {
            text += &match link.unexplained {
                Some(left) => format!(
                    "  {} unexplained, between {} and {}{}\n",
                    what(link, left),
                    link.senders.join(", "),
                    link.receivers.join(", "),
                    link.apart_text(left),
                ),
                None => format!(
                    "  {} {}: {} sent {} {}, and nobody's books here say what came of it\n",
                    link.place,
                    link.which,
                    link.senders.join(", "),
                    items(link.sent.items.into()),
                    unit(link)
                ),
            };
        }
        for party in self.parties.iter().filter(|party| !party.verdict.closed) {
            for offender in &party.verdict.offenders {
                text += &format!("  {}: {offender}\n", party.name);
            }
        }
        if self.links.iter().all(|link| link.unexplained.is_none()) {
            text += "  no link has both of its ends in these books\n";
        }
        text
    }
}

impl JoinedLink {
    /// What no peer acknowledged, and no receiver's books here have.
    fn unconfirmed_text(&self) -> String {
        format!(
            "{} {}: {} {} of {} unconfirmed: they went out, and are in no receiver's books here.\n",
            self.place,
            self.which,
            items(self.unconfirmed.items.into()),
            unit(self),
            self.senders.join(", ")
        )
    }

    /// For how long the senders were at work while no receiver was: what they sent then nobody counted apart.
    fn apart_text(&self, left: Residual) -> String {
        let senders = self.senders.join(", ");
        let (before, after) = (self.sent_before_s, self.sent_after_s);
        let mut text = String::new();
        if before >= APART_S {
            text += &format!("; {senders} sent for {before:.1} s before the receiving run began");
        }
        if after >= APART_S {
            text +=
                &format!("; {senders} went on for {after:.1} s after the end of the receiving run");
        }
        match text.is_empty() || left.items <= 0 {
            true => String::new(),
            false => text + ": what was sent then is among them, and nobody counted it apart",
        }
    }
}

fn total(dropped: &[DropLine]) -> i128 {
    dropped.iter().map(|line| i128::from(line.items)).sum()
}

fn weight(link: &JoinedLink) -> u128 {
    link.unexplained
        .map_or(link.sent.items.into(), |left| left.items.unsigned_abs())
}

fn unit(link: &JoinedLink) -> String {
    link.unit.map_or_else(String::new, |unit| unit.to_string())
}

fn what(link: &JoinedLink, left: Residual) -> String {
    format!(
        "{} {}: {} {}, {}",
        link.place,
        link.which,
        items(left.items),
        unit(link),
        bytes(left.bytes)
    )
}
