//! What each workload answers, by numbers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use forebay_run_mux_client::workload::{Ends, Kind, WAITING_MAX, Workload};
use forebay_run_mux_client::{Amount, WorkDrop};
use proptest::prelude::*;

fn ends(host: u8) -> Ends {
    Ends {
        remote: SocketAddr::from(([10, 0, 0, host], 40_000)),
        local: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    }
}

/// Takes all that is due.
fn all(workload: &mut Workload) -> Vec<(u8, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some((to, payload)) = workload.next_due() {
        let IpAddr::V4(host) = to.remote.ip() else {
            panic!("{to:?}");
        };
        sent.push((host.octets()[3], payload.to_vec()));
        workload.advance();
    }
    sent
}

fn amount(packets: u64, bytes: u64) -> Amount {
    Amount { packets, bytes }
}

#[test]
fn an_echo_answers_each_datagram_in_order_to_its_sender() {
    let mut workload = Workload::new(Kind::Echo);
    workload.handle_datagram(ends(2), b"one");
    workload.handle_datagram(ends(3), b"");
    workload.handle_datagram(ends(2), b"three");
    assert_eq!(workload.held(), amount(3, 8));
    let sent = all(&mut workload);
    let right: [(u8, &[u8]); 3] = [(2, b"one"), (3, b""), (2, b"three")];
    assert_eq!(sent, right.map(|(to, bytes)| (to, bytes.to_vec())));
    let counts = workload.counts();
    assert_eq!((counts.came, counts.answered), (amount(3, 8), amount(3, 8)));
    assert_eq!(workload.due(), amount(3, 8));
    assert_eq!(workload.held(), Amount::default());
    assert!(!workload.is_over());
}

#[test]
fn of_what_mostly_receives_every_ten_thousandth_is_answered() {
    let mut workload = Workload::new(Kind::RxMostly);
    let mut sent = Vec::new();
    for number in 1..=25_000u32 {
        workload.handle_datagram(ends(2), &number.to_be_bytes());
        sent.extend(all(&mut workload));
    }
    let right = [10_000u32, 20_000].map(|number| (2, number.to_be_bytes().to_vec()));
    assert_eq!(sent, right);
    let counts = workload.counts();
    assert_eq!(counts.came, amount(25_000, 100_000));
    assert_eq!(counts.answered, amount(2, 8));
    assert_eq!(counts.dropped[WorkDrop::ByDesign], amount(24_998, 99_992));
}

#[test]
fn what_mostly_sends_sends_ten_thousand_for_each() {
    let mut workload = Workload::new(Kind::TxMostly);
    workload.handle_datagram(ends(2), b"abc");
    workload.handle_datagram(ends(3), b"de");
    assert_eq!(workload.held(), amount(20_000, 50_000));
    let sent = all(&mut workload);
    assert_eq!(sent.len(), 20_000);
    assert!(sent[..10_000].iter().all(|it| *it == (2, b"abc".to_vec())));
    assert!(sent[10_000..].iter().all(|it| *it == (3, b"de".to_vec())));
    assert_eq!(workload.due(), amount(20_000, 50_000));
    assert_eq!(workload.counts().answered, amount(2, 5));
}

#[test]
fn what_sends_when_asked_sends_so_many_and_is_done() {
    let mut workload = Workload::new(Kind::TxInitiated { packets: 123 });
    assert!(!workload.is_over(), "nobody has asked");
    workload.handle_datagram(ends(2), b"go");
    workload.handle_datagram(ends(3), b"and me");
    assert!(!workload.is_over());
    assert_eq!(all(&mut workload), vec![(2, b"go".to_vec()); 123]);
    assert!(workload.is_over());
    let counts = workload.counts();
    assert_eq!(counts.dropped[WorkDrop::ByDesign], amount(1, 6));
    assert_eq!(counts.answered, amount(1, 2));
}

