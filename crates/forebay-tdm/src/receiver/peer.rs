//! One sender, as the receiver sees it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use forebay_wire::tdm::{Data, End, EndReason, Ready, Report};

use super::gaps::Gaps;
use super::row::{Lost, OpenRow, Row};
use super::seen::{COVERED, Mark, Seen};

/// Windows of a sender that may be open at once.
const OPEN_MAX: usize = 1024;
/// A missing report is waited for so long after the next one has come, in ns; its sender tells it again meanwhile.
const REPORT_WAIT_NS: u64 = 500_000_000;

/// Where a sender stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// It learns our clock.
    #[default]
    Joined,
    /// It waits for the start, or sends.
    Ready,
    /// It has told its totals.
    Ended,
    /// It fell silent.
    Dead,
}

/// What is known of a sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerTotals {
    /// Its name.
    pub name: String,
    /// Starts under that name before this one.
    pub restarts: u32,
    /// Where it stands.
    pub state: PeerState,
    /// What it measured of itself.
    pub ready: Ready,
    /// Windows that were closed.
    pub windows: u64,
    /// Packets sent, by its reports, and by numbers where one is missing.
    pub sent: u64,
    /// Packets that came.
    pub received: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Packets that did not come.
    pub lost: Lost,
    /// Packets that came more than once.
    pub duplicates: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets that waited for a later window.
    pub carried: u64,
    /// Windows in which nothing was sent.
    pub preempted: u64,
    /// Overlaps, front and back together.
    pub overlaps: u64,
    /// Windows whose reports never came.
    pub unreported: u64,
    /// Reports that contradicted others, and were left out.
    pub bad_reports: u64,
    /// Its own totals, from its end.
    pub own: Option<End>,
}

impl PeerTotals {
    /// What is neither received nor lost of what was sent: 0.
    #[must_use]
    pub fn residual(&self) -> i64 {
        self.sent.cast_signed() - self.received.cast_signed() - self.lost.total().cast_signed()
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) from: SocketAddr,
    pub(super) nonce: u64,
    pub(super) share: u16,
    pub(super) packet_bytes_max: u16,
    pub(super) heard_ns: u64,
    /// The next window that it is granted.
    pub(super) granted: u32,
    pub(super) gaps: Gaps,
    index: u16,
    totals: PeerTotals,
    seen: Seen,
    open: VecDeque<OpenRow>,
    /// All windows below it are closed.
    closed: u32,
}

impl Peer {
    pub(super) fn new(
        index: u16,
        from: SocketAddr,
        hello: &forebay_wire::tdm::Hello<'_>,
        now_ns: u64,
    ) -> Self {
        Self {
            from,
            nonce: hello.nonce,
            share: hello.share,
            packet_bytes_max: hello.packet_bytes_max,
            heard_ns: now_ns,
            granted: 0,
            gaps: Gaps::default(),
            index,
            totals: PeerTotals {
                name: hello.name.to_owned(),
                ..PeerTotals::default()
            },
            seen: Seen::default(),
            open: VecDeque::new(),
            closed: 0,
        }
    }

    /// The same place for a new start of the same sender: its account goes on, its windows and packets begin anew.
    pub(super) fn restart(
        &mut self,
        from: SocketAddr,
        hello: &forebay_wire::tdm::Hello<'_>,
        now_ns: u64,
    ) {
        let old = std::mem::replace(self, Self::new(self.index, from, hello, now_ns));
        self.totals = PeerTotals {
            restarts: old.totals.restarts + 1,
            state: PeerState::Joined,
            own: None,
            ..old.totals
        };
        self.gaps = old.gaps;
    }

    /// Another index, before anything has come.
    pub(super) const fn place(&mut self, index: u16) {
        self.index = index;
    }

    pub(super) const fn totals(&self) -> &PeerTotals {
        &self.totals
    }

