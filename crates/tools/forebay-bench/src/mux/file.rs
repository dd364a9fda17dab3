//! The daemon's file for a measurement.

use std::fmt::Write as _;
use std::path::Path;

use forebay_load::target_name;
use forebay_run_mux::config::PolicyChoice;

use super::ground::{CARD, client_address, client_mac};
use super::{ClientOptions, Options};

/// The user of clients: one without rights (`nobody`).
pub(super) const CLIENTS_USER: u32 = 65_534;
/// Bytes of a frame that are no UDP payload: the headers of Ethernet, IPv4 and UDP.
pub(super) const HEADERS_BYTES: u32 = 42;
/// Levels of the policy `priority`.
const LEVELS: usize = 8;
/// Longest wait of a class behind another one, in µs.
const GUARD_US: u64 = 1_000;

/// Windows of a schedule come again after so long, or later, where they would be shorter than a few packets.
const CYCLE_US: u64 = 10_000;
const SLOT_US_MIN: u64 = 100;

/// Length of a client's window in a schedule of so many.
const fn slot_us(clients: usize) -> u64 {
    let share = CYCLE_US / clients as u64;
    if share > SLOT_US_MIN {
        share
    } else {
        SLOT_US_MIN
    }
}

/// Whether a policy has a rate for each client.
pub(super) const fn is_limiter(policy: PolicyChoice) -> bool {
    matches!(policy, PolicyChoice::TokenBucket | PolicyChoice::Window)
}

/// Its text, with the clients' socket and the directory of the run. Clients with a limit are in a class with a limiter: that of the policy, or one that goes first, as what it takes has a bound.
pub(super) fn text(options: &Options, socket: &Path, directory: &Path) -> String {
    let (policy, clients) = (options.policy, &options.clients);
    let mut text = format!(
        "[mux]\ninterface = \"{CARD}\"\nsocket = \"{}\"\ndirectory = \"{}\"\nreceive_buffers = {}\ntransmit_buffers = {}\n",
        socket.display(),
        directory.display(),
        options.receive_buffers,
        clients.iter().map(|it| it.tx_queue).max().unwrap_or(256),
    );
    if let Some(bps) = options.link_bps {
        text += &format!("link_rate_bps = {bps}\n");
    }
    if let Some(us) = options.gather_us {
        text += &format!("gather_us = {us}\n");
    }
    if let Some(priority) = options.real_time {
        text += &format!("real_time = {priority}\n");
    }
    if options.driver_threads != 1 {
        text += &format!("driver_threads = {}\n", options.driver_threads);
    }
    let has_limits = clients.iter().any(|it| it.limit_bps.is_some());
    let has_class_of_its_own = has_limits && !is_limiter(policy);
    if has_class_of_its_own {
        text += &class(options, PolicyChoice::TokenBucket, false);
    }
    text += &class(options, policy, has_class_of_its_own);
    for (at, client) in clients.iter().enumerate() {
        let behind = has_class_of_its_own && client.limit_bps.is_none();
        let limiter = match client.limit_bps {
            Some(_) if has_class_of_its_own => PolicyChoice::TokenBucket,
            _ => policy,
        };
        text += &place(at, client, u8::from(behind), limiter);
        if limiter == PolicyChoice::Tdm {
            let slot_us = slot_us(clients.len());
            let _ = writeln!(
                text,
                "slot_offset_us = {}\nslot_us = {slot_us}",
                at as u64 * slot_us
            );
        }
    }
    text
}

fn class(options: &Options, policy: PolicyChoice, has_guard: bool) -> String {
    let clients = options.clients.len();
    let mut text = format!("\n[[classes]]\npolicy = \"{}\"\n", policy.name());
    // Writing into a text does not fail.
    if is_limiter(policy) && !options.is_raw {
        let _ = writeln!(text, "uncounted_bytes = {HEADERS_BYTES}");
    }
    if policy == PolicyChoice::Tdm {
        let _ = writeln!(text, "cycle_us = {}", slot_us(clients) * clients as u64);
    }
    if has_guard {
        let _ = writeln!(text, "guard_us = {GUARD_US}");
    }
    text
}

