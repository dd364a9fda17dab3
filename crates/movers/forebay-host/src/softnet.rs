//! `/proc/net/softnet_stat`: for each CPU, what it took from interfaces and what it could not queue (`net/core/net-procfs.c`).
//!
//! A line for each CPU that is there, of 32-bit numbers in hexadecimal. Kernels have added columns at the end: RPS and flow limits (4.x), the
//! CPU's number (5.10), lengths of queues (6.x). Columns 3 to 7 are always 0.

use std::collections::BTreeMap;

/// Columns that are counters, by their place.
const COLUMNS: [(usize, &str); 5] = [
    (0, "processed"),
    (1, "dropped"),
    (2, "time_squeeze"),
    (9, "received_rps"),
    (10, "flow_limit_count"),
];
/// The place of the CPU's number, where the kernel tells it.
const CPU_COLUMN: usize = 12;
/// Lines that are read.
const CPUS_MAX: usize = 8192;

/// The counters of each CPU by its number; lines that are not of this format are left out.
pub(super) fn parse(text: &str) -> BTreeMap<u64, BTreeMap<String, u64>> {
    let lines = text.lines().take(CPUS_MAX).enumerate();
    lines
        .filter_map(|(line, text)| {
            let columns = text
                .split_whitespace()
                .map(|word| u32::from_str_radix(word, 16).ok().map(u64::from));
            let columns: Vec<u64> = columns.collect::<Option<_>>()?;
            let cpu = columns.get(CPU_COLUMN).copied().unwrap_or(line as u64);
            let named = COLUMNS
                .into_iter()
                .filter_map(|(at, name)| Some((name.to_owned(), *columns.get(at)?)));
            let named: BTreeMap<String, u64> = named.collect();
            (!named.is_empty()).then_some((cpu, named))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Linux 3.2: nine columns.
    const OLD: &str = "\
00c5a9e4 00000011 00000002 00000000 00000000 00000000 00000000 00000000 00000000
0000001f 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
";
    /// Linux 4.19: eleven columns.
    const MIDDLE: &str = "00000fc4 0000002a 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000007 00000003\n";
    /// Linux 5.10: thirteen, with the CPU's number; CPU 1 is offline.
    const NEW: &str = "\
0000abcd 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
00001234 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000002
";
    /// Linux 6.12: fifteen.
    const NEWEST: &str = "00000ff7 ffffffff 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000000\n";

    #[test]
    fn lines_of_several_kernels() {
        let old = parse(OLD);
        assert_eq!(old.keys().copied().collect::<Vec<_>>(), [0, 1]);
        assert_eq!((old[&0]["processed"], old[&0]["dropped"]), (12_954_084, 17));
        assert_eq!(old[&0].len(), 3);
        let middle = parse(MIDDLE);
        assert_eq!(middle[&0]["dropped"], 42);
        assert_eq!(
            (middle[&0]["received_rps"], middle[&0]["flow_limit_count"]),
            (7, 3)
        );
        let new = parse(NEW);
        assert_eq!(new.keys().copied().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(new[&2]["dropped"], 2);
        assert_eq!(parse(NEWEST)[&1]["dropped"], u64::from(u32::MAX));
    }

    #[test]
    fn a_line_of_another_format_is_left_out() {
        let text = format!("CPU dropped\n\n{MIDDLE}123456789 0 0\n");
        assert_eq!(parse(&text).keys().copied().collect::<Vec<_>>(), [2]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "([0-9a-f]{1,9}|[ -~]|[ \n]){0,120}") {
            for counters in parse(&text).values() {
                prop_assert!(counters.values().all(|value| *value <= u64::from(u32::MAX)));
            }
        }
    }
}
