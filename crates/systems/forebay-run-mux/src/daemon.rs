//! The multiplexer at work: one thread that owns the card, and does in turn what there is to do for it and for each client.
//!
//! ```text
//! round: buffers back ─▶ frames from the card ─▶ packets from clients ─▶ packets to the card ─▶ bells, one for a batch
//! ```
//!
//! It sleeps when a round had nothing to do, after it has asked each client for its bell and looked once more. When much comes it also pauses behind rounds with work, so
//! that some of it is handled together: the kernel and clients need not wake it meanwhile.

mod admit;
mod arrivals;
mod bells;
mod card;
mod confined;
mod control;
mod gather;
mod rounds;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use forebay_client::protocol::Reason as No;
use forebay_ledger::{Condition, Leak, Reason, Taint, TaintKind};
use forebay_mux::account::ClientCounts;
use forebay_mux::buffers::BufferId;
use forebay_mux::transmit::Packet;
use forebay_mux::{ClientId, Mux};
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, System, Urgency};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::confine::Confined;
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::process::raise_open_files;
use forebay_sys::sched::{pin_to_cpu, real_time, set_slice};
use forebay_sys::seqpacket::SeqSocket;
use forebay_sys::wait;

use self::admit::is_unread;
use self::bells::Bells;
use self::card::{mark, open_card};
use self::confined::confine;
use self::control::ControlDoor;
use self::gather::Gather;
use self::words::{lost, told};
use crate::books::{AnswerCounts, Books};
use crate::config::{ClientSettings, DriverChoice};
use crate::door::{Caller, Door, say_no};
use crate::driver::account::InDrops;
use crate::driver::{CardWatch, Driver, Flushed, SharedMemory, leaking};
use crate::error::MuxError;
use crate::lane::Lane;
use crate::plan::{MuxPlan, Sizes};
use crate::summary::{ClientSummary, MuxSummary};

/// Books are shown so often.
const SHOW_NS: u64 = 100_000_000;
/// While there is always something to do, clients that come and go are looked for so often.
const LOOK_NS: u64 = 1_000_000;
/// So long frames that came before the end are taken in.
const CLOSE_NS: u64 = 120_000_000;
/// Behind that, rounds in which there was something to do.
const LATE_ROUNDS: u32 = 64;
/// So long the card may have no room for what the driver has.
const OUT: Duration = Duration::from_millis(100);
/// A pause may be longer by so much, in ns: the kernel's own slack is 50 us, as long as a pause.
const SLACK_NS: u64 = 1_000;
/// Descriptors that one look tells of.
const EVENTS: usize = 64;

/// Where frames, packets and answers can be made to vanish: the card's hops, the engine's, and the responder's answers on their way to the card.
const HOPS: &[&str] = &{
    let [card_in, card_out] = crate::driver::HOPS;
    let [classify, deliver, queue, receive, transmit] = forebay_mux::HOPS;
    [
        card_in,
        card_out,
        classify,
        deliver,
        queue,
        receive,
        transmit,
        arrivals::ANSWERS,
    ]
};

const DOOR: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const CONTROL: u64 = 3;
/// Sockets of clients have even tokens from here on, bells odd ones.
const CLIENTS: u64 = 4;

/// What is known of a place beside the engine's counts.
#[derive(Debug, Default)]
struct Place {
    lane: Option<Lane>,
    connected: u64,
    parted: BTreeMap<&'static str, u64>,
    bells: Bells,
    /// When the last client of it was welcomed.
    welcomed_ns: Option<u64>,
    /// One that came too soon after the one before, and waits.
    early: Option<Caller>,
    /// Connections of clients that were parted with, and have not taken what they were told: descriptors are under way in them.
    unread: Vec<SeqSocket>,
}

impl Place {
    /// What became of it, by the engine's counts.
    fn summary(&self, said: &ClientSettings, counts: &ClientCounts<'_>) -> ClientSummary {
        let bells = [self.bells.heard, self.bells.idle];
        ClientSummary::of(said, self.connected, self.parted.clone(), bells, counts)
    }
}

/// A client that does not stay, and why.
#[derive(Debug)]
struct Leaving {
    client: ClientId,
    why: &'static str,
    /// What it is told, where it can still hear.
    said: Option<String>,
}

