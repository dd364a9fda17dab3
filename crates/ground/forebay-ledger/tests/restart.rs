//! Random work with deaths between commits: what was committed, and only that, is there afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use forebay_ledger::{
    GroupWriter, LedgerReader, LinkSpec, RunWriter, SchemaBuilder, Unit, Words, reasons,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Comes in and goes to one of the terms: 0 out, 1 held, 2 and 3 dropped, 4 nowhere (a fault).
    Item {
        term: u8,
        bytes: u16,
    },
    Commit,
    Die,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u8..5, any::<u16>()).prop_map(|(term, bytes)| Step::Item { term, bytes }),
        2 => Just(Step::Commit),
        1 => Just(Step::Die),
    ]
}

/// What the model knows: per term items and bytes; index 5 is what came in.
type Model = [(u64, u64); 6];

reasons! {
    /// Why a stage drops items.
    enum Drop {
        Late = "late",
        Broken = "broken",
    }
}

proptest! {
    #[test]
    fn readers_and_successors_see_the_last_commit(steps in prop::collection::vec(step(), 0..200)) {
        let mut s = SchemaBuilder::new("r");
        let g = s.group("stage");
        let (id, account) = s.account::<Drop>(g, "stage", "source1", Unit::SubEvents);
        s.link(LinkSpec::new("ring", "source1").to(id));
        let schema = s.finish().unwrap();
        let memory = Words::zeroed(schema.words_needed());
        RunWriter::format(&schema, &memory, 1, 2).unwrap();
        let reader = LedgerReader::open(&memory).unwrap();
        let mut writer = GroupWriter::attach(&schema, &memory, g).unwrap();
        let mut book = writer.restore();
        let (mut now, mut committed): (Model, Model) = Default::default();
        for step in steps {
            match step {
                Step::Item { term, bytes } => {
                    let bytes = u64::from(bytes);
                    let terms = [account.outgoing, account.held, account.lost(Drop::Late), account.lost(Drop::Broken)];
                    book.add_tally(account.incoming, 1, bytes);
                    if let Some(&tally) = terms.get(usize::from(term)) {
                        book.add_tally(tally, 1, bytes);
                    }
                    for index in [usize::from(term), 5] {
                        now[index].0 += 1;
                        now[index].1 += bytes;
                    }
                }
                Step::Commit => {
                    writer.commit(&book);
                    committed = now;
                }
                Step::Die => {
                    writer = GroupWriter::attach(&schema, &memory, g).unwrap();
                    book = writer.restore();
                    now = committed;
                }
            }
            let line = reader.snapshot().unwrap().balance().accounts.remove(0);
            prop_assert_eq!((line.incoming.items, line.incoming.bytes), committed[5]);
            prop_assert_eq!((line.outgoing.items, line.outgoing.bytes), committed[0]);
            prop_assert_eq!((line.held.items as u64, line.held.bytes as u64), committed[1]);
            prop_assert_eq!(line.residual.items, i128::from(committed[4].0));
            prop_assert_eq!(line.residual.bytes, i128::from(committed[4].1));
        }
    }
}
