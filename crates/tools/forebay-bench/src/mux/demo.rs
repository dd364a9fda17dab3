//! The multiplexer shown: two clients that behave and one that floods share a card whose line out is narrow; half-way the flooding one is held to a rate, over the control socket.
//!
//! Hosts, daemon, clients and load are those of the measurement beside it, and so is the account of the whole way. What is counted before the change and after it is read from the ledger of the load
//! and from the daemon's status while both are at work.

mod seen;
mod span;
mod watching;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use forebay_ledger::{Closed, Condition, Reason};
use forebay_load::target_name;
use forebay_run::Stop;
use forebay_run::record::{Envelope, Record};
use forebay_run_mux::config::PolicyChoice;
use forebay_run_mux::control::{Change, Changed, Target};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::account::Check;
use super::file::HEADERS_BYTES;
use super::ground::{Ground, Wire};
use super::session::{self, Work};
use super::{ClientOptions, ClientReport, Options, Placement, Workload, receive_buffers};
pub use seen::Verdict;
pub use span::{Rtt, Span, SpanClient};
use watching::Watching;

/// The name of the program in records.
const PROGRAM: &str = "demo-mux";
/// Clients, of which the last one floods.
const CLIENTS: usize = 3;
/// Rate of the line in, in bit/s: no limit for what is asked here.
const THERE_BPS: u64 = 1_000_000_000;
/// Bytes of UDP payload of a packet.
const SIZE_BYTES: usize = 1472;
/// Received frames that each client may always hold.
const GUARANTEE: u32 = 64;
/// Longest wait of a packet of the flooding client after the change, in µs.
const SOJOURN_MAX_US: u64 = 10_000;

/// Whether this client floods.
const fn is_flood(at: usize) -> bool {
    at + 1 == CLIENTS
}

/// What is shown. Rates are bits of UDP payload in a second, but for the line's.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// This program.
    pub program: PathBuf,
    /// Asked of each of the clients that behave.
    pub rate_bps: u64,
    /// Asked of the one that floods.
    pub flood_bps: u64,
    /// What the line out takes, in bit/s with all headers.
    pub wire_bps: u64,
    /// What the one that floods may send after the change.
    pub limit_bps: u64,
    /// How long packets are sent, half of it before the change.
    pub duration: Duration,
    /// Directory for ledgers and records.
    pub out: PathBuf,
}