/// A frame that the driver has taken.
#[derive(Clone, Copy, Debug)]
enum Given {
    Packet(ClientId, Packet),
    /// An answer of the responder, of so many bytes.
    Answer(u32),
}

/// A multiplexer at work.
pub(crate) struct Daemon {
    plan: MuxPlan,
    sizes: Sizes,
    mux: Mux,
    driver: Driver,
    /// Where the driver receives, if clients read it there.
    shared: Option<SharedMemory>,
    door: Door,
    control: ControlDoor,
    confined: Option<Confined>,
    poller: Poller,
    places: Vec<Place>,
    answers: AnswerCounts,
    /// What the driver has taken, in this order, and has not told the fate of.
    given: VecDeque<Given>,
    /// A packet that the card had no room for.
    pending: Option<(ClientId, Packet)>,
    /// The card has no room for what the driver has.
    is_send_waiting: bool,
    /// A wait ended for the card.
    is_card_calling: bool,
    /// When a policy wants to be asked again.
    ask_at_ns: Option<u64>,
    leaving: Vec<Leaving>,
    numbers: Vec<BufferId>,
    signals: u64,
    watch: CardWatch,
    /// The card's counts could not be read once.
    lacks_counts: bool,
    /// So many frames may be lost at the card for each reason without a word: those of the first look, and any number once a loss was told.
    lost_untold: Option<InDrops>,
    /// Nothing is read of the card before each place has a client: of files, which would be read through before one could come.
    is_early: bool,
    /// What vanishes on purpose, of the responder's answers; card and engine have their own.
    leak: Leak,
}

impl Daemon {
    /// Opens the card and the socket.
    pub(crate) fn open(plan: MuxPlan, leak: &Leak) -> Result<Self, MuxError> {
        plan.check()?;
        // This thread is the one that works. Without it pauses are longer.
        let _ = wait::set_timer_slack_ns(SLACK_NS);
        let (mut driver, sizes) = open_card(&plan)?;
        if leak.is_armed() {
            driver = leaking(driver, leak);
        }
        let mut daemon = Self::over(driver, sizes, plan)?;
        daemon.mux.leak(leak.clone());
        daemon.leak = leak.clone();
        Ok(daemon)
    }

    /// Opens the socket, over this card.
    fn over(mut driver: Driver, mut sizes: Sizes, plan: MuxPlan) -> Result<Self, MuxError> {
        let shared = plan.share(&mut driver)?;
        let card_frames = shared.as_ref().map_or(0, |shared| shared.card_frames);
        // Clients' buffers have the numbers of the engine's, those of the card among them.
        sizes.receive.frames += card_frames;
        let door = Door::open(&plan.settings.socket)?;
        let poller = Poller::create(EVENTS)?;
        poller.add(&door, DOOR, Interest::Readable, Trigger::Level)?;
        let control = ControlDoor::open(&plan, monotonic_ns())?;
        poller.add(&control, CONTROL, Interest::Readable, Trigger::Level)?;
        driver.receive.settle();
        let watch = CardWatch::new(driver.card.look());
        let mut daemon = Self {
            mux: plan.engine(card_frames)?,
            places: plan.clients.iter().map(|_| Place::default()).collect(),
            sizes,
            driver,
            shared,
            door,
            control,
            confined: None,
            poller,
            answers: AnswerCounts::default(),
            given: VecDeque::new(),
            pending: None,
            is_send_waiting: false,
            is_card_calling: false,
            ask_at_ns: None,
            leaving: Vec::new(),
            numbers: Vec::new(),
            signals: 0,
            watch,
            lacks_counts: false,
            lost_untold: None,
            is_early: true,
            leak: Leak::off(),
            plan,
        };
        if daemon.plan.settings.driver != DriverChoice::Pcap {
            daemon.begin()?;
        }
        Ok(daemon)
    }

    /// Reads the card from now on.
    fn begin(&mut self) -> Result<(), MuxError> {
        self.is_early = false;
        let card = self.driver.receive.descriptor();
        Ok(self
            .poller
            .add(card, RECEIVE, Interest::Readable, Trigger::Level)?)
    }

