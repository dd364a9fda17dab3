//! Values of flags, held against what a chain file takes for the same thing: one table of ranges for both. What is refused is
//! told in the unit in which it was written; the parser of the command line adds flag and value.

use std::time::Duration;

use forebay_run_evb::config::RunSettings;
use forebay_run_evb::presets;
use forebay_settings::{Got, Key, Kind, NAME, Settings, Text};

use crate::output::{parse_bytes, parse_duration};

const MS: Duration = Duration::from_millis(1);

/// Reads a name that enters names of files.
pub(crate) fn name(text: &str) -> Result<String, String> {
    text_of(&NAME, text)
}

fn text_of(kind: &Text, text: &str) -> Result<String, String> {
    match (kind.check)(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(wrong) => Err(format!("{}; write {}", wrong.wrong, kind.right)),
    }
}

/// How long a run lasts: from 1 ms to what a chain file allows.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let longest_s = bounds(key::<RunSettings>("duration_s"))?.1;
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

/// Reads a value of a key as flags write it: sizes as 4Mi, times as 1s, switches as on or off.
pub(crate) fn value(key: &Key, text: &str) -> Result<Got, String> {
    match key.kind {
        Kind::Flag => match text {
            "on" => Ok(Got::Flag(true)),
            "off" => Ok(Got::Flag(false)),
            _ => Err("write on or off".into()),
        },
        Kind::Choice(words) if words.contains(&text) => Ok(Got::Text(text.into())),
        Kind::Choice(_) => Err(format!("write {}", key.right())),
        Kind::Text(kind) => text_of(kind, text).map(Got::Text),
        Kind::Integer(..) | Kind::ZeroOr(..) | Kind::PowerOfTwo(..) | Kind::Either(..) => {
            number(key, text).map(Got::Integer)
        }
        Kind::Integers(..) | Kind::Texts(_) => {
            Err("a list stands in a file, or behind --set".into())
        }
    }
}

/// What a value of the key is called in the usage of its flag.
pub(crate) fn value_name(key: &Key) -> &'static str {
    match (key.kind, key.unit()) {
        (Kind::Flag, _) => "SWITCH",
        (Kind::Choice(_), _) => "WORD",
        (Kind::Text(_) | Kind::Texts(_), _) => "TEXT",
        (_, " bytes") => "SIZE",
        (_, " ms" | " s") => "TIME",
        _ => "N",
    }
}

/// Reads a number of a key: a size, a time in the key's unit, or a plain number.
pub(crate) fn number(key: &Key, text: &str) -> Result<u64, String> {
    match key.unit() {
        " bytes" => size(key, text),
        " ms" => amount(text, MS, bounds(key)?),
        " s" => amount(text, MS * 1000, bounds(key)?),
        _ => {
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
}

fn size(key: &Key, text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    match key.kind.number_fault(bytes.into()) {
        Some((wrong, _)) => Err(format!("{wrong}; write {}", limits(key))),
        None => Ok(bytes),
    }
}

/// The limits of a number, in the units of flags.
pub(crate) fn limits(key: &Key) -> String {
    let Some((least, most)) = key.kind.bounds() else {
        return match key.kind {
            Kind::Flag => "on or off".into(),
            Kind::Choice(words) => words.join(" or "),
            _ => key.right(),
        };
    };
    let time = |unit_ms: u64| {
        let of = |count: u64| shown_time(Duration::from_millis(count.saturating_mul(unit_ms)));
        format!("a time from {} to {}", of(least), of(most))
    };
    match (key.unit(), key.kind) {
        (" bytes", kind) => {
            let what = match kind {
                Kind::PowerOfTwo(..) => "a power of two",
                Kind::ZeroOr(..) => "0 or a size",
                _ => "a size",
            };
            format!(
                "{what} from {} to {}",
                shown_bytes(least),
                shown_bytes(most)
            )
        }
        (" ms", _) => time(1),
        (" s", _) => time(1000),
        (_, kind) => kind.right(""),
    }
}

/// What holds without the flag, as the flag would say it.
pub(crate) fn usual<S: Settings>(key: &Key) -> Option<String> {
    let unit_ms = if key.unit() == " s" { 1000 } else { 1 };
    Some(match (S::default().get(key.name)?, key.unit()) {
        (Got::Integer(bytes), " bytes") => shown_bytes(bytes),
        (Got::Integer(count), " ms" | " s") => {
            shown_time(Duration::from_millis(count.saturating_mul(unit_ms)))
        }
        (Got::Flag(true), _) => "on".into(),
        (Got::Flag(false), _) => "off".into(),
        (Got::Text(text), _) => text,
        (got, _) => got.to_string(),
    })
}

/// The key of that name.
pub(crate) fn key<S: Settings>(name: &'static str) -> &'static Key {
    let found = S::SECTION.key(name);
    debug_assert!(found.is_some(), "{name} is not declared");
    found.unwrap_or(&S::SECTION.keys[0])
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
    const UNITS: [(u64, &str); 8] = [
        (1 << 40, "Ti"),
        (1_000_000_000_000, "T"),
        (1 << 30, "Gi"),
        (1_000_000_000, "G"),
        (1 << 20, "Mi"),
        (1_000_000, "M"),
        (1 << 10, "Ki"),
        (1_000, "k"),
    ];
    let whole = |unit: &&(u64, &str)| bytes > 0 && bytes.is_multiple_of(unit.0);
    match UNITS.iter().find(whole) {
        Some((scale, unit)) => format!("{}{unit}", bytes / scale),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_run_evb::config::SinkSettings;
    use forebay_run_evb::plan::BuilderPlan;

    use super::*;

    #[test]
    fn what_is_refused_is_told_in_the_users_unit() {
        let timeout = |text: &str| number(key::<BuilderPlan>("timeout_ms"), text);
        assert_eq!(timeout("1.5s"), Ok(1500));
        assert_eq!(
            timeout("0").unwrap_err(),
            "it is too small; write a time from 1ms to 1h"
        );
        assert!(timeout("1500us").unwrap_err().contains("whole ms"));
        let queue = |text: &str| number(key::<SinkSettings>("queue_bytes"), text);
        assert_eq!(queue("4Mi"), Ok(4 << 20));
        assert_eq!(
            queue("3Mi").unwrap_err(),
            "it is no power of two; write a power of two from 64Ki to 64Gi"
        );
        assert!(number(key::<SinkSettings>("file_events_max"), "many").is_err());
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
