//! Other settings of a multiplexer at work: read by the declarations of its file, and all of them or none.

use std::collections::BTreeMap;

use forebay_config::block::amount;
use forebay_config::{Document, Sections, Source};
use forebay_settings::{Got, Key, Kind, Settings};
use serde_json::Value;

use super::{Change, Changed, Mistake, Target};
use crate::config::{ClassSettings, ClientSettings, readers};
use crate::plan::MuxPlan;

/// What holds without the key.
const DEFAULT: &str = "default";
const CLIENT: Sections = &[ClientSettings::SECTION];
const CLASS: Sections = &[ClassSettings::SECTION];
/// Keys of a client that can be changed while it is there. The others say what it is, and which frames are for it.
const OF_CLIENTS: &[&str] = &[
    "queue",
    "guarantee",
    "class",
    "transmit_queue",
    "sojourn_max_us",
    "rate_bps",
    "burst_bytes",
    "level",
    "quantum_bytes",
    "slot_offset_us",
    "slot_us",
];

/// A setting with its client or class.
struct At<'a> {
    of: &'a Target,
    key: &'a str,
    value: &'a str,
}

impl At<'_> {
    fn wrong(
        &self,
        wrong: impl Into<String>,
        right: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Mistake {
        Mistake {
            of: self.of.to_string(),
            key: self.key.to_owned(),
            value: self.value.to_owned(),
            wrong: wrong.into(),
            right: right.into(),
            remedy: remedy.into(),
        }
    }
}

impl MuxPlan {
    /// The plan with other settings, and what they were and are; this one stays as it is. A value that the policy of its class does not read now is refused when it is said;
    /// one that was said before waits for a policy that reads it.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn changed(&self, changes: &[Change]) -> Result<(Self, Vec<Changed>), Vec<Mistake>> {
        let mut new = self.clone();
        if new.classes.is_empty() {
            new.classes.push(ClassSettings::default());
        }
        let mut mistakes = Vec::new();
        if changes.iter().all(|change| change.keys.is_empty()) {
            mistakes.push(nothing());
        }
        for change in changes {
            mistakes.extend(new.take(change).err().into_iter().flatten());
        }
        if mistakes.is_empty() {
            let said = changes.iter().flat_map(said);
            mistakes.extend(said.filter_map(|at| new.beyond_queue(&at)));
        }
        if mistakes.is_empty() {
            let said = changes.iter().flat_map(said);
            mistakes.extend(said.filter_map(|at| new.idle(&at)));
        }
        if mistakes.is_empty()
            && let Err(error) = new.check()
        {
            mistakes.push(Mistake {
                of: String::new(),
                key: String::new(),
                value: String::new(),
                wrong: error.to_string(),
                right: "clients and classes that go together".into(),
                remedy: "change the value that is named".into(),
            });
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let said = changes.iter().flat_map(said);
        let changed = said.map(|at| Changed {
            of: at.of.clone(),
            key: at.key.to_owned(),
            before: self.value(at.of, at.key),
            now: new.value(at.of, at.key),
        });
        let changed = changed.collect();
        Ok((new, changed))
    }

    fn place_of(&self, name: &str) -> Option<usize> {
        let mut clients = self.clients.iter();
        clients.position(|said| said.name.as_deref() == Some(name))
    }

    /// The value of a key; none where it is left out and nothing stands for it.
    fn value(&self, of: &Target, key: &str) -> Value {
        match of {
            Target::Client(name) => {
                let client = self.place_of(name).and_then(|at| self.clients.get(at));
                json(client.and_then(|said| said.get(key)))
            }
            Target::Class(number) => {
                let usual = ClassSettings::default();
                let class = self.classes.get(*number as usize);
                json(class.unwrap_or(&usual).get(key))
            }
        }
    }

