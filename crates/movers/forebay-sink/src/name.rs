//! Names of HLD files: local time of the run number, and a suffix where that name is taken.

use std::path::PathBuf;

use forebay_wire::hld_name::{LocalTime, file_name, unix_s_from_run};

use crate::plan::FilePlan;

/// Path of the file for `run`; `suffix` 0 is the plain name.
pub(super) fn path(plan: &FilePlan, run: u32, suffix: u32) -> PathBuf {
    let plain = file_name(
        &plan.prefix,
        local_time(run),
        Some(u16::from(plan.builder_number)),
    );
    let name = match (suffix, plain.strip_suffix(".hld")) {
        (1.., Some(stem)) => format!("{stem}-{suffix}.hld"),
        _ => plain,
    };
    plan.directory.join(name)
}

fn local_time(run: u32) -> LocalTime {
    let stamp =
        jiff::Timestamp::from_second(unix_s_from_run(run)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let local = stamp.to_zoned(jiff::tz::TimeZone::system());
    LocalTime {
        year: local.year().unsigned_abs(),
        day_of_year: local.day_of_year().unsigned_abs(),
        hour: local.hour().unsigned_abs(),
        minute: local.minute().unsigned_abs(),
        second: local.second().unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_a_suffix() {
        let plan = FilePlan {
            directory: "/data".into(),
            prefix: "be".into(),
            builder_number: 7,
            bytes_max: 0,
            events_max: 0,
            seconds_max: 0,
            sync: false,
            io: crate::Io::Buffered,
        };
        let plain = path(&plan, 595_289_095, 0);
        let name = plain.file_name().unwrap().to_str().unwrap();
        assert_eq!(
            (name.len(), &name[..2], &name[13..]),
            ("be2632519513507.hld".len(), "be", "07.hld")
        );
        let second = path(&plan, 595_289_095, 2);
        assert_eq!(
            second.to_str().unwrap(),
            plain.to_str().unwrap().replace(".hld", "-2.hld")
        );
    }
}
