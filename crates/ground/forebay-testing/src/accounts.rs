//! The page of all accounts and links, docs/ACCOUNTS.md: that it lists what the schemas declare, and that `counted.toml` says of each term which function counts it.
//!
//! Each module that declares a ledger gives its schemas to [`assert_section`] in a test of its own. `cargo xtask accounts` writes the page anew.

#![allow(
    clippy::unwrap_used,
    reason = "a test that does not find its files has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use forebay_ledger::{AccountOutline, LinkOutline, Outline};
use serde::Deserialize;

use crate::root;

/// Set when the page shall be written instead of compared.
const WRITE: &str = "FOREBAY_WRITE_ACCOUNTS";

/// The key of all reasons that have no key of their own.
const EACH: &str = "dropped";

/// In the place of a function: nothing ever counts here, such as `held` where nothing is kept.
const NEVER: &str = "never";

/// The key of the reason why one function may count two terms of an account.
const SAME: &str = "same";

/// What a function has that counts: an addition, or a call of the books.
const COUNTS: [&str; 17] = [
    "+=",
    "-=",
    "+ 1",
    "+ new",
    "add_tally(",
    "sub_tally(",
    ".add(",
    ".sub(",
    ".set(",
    ".advance(",
    "wrapping_sub(",
    "count(&mut ",
    "add(&mut ",
    "books.",
    " = [",
    // A census of what lies there.
    "lengths.len()",
    // The kernel counts, and this is how it is asked.
    "XDP_STATISTICS",
];

const HEAD: &str = "\
# Accounts and links

Every account and every link of every ledger, with the functions that count each term. At an account
*in = out + Σ dropped + held* holds in items and in bytes; over a link *sent = received + Σ dropped + in flight*. What is sent and
received are the terms *out* and *in* of the accounts at its two ends. A term is counted where its event happens; the functions that
count *in* are not those that count what becomes of it, or it is said below why; a test holds that. An account that only one observer
sees is *not balanced*.

`cargo xtask accounts` writes this page from the schemas and from `crates/ground/forebay-testing/src/accounts/counted.toml`; the tests compare it
with both, and look for each function and for an addition in it. In names `*` stands for a number.
";

/// What counts a term: functions as `file::name`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Functions {
    One(String),
    Some(Vec<String>),
}

impl Functions {
    fn list(&self) -> Vec<&str> {
        match self {
            Self::One(function) => vec![function],
            Self::Some(functions) => functions.iter().map(String::as_str).collect(),
        }
    }
}

/// One ledger.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ledger {
    key: String,
    title: String,
    /// The file whose function declares it.
    declared: String,
    /// By the name of an account or of a link, then by term.
    #[serde(default)]
    accounts: BTreeMap<String, BTreeMap<String, Functions>>,
    #[serde(default)]
    links: BTreeMap<String, BTreeMap<String, Functions>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    ledger: Vec<Ledger>,
}

fn counted() -> Vec<Ledger> {
    let counted: Counted = toml::from_str(include_str!("accounts/counted.toml")).unwrap();
    counted.ledger
}

/// An owner without its number: `source17` is `source*`.
fn class(owner: &str) -> String {
    let stem = owner.trim_end_matches(|sign: char| sign.is_ascii_digit());
    if stem.len() == owner.len() {
        owner.to_owned()
    } else {
        format!("{stem}*")
    }
}

/// The rows of a table as they are printed: what it is, and of each term its name and the functions that count it.
struct Rows<'a> {
    text: String,
    wrong: Vec<String>,
    /// The terms of each account and link.
    declared: BTreeMap<(&'static str, String), BTreeSet<String>>,
    /// By account, why one function counts two of its terms.
    said: BTreeMap<String, String>,
    ledger: &'a Ledger,
}

impl Rows<'_> {
    fn new(ledger: &Ledger) -> Rows<'_> {
        Rows {
            text: String::new(),
            wrong: Vec::new(),
            declared: BTreeMap::new(),
            said: BTreeMap::new(),
            ledger,
        }
    }

    /// One account or link with all of its terms.
    fn add(&mut self, kind: &'static str, name: &str, cells: &str, terms: &[String]) {
        let all = match kind {
            "accounts" => &self.ledger.accounts,
            _ => &self.ledger.links,
        };
        let (key, none) = (&self.ledger.key, BTreeMap::new());
        let known = all.get(name).unwrap_or(&none);
        let declared = self.declared.entry((kind, name.to_owned())).or_default();
        declared.extend(terms.iter().cloned());
        // Losses that the same functions count are one row.
        let mut lines: Vec<(String, String)> = Vec::new();
        for term in terms {
            let each = known.get(EACH).filter(|_| term.starts_with(EACH));
            let Some(functions) = known.get(term).or(each) else {
                let missing = format!("{key}: {kind} {name}: who counts {term}?");
                self.wrong.push(missing);
                continue;
            };
            let mut counted = Vec::new();
            for function in functions.list() {
                if function == NEVER {
                    counted.push("never more than 0".to_owned());
                } else {
                    self.wrong.extend(fault(function));
                    counted.push(format!("`{function}`"));
                }
            }
            let counted = counted.join(", ");
            let reason = term.strip_prefix("dropped ");
            match (lines.last_mut(), reason) {
                (Some((last, by)), Some(reason)) if last.starts_with(EACH) && *by == counted => {
                    *last += &format!(", {reason}");
                }
                _ => lines.push((term.clone(), counted)),
            }
        }
        let mut first = cells.to_owned();
        for (terms, counted) in lines {
            writeln!(self.text, "| {first} | {terms} | {counted} |").unwrap();
            first = cells.split('|').map(|_| " ").collect::<Vec<_>>().join("|");
        }
    }
}

