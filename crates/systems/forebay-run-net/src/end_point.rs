//! What all end points have in common: connections come and go, frames are read and written, clocks looked at, books kept.

mod comings;
mod role;
mod waiting;

use std::collections::VecDeque;
use std::time::Duration;

use forebay_link::bytes::{Address, listen};
use forebay_msg::session::{Session, SessionError};
use forebay_msg::{Entry, Refusal};
use forebay_run::{Stop, Urgency};
use forebay_sys::clock;

use crate::books::{Books, Untaken};
use crate::connection::{Connection, FRAMES_PER_TURN_MAX, Parted, Step};
use crate::counts::Counts;
use crate::dial::Dial;
use crate::end_point::comings::dialled;
use crate::entrance::Entrance;
use crate::error::NetError;
use crate::hub::Hub;
use crate::lasting::Lasting;
use crate::leaving::Leaving;
use crate::lends::Lends;
use crate::settings::{Backoff, Settings};
use crate::summary::{NetRecord, NetSummary};
use crate::viewed::{ApartCopier, Delivered, Viewed};
pub(super) use role::Role;
pub use waiting::Doze;

/// Doors, dials and clocks are looked at so often while there is traffic, in ns.
const TEND_NS: u64 = 200_000;
/// Longest sleep, in ns: an order to end costs this much.
const SLEEP_NS: u64 = 50_000_000;

/// A connection of an end point. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub(super) u64);

impl From<u64> for PeerId {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

#[derive(Debug)]
pub(super) struct EndPoint<R> {
    pub(super) role: R,
    pub(super) settings: Settings,
    pub(super) books: Books,
    pub(super) now_ns: u64,
    hub: Hub,
    entrance: Option<Entrance>,
    dials: Vec<Dial>,
    next_dial: usize,
    /// It goes by a bus: what has vanished from there and is not connected is forgotten.
    follows: bool,
    /// There are more on the bus than are followed.
    is_crowded: bool,
    /// Attempts to connect to those that are forgotten.
    forgotten_attempts: u64,
    connections: Vec<Connection>,
    leaving: Leaving,
    /// Memory of the user's, from which messages go out.
    pub(super) lends: Lends,
    copier: ApartCopier,
    /// Links were asked to wake this side.
    is_armed: bool,
    /// Places of accounts that no connection has.
    free_slots: Vec<usize>,
    next_id: u64,
    epoch: u64,
    next_tend_ns: u64,
    /// Credit is looked for again then.
    next_look_ns: u64,
    looks_in_vain: u32,
    pub(super) ending: bool,
    /// Nobody takes any more what comes.
    pub(super) declines: bool,
    unsettled: Unsettled,
    made: u64,
    /// A connection ended otherwise than in order.
    tainted: bool,
    /// Something that came could not be written.
    unwritten: bool,
    summary: NetSummary,
    /// Why the last connection ended.
    pub(super) last_trouble: Option<String>,
}

impl<R: Role> EndPoint<R> {
    fn new(role: R, settings: &Settings) -> Result<Self, NetError> {
        settings.messages.validate()?;
        let places = settings.connections_max.clamp(1, 4096);
        let books = Books::open(R::NAME, places, settings)?;
        if let Some(shown) = &settings.shown {
            shown.add_places(books.reader()?);
        }
        Ok(Self {
            role,
            settings: settings.clone(),
            books,
            now_ns: clock::monotonic_ns(),
            hub: Hub::new()?,
            entrance: None,
            dials: Vec::new(),
            next_dial: 0,
            follows: false,
            is_crowded: false,
            forgotten_attempts: 0,
            connections: Vec::new(),
            leaving: Leaving::default(),
            lends: Lends::default(),
            copier: ApartCopier::default(),
            is_armed: false,
            free_slots: (0..places).rev().collect(),
            next_id: 0,
            epoch: clock::realtime_ns(),
            next_tend_ns: 0,
            next_look_ns: 0,
            looks_in_vain: 0,
            ending: false,
            declines: false,
            unsettled: Unsettled::default(),
            made: 0,
            tainted: false,
            unwritten: false,
            summary: NetSummary::default(),
            last_trouble: None,
        })
    }

