//! The layout of a ledger as text, read from the directory in the file itself.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

/// Words of the file's header, and where in it the size of the directory stands.
const HEADER_WORDS: usize = 32;
const AT_DIRECTORY_BYTES: usize = 5;

/// The directory of a ledger file, which is JSON.
struct Directory(Value);

impl Directory {
    fn read(file: &Path) -> Self {
        let bytes = std::fs::read(file).unwrap();
        let at = 8 * AT_DIRECTORY_BYTES;
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let from = 8 * HEADER_WORDS;
        Self(serde_json::from_slice(&bytes[from..from + length]).unwrap())
    }

    /// The entries of a kind; none where it is left out.
    fn all(&self, kind: &str) -> &[Value] {
        self.0.get(kind).map_or(&[], |all| all.as_array().unwrap())
    }

    fn group(&self, number: &Value) -> &str {
        let group = &self.all("groups")[number.as_u64().unwrap() as usize];
        text(group, "name")
    }

    /// A word of a group, as `receiver+8`.
    fn word(&self, at: &Value) -> String {
        format!("{}+{}", self.group(&at["group"]), at["word"])
    }

    /// An account, as `queue.source0 subevents`.
    fn account(&self, number: &Value) -> String {
        let account = &self.all("accounts")[number.as_u64().unwrap() as usize];
        let [place, owner, unit] = ["place", "owner", "unit"].map(|key| text(account, key));
        format!("{place}.{owner} {unit}")
    }

    fn accounts(&self, numbers: &Value) -> String {
        let numbers = numbers.as_array().unwrap().iter();
        let accounts: Vec<String> = numbers.map(|number| self.account(number)).collect();
        accounts.join(", ")
    }

    fn reasons(&self, account: &Value) -> String {
        let list = account["reasons"].as_u64().unwrap() as usize;
        let reasons = self.all("reasons")[list].as_array().unwrap().iter();
        let reasons: Vec<&str> = reasons.map(|reason| reason.as_str().unwrap()).collect();
        reasons.join(" ")
    }

    /// Items and bytes of a loss in a link.
    fn amount(&self, amount: &Value) -> String {
        if let Some(at) = amount.get("exact") {
            return self.word(at);
        }
        let interval = &amount["interval"];
        let [most, min, max] = ["items_max", "bytes_min", "bytes_max"].map(|key| &interval[key]);
        let items = self.word(&interval["items"]);
        format!("{items}, each up to {most} items, {min} to {max} bytes")
    }
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap()
}

/// The name of an entry with its owner, where it has one.
fn owned(entry: &Value) -> String {
    match (text(entry, "name"), text(entry, "owner")) {
        (name, "") => name.to_owned(),
        (name, owner) => format!("{name} of {owner}"),
    }
}

fn accounts(directory: &Directory, lines: &mut String) {
    for (number, account) in directory.all("accounts").iter().enumerate() {
        let name = directory.account(&number.into());
        let group = directory.group(&account["group"]);
        write!(lines, "account {name} at {group}+{}", account["base"]).unwrap();
        let is_confirmed = |entry: &&Value| entry["account"] == number;
        if let Some(entry) = directory.all("confirmed").iter().find(is_confirmed) {
            write!(lines, ", confirmed at {}", directory.word(&entry["at"])).unwrap();
        }
        if account["one_observer"] == true {
            lines.push_str(", of one observer");
        }
        writeln!(lines, ": {}", directory.reasons(account)).unwrap();
    }
}

