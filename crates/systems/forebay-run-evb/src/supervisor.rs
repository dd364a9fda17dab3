//! The supervisor: makes everything a run needs, keeps it while stages die and are started again, and closes the books.

mod close;
mod start;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use forebay_evb::QueueWatch;
use forebay_host::{Changes, Reading};
use forebay_ledger::{Condition, LedgerReader, Reason, RunWriter, Taint, TaintKind};
use forebay_link::RecvBatch;
use forebay_ring::RingSetMemory;
use forebay_run::child::Parent;
use forebay_run::error::RunError;
use forebay_run::host_losses::HostBook;
use forebay_run::patience::Patience;
use forebay_run::run_dir::RunDir;
use forebay_run::stage::{Order, Report};
use forebay_run::warming::Warming;
use forebay_run::worker::{Ended, Worker};
use forebay_sink::files::next_run;
use forebay_sys::clock;
use forebay_sys::signals::StopSignals;
use forebay_sys::socket::{UdpOptions, bind_udp};

use crate::books::Books;
use crate::error::EvbError;
use crate::plan::Plan;
use crate::receiver::BATCH_SLOTS;
use crate::stages::Role;

/// How often the supervisor looks around.
const TICK: Duration = Duration::from_millis(10);
/// A stage that dies before it is ready, or sooner after that than this and without having got on, counts as a quick death.
const QUICK_NS: u64 = 300_000_000;
/// So many quick deaths one after the other, and the stage is given up.
const QUICK_DEATHS_MAX: u32 = 10;

/// Longest time for stages to end in order when the run fails.
const FAIL_LIMIT_NS: u64 = 3_000_000_000;

/// Why a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its time is over, or the generator is done.
    Limit,
    /// Somebody asked.
    Requested,
    /// The capture was replayed to its end, or all publishers have ended.
    InputEnded,
    /// A stage cannot be kept alive.
    StageLost,
}

/// What a run came to, beside its ledger.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Why it ended.
    pub end: End,
    /// CPU time by stage, in s, all lives of a stage together.
    pub cpu_s: BTreeMap<String, f64>,
    /// Process ids by stage, the last life of each.
    pub pids: BTreeMap<String, u32>,
    /// How often stages were started again.
    pub restarts: BTreeMap<&'static str, u32>,
    /// What taints the run.
    pub taints: Vec<Taint>,
    /// What an operator should know.
    pub warnings: Vec<String>,
    /// From the first stage ready to the order to stop, in s.
    pub duration_s: f64,
    /// What the whole host counted below the sockets meanwhile.
    pub host: Changes,
}

/// A run in progress.
pub struct Supervisor {
    plan: Plan,
    run_dir: RunDir,
    ledger: OwnedFd,
    run: RunWriter,
    /// When it began, by the monotonic clock.
    began_ns: u64,
    reader: LedgerReader,
    rings: RingSetMemory,
    sinks: Vec<RingSetMemory>,
    warming: Warming,
    arena: OwnedFd,
    sockets: Vec<OwnedFd>,
    own_processes: bool,
    stages: BTreeMap<Role, Stage>,
    outcome: Outcome,
    queues: QueueWatch,
    signals: StopSignals,
    /// The process that started it as a member of a chain.
    parent: Parent,
    /// The host's counters when the run began.
    host: Reading,
    /// The ledger says how the run ended.
    closed: bool,
}

/// One role over all its lives.
struct Stage {
    worker: Option<Worker>,
    started_ns: u64,
    /// When this life said that it is at work.
    ready_ns: Option<u64>,
    /// What its books held when this life began.
    begin_items: u64,
    quick_deaths: u32,
    restarts: u32,
    cpu_ns: u64,
    /// It was given up and could not be killed: a thread.
    runs_away: bool,
}

