//! What the books of a round say, and what lies in its files.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Round;

/// The verdict on the books in a directory.
pub(crate) struct Audit {
    pub(crate) code: Option<i32>,
    pub(crate) json: Value,
}

impl Round {
    pub(crate) fn audit(&self, out: &str) -> Result<Audit> {
        let output = Command::new(&self.binary)
            .args(["audit", "--format", "json"])
            .arg(self.path(out))
            .output()
            .context("auditing")?;
        Ok(Audit {
            code: output.status.code(),
            json: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        })
    }

    /// Notes books that do not close.
    pub(crate) fn expect_closed(&mut self, out: &str) -> Result<Audit> {
        let audit = self.audit(out)?;
        let (code, offenders) = (audit.code, audit.json["offenders"].to_string());
        self.expect(code == Some(0), || {
            format!("the books of {out} do not close (exit code {code:?}): {offenders}")
        });
        Ok(audit)
    }

    /// What a file of events is made of: sub-events of each event, by its number.
    pub(crate) fn events(&self, file: &Path) -> Result<Events> {
        let output = Command::new(&self.binary)
            .args(["inspect", "--events"])
            .arg(file)
            .output()
            .context("inspecting")?;
        Ok(Events::read(&String::from_utf8_lossy(&output.stdout)))
    }
}

impl Audit {
    /// Sum over the owners of a place.
    pub(crate) fn sum(&self, place: &str, unit: &str, term: &str) -> u64 {
        let lines = self.json["balance"]["accounts"].as_array();
        let lines = lines.into_iter().flatten();
        let ours = lines.filter(|line| line["place"] == place && line["unit"] == unit);
        ours.filter_map(|line| line[term]["items"].as_u64()).sum()
    }
}

/// Events of one or more files.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) events: u64,
    pub(crate) sub_events: u64,
    /// Sub-events that are there more than once, told apart by source and trigger number.
    pub(crate) twice: u64,
}

impl Events {
    /// From the lines that `forebay inspect --events` prints.
    fn read(text: &str) -> Self {
        let mut found = Self::default();
        let mut seen: HashMap<(String, String), u64> = HashMap::new();
        for line in text.lines() {
            let line = line.trim_start();
            found.events += u64::from(line.starts_with("*** Event "));
            let words = || line.split_whitespace();
            let word_after = |name: &str| words().skip_while(|word| *word != name).nth(1);
            if line.starts_with("*** Subevent")
                && let (Some(id), Some(number)) = (word_after("id"), word_after("trig"))
            {
                found.sub_events += 1;
                *seen.entry((id.to_owned(), number.to_owned())).or_default() += 1;
            }
        }
        found.twice = seen.values().map(|times| times - 1).sum();
        found
    }
}

/// Lines that were written, each with its number.
#[derive(Default)]
pub(crate) struct Lines {
    times: HashMap<u64, u64>,
    /// Lines that are none of those that were sent.
    pub(crate) strange: u64,
}

impl Lines {
    /// The lines of a round: a number, and bytes that depend on it.
    pub(crate) fn text(count: u64) -> String {
        (0..count).map(|at| line(at) + "\n").collect()
    }

    /// Adds those of a file. One without its end was being written when its writer was killed: it is none yet.
    pub(crate) fn add(&mut self, path: &Path) {
        let bytes = fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        for whole in text.split_inclusive('\n').filter(|one| one.ends_with('\n')) {
            let whole = whole.trim_end();
            let number = whole.split(' ').next().and_then(|word| word.parse().ok());
            match number {
                Some(number) if line(number) == whole => {
                    *self.times.entry(number).or_default() += 1
                }
                _ => self.strange += 1,
            }
        }
    }

    /// How many different ones there are.
    pub(crate) fn different(&self) -> u64 {
        self.times.len() as u64
    }

    pub(crate) fn twice(&self) -> u64 {
        self.times.values().map(|times| times - 1).sum()
    }

    /// Lines that are missing below the last one that is there, above the first one.
    pub(crate) fn holes(&self) -> u64 {
        let (first, last) = (self.times.keys().min(), self.times.keys().max());
        match (first, last) {
            (Some(first), Some(last)) => last - first + 1 - self.different(),
            _ => 0,
        }
    }
}

fn line(number: u64) -> String {
    format!(
        "{number} {:016x}",
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart_by_source_and_trigger() {
        let text = "\
*** Event #0x000001 fullid=0x2001 runid=0x237e4d22 typ 1 size 272 ***
   *** Subevent size  116+4 decoding 0x020011 id 0x8000 trig 0x000000e8 typ 1 swapped align 4 ***
   *** Subevent size  116+4 decoding 0x020011 id 0x8001 trig 0x000000e8 typ 1 swapped align 4 ***
*** Event #0x000002 fullid=0x2001 runid=0x237e4d22 typ 1 size 272 ***
   *** Subevent size  116+4 decoding 0x020011 id 0x8000 trig 0x000000e8 typ 1 swapped align 4 ***
";
        let events = Events::read(text);
        assert_eq!((events.events, events.sub_events, events.twice), (2, 3, 1));
    }

    #[test]
    fn lines_are_told_apart() {
        let path = std::env::temp_dir().join(format!("forebay-drill-lines-{}", std::process::id()));
        let text = Lines::text(5);
        let doubled = format!("{text}{}\nrubbish\n{}", line(2), line(9));
        fs::write(&path, doubled).unwrap();
        let mut lines = Lines::default();
        lines.add(&path);
        // The last one has no end.
        assert_eq!((lines.different(), lines.twice(), lines.strange), (5, 1, 1));
        assert_eq!(lines.holes(), 0);
        fs::write(&path, line(7) + "\n").unwrap();
        lines.add(&path);
        assert_eq!(lines.holes(), 2);
        fs::remove_file(&path).unwrap();
    }
}
