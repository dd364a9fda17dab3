//! Which sender uses the port when: one file for each mode, and what they have in common.

mod credit;
mod incast;
mod slots;
mod slots_paced;

use forebay_wire::tdm::Mode;

use crate::plan::units::{rate, time};
use crate::plan::{Plan, PlanError, PlanInput, Port, Reason, Slot, WINDOW_NS};

pub(crate) fn plan(input: &PlanInput, port: &Port) -> Result<Plan, PlanError> {
    match input.mode {
        Mode::Incast => incast::plan(input, port),
        Mode::Slots => slots::plan(input, port),
        Mode::SlotsPaced => slots_paced::plan(input, port),
        Mode::Credit => credit::plan(input, port),
    }
}

/// The guard: how late a sender may be, how far two clocks may be apart, and the last packet's way over the wire. The bursts of a window that
/// is paced, and all that it may catch up, have left the port when it ends: only what is stored and forwarded comes behind it.
fn guard(input: &PlanInput, port: &Port) -> (u64, Reason) {
    let wire_ns = port.takes_ns(1);
    let rest_ns = 2 * input.clock_error_ns + wire_ns;
    let lateness_ns = lateness_to_cover_ns(input, port, rest_ns);
    let needed = lateness_ns + rest_ns;
    let late = if lateness_ns < input.lateness_ns {
        format!(
            "{} for being late (99 % are by less than {}, up to {} of which a sender catches up: more than that --utilisation does not leave)",
            time(&lateness_ns),
            time(&input.lateness_ns),
            time(&port.takes_ns(u64::from(port.catch_up_packets)))
        )
    } else {
        format!("{} lateness (99 %)", time(&lateness_ns))
    };
    let spelled = format!(
        "{late}, twice {} clock error, {} for the last packet on the wire",
        time(&input.clock_error_ns),
        time(&wire_ns)
    );
    let (guard_ns, why) = match input.guard_ns {
        Some(guard_ns) => (
            guard_ns,
            format!("set by hand; computed: {} = {spelled}", time(&needed)),
        ),
        None => (needed, spelled),
    };
    let value = time(&guard_ns);
    (
        guard_ns,
        Reason {
            what: "guard",
            value,
            why,
        },
    )
}

/// The part of the guard that is for being late, next to `rest_ns` for everything else. Where the window's length is set by hand it is no longer than the
/// utilisation that is asked for allows, but for what a sender could not catch up: the guard costs every window as much as it is long, and one that is late by less
/// than the limit makes up for it, as the port's buffer takes what comes at once.
fn lateness_to_cover_ns(input: &PlanInput, port: &Port, rest_ns: u64) -> u64 {
    // With grants it costs no window anything: it is how long a report is waited for that does not come.
    let Some(window_ns) = input.window_ns.filter(|_| input.mode != Mode::Credit) else {
        return input.lateness_ns;
    };
    let left_ns = (window_ns as f64 * (1.0 - input.utilisation) / input.utilisation) as u64;
    let caught_up_ns = port.takes_ns(u64::from(port.catch_up_packets));
    let beyond_ns = input.lateness_ns.saturating_sub(caught_up_ns);
    input
        .lateness_ns
        .min(beyond_ns.max(left_ns.saturating_sub(rest_ns)))
}

/// The schedule of windows, one after the other, with a guard between them.
fn in_turns(
    input: &PlanInput,
    port: &Port,
    pace_ps: u64,
    guard: (u64, Reason),
) -> Result<Plan, PlanError> {
    let (guard_ns, guard_reason) = guard;
    let senders = input.shares.len() as u64;
    let total: u64 = input.shares.iter().map(|share| u64::from(*share)).sum();
    let (mean_ns, window_why) = match input.window_ns {
        Some(window_ns) => (window_ns, "set by hand".to_owned()),
        None => shortest(input, port, guard_ns)?,
    };
    // With unequal shares the mean window is that length, and each is as long as its share.
    let all_ns = u128::from(mean_ns) * u128::from(senders);
    let mut offset_ns = 0;
    let mut slots = Vec::new();
    for share in &input.shares {
        let window_ns = (all_ns * u128::from(*share) / u128::from(total)) as u64;
        let packets = port.packets_in(window_ns);
        if packets == 0 {
            return Err(PlanError::Window {
                window_ns,
                packet_ns: port.takes_ns(1),
                link_rate_bps: input.link_rate_bps,
            });
        }
        slots.push(Slot {
            offset_ns,
            window_ns,
            packets,
        });
        offset_ns += window_ns + guard_ns;
    }
    let pace = if pace_ps == 0 {
        Reason {
            what: "pace",
            value: "flat out".to_owned(),
            why: format!("{} asks for it", input.mode),
        }
    } else {
        Reason {
            what: "pace",
            value: format!("{:.3} us a packet", pace_ps as f64 / 1e6),
            why: format!(
                "{} bytes and {} around them at {}: the port's buffer stays empty",
                input.packet_bytes,
                input.wire_overhead_bytes,
                rate(&input.link_rate_bps)
            ),
        }
    };
    let window = Reason {
        what: "window",
        value: time(&mean_ns),
        why: window_why,
    };
    let burst = Reason {
        what: "burst",
        value: format!("{} packets", port.burst_packets),
        why: format!(
            "the port's buffer holds {} packets; a burst fills an eighth of it at most, and lasts 100 us at most",
            port.buffer_packets
        ),
    };
    let catch_up = Reason {
        what: "catch up",
        value: format!("{} packets", port.catch_up_packets),
        why: "a sender that was held up may fill a quarter of the port's buffer; the rest waits for its next window".to_owned(),
    };
    Ok(Plan {
        mode: input.mode,
        slots,
        cycle_ns: offset_ns,
        guard_ns,
        pace_ps,
        packet_ps: port.packet_ps,
        packet_bytes: input.packet_bytes,
        burst_packets: port.burst_packets,
        catch_up_packets: port.catch_up_packets,
        utilisation: 0.0,
        goodput_bps: 0,
        reasons: vec![window, guard_reason, pace, burst, catch_up],
        warnings: Vec::new(),
    })
}

/// The shortest window of which the guard takes no more than allowed.
fn shortest(input: &PlanInput, port: &Port, guard_ns: u64) -> Result<(u64, String), PlanError> {
    let idle = 1.0 - input.utilisation;
    if idle <= 0.0 && guard_ns > 0 {
        let most = guard_ns as f64 / (WINDOW_NS.1 + guard_ns) as f64;
        return Err(PlanError::Overbooked {
            percent: input.utilisation * 100.0,
            most: ((1.0 - most) * 1000.0).floor() / 10.0,
        });
    }
    // A window holds whole packets: half a packet's time is lost in each.
    let lost_ns = guard_ns as f64 + port.takes_ns(1) as f64;
    let needed = if idle > 0.0 {
        (lost_ns * input.utilisation / idle).ceil()
    } else {
        0.0
    };
    let needed_ns = needed as u64;
    if needed_ns > WINDOW_NS.1 {
        return Err(PlanError::Guard {
            guard_ns,
            utilisation: input.utilisation,
            window_ns: needed_ns,
            most_ns: WINDOW_NS.1,
        });
    }
    // In steps of 100 us, which people can read.
    let window_ns = needed_ns
        .max(1_000_000)
        .next_multiple_of(100_000)
        .min(WINDOW_NS.1);
    let why = format!(
        "the shortest, from 1 ms in steps of 100 us, in which a guard of {} leaves {:.1} % of the port",
        time(&guard_ns),
        input.utilisation * 100.0
    );
    Ok((window_ns, why))
}