    /// Works until it is told to end. What failed, if something did.
    fn work(&mut self, host: &Host, books: &mut Books) -> Result<(), MuxError> {
        let (mut shown_ns, mut looked_ns, mut has_asked) = (0, 0, false);
        let mut gather = Gather::new(u64::from(self.plan.settings.gather_us) * 1_000);
        while !host.stop.is_asked() {
            let now_ns = monotonic_ns();
            if now_ns - shown_ns >= SHOW_NS {
                shown_ns = now_ns;
                self.tick(host, books);
                self.driver.send.check()?;
            }
            let moved = self.round(now_ns)?;
            let has_worked = moved > 0;
            if has_worked {
                if now_ns - looked_ns >= LOOK_NS {
                    looked_ns = now_ns;
                    self.look(Duration::ZERO)?;
                }
                self.pause(gather.after(now_ns, moved));
            } else if has_asked {
                looked_ns = now_ns;
                self.look(self.patience(now_ns))?;
            } else {
                self.lanes().for_each(Lane::ask);
            }
            if has_asked {
                self.lanes().for_each(Lane::awake);
            }
            has_asked = !has_worked && !has_asked;
        }
        Ok(())
    }

    /// Lets frames and packets gather, for as long as nothing has to be done: nobody rings meanwhile.
    fn pause(&self, most_ns: u64) {
        if most_ns > 0 {
            let now_ns = monotonic_ns();
            let most_ns = most_ns.min(self.patience(now_ns).as_nanos() as u64);
            wait::sleep_until(now_ns + most_ns, 0);
        }
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.places.iter().filter_map(|place| place.lane.as_ref())
    }

    /// How long nothing has to be done, if nobody wants anything.
    fn patience(&self, now_ns: u64) -> Duration {
        let asks = [
            self.ask_at_ns,
            self.next_welcome_ns(),
            self.door.shut_until_ns(),
            self.control.shut_until_ns(),
            self.look_again_ns(now_ns),
        ];
        let until_ns = asks.into_iter().flatten().min().unwrap_or(u64::MAX);
        Duration::from_nanos(until_ns.saturating_sub(now_ns).min(SHOW_NS))
    }

    /// Waits at most so long until there is something to do, and looks after clients that come and go.
    fn look(&mut self, most: Duration) -> Result<(), MuxError> {
        let ready = self.poller.wait(Some(most), Duration::ZERO)?;
        let tokens: Vec<u64> = ready.map(|ready| ready.token).collect();
        for token in tokens {
            match token {
                DOOR => self.admit(monotonic_ns()),
                RECEIVE => self.is_card_calling = true,
                CONTROL => control::serve(self, monotonic_ns()),
                token if token >= CLIENTS => {
                    let client = ClientId::new(((token - CLIENTS) / 2) as u8);
                    match token % 2 {
                        0 => self.hear(client),
                        _ => self.hear_bell(client),
                    }
                }
                _ => {}
            }
        }
        let now_ns = monotonic_ns();
        self.door.open_again(now_ns);
        self.control.open_again(now_ns);
        self.welcome_early(now_ns);
        self.part_all();
        Ok(())
    }

    /// Looks whether a client has gone.
    fn hear(&mut self, client: ClientId) {
        let lane = self.places[client.index()].lane.as_ref();
        if lane.is_some_and(Lane::is_gone) {
            self.leave(client, "left", None);
        }
    }

    /// A client has rung: it has something for the daemon, or not.
    fn hear_bell(&mut self, client: ClientId) {
        let Place { lane, bells, .. } = &mut self.places[client.index()];
        if let Some(lane) = lane {
            bells.hear(lane.taken);
        }
    }

    fn leave(&mut self, client: ClientId, why: &'static str, said: Option<String>) {
        self.leaving.push(Leaving { client, why, said });
    }

    /// Parts with clients that do not stay.
    fn part_all(&mut self) {
        for Leaving { client, why, said } in std::mem::take(&mut self.leaving) {
            self.part(client, why, said.as_deref());
        }
    }

