//! What must hold for any text taken as a configuration file of any kind. Shared by the fuzz target and by the test that replays its corpus.
//!
//! No panic; what is accepted is accepted again, and comes to the same, when it is printed without comments and in another order; what is refused says
//! where, what is wrong, what would be right, and what to do.

use std::fmt::Debug;

use forebay_config::{ConfigFile, Mistakes, parse};
use forebay_run_emu::card::CardPlan;
use forebay_run_emu::config::kind_of;
use forebay_run_emu::validate::BatchPlan;
use forebay_run_evb::config;
use forebay_run_felix::config::SwrodFile;
use forebay_run_felix::toflx::ToFlxPlan;
use forebay_run_felix::tohost::ToHostFile;

const FILE: &str = "file.toml";

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = kind_of(text);
    check_kind(text, |text| config::parse(FILE, text, "7"));
    check_file::<CardPlan>(text);
    check_file::<ToHostFile>(text);
    check_file::<ToFlxPlan>(text);
    check_file::<SwrodFile>(text);
    check_file::<BatchPlan>(text);
}

fn check_file<F: ConfigFile + Debug>(text: &str) {
    check_kind(text, |text| parse::<F>(FILE, text));
}

fn check_kind<T: Debug>(text: &str, parse: impl Fn(&str) -> Result<T, Mistakes>) {
    match parse(text) {
        Ok(plan) => {
            let again = printed(text);
            match parse(&again) {
                Ok(same) => assert_eq!(format!("{plan:?}"), format!("{same:?}"), "{again}"),
                Err(mistakes) => panic!("accepted, and then not:\n{again}\n{mistakes}"),
            }
        }
        Err(mistakes) => check_mistakes(text, &mistakes),
    }
}

/// The same values as another hand would write them: no comments, tables in another order.
fn printed(text: &str) -> String {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => panic!("accepted, and no TOML: {error}"),
    };
    let printed = toml::to_string(&table);
    printed.unwrap_or_else(|error| panic!("accepted, and cannot be printed: {error}"))
}

fn check_mistakes(text: &str, mistakes: &Mistakes) {
    assert!(!mistakes.mistakes.is_empty(), "refused without a reason");
    let lines = text.matches('\n').count() + 1;
    for mistake in &mistakes.mistakes {
        assert!((1..=lines).contains(&mistake.line), "{mistake:?}");
        let line = text.split('\n').nth(mistake.line - 1).unwrap_or_default();
        let columns = line.chars().count() + 1;
        assert!((1..=columns).contains(&mistake.column), "{mistake:?}");
        for said in [&mistake.wrong, &mistake.right, &mistake.remedy] {
            assert!(!said.trim().is_empty(), "{mistake:?}");
        }
    }
    let told = mistakes.to_string();
    let first = &mistakes.mistakes[0];
    let place = format!("{FILE}:{}:{}: ", first.line, first.column);
    assert!(told.starts_with(&place), "{told}");
}