    pub(super) const fn is_alive(&self) -> bool {
        !matches!(self.totals.state, PeerState::Dead)
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.totals.state, PeerState::Ready)
    }

    /// It has ended or fell silent, and all its windows are closed.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.totals.state, PeerState::Ended | PeerState::Dead) && self.open.is_empty()
    }

    pub(super) fn ready(&mut self, ready: &Ready) {
        if matches!(self.totals.state, PeerState::Joined | PeerState::Ready) {
            self.totals.state = PeerState::Ready;
            self.totals.ready = *ready;
        }
    }

    fn row(&mut self, window: u32) -> Option<&mut OpenRow> {
        if window < self.closed {
            return None;
        }
        // Nearly always the last one.
        let at = self.open.iter().rposition(|open| open.row.window <= window);
        let found = at
            .and_then(|at| self.open.get(at))
            .is_some_and(|open| open.row.window == window);
        let place = match at {
            Some(at) if found => at,
            _ if self.open.len() >= OPEN_MAX => return None,
            at => {
                let place = at.map_or(0, |at| at + 1);
                self.open.insert(place, OpenRow::new(self.index, window));
                place
            }
        };
        self.open.get_mut(place)
    }

    pub(super) fn take_data(&mut self, came_ns: u64, data: &Data<'_>) -> Mark {
        if matches!(self.totals.state, PeerState::Ended) || data.window < self.closed {
            return Mark::Late;
        }
        if self.row(data.window).is_none() {
            return Mark::Ahead;
        }
        let mark = self.seen.mark(data.packet);
        let bytes = data.payload.len() as u64;
        if let Some(open) = self.row(data.window) {
            match mark {
                Mark::New => open.came(came_ns, data),
                Mark::Again => open.row.duplicates += 1,
                Mark::Late | Mark::Ahead => {}
            }
        }
        if mark == Mark::New {
            self.totals.received += 1;
            self.totals.payload_bytes += bytes;
            self.gaps.came(data.offset, bytes);
        }
        mark
    }

    pub(super) fn received_in(&self, window: u32) -> u64 {
        let open = self
            .open
            .iter()
            .rev()
            .find(|open| open.row.window == window);
        open.map_or(0, |open| open.row.received)
    }

    pub(super) fn overlaps(&mut self, window: u32, count: impl FnOnce(&mut Row)) {
        self.totals.overlaps += 1;
        if let Some(open) = self
            .open
            .iter_mut()
            .rev()
            .find(|open| open.row.window == window)
        {
            count(&mut open.row);
        }
    }

    /// Takes a report; gives the window below which all reports have come, and the one of this report.
    pub(super) fn take_report(&mut self, now_ns: u64, report: &Report) -> (u32, u32) {
        let end = report.first_packet.checked_add(u64::from(report.packets));
        // Nobody can have sent further than what is looked at beyond the last that came.
        let far = self.seen.next().saturating_add(COVERED);
        let sound = report.packets > 0
            && report.errors <= report.packets
            && end.is_some_and(|end| end <= far);
        if report.window >= self.closed {
            if sound && report.first_packet >= self.seen.base() {
                if let Some(open) = self.row(report.window)
                    && open.report.is_none()
                {
                    open.report = Some((*report, now_ns));
                }
            } else {
                self.totals.bad_reports += 1;
            }
        }
        (self.closed, report.window)
    }

    pub(super) fn ended(&mut self, now_ns: u64, end: &End) {
        if matches!(self.totals.state, PeerState::Ready | PeerState::Joined) {
            self.totals.state = PeerState::Ended;
            self.totals.own = Some(*end);
            // Whoever waits for a report has waited long enough.
            for open in &mut self.open {
                if let Some((_, came_ns)) = &mut open.report {
                    *came_ns = (*came_ns).min(now_ns);
                }
            }
        }
    }

    pub(super) fn died(&mut self) {
        if self.totals.state != PeerState::Ended {
            self.totals.state = PeerState::Dead;
        }
    }

    /// The answer to its end, once all of it is closed.
    pub(super) fn ended_totals(&self) -> Option<End> {
        let over = self.totals.state == PeerState::Ended && self.open.is_empty();
        over.then(|| End {
            reason: self
                .totals
                .own
                .map_or(EndReason::Complete, |own| own.reason),
            windows: u32::try_from(self.totals.windows).unwrap_or(u32::MAX),
            packets: self.totals.received,
            errors: self.totals.lost.total(),
            payload_bytes: self.totals.payload_bytes,
            stream_bytes: self.gaps.next(),
        })
    }

    /// When a window may be closed next.
    pub(super) fn close_ns(&self, settle_ns: u64) -> Option<u64> {
        if matches!(self.totals.state, PeerState::Ended | PeerState::Dead) && !self.open.is_empty()
        {
            return Some(0);
        }
        let front = self.open.front()?;
        match front.report {
            Some((report, came_ns)) if report.first_packet == self.seen.base() => {
                Some(came_ns + settle_ns)
            }
            Some((_, came_ns)) => Some(came_ns + REPORT_WAIT_NS),
            None => {
                let told = self.open.iter().find_map(|open| open.report);
                told.map(|(_, came_ns)| came_ns + REPORT_WAIT_NS)
            }
        }
    }

    /// Closes the next window that can be closed; `charge` takes what the kernel's counters explain.
    pub(super) fn close_row(
        &mut self,
        now_ns: u64,
        settle_ns: u64,
        charge: impl FnOnce(&mut Lost),
    ) -> Option<Row> {
        let over = matches!(self.totals.state, PeerState::Ended | PeerState::Dead);
        // The stream's last packets: those of windows that nobody reported.
        let own_end = self.totals.own.map(|own| own.packets);
        if self.open.is_empty() {
            let end = own_end.filter(|end| over && *end > self.seen.base())?;
            self.open.push_back(OpenRow::new(self.index, self.closed));
            return self.close_unreported(end, 1, charge);
        }
        if !over && now_ns < self.close_ns(settle_ns)? {
            return None;
        }
        let base = self.seen.base();
        let front = self.open.front()?;
        match front.report {
            Some((report, _)) if report.first_packet == base => {}
            // Reports between are missing: what they would have told is known by the packets' numbers.
            _ => {
                let told = self.open.iter().position(|open| open.report.is_some());
                let rows = told.unwrap_or(self.open.len());
                let end = match told.and_then(|at| self.open.get(at)) {
                    Some(open) => open.report.map_or(base, |(report, _)| report.first_packet),
                    None => own_end.unwrap_or(0).max(self.seen.next()),
                };
                if rows == 0 {
                    self.open.push_front(OpenRow::new(self.index, self.closed));
                }
                return self.close_unreported(end.max(base), rows.max(1), charge);
            }
        }
        let mut open = self.open.pop_front()?;
        open.settle();
        let (report, _) = open.report?;
        let end = report.first_packet + u64::from(report.packets);
        self.closed = open.row.window.saturating_add(1);
        Some(self.finish(open.row, end, u64::from(report.errors), charge))
    }

    /// So many rows in front have no report: they are closed together, up to the packet `end`.
    fn close_unreported(
        &mut self,
        end: u64,
        rows: usize,
        charge: impl FnOnce(&mut Lost),
    ) -> Option<Row> {
        let mut all = self.open.pop_front()?.row;
        let first = all.window;
        self.closed = first.saturating_add(1);
        for _ in 1..rows {
            let Some(open) = self.open.pop_front() else {
                break;
            };
            let row = open.row;
            self.closed = row.window.saturating_add(1);
            if row.received > 0 {
                if all.received == 0 {
                    all = Row {
                        window: first,
                        duplicates: all.duplicates + row.duplicates,
                        ..row
                    };
                    continue;
                }
                all.received += row.received;
                all.payload_bytes += row.payload_bytes;
                all.reordered += row.reordered;
                all.travel_min_ns = all.travel_min_ns.min(row.travel_min_ns);
                all.travel_max_ns = all.travel_max_ns.max(row.travel_max_ns);
                all.travel_sum_ns = all.travel_sum_ns.saturating_add(row.travel_sum_ns);
                (all.last_came_ns, all.last_sent_ns) = (row.last_came_ns, row.last_sent_ns);
                all.overlap_front += row.overlap_front;
                all.overlap_back += row.overlap_back;
            }
            all.duplicates += row.duplicates;
        }
        self.totals.unreported += rows as u64;
        Some(self.finish(all, end, 0, charge))
    }

    fn finish(
        &mut self,
        mut row: Row,
        end: u64,
        errors: u64,
        charge: impl FnOnce(&mut Lost),
    ) -> Row {
        row.sent = end.saturating_sub(self.seen.base());
        let missing = self.seen.close(end);
        row.lost.before = missing.before;
        row.lost.inside = missing.inside;
        row.lost.tail = missing.tail;
        row.lost.whole_window = missing.whole;
        row.lost.charge(errors, |lost| &mut lost.sender_error);
        charge(&mut row.lost);
        // A hole that reaches the next window's first byte may be that window's: it is told when that one is closed.
        let next = self.open.front().map(|open| open.low_offset);
        self.gaps.close(next.unwrap_or(u64::MAX));
        let totals = &mut self.totals;
        totals.windows += 1;
        totals.sent += row.sent;
        totals.lost.add(&row.lost);
        totals.duplicates += row.duplicates;
        totals.reordered += row.reordered;
        totals.carried += row.carried;
        totals.preempted += row.preempted;
        row
    }

    /// All is closed: what is missing up to the stream's end is lost.
    pub(super) fn end_stream(&mut self) {
        let length = self.totals.own.map_or(0, |own| own.stream_bytes);
        self.gaps.end(length);
    }
}