    pub(super) fn listen(
        role: R,
        address: &Address,
        settings: &Settings,
    ) -> Result<Self, NetError> {
        // First of all: an address in use shall leave nothing behind.
        let door = listen(address, settings.terms())?;
        let mut end_point = Self::new(role, settings)?;
        end_point.entrance = Some(Entrance::open(door, &end_point.hub)?);
        Ok(end_point)
    }

    pub(super) fn connect(
        role: R,
        addresses: &[Address],
        settings: &Settings,
    ) -> Result<Self, NetError> {
        let mut end_point = Self::new(role, settings)?;
        for address in addresses {
            // One that is named twice would send everything twice.
            if !end_point.dials.iter().any(|dial| dial.address == *address) {
                end_point.add_dial(address);
            }
        }
        end_point.dial()?;
        Ok(end_point)
    }

    pub(super) fn address(&self) -> Result<Address, NetError> {
        match &self.entrance {
            Some(entrance) => Ok(entrance.address()?),
            None => Ok(self.dials[0].address.clone()),
        }
    }

    /// Connections whose peers are known.
    pub(super) fn open_connections(&self) -> usize {
        let open = |connection: &&Connection| connection.is_open();
        self.connections.iter().filter(open).count()
    }

    /// Whether a peer sends, too.
    pub(super) fn is_answered(&self) -> bool {
        let mut agreed = self
            .connections
            .iter()
            .filter_map(|one| one.session.agreed());
        agreed.any(|agreed| agreed.receives)
    }

    /// How often a connection was made.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Whether no peer is connected any more; all that this side connects to have ended in order, or else one was there.
    pub(super) fn has_ended(&self) -> bool {
        let mut wanted = self.dials.iter().filter(|dial| !dial.is_retired());
        let ended = wanted.all(|dial| dial.has_ended);
        self.made > 0 && ended && self.open_connections() == 0
    }

    /// Whether every peer that is connected has said all that it had to say: it waits for what it sent to be confirmed, if for anything.
    pub(super) fn has_heard_all(&self) -> bool {
        let mut open = self.connections.iter().filter(|one| one.is_open());
        open.all(|one| one.session.has_heard_all())
    }

    /// Those that this side connects to, and that have ended in order and not come back since.
    pub(super) fn ended(&self) -> usize {
        self.dials.iter().filter(|dial| dial.has_ended).count()
    }

    /// How fast it shall end.
    pub(super) fn urgency(&self) -> Urgency {
        let stop = self.settings.stop.as_ref();
        stop.map_or(Urgency::Go, Stop::urgency)
    }

