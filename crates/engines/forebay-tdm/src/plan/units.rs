//! Times and rates as people write them.

/// A time in the unit that it has at least one of, with up to three decimals.
pub(crate) fn time(ns: &u64) -> String {
    let steps = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    scaled(*ns, &steps, "ns")
}

/// A rate, likewise.
pub(crate) fn rate(bps: &u64) -> String {
    let steps = [
        (1_000_000_000, "Gbit/s"),
        (1_000_000, "Mbit/s"),
        (1_000, "kbit/s"),
    ];
    scaled(*bps, &steps, "bit/s")
}

fn scaled(value: u64, steps: &[(u64, &'static str)], one: &'static str) -> String {
    let step = steps.iter().find(|(scale, _)| value >= *scale);
    let (scale, unit) = step.copied().unwrap_or((1, one));
    let text = format!("{:.3}", value as f64 / scale as f64);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_people_write() {
        let times = [0, 999, 12_304, 2_500_000, 1_000_000_000, 61_000_000_000];
        let told = ["0 ns", "999 ns", "12.304 us", "2.5 ms", "1 s", "61 s"];
        assert_eq!(times.map(|ns| time(&ns)), told);
        assert_eq!(rate(&200_000_000), "200 Mbit/s");
        assert_eq!(rate(&800_000_000_000), "800 Gbit/s");
        assert_eq!(rate(&5), "5 bit/s");
    }
}
