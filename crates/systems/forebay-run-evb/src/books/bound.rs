//! How many datagrams can be between a sender's books and the receiver's while nobody counts them: the formula of SPECIFICATION.md, B24.

use forebay_ledger::LinkSpec;
use forebay_sys::gso::MERGED_DATAGRAMS_MAX;

use crate::plan::Plan;
use crate::receiver::KERNEL_LOOK;
use forebay_run_hades::UNBOOKED_DATAGRAMS;

/// Least kernel memory that a datagram in a socket's queue is charged: the head and the shared part of its buffer (`SKB_TRUESIZE` of Linux on 64 bits, with
/// caches of 64 bytes), whatever is in it.
const DATAGRAM_KERNEL_BYTES: u64 = 576;
/// The kernel doubles what is asked for as a socket's buffer (socket(7), `SO_RCVBUF`).
const SOCKET_BUFFER_FACTOR: u64 = 2;
/// Most that a socket can drop between two looks at its counter: a million datagrams per second for 50 ms.
const UNREAD_DROPS_MAX: u64 = 50_000;

/// The link of a socket that `sources` sources send to, with its bounds.
pub(super) fn of_socket(link: LinkSpec, plan: &Plan, sources: usize) -> LinkSpec {
    link.bound_items(unseen_datagrams(plan, sources))
        .unbooked_items(UNBOOKED_DATAGRAMS * sources as u64)
}

/// Most datagrams that can be behind a sender's books and before the receiver's, without a count: what the socket's queue holds (the kernel takes one as long
/// as it is not over its limit), what was taken in hand and is not committed, and what was dropped since the last look at the drop counter, at twice the rate
/// of the emulated senders and the most that they send between two commits.
fn unseen_datagrams(plan: &Plan, sources: usize) -> u64 {
    let receiver = &plan.receiver;
    let buffer_bytes = SOCKET_BUFFER_FACTOR * plan.socket_buffer_bytes() as u64;
    let queued = buffer_bytes / DATAGRAM_KERNEL_BYTES + 1;
    let merged = if receiver.gro {
        MERGED_DATAGRAMS_MAX
    } else {
        1
    };
    let in_hand = receiver.batch_datagrams as u64 * merged;
    let dropped = plan
        .generator
        .as_ref()
        .map_or(UNREAD_DROPS_MAX, |generator| {
            let in_looks = 2.0 * generator.datagrams_hz_max() * KERNEL_LOOK.as_secs_f64();
            (in_looks.ceil() as u64 + UNBOOKED_DATAGRAMS)
                .saturating_mul(sources as u64)
                .min(UNREAD_DROPS_MAX)
        });
    queued * merged + in_hand + dropped
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forebay_ledger::{
        Condition, GroupWriter, LedgerReader, Reason, RunWriter, Supervisor, Words, audit,
    };
    use forebay_sys::gso::MERGED_DATAGRAMS_MAX;

    use crate::books::Books;
    use crate::plan::Plan;
    use crate::presets;
    use forebay_run_hades::{GeneratorPlan, UNBOOKED_DATAGRAMS};

    /// One emulated source of 1,000 sub-events in a second, and a socket with room for 1,000 datagrams and one more.
    fn plan() -> Plan {
        let local = std::net::Ipv4Addr::LOCALHOST.into();
        let mut plan = presets::plan("test", Path::new("."), local, 50_000, 1);
        let mut generator = GeneratorPlan::test2(plan.ports[0], 1_000.0);
        generator.groups = vec![(1, 116, 0.0)];
        plan.generator = Some(generator);
        plan.receiver.socket_buffer_bytes = Some(576 * 500);
        plan.receiver.gro = false;
        plan.receiver.batch_datagrams = 64;
        plan.sinks = vec![presets::null_sink()];
        plan
    }

    /// Whether the audit of a dead run takes it that `sent` datagrams of 10 bytes went out and `received` came in.
    fn is_explained(plan: &Plan, sent: u64, received: u64) -> bool {
        let books = Books::declare(plan).unwrap();
        let words = Words::zeroed(books.schema.words_needed());
        let run = RunWriter::format(&books.schema, &words, 1, 0).unwrap();
        run.set_condition(Condition::Running, Reason::None);
        let generator = books.generator.as_ref().unwrap();
        let mut writer = GroupWriter::attach(&books.schema, &words, generator.group).unwrap();
        let mut book = writer.restore();
        let mut source = forebay_emu::SourceTotals::default();
        source.datagrams_sent.items = sent;
        source.datagrams_sent.bytes = 10 * sent;
        let totals = forebay_emu::Totals {
            events: 0,
            all: source,
            by_source: vec![source],
        };
        generator.accounts.write(&totals, &mut book);
        writer.commit(&book);
        let mut writer = GroupWriter::attach(&books.schema, &words, books.ports[0].group).unwrap();
        let mut book = writer.restore();
        let receiver = &books.ports[0].sources[0].receiver;
        for term in [receiver.incoming, receiver.held] {
            book.add_tally(term, received, 10 * received);
        }
        writer.commit(&book);
        let snapshot = LedgerReader::open(&words).unwrap().snapshot().unwrap();
        let verdict = audit(&snapshot, Supervisor::Gone);
        let mut offenders = verdict.offenders.iter();
        offenders.all(|offender| offender.place != "socket")
    }

    #[test]
    fn a_dead_run_explains_no_more_than_socket_hand_and_counter_can_hold() {
        let plan = plan();
        // The queue; a batch; two looks of 50 ms at 1,000 in a second, and what goes out between two commits of the sender.
        let bound = 1_001 + 64 + 100 + UNBOOKED_DATAGRAMS;
        assert_eq!(UNBOOKED_DATAGRAMS, 4_160);
        assert!(is_explained(&plan, 9_000, 9_000));
        assert!(is_explained(&plan, 9_000 + bound, 9_000));
        assert!(!is_explained(&plan, 9_001 + bound, 9_000));
        assert!(is_explained(&plan, 9_000, 9_000 + UNBOOKED_DATAGRAMS));
        assert!(!is_explained(&plan, 9_000, 9_001 + UNBOOKED_DATAGRAMS));
    }

    /// A buffer of merged datagrams is one to the socket's queue and to a batch.
    #[test]
    fn merged_datagrams_count_as_many() {
        let mut plan = plan();
        plan.receiver.gro = true;
        let bound = (1_001 + 64) * MERGED_DATAGRAMS_MAX + 100 + UNBOOKED_DATAGRAMS;
        assert!(is_explained(&plan, 9_000 + bound, 9_000));
        assert!(!is_explained(&plan, 9_001 + bound, 9_000));
    }

    /// A port of two sources: each has a sender that may be ahead of its books.
    #[test]
    fn each_sender_of_a_port_may_have_sent_what_it_has_not_booked() {
        let mut plan = plan();
        plan.sources.push(plan.sources[0].clone());
        plan.sources[1].name = "source1".to_owned();
        let unbooked = 2 * UNBOOKED_DATAGRAMS;
        assert!(is_explained(&plan, 9_000, 9_000 + unbooked));
        assert!(!is_explained(&plan, 9_000, 9_001 + unbooked));
    }

    #[test]
    fn the_bound_of_unread_drops_has_a_limit_itself() {
        let mut plan = plan();
        if let Some(generator) = &mut plan.generator {
            generator.rate_hz = 1e9;
        }
        let bound = 1_001 + 64 + 50_000;
        assert!(is_explained(&plan, 9_000 + bound, 9_000));
        assert!(!is_explained(&plan, 9_001 + bound, 9_000));
    }
}
