//! What a subscriber of chunks has to say at its end.

use std::collections::BTreeMap;

use forebay_ledger::{Taint, TaintKind};
use forebay_readout::fragments::Fragments;
use forebay_run_net::NetRecord;
use serde::Serialize;

use super::latency::LatencyReport;
use super::table::Table;

/// Counts by name; names with 0 are left out.
pub type ByName = BTreeMap<&'static str, u64>;

/// What came, and what was wrong with it.
#[derive(Clone, Debug, Serialize)]
pub struct SwrodReport {
    /// Chunks that came.
    pub chunks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// From the first chunk to the last, in s.
    pub elapsed_s: f64,
    /// Chunks per second.
    pub chunk_rate_hz: f64,
    /// Their bytes, in bits per second.
    pub goodput_bps: f64,
    /// Trigger numbers of which no chunk came, E-link by E-link; 256 in a row leave no trace in generated chunks.
    pub missing: u64,
    /// Chunks with the trigger number of the one before.
    pub repeated: u64,
    /// How often a trigger number was another one than the next.
    pub jumps: u64,
    /// Chunks that are not what they should be, by reason.
    pub bad_payload: ByName,
    /// Chunks by what their source says of them; several may be said of one.
    pub flagged: ByName,
    /// Each E-link: those that were asked for one by one, and all of which something came.
    pub elinks: Vec<ElinkReport>,
    /// Fragments, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragments: Option<FragmentReport>,
    /// From trigger to here, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencyReport>,
    /// Messages lost by name on the way here.
    pub dropped: u64,
    /// Messages that publishers dropped, as this side was too slow, where they said it.
    pub dropped_at_peers: u64,
    /// Why nothing was checked, when nothing came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing_came: Option<String>,
    /// The end point's own record.
    pub end_point: NetRecord,
}

/// What came of one E-link.
#[derive(Clone, Debug, Serialize)]
pub struct ElinkReport {
    /// Its whole number, in hexadecimal; none for all that are too many to be told apart.
    pub fid: Option<String>,
    /// Detector.
    pub detector: u8,
    /// Connector.
    pub connector: u16,
    /// Number of the E-link there.
    pub elink: u16,
    /// Chunks.
    pub chunks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Chunks by what their source says of them.
    pub flagged: ByName,
    /// Chunks that are not what they should be, by reason.
    pub bad_payload: ByName,
    /// How often its trigger number was another one than the next.
    pub jumps: u64,
    /// Trigger numbers of which no chunk came.
    pub missing: u64,
    /// Chunks with the trigger number of the one before.
    pub repeated: u64,
    /// Incomplete fragments that lack its chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragments_missed: Option<u64>,
}

/// What became of fragments.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FragmentReport {
    /// Triggers that may be under way at a time.
    pub window: u64,
    /// Triggers of which all E-links' chunks came.
    pub complete: u64,
    /// Triggers of which some did not come.
    pub incomplete: u64,
    /// Triggers from before the last E-link had begun.
    pub early: u64,
    /// Triggers that some E-links had not reached when this side ended.
    pub open: u64,
    /// Chunks whose trigger had left the window already.
    pub late_chunks: u64,
    /// Chunks whose E-link had one of that trigger already.
    pub repeated_chunks: u64,
    /// Chunks that are in none of these.
    pub residual_chunks: i64,
}

/// The sums of all E-links; `has_all` when the publishers have ended in order.
pub(super) fn make(
    mut table: Table,
    has_all: bool,
    elapsed_ns: u64,
    end_point: NetRecord,
) -> SwrodReport {
    let fragments = table.fragments.as_mut();
    let fragments = fragments.map(|it| FragmentReport::of(it, has_all));
    let [chunks, bytes] = table.sums();
    let elapsed_s = elapsed_ns as f64 / 1e9;
    let per_second = |amount: f64| {
        if elapsed_s > 0.0 {
            amount / elapsed_s
        } else {
            0.0
        }
    };
    let mut report = SwrodReport {
        chunks,
        bytes,
        elapsed_s,
        chunk_rate_hz: per_second(chunks as f64),
        goodput_bps: per_second(bytes as f64 * 8.0),
        missing: 0,
        repeated: 0,
        jumps: 0,
        bad_payload: ByName::new(),
        flagged: ByName::new(),
        elinks: table.report(),
        fragments,
        latency_ns: None,
        dropped: end_point.dropped,
        dropped_at_peers: end_point.dropped_at_peers,
        nothing_came: None,
        end_point,
    };
    for link in &report.elinks {
        report.missing += link.missing;
        report.repeated += link.repeated;
        report.jumps += link.jumps;
        for (sums, counts) in [
            (&mut report.bad_payload, &link.bad_payload),
            (&mut report.flagged, &link.flagged),
        ] {
            for (name, count) in counts {
                *sums.entry(name).or_default() += count;
            }
        }
    }
    report
}

impl FragmentReport {
    fn of(fragments: &mut Fragments, has_all: bool) -> Self {
        fragments.finish(has_all);
        let account = fragments.account();
        Self {
            window: fragments.window() as u64,
            complete: account.complete,
            incomplete: account.incomplete,
            early: account.early,
            open: account.open,
            late_chunks: account.chunks_late,
            repeated_chunks: account.chunks_repeated,
            residual_chunks: account.residual(),
        }
    }
}

impl SwrodReport {
    /// Says that chunks are in no fragment and not lost either.
    pub(super) fn taint(&self) -> Option<Taint> {
        let chunks = self.fragments.map_or(0, |it| it.residual_chunks);
        let text = format!("{chunks} chunks are in no fragment, and not lost by name");
        (chunks != 0).then(|| Taint::new(TaintKind::Residual, text))
    }

    /// Whether anything was lost, came twice or came damaged. That a front end was busy is neither.
    #[must_use]
    pub fn has_loss(&self) -> bool {
        let lost = [
            self.missing,
            self.repeated,
            self.dropped,
            self.dropped_at_peers,
        ];
        let incomplete = self.fragments.is_some_and(|it| it.incomplete > 0);
        let flagged = self.flagged.keys().any(|name| *name != "fw_busy");
        let parted = !self.end_point.parted.is_empty();
        lost != [0; 4] || incomplete || flagged || parted || !self.bad_payload.is_empty()
    }
}