impl Rows<'_> {
    /// What `counted.toml` has and no schema declares.
    fn look_for_strangers(&mut self) {
        let key = &self.ledger.key;
        for (kind, names) in [
            ("accounts", &self.ledger.accounts),
            ("links", &self.ledger.links),
        ] {
            for (name, terms) in names {
                let Some(declared) = self.declared.get(&(kind, name.clone())) else {
                    self.wrong
                        .push(format!("{key}: no {kind} {name} is declared"));
                    continue;
                };
                let is_known = |term: &String| {
                    [EACH, SAME].contains(&term.as_str()) || declared.contains(term)
                };
                let strange = terms.keys().filter(|term| !is_known(term));
                let strange =
                    strange.map(|term| format!("{key}: {kind} {name}: no {term} is declared"));
                self.wrong.extend(strange);
            }
        }
    }
}

/// What is wrong with a function that is said to count: it is not there, or adds nothing.
fn fault(function: &str) -> Option<String> {
    let Some((file, name)) = function.split_once("::") else {
        return Some(format!("{function}: write file::function, or {NEVER}"));
    };
    let Ok(text) = std::fs::read_to_string(root().join(file)) else {
        return Some(format!("{function}: there is no such file"));
    };
    let bodies = if file.ends_with(".c") {
        bodies_in_c(&text, name)
    } else {
        bodies(&text, name)
    };
    if bodies.is_empty() {
        return Some(format!("{function}: there is no such function"));
    }
    let is_counting = |body: &String| COUNTS.iter().any(|sign| body.contains(sign));
    let none = format!("{function}: nothing is counted in it");
    (!bodies.iter().any(is_counting)).then_some(none)
}

/// The text of each function of a name, as far as its braces go.
fn bodies(text: &str, name: &str) -> Vec<String> {
    let head = format!("fn {name}");
    let begins = text.match_indices(&head).map(|(at, _)| at);
    let begins = begins.filter(|at| {
        let behind = text[at + 3 + name.len()..].chars().next();
        behind.is_some_and(|sign| matches!(sign, '(' | '<'))
    });
    begins.map(|at| body(&text[at..])).collect()
}

/// The same in C, where a call of a function looks like it, but ends before a body begins.
fn bodies_in_c(text: &str, name: &str) -> Vec<String> {
    let head = format!(" {name}(");
    let begins = text.match_indices(&head).map(|(at, _)| &text[at..]);
    let defined = begins.filter(|from| {
        let sign = from.find([';', '{']);
        sign.is_some_and(|at| from[at..].starts_with('{'))
    });
    defined.map(body).collect()
}

/// A text as far as its first braces go.
fn body(text: &str) -> String {
    let mut depth = 0_u32;
    let end = text.char_indices().find_map(|(place, sign)| {
        match sign {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => return None,
        }
        (depth == 0).then_some(place)
    });
    text[..end.unwrap_or_default()].to_owned()
}

fn terms_of(account: &AccountOutline) -> Vec<String> {
    let mut terms = ["in", "out", "held"].map(str::to_owned).to_vec();
    if account.is_confirmed {
        terms.push("confirmed".to_owned());
    }
    let reasons = account.reasons.iter();
    terms.extend(reasons.map(|reason| format!("dropped {reason}")));
    terms
}

fn link_terms(link: &LinkOutline) -> Vec<String> {
    let reasons = link.reasons.iter();
    let mut terms: Vec<_> = reasons.map(|reason| format!("dropped {reason}")).collect();
    if link.has_in_flight {
        terms.extend(["published", "taken"].map(str::to_owned));
    }
    terms
}

/// The name in `counted.toml`: with the unit where the place alone does not tell two accounts apart.
fn name_of(ledger: &Ledger, account: &AccountOutline) -> String {
    let with_unit = format!("{} {}", account.place, account.unit.name());
    if ledger.accounts.contains_key(&with_unit) {
        with_unit
    } else {
        account.place.clone()
    }
}

