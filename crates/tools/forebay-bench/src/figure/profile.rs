//! F8: where to-host spends its time.

use std::collections::BTreeMap;

use super::scan::{Scan, ScanPoint, Task};
use crate::readout::Setup;
use forebay_report::plot::Flame;
use forebay_report::rows::Row;

const TRIGGER_HZ: u64 = 300_000;
const CHUNK_BYTES: u32 = 64;

/// What was published as hot, and functions of ours that do it: a stack counts where the first of them from the function at work outwards stands.
const KINDS: [(&str, &[&str]); 5] = [
    (
        "chunk copies",
        &[
            "memcpy",
            "memmove",
            "copy_from",
            "copy_to",
            "copy_nonoverlapping",
            "each_block",
        ],
    ),
    (
        "subchunk decoding",
        &[
            "backwards",
            "Walk",
            "Words::read",
            "Decoder::poll",
            "poll_chunk",
        ],
    ),
    ("block integrity", &["handle_block", "BlockHead"]),
    (
        "posting",
        &["publish", "offer", "push", "Outbound", "put", "account"],
    ),
    (
        "network and waiting",
        &["EndPoint", "turn", "tend", "wait", "sleep", "syscall"],
    ),
];
const OTHERS: &str = "others";
/// Functions that are named one by one.
const HOTTEST: usize = 8;

pub(super) fn scan(quick: bool) -> Scan {
    let setup = Setup {
        links: 12,
        dma_buffers: 4,
        trigger_hz: TRIGGER_HZ,
        chunk_bytes: CHUNK_BYTES,
        real_ms: if quick { 700 } else { 2000 },
        card_ms_min: 1,
        dilation: 1,
    };
    Scan {
        name: "profile",
        points: vec![ScanPoint {
            name: format!(
                "to-host under perf, 12 links, {TRIGGER_HZ} Hz, chunks of {CHUNK_BYTES} B"
            ),
            labels: Row::default(),
            task: Task::Profile(setup),
        }],
    }
}

/// Where functions stand in a row.
const SEPARATOR: char = ';';

/// A stack as a cell.
pub(super) fn cell(stack: &[String]) -> String {
    stack.join(&SEPARATOR.to_string())
}

fn stacks(rows: &[Row]) -> Vec<(Vec<String>, u64)> {
    let mut all: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.text("stack").is_empty()) {
        let stack = row.text("stack").split(SEPARATOR).map(str::to_owned);
        *all.entry(stack.collect()).or_default() += row.number("samples") as u64;
    }
    all.into_iter().collect()
}

pub(super) fn flame(rows: &[Row]) -> Flame {
    Flame {
        stacks: stacks(rows),
        ..Flame::default()
    }
}

fn kind(stack: &[String]) -> &'static str {
    let of = |name: &String| {
        let is_it = |(_, parts): &&(&str, &[&str])| parts.iter().any(|part| name.contains(part));
        KINDS.iter().find(is_it).map(|(kind, _)| *kind)
    };
    stack.iter().rev().find_map(of).unwrap_or(OTHERS)
}

fn told(counts: BTreeMap<&str, u64>, most: usize, all: u64) -> String {
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let of_all =
        |(name, count): &(&str, u64)| format!("{name} {:.1} %", 100.0 * *count as f64 / all as f64);
    let told: Vec<String> = counts.iter().take(most).map(of_all).collect();
    told.join(", ")
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let stacks = stacks(rows);
    let all: u64 = stacks.iter().map(|(_, count)| count).sum();
    if all == 0 {
        return Vec::new();
    }
    let (mut kinds, mut functions) = (BTreeMap::new(), BTreeMap::new());
    for (stack, count) in &stacks {
        *kinds.entry(kind(stack)).or_default() += count;
        if let Some(last) = stack.last() {
            *functions.entry(last.as_str()).or_default() += count;
        }
    }
    vec![
        format!(
            "published hot: subchunk decoding, posting, block integrity, chunk copies; here of {all} samples: {}",
            told(kinds, usize::MAX, all)
        ),
        format!(
            "hottest functions, by themselves: {}",
            told(functions, HOTTEST, all)
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_are_named_beside_the_published() {
        let row = |stack: &str, samples: f64| {
            let mut row = Row::default();
            row.add("stack", stack);
            row.add("samples", samples);
            row
        };
        let rows = [
            row("fb-dma;Reader::read;handle_block;read;backwards", 50.0),
            row("fb-dma;Reader::read;handle_block", 10.0),
            row("fb-dma;Reader::read;publish_or;__memcpy_avx512", 30.0),
            row("fb-dma;Reader::read;publish_or;__memcpy_avx512", 6.0),
            row("fb-dma;start", 4.0),
        ];
        let said = compare(&rows);
        assert!(
            said[0].ends_with("here of 100 samples: subchunk decoding 50.0 %, chunk copies 36.0 %, block integrity 10.0 %, others 4.0 %"),
            "{}",
            said[0]
        );
        assert!(
            said[1].contains("backwards 50.0 %, __memcpy_avx512 36.0 %"),
            "{}",
            said[1]
        );
        assert_eq!(flame(&rows).stacks.len(), 4);
        assert!(compare(&[]).is_empty());
    }
}
