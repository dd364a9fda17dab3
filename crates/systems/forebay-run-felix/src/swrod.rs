//! A subscriber of chunks that looks at every byte of them: `forebay swrod`. It stands where an experiment's readout software would.

mod books;
mod latency;
mod report;
mod selection;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use forebay_ledger::{Leak, Reason};
use forebay_run::{Host, Stop, System};
use forebay_sys::clock;

use crate::config::SwrodFile;
use crate::hops::SWROD;
use books::SwrodBooks;
pub use forebay_readout::fragments::{FragmentAccount, Fragments};
pub use forebay_readout::payload::Payload;
use forebay_run::error::RunError;
use forebay_run::record::Record;
use forebay_run_net::bus::Bus;
use forebay_run_net::{Address, Entry, NetError, Payload as Lying, Settings, Subscriber, Viewed};
use latency::Latency;
pub use latency::LatencyReport;
pub use report::{ByName, ElinkReport, FragmentReport, SwrodReport};
pub use selection::Selection;
pub use table::ELINKS_MAX;
use table::Table;

/// One wait: an order to end costs this much.
const WAIT: Duration = Duration::from_millis(20);
/// How long an end in order may take.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What is subscribed to, and what is done with it.
#[derive(Clone, Debug)]
pub struct SwrodPlan {
    /// Where publishers are.
    pub publishers: Publishers,
    /// The whole numbers of E-links that are asked for one by one. They are in the report also when nothing came of them.
    pub tags: Vec<u64>,
    /// Patterns beside them; all E-links, when there are neither.
    pub patterns: Vec<Entry>,
    /// What chunks are held against.
    pub payload: Payload,
    /// Joins fragments of the E-links of [`tags`](Self::tags), so many triggers being under way at a time.
    pub fragments_window: Option<usize>,
    /// Ends so long after the first chunk.
    pub duration: Option<Duration>,
    /// Ends when so many chunks have come; those that are on their way then come too.
    pub count: Option<u64>,
    /// The file in which the card notes when triggers were due: latencies are measured.
    pub trigger_times: Option<PathBuf>,
    /// Buffers, policies, books.
    pub settings: Settings,
}

/// Where publishers are found.
#[derive(Clone, Debug)]
pub enum Publishers {
    /// At these addresses.
    At(Vec<Address>),
    /// On a bus, as they come and go.
    On(Bus),
}

/// What is looked at as it comes.
struct Watcher {
    table: Table,
    /// For chunks that lie in several pieces, or in somebody else's memory.
    copy: Vec<u8>,
    /// Chunks that came, and their bytes, as they are handed over.
    came: [u64; 2],
    /// As much of it is acknowledged.
    acknowledged: [u64; 2],
    /// The fault switch of the tests, at `check`.
    leak: Leak,
    first_ns: Option<u64>,
    /// Why latencies cannot be measured.
    failed: Option<RunError>,
}

impl Watcher {
    #[cold]
    fn begin(&mut self) {
        self.first_ns = Some(clock::monotonic_ns());
        if let Some(latency) = &mut self.table.latency {
            self.failed = latency.open().err();
        }
    }

    #[inline]
    fn take(&mut self, viewed: &Viewed<'_>) {
        if self.came[0] == 0 {
            self.begin();
        }
        self.came[0] += 1;
        self.came[1] += viewed.payload.len() as u64;
        if self.leak.take("check") {
            return;
        }
        let chunk = match viewed.payload {
            Lying::Here(bytes) => bytes,
            Lying::Apart(apart) => {
                self.copy.clear();
                apart.copy_to(&mut self.copy);
                &self.copy
            }
        };
        self.table.handle_chunk(viewed.tag, viewed.status, chunk);
    }
}

/// One end point, and what came of it.
struct Session {
    subscriber: Subscriber,
    watcher: Watcher,
    books: SwrodBooks,
    /// When the last chunk came.
    last_ns: u64,
}

impl Session {
    fn begin(plan: &SwrodPlan) -> Result<Self, NetError> {
        let settings = Settings {
            gathers: true,
            ..plan.settings.clone()
        };
        let mut subscriber = match &plan.publishers {
            Publishers::At(all) => Subscriber::connect(all, &settings)?,
            Publishers::On(bus) => Subscriber::find(bus, &settings)?,
        };
        subscriber.subscribe(&entries(plan));
        let window = plan.fragments_window;
        let fragments = window.map(|window| Fragments::new(plan.tags.len(), window));
        let out = plan.settings.out.as_ref().map(|out| out.join("check"));
        let (books, histogram) = SwrodBooks::open(out.as_deref(), plan.trigger_times.is_some())?;
        if let Some(shown) = &plan.settings.shown {
            shown.add_ledger(books.reader()?);
        }
        let mut table = Table::new(plan.payload, &plan.tags, fragments);
        let times = plan.trigger_times.as_ref().zip(histogram);
        table.latency = times.map(|(path, histogram)| Latency::new(path, histogram));
        Ok(Self {
            subscriber,
            watcher: Watcher {
                table,
                copy: Vec::new(),
                came: [0; 2],
                acknowledged: [0; 2],
                leak: plan.settings.leak.clone(),
                first_ns: None,
                failed: None,
            },
            books,
            last_ns: clock::monotonic_ns(),
        })
    }