    /// Takes the settings of one client or class, each right by itself.
    fn take(&mut self, change: &Change) -> Result<(), Vec<Mistake>> {
        match &change.of {
            Target::Client(name) => {
                let Some(place) = self.place_of(name) else {
                    let names = self.clients.iter().filter_map(|it| it.name.as_deref());
                    let names: Vec<_> = names.collect();
                    return Err(vec![nobody(&change.of, &names.join(", "))]);
                };
                let client = &mut self.clients[place];
                *client = merged(client, change, CLIENT, OF_CLIENTS)?;
            }
            Target::Class(number) => {
                let last = self.classes.len() - 1;
                let Some(class) = self.classes.get_mut(*number as usize) else {
                    return Err(vec![nobody(&change.of, &format!("0 to {last}"))]);
                };
                let keys: Vec<_> = ClassSettings::SECTION
                    .keys
                    .iter()
                    .map(|it| it.name)
                    .collect();
                *class = merged(class, change, CLASS, &keys)?;
            }
        }
        Ok(())
    }

    /// What is wrong with a guarantee or a queue that do not go together.
    fn beyond_queue(&self, at: &At<'_>) -> Option<Mistake> {
        let Target::Client(name) = at.of else {
            return None;
        };
        let client = &self.clients[self.place_of(name)?];
        let [wrong, right, remedy] = client.beyond_queue(at.key)?;
        Some(at.wrong(&wrong, right, &remedy))
    }

    /// What is wrong with a setting that nothing reads.
    fn idle(&self, at: &At<'_>) -> Option<Mistake> {
        if at.value == DEFAULT {
            return None;
        }
        let class = match at.of {
            Target::Client(name) => self.clients[self.place_of(name)?].class.into(),
            Target::Class(number) => *number as usize,
        };
        let right = format!("no {} here", at.key);
        if at.key == "guard_us" && class == 0 {
            let wrong = "it has no meaning here: no class goes before the first one";
            return Some(at.wrong(wrong, right, "take it out"));
        }
        let policy = self.classes.get(class)?.policy;
        let readers = readers(at.key)?;
        if readers.contains(&policy) {
            return None;
        }
        let names: Vec<_> = readers.iter().map(|reader| reader.name()).collect();
        let (policy, names) = (policy.name(), names.join(" or "));
        let wrong = format!(
            "it has no meaning here: class {class} has the policy {policy}, and {} is of {names}",
            at.key
        );
        let remedy = format!(
            "take it out, or add class {class} policy={}",
            readers[0].name()
        );
        Some(at.wrong(wrong, right, remedy))
    }
}

fn said(change: &Change) -> impl Iterator<Item = At<'_>> {
    let of = &change.of;
    let keys = change.keys.iter();
    keys.map(move |(key, value)| At { of, key, value })
}

fn nothing() -> Mistake {
    Mistake {
        of: String::new(),
        key: String::new(),
        value: String::new(),
        wrong: "nothing is said to be set".into(),
        right: "a client or a class with KEY=VALUE behind it".into(),
        remedy: "add one, as client a rate_bps=100M".into(),
    }
}

fn nobody(of: &Target, right: &str) -> Mistake {
    Mistake {
        of: of.to_string(),
        key: String::new(),
        value: String::new(),
        wrong: "there is none".into(),
        right: right.to_owned(),
        remedy: "choose one of them; `forebay mux status` lists them".into(),
    }
}

