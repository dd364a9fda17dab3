//! The joined books as text.

use super::{Joined, JoinedLink};
use crate::balance::{DropLine, Residual};
use crate::table::{Table, bytes, items};

impl Joined {
    /// The sheet: the parties, every link with both ends, and what does not balance.
    #[must_use]
    pub fn sheet(&self) -> String {
        let mut text = String::new();
        for party in &self.parties {
            let verdict = &party.verdict;
            let own = if verdict.closed {
                "its own books close"
            } else {
                "ITS OWN BOOKS DO NOT CLOSE"
            };
            text += &format!(
                "{}: run {}, {} ({}), {own}\n",
                party.name,
                verdict.balance.run_id,
                verdict.condition.name(),
                verdict.reason.name(),
            );
        }
        text.push('\n');
        text += &self.table();
        text += &self.lost();
        text += &self.verdict_text();
        text
    }

    fn table(&self) -> String {
        let head = [
            "link",
            "which",
            "unit",
            "sent",
            "received",
            "dropped",
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

    fn verdict_text(&self) -> String {
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
        if self.closed {
            text += "The books of all parties balance, link by link.\n";
            return text;
        }
        text += "THE BOOKS DO NOT BALANCE:\n";
        for link in &wrong {
            text += &match link.unexplained {
                Some(left) => format!(
                    "  {} unexplained, between {} and {}\n",
                    what(link, left),
                    link.senders.join(", "),
                    link.receivers.join(", ")
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
