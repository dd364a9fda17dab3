//! Measures messaging between two end points: rate, goodput, round-trip time.

mod memory;
mod publishing;
mod sending;

use std::time::Duration;

use forebay_ledger::Closed;
use forebay_run::Stop;
use forebay_run_net::{Address, NetError, NetRecord, Payload, PeerId, Receiver, Sent, Settings};
use forebay_sys::clock;
use forebay_wire::netio3::Message;
use hdrhistogram::Histogram;
pub use memory::{Memory, Occupied};
use serde::Serialize;

/// One wait: an order to end costs this much.
const WAIT: Duration = Duration::from_millis(20);
/// How long an end in order may take.
const END_LIMIT: Duration = Duration::from_secs(10);
/// What an echo keeps at most while its sender takes nothing back.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// Longest round trip that is told apart, in ns.
const RTT_NS_MAX: u64 = 60_000_000_000;
/// Round trips before those that count: the first ones find cold caches and small windows.
const ROUNDS_BEFORE: u64 = 100;

/// What a side of a measurement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PerfRole {
    /// Connects and sends; to a side that echoes, one message at a time.
    Send,
    /// Listens and discards.
    Recv,
    /// Listens and sends back.
    Echo,
    /// Listens and publishes, once all subscribers have said what they want.
    Pub,
    /// Connects as so many subscribers and discards.
    Sub,
}

/// How payloads get into buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PerfMode {
    /// Copied into the buffer from where the caller has them.
    Buffered,
    /// Lying in the buffer already: written in place, not copied.
    InPlace,
    /// Staying in memory of the caller's, from which the backend takes them.
    Unbuffered,
}

/// A measurement.
#[derive(Clone, Debug)]
pub struct PerfPlan {
    /// Where.
    pub address: Address,
    /// Which side this is.
    pub role: PerfRole,
    /// Payload of a message, in bytes.
    pub message_bytes: u32,
    /// How payloads get into buffers.
    pub mode: PerfMode,
    /// Tags, used in turn.
    pub tags: u64,
    /// Subscribers that the publisher waits for, or that this side is.
    pub subscribers: u32,
    /// Whether the subscribers deal the tags out among them; else each has all of them.
    pub deal_tags: bool,
    /// How long the sender sends or the publisher publishes; how long a side that takes waits for one, at its begin and after one was lost.
    pub duration: Duration,
    /// Whether the receiver reads every byte.
    pub read_all: bool,
    /// Buffers, policies, books.
    pub settings: Settings,
}

/// Percentiles of a time, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// How many were measured.
    pub samples: u64,
    /// Shortest.
    pub min: u64,
    /// Half are below.
    pub p50: u64,
    /// 90 % are below.
    pub p90: u64,
    /// 99 % are below.
    pub p99: u64,
    /// 99.9 % are below.
    #[serde(rename = "p99.9")]
    pub p999: u64,
    /// Longest.
    pub max: u64,
}

/// What a side measured.
#[derive(Clone, Debug, Serialize)]
pub struct PerfResult {
    /// The side.
    pub role: PerfRole,
    /// Where.
    pub address: String,
    /// Payload of a message, in bytes; the mean where they came from elsewhere.
    pub message_bytes: u32,
    /// Payload that a buffer takes, in bytes.
    pub buffer_bytes: u32,
    /// Buffers of a connection.
    pub buffer_count: u32,
    /// Messages sent, published or received; what several subscribers receive is counted for each.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// From the first byte to the last, in s.
    pub elapsed_s: f64,
    /// Messages per second.
    pub message_rate_hz: f64,
    /// Payload in bits per second.
    pub goodput_bps: f64,
    /// Round-trip times, where messages came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<Percentiles>,
    /// Messages lost by name.
    pub dropped: u64,
    /// Messages sent of which nobody said whether they were read.
    pub unconfirmed: u64,
    /// What the books leave over, and what the closed books still say to be inside, in messages and bytes.
    #[serde(flatten)]
    pub books: Closed,
    /// Memory of this process, of a publisher and of subscribers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Processor time of this process over the measurement, in s.
    pub cpu_s: f64,
    /// Why there is nothing to measure, on a side that takes and to which nobody came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nobody_came: Option<String>,
    /// Everything else that the end point has to say.
    pub end_point: NetRecord,
}

/// Times and counts of a measurement as it goes on.
struct Meter {
    begun_cpu_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    messages: u64,
    bytes: u64,
    rtt: Histogram<u64>,
}

impl Meter {
    fn new() -> Result<Self, NetError> {
        Ok(Self {
            begun_cpu_ns: clock::process_cpu_ns(),
            first_ns: None,
            last_ns: 0,
            messages: 0,
            bytes: 0,
            rtt: Histogram::new_with_max(RTT_NS_MAX, 3)?,
        })
    }

    fn elapsed_s(&self) -> f64 {
        let first_ns = self.first_ns.unwrap_or(self.last_ns);
        self.last_ns.saturating_sub(first_ns) as f64 / 1e9
    }

