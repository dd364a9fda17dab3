//! Messaging, in turns with iperf3, libzmq, memcpy and a bare loop over libfabric.

mod fan_out;
mod in_memory;

use std::time::Duration;

use anyhow::{Context, Result};

use super::line::{Goal, Line};
use super::{Lines, Session};
use crate::net::Ground;
use crate::net::peer::{BareFabric, BarePattern, Peer, Peers};
use crate::net::perf::{Pattern, Perf};
use forebay_report::statistics::{Spread, spread};

const KIB: u32 = 1024;
const BUFFERS: u32 = 64;
const GOODPUT: &str = "goodput_bps";
const RATE: &str = "message_rate_hz";
const RTT: &str = "rtt_ns_p50";
/// Shares of what TCP carries in writes of 64 KiB: of large messages, of small ones.
const OF_TCP: f64 = 0.95;
const OF_TCP_SMALL: f64 = 0.9;
/// Times the messages per second of libzmq, and share of its round trip.
const OF_ZMQ: f64 = 3.0;
const OF_ZMQ_RTT: f64 = 0.5;
/// Share of what a bare loop over libfabric carries.
const OF_FABRIC: f64 = 0.9;

/// What is measured with what.
struct Bench<'a> {
    session: &'a Session,
    ground: Ground<'a>,
    peers: Peers,
}

/// One of those that take turns.
enum Turn<'a> {
    Ours(Perf),
    /// Another program with messages of so many bytes.
    Theirs(Peer, u32),
    /// A bare loop over this provider of libfabric, with messages of so many bytes.
    Bare(&'a BareFabric, BarePattern, &'static str, u32),
}

pub(super) fn net(session: &Session, lines: &mut Lines<'_>) -> Result<()> {
    let stop = || session.stop.is_asked();
    let ground = Ground::host(session.program.clone(), &stop);
    let wanted = [
        Peer::Iperf3,
        Peer::ZmqPushPull,
        Peer::ZmqReqRep,
        Peer::Memcpy,
    ];
    let bench = Bench {
        session,
        peers: Peers::find(&wanted, &ground),
        ground,
    };
    for skipped in bench.peers.skipped() {
        eprintln!("  {skipped}");
    }
    lines.put(bench.large()?);
    lines.put_all(bench.encrypted(&stop)?);
    for bytes in [64, KIB] {
        lines.put_all(bench.small(bytes)?);
    }
    lines.put(bench.round_trip()?);
    lines.put_all(bench.tags()?);
    lines.put_all(bench.subscribers()?);
    lines.put(bench.in_memory()?);
    lines.put(bench.round_trip_in_memory()?);
    lines.put_all(bench.unbuffered()?);
    bench.fabric(lines)
}

