//! One sender, one socket: what UDP alone loses on this machine, counted on both sides and by the kernel between them.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::sched;
use forebay_sys::socket::{UdpOptions, bind_udp, connect_udp, mem_info};
use forebay_sys::udp_batch::{BareRecv, Outgoing, SendBatch};

use forebay_report::rows::Row;

/// Datagrams in one system call.
const BATCH: usize = 64;
/// Largest payload that the kernel cuts into datagrams.
const SEGMENTED_BYTES: usize = 64_000;
/// How long the receiver looks for data before sleeping.
const SPIN: Duration = Duration::from_micros(20);

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Bits of payload per second.
    pub bits_per_s: f64,
    /// Payload of a datagram.
    pub datagram_bytes: usize,
    /// The kernel cuts large buffers into datagrams: a faster sender.
    pub segmented: bool,
    /// For how long.
    pub seconds: f64,
    /// Receive buffer asked for.
    pub buffer_bytes: usize,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Datagrams that the sender's kernel took.
    pub sent: u64,
    /// Datagrams that the receiver got.
    pub received: u64,
    /// Datagrams that the socket's own counter says were dropped.
    pub dropped: u64,
    /// How long sending took, in s.
    pub seconds: f64,
    /// Bits per second that were sent.
    pub sent_bits_per_s: f64,
}

impl Outcome {
    /// `sent − received − dropped`: 0 when the books close.
    #[must_use]
    pub fn residual(&self) -> i64 {
        self.sent.cast_signed() - self.received.cast_signed() - self.dropped.cast_signed()
    }

    /// As cells of a row.
    #[must_use]
    pub fn row(&self, offer: &Offer) -> Row {
        let mut row = Row::default();
        row.add("asked_bits_per_s", offer.bits_per_s);
        row.add("datagram_bytes", offer.datagram_bytes);
        row.add("segmented", offer.segmented);
        row.add("buffer_bytes", offer.buffer_bytes);
        row.add("sent_bits_per_s", self.sent_bits_per_s);
        row.add(
            "received_bits_per_s",
            self.received as f64 * offer.datagram_bytes as f64 * 8.0 / self.seconds,
        );
        row.add("sent_datagrams", self.sent);
        row.add("received_datagrams", self.received);
        row.add("dropped_by_kernel", self.dropped);
        row.add("residual_items", self.residual() as f64);
        row.add(
            "lost_percent",
            100.0 * (1.0 - self.received as f64 / self.sent as f64),
        );
        row.add("generator_limited", self.is_sender_limited(offer));
        row
    }

    /// Whether the sender could not do what was asked.
    #[must_use]
    pub fn is_sender_limited(&self, offer: &Offer) -> bool {
        self.sent_bits_per_s < 0.97 * offer.bits_per_s
    }
}

/// Sends and receives in two threads, each on a CPU of its own where there are two.
///
/// # Errors
/// A socket cannot be made or used.
pub fn exchange(offer: &Offer) -> Result<Outcome> {
    let options = UdpOptions {
        receive_buffer_bytes: Some(offer.buffer_bytes),
        ..UdpOptions::default()
    };
    let bound = bind_udp(SocketAddr::from(([127, 0, 0, 1], 0)), &options)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&bound.fd, &over));
        let sent = send(offer, bound.address);
        over.store(true, Ordering::Release);
        let received = receiver
            .join()
            .map_err(|_| anyhow!("the receiving thread died"))??;
        let (sent, seconds) = sent?;
        let dropped = u64::from(mem_info(&bound.fd)?.drops);
        let sent_bits_per_s = sent as f64 * offer.datagram_bytes as f64 * 8.0 / seconds;
        Ok(Outcome {
            sent,
            received,
            dropped,
            seconds,
            sent_bits_per_s,
        })
    })
}

/// Receives until the sender is done and the socket is empty.
fn receive(socket: &OwnedFd, over: &AtomicBool) -> Result<u64> {
    pin(1);
    let mut bare = BareRecv::new(BATCH, 1 << 16);
    let mut poller = Poller::create(1)?;
    poller.add(socket, 0, Interest::Readable, Trigger::Level)?;
    let mut received = 0;
    loop {
        let done = over.load(Ordering::Acquire);
        let count = bare.receive(socket.as_fd()).context("receiving")?;
        received += count as u64;
        if count == 0 {
            if done {
                return Ok(received);
            }
            poller
                .wait(Some(Duration::from_millis(5)), SPIN)?
                .for_each(drop);
        }
    }
}

/// Sends at the rate asked for; tells datagrams and seconds.
fn send(offer: &Offer, to: SocketAddr) -> Result<(u64, f64)> {
    pin(0);
    let socket = connect_udp(
        to,
        &UdpOptions {
            send_buffer_bytes: Some(8 << 20),
            ..UdpOptions::default()
        },
    )?;
    let pieces = if offer.segmented {
        (SEGMENTED_BYTES / offer.datagram_bytes).max(1)
    } else {
        1
    };
    let payload = vec![0x5a; pieces * offer.datagram_bytes];
    let segment_bytes = offer.segmented.then_some(offer.datagram_bytes as u16);
    let outgoing = [Outgoing {
        segment_bytes,
        ..Outgoing::connected(&payload)
    }; BATCH];
    let mut batch = SendBatch::new(BATCH);
    let per_send_s = payload.len() as f64 * 8.0 / offer.bits_per_s;
    let at_once = if offer.segmented { 4 } else { BATCH };
    let started = Instant::now();
    let mut sends = 0_u64;
    loop {
        let elapsed_s = started.elapsed().as_secs_f64();
        if elapsed_s >= offer.seconds {
            return Ok((sends * pieces as u64, elapsed_s));
        }
        let due = ((elapsed_s / per_send_s) as u64 + 1).saturating_sub(sends);
        if due == 0 {
            std::hint::spin_loop();
            continue;
        }
        let sent = batch.send(socket.as_fd(), &outgoing[..at_once.min(due as usize)]);
        sends += sent.count as u64;
        if let Some(forebay_sys::udp_batch::SendStop::Failed(error)) = sent.stopped {
            return Err(error).context("sending");
        }
    }
}

/// Puts this thread on a CPU of its own if there are at least two.
fn pin(cpu: usize) {
    if sched::cpu_count() > 1 {
        // Without it the result is only less steady.
        let _ = sched::pin_to_cpu(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_closes_with_and_without_overload() {
        for (buffer_bytes, segmented) in [(1 << 20, false), (4096, true)] {
            let offer = Offer {
                bits_per_s: 200e6,
                datagram_bytes: 1000,
                segmented,
                seconds: 0.2,
                buffer_bytes,
            };
            let outcome = exchange(&offer).unwrap();
            assert!(outcome.sent > 100, "{outcome:?}");
            assert_eq!(outcome.residual(), 0, "{outcome:?}");
        }
    }
}