/// The settings with those that are said, each within its limits.
fn merged<S: Settings>(
    old: &S,
    change: &Change,
    sections: Sections,
    free: &[&str],
) -> Result<S, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut lines = Vec::new();
    for at in said(change) {
        let Some(key) = S::SECTION.key(at.key) else {
            let remedy = "take it out, or choose one of these";
            mistakes.push(at.wrong("there is no such key", free.join(", "), remedy));
            continue;
        };
        if !free.contains(&at.key) {
            let remedy = "change the file, and start the multiplexer again";
            let wrong = "it cannot be changed while the multiplexer runs";
            mistakes.push(at.wrong(wrong, free.join(", "), remedy));
            continue;
        }
        if at.value != DEFAULT {
            let value = written(key, at.value);
            lines.push(format!("{}.{}={value}", S::SECTION.name, at.key));
        }
    }
    let text = format!("{}\n", S::SECTION.header());
    let source = Source::of_text("set", &text).with(&lines);
    let read = Document::read(&source, sections, |document| {
        document.many::<S>().pop().map(|(said, _)| said)
    });
    let read = match read {
        Ok(read) if mistakes.is_empty() => read,
        Ok(_) => return Err(mistakes),
        Err(more) => {
            mistakes.extend(more.mistakes.into_iter().map(|it| of_file(change, it)));
            return Err(mistakes);
        }
    };
    let mut new = S::default();
    for key in S::SECTION.keys {
        let got = match change.keys.get(key.name).map(String::as_str) {
            Some(DEFAULT) => None,
            Some(_) => read.get(key.name),
            None => old.get(key.name),
        };
        if let Some(got) = got {
            let is_taken = new.set(key.name, &got);
            debug_assert!(is_taken, "{} does not take {got}", key.name);
        }
    }
    Ok(new)
}

/// A mistake as it is told of a file.
fn of_file(change: &Change, mistake: forebay_config::Mistake) -> Mistake {
    let key = mistake.key.rsplit('.').next().unwrap_or_default();
    let said = change.keys.get(key);
    Mistake {
        of: change.of.to_string(),
        value: said.cloned().unwrap_or(mistake.value),
        key: key.to_owned(),
        wrong: mistake.wrong,
        right: mistake.right,
        remedy: mistake.remedy,
    }
}

/// A number that is said with a unit is written out: 100M, of a rate 100Mbps as well, of a time 5ms. Bytes are no unit of a rate.
fn written(key: &Key, value: &str) -> String {
    let is_number = matches!(
        key.kind,
        Kind::Integer(..) | Kind::ZeroOr(..) | Kind::PowerOfTwo(..) | Kind::Either(..)
    );
    let number = Some(value).filter(|_| is_number).and_then(|value| {
        if key.name.ends_with("_bps") {
            let bits = ["bit/s", "bps"]
                .iter()
                .find_map(|unit| value.strip_suffix(unit));
            return amount(bits.unwrap_or(value)).filter(|_| !value.contains('B'));
        }
        let time = match key.name.ends_with("_us") {
            true => [("us", 1), ("ms", 1_000), ("s", 1_000_000)].iter(),
            false => [].iter(),
        };
        let mut time = time.filter_map(|(unit, us)| Some((value.strip_suffix(unit)?, us)));
        match time.next() {
            Some((number, us)) => amount(number)?.checked_mul(*us),
            None => amount(value),
        }
    });
    number.map_or_else(|| value.to_owned(), |number| number.to_string())
}

/// A value of a setting.
pub(crate) fn json(got: Option<Got>) -> Value {
    match got {
        None => Value::Null,
        Some(Got::Flag(flag)) => flag.into(),
        Some(Got::Integer(number)) => number.into(),
        Some(Got::Text(text)) => text.into(),
        Some(Got::List(all)) => all.into_iter().map(|got| json(Some(got))).collect(),
    }
}

/// The settings that can be changed, and their values.
pub(crate) fn settings_of(client: &ClientSettings) -> BTreeMap<&'static str, Value> {
    let keys = OF_CLIENTS.iter();
    keys.map(|key| (*key, json(client.get(key)))).collect()
}

/// The settings of a class that its policy reads, and their values.
pub(crate) fn settings_of_class(class: &ClassSettings) -> BTreeMap<&'static str, Value> {
    let is_read =
        |key: &&Key| readers(key.name).is_none_or(|readers| readers.contains(&class.policy));
    let keys = ClassSettings::SECTION.keys.iter().filter(is_read);
    let values = keys.map(|key| (key.name, json(class.get(key.name))));
    values.collect()
}
