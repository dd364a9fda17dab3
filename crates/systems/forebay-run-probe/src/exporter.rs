//! The thread that exports: records of all lanes, to all exporters.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use forebay_ledger::Leak;
use forebay_run::{Host, Stop, Urgency};
use forebay_sys::clock;

use crate::books::ExportBook;
use crate::error::ProbeError;
use crate::export::{Amount, Export, Exporter, Failed, Row, Trust};
use crate::queue::{Found, Queue};
use crate::run::ProbePlan;
use crate::summary::ExportSummary;

/// Books are shown so often, and a record waits no longer for others to be written with.
const LOOK: Duration = Duration::from_millis(100);
/// At the end all collectors together have so long to take what waits, in ns.
const END_NS: u64 = 30_000_000_000;
/// Collectors are told so often what was refused and not sent.
const REPORT: Duration = Duration::from_secs(60);

/// What came out of a lane, and went to the exporters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    pub(crate) came: Amount,
    pub(crate) went: Amount,
}

/// All exporters: each gets every record.
pub(crate) struct Exporters {
    pub(crate) all: Vec<Exporter>,
    /// Of each lane.
    pub(crate) lanes: Vec<Passed>,
    leak: Leak,
    stop: Stop,
}

impl Exporters {
    pub(crate) fn begin(plan: &ProbePlan, host: &Host) -> Result<Self, ProbeError> {
        let none = [Export::None];
        let exports = match plan.settings.export.as_slice() {
            [] => &none,
            some => some,
        };
        let trust = Trust::load(&plan.settings)?;
        if let Some(warning) = trust.as_ref().and_then(|trust| trust.warning.as_deref()) {
            host.warn(warning);
        }
        let mut all = Vec::new();
        for (n, export) in exports.iter().enumerate() {
            if exports[..n].contains(export) {
                return Err(ProbeError::Twice(export.to_string()));
            }
            let settings = &plan.settings;
            let mut exporter = Exporter::begin(export, settings, trust.as_ref(), &host.stop)?;
            // What shall vanish vanishes in one place.
            if n == 0 {
                exporter.leak = host.leak.clone();
            }
            all.push(exporter);
        }
        Ok(Self {
            all,
            lanes: Vec::new(),
            leak: host.leak.clone(),
            stop: host.stop.clone(),
        })
    }

    /// Exports what comes until all lanes are closed: what each exporter did, and those that failed.
    pub(crate) fn run(
        mut self,
        queue: &Queue,
        mut book: ExportBook,
        note: &mpsc::Sender<String>,
    ) -> (Vec<ExportSummary>, Vec<Failed>) {
        // Where this thread ends by a panic, nobody waits for it.
        let _leave = Leave(queue, self.stop.clone());
        let mut shown = Instant::now();
        let mut reported = shown;
        loop {
            let is_look = shown.elapsed() >= LOOK;
            for exporter in &mut self.all {
                if is_look || exporter.until_turn(LOOK).is_zero() {
                    exporter.write_in_time();
                }
                // A collector may go and come back between two looks.
                if let Some(news) = exporter.news() {
                    drop(note.send(news));
                }
            }
            if is_look {
                shown = Instant::now();
                book.show(queue, &self);
            }
            if self.lets_wait() {
                std::thread::sleep(self.until_turn());
                continue;
            }
            match queue.take(self.until_turn()) {
                Found::Records(lane, records) => self.take(lane, &records),
                Found::Nothing => {}
                Found::End => break,
            }
            if reported.elapsed() >= REPORT {
                reported = Instant::now();
                self.report(queue);
            }
        }
        self.end(queue, &mut book)
    }

    /// How long records are waited for: until something that waits has its turn, at most for a look.
    fn until_turn(&self) -> Duration {
        let turns = self.all.iter().map(|exporter| exporter.until_turn(LOOK));
        turns.min().unwrap_or(LOOK)
    }

    /// Whether records may wait where they are for an exporter with a pace: nothing more is captured.
    fn lets_wait(&self) -> bool {
        self.stop.urgency() == Urgency::Drain && self.all.iter().any(Exporter::is_full)
    }

    /// Takes records out of a lane.
    fn take(&mut self, lane: usize, rows: &[Row]) {
        for row in rows {
            if self.leak.take("queue") {
                continue;
            }
            self.lanes[lane].came += Amount::of(&row.record);
            self.give(lane, row);
        }
    }

