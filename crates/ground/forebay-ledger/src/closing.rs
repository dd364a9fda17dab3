//! The last words of a verdict: what was lost and what is not whole before all, and then how the books are.

use std::collections::BTreeMap;

use crate::audit::{Offender, Phase, Verdict};
use crate::balance::Amount;
use crate::moment::Moment;
use crate::sheet::{FINDINGS_SHOWN, more};
use crate::table::{bytes, items};
use crate::unit::Unit;

/// What begins what is said of messages and packets that no peer has acknowledged: their number is known, and no more.
const UNCONFIRMED: &str = "Unconfirmed: ";

/// The reason of what nobody had asked for: that is no loss.
pub const NO_SUBSCRIBER: &str = "no_subscriber";

/// What is said of a program in whose books nothing came in.
const NOTHING_CAME: &str = "Nothing came";

/// The last words of a program whose books are sound: what was lost and what is not whole (`said`) before all, and then how the books are, as `close`.
#[must_use]
pub fn last_words(said: &[String], books: &str) -> String {
    let is = match said.iter().any(|words| words.contains(UNCONFIRMED)) {
        true => "counted",
        false => "accounted for",
    };
    match said {
        [] => format!("The books {books}."),
        _ => format!("{}. All of it is {is}: the books {books}.", said.join("; ")),
    }
}

impl Verdict {
    /// The last words: what was lost and what is incomplete, `first` before all, and then whether all of it is accounted for.
    #[must_use]
    pub fn closing(&self, first: &[String]) -> String {
        if !self.closed {
            return self.offenders_text();
        }
        let verb = match self.phase {
            Phase::Running => "are within their bounds",
            Phase::Interrupted if !self.underway.is_empty() => "close but for what was in flight",
            Phase::Interrupted | Phase::Ended => "close",
        };
        let unknown = match self.unknown_links.len() {
            0 => String::new(),
            1 => " (1 sender keeps no books: unknown)".to_owned(),
            n => format!(" ({n} senders keep no books: unknown)"),
        };
        let then = self.as_of_ns.map_or("", |_| ", as of then");
        let mut said = first.to_vec();
        said.extend(self.said());
        let is_new = !said.iter().any(|words| words.starts_with(NOTHING_CAME));
        let nothing = match self.phase != Phase::Running && self.is_empty() && is_new {
            true => format!("{NOTHING_CAME}. "),
            false => String::new(),
        };
        let books = last_words(&said, &format!("{verb}{then}{unknown}"));
        format!("{}{nothing}{books}\n", self.as_of_text())
    }

    /// What was lost by name, and what went out that no peer has acknowledged.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        let unconfirmed = self.unconfirmed_words();
        // What is on its way in a live run is no trouble.
        let unconfirmed = unconfirmed.filter(|_| self.phase != Phase::Running);
        let texts = self.lost_text().into_iter().chain(self.unwanted_text());
        texts.chain(unconfirmed).collect()
    }

    /// Whether nothing came in at any place.
    fn is_empty(&self) -> bool {
        let mut accounts = self.balance.accounts.iter();
        let is_empty = accounts.all(|line| line.incoming == Amount::default());
        is_empty && !self.balance.accounts.is_empty() && self.said().is_empty()
    }

    /// What was lost by name, by unit.
    fn lost_text(&self) -> Option<String> {
        let sums = self.dropped(|reason| reason != NO_SUBSCRIBER)?;
        Some(format!("Lost by name: {sums}"))
    }

    /// What nobody had asked for, by unit.
    fn unwanted_text(&self) -> Option<String> {
        let sums = self.dropped(|reason| reason == NO_SUBSCRIBER)?;
        Some(format!("Not subscribed: {sums}, nobody had asked for them"))
    }

    /// What was dropped for such reasons, by unit; nothing where nothing was.
    fn dropped(&self, is_counted: impl Fn(&str) -> bool) -> Option<String> {
        let accounts = self.balance.accounts.iter();
        let accounts = accounts.map(|line| (line.unit, &line.dropped));
        let links = self.balance.links.iter();
        let lines = accounts.chain(links.map(|line| (line.unit, &line.dropped)));
        let losses = lines.flat_map(|(unit, lost)| lost.iter().map(move |loss| (unit, loss)));
        let mut sums: Vec<(Unit, i128, i128)> = Vec::new();
        for (unit, loss) in losses.filter(|(_, loss)| is_counted(&loss.reason)) {
            let at = sums.iter().position(|sum| sum.0 == unit);
            let at = at.unwrap_or_else(|| {
                sums.push((unit, 0, 0));
                sums.len() - 1
            });
            sums[at].1 += i128::from(loss.items);
            sums[at].2 += i128::from(loss.items_max);
        }
        let sums = sums.iter().filter(|(_, _, most)| *most > 0);
        let texts = sums.map(|(unit, least, most)| match least == most {
            true => format!("{} {unit}", items(*least)),
            false => format!("{} to {} {unit}", items(*least), items(*most)),
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// What went out and no peer has acknowledged, by unit; nothing where all is.
    fn unconfirmed_words(&self) -> Option<String> {
        let mut sums: BTreeMap<Unit, Amount> = BTreeMap::new();
        for line in &self.unconfirmed {
            sums.entry(line.unit).or_default().add(line.amount);
        }
        let text = |(unit, sum): (&Unit, &Amount)| {
            format!(
                "{} {unit} ({})",
                items(sum.items.into()),
                bytes(sum.bytes.into())
            )
        };
        let texts: Vec<String> = sums.iter().map(text).collect();
        let texts = texts.join(", ");
        (!sums.is_empty())
            .then(|| format!("{UNCONFIRMED}{texts} went out, and no peer said what became of them"))
    }

    fn offenders_text(&self) -> String {
        let lines = self
            .offenders
            .iter()
            .take(FINDINGS_SHOWN)
            .map(|line| format!("  {line}\n"));
        let lines: String = lines.collect();
        format!(
            "{}THE BOOKS DO NOT CLOSE:\n{}{lines}{}",
            self.as_of_text(),
            self.offending_places_text(),
            more(self.offenders.len())
        )
    }

    /// What is to be known of the books of a run that was killed.
    fn as_of_text(&self) -> String {
        self.as_of_ns.map_or_else(String::new, |ns| {
            format!(
                "The run did not end by itself: it was killed, or its host went down.\nIts last sign of life is of {}; what it did after its books were \
                 last written is in none.\n",
                Moment(ns)
            )
        })
    }

    /// The sum of each place where several owners' lines do not close.
    fn offending_places_text(&self) -> String {
        let mut places: Vec<(Offender, usize)> = Vec::new();
        for line in &self.offenders {
            let of_place = |sum: &&mut (Offender, usize)| {
                (&sum.0.place, sum.0.unit, sum.0.fault) == (&line.place, line.unit, line.fault)
            };
            match places.iter_mut().find(of_place) {
                Some((sum, owners)) => {
                    sum.residual.items += line.residual.items;
                    sum.residual.bytes += line.residual.bytes;
                    *owners += 1;
                }
                None => places.push((line.clone(), 1)),
            }
        }
        let sums = places.into_iter().filter(|(_, owners)| *owners > 1);
        sums.map(|(mut sum, owners)| {
            sum.owner = format!("({owners} owners together)");
            format!("  {sum}\n")
        })
        .collect()
    }
}