/// What one function counts of an account that has to be balanced: `in` and what becomes of it. A bug there is on both sides, unless the reason says
/// why they are two counts.
fn one_party(ledger: &Ledger, name: &str) -> Result<Option<String>, String> {
    let Some(terms) = ledger.accounts.get(name) else {
        return Ok(None);
    };
    let of = |term: &str| terms.get(term).map(Functions::list).unwrap_or_default();
    let incoming: BTreeSet<&str> = of("in").into_iter().collect();
    let outcomes = terms
        .iter()
        .filter(|(term, _)| *term == "out" || term.starts_with(EACH));
    let mut functions = outcomes.flat_map(|(_, functions)| functions.list());
    let both = functions.find(|function| incoming.contains(function));
    let said = terms.get(SAME).map(|same| same.list().join(" "));
    let key = &ledger.key;
    match (both, said) {
        (Some(both), None) => Err(format!(
            "{key}: {both} counts what comes into {name} and what becomes of it; if they are two counts, say why by `{SAME}`"
        )),
        (None, Some(_)) => Err(format!("{key}: {name} has no need of `{SAME}`")),
        (_, said) => Ok(said),
    }
}

/// Those that differ in their owners alone, each once, with the classes of the owners.
fn grouped<T: Clone + PartialEq>(
    all: impl Iterator<Item = T>,
    owner: impl Fn(&mut T) -> &mut String,
) -> Vec<(T, String)> {
    let mut groups: Vec<(T, Vec<String>)> = Vec::new();
    for mut one in all {
        let class = class(&std::mem::take(owner(&mut one)));
        match groups.iter_mut().find(|(known, _)| *known == one) {
            Some((_, owners)) if owners.contains(&class) => {}
            Some((_, owners)) => owners.push(class),
            None => groups.push((one, vec![class])),
        }
    }
    let joined = groups
        .into_iter()
        .map(|(one, owners)| (one, owners.join(", ")));
    joined.collect()
}

fn section(ledger: &Ledger, outlines: &[Outline]) -> (String, Vec<String>) {
    let mut rows = Rows::new(ledger);
    let head = "| account | of | unit | term | counted by |\n|---|---|---|---|---|\n";
    rows.text.push_str(head);
    let accounts = outlines.iter().flat_map(|outline| outline.accounts.clone());
    for (account, owners) in grouped(accounts, |account| &mut account.owner) {
        let (place, name) = (&account.place, name_of(ledger, &account));
        let alone = if account.one_observer {
            ", *not balanced*"
        } else {
            match one_party(ledger, &name) {
                Ok(said) => said.map(|said| rows.said.insert(name.clone(), said)),
                Err(wrong) => {
                    rows.wrong.push(wrong);
                    None
                }
            };
            ""
        };
        let cells = format!("`{place}`{alone} | {owners} | {}", account.unit.name());
        rows.add("accounts", &name, &cells, &terms_of(&account));
    }
    let links = outlines.iter().flat_map(|outline| outline.links.clone());
    let links = grouped(links, |link| &mut link.owner);
    if !links.is_empty() {
        let head = "\n| link | of | from | to | term | counted by |\n|---|---|---|---|---|---|\n";
        rows.text.push_str(head);
    }
    for (link, owners) in links {
        let place = &link.place;
        let side = |places: &[String]| match places {
            [] => "another program".to_owned(),
            places => places.join(", "),
        };
        let (from, to) = (side(&link.from), side(&link.to));
        let cells = format!("`{place}` | {owners} | {from} | {to}");
        let terms = link_terms(&link);
        if terms.is_empty() {
            writeln!(rows.text, "| {cells} | | |").unwrap();
        }
        rows.add("links", place, &cells, &terms);
    }
    rows.look_for_strangers();
    if !rows.said.is_empty() {
        rows.text += "\nOne function, two counts:\n\n";
        for (name, said) in &rows.said {
            writeln!(rows.text, "- `{name}`: {said}.").unwrap();
        }
    }
    let (title, declared) = (&ledger.title, &ledger.declared);
    let text = format!("## {title}\n\nDeclared in `{declared}`.\n\n{}", rows.text);
    (text, rows.wrong)
}

fn page_path() -> PathBuf {
    root().join("docs/ACCOUNTS.md")
}

/// The sections of the page by their titles.
fn sections(page: &str) -> BTreeMap<String, String> {
    let sections = page.split("\n## ").skip(1);
    let with_title = sections.map(|section| {
        let title = section.lines().next().unwrap_or_default();
        let text = format!("## {}\n", section.trim_end());
        (title.to_owned(), text)
    });
    with_title.collect()
}

