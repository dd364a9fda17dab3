//! What this side connects to: those that it was told at the begin, or those that are on a bus now.

use std::collections::HashSet;

use forebay_link::bytes::Address;

use super::{EndPoint, Role};
use crate::dial::Dial;

/// Most addresses of a bus that are followed at a time: as many as an end point may have connections. Whoever is followed stays so.
const FOLLOWED_MAX: usize = 4096;

impl<R: Role> EndPoint<R> {
    pub(super) fn add_dial(&mut self, address: &Address) {
        let backoff = self.settings.backoff;
        let dial = Dial::new(self.next_dial, address.clone(), backoff, self.now_ns);
        self.next_dial += 1;
        self.dials.push(dial);
    }

    /// Whether there is somebody to connect to.
    pub(crate) fn has_dials(&self) -> bool {
        !self.dials.is_empty()
    }

    /// Connects to all of these, and to no others again.
    pub(crate) fn follow(&mut self, addresses: &[Address]) {
        self.follows = true;
        let wanted: HashSet<&Address> = addresses.iter().collect();
        for dial in &mut self.dials {
            if wanted.contains(&dial.address) {
                // One with a connection has nothing to do.
                dial.revive(self.now_ns);
            } else {
                dial.retire();
            }
        }
        self.forget();
        let known = self.dials.iter().map(|dial| dial.address.clone());
        let mut known: HashSet<Address> = known.collect();
        let mut beyond = 0;
        for address in addresses {
            if known.contains(address) {
                continue;
            }
            known.insert(address.clone());
            if self.dials.len() < FOLLOWED_MAX {
                self.add_dial(address);
            } else {
                beyond += 1;
            }
        }
        self.tell_crowd(beyond);
        self.next_tend_ns = 0;
    }

    fn tell_crowd(&mut self, beyond: u64) {
        if beyond > 0 && !self.is_crowded {
            tracing::warn!(
                "the bus has {beyond} more addresses with tags of this side than the {FOLLOWED_MAX} that are followed: ask for fewer tags, or look who \
                 announces so many"
            );
        }
        self.is_crowded = beyond > 0;
        self.summary.not_followed = self.summary.not_followed.max(beyond);
    }

    /// Who has vanished from the bus and is not connected any more leaves nothing behind but what was counted.
    pub(super) fn forget(&mut self) {
        if !self.follows {
            return;
        }
        let attempts = &mut self.forgotten_attempts;
        self.dials.retain(|dial| {
            let stays = dial.is_connected || !dial.is_retired();
            *attempts += if stays { 0 } else { dial.attempts };
            stays
        });
    }
}