impl DemoOptions {
    fn session(&self) -> Options {
        let client = |at| ClientOptions {
            load_bps: match is_flood(at) {
                true => self.flood_bps,
                false => self.rate_bps,
            },
            guarantee: GUARANTEE,
            ..ClientOptions::default()
        };
        Options {
            program: self.program.clone(),
            workload: Workload::Echo,
            policy: PolicyChoice::RoundRobin,
            clients: (0..CLIENTS).map(client).collect(),
            size_bytes: SIZE_BYTES,
            duration: self.duration,
            receive_buffers: receive_buffers(CLIENTS),
            wire_bps: Some(self.wire_bps),
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

    /// How long the line's queue takes to empty after the change; none: it does not.
    fn empties_in(&self) -> Option<Duration> {
        let payload_bps = 2 * self.rate_bps + self.limit_bps.min(self.flood_bps);
        let headers = f64::from(HEADERS_BYTES) / SIZE_BYTES as f64;
        self.wire()
            .back_empties_in(payload_bps as f64 * (1.0 + headers))
    }

    const fn wire(&self) -> Wire {
        Wire {
            there_bps: THERE_BPS,
            back_bps: self.wire_bps,
        }
    }

    /// What is said to the daemon half-way.
    fn change(&self) -> Vec<Change> {
        let policy = PolicyChoice::TokenBucket.name().to_owned();
        let class = [
            ("policy", policy),
            ("uncounted_bytes", HEADERS_BYTES.to_string()),
        ];
        let client = [
            ("rate_bps", self.limit_bps.to_string()),
            ("sojourn_max_us", SOJOURN_MAX_US.to_string()),
        ];
        let name = target_name(CLIENTS - 1);
        [(Target::Class(0), class), (Target::Client(name), client)]
            .into_iter()
            .map(|(of, keys)| Change {
                of,
                keys: keys.map(|(key, value)| (key.to_owned(), value)).into(),
            })
            .collect()
    }
}

/// What came of it, beside what every record says. `residual_items` of the record is that of the whole way.
#[derive(Clone, Debug, Serialize)]
pub struct MuxDemoSummary {
    /// Bytes of UDP payload of a packet.
    pub size_bytes: usize,
    /// What the line out took, in bit/s with all headers.
    pub wire_bps: u64,
    /// What the client that floods might send after the change, in bit/s of UDP payload.
    pub limit_bps: u64,
    /// How long packets were sent, in s.
    pub sending_s: f64,
    /// What was counted before the change; none: it ended too soon.
    pub before: Option<Span>,
    /// What was counted after it; none: it was not made, or just so.
    pub after: Option<Span>,
    /// What was changed, as the daemon's record has it.
    pub changes: Value,
    /// Client by client, over the whole time.
    pub clients: Vec<ClientReport>,
    /// Packets that were lost on the wire and at the card, by place and reason: those of all clients together.
    pub wire_drops: BTreeMap<String, u64>,
    /// What two parties counted of one thing, and is not the same.
    pub disagreements: Vec<Check>,
    /// What held the generator, if it was the limit.
    pub generator_limit: Option<String>,
    /// What the change did for the clients that behave.
    pub verdict: Verdict,
    /// The same for people, with its numbers.
    pub seen: String,
    /// Ended by Ctrl-C or SIGTERM.
    pub interrupted: bool,
}

/// The record of it.
pub type MuxDemoRecord = Record<MuxDemoSummary>;

/// Settings that the daemon said it changed for this process, and those that its record has of it: others may have changed some as well.
fn recorded(said: &[Changed], daemon: &Value, pid: u32) -> Result<Check> {
    let all = daemon["changes"].as_array();
    let all = all.with_context(|| format!("the daemon's record has no changes: {daemon}"))?;
    let own = all.iter().filter(|change| change["pid"] == pid);
    let own = own.filter_map(|change| Changed::deserialize(change).ok());
    let found = own.filter(|change| said.contains(change)).count();
    let what = "settings that the daemon said it changed, and those in its record";
    Ok(Check::of(what, said.len() as u64, found as u64))
}

/// Shows it once; `tell` has what was counted since it was told before, about once a second.
///
/// # Errors
/// Network namespaces may not be made, a program is not there or does not begin, the daemon refuses the change: each names what to do.
pub fn run(
    options: &DemoOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(&Span),
) -> Result<MuxDemoRecord> {
    let begun = Instant::now();
    let session = options.session();
    let ground = Ground::make(CLIENTS, Some(options.wire()))?;
    let work = Work::make(&options.program, Some(&options.out))?;
    let mut watching = Watching::new(options, &ground, work.control(), tell);
    let told = session::run(&session, &ground, &work, (stop, &mut watching))?;
    let (measured, mut books) = told.summed_up(&session, super::CpuShare::default())?;
    let mut disagreements = measured.disagreements;
    let has_set = recorded(watching.changed(), &told.daemon, std::process::id())?;
    if has_set.off() > 0 {
        books = books.with(&Closed {
            residual_items: has_set.off(),
            ..Closed::default()
        });
        disagreements.push(has_set);
    }
    let (before, after) = watching.spans();
    let (verdict, seen) = seen::say(before.as_ref(), after.as_ref());
    let run_id = format!("{PROGRAM}-{}", std::process::id());
    let mut envelope = Envelope::of_process(PROGRAM, &run_id, begun.elapsed().as_secs_f64());
    envelope.books = books;
    envelope.condition = Condition::Ended;
    envelope.reason = stop.reason().unwrap_or(Reason::LimitReached);
    let limited = measured.generator_limit.iter();
    envelope.warnings = limited
        .map(|limit| format!("the generator was the limit: {limit}"))
        .collect();
    let summary = MuxDemoSummary {
        size_bytes: SIZE_BYTES,
        wire_bps: options.wire_bps,
        limit_bps: options.limit_bps,
        sending_s: measured.sending_s,
        before,
        after,
        changes: told.daemon["changes"].clone(),
        clients: measured.clients,
        wire_drops: measured.wire_drops,
        disagreements,
        generator_limit: measured.generator_limit,
        verdict,
        seen,
        interrupted: stop.is_asked(),
    };
    Ok(Record { envelope, summary })
}

#[cfg(test)]
mod tests {
    use forebay_run_mux::MuxPlan;
    use serde_json::json;

    use super::*;

    fn options() -> DemoOptions {
        DemoOptions {
            program: PathBuf::new(),
            rate_bps: 4_000_000,
            flood_bps: 60_000_000,
            wire_bps: 30_000_000,
            limit_bps: 10_000_000,
            duration: Duration::from_secs(16),
            out: PathBuf::new(),
        }
    }

    #[test]
    fn one_client_floods_and_the_line_empties_when_it_is_held() {
        let options = options();
        let asked: Vec<_> = options
            .session()
            .clients
            .iter()
            .map(|it| it.load_bps)
            .collect();
        assert_eq!(asked, [4_000_000, 4_000_000, 60_000_000]);
        // 512 KiB at 30 Mb/s less 18 Mb/s of payload with 42 bytes more for each 1,472.
        let empties_ms = options.empties_in().unwrap().as_millis();
        assert_eq!(empties_ms, 365);
        let too_much = DemoOptions {
            limit_bps: 25_000_000,
            ..options
        };
        assert_eq!(too_much.empties_in(), None);
    }

    #[test]
    fn the_change_is_one_that_a_file_of_the_daemon_could_have() {
        let options = options();
        let (socket, directory) = (PathBuf::from("/tmp/x"), PathBuf::from("/tmp/y"));
        let mut text = super::super::file::text(&options.session(), &socket, &directory);
        let [class, client] = &options.change()[..] else {
            panic!("two of them")
        };
        assert_eq!(
            (&class.of, &client.of),
            (&Target::Class(0), &Target::Client("C".to_owned()))
        );
        text = text.replace("policy = \"round-robin\"", "policy = \"token-bucket\"");
        // The last place of the file is that of C.
        for (key, value) in &client.keys {
            text += &format!("{key} = {value}\n");
        }
        let plan: MuxPlan = forebay_config::parse("mux.toml", &text).unwrap();
        assert_eq!(plan.clients[2].rate_bps, Some(10_000_000));
        assert_eq!(plan.classes[0].policy.name(), class.keys["policy"]);
    }

    #[test]
    fn a_change_that_the_daemon_does_not_record_is_found() {
        let changed = |key: &str| Changed {
            of: Target::Class(0),
            key: key.to_owned(),
            before: json!(1),
            now: json!(2),
        };
        let said = [changed("policy"), changed("uncounted_bytes")];
        let record = |key: &str, pid: u32| {
            let mut json = serde_json::to_value(changed(key)).unwrap();
            json["pid"] = pid.into();
            json
        };
        let off = |changes: Value| {
            let daemon = json!({ "changes": changes });
            recorded(&said, &daemon, 7).unwrap().off()
        };
        let whole = [record("policy", 7), record("uncounted_bytes", 7)];
        assert_eq!(off(json!(whole)), 0);
        assert_eq!(off(json!([&whole[0], &whole[1], record("guard_us", 8)])), 0);
        assert_eq!(off(json!([whole[0], record("uncounted_bytes", 8)])), 1);
        assert_eq!(off(json!([])), 2);
        assert!(recorded(&said, &json!({}), 7).is_err());
    }
}