impl Bench<'_> {
    fn duration(&self) -> Duration {
        Duration::from_millis(if self.session.quick { 500 } else { 2000 })
    }

    fn perf(&self, backend: &str, message_bytes: u32, pattern: Pattern) -> Turn<'static> {
        Turn::Ours(self.own(backend, message_bytes, pattern))
    }

    fn own(&self, backend: &str, message_bytes: u32, pattern: Pattern) -> Perf {
        Perf {
            backend: backend.to_owned(),
            buffer_bytes: 64 * KIB,
            buffer_count: BUFFERS,
            message_bytes,
            pattern,
            duration: self.duration(),
        }
    }

    /// Each in turn, as often as the bench repeats, and oftener while the medians are not settled; nothing of a program that is missing.
    fn alternate(
        &self,
        turns: &[Turn<'_>],
        column: &str,
        scale: f64,
    ) -> Result<Vec<Option<Spread>>> {
        let mut found = vec![Vec::new(); turns.len()];
        let mut round = 0;
        while self.session.wants_more(round, &found) {
            round += 1;
            for (turn, values) in turns.iter().zip(&mut found) {
                self.session.go_on()?;
                let row = match turn {
                    Turn::Ours(perf) => perf.measure(&self.ground)?,
                    Turn::Theirs(peer, _) if !self.peers.has(*peer) => continue,
                    Turn::Theirs(peer, bytes) => {
                        let duration = self.duration();
                        self.peers
                            .measure(*peer, "tcp", *bytes, duration, &self.ground)?
                    }
                    Turn::Bare(bare, pattern, provider, bytes) => {
                        let (duration, ground) = (self.duration(), &self.ground);
                        bare.measure(*pattern, provider, *bytes, BUFFERS, duration, ground)?
                    }
                };
                values.push(row.number(column) * scale);
            }
        }
        Ok(found.into_iter().map(spread).collect())
    }

    fn large(&self) -> Result<Line> {
        let turns = [
            self.perf("tcp", 64 * KIB, Pattern::Stream),
            Turn::Theirs(Peer::Iperf3, 64 * KIB),
        ];
        let found = self.alternate(&turns, GOODPUT, 1e-9)?;
        let line = Line::new("tcp, messages of 64 KiB", "Gb/s", ours(&found)?);
        Ok(match found[1] {
            Some(iperf) => line
                .beside("iperf3 -l 64K", iperf)
                .ratio_goal(Goal::AtLeast(OF_TCP)),
            None => line.note("iperf3 is missing"),
        })
    }

    /// The same with encryption, beside that without, in turns; nothing where there is no `openssl` for the certificates.
    fn encrypted(&self, stop: &dyn Fn() -> bool) -> Result<Option<Line>> {
        let Some(secured) = Ground::secured(self.session.program.clone(), stop)? else {
            eprintln!("  tcp with TLS is left out: openssl is missing (Debian package openssl)");
            return Ok(None);
        };
        let perf = self.own("tcp", 64 * KIB, Pattern::Stream);
        let mut found = [Vec::new(), Vec::new()];
        let mut round = 0;
        while self.session.wants_more(round, &found) {
            round += 1;
            for (ground, values) in [&secured, &self.ground].into_iter().zip(&mut found) {
                self.session.go_on()?;
                values.push(perf.measure(ground)?.number(GOODPUT) * 1e-9);
            }
        }
        let [tls, plain] = found.map(spread);
        let tls = tls.context("nothing was measured")?;
        let line = Line::new("tcp with TLS, messages of 64 KiB", "Gb/s", tls);
        Ok(plain.map(|plain| line.beside("tcp without", plain)))
    }

    /// Of two goals the smaller one holds: nobody sends more than TCP carries.
    fn small(&self, bytes: u32) -> Result<Vec<Line>> {
        let turns = [
            self.perf("tcp", bytes, Pattern::Stream),
            Turn::Theirs(Peer::ZmqPushPull, bytes),
            Turn::Theirs(Peer::Iperf3, 64 * KIB),
        ];
        let found = self.alternate(&turns, GOODPUT, 1.0 / 8.0 / f64::from(bytes))?;
        let (ours, zmq, tcp) = (ours(&found)?, found[1], found[2]);
        let what = format!("tcp, messages of {bytes} B");
        let goals = [(zmq, OF_ZMQ), (tcp, OF_TCP_SMALL)]
            .map(|(of, share)| of.map_or(f64::INFINITY, |of| of.median * share));
        let beside = |name: &str, of: Option<Spread>, share: f64, holds: bool| {
            let line = Line::new(what.as_str(), "1/s", ours);
            let Some(of) = of else {
                return line.note(format!("{name} is missing"));
            };
            let line = line.beside(name, of);
            if holds {
                line.ratio_goal(Goal::AtLeast(share))
            } else {
                line.note("the other goal is the smaller one")
            }
        };
        let zmq_holds = goals[0] <= goals[1];
        Ok(vec![
            beside("libzmq PUSH/PULL", zmq, OF_ZMQ, zmq_holds),
            beside(
                "iperf3 -l 64K, as many bytes",
                tcp,
                OF_TCP_SMALL,
                !zmq_holds,
            ),
        ])
    }

    fn round_trip(&self) -> Result<Line> {
        let turns = [
            self.perf("tcp", 64, Pattern::RoundTrip),
            Turn::Theirs(Peer::ZmqReqRep, 64),
        ];
        let found = self.alternate(&turns, RTT, 1e-3)?;
        let line = Line::new("tcp, median round trip of 64 B", "µs", ours(&found)?);
        Ok(match found[1] {
            Some(zmq) => line
                .beside("libzmq REQ/REP", zmq)
                .ratio_goal(Goal::AtMost(OF_ZMQ_RTT)),
            None => line.note("libzmq is missing"),
        })
    }

    /// Nothing without libfabric.
    fn fabric(&self, lines: &mut Lines<'_>) -> Result<()> {
        let bare = match BareFabric::build() {
            Ok(bare) => bare,
            Err(error) => {
                eprintln!("  bare libfabric: {error:#}");
                return Ok(());
            }
        };
        let (backend, provider) = ("fabric+tcp", "tcp");
        if let Some(skipped) = Perf::trial(backend, &self.ground)? {
            eprintln!("  {backend}: {}", skipped.reason);
            return Ok(());
        }
        lines.put(self.fabric_stream(&bare, backend, provider)?);
        lines.put(self.fabric_round_trip(&bare, backend, provider)?);
        Ok(())
    }

    fn fabric_stream(
        &self,
        bare: &BareFabric,
        backend: &str,
        provider: &'static str,
    ) -> Result<Line> {
        let bytes = 64 * KIB;
        // Messages of this size are written in place on our side, too.
        let turns = [
            self.perf(backend, bytes, Pattern::Stream),
            Turn::Bare(bare, BarePattern::InPlace, provider, bytes),
            Turn::Bare(bare, BarePattern::Stream, provider, bytes),
        ];
        let found = self.alternate(&turns, GOODPUT, 1e-9)?;
        let what = format!("{backend}, messages of 64 KiB");
        let line = Line::new(what, "Gb/s", ours(&found)?);
        let (Some(none), Some(one)) = (found[1], found[2]) else {
            return Ok(line);
        };
        Ok(line
            .beside("bare loop of libfabric", none)
            .ratio_goal(Goal::AtLeast(OF_FABRIC))
            .note(format!(
                "with a copy of each message it has {:.1}",
                one.median
            )))
    }

    fn fabric_round_trip(
        &self,
        bare: &BareFabric,
        backend: &str,
        provider: &'static str,
    ) -> Result<Line> {
        let turns = [
            self.perf(backend, 64, Pattern::RoundTrip),
            Turn::Bare(bare, BarePattern::RoundTrip, provider, 64),
        ];
        let found = self.alternate(&turns, RTT, 1e-3)?;
        let what = format!("{backend}, median round trip of 64 B");
        let line = Line::new(what, "µs", ours(&found)?);
        Ok(match found[1] {
            Some(bare) => line.beside("bare loop of libfabric", bare),
            None => line,
        })
    }
}

fn ours(found: &[Option<Spread>]) -> Result<Spread> {
    found
        .first()
        .copied()
        .flatten()
        .context("nothing was measured")
}