    /// One round over everything; whether anything happened.
    pub(super) fn turn(&mut self, on: &mut impl FnMut(Viewed<'_>)) -> Result<bool, NetError> {
        self.now_ns = clock::monotonic_ns();
        if self.now_ns >= self.next_tend_ns {
            self.tend()?;
        }
        let mut progress = false;
        let mut at = 0;
        while at < self.connections.len() {
            match self.serve(at, on) {
                Ok(busy) => {
                    progress |= busy;
                    at += 1;
                }
                Err(parted) => {
                    progress = true;
                    self.part(at, &parted);
                }
            }
        }
        Ok(progress)
    }

    /// Writes and says that this side is there, but reads nothing: what comes waits where it is.
    pub(super) fn stay(&mut self) -> Result<(), NetError> {
        self.now_ns = clock::monotonic_ns();
        for connection in &mut self.connections {
            connection.session.handle_deafness(self.now_ns);
        }
        if self.now_ns >= self.next_tend_ns {
            self.tend()?;
        }
        self.pump();
        Ok(())
    }

    /// Reads and writes one connection.
    fn serve(&mut self, at: usize, on: &mut impl FnMut(Viewed<'_>)) -> Result<bool, Parted> {
        let mut frames = FRAMES_PER_TURN_MAX;
        if self.connections[at].is_stranger() {
            let closed = self.closed();
            self.connections[at].session.turn_away(closed);
        }
        let mut busy = false;
        let read = loop {
            let Self {
                role,
                connections,
                books,
                declines,
                unsettled,
                settings,
                ..
            } = self;
            let connection = &mut connections[at];
            let outbound = role.outbound(connection.id);
            let mut delivery = Delivery {
                books,
                unsettled,
                connection: connection.id,
                declines: *declines,
                gathers: settings.gathers,
                handed: connection.handed,
                through: [0; 2],
            };
            // What the caller is called with is counted beside the call, and not with what is on its way there.
            let mut given = [0; 2];
            let mut call = |viewed: Viewed<'_>| {
                given = [given[0] + 1, given[1] + viewed.payload.len() as u64];
                on(viewed);
            };
            let mut take = |viewed: Viewed<'_>| delivery.take(viewed, &mut call);
            let read = connection.read(self.now_ns, outbound, &mut frames, &mut take);
            let through = delivery.through;
            connection.handed = delivery.handed;
            self.books.delivered(given, self.settings.gathers);
            self.confirm_now(at, through);
            match read {
                Ok(Step::Idle { read }) => break Ok(read),
                Ok(step) => {
                    busy = true;
                    self.act(at, step)?;
                }
                Err(parted) => break Err(parted),
            }
        };
        // What is read may have to be answered, also when it was the last.
        let wrote = self.write(at);
        Ok(read? | wrote? | busy)
    }

    fn write(&mut self, at: usize) -> Result<bool, Parted> {
        let connection = &mut self.connections[at];
        let mut outbound = self.role.outbound(connection.id);
        if let Some(outbound) = &mut outbound {
            connection.take_back(outbound);
            while let Some(number) = outbound.returned() {
                self.lends.returned(number);
            }
        }
        connection.write(self.now_ns, outbound, &self.lends)
    }

    fn act(&mut self, at: usize, step: Step) -> Result<(), Parted> {
        let connection = &mut self.connections[at];
        match step {
            Step::Idle { .. } => {}
            Step::Opened(agreed) => {
                self.made += 1;
                if connection.slot == usize::MAX {
                    // It was asked before whether there is one.
                    connection.slot = self.free_slots.pop().unwrap_or(usize::MAX);
                }
                let buffers = connection.buffers(&agreed)?;
                if self.role.opened(connection.id, &agreed, buffers).is_err() {
                    // The limits were held against our own; nothing is left that could be wrong.
                    return Err(Parted::Over);
                }
                let room = self.settings.room_of(agreed.buffer_bytes);
                connection.expect(room.piece_bytes_max)?;
                if let Some(dial) = dialled(&mut self.dials, connection.dial) {
                    dial.made();
                }
                if self.settings.gathers {
                    connection.session.confirm_by_hand();
                }
                let entries = self.role.entries();
                connection
                    .session
                    .subscribe(0, true, entries, room.piece_bytes_max);
                if self.ending {
                    Self::say_end(connection);
                }
                tracing::info!(peer = connection.peer(), "connected");
            }
            Step::Subscribe {
                request,
                begin,
                entries,
            } => {
                let refusal = self.role.subscribe(connection.id, begin, entries);
                connection.session.answer(request, refusal);
            }
            Step::Left => self.role.left(connection.id),
            Step::Refused(reason) => self.refused(at, reason),
        }
        Ok(())
    }

    /// Asks for subscriptions on all connections.
    pub(super) fn ask(&mut self, begin: bool, entries: &[Entry]) {
        for connection in &mut self.connections {
            if let Some(agreed) = connection.session.agreed() {
                let bytes_max = self.settings.room_of(agreed.buffer_bytes).piece_bytes_max;
                connection.session.subscribe(0, begin, entries, bytes_max);
                if let Some(dial) = dialled(&mut self.dials, connection.dial) {
                    // What is wanted now is another matter.
                    dial.refusal = None;
                }
            }
        }
        self.next_tend_ns = 0;
    }

    /// Gives full buffers to the links.
    pub(super) fn pump(&mut self) {
        let mut at = 0;
        while at < self.connections.len() {
            if self.connections[at].is_blocked() {
                // Its turn comes when there is room.
                at += 1;
                continue;
            }
            match self.write(at) {
                Ok(_) => at += 1,
                Err(parted) => self.part(at, &parted),
            }
        }
    }

    /// Lets in, connects, looks at the clock, shows the books.
    fn tend(&mut self) -> Result<(), NetError> {
        let now_ns = self.now_ns;
        self.next_tend_ns = now_ns + TEND_NS;
        if let Some(entrance) = &mut self.entrance {
            for link in entrance.accept(&self.hub, now_ns) {
                self.admit(link);
            }
        }
        self.dial()?;
        self.role.handle_time(now_ns);
        self.ask_again();
        let mut at = 0;
        while at < self.connections.len() {
            let connection = &mut self.connections[at];
            let slow = self
                .role
                .outbound(connection.id)
                .is_some_and(|end| end.is_given_up());
            let tended = if slow && !connection.is_let_go() {
                self.let_go(at)
            } else {
                connection.tend(now_ns)
            };
            match tended {
                Ok(()) => at += 1,
                Err(parted) => self.part(at, &parted),
            }
        }
        if self.books.is_due(now_ns) {
            self.settle();
        }
        Ok(())
    }

    /// Brings the books up to date.
    pub(super) fn settle(&mut self) {
        for connection in &mut self.connections {
            let outbound = self.role.outbound(connection.id);
            let outbound = outbound.as_deref();
            let counts = Counts::of(&connection.session, outbound, connection.handed);
            self.books
                .settle(connection.slot, &connection.counted, &counts);
            connection.counted = counts;
        }
        self.books.commit(self.now_ns);
    }

    /// Why nothing goes on, as far as it is known.
    pub(super) fn trouble(&self) -> String {
        let dialled = self.dials.iter().find_map(|dial| dial.trouble.clone());
        let known = dialled.or_else(|| self.last_trouble.clone());
        known.unwrap_or_else(|| "nobody has answered yet".into())
    }
}

// Subscriptions that were refused: asked for again, or not.
/// When a connection asks again for what was refused to it.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    due_ns: Option<u64>,
    wait_ns: u64,
}

impl Asking {
    /// It was refused for now; each wait is twice as long as the one before.
    fn later(&mut self, backoff: Backoff, now_ns: u64) {
        self.wait_ns = (self.wait_ns * 2).clamp(backoff.first_ns, backoff.most_ns);
        self.due_ns = Some(now_ns + self.wait_ns);
    }

