//! A publisher and its subscribers.

use std::time::Duration;

use forebay_run::Stop;
use forebay_run_net::{Address, Entry, Publisher, Settings, Slow, Subscriber, absorb};
use forebay_sys::clock;

use super::sending::{CLOCK_EVERY, TAG};
use super::{
    END_LIMIT, Memory, Meter, NetError, Occupied, Patience, PerfPlan, PerfResult, WAIT, sum,
};

/// How long the publisher waits for its subscribers.
const SUBSCRIBERS_LIMIT: Duration = Duration::from_secs(60);
/// The publisher looks after its connections so often while all of them have room.
const WORK_NS: u64 = 1_000_000;
/// Subscribers look at their memory so often: when a connection has ended, its memory is gone.
const LOOK_NS: u64 = 20_000_000;
/// One wait at one of several subscribers, when nothing came to any of them.
const SHORT_WAIT: Duration = Duration::from_micros(100);

/// Tags that the subscriber `number` asks for.
fn entries(plan: &PerfPlan, number: u32) -> Vec<Entry> {
    let (first, step) = if plan.deal_tags {
        (number.into(), plan.subscribers.max(1) as usize)
    } else {
        (0, 1)
    };
    let tags = (first..plan.tags.max(1)).step_by(step);
    tags.map(|tag| Entry::one(TAG + tag)).collect()
}

/// Subscriptions of all subscribers together.
fn subscriptions(plan: &PerfPlan) -> u64 {
    let tags = plan.tags.max(1);
    if plan.deal_tags {
        tags
    } else {
        tags * u64::from(plan.subscribers)
    }
}

/// None of them is to miss a message: the publisher waits.
fn settings(plan: &PerfPlan) -> Settings {
    let mut settings = plan.settings.clone();
    settings.messages.slow = Slow::Block;
    let all = usize::try_from(plan.subscribers).unwrap_or(usize::MAX);
    settings.connections_max = settings.connections_max.max(all);
    settings
}

pub(super) fn publish(
    plan: &PerfPlan,
    stop: &Stop,
    ready: impl FnOnce(&Address),
) -> Result<PerfResult, NetError> {
    let mut publisher = Publisher::listen(&plan.address, &settings(plan))?;
    let address = publisher.address()?;
    ready(&address);
    let mut memory = Memory {
        begun: Occupied::now(),
        ..Memory::default()
    };
    let mut patience = Patience::new(SUBSCRIBERS_LIMIT);
    while (publisher.subscriptions() as u64) < subscriptions(plan) && !stop.is_asked() {
        publisher.poll(WAIT)?;
        if patience.is_over(0) {
            return Err(NetError::TooFewSubscribers {
                came: publisher.ready_subscribers(),
                wanted: plan.subscribers,
                seconds: SUBSCRIBERS_LIMIT.as_secs(),
            });
        }
    }
    memory.connected = Occupied::now();
    let mut meter = Meter::new()?;
    let until_ns = clock::monotonic_ns().saturating_add(plan.duration.as_nanos() as u64);
    match stream(plan, &mut publisher, &mut meter, until_ns, stop) {
        // An order to end is an end like another.
        Ok(()) | Err(NetError::Stopped) => {}
        Err(error) => {
            // Its books are closed all the same.
            publisher.finish(END_LIMIT)?;
            return Err(error);
        }
    }
    meter.bytes = meter.messages * u64::from(plan.message_bytes);
    publisher.flush()?;
    meter.last_ns = clock::monotonic_ns();
    memory.used = Occupied::now();
    let end_point = publisher.finish(END_LIMIT)?;
    Ok(PerfResult {
        memory: Some(memory),
        ..meter.result(plan, &address, end_point)
    })
}

fn stream(
    plan: &PerfPlan,
    publisher: &mut Publisher,
    meter: &mut Meter,
    until_ns: u64,
    stop: &Stop,
) -> Result<(), NetError> {
    let payload = vec![0x5a_u8; plan.message_bytes as usize];
    let tags = plan.tags.max(1);
    let mut tag = 0;
    let mut now_ns = clock::monotonic_ns();
    let mut work_ns = now_ns;
    meter.first_ns = Some(now_ns);
    while now_ns < until_ns && !stop.is_asked() {
        for _ in 0..CLOCK_EVERY {
            publisher.publish(TAG + tag, 0, &payload)?;
            meter.messages += 1;
            tag = if tag + 1 < tags { tag + 1 } else { 0 };
        }
        now_ns = clock::monotonic_ns();
        if now_ns >= work_ns {
            publisher.poll(Duration::ZERO)?;
            if publisher.subscribers() == 0 {
                break;
            }
            work_ns = now_ns + WORK_NS;
        }
    }
    Ok(())
}

pub(super) fn subscribe(plan: &PerfPlan, stop: &Stop) -> Result<PerfResult, NetError> {
    let settings = settings(plan);
    let addresses = [plan.address.clone()];
    let mut memory = Memory {
        begun: Occupied::now(),
        ..Memory::default()
    };
    let mut look_ns = None;
    let mut subscribers = Vec::new();
    for number in 0..plan.subscribers.max(1) {
        let mut subscriber = Subscriber::connect(&addresses, &settings)?;
        subscriber.subscribe(&entries(plan, number));
        subscribers.push(subscriber);
    }
    let mut meter = Meter::new()?;
    let mut read = 0_u64;
    let mut patience = Patience::new(plan.duration);
    let mut next = 0;
    while !stop.is_asked() && !subscribers.iter().all(Subscriber::has_ended) {
        let before = meter.messages;
        let mut busy = false;
        let alone = subscribers.len() == 1;
        for (at, subscriber) in subscribers.iter_mut().enumerate() {
            // A thread that waits at one of many looks at the others soon.
            let wait = match (alone, at == next) {
                (true, _) => WAIT,
                (false, true) => SHORT_WAIT,
                (false, false) => Duration::ZERO,
            };
            busy |= subscriber.poll_viewed(wait, |viewed| {
                meter.first_ns.get_or_insert_with(clock::monotonic_ns);
                meter.messages += 1;
                meter.bytes += viewed.payload.len() as u64;
                if plan.read_all {
                    read = read.wrapping_add(sum(viewed.payload));
                }
            })?;
        }
        next = if busy {
            usize::MAX
        } else {
            (next.wrapping_add(1)) % subscribers.len()
        };
        if meter.messages > before {
            meter.last_ns = clock::monotonic_ns();
        }
        let connected = subscribers.iter().map(Subscriber::publishers).sum();
        let now_ns = clock::monotonic_ns();
        if connected == subscribers.len() && look_ns.is_none_or(|look_ns| now_ns >= look_ns) {
            memory.used = Occupied::now();
            if look_ns.is_none() {
                memory.connected = memory.used;
            }
            look_ns = Some(now_ns + LOOK_NS);
        }
        if patience.is_over(connected) {
            break;
        }
    }
    // Kept, so that reading every byte is not optimized away.
    std::hint::black_box(read);
    let why = subscribers.first().map(Subscriber::trouble);
    let mut ended = Vec::with_capacity(subscribers.len());
    for subscriber in subscribers {
        ended.push(subscriber.finish(END_LIMIT, |delivered| {
            meter.messages += 1;
            meter.bytes += delivered.message.payload.len() as u64;
        })?);
    }
    // There is one at least.
    let mut end_point = ended.remove(0);
    ended
        .into_iter()
        .for_each(|other| absorb(&mut end_point, other));
    let result = PerfResult {
        memory: Some(memory),
        ..meter.result(plan, &plan.address, end_point)
    };
    Ok(patience.judge(plan, result, why))
}