    fn percentiles(&self) -> Option<Percentiles> {
        let rtt = &self.rtt;
        (!rtt.is_empty()).then(|| Percentiles {
            samples: rtt.len(),
            min: rtt.min(),
            p50: rtt.value_at_quantile(0.5),
            p90: rtt.value_at_quantile(0.9),
            p99: rtt.value_at_quantile(0.99),
            p999: rtt.value_at_quantile(0.999),
            max: rtt.max(),
        })
    }

    fn result(self, plan: &PerfPlan, address: &Address, end_point: NetRecord) -> PerfResult {
        let elapsed_s = self.elapsed_s();
        let per_second = |amount: f64| {
            if elapsed_s > 0.0 {
                amount / elapsed_s
            } else {
                0.0
            }
        };
        PerfResult {
            role: plan.role,
            address: address.to_string(),
            message_bytes: match self.bytes.checked_div(self.messages) {
                // A side that takes learns how long they are.
                Some(mean) if !matches!(plan.role, PerfRole::Send | PerfRole::Pub) => mean as u32,
                _ => plan.message_bytes,
            },
            buffer_bytes: plan.settings.messages.buffer_bytes,
            buffer_count: plan.settings.messages.buffer_count,
            messages: self.messages,
            bytes: self.bytes,
            elapsed_s,
            message_rate_hz: per_second(self.messages as f64),
            goodput_bps: per_second(self.bytes as f64 * 8.0),
            rtt_ns: self.percentiles(),
            dropped: end_point.dropped,
            unconfirmed: end_point.unconfirmed,
            books: end_point.envelope.books,
            memory: None,
            cpu_s: (clock::process_cpu_ns() - self.begun_cpu_ns) as f64 / 1e9,
            nobody_came: None,
            end_point,
        }
    }
}

/// Carries out this side's part; `ready` is told where it listens.
///
/// # Errors
/// A setting is out of range, the address cannot be had, nobody takes anything, or the system refuses to wait.
pub fn measure(plan: &PerfPlan, ready: impl FnOnce(&Address)) -> Result<PerfResult, NetError> {
    let stop = Stop::of_process()?;
    let mut plan = plan.clone();
    plan.settings.stop = Some(stop.clone());
    match plan.role {
        PerfRole::Send => sending::send(&plan, &stop),
        PerfRole::Recv => receive(&plan, &stop, ready),
        PerfRole::Echo => echo(&plan, &stop, ready),
        PerfRole::Pub => publishing::publish(&plan, &stop, ready),
        PerfRole::Sub => publishing::subscribe(&plan, &stop),
    }
}

fn receive(
    plan: &PerfPlan,
    stop: &Stop,
    ready: impl FnOnce(&Address),
) -> Result<PerfResult, NetError> {
    let mut receiver = Receiver::listen(&plan.address, &plan.settings)?;
    let address = receiver.address()?;
    ready(&address);
    let mut meter = Meter::new()?;
    let mut read = 0_u64;
    let mut patience = Patience::new(plan.duration);
    while !receiver.has_ended() && !stop.is_asked() && !patience.is_over(receiver.senders()) {
        let before = meter.messages;
        receiver.poll_viewed(WAIT, |viewed| {
            meter.first_ns.get_or_insert_with(clock::monotonic_ns);
            meter.messages += 1;
            meter.bytes += viewed.payload.len() as u64;
            if plan.read_all {
                read = read.wrapping_add(sum(viewed.payload));
            }
        })?;
        if meter.messages > before {
            meter.last_ns = clock::monotonic_ns();
        }
    }
    // Kept, so that reading every byte is not optimized away.
    std::hint::black_box(read);
    let end_point = receiver.finish(END_LIMIT, |delivered| {
        meter.messages += 1;
        meter.bytes += delivered.message.payload.len() as u64;
    })?;
    let result = meter.result(plan, &address, end_point);
    Ok(patience.judge(plan, result, None))
}

/// Reads every byte, where it lies.
fn sum(payload: Payload<'_>) -> u64 {
    match payload {
        Payload::Here(bytes) => sum_here(bytes),
        Payload::Apart(apart) => {
            let mut sum = 0_u64;
            apart
                .parts()
                .for_each(|part| part.each_block(|block| sum = sum.wrapping_add(sum_here(block))));
            sum
        }
    }
}