    /// Whether it is time to ask again; it is told once.
    fn is_due(&mut self, now_ns: u64) -> bool {
        self.due_ns.take_if(|due_ns| now_ns >= *due_ns).is_some()
    }
}

/// Whether it would be refused again; a reason that is not known here will not be understood later either.
pub(crate) fn is_final(reason: Result<Refusal, u32>) -> bool {
    !matches!(reason, Ok(Refusal::Busy | Refusal::Ending))
}

/// The reason's name, and what it means.
pub(crate) fn told(reason: Result<Refusal, u32>) -> String {
    let name = reason.map_or("unknown", Refusal::name);
    format!("{name}: {}", SessionError::Refused { reason })
}

impl<R: Role> EndPoint<R> {
    /// A subscription was refused.
    fn refused(&mut self, at: usize, reason: Result<Refusal, u32>) {
        let connection = &mut self.connections[at];
        let peer = connection.peer();
        tracing::warn!(peer, ?reason, "a subscription was refused");
        if !is_final(reason) {
            connection.asking.later(self.settings.backoff, self.now_ns);
        } else if let Some(dial) = dialled(&mut self.dials, connection.dial) {
            dial.refusal = Some(Lasting::Refused {
                peer: dial.address.to_string(),
                why: told(reason),
            });
        }
    }

    /// Asks again where it is time.
    fn ask_again(&mut self) {
        for connection in &mut self.connections {
            let Some(agreed) = connection.session.agreed() else {
                continue;
            };
            if connection.asking.is_due(self.now_ns) {
                let room = self.settings.room_of(agreed.buffer_bytes);
                let entries = self.role.entries();
                connection
                    .session
                    .subscribe(0, true, entries, room.piece_bytes_max);
            }
        }
    }

