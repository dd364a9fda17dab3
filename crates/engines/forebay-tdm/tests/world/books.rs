//! What must be so at the end of every session, whatever has happened.

use forebay_tdm::receiver::{PeerState, Phase, Row};

use super::{Site, World};

impl World {
    pub(super) fn take_rows(&mut self) {
        let Some(site) = &mut self.site else { return };
        let mut waiting = 0;
        while let Some(row) = site.receiver.poll_row() {
            waiting += 1;
            assert_eq!(row.residual(), 0, "{row:?}");
            let ends = (row.sender, 0)..=(row.sender, row.window_last);
            let came: u64 = site.open.extract_if(ends, |_, _| true).map(|it| it.1).sum();
            assert_eq!(came, row.received, "{row:?}");
            let sum = site.sums.entry(row.sender).or_default();
            add(sum, &row);
            if site.keeps_rows {
                site.rows.push(row);
            }
        }
        site.rows_waiting = site.rows_waiting.max(waiting);
        while let Some(lost) = site.receiver.poll_lost() {
            assert!(lost.bytes > 0, "{lost:?}");
            site.lost.push(lost);
        }
    }

    /// The books of the receiver, which is over, and of port and network.
    pub(crate) fn check_books(&mut self) {
        self.take_rows();
        let site = self.site.as_ref().unwrap();
        check_site(site);
        self.port.handle_time(self.now_ps);
        assert_eq!(self.port.counts().residual(), (0, 0));
        for host in &mut self.hosts {
            host.nic.handle_time(self.now_ps);
            assert_eq!(host.nic.counts().residual(), (0, 0));
        }
    }

    /// The streams of senders that went through one session from beginning to end: what came and what is told as lost is the whole, and
    /// both sides agree about it.
    pub(crate) fn check_streams(&mut self) {
        self.check_books();
        let site = self.site.as_ref().unwrap();
        for (index, peer) in site.receiver.peers().enumerate() {
            let host = self.hosts.iter().find(|host| host.name == peer.name);
            let host = host.unwrap();
            let sender = host.sender.as_ref().unwrap();
            assert_eq!(peer.state, PeerState::Ended, "{peer:?}");
            let own = peer.own.unwrap();
            let key = (index as u16, peer.restarts);
            let mut all = site.streams.get(&key).cloned().unwrap_or_default();
            assert_eq!(all.bytes(), peer.payload_bytes);
            for lost in site.lost.iter().filter(|lost| lost.sender == key.0) {
                let told_once = all.add(lost.offset, lost.offset + lost.bytes);
                assert!(told_once, "{lost:?}");
            }
            let whole = if own.stream_bytes == 0 {
                Vec::new()
            } else {
                vec![(0, own.stream_bytes)]
            };
            assert_eq!(all.list(), whole, "{}", peer.name);
            assert_eq!(
                (own.packets, own.stream_bytes),
                (sender.sent().packets, sender.offset())
            );
            assert_eq!((peer.sent, host.data_sent), (own.packets, own.packets));
            assert_eq!(peer.lost.total(), host.data_dropped, "{peer:?}");
            if let Some(received) = sender.received() {
                assert_eq!(received.packets, peer.received);
                assert_eq!(received.errors, peer.lost.total());
                assert_eq!(received.payload_bytes, peer.payload_bytes);
            }
        }
    }

    /// Packets that were lost, and packets that were sent.
    pub(crate) fn lost(&self) -> (u64, u64) {
        let peers = self.receiver().peers();
        peers.fold((0, 0), |(lost, sent), peer| {
            (lost + peer.lost.total(), sent + peer.sent)
        })
    }

    /// Part of the port's time from the first window's start to the last packet that data took.
    pub(crate) fn utilisation(&self) -> f64 {
        let site = self.site.as_ref().unwrap();
        let start_ps = site.clock.truth(site.receiver.start_ns()) * 1_000;
        let rate = self.setup.port.link_rate_bps as f64;
        site.wire_bytes as f64 * 8e12 / rate / (site.last_ps - start_ps) as f64
    }

    /// 99 of 100 errors of clocks at the starts of windows are no more, in ns; each was checked against its bound.
    pub(crate) fn clock_error_ns_p99(&self) -> u64 {
        let mut errors = Vec::new();
        for host in &self.hosts {
            for (error_ns, bound_ns) in &host.errors {
                assert!(
                    error_ns <= bound_ns,
                    "{}: {error_ns} of {bound_ns}",
                    host.name
                );
                errors.push(*error_ns);
            }
        }
        errors.sort_unstable();
        errors[(errors.len() - 1) * 99 / 100]
    }
}

fn check_site(site: &Site) {
    let receiver = &site.receiver;
    assert!(
        matches!(receiver.phase(), Phase::Over(_) | Phase::Failed(_)),
        "{:?}",
        receiver.phase()
    );
    let counts = receiver.counts();
    assert_eq!(counts.residual(), 0, "{counts:?}");
    assert_eq!(counts.data, site.data);
    let (mut packets, mut bytes) = (0, 0);
    for (index, peer) in receiver.peers().enumerate() {
        assert_eq!(peer.residual(), 0, "{peer:?}");
        let sum = site.sums.get(&(index as u16)).copied().unwrap_or_default();
        let of_rows = (sum.sent, sum.received, sum.payload_bytes, sum.lost);
        assert_eq!(
            of_rows,
            (peer.sent, peer.received, peer.payload_bytes, peer.lost),
            "{}",
            peer.name
        );
        let of_rows = (sum.duplicates, sum.reordered, sum.carried, sum.preempted);
        assert_eq!(
            of_rows,
            (
                peer.duplicates,
                peer.reordered,
                peer.carried,
                peer.preempted
            )
        );
        assert_eq!(sum.overlap_front + sum.overlap_back, peer.overlaps);
        packets += peer.received;
        bytes += peer.payload_bytes;
    }
    assert_eq!((packets, bytes), (site.data, site.data_bytes));
    assert!(site.open.is_empty(), "{:?}", site.open);
    let of_peers: u64 = site.streams.values().map(super::Ranges::bytes).sum();
    assert_eq!(of_peers, site.data_bytes);
}

fn add(sum: &mut Row, row: &Row) {
    sum.sent += row.sent;
    sum.received += row.received;
    sum.payload_bytes += row.payload_bytes;
    sum.lost.add(&row.lost);
    sum.duplicates += row.duplicates;
    sum.reordered += row.reordered;
    sum.carried += row.carried;
    sum.preempted += row.preempted;
    sum.overlap_front += row.overlap_front;
    sum.overlap_back += row.overlap_back;
}
