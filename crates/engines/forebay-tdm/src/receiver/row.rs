//! One window of one sender: what came of it, and what was lost where.

use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_wire::tdm::{Data, Report};

reasons! {
    /// Why packets that were sent did not come.
    pub enum LossCause {
        /// The sender's kernel refused them.
        SenderError = "sender_error",
        /// Nothing of their window came.
        WholeWindow = "whole_window",
        /// In front of the first that came of their window.
        Before = "before",
        /// Between others that came.
        Inside = "inside",
        /// Behind the last that came of their window.
        Tail = "tail",
        /// Our own socket was full, by the kernel's count.
        SocketOverflow = "socket_overflow",
        /// The host could not put them together from fragments, by the kernel's count.
        Reassembly = "reassembly",
        /// They were sent while this host did not read its socket in time, and the kernel dropped datagrams there.
        ReceiverStalled = "receiver_stalled",
    }
}

/// Packets that were sent and did not come, by cause.
pub type Lost = PerReason<LossCause, u64, { LossCause::COUNT }>;

/// Of what was counted by its place in the window, up to `most` packets have another cause. Returns how many.
pub(super) fn charge(lost: &mut Lost, most: u64, cause: LossCause) -> u64 {
    let mut left = most;
    for place in [
        LossCause::Inside,
        LossCause::Tail,
        LossCause::Before,
        LossCause::WholeWindow,
    ] {
        let moved = left.min(lost[place]);
        lost[place] -= moved;
        left -= moved;
    }
    lost[cause] += most - left;
    most - left
}

/// A closed window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The sender's index.
    pub sender: u16,
    /// Its number.
    pub window: u32,
    /// The last window that this stands for: its own, but where reports are missing and several were closed together.
    pub window_last: u32,
    /// The sender's report has come; without it, `sent` is by the packets' numbers.
    pub reported: bool,
    /// Packets sent.
    pub sent: u64,
    /// Packets that came, each once.
    pub received: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Packets that did not come.
    pub lost: Lost,
    /// Packets that came more than once.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Packets that waited for a later window.
    pub carried: u64,
    /// Windows before this one in which nothing was sent.
    pub preempted: u64,
    /// When the first packet was given to the sender's kernel, in ns of the receiver's clock.
    pub first_sent_ns: u64,
    /// When the last one was.
    pub last_sent_ns: u64,
    /// When the first one came, by the kernel's stamp.
    pub first_came_ns: u64,
    /// When the last one did.
    pub last_came_ns: u64,
    /// Shortest way from kernel to kernel, in ns; below 0 when the clocks are off by more.
    pub travel_min_ns: i64,
    /// Longest.
    pub travel_max_ns: i64,
    /// Sum over all packets that came.
    pub travel_sum_ns: i64,
    /// Packets of this window, not its first, that came right after one of an earlier window.
    pub overlap_front: u64,
    /// Packets of this window that one of a later window followed, which was not that one's first.
    pub overlap_back: u64,
    /// How late the first packet was, in ns.
    pub lateness_ns: u32,
    /// Bound of the error of the sender's clock, in ns.
    pub clock_error_ns: u32,
}

impl Row {
    /// The mean way from kernel to kernel, in ns; 0 when nothing came.
    #[must_use]
    pub fn travel_mean_ns(&self) -> i64 {
        self.travel_sum_ns
            .checked_div(self.received.cast_signed())
            .unwrap_or(0)
    }

    /// What is neither received nor lost of what was sent: 0.
    #[must_use]
    pub fn residual(&self) -> i64 {
        self.sent.cast_signed() - self.received.cast_signed() - self.lost.total().cast_signed()
    }
}

/// A window that is not closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRow {
    pub(super) row: Row,
    /// The sender's report and when it came.
    pub(super) report: Option<(Report, u64)>,
    /// The highest packet that came.
    highest: u64,
    /// The first and the last packet that it has for certain: that came, or that the report names.
    pub(super) span: (u64, u64),
    /// Where the first byte of its payload lies in the stream, as far as has come.
    pub(super) low_offset: u64,
}

impl OpenRow {
    pub(super) fn new(sender: u16, window: u32) -> Self {
        Self {
            row: Row {
                sender,
                window,
                window_last: window,
                ..Row::default()
            },
            report: None,
            highest: 0,
            span: (u64::MAX, 0),
            low_offset: u64::MAX,
        }
    }

    pub(super) fn came(&mut self, came_ns: u64, data: &Data<'_>) {
        let row = &mut self.row;
        let (packet, sent_ns) = (data.packet, data.sent_ns);
        let travel_ns = came_ns.cast_signed().saturating_sub(sent_ns.cast_signed());
        if row.received == 0 {
            (row.travel_min_ns, row.travel_max_ns) = (travel_ns, travel_ns);
            (row.first_sent_ns, row.first_came_ns) = (sent_ns, came_ns);
        }
        row.received += 1;
        row.payload_bytes += data.payload.len() as u64;
        row.travel_min_ns = row.travel_min_ns.min(travel_ns);
        row.travel_max_ns = row.travel_max_ns.max(travel_ns);
        row.travel_sum_ns = row.travel_sum_ns.saturating_add(travel_ns);
        row.last_came_ns = row.last_came_ns.max(came_ns);
        row.last_sent_ns = row.last_sent_ns.max(sent_ns);
        if packet < self.highest {
            row.reordered += 1;
        }
        self.highest = self.highest.max(packet);
        self.covers(packet, packet);
        self.low_offset = self.low_offset.min(data.offset);
    }

    /// These packets are of this window.
    pub(super) fn covers(&mut self, first: u64, last: u64) {
        self.span = (self.span.0.min(first), self.span.1.max(last));
    }

    /// Can packets from `first` to `last` be of this window, by its report?
    pub(super) fn admits(&self, first: u64, last: u64) -> bool {
        self.report.is_none_or(|(report, _)| {
            first >= report.first_packet && last < report.first_packet + u64::from(report.packets)
        })
    }

    /// The sender's own account goes into the row.
    pub(super) fn settle(&mut self) {
        if let Some((report, _)) = &self.report {
            let row = &mut self.row;
            row.reported = true;
            row.carried = u64::from(report.carried);
            row.preempted = u64::from(report.preempted);
            (row.first_sent_ns, row.last_sent_ns) = (report.first_ns, report.last_ns);
            (row.lateness_ns, row.clock_error_ns) = (report.lateness_ns, report.clock_error_ns);
        }
    }
}
