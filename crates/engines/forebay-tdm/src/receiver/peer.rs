//! One sender, as the receiver sees it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use forebay_wire::tdm::{Data, End, EndReason, Ready, Report};

use super::gaps::Gaps;
use super::row::{self, LossCause, OpenRow, Row};
use super::seen::{COVERED, Mark, Seen};
use super::totals::{PeerState, PeerTotals};

/// Windows of a sender that may be open at once.
const OPEN_MAX: usize = 1024;
/// A missing report is waited for so long after the next one has come, in ns; its sender tells it again meanwhile.
const REPORT_WAIT_NS: u64 = 500_000_000;

/// Nonces of earlier starts that are remembered.
const PAST_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) from: SocketAddr,
    pub(super) nonce: u64,
    pub(super) share: u16,
    pub(super) packet_bytes_max: u16,
    pub(super) heard_ns: u64,
    /// The next window that it is granted.
    pub(super) granted: u32,
    /// It is granted nothing before this time: it had no input.
    pub(super) idle_until_ns: u64,
    pub(super) gaps: Gaps,
    /// Which start of a sender in this place.
    pub(super) start: u8,
    /// From where it answered its welcome, and the start that this had.
    pub(super) answered_as: (SocketAddr, u8),
    /// The nonces of the starts before, the last ones.
    past: VecDeque<u64>,
    index: u16,
    ended_ns: u64,
    is_closed: bool,
    totals: PeerTotals,
    /// Of them, windows, packets that came, packets that were lost and bytes of the starts before.
    before: [u64; 4],
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
            idle_until_ns: 0,
            gaps: Gaps::default(),
            start: 0,
            answered_as: (from, 0),
            past: VecDeque::new(),
            index,
            ended_ns: 0,
            is_closed: false,
            before: [0; 4],
            totals: PeerTotals {
                name: hello.name.to_owned(),
                carries: hello.carries,
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
        let mut old = self.replace(from, hello, now_ns);
        old.past.push_back(old.nonce);
        if old.past.len() > PAST_MAX {
            old.past.pop_front();
        }
        self.totals = PeerTotals {
            restarts: old.totals.restarts + 1,
            carries: hello.carries,
            state: PeerState::Joined,
            own: None,
            starts_untold: old.totals.starts_untold + u32::from(!old.totals.has_told()),
            has_begun: false,
            interrupted: false,
            last_window: None,
            ..old.totals
        };
        self.before = self.summed();
        (self.gaps, self.past) = (old.gaps, old.past);
        self.gaps.restart();
    }

    /// Windows, packets that came, packets that were lost, and bytes.
    fn summed(&self) -> [u64; 4] {
        let totals = &self.totals;
        [
            totals.windows,
            totals.received,
            totals.lost.total(),
            totals.payload_bytes,
        ]
    }

    /// The place goes to another sender, before anything has come.
    pub(super) fn replace(
        &mut self,
        from: SocketAddr,
        hello: &forebay_wire::tdm::Hello<'_>,
        now_ns: u64,
    ) -> Self {
        let start = self.start.wrapping_add(1);
        let old = std::mem::replace(self, Self::new(self.index, from, hello, now_ns));
        self.start = start;
        old
    }

    /// A hello of a start that is over, which was long under way or sent again by somebody else.
    pub(super) fn is_past(&self, nonce: u64) -> bool {
        self.past.contains(&nonce)
    }

    pub(super) const fn totals(&self) -> &PeerTotals {
        &self.totals
    }

    /// It is told when it begins.
    pub(super) const fn begins(&mut self) {
        self.totals.has_begun = true;
    }

    pub(super) const fn is_alive(&self) -> bool {
        !matches!(self.totals.state, PeerState::Dead)
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.totals.state, PeerState::Ready)
    }

    pub(super) fn windows_waiting(&self) -> usize {
        self.open.len()
    }

    /// It takes part, as far as is known.
    pub(super) const fn is_present(&self) -> bool {
        matches!(self.totals.state, PeerState::Joined | PeerState::Ready)
    }

    /// It has ended or fell silent, and all its windows are closed.
    pub(super) fn is_over(&self) -> bool {
        let complete = match self.totals.state {
            PeerState::Joined | PeerState::Ready => false,
            PeerState::Ended => self.own_end() <= self.seen.base(),
            PeerState::Dead => true,
        };
        complete && self.open.is_empty()
    }

    /// The end of its packets, by its own totals.
    fn own_end(&self) -> u64 {
        self.totals.own.map_or(0, |own| own.packets)
    }

    pub(super) fn ready(&mut self, ready: &Ready) {
        if self.totals.state == PeerState::Joined {
            self.totals.state = PeerState::Ready;
            self.gaps.begin(ready.offset);
        }
        if self.is_present() {
            self.totals.ready = *ready;
        }
    }

    /// Where a window lies among the open ones, or belongs, and whether it is there.
    fn place(&self, window: u32) -> (usize, bool) {
        let at = match self.open.back() {
            // Nearly always the last one.
            Some(last) if last.row.window == window => self.open.len() - 1,
            Some(last) if last.row.window < window => self.open.len(),
            _ => self.open.partition_point(|open| open.row.window < window),
        };
        let found = self.open.get(at);
        (at, found.is_some_and(|open| open.row.window == window))
    }

    /// Packets are numbered in the order of their windows: can these be of that window, by what is known of it and of those beside it?
    fn fits(&self, (at, is_there): (usize, bool), first: u64, last: u64) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.open.get(at));
        let this = self.open.get(at).filter(|_| is_there);
        let after = self.open.get(at + usize::from(is_there));
        before.is_none_or(|open| open.span.1 < first)
            && this.is_none_or(|open| open.admits(first, last))
            && after.is_none_or(|open| last < open.span.0)
    }

    fn open_at(&mut self, (at, is_there): (usize, bool), window: u32) -> Option<&mut OpenRow> {
        if !is_there {
            self.open.insert(at, OpenRow::new(self.index, window));
        }
        self.open.get_mut(at)
    }

    pub(super) fn take_data(&mut self, came_ns: u64, data: &Data<'_>) -> Mark {
        if data.window < self.closed || data.packet < self.seen.base() {
            return Mark::Late;
        }
        let place = self.place(data.window);
        if !place.1 && self.open.len() >= OPEN_MAX {
            return Mark::Ahead;
        }
        let beyond = self.totals.own.is_some() && data.packet >= self.own_end();
        if beyond || !self.fits(place, data.packet, data.packet) {
            return Mark::Contradiction;
        }
        let mark = self.seen.mark(data.packet);
        let bytes = data.payload.len() as u64;
        match mark {
            Mark::New => {
                if let Some(open) = self.open_at(place, data.window) {
                    open.came(came_ns, data);
                }
                self.totals.received += 1;
                self.totals.payload_bytes += bytes;
                self.gaps.came(data.offset, bytes);
            }
            Mark::Again => {
                if let Some(open) = self.open.get_mut(place.0).filter(|_| place.1) {
                    open.row.duplicates += 1;
                }
            }
            Mark::Late | Mark::Ahead | Mark::Contradiction => {}
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
        let first = report.first_packet;
        let end = first.checked_add(u64::from(report.packets));
        // Nobody can have sent further than what is looked at beyond the last that came.
        let far = self.seen.next().saturating_add(COVERED);
        let end = end.filter(|end| *end <= far && first >= self.seen.base());
        if report.window < self.closed || report.packets == 0 {
            return (self.closed, report.window);
        }
        let place = self.place(report.window);
        let told = self.open.get(place.0).filter(|_| place.1);
        if let Some((told, _)) = told.and_then(|open| open.report) {
            // It was told again, or contradicts itself.
            self.totals.bad_reports += u64::from(told != *report);
            return (self.closed, report.window);
        }
        let end = end.filter(|end| {
            let whole = (self.open.get(place.0).filter(|_| place.1)).is_none_or(|open| {
                open.row.received == 0 || first <= open.span.0 && open.span.1 < *end
            });
            whole && report.errors <= report.packets && self.fits(place, first, *end - 1)
        });
        let has_room = place.1 || self.open.len() < OPEN_MAX;
        match end {
            Some(end) if has_room => {
                if let Some(open) = self.open_at(place, report.window) {
                    open.report = Some((*report, now_ns));
                    open.covers(first, end - 1);
                }
            }
            _ => self.totals.bad_reports += 1,
        }
        (self.closed, report.window)
    }

    /// It has told its totals; `asked`: it was asked for them from here.
    pub(super) fn ended(&mut self, now_ns: u64, end: &End, asked: bool) {
        let far = self.seen.next().saturating_add(COVERED);
        if self.is_present() && end.packets >= self.seen.next() && end.packets <= far {
            self.totals.state = PeerState::Ended;
            self.totals.own = Some(*end);
            self.totals.interrupted = end.reason == EndReason::Interrupted && !asked;
            self.ended_ns = now_ns;
        }
    }

    pub(super) fn died(&mut self) {
        if self.totals.state != PeerState::Ended {
            self.totals.state = PeerState::Dead;
        }
    }

    /// The answer to its end, once all of it is closed.
    pub(super) fn ended_totals(&self) -> Option<End> {
        let own = self
            .totals
            .own
            .filter(|_| self.totals.state == PeerState::Ended && self.is_over())?;
        // Of this start alone: its sender knows of no other.
        let [windows, packets, errors, payload_bytes] = {
            let (all, before) = (self.summed(), self.before);
            std::array::from_fn(|at| all.get(at).unwrap_or(&0) - before.get(at).unwrap_or(&0))
        };
        Some(End {
            reason: own.reason,
            windows: u32::try_from(windows).unwrap_or(u32::MAX),
            packets,
            errors,
            payload_bytes,
            stream_bytes: self.gaps.next(),
            heaps: 0,
        })
    }

    /// When a window may be closed next.
    pub(super) fn close_ns(&self, settle_ns: u64) -> Option<u64> {
        if self.totals.state == PeerState::Dead && !self.open.is_empty() {
            return Some(0);
        }
        // Reports that have not come so long after the end will not come.
        let ended = (self.totals.state == PeerState::Ended && !self.is_over())
            .then(|| self.ended_ns.saturating_add(REPORT_WAIT_NS));
        let front = match self.open.front() {
            Some(front) => front,
            None => return ended,
        };
        let told = match front.report {
            Some((report, came_ns)) if report.first_packet <= self.seen.base() => {
                return Some(came_ns.saturating_add(settle_ns));
            }
            Some((_, came_ns)) => Some(came_ns),
            None => (self.open.iter().find_map(|open| open.report)).map(|(_, came_ns)| came_ns),
        };
        let waited = told.map(|came_ns| came_ns.saturating_add(REPORT_WAIT_NS));
        if told.is_none() && self.open.len() > OPEN_MAX / 2 {
            return Some(0);
        }
        waited.into_iter().chain(ended).min()
    }

    /// Closes the next window that can be closed; `charge` takes what the kernel's counters explain.
    pub(super) fn close_row(
        &mut self,
        now_ns: u64,
        settle_ns: u64,
        charge: impl FnOnce(&mut Row),
    ) -> Option<Row> {
        if now_ns < self.close_ns(settle_ns)? {
            return None;
        }
        let base = self.seen.base();
        let Some(front) = self.open.front() else {
            // The stream's last packets: those of windows that nobody reported.
            self.open.push_back(OpenRow::new(self.index, self.closed));
            return self.close_unreported(self.own_end(), 1, charge);
        };
        if front
            .report
            .is_none_or(|(report, _)| report.first_packet > base)
        {
            // Reports between are missing: what they would have told is known by the packets' numbers.
            let told = self.open.iter().position(|open| open.report.is_some());
            // No report at all comes from one that is still there: window by window then, and not all of them.
            let next = (self.is_present() && told.is_none()).then_some(1);
            let rows = told.or(next).unwrap_or(self.open.len());
            let end = match self.open.get(rows) {
                Some(open) => (open.report).map_or(open.span.0, |(report, _)| report.first_packet),
                None => self.own_end().max(self.seen.next()),
            };
            if rows == 0 {
                self.open.push_front(OpenRow::new(self.index, self.closed));
            }
            return self.close_unreported(end.max(base), rows.max(1), charge);
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
        charge: impl FnOnce(&mut Row),
    ) -> Option<Row> {
        let mut all = self.open.pop_front()?.row;
        let first = all.window;
        self.closed = first.saturating_add(1);
        for _ in 1..rows {
            let Some(OpenRow { row, .. }) = self.open.pop_front() else {
                break;
            };
            all.window_last = row.window_last;
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
        charge: impl FnOnce(&mut Row),
    ) -> Row {
        row.sent = end.saturating_sub(self.seen.base());
        let missing = self.seen.close(end);
        row.lost[LossCause::Before] = missing.before;
        row.lost[LossCause::Inside] = missing.inside;
        row.lost[LossCause::Tail] = missing.tail;
        row.lost[LossCause::WholeWindow] = missing.whole;
        row::charge(&mut row.lost, errors, LossCause::SenderError);
        charge(&mut row);
        // A hole that reaches the next window's first byte may be that window's: it is told when that one is closed. Of a window of which nothing has
        // come yet nobody knows where it begins.
        let next = self.open.front().map(|open| open.low_offset);
        match next {
            Some(u64::MAX) => {}
            next => self.gaps.close(next.unwrap_or(u64::MAX)),
        }
        let totals = &mut self.totals;
        totals.windows += 1;
        totals.sent += row.sent;
        totals.lost.add(&row.lost);
        totals.duplicates += row.duplicates;
        totals.reordered += row.reordered;
        totals.carried += row.carried;
        totals.preempted += row.preempted;
        totals.overlaps += row.overlap_front + row.overlap_back;
        totals.last_window = self.closed.checked_sub(1);
        row
    }

    /// All is closed: what is missing up to the stream's end is lost. True the first time.
    pub(super) fn end_stream(&mut self) -> bool {
        let length = self.totals.own.map_or(0, |own| own.stream_bytes);
        self.gaps.end(length);
        !std::mem::replace(&mut self.is_closed, true)
    }
}