    /// Nobody is left that does not refuse for good what this side asks for, or is no end point at all.
    pub(crate) fn check_refusals(&self) -> Result<(), NetError> {
        let mut wanted = self.dials.iter().filter(|dial| !dial.is_retired());
        let Some(first) = wanted.clone().next() else {
            return Ok(());
        };
        match &first.refusal {
            Some(why) if wanted.all(|dial| dial.refusal.is_some()) => Err(why.clone().into()),
            _ => Ok(()),
        }
    }
}

// First the effect, then the acknowledgement: for callers that [gather](crate::Settings::gathers), and say themselves what took effect.
/// Messages of one connection, delivered in a row.
#[derive(Debug)]
struct Run {
    connection: u64,
    messages: u64,
    bytes: u64,
}

/// What was delivered and not acknowledged, the oldest first. As long as what its caller has gathered.
#[derive(Debug, Default)]
struct Unsettled {
    runs: VecDeque<Run>,
    /// Taken out, and not told to the peers yet.
    out: Vec<Run>,
}

impl Unsettled {
    /// A message was delivered.
    #[inline]
    fn add(&mut self, connection: u64, bytes: u64) {
        match self.runs.back_mut() {
            Some(last) if last.connection == connection => {
                last.messages += 1;
                last.bytes += bytes;
            }
            _ => self.runs.push_back(Run {
                connection,
                messages: 1,
                bytes,
            }),
        }
    }

    /// Takes up to so many of the oldest messages out, with their bytes by its own count; only where they end within a row their bytes are the caller's. What
    /// is out waits to be told.
    fn take(&mut self, mut messages: u64, mut bytes: u64) -> [u64; 2] {
        let mut out = [0; 2];
        while messages > 0
            && let Some(first) = self.runs.front_mut()
        {
            let is_whole = first.messages <= messages;
            let run = Run {
                connection: first.connection,
                messages: messages.min(first.messages),
                bytes: if is_whole {
                    first.bytes
                } else {
                    bytes.min(first.bytes)
                },
            };
            first.messages -= run.messages;
            first.bytes -= run.bytes;
            if is_whole {
                self.runs.pop_front();
            }
            messages -= run.messages;
            bytes = bytes.saturating_sub(run.bytes);
            out = [out[0] + run.messages, out[1] + run.bytes];
            self.out.push(run);
        }
        out
    }
}

/// Messages of one connection on their way to the caller.
struct Delivery<'a> {
    books: &'a mut Books,
    unsettled: &'a mut Unsettled,
    connection: u64,
    declines: bool,
    gathers: bool,
    /// Messages and bytes of the connection that were given on to be delivered, from its begin.
    handed: [u64; 2],
    /// Messages and bytes for which nobody will account any more.
    through: [u64; 2],
}

impl Delivery<'_> {
    /// Takes what was read out of the connection's account.
    #[inline]
    fn take(&mut self, viewed: Viewed<'_>, on: &mut impl FnMut(Viewed<'_>)) {
        let bytes = viewed.payload.len() as u64;
        if self.books.leaks("receive") {
            return self.settled(bytes);
        }
        self.handed = [self.handed[0] + 1, self.handed[1] + bytes];
        if self.books.leaks("read") {
            return self.settled(bytes);
        }
        self.deliver(viewed, on);
    }

    /// Gives it to the caller, which accounts for it from then on if it gathers.
    #[inline]
    fn deliver(&mut self, viewed: Viewed<'_>, on: &mut impl FnMut(Viewed<'_>)) {
        let bytes = viewed.payload.len() as u64;
        self.books.arrived(viewed.tag, bytes);
        if self.books.leaks("deliver") {
            return self.settled(bytes);
        }
        if self.declines {
            self.books.declined(bytes);
            return self.settled(bytes);
        }
        on(viewed);
        if self.gathers {
            self.unsettled.add(self.connection, bytes);
        }
    }

    /// Nobody will account for a message any more.
    #[inline]
    fn settled(&mut self, bytes: u64) {
        if self.gathers {
            self.through = [self.through[0] + 1, self.through[1] + bytes];
        }
    }
}

impl<R: Role> EndPoint<R> {
    /// The oldest messages that were delivered have taken effect.
    pub(crate) fn taken(&mut self, messages: u64, bytes: u64) {
        self.books.taken(messages, bytes);
        self.acknowledge(messages, bytes, Session::confirm);
    }