    /// Gives a record to each exporter.
    fn give(&mut self, lane: usize, row: &Row) {
        for (place, exporter) in self.all.iter_mut().enumerate() {
            if place == 0 && self.leak.take("fan_out") {
                continue;
            }
            exporter.export(row);
        }
        self.lanes[lane].went += Amount::of(&row.record);
    }

    /// Tells collectors what was lost.
    fn report(&mut self, queue: &Queue) {
        let before = queue.losses();
        self.all
            .iter_mut()
            .for_each(|exporter| exporter.report(&before));
    }

    /// All records are written, or given up.
    fn end(mut self, queue: &Queue, book: &mut ExportBook) -> (Vec<ExportSummary>, Vec<Failed>) {
        let stop = self.stop.clone();
        let until_ns = clock::monotonic_ns() + END_NS;
        for exporter in &mut self.all {
            exporter.write_all(&stop, until_ns);
        }
        self.report(queue);
        book.show(queue, &self);
        let summaries = self.all.iter().enumerate().map(ExportSummary::of);
        let summaries = summaries.collect();
        let ends = self.all.into_iter().map(Exporter::finish);
        (summaries, ends.filter_map(Result::err).collect())
    }
}

struct Leave<'a>(&'a Queue, Stop);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.leave();
        // Packets that nobody exports need not be captured.
        if std::thread::panicking() {
            self.1.order(Urgency::Hurry);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_flow::Volume;

    use super::*;
    use crate::config::ProbeSettings;
    use crate::export::tests;
    use crate::queue::Outlet;

    /// A record of two packets with so many octets.
    fn row(octets: u64) -> Row {
        let mut row = tests::row(octets);
        row.record.packets = 2;
        row
    }

    #[test]
    fn each_record_of_a_lane_comes_to_each_exporter_once() {
        let (settings, stop) = (ProbeSettings::default(), Stop::of_library().unwrap());
        let exporter = |_| Exporter::begin(&Export::None, &settings, None, &stop).unwrap();
        let mut exporters = Exporters {
            all: (0..3).map(exporter).collect(),
            lanes: vec![Passed::default(); 2],
            leak: Leak::off(),
            stop: stop.clone(),
        };
        exporters.take(1, &[row(10), row(200)]);
        exporters.take(0, &[row(3_000)]);
        exporters.take(1, &[row(40_000)]);
        let amount = |flows, octets| Amount {
            flows,
            volume: Volume {
                packets: 2 * flows,
                octets,
            },
        };
        let lanes = exporters.lanes.iter().map(|lane| (lane.came, lane.went));
        let (first, second) = (amount(1, 3_000), amount(3, 40_210));
        assert!(lanes.eq([(first, first), (second, second)]));
        for exporter in &exporters.all {
            assert_eq!(exporter.came, amount(4, 43_210));
        }
    }

    #[test]
    fn a_queue_that_is_left_holds_nobody_back_and_a_panic_ends_the_run() {
        let (queue, stop) = (Queue::new(1, 0), Stop::of_library().unwrap());
        drop(Leave(&queue, stop.clone()));
        let mut outlet = Outlet::new(&queue, 0);
        outlet.push(row(1));
        outlet.hand_over(|| unreachable!("nobody takes it"));
        assert_eq!((outlet.full.flows, stop.is_asked()), (1, false));
        let panics = || {
            let _leave = Leave(&queue, stop.clone());
            unreachable!("as it shall");
        };
        std::thread::scope(|scope| scope.spawn(panics).join().unwrap_err());
        assert_eq!(stop.urgency(), Urgency::Hurry);
    }

    #[test]
    fn records_wait_for_a_pace_when_nothing_more_is_captured_and_there_is_time() {
        let (plan, stop) = (ProbePlan::default(), Stop::of_library().unwrap());
        let host = Host::new(stop.clone(), Leak::off(), ());
        let mut exporters = Exporters::begin(&plan, &host).unwrap();
        assert_eq!(exporters.until_turn(), LOOK);
        for (urgency, waits) in [
            (Urgency::Go, false),
            (Urgency::Drain, true),
            (Urgency::Hurry, false),
        ] {
            stop.order(urgency);
            assert!(!exporters.lets_wait());
            exporters.all.push(tests::plain(Some(false), Some(0), 45).0);
            assert_eq!(exporters.lets_wait(), waits, "{urgency:?}");
            exporters.all.pop();
        }
        exporters.all.push(tests::plain(Some(false), Some(0), 45).0);
        assert_eq!(exporters.until_turn(), Duration::ZERO);
    }
}
