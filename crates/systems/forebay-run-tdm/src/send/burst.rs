//! One burst: heads and payloads, given to the kernel in one call.

use std::os::fd::AsFd;

use forebay_run::Stop;
use forebay_sys::gso::{SEGMENTS_MAX, Segment, burst_segments_max};
use forebay_sys::udp_batch::SendStop;
use forebay_sys::wait;
use forebay_wire::tdm::DATA_HEAD_BYTES;

use super::{TdmError, WAIT_NS, Work};

/// What the kernel did not take for want of buffers is tried again after so long, in ns: nothing tells when there are some.
const AGAIN_NS: u64 = 100_000;

/// What became of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Burst {
    /// The kernel took of it, or may at once.
    Left,
    /// It takes nothing before there is room in the socket.
    NoRoom,
    /// It takes nothing, and does not tell when it will.
    Refused,
}

impl Work {
    /// Sends so many packets at `now_ns`, as one datagram that the kernel cuts.
    pub(super) fn burst(&mut self, packets: u32, now_ns: u64) -> Burst {
        let full = self.payload_bytes;
        let offset = self.sender.offset();
        // When it leaves: now, or at the instant until which the kernel keeps it.
        let now_ns = self.sender.leaves_ns(now_ns);
        let mut lengths = [0_usize; SEGMENTS_MAX];
        let mut segments = [Segment::default(); SEGMENTS_MAX];
        let (mut count, mut ahead) = (0, 0);
        // As many as one call of the kernel's takes: what is over would be a short burst of its own.
        let most = (packets as usize).min(burst_segments_max(DATA_HEAD_BYTES + full));
        let places = segments.iter_mut().zip(&mut lengths);
        let fronts = self.heads.iter_mut().zip(&mut self.sealed);
        for ((segment, length), (head, sealed)) in places.zip(fronts).take(most) {
            let payload = self.input.peek(offset, ahead, full);
            let front = self
                .sender
                .front(now_ns, count as u32, ahead as u64, payload.len(), head);
            if payload.is_empty() || front.is_none() {
                break;
            }
            let head = &*head;
            *segment = match &self.keyed {
                None => Segment { head, payload },
                Some(key) => {
                    sealed.clear();
                    sealed.extend_from_slice(payload);
                    sealed.extend_from_slice(&key.tag(&[head, payload]));
                    Segment {
                        head,
                        payload: sealed,
                    }
                }
            };
            *length = payload.len();
            self.books.made(count, payload.len() as u64);
            ahead += payload.len();
            count += 1;
            // The kernel cuts a burst into datagrams of one length; the last may be shorter.
            if payload.len() < full {
                break;
            }
        }
        let launch_ns = self.launches.of_burst(self.clock.true_ns(now_ns));
        let sent = self.bursts.send_at(
            self.socket.as_fd(),
            segments.get(..count).unwrap_or_default(),
            launch_ns,
        );
        let bytes_of = |lengths: &[usize]| lengths.iter().sum::<usize>() as u64;
        let (mut taken, mut refused) = (sent.count, None);
        if taken > 0 {
            let bytes = bytes_of(lengths.get(..taken).unwrap_or_default());
            self.books.taken(taken as u64, bytes);
        }
        let mut became = Burst::Left;
        if let Some(stop) = sent.stopped {
            self.in_vain += 1;
            became = match stop {
                // It was said of an earlier datagram, and is tried again at once.
                SendStop::Refused => Burst::Left,
                // What is forbidden or too long will not be sent however often it is tried.
                _ if stop.concerns_one_datagram() => {
                    if taken < count {
                        refused = lengths.get(taken).map(|bytes| *bytes as u64);
                        taken += 1;
                    }
                    Burst::Left
                }
                SendStop::WouldBlock => Burst::NoRoom,
                _ => Burst::Refused,
            };
        }
        if let Some(bytes) = refused {
            self.books.refused(bytes);
        }
        if taken > 0 {
            let bytes = bytes_of(lengths.get(..taken).unwrap_or_default());
            self.truth.look(&self.clock, &self.sender, now_ns);
            let errors = u32::from(refused.is_some());
            self.sender.burst_sent(now_ns, taken as u32, errors, bytes);
            self.books.passed(taken);
            self.input.take(bytes);
            if let Some(heaps) = self.input.heaps() {
                self.sender.handle_heaps(heaps.begun());
                self.books
                    .heaps(heaps.came(), heaps.done(), heaps.waiting());
            }
        }
        became
    }

    /// Waits until the kernel may take what it did not, at most up to the window's end.
    pub(super) fn wait_for_room(&self, became: Burst, stop: &Stop) -> Result<(), TdmError> {
        let now_ns = self.clock.now_ns();
        let end_ns = self.sender.window_ends_ns().unwrap_or(now_ns);
        let until_ns = |at_ns: u64| self.clock.true_ns(at_ns.min(end_ns));
        match became {
            Burst::Left => {}
            Burst::NoRoom => {
                let until_ns = until_ns(now_ns + WAIT_NS);
                wait::sleep_until_room(self.socket.as_fd(), stop.as_fd(), until_ns)?;
            }
            Burst::Refused => {
                wait::sleep_until_or([stop.as_fd()], until_ns(now_ns + AGAIN_NS), 0)?;
            }
        }
        Ok(())
    }
}
