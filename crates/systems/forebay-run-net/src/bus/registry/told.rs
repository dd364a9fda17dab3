//! What a registry answers to each line, held against a list of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::TcpStream;

use forebay_msg::Entry;
use proptest::prelude::*;

use super::hostile::{connect, line, registry, until};
use super::large::ask;
use super::*;

#[derive(Clone, Debug)]
enum Said {
    /// An offer with so many patterns, by a number.
    Announce(usize, u8),
    Find,
    /// Behind the client that has this place, or this number.
    FindAfter(Result<usize, u64>),
    Wrong(Vec<u8>),
}

fn offer(tags: usize, number: u8) -> Offer {
    let address = "tcp://127.0.0.1:7100".parse().unwrap();
    let entries: Vec<Entry> = (0..tags as u64)
        .map(|at| Entry::one(u64::MAX - at))
        .collect();
    Offer::new(&format!("p{number}"), &address, &entries)
}

fn wrong() -> impl Strategy<Value = Vec<u8>> {
    let announced = |change: fn(&mut Offer)| {
        let mut wrong = offer(1, 0);
        change(&mut wrong);
        line(&Request::Announce(wrong))
    };
    let mut lines = vec![
        announced(|offer| offer.name = "../x".into()),
        announced(|offer| offer.name = String::new()),
        announced(|offer| offer.address = "ftp://x".into()),
        b"GET / HTTP/1.1\n".to_vec(),
        b"\n".to_vec(),
        b"\"keep\"\n".to_vec(),
        br#"{"find_after":-1}"#.to_vec(),
    ];
    lines[6].push(b'\n');
    // Cut, and with a byte too many.
    let cut = (1..60_usize).prop_map(|cut| {
        let mut all = line(&Request::Announce(offer(1, 0)));
        all.truncate(cut);
        all.push(b'\n');
        all
    });
    prop_oneof![3 => prop::sample::select(lines), 1 => cut]
}

fn said() -> impl Strategy<Value = Said> {
    let tags = prop_oneof![3 => 0..3_usize, 2 => 500..900_usize];
    prop_oneof![
        6 => (tags, any::<u8>()).prop_map(|(tags, number)| Said::Announce(tags, number)),
        4 => Just(Said::Find),
        3 => (0..4_usize).prop_map(|of| Said::FindAfter(Ok(of))),
        1 => any::<u64>().prop_map(|last| Said::FindAfter(Err(last))),
        1 => wrong().prop_map(Said::Wrong),
    ]
}

/// A client, its number at the registry, and what it offers.
struct Known {
    stream: TcpStream,
    token: u64,
    offer: Option<Offer>,
}

impl Known {
    fn new(registry: &mut Registry, at: &(String, u16)) -> Self {
        let come = registry.summary.connections + 1;
        let stream = connect(at);
        until(registry, |registry| registry.summary.connections == come);
        let token = registry.next_token - 1;
        Self {
            stream,
            token,
            offer: None,
        }
    }
}

/// Offers of those behind a number, in the order of their numbers.
fn behind(clients: &[Known], after: Option<u64>) -> Vec<(u64, Offer)> {
    let offered = clients
        .iter()
        .filter_map(|client| Some((client.token, client.offer.clone()?)));
    let mut offered: Vec<_> = offered
        .filter(|(token, _)| after.is_none_or(|after| *token > after))
        .collect();
    offered.sort_by_key(|(token, _)| *token);
    offered
}

/// Whether it is the first page of these offers, or all of them.
fn is_right(answer: &Answer, right: &[(u64, Offer)]) -> bool {
    let (offers, is_all) = match answer {
        Answer::Offers(offers) => (offers, true),
        Answer::Page { offers, last } => {
            let is_last = offers.len() < right.len()
                && !offers.is_empty()
                && right[offers.len() - 1].0 == *last;
            if !is_last {
                return false;
            }
            (offers, false)
        }
        _ => return false,
    };
    let is_whole = !is_all || offers.len() == right.len();
    is_whole
        && offers
            .iter()
            .eq(right.iter().take(offers.len()).map(|(_, offer)| offer))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn each_answer_is_what_was_said_before(all in proptest::collection::vec((0..4_usize, said()), 1..40)) {
        let (mut registry, at) = registry();
        let mut clients: Vec<Known> = (0..4).map(|_| Known::new(&mut registry, &at)).collect();
        for (of, said) in all {
            let (request, after) = match &said {
                Said::Announce(tags, number) => (Request::Announce(offer(*tags, *number)), None),
                Said::Find | Said::Wrong(_) => (Request::Find, None),
                Said::FindAfter(last) => {
                    let last = last.map_or_else(|last| last, |of| clients[of].token);
                    (Request::FindAfter(last), Some(last))
                }
            };
            let asked = match &said {
                Said::Wrong(line) => line.clone(),
                _ => line(&request),
            };
            let answer = ask(&mut registry, &clients[of].stream, &asked);
            let answer = answer.expect("each line is answered");
            match said {
                Said::Announce(tags, number) => {
                    prop_assert_eq!(answer, Answer::Kept);
                    clients[of].offer = Some(offer(tags, number));
                }
                Said::Find | Said::FindAfter(_) => {
                    prop_assert!(is_right(&answer, &behind(&clients, after)), "{:?}", answer);
                }
                Said::Wrong(_) => {
                    prop_assert!(matches!(answer, Answer::Refused(_)), "{:?}", answer);
                    // It is let go, and its offer with it.
                    let token = clients[of].token;
                    until(&mut registry, |registry| !registry.clients.contains_key(&token));
                    clients[of] = Known::new(&mut registry, &at);
                }
            }
        }
        let refused: u64 = registry.summary.refused.values().sum();
        prop_assert_eq!(registry.summary.connections, 4 + refused);
    }
}