impl Supervisor {
    /// Makes ledger, sockets and shared memory, and fixes ports that were given as 0.
    ///
    /// # Errors
    /// A setting is out of range or a queue too small, an address is in use, memory or descriptors run out, or the directory is not ours to write.
    pub fn open(mut plan: Plan, own_processes: bool) -> Result<Self, RunError> {
        plan.builder_config().validate().map_err(EvbError::from)?;
        plan.check_movers().map_err(EvbError::from)?;
        plan.check_queues().map_err(EvbError::from)?;
        forebay_sys::process::raise_open_files()?;
        let signals = StopSignals::install()?;
        let host = Reading::take();
        let mut warnings = Vec::new();
        let sockets = if plan.replay.is_some() {
            Vec::new()
        } else {
            bind(&mut plan, &mut warnings)?
        };
        let mut run_dir = RunDir::prepare(&plan.run_dir, &plan.run_id, &mut warnings)?;
        run_dir.path().clone_into(&mut plan.run_dir);
        plan.run_min = next_run(plan.file_directories());
        let books = Books::declare(&plan)?;
        let ledger_bytes = books.schema.bytes_needed() as u64;
        run_dir.reserve(ledger_bytes, plan.sources.len())?;
        let (words, ledger, run) = run_dir.create_ledger(&books.schema)?;
        // What fails from here on is this run's, also before the receiver is there to count it.
        HostBook::attach(&books.schema, &words, books.host)?.read();
        let reader = LedgerReader::open(&words)?;
        let rings = RingSetMemory::create(&plan.event_rings())?;
        // Stages that populate their queues take all pages themselves.
        let ahead_bytes = plan.memory().source_rings_bytes - plan.populated_bytes();
        let warming = Warming::start(rings.data_fd()?, ahead_bytes);
        let queues = (0..plan.sinks.len()).map(|sink| RingSetMemory::create(&plan.sink_ring(sink)));
        let sinks = queues.collect::<Result<_, _>>()?;
        let outcome = Outcome {
            end: End::Requested,
            cpu_s: BTreeMap::new(),
            pids: BTreeMap::new(),
            restarts: BTreeMap::new(),
            taints: Vec::new(),
            warnings,
            duration_s: 0.0,
            host: Changes::default(),
        };
        let arena = RecvBatch::create_arena(BATCH_SLOTS)?;
        let stages = BTreeMap::new();
        let closed = false;
        let watch = watch_queues(&plan, &books);
        Ok(Self {
            plan,
            run_dir,
            ledger,
            run,
            began_ns: clock::monotonic_ns(),
            reader,
            rings,
            sinks,
            warming,
            arena,
            sockets,
            own_processes,
            stages,
            outcome,
            queues: watch,
            signals,
            parent: Parent::from_env(),
            host,
            closed,
        })
    }

    /// The plan, with the ports that were really bound.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The ledger, to look at while the run goes on.
    #[must_use]
    pub fn reader(&self) -> &LedgerReader {
        &self.reader
    }

    /// The run's directory.
    #[must_use]
    pub fn run_dir(&self) -> &RunDir {
        &self.run_dir
    }

