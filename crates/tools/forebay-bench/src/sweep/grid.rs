//! The points of a sweep and their order.

use forebay_emu::rng::Xoshiro256;

use super::Options;
use crate::net::peer::Peer;
use crate::net::perf::{Pattern, Perf};
use forebay_report::rows::Row;

/// What distinguishes points, in rows.
pub(super) const LABELS: [&str; 8] = [
    "program",
    "pattern",
    "backend",
    "network",
    "buffer_bytes",
    "buffer_count",
    "message_bytes",
    "duration_s",
];

/// What is run at a point.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Task {
    Perf(Perf),
    Peer(Peer),
}

/// One point.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) backend: String,
    pub(super) message_bytes: u32,
    pub(super) task: Task,
}

impl Point {
    pub(super) fn peer(&self) -> Option<Peer> {
        match self.task {
            Task::Peer(peer) => Some(peer),
            Task::Perf(_) => None,
        }
    }

    /// For the line of progress.
    pub(super) fn name(&self) -> String {
        let bytes = self.message_bytes;
        match &self.task {
            Task::Peer(peer) => {
                format!(
                    "{} {}, messages of {bytes} B",
                    peer.program(),
                    peer.pattern()
                )
            }
            Task::Perf(perf) => format!(
                "{}{}, {} buffers of {} B, messages of {bytes} B",
                self.backend,
                if perf.is_answered() {
                    " round trips"
                } else {
                    ""
                },
                perf.buffer_count,
                perf.buffer_bytes
            ),
        }
    }

    /// What distinguishes it, as cells of a row.
    pub(super) fn labels(&self, options: &Options, network: &str) -> Row {
        let (program, pattern) = match &self.task {
            Task::Peer(peer) => (peer.program(), peer.pattern()),
            Task::Perf(perf) => ("forebay", perf.pattern.name()),
        };
        let mut row = Row::default();
        row.add("program", program);
        row.add("pattern", pattern);
        row.add("backend", self.backend.as_str());
        row.add("network", network);
        if let Task::Perf(perf) = &self.task {
            row.add("buffer_bytes", f64::from(perf.buffer_bytes));
            row.add("buffer_count", f64::from(perf.buffer_count));
        }
        row.add("message_bytes", f64::from(self.message_bytes));
        row.add("duration_s", options.duration.as_secs_f64());
        row
    }
}

/// Every combination that fits, each once: a message must fit into a buffer.
pub(super) fn points(options: &Options, backends: &[String]) -> Vec<Point> {
    let mut points = Vec::new();
    for backend in backends {
        for &buffer_bytes in &options.buffer_bytes {
            for message_bytes in messages(options, buffer_bytes) {
                for &buffer_count in &options.buffer_count {
                    let patterns: &[Pattern] = if options.rtt {
                        &[Pattern::Stream, Pattern::RoundTrip]
                    } else {
                        &[Pattern::Stream]
                    };
                    points.extend(patterns.iter().map(|&pattern| Point {
                        backend: backend.clone(),
                        message_bytes,
                        task: Task::Perf(Perf {
                            backend: backend.clone(),
                            buffer_bytes,
                            buffer_count,
                            message_bytes,
                            pattern,
                            duration: options.duration,
                        }),
                    }));
                }
            }
        }
    }
    let mut distinct = Vec::new();
    for point in points {
        if !distinct.contains(&point) {
            distinct.push(point);
        }
    }
    distinct
}

/// Sizes of messages for buffers of a size.
fn messages(options: &Options, buffer_bytes: u32) -> Vec<u32> {
    if options.message_bytes.is_empty() {
        return vec![buffer_bytes];
    }
    let fit = options.message_bytes.iter().copied();
    fit.filter(|bytes| *bytes <= buffer_bytes).collect()
}

/// The other programs, each with every size of messages.
pub(super) fn peers(options: &Options, backends: &[String]) -> Vec<Point> {
    let mut sizes: Vec<u32> = options
        .buffer_bytes
        .iter()
        .flat_map(|buffer| messages(options, *buffer))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut points: Vec<Point> = Vec::new();
    for peer in Peer::ALL {
        if peer.is_answered() && !options.rtt {
            continue;
        }
        let mut over: Vec<&str> = backends
            .iter()
            .map(String::as_str)
            .filter(|backend| peer.fits(backend))
            .collect();
        if peer == Peer::Memcpy && !over.is_empty() {
            // One and the same beside all backends.
            over = vec!["memory"];
        }
        for backend in over {
            points.extend(sizes.iter().map(|&message_bytes| Point {
                backend: backend.to_owned(),
                message_bytes,
                task: Task::Peer(peer),
            }));
        }
    }
    points
}

/// Puts points into an order that follows from `seed`, so that what changes with time meets no part of the grid alone.
pub(super) fn shuffle(points: &mut [Point], seed: u64) {
    let mut rng = Xoshiro256::new(seed);
    for last in (1..points.len()).rev() {
        points.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn options() -> Options {
        Options {
            backends: vec!["tcp".into(), "shm".into()],
            buffer_bytes: vec![1024, 2048],
            buffer_count: vec![1, 2, 4],
            message_bytes: Vec::new(),
            repeats: 1,
            duration: Duration::from_secs(1),
            rtt: false,
            references: true,
            seed: 1,
            apart: false,
            peer: None,
            resume: false,
            out: "out".into(),
            begun_with: None,
            program: "forebay".into(),
        }
    }

    #[test]
    fn every_combination_is_there_once() {
        let mut options = options();
        let backends = options.backends.clone();
        assert_eq!(points(&options, &backends).len(), 2 * 2 * 3);
        options.rtt = true;
        assert_eq!(points(&options, &backends).len(), 2 * 2 * 3 * 2);
        // 64 B fit into both, 2,000 B only into the larger one, 4,096 B into none.
        options.message_bytes = vec![64, 2000, 4096, 64];
        assert_eq!(points(&options, &backends).len(), 2 * 3 * 3 * 2);
    }

    #[test]
    fn peers_stand_beside_the_backends_that_they_fit() {
        let options = options();
        let programs = |backend: &str| -> Vec<&str> {
            let points = peers(&options, &[backend.to_owned()]);
            points
                .iter()
                .filter_map(Point::peer)
                .map(Peer::program)
                .collect()
        };
        let all = [
            "iperf3", "iperf3", "libzmq", "libzmq", "libzmq", "libzmq", "memcpy", "memcpy",
        ];
        assert_eq!(programs("tcp"), all);
        assert_eq!(programs("shm"), ["memcpy", "memcpy"]);
    }

    #[test]
    fn a_seed_decides_the_order() {
        let options = options();
        let order = |seed| {
            let mut points = points(&options, &options.backends);
            shuffle(&mut points, seed);
            points
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_eq!(order(1).len(), order(2).len());
    }
}