    fn part(&mut self, client: ClientId, why: &'static str, said: Option<&str>) {
        match why {
            // What it had handed over and given back before is its own.
            "left" => self.take_last(client),
            "end" => self.count_last(client),
            // What it says further is not believed.
            _ => {}
        }
        let place = &mut self.places[client.index()];
        let Some(lane) = place.lane.take() else {
            return;
        };
        *place.parted.entry(why).or_default() += 1;
        self.forget(&lane);
        if let Some(text) = said {
            say_no(&lane.socket, No::Faults, text);
        }
        if is_unread(&lane.socket) {
            lane.socket.shut();
            self.places[client.index()].unread.push(lane.socket);
        }
        if let Some((_, packet)) = self.pending.take_if(|(of, _)| *of == client) {
            self.mux.finish(client, packet, false);
        }
        self.mux.remove_client(client);
    }

    /// Shows the books, and tells of the card.
    fn tick(&mut self, host: &Host, books: &mut Books) {
        let changes = self.card_changes();
        for change in changes.into_iter().chain(self.control.news()) {
            host.say(format_args!("{change}"));
        }
        self.answers.held = self.answers_given();
        let (mux, driver) = (&self.mux, &mut self.driver);
        let shown = books.show(&self.plan, mux, driver, &self.answers);
        if let Err(error) = &shown
            && !self.lacks_counts
        {
            host.warn(&format!("the card's counts cannot be read: {error}"));
        }
        // Told once: they are not asked for each time.
        self.lacks_counts |= shown.is_err();
        let (name, longest) = (self.driver.card.name(), self.sizes.frame_bytes_max);
        // What was lost before the daemon worked is no sign of what it does.
        let untold = self.lost_untold.get_or_insert(*books.lost_in());
        for (why, frames) in books.lost_in().iter() {
            if frames > untold[why] {
                untold[why] = u64::MAX;
                host.warn(&lost(name, why, frames, longest));
            }
        }
    }

    /// What is different of the card since the last time, in words.
    fn card_changes(&mut self) -> Vec<String> {
        let now = self.driver.card.look();
        let name = self.driver.card.name();
        let longest = self.sizes.mtu_bytes;
        let changes = self.watch.observe(now);
        changes.map(|change| told(name, change, longest)).collect()
    }

    /// Ends. What failed before, or now.
    fn close(&mut self, worked: Result<(), MuxError>, urgency: Urgency) -> Result<(), MuxError> {
        // A card that takes frames on while books are closed has counts that fit nothing.
        self.driver.receive.close();
        let closed = worked.and_then(|()| match urgency {
            Urgency::Now => Ok(()),
            _ => self.take_in_last(),
        });
        self.part_everybody();
        self.send_out(OUT);
        self.answers.held = self.answers_given();
        closed.and_then(|()| Ok(self.driver.send.check()?))
    }

    /// Takes in what came before.
    fn take_in_last(&mut self) -> Result<(), MuxError> {
        let until_ns = monotonic_ns() + CLOSE_NS;
        // A process that was held up for longer takes in what there is all the same.
        let mut late = 0..LATE_ROUNDS;
        loop {
            let has_worked = self.round(monotonic_ns())? > 0;
            if monotonic_ns() >= until_ns && (!has_worked || late.next().is_none()) {
                return Ok(());
            }
            if !has_worked {
                self.look(Duration::from_millis(1))?;
            }
        }
    }

    fn part_everybody(&mut self) {
        for (client, _) in self.plan.clone().places() {
            self.part(client, "end", None);
        }
    }

    /// Gives the card what the driver has, as long as it takes it within this time. What is left is held in the books: nobody knows what would have become of it.
    fn send_out(&mut self, most: Duration) {
        let until_ns = monotonic_ns() + most.as_nanos() as u64;
        while self.driver.send.flush() != Flushed::All && self.wait_for_card(until_ns) {}
        // Nothing goes while books are closed.
        self.driver.send.close();
        self.learn();
    }

    /// Waits for room in the card; false when the time was over before, or it cannot be waited for.
    fn wait_for_card(&self, until_ns: u64) -> bool {
        let rest_ns = until_ns.saturating_sub(monotonic_ns());
        let waited = Poller::create(1).and_then(|mut room| {
            let card = self.driver.send.descriptor();
            room.add(card, 0, Interest::Writable, Trigger::Level)?;
            let rest = Some(Duration::from_nanos(rest_ns));
            room.wait(rest, Duration::ZERO).map(drop)
        });
        rest_ns > 0 && waited.is_ok()
    }