/// The one that a connection was made for, if it is still there.
pub(super) fn dialled(dials: &mut [Dial], id: Option<usize>) -> Option<&mut Dial> {
    dials.iter_mut().find(|dial| Some(dial.id) == id)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::time::{Duration, Instant};

    use forebay_msg::session::Agreed;
    use forebay_msg::{ConfigError, Entry, Role as Wants};

    use super::*;
    use crate::buffers::{Buffers, Outbound};
    use crate::{Publisher, Settings};

    const LIMIT: Duration = Duration::from_secs(30);

    /// An end point that asks for nothing of whom it follows.
    #[derive(Debug)]
    struct Following;

    impl Role for Following {
        const NAME: &'static str = "following";
        const WANTS: Wants = Wants::Subscriber;

        fn opened(&mut self, _: u64, _: &Agreed, _: Buffers) -> Result<(), ConfigError> {
            Ok(())
        }

        fn outbound(&mut self, _: u64) -> Option<&mut Outbound> {
            None
        }

        fn gone(&mut self, _: u64) -> Option<Outbound> {
            None
        }

        fn entries(&self) -> &[Entry] {
            &[]
        }
    }

    fn following() -> EndPoint<Following> {
        EndPoint::connect(Following, &[], &Settings::default()).unwrap()
    }

    /// An address of this host at which nobody listens.
    fn nobody(number: u32) -> Address {
        let [_, a, b, c] = (number + 256).to_be_bytes();
        format!("tcp://127.{a}.{b}.{c}:1").parse().unwrap()
    }

    /// Goes on until it is so.
    fn until(one: &mut EndPoint<Following>, mut done: impl FnMut(&EndPoint<Following>) -> bool) {
        let begun = Instant::now();
        while !done(one) {
            assert!(begun.elapsed() < LIMIT, "{one:?}");
            one.wait(Duration::from_millis(1), &mut |_| {}).unwrap();
        }
    }

    #[test]
    fn who_vanishes_from_the_bus_leaves_nothing_behind() {
        let mut end_point = following();
        let mut attempts = 0;
        for number in 0..200 {
            end_point.follow(&[nobody(number)]);
            until(&mut end_point, |one| {
                one.dials[0].trouble.is_some() && !one.dials[0].is_connected
            });
            attempts += end_point.dials[0].attempts;
            assert_eq!(end_point.dials.len(), 1);
        }
        end_point.follow(&[]);
        assert!(end_point.dials.is_empty());
        let summary = end_point.finish(LIMIT, &mut |_| {}).unwrap();
        assert_eq!((summary.attempts, summary.not_followed), (attempts, 0));
    }

    #[test]
    fn a_connection_lives_on_without_an_offer_and_leaves_nothing_behind_either() {
        let settings = Settings::default();
        let place = "tcp://127.0.0.1:0".parse().unwrap();
        let mut publisher = Publisher::listen(&place, &settings).unwrap();
        let there = publisher.address().unwrap();
        let mut end_point = following();
        end_point.follow(&[nobody(0), nobody(1), there.clone()]);
        until(&mut end_point, |one| {
            publisher.poll(Duration::ZERO).unwrap();
            one.open_connections() == 1
        });
        // Those before it go: it moves up, and is still the connection's.
        end_point.follow(&[]);
        until(&mut end_point, |one| one.dials.len() == 1);
        assert_eq!(end_point.dials[0].address, there);
        end_point.follow(std::slice::from_ref(&there));
        assert_eq!(end_point.dials.len(), 1);
        end_point.follow(&[]);
        publisher.finish(Duration::ZERO).unwrap();
        until(&mut end_point, |one| one.connections.is_empty());
        assert!(end_point.dials.is_empty());
        assert_eq!(end_point.made(), 1);
    }

    #[test]
    fn an_address_that_nobody_here_can_connect_to_costs_the_others_nothing() {
        let settings = Settings::default();
        let place = "tcp://127.0.0.1:0".parse().unwrap();
        let mut publisher = Publisher::listen(&place, &settings).unwrap();
        // Nobody has said that plain will do there.
        let beyond = ["tcp://192.0.2.1:1", "tcp://192.0.2.2:1"].map(|text| text.parse().unwrap());
        let [first, second] = beyond;
        let mut end_point = following();
        end_point.follow(&[first, second, publisher.address().unwrap()]);
        until(&mut end_point, |one| {
            publisher.poll(Duration::ZERO).unwrap();
            one.open_connections() == 1
        });
        assert_eq!(end_point.dials.len(), 3);
        let attempts = end_point.dials.iter().map(|dial| dial.attempts);
        assert_eq!(attempts.collect::<Vec<_>>(), [1, 1, 1]);
        let trouble = end_point.trouble();
        assert!(trouble.contains("--plain"), "{trouble}");
    }

    #[test]
    fn so_many_are_followed_and_no_more_and_they_stay() {
        let most = FOLLOWED_MAX as u32;
        let mut end_point = following();
        let first: Vec<Address> = (1..most).map(nobody).collect();
        end_point.follow(&first);
        // Others come before and behind them.
        let all: Vec<Address> = (0..most + 9).map(nobody).collect();
        end_point.follow(&all);
        assert_eq!(end_point.dials.len(), FOLLOWED_MAX);
        let follows =
            |address: &Address| end_point.dials.iter().any(|dial| dial.address == *address);
        assert!(first.iter().all(follows));
        end_point.follow(&all[..3]);
        assert_eq!(end_point.dials.len(), 3);
        let summary = end_point.finish(LIMIT, &mut |_| {}).unwrap();
        assert_eq!(summary.not_followed, 9);
    }
}
