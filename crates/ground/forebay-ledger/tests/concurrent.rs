//! A writer that commits balanced books as fast as it can, and a reader that must never see a residual.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use forebay_ledger::{
    GroupWriter, LedgerError, LedgerReader, RunWriter, SchemaBuilder, Unit, Words, reasons,
};

const COMMITS: u64 = 300_000;

/// How often the calling thread has slept in the kernel, for whatever it waited for.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

reasons! {
    /// Why a stage drops items.
    enum Drop {
        Late = "late",
        Broken = "broken",
    }
}

#[test]
fn a_reader_never_sees_half_a_commit() {
    let mut s = SchemaBuilder::new("r");
    let g = s.group("stage");
    let accounts: Vec<_> = (0..8)
        .map(|n| {
            s.account::<Drop>(g, "stage", &format!("source{n}"), Unit::SubEvents)
                .1
        })
        .collect();
    let schema = s.finish().unwrap();
    let memory = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &memory, 1, 2).unwrap();
    let reader = LedgerReader::open(&memory).unwrap();
    let mut writer = GroupWriter::attach(&schema, &memory, g).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut book = writer.restore();
            let slept = sleeps();
            for n in 0..COMMITS {
                for (index, account) in accounts.iter().enumerate() {
                    let bytes = n % 1_000 + index as u64;
                    book.add_tally(account.incoming, 1, bytes);
                    let terms = [
                        account.outgoing,
                        account.held,
                        account.lost(Drop::Late),
                        account.lost(Drop::Broken),
                    ];
                    book.add_tally(terms[(n % 4) as usize], 1, bytes);
                }
                writer.commit(&book);
            }
            let slept = sleeps() - slept;
            over.store(true, Ordering::Release);
            // Pages that are touched for the first time may cost some on a busy host, and no reader one.
            assert!(slept <= COMMITS / 1_000, "the writer waited {slept} times");
            assert_eq!(writer.commits(), COMMITS);
        });
        let (mut seen, mut last) = (0u64, 0);
        loop {
            let ended = over.load(Ordering::Acquire);
            match reader.snapshot() {
                Ok(snapshot) => {
                    let balance = snapshot.balance();
                    assert_eq!(
                        (balance.residual_items, balance.residual_bytes),
                        (0, 0),
                        "{balance:?}"
                    );
                    let items = balance.accounts[0].incoming.items;
                    assert!(
                        balance
                            .accounts
                            .iter()
                            .all(|line| line.incoming.items == items)
                    );
                    assert!(items >= last, "time went back from {last} to {items}");
                    (seen, last) = (seen + 1, items);
                }
                Err(LedgerError::Busy { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            if ended {
                break;
            }
        }
        assert_eq!(last, COMMITS);
        assert!(seen > 1, "the reader never got through");
    });
}