    fn summary(&self) -> MuxSummary {
        let named = self.plan.places().zip(&self.places);
        let clients =
            named.map(|((client, said), place)| place.summary(said, &self.mux.counts(client)));
        let residual = self.mux.residual().items;
        let mut refused = self.door.refused.clone();
        refused.extend(self.control.refused());
        let (changes, changes_made) = self.control.changes();
        MuxSummary {
            interface: self.driver.card.name().to_owned(),
            driver: self.plan.settings.driver.name(),
            driver_mode: self.driver.mode,
            driver_threads: self.plan.settings.driver_threads,
            frames_in: self.mux.frames().came.items,
            frames_out: 0,
            answers: self.answers.sent.items,
            confined: self.confined.map(Into::into),
            connections: self.door.came,
            refused,
            changes,
            changes_made,
            signals: self.signals,
            engine_residual_items: u64::try_from(residual).unwrap_or(u64::MAX),
            clients: clients.collect(),
        }
    }
}

impl MuxPlan {
    /// How the kernel is to run this thread, and those that it starts.
    fn ask_for_cpu(&self, host: &Host) -> Result<(), MuxError> {
        if self.settings.slice_us > 0
            && let Err(error) = set_slice(u64::from(self.settings.slice_us) * 1_000)
        {
            host.warn(&error.to_string());
        }
        if let Some(priority) = self.settings.real_time {
            real_time(priority)?;
        }
        Ok(())
    }
}

impl System for MuxPlan {
    const HOPS: &'static [&'static str] = HOPS;
    type Summary = MuxSummary;
    type Error = MuxError;

    fn run(self, host: &Host) -> Result<Record<MuxSummary>, MuxError> {
        if let Some(duration_s) = self.settings.duration_s {
            host.stop.end_after(Duration::from_secs(duration_s));
        }
        // A client has five of them. Where there are no more, it is refused as it comes.
        let _ = raise_open_files();
        self.ask_for_cpu(host)?;
        let mut daemon = Daemon::open(self, &host.leak)?;
        if let Some(cpu) = daemon.plan.settings.cpu {
            pin_to_cpu(cpu)?;
        }
        let (plan, card) = (daemon.plan.clone(), daemon.driver.card.name().to_owned());
        let out = Some(plan.settings.directory.as_path()).filter(|it| !it.as_os_str().is_empty());
        let is_file = plan.settings.driver == DriverChoice::Pcap;
        let mark = (!is_file).then(|| mark(&card));
        if let Some(None) = mark {
            host.warn(&format!(
                "another multiplexer has {card} as well: with packet sockets each frame comes to both, and where one has the driver xdp, to that one alone; end one of them"
            ));
        }
        let mut books = Books::open(out, &plan, &card, &mut |line| host.warn(line))?;
        if plan.settings.confine {
            daemon.confined = Some(confine(&plan.settings, host)?);
            if plan.settings.driver == DriverChoice::Xdp {
                let counts = daemon.driver.receive.counts();
                counts.map_err(MuxError::ConfinedCounts)?;
            }
        }
        plan.small_bursts().for_each(|told| host.warn(&told));
        host.say(format_args!(
            "the multiplexer of {card} takes clients in at {}",
            plan.settings.socket.display()
        ));
        let worked = daemon.work(host, &mut books);
        let closed = daemon.close(worked, host.stop.urgency());
        for change in daemon.control.news() {
            host.say(format_args!("{change}"));
        }
        let mut end = RunEnd::in_order(host.stop.reason().unwrap_or(Reason::InputEnded));
        if let Err(error) = closed {
            (end.condition, end.reason) = (Condition::Interrupted, Reason::ConnectionLost);
            end.failed = Some(error.to_string());
        }
        let shown = books.show_end(&plan, &daemon.mux, &mut daemon.driver, &daemon.answers);
        if let Err(error) = shown {
            let text = format!("the card's counts are not those of the end: {error}");
            end.taints.push(Taint::new(TaintKind::PeerLost, text));
        }
        let mut summary = daemon.summary();
        summary.frames_out = daemon.driver.send.counts().map_or(0, |counts| counts.out);
        // The socket's file goes before the record says that it is over.
        drop(daemon);
        Ok(books.close(end, |_| summary)?)
    }
}