fn sum_here(payload: &[u8]) -> u64 {
    let (words, rest) = payload.as_chunks::<8>();
    let words = words.iter().fold(0_u64, |sum, word| {
        sum.wrapping_add(u64::from_ne_bytes(*word))
    });
    rest.iter()
        .fold(words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// How long a side waits while nobody is there.
struct Patience {
    limit: Duration,
    /// Nobody has been there since then.
    alone_since_ns: Option<u64>,
    ran_out: bool,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            alone_since_ns: Some(clock::monotonic_ns()),
            ran_out: false,
        }
    }

    fn is_over(&mut self, peers: usize) -> bool {
        if peers > 0 {
            self.alone_since_ns = None;
            return false;
        }
        let now_ns = clock::monotonic_ns();
        let since_ns = *self.alone_since_ns.get_or_insert(now_ns);
        self.ran_out = u128::from(now_ns.saturating_sub(since_ns)) >= self.limit.as_nanos();
        self.ran_out
    }

    /// A wait that ended by itself, and to which nobody came, measured nothing.
    fn judge(&self, plan: &PerfPlan, result: PerfResult, why: Option<String>) -> PerfResult {
        if !self.ran_out || result.end_point.connections_made > 0 {
            return result;
        }
        let (peer, role) = match plan.role {
            PerfRole::Sub => ("publisher", "pub"),
            _ => ("sender", "send"),
        };
        let (address, seconds) = (&result.address, self.limit.as_secs_f64());
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        let text = format!(
            "no {peer} came at {address} within {seconds} s{why}; start the other side, with --role {role}, or give this one a longer --duration"
        );
        PerfResult {
            nobody_came: Some(text),
            ..result
        }
    }
}

fn echo(
    plan: &PerfPlan,
    stop: &Stop,
    ready: impl FnOnce(&Address),
) -> Result<PerfResult, NetError> {
    let mut receiver = Receiver::listen_and_answer(&plan.address, &plan.settings)?;
    let address = receiver.address()?;
    ready(&address);
    let mut meter = Meter::new()?;
    let mut patience = Patience::new(plan.duration);
    let (mut back, mut later) = (Answers::default(), Answers::default());
    let mut sent_ns = None;
    while !receiver.has_ended() && !stop.is_asked() && !patience.is_over(receiver.senders()) {
        let wait = if back.is_empty() {
            WAIT
        } else {
            Duration::ZERO
        };
        receiver.poll(wait, |delivered| {
            back.keep(delivered.peer, &delivered.message)
        })?;
        if back.is_empty() {
            receiver.end_with_the_ended();
            continue;
        }
        let now_ns = clock::monotonic_ns();
        if let Some(sent_ns) = sent_ns.replace(now_ns)
            && meter.messages >= ROUNDS_BEFORE
        {
            meter.rtt.saturating_record(now_ns - sent_ns);
        }
        meter.first_ns.get_or_insert(now_ns);
        meter.last_ns = now_ns;
        meter.messages += back.messages.len() as u64;
        meter.bytes += back.bytes.len() as u64;
        back.send(&mut receiver, &mut later)?;
        std::mem::swap(&mut back, &mut later);
    }
    let end_point = receiver.finish(END_LIMIT, |_| {})?;
    let result = meter.result(plan, &address, end_point);
    Ok(patience.judge(plan, result, None))
}

/// Messages that are to go back.
#[derive(Default)]
struct Answers {
    /// The peer that it is from, tag, status, length.
    messages: Vec<(PeerId, u64, u8, usize)>,
    bytes: Vec<u8>,
}

impl Answers {
    fn keep(&mut self, peer: PeerId, message: &Message<'_>) {
        let bytes = message.payload.len();
        self.messages
            .push((peer, message.tag, message.status, bytes));
        self.bytes.extend_from_slice(message.payload);
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Sends all of it; `later` takes what comes meanwhile, up to a limit. A sender that takes nothing back gets no more.
    fn send(&mut self, receiver: &mut Receiver, later: &mut Self) -> Result<(), NetError> {
        let mut at = 0;
        for (peer, tag, status, bytes) in self.messages.drain(..) {
            let payload = &self.bytes[at..at + bytes];
            at += bytes;
            let mut patience = None;
            while receiver.try_send(peer, tag, status, payload)? == Sent::NotNow {
                let full = later.bytes.len() >= ANSWERS_BYTES_MAX;
                let patience = patience.get_or_insert_with(|| Patience::new(END_LIMIT));
                if full || patience.is_over(0) || !receiver.knows(peer) {
                    receiver.give_up(bytes as u64);
                    break;
                }
                receiver.poll(WAIT, |delivered| {
                    later.keep(delivered.peer, &delivered.message)
                })?;
            }
        }
        self.bytes.clear();
        receiver.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn an_answer_that_is_given_up_is_lost_by_name() {
        let address = "tcp://127.0.0.1:0".parse().unwrap();
        let mut receiver = Receiver::listen_and_answer(&address, &Settings::default()).unwrap();
        let (mut answers, mut later) = (Answers::default(), Answers::default());
        let message = Message {
            tag: 1,
            status: 0,
            payload: b"there and back",
        };
        // From a peer that has gone meanwhile.
        answers.keep(PeerId::from(7), &message);
        answers.keep(PeerId::from(7), &message);
        answers.send(&mut receiver, &mut later).unwrap();
        assert!(answers.is_empty() && later.is_empty());
        let summary = receiver.finish(Duration::ZERO, |_| {}).unwrap();
        let drops = summary.envelope.drops_by_reason();
        assert_eq!(drops["answers.not_answered"], 2, "{summary:?}");
        assert_eq!(summary.dropped, 2);
        assert!(summary.is_closed(), "{summary:?}");
    }
}