    /// What an operator should know before the run starts.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.outcome.warnings
    }

    /// Runs until `duration` is over, the generator is done, or a signal comes. `tick` is called about every 10 ms.
    ///
    /// # Errors
    /// A stage cannot be started; what runs is stopped before.
    pub fn run(
        mut self,
        duration: Option<Duration>,
        mut tick: impl FnMut(&LedgerReader),
    ) -> Result<(Self, Outcome), RunError> {
        if self.start_chain()? {
            self.run.set_condition(Condition::Running, Reason::None);
            let start_ns = clock::monotonic_ns();
            if self.plan.generator.is_some() {
                self.start(Role::Generator)?;
            }
            let end_ns = duration.map(|duration| {
                start_ns.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
            });
            self.outcome.end = self.watch(end_ns, &mut tick)?;
            self.outcome.duration_s = (clock::monotonic_ns() - start_ns) as f64 / 1e9;
        }
        self.shut_down(&mut tick)?;
        self.close()
    }

    /// Starts what takes data, the last stage first; false when somebody asked to end meanwhile.
    fn start_chain(&mut self) -> Result<bool, RunError> {
        for role in [Role::Builder, Role::Receiver] {
            self.start(role)?;
            if !self.wait_ready(role)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps the stages alive until the run shall end.
    fn watch(
        &mut self,
        end_ns: Option<u64>,
        tick: &mut impl FnMut(&LedgerReader),
    ) -> Result<End, RunError> {
        loop {
            self.look_around(tick)?;
            if self.signals.count() > 0 || self.parent.is_gone() {
                return Ok(End::Requested);
            }
            if self.is_lost(Role::Receiver) || self.is_lost(Role::Builder) {
                return Ok(End::StageLost);
            }
            let has_end = self.plan.replay.is_some() || self.plan.elinks.is_some();
            if has_end && self.is_over(Role::Receiver) {
                return Ok(End::InputEnded);
            }
            let over = end_ns.is_some_and(|end| clock::monotonic_ns() >= end);
            let generated = self.plan.generator.is_some() && self.is_over(Role::Generator);
            if over || generated {
                return Ok(End::Limit);
            }
        }
    }

    /// Ends the stages in the order of the data: what is under way reaches the disk.
    fn shut_down(&mut self, tick: &mut impl FnMut(&LedgerReader)) -> Result<(), RunError> {
        self.warming.stop();
        for role in [Role::Generator, Role::Receiver, Role::Builder] {
            let mut ordered_to = 0;
            let mut patience = Patience::new(role.end_limit_ns(&self.plan), clock::monotonic_ns());
            while !self.is_over(role) && !self.is_lost(role) {
                // A stage that died meanwhile was started again and has not heard the order.
                if let Some(stage) = self.stages.get(&role)
                    && let Some(worker) = &stage.worker
                    && ordered_to != stage.started_ns
                {
                    worker.order(Order::Stop)?;
                    ordered_to = stage.started_ns;
                }
                self.look_around(tick)?;
                let now_ns = clock::monotonic_ns();
                if patience.is_over(now_ns, || self.written()) || self.signals.count() > 2 {
                    self.give_up(role);
                }
            }
        }
        Ok(())
    }

    /// Kills what does not end.
    fn give_up(&mut self, role: Role) {
        let text = format!("the {} did not end and was killed", role.name());
        self.taint(TaintKind::StageLost, text);
        if let Some(stage) = self.stages.get_mut(&role) {
            stage.kill();
            stage.quick_deaths = QUICK_DEATHS_MAX;
        }
    }

    /// One round: reports, deaths, the observer.
    fn look_around(&mut self, tick: &mut impl FnMut(&LedgerReader)) -> Result<(), RunError> {
        std::thread::sleep(TICK);
        self.run.heartbeat(clock::realtime_ns());
        self.run.lasted(clock::monotonic_ns() - self.began_ns);
        let roles: Vec<Role> = self.stages.keys().copied().collect();
        for role in roles {
            self.hear(role);
            let Some(stage) = self.stages.get_mut(&role) else {
                continue;
            };
            let ended = stage.poll_end()?;
            if let Some(ended) = ended {
                // What it said last.
                self.hear(role);
                self.bury(role, &ended)?;
            }
        }
        if let Some(text) = self.queues.look(clock::monotonic_ns(), &self.reader) {
            tracing::warn!("{text}");
            self.outcome.warnings.push(text);
        }
        tick(&self.reader);
        Ok(())
    }

    /// Takes every report of a stage.
    fn hear(&mut self, role: Role) {
        while let Some(report) = self.stages[&role]
            .worker
            .as_ref()
            .and_then(Worker::poll_report)
        {
            self.note(role, report);
        }
    }

    fn note(&mut self, role: Role, report: Report) {
        match report {
            Report::Ready => {
                if let Some(stage) = self.stages.get_mut(&role) {
                    stage.ready_ns = Some(clock::monotonic_ns());
                }
            }
            Report::Warning(text) => self.outcome.warnings.push(text),
            Report::Tainted(taint) => self.taint(taint.kind, taint.text),
        }
    }

    /// Says once what taints the run. The condition in the ledger changes at its end: until then the run goes on.
    fn taint(&mut self, kind: TaintKind, text: String) {
        let taint = Taint { kind, text };
        if !self.outcome.taints.contains(&taint) {
            self.outcome.taints.push(taint);
        }
    }

    /// Books the end of a stage; one that did not end in order is started again.
    fn bury(&mut self, role: Role, ended: &Ended) -> Result<(), RunError> {
        let items = self.items_of(role);
        let Some(stage) = self.stages.get_mut(&role) else {
            return Ok(());
        };
        stage.worker = None;
        stage.cpu_ns += ended.cpu_ns;
        if ended.in_order {
            stage.quick_deaths = 0;
            return Ok(());
        }
        tracing::warn!(stage = role.name(), how = ended.how, "stage died");
        if role == Role::Generator {
            // Its clock and its random numbers died with it: no successor can go on where it stopped.
            let text = format!(
                "the generator died: {}; what it had sent and not yet booked is unknown",
                ended.how
            );
            self.taint(TaintKind::StageLost, text);
            return Ok(());
        }
        let young = stage
            .ready_ns
            .is_none_or(|since| clock::monotonic_ns() - since < QUICK_NS);
        let quick = young && stage.begin_items == items;
        stage.quick_deaths = if quick { stage.quick_deaths + 1 } else { 0 };
        if stage.quick_deaths >= QUICK_DEATHS_MAX {
            let text = format!(
                "the {} died {QUICK_DEATHS_MAX} times at once: {}",
                role.name(),
                ended.how
            );
            self.taint(TaintKind::StageLost, text);
            return Ok(());
        }
        stage.restarts += 1;
        self.start(role)
    }

    /// What a role has taken in so far: it grows with every commit that was worth one.
    fn items_of(&self, role: Role) -> u64 {
        let Ok(snapshot) = self.reader.snapshot() else {
            return 0;
        };
        let accounts = snapshot.balance().accounts;
        let own = accounts.iter().filter(|line| line.place == role.name());
        own.map(|line| line.incoming.items + line.outgoing.items)
            .sum()
    }

    /// Events that the sinks are through with.
    fn written(&self) -> u64 {
        let Ok(snapshot) = self.reader.snapshot() else {
            return 0;
        };
        let accounts = snapshot.balance().accounts;
        let sinks = accounts.iter().filter(|line| line.place == "sink");
        sinks.map(|line| line.incoming.items).sum()
    }

    /// Whether the role was started and has ended.
    fn is_over(&self, role: Role) -> bool {
        self.stages
            .get(&role)
            .is_none_or(|stage| stage.worker.is_none())
    }

    fn is_lost(&self, role: Role) -> bool {
        self.stages
            .get(&role)
            .is_some_and(|stage| stage.worker.is_none() && stage.quick_deaths >= QUICK_DEATHS_MAX)
    }
}

// What the supervisor makes for its stages, and hands to each of their lives.
impl Supervisor {
    /// Fresh descriptors of everything the role needs.
    fn parts(&self, role: Role) -> Result<Vec<Vec<OwnedFd>>, RunError> {
        let mut parts = vec![vec![duplicate(&self.ledger)?]];
        match role {
            Role::Generator => {}
            Role::Receiver => {
                parts.push(self.rings.producer_fds()?);
                parts.push(vec![duplicate(&self.arena)?]);
                parts.push(
                    self.sockets
                        .iter()
                        .map(duplicate)
                        .collect::<Result<_, _>>()?,
                );
            }
            Role::Builder => {
                parts.push(self.rings.consumer_fds()?);
                for sink in &self.sinks {
                    parts.push(sink.producer_fds()?);
                    parts.push(sink.consumer_fds()?);
                }
            }
        }
        Ok(parts)
    }
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, RunError> {
    fd.as_fd()
        .try_clone_to_owned()
        .map_err(RunError::file("duplicating", "a descriptor"))
}

/// Binds every port of the plan and writes the real ones back.
fn bind(plan: &mut Plan, warnings: &mut Vec<String>) -> Result<Vec<OwnedFd>, RunError> {
    let options = UdpOptions {
        receive_buffer_bytes: Some(plan.socket_buffer_bytes()),
        stamps: plan.receiver.stamps,
        gro: plan.receiver.gro,
        ..UdpOptions::default()
    };
    let mut sockets = Vec::new();
    let mut shortfall = None;
    for address in &mut plan.ports {
        let bound = bind_udp(*address, &options)?;
        *address = bound.address;
        shortfall = shortfall.or(bound.shortfall);
        sockets.push(bound.fd);
    }
    if plan.receiver.gro {
        warnings.push("UDP GRO is on: the kernel counts merged datagrams that it drops as one, so its drops are a lower bound".into());
    }
    if let Some(shortfall) = shortfall {
        warnings.push(shortfall.to_string());
    }
    Ok(sockets)
}

/// Looks whether the sources' queues last as long as an event may wait.
fn watch_queues(plan: &Plan, books: &Books) -> QueueWatch {
    if plan.replay.is_some() || plan.elinks.is_some() {
        return QueueWatch::of_held_input();
    }
    let sources = plan.sources.iter().zip(&books.builder.sources);
    let queues =
        sources.map(|(source, words)| (source.name.clone(), source.ring_bytes, words.pulled));
    QueueWatch::new(plan.builder.timeout_ms, queues)
}
