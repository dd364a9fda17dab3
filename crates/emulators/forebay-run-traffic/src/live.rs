//! Packets onto an interface, in time.

use std::os::fd::AsFd as _;

use forebay_ledger::Leak;
use forebay_link::packet::SendPort;
use forebay_run::record::Record;
use forebay_run::{Host, RunError, Stop};
use forebay_sys::{clock, wait};
use forebay_traffic::{IP_BYTES_MAX, Traffic};

use crate::books::{Became, Books, Kind};
use crate::pace::{BURST_NS, Pace, Schedule};
use crate::sent::SentTruth;
use crate::source::Rows;
use crate::truth::Truth;
use crate::wire::{ETHERNET_HEADER_BYTES, Wire, WireDrop};
use crate::{
    InterfaceSummary, SHOW_NS, SendBy, TrafficError, TrafficPlan, TrafficSummary, engine, run_end,
    summary,
};

/// Bytes of the longest headers, of TCP in IPv6 in Ethernet.
const HEADERS_BYTES: u32 = ETHERNET_HEADER_BYTES + 60;
/// The kernel may delay a sleep by so much to bundle it with others, in ns.
const SLACK_NS: u64 = 1_000;

/// Sends the packets of a plan on an interface.
pub(crate) fn send(
    plan: &TrafficPlan,
    interface: &str,
    pace: Pace,
    asked: Option<SendBy>,
    host: &Host,
) -> Result<Record<TrafficSummary>, TrafficError> {
    let send_by = asked.unwrap_or_default();
    let port = SendPort::open(interface)?;
    if send_by == SendBy::Ring && port.interface().is_loopback {
        let interface = interface.to_owned();
        return Err(TrafficError::RingOfLoopback { interface });
    }
    let mtu_bytes = port.mtu_bytes().map_err(RunError::from)?;
    let ip_bytes_max = ip_bytes_max(mtu_bytes, plan.snap_bytes)?;
    let frame_bytes_max = ip_bytes_max.max(HEADERS_BYTES) + ETHERNET_HEADER_BYTES;
    let frame_bytes_max = frame_bytes_max as usize;
    let port = match send_by {
        SendBy::Sendmmsg => port,
        SendBy::Ring => port.through_ring(frame_bytes_max)?,
    };
    let traffic = engine(plan, ip_bytes_max)?;
    let mut tell = |text: &str| host.warn(text);
    let mut books = Books::open(Kind::Interface, plan.out.as_deref(), &mut tell)?;
    let truth = plan.truth.as_deref().map(Truth::create).transpose()?;
    wait::set_timer_slack_ns(SLACK_NS).map_err(RunError::from)?;
    let begun_ns = clock::monotonic_ns();
    let mut work = Work {
        traffic,
        wire: Wire::new(port, interface, frame_bytes_max, truth.map(SentTruth::new)),
        schedule: Schedule::new(pace, begun_ns),
        first_offset_ns: 0,
        is_over: false,
        begun_ns,
        is_down: false,
        leak: host.leak.clone(),
    };
    let done = work.all(host, &mut books);
    let interface = InterfaceSummary {
        name: interface.to_owned(),
        sent_by: send_by,
        sent_by_reason: match asked {
            Some(_) => "it was asked for",
            None => "the default",
        },
        mtu_bytes,
        shortened_packets: 0,
        shortened_octets: 0,
        packet_rate_asked_hz: None,
        slipped_s: 0.0,
        was_limit: false,
    };
    work.end(done, &host.stop, books, interface)
}

/// Most octets of a packet.
fn ip_bytes_max(mtu_bytes: u32, snap_bytes: Option<u32>) -> Result<u32, TrafficError> {
    let most = mtu_bytes.min(IP_BYTES_MAX);
    match snap_bytes {
        None => Ok(most),
        Some(snap_bytes) if snap_bytes < HEADERS_BYTES => Err(TrafficError::Headers {
            snap_bytes,
            least: HEADERS_BYTES,
        }),
        Some(snap_bytes) => Ok(most.min(snap_bytes - ETHERNET_HEADER_BYTES)),
    }
}

struct Work {
    traffic: Traffic<Rows>,
    wire: Wire,
    schedule: Schedule,
    /// When the first packet that waits is due.
    first_offset_ns: u64,
    /// No packet is left to be made.
    is_over: bool,
    begun_ns: u64,
    /// It was told that the interface is down.
    is_down: bool,
    leak: Leak,
}

/// Packets that are due together.
struct Burst {
    packets: usize,
    /// When the last of them is due.
    offset_ns: u64,
    /// When the one behind them is due, which waits, too.
    next_offset_ns: u64,
}

