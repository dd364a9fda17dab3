//! The side that sends.

use forebay_run::{Stop, Urgency};
use forebay_run_net::{Memory, MemoryId, Sender};
use forebay_sys::clock;

use super::{END_LIMIT, Meter, NetError, PerfMode, PerfPlan, PerfResult, ROUNDS_BEFORE, WAIT};

/// The tag of what is sent, when it is one.
pub(super) const TAG: u64 = 1;
/// Messages between two looks at clock and stop.
pub(super) const CLOCK_EVERY: u64 = 256;

pub(super) fn send(plan: &PerfPlan, stop: &Stop) -> Result<PerfResult, NetError> {
    let mut sender = Sender::connect(&plan.address, &plan.settings)?;
    sender.connected(|| stop.is_asked())?;
    let mut meter = Meter::new()?;
    let until_ns = clock::monotonic_ns().saturating_add(plan.duration.as_nanos() as u64);
    meter.first_ns = Some(clock::monotonic_ns());
    let done = if sender.is_answered() {
        ping(plan, &mut sender, &mut meter, until_ns, stop)
    } else {
        stream(plan, &mut sender, &mut meter, until_ns, stop)
    };
    match done {
        // An order to end, or a receiver that has enough, is an end like another.
        Ok(()) | Err(NetError::Stopped | NetError::Left) => {}
        Err(error) => {
            // Its books are closed all the same, and what they say stays in the run's directory.
            sender.finish(END_LIMIT)?;
            return Err(error);
        }
    }
    meter.bytes = meter.messages * u64::from(plan.message_bytes);
    sender.flush()?;
    while !sender.is_done() && sender.is_connected() && stop.urgency() < Urgency::Hurry {
        sender.poll(WAIT, |_| {})?;
    }
    meter.last_ns = clock::monotonic_ns();
    let end_point = sender.finish(END_LIMIT)?;
    Ok(meter.result(plan, &plan.address, end_point))
}

/// As many messages as go.
fn stream(
    plan: &PerfPlan,
    sender: &mut Sender,
    meter: &mut Meter,
    until_ns: u64,
    stop: &Stop,
) -> Result<(), NetError> {
    let payload = vec![0x5a_u8; plan.message_bytes as usize];
    let memory = match plan.mode {
        PerfMode::Unbuffered => Some(own_memory(plan, sender)?),
        PerfMode::Buffered | PerfMode::InPlace => None,
    };
    let tags = plan.tags.max(1);
    let mut tag = 0;
    loop {
        for _ in 0..CLOCK_EVERY {
            match (plan.mode, memory) {
                (PerfMode::Unbuffered, Some(memory)) => {
                    lend(sender, TAG + tag, memory, payload.len())?;
                }
                (PerfMode::InPlace, _) => sender.send_with(TAG + tag, 0, payload.len(), |_| {})?,
                _ => sender.send(TAG + tag, 0, &payload)?,
            }
            meter.messages += 1;
            tag = if tag + 1 < tags { tag + 1 } else { 0 };
        }
        if clock::monotonic_ns() >= until_ns || stop.is_asked() {
            break;
        }
    }
    Ok(())
}

/// Memory for a message in each buffer that may be on its way, and some to fill meanwhile.
fn own_memory(plan: &PerfPlan, sender: &mut Sender) -> Result<MemoryId, NetError> {
    let pages = plan.settings.messages.buffer_count as usize + 4;
    let page_bytes = (plan.message_bytes as usize).next_multiple_of(64).max(64);
    let mut memory = Memory::create("perf", pages, page_bytes)?;
    memory.bytes_mut(0..pages * page_bytes)?.fill(0x5a);
    Ok(sender.register(memory))
}

/// Sends one message from memory, as soon as there is a page that is not on its way.
fn lend(sender: &mut Sender, tag: u64, memory: MemoryId, bytes: usize) -> Result<(), NetError> {
    let page = loop {
        while sender.returned().is_some() {}
        if let Some(page) = sender.memory(memory)?.free_page() {
            break page;
        }
        sender.poll(WAIT, |_| {})?;
    };
    let message = page.start..page.start + bytes;
    sender.send_lent(tag, 0, memory, &[message], page.start as u64)
}

/// One message at a time, there and back.
fn ping(
    plan: &PerfPlan,
    sender: &mut Sender,
    meter: &mut Meter,
    until_ns: u64,
    stop: &Stop,
) -> Result<(), NetError> {
    let payload = vec![0x5a_u8; plan.message_bytes as usize];
    for round in 0_u64.. {
        let sent_ns = clock::monotonic_ns();
        if sent_ns >= until_ns || stop.is_asked() {
            break;
        }
        sender.send(TAG, 0, &payload)?;
        sender.flush()?;
        let mut came = false;
        while !came && !stop.is_asked() {
            sender.poll(WAIT, |_| came = true)?;
            if !sender.is_connected() {
                return Err(sender.stuck(sent_ns));
            }
        }
        let rtt_ns = clock::monotonic_ns() - sent_ns;
        meter.messages += 1;
        if round >= ROUNDS_BEFORE {
            meter.rtt.saturating_record(rtt_ns);
        }
    }
    Ok(())
}
