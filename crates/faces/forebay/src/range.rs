//! Values of flags, held against what a chain file takes for the same thing: one table of ranges for both. What is refused is
//! told in the unit in which it was written; the parser of the command line adds flag and value.

use std::time::Duration;

use forebay_run::config::keys::{Key, Kind, Section, name_fault};
use forebay_run_evb::config::sections::RUN;
use forebay_run_evb::presets;

use crate::output::{parse_bytes, parse_duration};

const MS: Duration = Duration::from_millis(1);

/// Reads a name that enters names of files.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match name_fault(text) {
        Some(wrong) => Err(format!("{wrong}; write {}", Kind::Name.right(""))),
        None => Ok(text.to_owned()),
    }
}

/// How long a run lasts: from 1 ms to what a chain file allows.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let longest_s = bounds(declared(&RUN, "duration_s")?)?.1;
    amount(text, MS, (1, longest_s.saturating_mul(1000))).map(Duration::from_millis)
}

/// Triggers per second of the emulator.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let (least, most) = presets::RATE_HZ;
    let right = format!("write a number from {least} to {most} (triggers per second)");
    match text.parse::<f64>() {
        Ok(rate) if (least..=most).contains(&rate) => Ok(rate),
        Ok(rate) if rate < least => Err(format!("it is too small; {right}")),
        Ok(rate) if rate > most => Err(format!("it is too large; {right}")),
        _ => Err(format!("it is no number; {right}")),
    }
}

/// Water mark of the emulator in bytes; 0 is none.
pub(crate) fn water_mark(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    let least = presets::WATER_MARK_BYTES_MIN;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes == 0 || bytes >= least => Ok(bytes),
        found => {
            let wrong = if found.is_ok() { "small" } else { "large" };
            let most = u32::MAX;
            Err(format!(
                "it is too {wrong}; write 0 or a size from {least} to {most} bytes"
            ))
        }
    }
}

/// Bytes of an emulated sub-event with its header.
pub(crate) fn sub_event(text: &str) -> Result<u32, String> {
    let (least, most) = presets::SUBEVENT_BYTES;
    let bytes = parse_bytes(text)?;
    let wrong = match Kind::Integer(least.into(), most.into()).number_fault(bytes.into()) {
        Some((wrong, _)) => wrong,
        None if !bytes.is_multiple_of(4) => "it is no multiple of 4",
        None => return u32::try_from(bytes).map_err(|_| "it is too large".into()),
    };
    let (least, most) = (shown_bytes(least.into()), shown_bytes(most.into()));
    Err(format!(
        "{wrong}; write a multiple of 4 bytes from {least} to {most}"
    ))
}

/// Reads a time in whole ms up to an hour.
pub(crate) fn hour_ms(text: &str) -> Result<u64, String> {
    amount(text, MS, (0, 3_600_000))
}

/// Reads a time in the range and in the unit (ms or s) of a key.
pub(crate) fn time(
    section: Section,
    key: &'static str,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| {
        let key = declared(&section, key)?;
        let unit = if key.unit() == " ms" { MS } else { MS * 1000 };
        amount(text, unit, bounds(key)?)
    }
}

/// Reads a size in bytes in the range of a key.
pub(crate) fn size(
    section: Section,
    key: &'static str,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| {
        let key = declared(&section, key)?;
        let (least, most) = bounds(key)?;
        let bytes = parse_bytes(text)?;
        let Some((wrong, _)) = key.kind.number_fault(bytes.into()) else {
            return Ok(bytes);
        };
        let what = match key.kind {
            Kind::PowerOfTwo(..) => "a power of two",
            Kind::ZeroOr(..) => "0 or a size",
            _ => "a size",
        };
        Err(format!(
            "{wrong}; write {what} from {} to {}",
            shown_bytes(least),
            shown_bytes(most)
        ))
    }
}

/// Reads a number in the range of a key.
pub(crate) fn number(
    section: Section,
    key: &'static str,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync {
    move |text| {
        let key = declared(&section, key)?;
        let right = key.kind.right("");
        let number = text
            .parse()
            .map_err(|_| format!("it is no number; write {right}"))?;
        match key.kind.number_fault(i128::from(number)) {
            Some((wrong, _)) => Err(format!("{wrong}; write {right}")),
            None => Ok(number),
        }
    }
}

fn declared(section: &Section, key: &'static str) -> Result<&'static Key, String> {
    let found = section.key(key);
    found.ok_or_else(|| format!("{}.{key} is not declared", section.name))
}

fn bounds(key: &Key) -> Result<(u64, u64), String> {
    let found = key.kind.bounds();
    found.ok_or_else(|| format!("{} has no range", key.name))
}

/// A time as a number of whole `unit`s.
fn amount(text: &str, unit: Duration, (least, most): (u64, u64)) -> Result<u64, String> {
    let time = parse_duration(text)?;
    let unit_ms = unit.as_millis() as u64;
    let of = |count: u64| shown_time(Duration::from_millis(count.saturating_mul(unit_ms)));
    let wrong = |what: &str| format!("{what}; write a time from {} to {}", of(least), of(most));
    let count = u64::try_from(time.as_nanos() / unit.as_nanos()).unwrap_or(u64::MAX);
    let whole = time.as_nanos().is_multiple_of(unit.as_nanos());
    match Kind::Integer(least, most).number_fault(count.into()) {
        Some((fault, _)) => Err(wrong(fault)),
        None if !whole => Err(wrong(&format!("it is not in whole {}", &of(1)[1..]))),
        None => Ok(count),
    }
}

fn shown_time(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (0, 0) => "0s".into(),
        (_, 1..) => format!("{}ms", time.as_millis()),
        (seconds, _) if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        (seconds, _) if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        (seconds, _) => format!("{seconds}s"),
    }
}

fn shown_bytes(bytes: u64) -> String {
    let units = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let whole = |unit: &&(u32, &str)| bytes > 0 && bytes.is_multiple_of(1 << unit.0);
    match units.iter().find(whole) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_run_evb::config::sections::{BUILDER, SINKS};

    use super::*;

    #[test]
    fn what_is_refused_is_told_in_the_users_unit() {
        let timeout = time(BUILDER, "timeout_ms");
        assert_eq!(timeout("1.5s"), Ok(1500));
        assert_eq!(
            timeout("0").unwrap_err(),
            "it is too small; write a time from 1ms to 1h"
        );
        assert!(timeout("1500us").unwrap_err().contains("whole ms"));
        let queue = size(SINKS, "queue_bytes");
        assert_eq!(queue("4Mi"), Ok(4 << 20));
        assert_eq!(
            queue("3Mi").unwrap_err(),
            "it is no power of two; write a power of two from 64Ki to 64Gi"
        );
        assert!(number(SINKS, "file_events_max")("many").is_err());
        for wrong in ["0", "1e308", "200000000", "nan", "inf", "-inf", "x"] {
            let error = rate(wrong).unwrap_err();
            assert!(error.contains("from 0.001 to 100000000"), "{error}");
        }
        assert_eq!((water_mark("0"), water_mark("32Ki")), (Ok(0), Ok(32 << 10)));
        assert!(water_mark("4Gi").unwrap_err().contains("too large"));
        assert!(sub_event("10G").unwrap_err().contains("from 16 to 16Mi"));
        assert!(sub_event("102").unwrap_err().contains("no multiple of 4"));
        assert!(duration("0s").unwrap_err().contains("from 1ms to 8760h"));
    }
}
