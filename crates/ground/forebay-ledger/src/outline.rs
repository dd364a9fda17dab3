//! What a schema declares, as a list for people: accounts and links without their numbers.

use crate::directory::Directory;
use crate::schema::Schema;
use crate::snapshot::LedgerReader;
use crate::unit::Unit;

/// An account as it was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountOutline {
    /// Where.
    pub place: String,
    /// Whose.
    pub owner: String,
    /// What an item is.
    pub unit: Unit,
    /// The reasons for which an item can be lost here, in their order.
    pub reasons: Vec<String>,
    /// Whether one observer sees all of its terms: it is not balanced.
    pub one_observer: bool,
    /// Whether the peer says what it has acknowledged.
    pub is_confirmed: bool,
}

/// A link as it was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOutline {
    /// Where.
    pub place: String,
    /// Whose.
    pub owner: String,
    /// Places of the accounts whose `out` enters it, each once; none where the sender is foreign.
    pub from: Vec<String>,
    /// Places of the accounts whose `in` comes out of it, each once.
    pub to: Vec<String>,
    /// The reasons for which an item can be lost in it.
    pub reasons: Vec<String>,
    /// Whether its two ends count what went in and came out, which tells what is in flight.
    pub has_in_flight: bool,
}

/// All accounts and links of a schema, in the order of their declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The accounts.
    pub accounts: Vec<AccountOutline>,
    /// The links.
    pub links: Vec<LinkOutline>,
}

impl Outline {
    pub(crate) fn of(directory: &Directory) -> Self {
        let accounts = directory.accounts.iter().enumerate();
        let accounts = accounts.map(|(id, entry)| AccountOutline {
            place: entry.place.clone(),
            owner: entry.owner.clone(),
            unit: entry.unit,
            reasons: directory.reasons[entry.reasons as usize].clone(),
            one_observer: entry.one_observer,
            is_confirmed: directory
                .confirmed
                .iter()
                .any(|confirmed| confirmed.account as usize == id),
        });
        let links = directory.links.iter().map(|entry| LinkOutline {
            place: entry.place.clone(),
            owner: entry.owner.clone(),
            from: places(directory, &entry.from),
            to: places(directory, &entry.to),
            reasons: entry.drops.iter().map(|drop| drop.reason.clone()).collect(),
            has_in_flight: entry.in_flight.is_some(),
        });
        Self {
            accounts: accounts.collect(),
            links: links.collect(),
        }
    }
}

impl Schema {
    /// Lists what is declared.
    #[must_use]
    pub fn outline(&self) -> Outline {
        Outline::of(&self.directory)
    }
}

impl LedgerReader {
    /// Lists what is declared.
    #[must_use]
    pub fn outline(&self) -> Outline {
        Outline::of(self.directory())
    }
}

fn places(directory: &Directory, accounts: &[u32]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    for &account in accounts {
        let place = &directory.accounts[account as usize].place;
        if !places.contains(place) {
            places.push(place.clone());
        }
    }
    places
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{LinkSpec, Lossless, RunWriter, SchemaBuilder, Words, reasons};

    reasons! {
        /// Why packets do not go out.
        enum Refused {
            Refused = "refused",
        }
    }

    reasons! {
        /// Why packets are not taken.
        enum Late {
            Late = "late",
        }
    }

    #[test]
    fn all_that_was_declared_is_listed() {
        let mut schema = SchemaBuilder::new("run 7");
        let group = schema.group("near");
        let far = schema.group("far");
        let (sent, _) = schema.account::<Refused>(group, "send", "a", Unit::Packets);
        let (more, _) = schema.account::<Lossless>(group, "send", "b", Unit::Packets);
        let (came, _) = schema.unbalanced_account::<Late>(far, "come", "all", Unit::Packets);
        schema.confirmed(sent);
        let ends = [(group, "published"), (far, "taken")];
        let [near, distant] = ends.map(|(group, name)| schema.cursor_tally(group, name));
        let lost = schema.link_drop(far);
        let wire = LinkSpec::new("wire", "all").from(sent).from(more).to(came);
        schema.link(wire.drops("cut", lost).in_flight(near, distant));
        let schema = schema.finish().unwrap();
        let outline = schema.outline();
        let text = |of: &[&str]| of.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let account = |place: &str, owner: &str, reasons: &[&str], one_observer, is_confirmed| {
            AccountOutline {
                place: place.to_owned(),
                owner: owner.to_owned(),
                unit: Unit::Packets,
                reasons: text(reasons),
                one_observer,
                is_confirmed,
            }
        };
        let accounts = vec![
            account("send", "a", &["refused"], false, true),
            account("send", "b", &[], false, false),
            account("come", "all", &["late"], true, false),
        ];
        assert_eq!(outline.accounts, accounts);
        let link = LinkOutline {
            place: "wire".to_owned(),
            owner: "all".to_owned(),
            from: text(&["send"]),
            to: text(&["come"]),
            reasons: text(&["cut"]),
            has_in_flight: true,
        };
        assert_eq!(outline.links, [link]);

        let words = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &words, 1, 0).unwrap();
        let reader = LedgerReader::open(&words).unwrap();
        assert_eq!(reader.outline(), outline, "from the file alone");
    }
}