    /// The oldest messages that were delivered were thrown away. Those that could not be written are confirmed to nobody.
    pub(crate) fn untaken(&mut self, why: Untaken, messages: u64, bytes: u64) {
        self.books.untaken(why, messages, bytes);
        self.unwritten |= why == Untaken::NotWritten && messages > 0;
        self.acknowledge(
            messages,
            bytes,
            match why {
                Untaken::NotWanted => Session::confirm,
                Untaken::NotWritten => |session, _, _| session.withhold(),
            },
        );
    }

    /// What a peer is told of is held no longer. Shows the books first: no peer is told of what they do not say. `tell` is given each connection's share, in
    /// messages and bytes.
    fn acknowledge(&mut self, messages: u64, bytes: u64, tell: fn(&mut Session, u64, u64)) {
        if messages == 0 || !self.settings.gathers {
            return;
        }
        let [messages, bytes] = self.unsettled.take(messages, bytes);
        self.books.released(messages, bytes);
        self.settle();
        for run in self.unsettled.out.drain(..) {
            let mut connections = self.connections.iter_mut();
            if let Some(of) = connections.find(|one| one.id == run.connection) {
                tell(&mut of.session, run.messages, run.bytes);
            }
        }
    }

    /// Messages of a connection that nobody will account for any more, by count and bytes.
    fn confirm_now(&mut self, at: usize, [messages, bytes]: [u64; 2]) {
        if messages > 0 {
            self.settle();
            self.connections[at].session.confirm(messages, bytes);
        }
    }
}

// The end, in order where that goes, and the books closed.
impl<R: Role> EndPoint<R> {
    fn say_end(connection: &mut Connection) {
        let agreed = connection.session.agreed();
        if agreed.is_some_and(|agreed| agreed.sends) {
            connection.session.end();
        }
        connection.session.leave();
    }

    /// Asks all connections to end.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        self.next_tend_ns = 0;
        for connection in &mut self.connections {
            Self::say_end(connection);
        }
    }

    /// Ends what this side sends to peers that have ended.
    pub(crate) fn end_with_the_ended(&mut self) {
        for connection in &mut self.connections {
            if connection.session.peer_end().is_some() && !connection.session.is_ending() {
                connection.session.end();
            }
        }
    }

    /// Ends in order within `limit`, and closes the books.
    pub(crate) fn finish(
        &mut self,
        limit: Duration,
        on: &mut impl FnMut(Viewed<'_>),
    ) -> Result<NetRecord, NetError> {
        if !self.ending {
            self.end();
        }
        let until_ns = clock::monotonic_ns().saturating_add(limit.as_nanos() as u64);
        // A peer that has not greeted by now has nothing to say.
        let known = |connection: &Connection| connection.session.agreed().is_some();
        let before = self.urgency();
        while self.connections.iter().any(known)
            && self.now_ns < until_ns
            && self.urgency().is_still(before)
        {
            self.wait(Duration::from_millis(10), on)?;
        }
        // What has taken effect is confirmed, also to a peer that waits in vain for more of it.
        self.give_credit();
        let in_order = self.has_heard_all();
        while !self.connections.is_empty() {
            let peer = self.connections[0].peer().to_owned();
            self.part(0, &Parted::Late { peer });
        }
        self.settle();
        let mut summary = std::mem::take(&mut self.summary);
        summary.tags = self.books.tags();
        if let Some(entrance) = &self.entrance {
            summary.turned_away = entrance.turned_away();
            summary.accept_errors = entrance.errors;
        }
        summary.connections_made = self.made;
        let attempts = self.dials.iter().map(|dial| dial.attempts);
        summary.attempts = self.forgotten_attempts + attempts.sum::<u64>();
        summary.output_removed = self.books.removed_output()?;
        // Everything is counted now: what the audit will say.
        summary.take(&self.books.verdict_at_end()?);
        let in_order = in_order && !self.tainted;
        let taints = summary.taints(!self.unwritten, in_order);
        let envelope = self.books.close(taints)?;
        let mut record = NetRecord { envelope, summary };
        self.books.keep(&mut record)?;
        Ok(record)
    }
}