    /// Takes what comes; the time behind it.
    fn turn(&mut self) -> Result<u64, NetError> {
        let (before, watcher) = (self.watcher.came[0], &mut self.watcher);
        self.subscriber
            .poll_viewed(WAIT, |viewed| watcher.take(&viewed))?;
        if let Some(failed) = self.watcher.failed.take() {
            return Err(failed.into());
        }
        let now_ns = clock::monotonic_ns();
        if self.watcher.came[0] > before {
            self.last_ns = now_ns;
        }
        self.acknowledge();
        if self.books.is_due(now_ns) {
            self.show(now_ns);
        }
        Ok(now_ns)
    }

    /// What came has been looked at: publishers are told.
    fn acknowledge(&mut self) {
        let came = self.watcher.came;
        let before = std::mem::replace(&mut self.watcher.acknowledged, came);
        self.subscriber
            .acknowledge()
            .taken(came[0] - before[0], came[1] - before[1]);
    }

    fn show(&mut self, now_ns: u64) {
        let Watcher { table, came, .. } = &self.watcher;
        self.books
            .show(now_ns, *came, &table.outcomes, &table.totals());
    }

    /// Until the end that was asked for.
    fn carry(&mut self, plan: &SwrodPlan, host: &Host) -> Result<(), NetError> {
        let expected = match &plan.publishers {
            Publishers::At(all) => all.len(),
            Publishers::On(_) => 1,
        };
        let mut is_told = false;
        let most_ns = plan.duration.map_or(u64::MAX, nanoseconds);
        let most = plan.count.unwrap_or(u64::MAX);
        while !host.stop.is_asked() && !self.subscriber.has_ended() {
            let now_ns = self.turn()?;
            // One may have published all that it has before another one is there.
            let publishers = self.subscriber.publishers() + self.subscriber.publishers_ended();
            if publishers >= expected && !is_told {
                is_told = true;
                let many = if publishers == 1 { "" } else { "s" };
                host.say(format_args!("subscribed at {publishers} publisher{many}"));
            }
            let first_ns = self.watcher.first_ns.unwrap_or(now_ns);
            if now_ns.saturating_sub(first_ns) >= most_ns || self.watcher.came[0] >= most {
                break;
            }
        }
        Ok(())
    }

    /// Ends in order: what is on its way comes.
    fn end(&mut self, stop: &Stop) -> Result<(), NetError> {
        let before = stop.urgency();
        let until_ns = clock::monotonic_ns().saturating_add(nanoseconds(END_LIMIT));
        self.subscriber.begin_end();
        while self.subscriber.publishers() > 0 && stop.urgency().is_still(before) {
            if self.turn()? >= until_ns {
                break;
            }
        }
        // The publishers that were there have gone, or had their time: what still comes is lost by name.
        self.subscriber.acknowledge().decline();
        Ok(())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Subscribes, and looks at what comes until the publishers have ended in order, or enough has come.
impl System for SwrodFile {
    const HOPS: &'static [&'static str] = SWROD;
    type Summary = SwrodReport;
    type Error = NetError;

    fn run(self, host: &Host) -> Result<Record<SwrodReport>, NetError> {
        let mut plan = self.plan;
        plan.settings = plan.settings.hosted(host, self.metrics)?;
        subscribe(&plan, host)
    }
}

fn subscribe(plan: &SwrodPlan, host: &Host) -> Result<Record<SwrodReport>, NetError> {
    let stop = &host.stop;
    let mut session = Session::begin(plan)?;
    session.carry(plan, host)?;
    let subscriber = &session.subscriber;
    let trouble = (subscriber.connections_made() == 0).then(|| subscriber.trouble());
    let has_all = subscriber.has_ended();
    session.end(stop)?;
    session.show(clock::monotonic_ns());
    let Session {
        subscriber,
        watcher,
        mut books,
        last_ns,
    } = session;
    let end_point = subscriber.finish(Duration::ZERO, |_| {})?;
    let elapsed_ns = last_ns.saturating_sub(watcher.first_ns.unwrap_or(last_ns));
    let latency_ns = match &watcher.table.latency {
        Some(latency) => latency.report(&books.reader()?)?,
        None => None,
    };
    let mut summary = SwrodReport {
        latency_ns,
        nothing_came: nothing_came(watcher.came[0], trouble),
        ..report::make(watcher.table, has_all, elapsed_ns, end_point)
    };
    let reason = match has_all {
        true => Reason::InputEnded,
        false => stop.reason().unwrap_or(Reason::LimitReached),
    };
    let mut envelope = books.close(reason, summary.taint().into_iter().collect())?;
    envelope.include(&mut summary.end_point.envelope, |_| false);
    let mut record = Record { envelope, summary };
    books.keep(&mut record)?;
    Ok(record)
}

fn entries(plan: &SwrodPlan) -> Vec<Entry> {
    let single = plan.tags.iter().map(|tag| Entry::one(*tag));
    let entries: Vec<Entry> = single.chain(plan.patterns.iter().copied()).collect();
    if entries.is_empty() {
        vec![Entry { tag: 0, mask: 0 }]
    } else {
        entries
    }
}

fn nothing_came(chunks: u64, trouble: Option<String>) -> Option<String> {
    (chunks == 0).then(|| match trouble {
        Some(trouble) => format!("no publisher: {trouble}"),
        None => "publishers were there, and published nothing of what was subscribed to".into(),
    })
}