fn links(directory: &Directory, lines: &mut String) {
    for link in directory.all("links") {
        let [place, owner] = ["place", "owner"].map(|key| text(link, key));
        let [from, to] = ["from", "to"].map(|key| directory.accounts(&link[key]));
        writeln!(lines, "link {place}.{owner} from [{from}] to [{to}]").unwrap();
        for lost in link["drops"].as_array().unwrap() {
            let amount = directory.amount(&lost["amount"]);
            writeln!(lines, "    {} at {amount}", text(lost, "reason")).unwrap();
        }
        if let Some(ends) = link["in_flight"].as_array() {
            let [put, taken] = [0, 1].map(|end| directory.word(&ends[end]));
            writeln!(lines, "    in flight: {put} less {taken}").unwrap();
        }
        if let Some(inferred) = link["inferred_lost"].as_array() {
            let at = directory.word(&inferred[0]);
            let unit = inferred[1].as_str().unwrap();
            writeln!(lines, "    inferred to be lost: {at} in {unit}").unwrap();
        }
        for bound in ["bound_items", "unbooked_items"] {
            if let Some(items) = link[bound].as_u64().filter(|items| *items > 0) {
                writeln!(lines, "    {bound}: {items}").unwrap();
            }
        }
    }
}

fn words(directory: &Directory, lines: &mut String) {
    for metric in directory.all("metrics") {
        let (kind, name) = (text(metric, "kind"), owned(metric));
        let (at, help) = (directory.word(&metric["at"]), text(metric, "help"));
        writeln!(lines, "{kind} {name} at {at}: {help}").unwrap();
    }
    for term in directory.all("host") {
        let [place, reason] = ["place", "reason"].map(|key| text(term, key));
        writeln!(
            lines,
            "host {place} {reason} at {}",
            directory.word(&term["at"])
        )
        .unwrap();
    }
    for histogram in directory.all("histograms") {
        let unit = text(histogram, "unit");
        writeln!(lines, "histogram {} in {unit}", owned(histogram)).unwrap();
    }
    for table in directory.all("loss_tables") {
        let (group, base) = (directory.group(&table["group"]), &table["base"]);
        writeln!(
            lines,
            "loss table at {group}+{base}, {} rows",
            table["rows"]
        )
        .unwrap();
        for (number, cause) in table["causes"].as_array().unwrap().iter().enumerate() {
            let [place, reason] = [0, 1].map(|part| cause[part].as_str().unwrap());
            writeln!(lines, "    {number}: {place} {reason}").unwrap();
        }
    }
}

/// A text without the numbers of ports, which are others in each run: they are numbered in their order.
fn without_ports(text: &str) -> String {
    const FRONT: &str = "receiver.port";
    let mut ports: Vec<&str> = Vec::new();
    let mut parts = text.split(FRONT);
    let mut without = parts.next().unwrap().to_owned();
    for part in parts {
        let (port, rest) =
            part.split_at(part.find(|letter: char| !letter.is_ascii_digit()).unwrap());
        if !ports.contains(&port) {
            ports.push(port);
        }
        let number = ports.iter().position(|other| *other == port).unwrap();
        without += &format!("{FRONT}#{number}{rest}");
    }
    without
}

/// Everything that a ledger declares, in the order in which it lies there.
pub(crate) fn of(file: &Path) -> String {
    const KINDS: [&str; 12] = [
        "run_id",
        "program",
        "headline",
        "groups",
        "reasons",
        "accounts",
        "confirmed",
        "links",
        "metrics",
        "host",
        "histograms",
        "loss_tables",
    ];
    let directory = Directory::read(file);
    let strange = |key: &&String| !KINDS.contains(&key.as_str());
    let unknown = directory.0.as_object().unwrap().keys().find(strange);
    assert_eq!(unknown, None, "a kind of entry that the text leaves out");
    let headline = directory.0.get("headline");
    let headline = headline.map_or_else(String::new, |all| directory.accounts(all));
    let program = text(&directory.0, "program");
    let mut lines = format!("program {program}, headline [{headline}]\n");
    for group in directory.all("groups") {
        writeln!(
            lines,
            "group {}, {} words",
            text(group, "name"),
            group["words"]
        )
        .unwrap();
    }
    accounts(&directory, &mut lines);
    links(&directory, &mut lines);
    words(&directory, &mut lines);
    without_ports(&lines)
}