#[test]
fn heavy_work_adds_up_the_bytes_as_often_as_is_said() {
    for rounds in [1, 10, 100] {
        let mut workload = Workload::new(Kind::Heavy { rounds });
        workload.handle_datagram(ends(2), &[1, 2, 250]);
        workload.handle_datagram(ends(2), &[255; 4]);
        assert_eq!(workload.byte_sum(), u64::from(rounds) * (253 + 4 * 255));
        let right = [vec![1, 2, 250], vec![255; 4]].map(|bytes| (2, bytes));
        assert_eq!(all(&mut workload), right);
    }
}

#[test]
fn what_finds_no_room_is_counted_and_what_is_forgotten_told() {
    let mut workload = Workload::new(Kind::Echo);
    for number in 0..WAITING_MAX + 3 {
        workload.handle_datagram(ends(u8::from(number % 4 == 1)), b"1234");
    }
    let counts = workload.counts();
    assert_eq!(counts.dropped[WorkDrop::NoRoom], amount(3, 12));
    let quarter = WAITING_MAX as u64 / 4;
    assert_eq!(
        workload.forget(Some(ends(1).remote.ip())),
        amount(quarter, quarter * 4)
    );
    workload.advance();
    let others = 3 * quarter - 1;
    assert_eq!(workload.forget(None), amount(others, others * 4));
    assert_eq!(workload.next_due(), None);
    workload.advance();
    assert_eq!(workload.held(), Amount::default());
}

proptest! {
    #[test]
    fn both_accounts_close_whatever_is_done(
        which in 0..5usize,
        steps in proptest::collection::vec((0..4u8, 0..60usize), 0..200),
    ) {
        let kinds = [
            Kind::Echo, Kind::RxMostly, Kind::TxMostly,
            Kind::TxInitiated { packets: 7 }, Kind::Heavy { rounds: 2 },
        ];
        let mut workload = Workload::new(kinds[which]);
        let (mut taken, mut forgotten) = (Amount::default(), Amount::default());
        for (step, bytes) in steps {
            match step {
                0 | 1 => workload.handle_datagram(ends(step), &vec![step; bytes]),
                2 => {
                    for _ in 0..bytes {
                        let due = workload.next_due().map(|(_, payload)| payload.len());
                        due.into_iter().for_each(|bytes| taken.add(1, bytes));
                        workload.advance();
                    }
                }
                _ => {
                    let to = (bytes > 0).then(|| ends(1).remote.ip());
                    let lost = workload.forget(to);
                    forgotten.packets += lost.packets;
                    forgotten.bytes += lost.bytes;
                }
            }
            let (counts, held, due) = (workload.counts(), workload.held(), workload.due());
            let lost: u64 = counts.dropped.iter().map(|(_, lost)| lost.packets).sum();
            prop_assert_eq!(counts.came.packets, counts.answered.packets + lost);
            prop_assert_eq!(due.packets, taken.packets + forgotten.packets + held.packets);
            prop_assert_eq!(due.bytes, taken.bytes + forgotten.bytes + held.bytes);
        }
    }
}

#[test]
fn workloads_have_the_names_that_people_write() {
    let names = [
        (Kind::Echo, "echo"),
        (Kind::RxMostly, "rx-mostly"),
        (Kind::TxMostly, "tx-mostly"),
        (Kind::TxInitiated { packets: 1 }, "tx-initiated"),
        (Kind::Heavy { rounds: 1 }, "heavy"),
    ];
    for (kind, name) in names {
        assert_eq!(kind.name(), name);
    }
}

#[test]
fn what_vanishes_of_a_burst_was_due_and_is_not_held() {
    let mut workload = Workload::new(Kind::TxMostly).leaking("client_send:3".parse().unwrap());
    workload.handle_datagram(ends(2), b"four");
    assert_eq!(workload.due(), amount(10_000, 40_000));
    assert_eq!(workload.held(), amount(9_997, 39_988));
    assert_eq!(all(&mut workload).len(), 9_997);
}
