//! Looks at all offers of a bus.

use forebay_run::error::RunError;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::announcer::Trouble;
use forebay_link::bytes::Security;

use super::lines::{Answer, BusError, Client, FOUND_BYTES_MAX, Request};
use super::{BEAT, Bus, NAP, Offer, directory};

#[derive(Debug, Default)]
struct Shared {
    end: AtomicBool,
    /// Counts changes.
    version: AtomicU64,
    offers: Mutex<Vec<Offer>>,
}

/// Looks at all offers, once a second.
#[derive(Debug)]
pub struct Finder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    seen: u64,
}

impl Finder {
    /// Begins to look. While the bus is away, what was found last holds.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(bus: &Bus, security: &Security) -> Result<Self, RunError> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let mut looker = Looker {
            bus: bus.clone(),
            security: security.clone(),
            client: None,
            told: BTreeSet::new(),
        };
        let work = move || {
            let mut trouble = Trouble::default();
            let mut last: Option<Instant> = None;
            while !theirs.end.load(Ordering::Relaxed) {
                if last.is_none_or(|last| last.elapsed() >= BEAT) {
                    last = Some(Instant::now());
                    let found = looker.look(&theirs.end);
                    trouble.tell(
                        found.map(|offers| theirs.take(offers)),
                        &looker.bus.to_string(),
                    );
                }
                std::thread::sleep(NAP);
            }
        };
        let thread = std::thread::Builder::new()
            .name("finder".into())
            .spawn(work);
        Ok(Self {
            shared,
            thread: Some(thread.map_err(RunError::file("starting", "the finder's thread"))?),
            seen: 0,
        })
    }

    /// What was found is asked for anew.
    pub fn again(&mut self) {
        self.seen = 0;
    }

    /// All offers, when they have changed since they were last asked for.
    pub fn changed(&mut self) -> Option<Vec<Offer>> {
        let version = self.shared.version.load(Ordering::Acquire);
        if version == self.seen {
            return None;
        }
        self.seen = version;
        let offers = self.shared.offers.lock();
        Some(offers.unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Shared {
    fn take(&self, found: Vec<Offer>) {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.version.load(Ordering::Relaxed) == 0;
        if first || *offers != found {
            *offers = found;
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked finds nothing any more.
            let _ = thread.join();
        }
    }
}

struct Looker {
    bus: Bus,
    security: Security,
    client: Option<Client>,
    /// Files that were said to be wrong: once is enough.
    told: BTreeSet<PathBuf>,
}

impl Looker {
    fn look(&mut self, end: &AtomicBool) -> Result<Vec<Offer>, BusError> {
        match &self.bus {
            Bus::Directory(path) => {
                let mut wrong = BTreeSet::new();
                let offers = directory::read(path, FOUND_BYTES_MAX, &mut |file, error| {
                    if !self.told.contains(file) {
                        tracing::warn!("{}: {error}", file.display());
                    }
                    wrong.insert(file.to_owned());
                })?;
                // No more of them are kept than there are.
                self.told = wrong;
                Ok(offers)
            }
            Bus::Registry(place) => {
                let mut client = match self.client.take() {
                    Some(client) => client,
                    None => Client::connect(place, &self.security)?,
                };
                let offers = all_of(&mut client, end)?;
                self.client = Some(client);
                Ok(offers)
            }
        }
    }
}

/// Asks a registry page by page; one that is to end meanwhile wants to know no more of it.
fn all_of(client: &mut Client, end: &AtomicBool) -> Result<Vec<Offer>, BusError> {
    let refused = |why: &str| Err(BusError::Refused(why.to_owned()));
    let (mut all, mut bytes) = (Vec::new(), 0);
    let mut before = None;
    loop {
        let request = before.map_or(Request::Find, Request::FindAfter);
        let (mut offers, last) = match client.ask(&request)? {
            Answer::Offers(offers) => (offers, None),
            Answer::Page { offers, last } => (offers, Some(last)),
            Answer::Refused(why) => return Err(BusError::Refused(why)),
            Answer::Kept => return refused("no answer to what was asked"),
        };
        if last.is_some() && (offers.is_empty() || last <= before) {
            return refused("its pages come to no end");
        }
        offers.iter_mut().for_each(Offer::shrink);
        // Those that are none count too: else a registry that has no other pages would be asked for ever.
        bytes += offers.iter().map(Offer::bytes).sum::<usize>();
        if bytes > FOUND_BYTES_MAX {
            return refused("it has more offers than any registry keeps");
        }
        offers.retain(|offer| offer.check().is_ok());
        all.append(&mut offers);
        before = last;
        if last.is_none() || end.load(Ordering::Relaxed) {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;
    use crate::bus::lines::OFFERS_BYTES_MAX;
    use crate::bus::{Tags, registry};

    /// What comes of a registry that says these lines, one after the other and again and again.
    fn found(lines: &[&str]) -> Result<Vec<Offer>, BusError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = format!("tcp://{}", listener.local_addr().unwrap());
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        let registry = std::thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            let asked = BufReader::new(&stream).lines();
            for (_, line) in asked.map_while(Result::ok).zip(lines.iter().cycle()) {
                (&stream).write_all(line.as_bytes()).unwrap();
            }
        });
        let security = Security::default();
        let mut client = Client::connect(&place.parse().unwrap(), &security).unwrap();
        let found = all_of(&mut client, &AtomicBool::new(false));
        drop(client);
        registry.join().unwrap();
        found
    }

    const OFFER: &str =
        r#"{"name":"a","address":"tcp://127.0.0.1:1","tags":[],"host":"h","pid":1}"#;

    #[test]
    fn pages_come_one_after_the_other() {
        let page = format!(r#"{{"page":{{"offers":[{OFFER},{OFFER}],"last":7}}}}"#);
        let last = format!(r#"{{"offers":[{OFFER}]}}"#);
        assert_eq!(found(&[&page, &last]).unwrap().len(), 3);
    }

    #[test]
    fn a_registry_that_goes_on_and_on_is_left() {
        let same = format!(r#"{{"page":{{"offers":[{OFFER}],"last":7}}}}"#);
        let empty = r#"{"page":{"offers":[],"last":7}}"#;
        for line in [&same, empty] {
            let error = found(&[line]).unwrap_err().to_string();
            assert!(error.contains("no end"), "{error}");
        }
        let tags = r#"{"tag":1,"mask":1},"#.repeat(60_000);
        let large = |last: u64| {
            let offer = OFFER.replace("[]", &format!("[{}]", tags.trim_end_matches(',')));
            format!(r#"{{"page":{{"offers":[{offer}],"last":{last}}}}}"#)
        };
        // 150 MB of them.
        let pages: Vec<String> = (1..150).map(large).collect();
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let error = found(&pages).unwrap_err().to_string();
        assert!(error.contains("more offers than"), "{error}");
    }

    /// What a registry may keep is never too much for a finder.
    #[test]
    fn all_that_a_registry_may_keep_is_taken() {
        let line = |offer: &Offer| serde_json::to_string(offer).unwrap().len();
        let offer = |tags: usize, host: usize| {
            let one = Tags { tag: 1, mask: 1 };
            let mut offer: Offer = serde_json::from_str(OFFER).unwrap();
            offer.tags.extend(std::iter::repeat_n(one, tags));
            offer.host = "h".repeat(host);
            offer.shrink();
            offer
        };
        for [tags, host] in [[0, 0], [0, 1 << 20], [60_000, 0], [1, 1], [3, 130_900]] {
            let offer = offer(tags, host);
            let most = OFFERS_BYTES_MAX / line(&offer);
            let most = most.min(registry::CONNECTIONS_MAX);
            assert!(most * offer.bytes() <= FOUND_BYTES_MAX, "{tags} {host}");
        }
    }

    /// What a registry answers to one request.
    #[derive(Clone, Debug)]
    enum Said {
        /// A page with so many offers, some of which are none, and the number of the last one.
        Page(usize, usize, u64),
        Rest(usize, usize),
        Refused,
        Kept,
        Garbage(String),
    }

    impl Said {
        fn line(&self) -> String {
            let offers = |good: &usize, wrong: &usize| {
                let wrong = std::iter::repeat_n(OFFER.replace("tcp://", "ftp://"), *wrong);
                let good = std::iter::repeat_n(OFFER.to_owned(), *good);
                wrong.chain(good).collect::<Vec<_>>().join(",")
            };
            match self {
                Self::Page(good, wrong, last) => {
                    let offers = offers(good, wrong);
                    format!(r#"{{"page":{{"offers":[{offers}],"last":{last}}}}}"#)
                }
                Self::Rest(good, wrong) => format!(r#"{{"offers":[{}]}}"#, offers(good, wrong)),
                Self::Refused => r#"{"refused":"not today"}"#.to_owned(),
                Self::Kept => r#""kept""#.to_owned(),
                Self::Garbage(text) => text.clone(),
            }
        }
    }

    fn said() -> impl Strategy<Value = Said> {
        prop_oneof![
            12 => (0..4_usize, 0..2_usize, 0..40_u64).prop_map(|(good, wrong, last)| Said::Page(good, wrong, last)),
            4 => (0..4_usize, 0..2_usize).prop_map(|(good, wrong)| Said::Rest(good, wrong)),
            1 => Just(Said::Refused),
            1 => Just(Said::Kept),
            // Whatever it is, it is no answer.
            1 => "[^\n]{0,40}".prop_map(|text| Said::Garbage(format!("?{text}"))),
            1 => Just(Said::Garbage(r#"{"offers":[{}]}"#.to_owned())),
            1 => Just(Said::Garbage(r#"{"offers":[],"more":1}"#.to_owned())),
        ]
    }

    /// How many offers are to be found in answers that come again and again, or what is to be said of them.
    fn expected(all: &[Said]) -> Result<usize, &'static str> {
        let (mut count, mut before) = (0, None);
        for said in all.iter().cycle() {
            match said {
                Said::Page(good, wrong, last) => {
                    if good + wrong == 0 || before.is_some_and(|before| *last <= before) {
                        return Err("no end");
                    }
                    (count, before) = (count + good, Some(*last));
                }
                Said::Rest(good, _) => return Ok(count + good),
                Said::Refused => return Err("not today"),
                Said::Kept => return Err("no answer"),
                Said::Garbage(_) => return Err(""),
            }
        }
        Ok(count)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn whatever_a_registry_answers_offers_are_taken_or_it_is_said_what_is_wrong(all in proptest::collection::vec(said(), 1..6)) {
            let lines: Vec<String> = all.iter().map(Said::line).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            match (found(&lines), expected(&all)) {
                (Ok(offers), right) => prop_assert_eq!(Ok(offers.len()), right),
                (Err(error), right) => {
                    let why = right.expect_err("all of it was right");
                    prop_assert!(error.to_string().contains(why), "{}", error);
                }
            }
        }
    }
}
