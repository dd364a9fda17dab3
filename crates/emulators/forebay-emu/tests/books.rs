//! The emulator's accounts in a ledger: they close, and a leak is found where it is.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use forebay_emu::account::{Accounts, PLACE};
use forebay_emu::world::{Arrival, Layer, World};
use forebay_emu::{Config, Fault, FaultRule, Group, Pick, SoftReadouts};
use forebay_ledger::{
    Balance, GroupWriter, Leak, LedgerReader, LinkSpec, Lossless, RunWriter, SchemaBuilder, Unit,
    Words,
};

/// A run with a lossy network between the emulator's accounts and a receiver's.
fn balance(leak: &str, stop_early: bool) -> Balance {
    let mut config = Config::new(6, vec![Group::new(4, 338, 50.0)], 10_000.0);
    config.limit.events = Some(3000);
    config.faults = vec![
        FaultRule::new(1, Fault::DropMessage).pick(Pick::Chance(0.2)),
        FaultRule::new(1, Fault::DuplicateMessage).pick(Pick::Chance(0.2)),
        FaultRule::new(2, Fault::Restart { from_zero: true }).during(1500..2000),
        FaultRule::new(2, Fault::ReorderMessage).pick(Pick::Chance(0.3)),
    ];
    let mut schema = SchemaBuilder::new("emulated");
    let (generator, far) = (schema.group("generator"), schema.group("receiver"));
    let accounts = Accounts::declare(&mut schema, generator, 4);
    let received: Vec<_> = (0..4)
        .map(|source| {
            let owner = format!("source{source}");
            let (id, account) =
                schema.account::<Lossless>(far, "receiver", &owner, Unit::Datagrams);
            let lost = schema.link_drop(far);
            let from = accounts.datagrams(source).unwrap();
            schema.link(
                LinkSpec::new("network", &owner)
                    .from(from)
                    .to(id)
                    .drops("lost", lost),
            );
            (account, lost)
        })
        .collect();
    let schema = schema.finish().unwrap();
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, 1, 0).unwrap();
    let mut near_writer = GroupWriter::attach(&schema, &words, generator).unwrap();
    let mut far_writer = GroupWriter::attach(&schema, &words, far).unwrap();
    let (mut near_book, mut far_book) = (near_writer.restore(), far_writer.restore());

    let readouts = SoftReadouts::new(&config)
        .unwrap()
        .with_leak(leak.parse().unwrap_or_else(|_| Leak::off()));
    let mut world = World::new(3, readouts, vec![Layer::Lose(0.1)]);
    let mut bytes_in = [0_u64; 4];
    let mut consume = |arrival: Arrival<'_>| {
        let (account, _) = &received[arrival.source];
        far_book.add_tally(account.incoming, 1, arrival.bytes.len() as u64);
        far_book.add_tally(account.outgoing, 1, arrival.bytes.len() as u64);
        bytes_in[arrival.source] += arrival.bytes.len() as u64;
    };
    if stop_early {
        (0..2000).for_each(|_| _ = world.step(&mut consume));
    } else {
        world.run(&mut consume);
    }
    let totals = world.readouts.totals();
    for (source, (_, lost)) in received.iter().enumerate() {
        let bytes = totals.by_source[source].datagrams_sent.bytes - bytes_in[source];
        far_book.add_tally(*lost, world.network(source).lost, bytes);
    }
    accounts.write(&totals, &mut near_book);
    near_writer.commit(&near_book);
    far_writer.commit(&far_book);
    LedgerReader::open(&words)
        .unwrap()
        .snapshot()
        .unwrap()
        .balance()
}

#[test]
fn accounts_and_links_close_with_every_kind_of_loss() {
    let balance = balance("", false);
    assert_eq!((balance.residual_items, balance.residual_bytes), (0, 0));
    let generator = || balance.accounts.iter().filter(|a| a.place == PLACE);
    assert_eq!(generator().count(), 8);
    for reason in ["drop_message", "restart"] {
        let lost = generator()
            .flat_map(|a| &a.dropped)
            .filter(|d| d.reason == reason);
        assert!(lost.map(|d| d.items).sum::<u64>() > 0, "{reason}");
    }
}

#[test]
fn they_close_in_the_middle_of_a_run_with_something_held() {
    let balance = balance("", true);
    assert_eq!((balance.residual_items, balance.residual_bytes), (0, 0));
    let held: i64 = balance.accounts.iter().map(|a| a.held.items).sum();
    assert!(held > 0);
}

#[test]
fn a_leak_is_found_at_this_hop_with_its_number() {
    let balance = balance(&format!("{PLACE}:17"), false);
    assert_eq!(balance.residual_items, 17);
    let open = |a: &&forebay_ledger::AccountLine| a.residual.items != 0;
    let found: Vec<_> = balance.accounts.iter().filter(open).collect();
    assert!(
        found
            .iter()
            .all(|a| a.place == PLACE && a.unit == Unit::SubEvents)
    );
}

#[test]
fn the_ledger_of_senders_alone_has_their_sub_events_as_its_headline() {
    let mut schema = SchemaBuilder::new("emulated");
    let group = schema.group("generator");
    Accounts::declare(&mut schema, group, 2).headline(&mut schema);
    let schema = schema.finish().unwrap();
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, 1, 1).unwrap();
    let snapshot = LedgerReader::open(&words).unwrap().snapshot().unwrap();
    let headline: Vec<_> = snapshot.headline().collect();
    assert_eq!(headline, [(PLACE, Unit::SubEvents)]);
}