fn place(at: usize, client: &ClientOptions, class: u8, policy: PolicyChoice) -> String {
    let mut text = format!(
        "\n[[clients]]\nname = \"{}\"\nuid = {CLIENTS_USER}\nmac = \"{}\"\naddress = [\"{}\"]\nqueue = {}\ntransmit_queue = {}\nguarantee = {}\nclass = {class}\n",
        target_name(at),
        client_mac(at),
        client_address(at),
        client.rx_queue,
        client.tx_queue,
        client.guarantee,
    );
    let mut add = |key: &str, value: u64| {
        let _ = writeln!(text, "{key} = {value}");
    };
    if let Some(us) = client.sojourn_max_us {
        add("sojourn_max_us", us);
    }
    if let Some(bps) = client.limit_bps {
        add("rate_bps", bps);
    }
    if policy == PolicyChoice::Priority {
        add("level", at.min(LEVELS - 1) as u64);
    }
    if client.is_trusted {
        text += "trusted = true\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use forebay_run_mux::MuxPlan;

    use super::*;
    use crate::mux::{Placement, Workload};

    fn options(policy: PolicyChoice, limits: &[Option<u64>]) -> Options {
        let client = |limit_bps: &Option<u64>| ClientOptions {
            load_bps: 1_000_000,
            limit_bps: *limit_bps,
            sojourn_max_us: Some(5_000),
            ..ClientOptions::default()
        };
        Options {
            program: PathBuf::new(),
            workload: Workload::Echo,
            policy,
            clients: limits.iter().map(client).collect(),
            size_bytes: 1472,
            duration: Duration::from_secs(1),
            receive_buffers: 4_096,
            wire_bps: None,
            link_bps: None,
            gather_us: None,
            real_time: None,
            is_raw: false,
            driver_threads: 1,
            has_baseline: false,
            has_soaker: true,
            placement: Placement::default(),
        }
    }

    fn plan(options: &Options) -> MuxPlan {
        let text = text(options, Path::new("/tmp/x/socket"), Path::new("/tmp/x/mux"));
        forebay_config::parse("mux.toml", &text).unwrap_or_else(|wrong| panic!("{text}\n{wrong}"))
    }

    #[test]
    fn the_daemon_takes_the_file_of_each_policy_with_and_without_a_limit() {
        for policy in PolicyChoice::ALL {
            for limits in [vec![None; 64], vec![None, Some(100_000_000)]] {
                let plan = plan(&options(*policy, &limits));
                assert_eq!(plan.clients.len(), limits.len());
                for (client, limit) in plan.clients.iter().zip(&limits) {
                    assert_eq!(client.rate_bps, *limit, "{policy:?}");
                    let class = plan.classes[usize::from(client.class)].policy;
                    assert!(limit.is_none() || is_limiter(class), "{policy:?}");
                    assert!(limit.is_some() || class == *policy, "{policy:?}");
                }
            }
        }
    }

    #[test]
    fn what_comes_gathers_for_as_long_as_is_said() {
        let mut options = options(PolicyChoice::RoundRobin, &[None]);
        let usual = plan(&options).settings.gather_us;
        options.gather_us = Some(usual + 7);
        assert_eq!(plan(&options).settings.gather_us, usual + 7);
        assert_eq!(plan(&options).settings.real_time, None);
        options.real_time = Some(3);
        assert_eq!(plan(&options).settings.real_time, Some(3));
    }

    #[test]
    fn the_driver_has_as_many_threads_as_are_said() {
        let mut options = options(PolicyChoice::RoundRobin, &[None]);
        for threads in [1, 2] {
            options.driver_threads = threads;
            assert_eq!(plan(&options).settings.driver_threads, threads);
        }
    }

    #[test]
    fn those_are_trusted_that_are_said_to_be() {
        let mut options = options(PolicyChoice::RoundRobin, &[None, None]);
        options.clients[1].is_trusted = true;
        let plan = plan(&options);
        let trusted = plan.clients.iter().map(|client| client.trusted);
        assert!(trusted.eq([false, true]));
    }

    #[test]
    fn limits_are_of_payload_and_a_limited_client_goes_first() {
        let plan = plan(&options(PolicyChoice::Priority, &[None, Some(8_000_000)]));
        let classes: Vec<_> = plan
            .classes
            .iter()
            .map(|it| (it.policy, it.uncounted_bytes, it.guard_us))
            .collect();
        let expected = [
            (PolicyChoice::TokenBucket, 42, None),
            (PolicyChoice::Priority, 0, Some(1_000)),
        ];
        assert_eq!(classes, expected);
        assert_eq!([plan.clients[0].class, plan.clients[1].class], [1, 0]);
    }
}
