//! What a killed process has left behind, when a later one gets its number. In a file of its own, as it counts the end points of its process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "tests say what they met")]

mod pair;

use std::fs;
use std::path::PathBuf;

use forebay_fabric::Config;
use pair::pair;

/// What lies in the shared memory of this process's end points.
fn own() -> Vec<PathBuf> {
    let prefix = format!("{}:", std::process::id());
    let entries = fs::read_dir("/dev/shm").unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(&prefix)
        })
        .collect()
}

#[test]
fn names_that_a_killed_process_has_left_are_passed_over() {
    let config = Config::default();
    let Some(first) = pair("shm", &config) else {
        return;
    };
    // The next names are taken by copies: the number of a process that lives stands in them.
    let living = own();
    let (place, last) = living
        .iter()
        .map(|path| {
            let (front, number) = path.to_str().unwrap().rsplit_once(':').unwrap();
            (front.to_owned(), number.parse::<u32>().unwrap())
        })
        .max()
        .unwrap();
    let left = (last + 1..last + 6).map(|number| PathBuf::from(format!("{place}:{number}")));
    let left: Vec<PathBuf> = left.collect();
    for path in &left {
        fs::copy(&living[0], path).unwrap();
    }
    let second = pair("shm", &config).unwrap();
    // Libfabric 1.17 removes a name that it found taken.
    assert_eq!(
        own().len(),
        living.len() + 2,
        "two more, and nothing is left"
    );
    drop((first, second));
    assert_eq!(own(), Vec::<PathBuf>::new());
}
