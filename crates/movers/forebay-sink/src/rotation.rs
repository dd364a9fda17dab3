//! Which file the next event belongs to, and when a new one begins.

use crate::plan::{FilePlan, TcpPlan};

/// Start and stop event of a file.
const FILE_FRAME_BYTES: u64 = 64;

/// When a new file begins; 0: never for this reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Before one grows beyond so many bytes.
    pub bytes: u64,
    /// After so many events.
    pub events: u64,
    /// After so many seconds.
    pub seconds: u64,
}

impl From<&FilePlan> for Limits {
    fn from(file: &FilePlan) -> Self {
        Self {
            bytes: file.bytes_max,
            events: file.events_max,
            seconds: file.seconds_max,
        }
    }
}

impl From<&TcpPlan> for Limits {
    fn from(tcp: &TcpPlan) -> Self {
        Self {
            bytes: tcp.bytes_max,
            events: tcp.events_max,
            seconds: tcp.seconds_max,
        }
    }
}

/// The file at hand.
#[derive(Debug, Clone)]
pub struct Rotation {
    limits: Option<Limits>,
    run: u32,
    bytes: u64,
    events: u64,
    /// When the file began, by the monotonic clock.
    start_ns: u64,
    /// Run number of the first file; 0 before.
    first_run: u32,
    /// Least run number: those below are taken by older files.
    run_min: u32,
}

impl Rotation {
    /// Goes on at a [place](Self::place) that a predecessor has written down. Without limits there is one file, of which only the number is needed.
    #[must_use]
    pub fn restored(
        limits: Option<Limits>,
        run_min: u32,
        [run, bytes, events, start_ns]: [u64; 4],
        first_run: u64,
    ) -> Self {
        Self {
            limits,
            run: run as u32,
            bytes,
            events,
            start_ns,
            first_run: first_run as u32,
            run_min,
        }
    }

    /// Run number, bytes, events and start (in ns of the monotonic clock) of the file at hand.
    #[must_use]
    pub fn place(&self) -> [u64; 4] {
        [u64::from(self.run), self.bytes, self.events, self.start_ns]
    }

    /// Run number of the file at hand; 0 before the first one.
    #[must_use]
    pub const fn run(&self) -> u32 {
        self.run
    }

    /// Run number of the first file; 0 before it.
    #[must_use]
    pub const fn first_run(&self) -> u32 {
        self.first_run
    }

    /// An event of `bytes` goes into the file at hand.
    pub const fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.events += 1;
    }

    /// Whether an event of `bytes` needs a new file.
    #[must_use]
    pub fn is_due(&self, bytes: u64, now_ns: u64) -> bool {
        let Some(limits) = &self.limits else {
            return self.run == 0;
        };
        let over = |limit: u64, value: u64| limit > 0 && value > limit;
        let age_ns = now_ns.saturating_sub(self.start_ns);
        let is_old = limits.seconds > 0 && age_ns >= limits.seconds.saturating_mul(1_000_000_000);
        self.run == 0
            || (self.events > 0
                && (over(limits.bytes, self.bytes + bytes)
                    || over(limits.events, self.events + 1)
                    || is_old))
    }

    /// Run numbers are seconds, and no two files of a run have the same.
    pub fn begin(&mut self, run_s: i64, now_ns: u64) {
        self.run = (run_s as u32)
            .max(self.run.wrapping_add(1))
            .max(self.run_min);
        if self.first_run == 0 {
            self.first_run = self.run;
        }
        self.bytes = FILE_FRAME_BYTES;
        self.events = 0;
        self.start_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn begun(limits: Limits) -> Rotation {
        let mut rotation = Rotation::restored(Some(limits), 0, [0; 4], 0);
        assert!(rotation.is_due(1, 0), "there is no file yet");
        rotation.begin(1_000, 5 * S);
        rotation
    }

    #[test]
    fn a_file_ends_at_the_first_of_its_limits() {
        let mut by_bytes = begun(Limits {
            bytes: 264,
            ..Limits::default()
        });
        assert!(
            !by_bytes.is_due(1_000, 5 * S),
            "an event that is longer than a file gets one"
        );
        by_bytes.count(100);
        assert!(!by_bytes.is_due(100, 5 * S) && by_bytes.is_due(101, 5 * S));

        let mut by_events = begun(Limits {
            events: 2,
            ..Limits::default()
        });
        by_events.count(100);
        assert!(!by_events.is_due(100, 5 * S));
        by_events.count(100);
        assert!(by_events.is_due(100, 5 * S));

        let mut by_age = begun(Limits {
            seconds: 3,
            ..Limits::default()
        });
        assert!(!by_age.is_due(1, 100 * S), "an empty file is not old");
        by_age.count(1);
        assert!(!by_age.is_due(1, 8 * S - 1) && by_age.is_due(1, 8 * S));

        let mut endless = begun(Limits::default());
        endless.count(u64::MAX / 2);
        assert!(!endless.is_due(1, u64::MAX));
        assert!(!Rotation::restored(None, 0, [7, 0, 9, 0], 7).is_due(1, u64::MAX));
    }

    #[test]
    fn no_two_files_have_the_same_number_and_none_that_of_an_older_one() {
        let mut rotation = Rotation::restored(Some(Limits::default()), 1_005, [0; 4], 0);
        let mut begin = |run_s| {
            rotation.begin(run_s, 0);
            (rotation.run(), rotation.first_run())
        };
        assert_eq!(begin(1_000), (1_005, 1_005));
        assert_eq!(begin(1_000), (1_006, 1_005));
        assert_eq!(begin(2_000), (2_000, 1_005));
        rotation.count(36);
        // A successor goes on where it was.
        let after = Rotation::restored(None, 0, rotation.place(), 1_005);
        assert_eq!(after.place(), [2_000, 100, 1, 0]);
        assert_eq!(after.first_run(), 1_005);
    }
}
