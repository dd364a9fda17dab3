//! The senders of a session of time-division UDP: its ledger has their places alone, its record their names and what is not known of them.

use anyhow::Result;
use forebay_ledger::Verdict;
use forebay_run::record::RecordView;
use serde_json::{Value, json};

/// Of each, what the record says; none where a ledger is of something else, or its run has left no record yet.
#[derive(Default)]
pub(super) struct Senders(Vec<Value>);

impl Senders {
    /// By the record of the run.
    pub(super) fn of(record: &RecordView) -> Self {
        let senders = record.get("by_sender").as_array();
        Self(senders.cloned().unwrap_or_default())
    }

    /// Owner of accounts, name, and what is not known.
    fn told(&self) -> impl Iterator<Item = (String, &str, &Value)> {
        let senders = self.0.iter().enumerate();
        senders.filter_map(|(at, sender)| {
            let owner = format!("sender{at}");
            Some((owner, sender["name"].as_str()?, sender))
        })
    }

    /// The verdict as one JSON object, with the name of each owner.
    pub(super) fn json(&self, verdict: &Verdict) -> Result<Value> {
        let mut told = serde_json::to_value(verdict)?;
        let senders = self.told().map(|(owner, name, sender)| {
            json!({"owner": owner, "name": name, "sent_known": sender["sent_known"], "not_known": sender["not_known"]})
        });
        let senders: Vec<Value> = senders.collect();
        if let (Some(object), false) = (told.as_object_mut(), senders.is_empty()) {
            object.insert("senders".to_owned(), senders.into());
        }
        Ok(told)
    }

    /// The verdict with their names in the place of those of their places.
    pub(super) fn named(&self, verdict: &Verdict) -> Verdict {
        let mut named = verdict.clone();
        let rename = |owner: &mut String| {
            if let Some((_, name, _)) = self.told().find(|(of, ..)| of == owner) {
                name.clone_into(owner);
            }
        };
        let accounts = named.balance.accounts.iter_mut();
        accounts.for_each(|line| rename(&mut line.owner));
        named
            .offenders
            .iter_mut()
            .for_each(|it| rename(&mut it.owner));
        named
            .underway
            .iter_mut()
            .for_each(|it| rename(&mut it.owner));
        named
    }

    /// What is not known of them.
    pub(super) fn not_known(&self) -> String {
        let texts = self.told();
        let texts = texts.filter_map(|(.., sender)| sender["not_known"].as_str());
        texts.map(|text| format!("{text}.\n")).collect()
    }
}