/// Compares the section `key` of the page, and of `counted.toml`, with what the schemas of that ledger declare: one outline for each of its kinds.
///
/// # Panics
/// The page or `counted.toml` is not what the schemas declare; what is wrong with them is told.
#[track_caller]
pub fn assert_section(key: &str, outlines: &[Outline]) {
    static ONE_WRITES: Mutex<()> = Mutex::new(());
    let ledgers = counted();
    let ledger = ledgers.iter().find(|ledger| ledger.key == key).unwrap();
    let (text, wrong) = section(ledger, outlines);
    let _alone = ONE_WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = sections(&std::fs::read_to_string(page_path()).unwrap_or_default());
    if std::env::var_os(WRITE).is_some() {
        known.insert(ledger.title.clone(), text.clone());
        let all = ledgers.iter().filter_map(|ledger| known.get(&ledger.title));
        let page = all.fold(HEAD.to_owned(), |page, section| page + "\n" + section);
        std::fs::write(page_path(), page).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        known.get(&ledger.title) == Some(&text),
        "docs/ACCOUNTS.md is not what the schemas of '{key}' declare: cargo xtask accounts"
    );
}

/// The files below `folder` that have product code with `text`.
#[cfg(test)]
fn files_with(folder: &std::path::Path, text: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_with(&path, text, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let content = std::fs::read_to_string(&path).unwrap();
            let product = content.split("#[cfg(test)]").next().unwrap_or_default();
            if !path.ends_with("tests.rs") && product.contains(text) {
                let name = path.strip_prefix(root()).unwrap();
                found.insert(name.display().to_string());
            }
        }
    }
}

#[test]
fn every_ledger_of_the_product_is_on_the_page() {
    let listed: BTreeSet<_> = counted()
        .into_iter()
        .map(|ledger| ledger.declared)
        .collect();
    let sources = |file: &String| file.find("/src/").map(|at| file[..at + 4].to_owned());
    let folders: BTreeSet<_> = listed.iter().filter_map(sources).collect();
    let mut found = BTreeSet::new();
    for folder in folders {
        files_with(&root().join(folder), "SchemaBuilder::new(", &mut found);
    }
    assert_eq!(found, listed);
    let page = std::fs::read_to_string(page_path()).unwrap();
    let titles: BTreeSet<_> = counted().into_iter().map(|ledger| ledger.title).collect();
    let on_page: BTreeSet<_> = sections(&page).into_keys().collect();
    assert_eq!(on_page, titles);
    assert!(page.starts_with(HEAD));
}

#[test]
fn who_counts_nothing_is_told() {
    let text = "fn counts(&mut self) { self.n += 1; }\nfn tells<T>() { { say(); } }\n";
    assert_eq!(
        bodies(text, "counts"),
        ["fn counts(&mut self) { self.n += 1; "]
    );
    assert_eq!(bodies(text, "tells").len(), 1);
    assert!(bodies(text, "count").is_empty());
    let text = "static int counts(int n) { return n++; }\nint calls(void) { return counts(1); }\n";
    assert_eq!(
        bodies_in_c(text, "counts"),
        [" counts(int n) { return n++; "]
    );
    assert!(bodies_in_c(text, "tells").is_empty());
    let here = "crates/ground/forebay-testing/src/accounts.rs";
    let told = |function: &str| fault(&format!("{here}::{function}")).unwrap();
    assert!(told("nobody").ends_with("there is no such function"));
    assert!(told("page_path").ends_with("nothing is counted in it"));
    let elsewhere = fault("crates/none.rs::nobody").unwrap();
    assert!(elsewhere.ends_with("there is no such file"));
    let own = "crates/ground/forebay-ledger/src/book.rs::add_tally";
    assert_eq!(fault(own), None);
}

#[test]
fn who_counts_both_sides_has_to_say_why() {
    let ledger = |more: &str| -> Ledger {
        let text = format!(
            "key = 'k'\ntitle = 't'\ndeclared = 'd'\n[accounts.a]\nin = ['x::f', 'x::g']\n{more}"
        );
        toml::from_str(&text).unwrap()
    };
    for both in [
        "out = 'x::g'",
        "dropped = ['x::h', 'x::f']",
        "'dropped late' = 'x::g'",
    ] {
        let error = one_party(&ledger(both), "a").unwrap_err();
        assert!(error.starts_with("k: x::"), "{error}");
        let said = ledger(&format!("{both}\nsame = 'two counts'"));
        assert_eq!(one_party(&said, "a").unwrap().unwrap(), "two counts");
    }
    assert_eq!(
        one_party(&ledger("out = 'x::h'\nheld = 'x::g'"), "a"),
        Ok(None)
    );
    let idle = ledger("out = 'x::h'\nsame = 'two counts'");
    assert!(one_party(&idle, "a").unwrap_err().contains("no need"));
}