impl Work {
    /// Sends packets until there are no more, or it shall end.
    fn all(&mut self, host: &Host, books: &mut Books) -> Result<(), TrafficError> {
        let mut shown_ns = self.begun_ns;
        loop {
            let burst = self.gather()?;
            let due_ns = self.schedule.instant_ns(burst.offset_ns);
            // A long wait is taken in parts, between which there is a sign of life.
            loop {
                let look_ns = clock::monotonic_ns() + SHOW_NS;
                if !wait_until(due_ns.min(look_ns), &host.stop)? {
                    return Ok(());
                }
                if due_ns <= look_ns {
                    break;
                }
                self.show(books);
            }
            self.wire.send(burst.packets, &host.stop)?;
            self.first_offset_ns = burst.next_offset_ns;
            let now_ns = clock::monotonic_ns();
            self.schedule.sent(due_ns, now_ns);
            if now_ns >= shown_ns + SHOW_NS {
                shown_ns = now_ns;
                self.show(books);
                self.tell_down(host);
            }
            if host.stop.is_asked() || (self.is_over && self.wire.packets() == 0) {
                return Ok(());
            }
        }
    }

    /// Makes packets until they are as many as go together.
    fn gather(&mut self) -> Result<Burst, TrafficError> {
        let mut offset_ns = self.first_offset_ns;
        while !self.is_over
            && let Some(room) = self.wire.room()
        {
            let Some(packet) = self.traffic.poll_packet(room)? else {
                self.is_over = true;
                break;
            };
            if self.leak.take("packets") {
                continue;
            }
            let next_offset_ns = self.schedule.offset_ns(packet.at_ns);
            let packets = self.wire.packets();
            self.wire.take(packet, self.traffic.key());
            if packets == 0 {
                self.first_offset_ns = next_offset_ns;
            } else if next_offset_ns > self.first_offset_ns + BURST_NS {
                return Ok(Burst {
                    packets,
                    offset_ns,
                    next_offset_ns,
                });
            }
            offset_ns = next_offset_ns;
        }
        Ok(Burst {
            packets: self.wire.packets(),
            offset_ns,
            next_offset_ns: offset_ns,
        })
    }

    fn show(&self, books: &mut Books) {
        let became = Became {
            out: self.wire.sent,
            held: self.wire.held(),
            dropped: &self.wire.refused,
        };
        books.show(self.traffic.totals(), &became);
    }

    /// Tells once that packets are refused as the interface is down.
    fn tell_down(&mut self, host: &Host) {
        let refused = self.wire.refused[WireDrop::InterfaceDown as usize].packets;
        if refused > 0 && !self.is_down {
            self.is_down = true;
            host.warn("the interface is down: packets are refused until it is up");
        }
    }

    fn end(
        mut self,
        done: Result<(), TrafficError>,
        stop: &Stop,
        mut books: Books,
        mut interface: InterfaceSummary,
    ) -> Result<Record<TrafficSummary>, TrafficError> {
        let seconds = clock::monotonic_ns().saturating_sub(self.begun_ns) as f64 / 1e9;
        let done = done.and(self.wire.end());
        self.show(&mut books);
        let (totals, sent) = (*self.traffic.totals(), self.wire.sent);
        interface.shortened_packets = totals.shortened_packets;
        interface.shortened_octets = totals.shortened_octets;
        interface.packet_rate_asked_hz = self.schedule.packet_rate_hz();
        interface.slipped_s = self.schedule.slipped_ns() as f64 / 1e9;
        interface.was_limit = interface.slipped_s > seconds / 100.0;
        let end = run_end(stop, done.and(self.wire.finish()));
        let record = books.close(end, |envelope| TrafficSummary {
            interface: Some(interface),
            ..summary(&totals, sent, seconds, envelope)
        })?;
        Ok(record)
    }
}

/// Waits for an instant of the monotonic clock; whether it came before the order to end.
fn wait_until(due_ns: u64, stop: &Stop) -> Result<bool, TrafficError> {
    while clock::monotonic_ns() < due_ns {
        if stop.is_asked() {
            return Ok(false);
        }
        wait::sleep_until_or([stop.as_fd()], due_ns, 0).map_err(RunError::from)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fit_the_interface_and_what_is_asked_for() {
        assert_eq!(ip_bytes_max(1_500, None).unwrap(), 1_500);
        assert_eq!(ip_bytes_max(65_536, None).unwrap(), IP_BYTES_MAX);
        assert_eq!(ip_bytes_max(1_500, Some(128)).unwrap(), 114);
        assert_eq!(ip_bytes_max(1_500, Some(9_000)).unwrap(), 1_500);
        assert_eq!(ip_bytes_max(1_500, Some(74)).unwrap(), 60);
        let error = ip_bytes_max(1_500, Some(73)).unwrap_err().to_string();
        assert!(error.contains("74"), "{error}");
    }
}
