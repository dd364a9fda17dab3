//! What all end points have in common: connections come and go, frames are read and written, clocks looked at, books kept.

use std::time::Duration;

use forebay_ledger::{Condition, Reason};
use forebay_link::bytes::{Address, ByteLink, listen};
use forebay_msg::session::{Agreed, Dialer, Listener, Session};
use forebay_msg::{Entry, Outbound, Refusal, Role as Wants, Slow};
use forebay_sys::clock;
use forebay_wire::netio3::Message;

use super::books::Books;
use super::connection::{Connection, FRAMES_PER_TURN_MAX, Parted, Step};
use super::counts::Counts;
use super::dial::Dial;
use super::entrance::Entrance;
use super::error::NetError;
use super::hub::Hub;
use super::settings::Settings;
use super::summary::{ConnectionSummary, NetSummary};
use crate::error::RunError;

/// Doors, dials and clocks are looked at so often while there is traffic, in ns.
const TEND_NS: u64 = 200_000;
/// Connections beyond those that are served, to tell them so.
const TURNED_AWAY_MAX: usize = 16;
/// Longest sleep, in ns: an order to end costs this much.
const SLEEP_NS: u64 = 50_000_000;

/// A connection of an end point. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub(super) u64);

/// A message, and from whom it is.
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'a> {
    /// The connection.
    pub peer: PeerId,
    /// The message.
    pub message: Message<'a>,
}

/// What differs between end points.
pub(super) trait Role {
    /// Its name.
    const NAME: &'static str;
    /// What who connects wants: a side that listens serves it, a side that connects asks for it.
    const WANTS: Wants;
    /// A connection is made.
    fn opened(&mut self, id: u64, agreed: &Agreed) -> Result<(), forebay_msg::ConfigError>;
    /// The sending end of a connection.
    fn outbound(&mut self, id: u64) -> Option<&mut Outbound>;
    /// The receiver of a connection wants no more.
    fn left(&mut self, _id: u64) {}
    /// A connection is gone: its sending end.
    fn gone(&mut self, id: u64) -> Option<Outbound>;
    /// Subscriptions begin or end.
    fn subscribe(&mut self, _id: u64, _begin: bool, _entries: Vec<Entry>) -> Option<Refusal> {
        Some(Refusal::Role)
    }
    /// What this side asks for of whom it connects to.
    fn entries(&self) -> &[Entry] {
        &[]
    }
    /// Whether it sends to a sender, too.
    fn answers(&self) -> bool {
        false
    }
    /// How it wants to be treated when it is too slow.
    fn slow(&self) -> Slow {
        Slow::Block
    }
    /// Closes buffers whose time has come.
    fn handle_time(&mut self, _now_ns: u64) {}
    /// When that is.
    fn poll_timeout(&self) -> Option<u64> {
        None
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
    connections: Vec<Connection>,
    /// Places of accounts that no connection has.
    free_slots: Vec<usize>,
    next_id: u64,
    epoch: u64,
    next_tend_ns: u64,
    pub(super) ending: bool,
    made: u64,
    summary: NetSummary,
    /// Why the last connection ended.
    pub(super) last_trouble: Option<String>,
}

impl<R: Role> EndPoint<R> {
    fn new(role: R, settings: &Settings) -> Result<Self, NetError> {
        settings.messages.validate()?;
        let places = settings.connections_max.clamp(1, 4096);
        let books = Books::open(
            R::NAME,
            places,
            settings.out.as_deref(),
            settings.leak.clone(),
        )?;
        Ok(Self {
            role,
            settings: settings.clone(),
            books,
            now_ns: clock::monotonic_ns(),
            hub: Hub::new()?,
            entrance: None,
            dials: Vec::new(),
            connections: Vec::new(),
            free_slots: (0..places).rev().collect(),
            next_id: 0,
            epoch: clock::realtime_ns(),
            next_tend_ns: 0,
            ending: false,
            made: 0,
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
        let door = listen(address, settings.room())?;
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
            let dial = Dial::new(address.clone(), settings.backoff, end_point.now_ns);
            end_point.dials.push(dial);
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
        let open = |connection: &&Connection| connection.session.agreed().is_some();
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

    /// Whether nobody is connected any more; everybody whom this side connects to was there once, or else somebody.
    pub(super) fn has_ended(&self) -> bool {
        let met = self.dials.iter().all(|dial| dial.was_made);
        self.made > 0 && met && self.open_connections() == 0
    }

    /// One round over everything; whether anything happened.
    pub(super) fn turn(&mut self, on: &mut impl FnMut(Delivered<'_>)) -> Result<bool, NetError> {
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

    /// Reads and writes one connection.
    fn serve(&mut self, at: usize, on: &mut impl FnMut(Delivered<'_>)) -> Result<bool, Parted> {
        let mut frames = FRAMES_PER_TURN_MAX;
        let mut busy = false;
        let read = loop {
            let Self {
                role,
                connections,
                books,
                ..
            } = self;
            let connection = &mut connections[at];
            let outbound = role.outbound(connection.id);
            let mut deliver = |id, message: Message<'_>| {
                if books.leaks("deliver") {
                    return;
                }
                books.delivered(message.payload.len() as u64);
                on(Delivered {
                    peer: PeerId(id),
                    message,
                });
            };
            match connection.read(self.now_ns, outbound, &mut frames, &mut deliver) {
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
        let outbound = self.role.outbound(connection.id);
        connection.write(self.now_ns, outbound)
    }

    fn act(&mut self, at: usize, step: Step) -> Result<(), Parted> {
        let connection = &mut self.connections[at];
        match step {
            Step::Idle { .. } => {}
            Step::Opened(agreed) => {
                self.made += 1;
                if self.role.opened(connection.id, &agreed).is_err() {
                    // The limits were held against our own; nothing is left that could be wrong.
                    return Err(Parted::Over);
                }
                let room = Settings {
                    messages: forebay_msg::Config {
                        buffer_bytes: agreed.buffer_bytes,
                        ..self.settings.messages
                    },
                    ..self.settings.clone()
                }
                .room();
                connection.expect(room.piece_bytes_max)?;
                if let Some(dial) = connection.dial {
                    self.dials[dial].made();
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
            Step::Refused(reason) => {
                let peer = connection.peer();
                tracing::warn!(peer, ?reason, "a subscription was refused");
            }
        }
        Ok(())
    }

    /// Asks for subscriptions on all connections.
    pub(super) fn ask(&mut self, begin: bool, entries: &[Entry]) {
        let bytes_max = self.settings.room().piece_bytes_max;
        for connection in &mut self.connections {
            if connection.session.agreed().is_some() {
                connection.session.subscribe(0, begin, entries, bytes_max);
            }
        }
        self.next_tend_ns = 0;
    }

    /// Gives full buffers to the links.
    pub(super) fn pump(&mut self) {
        let mut at = 0;
        while at < self.connections.len() {
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
        let mut at = 0;
        while at < self.connections.len() {
            let connection = &mut self.connections[at];
            let slow = self
                .role
                .outbound(connection.id)
                .is_some_and(|end| end.is_given_up());
            let tended = if slow {
                Err(Parted::Slow {
                    peer: connection.peer().to_owned(),
                })
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
            let counts = Counts::of(&connection.session, outbound.as_deref(), [0; 2]);
            self.books
                .settle(connection.slot, &connection.counted, &counts);
            connection.counted = counts;
        }
        self.books.commit(self.now_ns);
    }

    fn admit(&mut self, link: Box<dyn ByteLink>) {
        let places = self.settings.connections_max.clamp(1, 4096);
        let slot = self.free_slots.pop();
        if slot.is_none() && self.connections.len() >= places + TURNED_AWAY_MAX {
            *self.summary.parted.entry("busy").or_default() += 1;
            return;
        }
        let closed = match slot {
            None => Some(Refusal::Busy),
            Some(_) => self.ending.then_some(Refusal::Ending),
        };
        self.epoch += 1;
        let listener = Listener {
            serves: R::WANTS,
            answers: self.role.answers(),
            epoch: self.epoch,
            closed,
        };
        let limits = self.settings.limits();
        let session = Session::listen(listener, limits, self.settings.timing, self.now_ns);
        self.keep(link, session, None, slot);
    }

    fn dial(&mut self) -> Result<(), NetError> {
        if self.ending {
            return Ok(());
        }
        let room = self.settings.room();
        for at in 0..self.dials.len() {
            let Some(link) = self.dials[at].attempt(self.now_ns, room)? else {
                continue;
            };
            let dialer = Dialer {
                role: R::WANTS,
                slow: self.role.slow(),
                identity: self.epoch,
            };
            let limits = self.settings.limits();
            let session = Session::dial(dialer, limits, self.settings.timing, self.now_ns);
            let slot = self.free_slots.pop();
            self.keep(link, session, Some(at), slot);
        }
        Ok(())
    }

    fn keep(
        &mut self,
        link: Box<dyn ByteLink>,
        session: Session,
        dial: Option<usize>,
        slot: Option<usize>,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        let place = slot.unwrap_or(usize::MAX);
        match Connection::new(id, link, session, dial, place, &self.hub) {
            Ok(connection) => self.connections.push(connection),
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be served");
                *self.summary.parted.entry("resource").or_default() += 1;
                self.free_slots.extend(slot);
                if let Some(dial) = dial {
                    self.dials[dial].lost(self.now_ns, error.to_string());
                }
            }
        }
    }

    /// A connection is over: closes its account.
    fn part(&mut self, at: usize, parted: &Parted) {
        let mut connection = self.connections.remove(at);
        let outbound = self.role.gone(connection.id).map(|mut outbound| {
            let before = outbound.totals();
            outbound.abandon(|_, _| {});
            let after = outbound.totals();
            let lost = [
                after.messages_dropped - before.messages_dropped,
                after.bytes_dropped - before.bytes_dropped,
            ];
            (outbound, lost)
        });
        let lost = outbound.as_ref().map_or([0; 2], |(_, lost)| *lost);
        let outbound = outbound.map(|(outbound, _)| outbound);
        let counts = Counts::of(&connection.session, outbound.as_ref(), lost);
        self.books
            .settle(connection.slot, &connection.counted, &counts);
        if connection.slot != usize::MAX {
            self.free_slots.push(connection.slot);
        }
        let reason = parted.reason();
        let peer_known = connection.session.agreed().is_some();
        if connection.dial.is_some() && !peer_known {
            // It is tried again; who waits for it says so when he waits no longer.
            tracing::info!(
                peer = connection.peer(),
                reason,
                "no connection yet: {parted}"
            );
            self.last_trouble = Some(parted.to_string());
        } else if !peer_known {
            // A stranger: counted, and not worth a line for each.
            tracing::info!(
                peer = connection.peer(),
                reason,
                "a stranger is let go: {parted}"
            );
        } else if !matches!(parted, Parted::Over) {
            tracing::warn!(
                peer = connection.peer(),
                reason,
                "a connection is lost: {parted}"
            );
            self.last_trouble = Some(parted.to_string());
        }
        let mut summary = ConnectionSummary::of(connection.peer(), reason, &counts);
        if let Some(outbound) = &outbound {
            let sent = outbound.totals().messages;
            match connection.session.farewell() {
                Some(took) => {
                    summary.missing_at_peer = Some(sent as i64 - took.messages as i64);
                }
                None => summary.unconfirmed = outbound.unconfirmed()[0],
            }
        }
        if peer_known || connection.dial.is_none() {
            self.summary.add(summary);
        }
        let refusal = matches!(parted, Parted::Slow { .. }).then_some(Refusal::Busy);
        connection.part(&self.hub, refusal);
        if let Some(dial) = connection.dial {
            self.dials[dial].lost(self.now_ns, parted.to_string());
        }
    }

    /// Why nothing goes on, as far as it is known.
    pub(super) fn trouble(&self) -> String {
        let dialled = self.dials.iter().find_map(|dial| dial.trouble.clone());
        let known = dialled.or_else(|| self.last_trouble.clone());
        known.unwrap_or_else(|| "nothing is known to be wrong".into())
    }

    /// Goes on until something happens or the time is over.
    pub(super) fn wait(
        &mut self,
        most: Duration,
        on: &mut impl FnMut(Delivered<'_>),
    ) -> Result<bool, NetError> {
        let begun_ns = clock::monotonic_ns();
        let until_ns = begun_ns.saturating_add(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX));
        let spin_until_ns = begun_ns.saturating_add(self.settings.spin_ns).min(until_ns);
        loop {
            if self.turn(on)? {
                return Ok(true);
            }
            if self.now_ns >= until_ns {
                return Ok(false);
            }
            if self.now_ns >= spin_until_ns {
                self.sleep(until_ns)?;
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn sleep(&mut self, until_ns: u64) -> Result<(), NetError> {
        let mut polled = self.entrance.as_ref().is_some_and(Entrance::must_be_polled);
        let mut quiet = true;
        let mut wake_ns = until_ns.min(self.now_ns + SLEEP_NS);
        let mut broken = None;
        for (at, connection) in self.connections.iter_mut().enumerate() {
            polled |= connection.must_be_polled();
            wake_ns = wake_ns.min(connection.poll_timeout());
            match connection.arm(&self.hub) {
                Ok(asleep) => quiet &= asleep,
                Err(parted) => broken = Some((at, parted)),
            }
        }
        let dials = self.dials.iter().filter_map(Dial::due_ns);
        let due = dials.chain(self.role.poll_timeout()).min();
        wake_ns = wake_ns
            .min(due.unwrap_or(u64::MAX))
            .min(self.books.next_commit_ns());
        if quiet && broken.is_none() {
            let most = Duration::from_nanos(wake_ns.saturating_sub(self.now_ns));
            self.hub.sleep(most, polled)?;
        }
        for connection in &mut self.connections {
            connection.disarm();
        }
        if let Some((at, parted)) = broken {
            self.part(at, &parted);
        }
        self.next_tend_ns = 0;
        Ok(())
    }

    fn say_end(connection: &mut Connection) {
        let sends = connection
            .session
            .agreed()
            .is_some_and(|agreed| agreed.sends);
        if sends {
            connection.session.end();
        } else {
            connection.session.leave();
        }
    }

    /// Asks all connections to end.
    pub(super) fn end(&mut self) {
        self.ending = true;
        self.next_tend_ns = 0;
        for connection in &mut self.connections {
            Self::say_end(connection);
        }
    }

    /// Ends what this side sends to peers that have ended.
    pub(super) fn end_with_the_ended(&mut self) {
        for connection in &mut self.connections {
            if connection.session.peer_end().is_some() && !connection.session.is_ending() {
                connection.session.end();
            }
        }
    }

    /// Ends in order within `limit`, and closes the books.
    pub(super) fn finish(
        &mut self,
        limit: Duration,
        on: &mut impl FnMut(Delivered<'_>),
    ) -> Result<NetSummary, NetError> {
        if !self.ending {
            self.end();
        }
        let until_ns = clock::monotonic_ns().saturating_add(limit.as_nanos() as u64);
        // Whoever has not greeted by now has nothing to say.
        let known = |connection: &Connection| connection.session.agreed().is_some();
        while self.connections.iter().any(known) && self.now_ns < until_ns {
            self.wait(Duration::from_millis(10), on)?;
        }
        let in_order = !self.connections.iter().any(known);
        while !self.connections.is_empty() {
            let peer = self.connections[0].peer().to_owned();
            self.part(0, &Parted::Cut { peer });
        }
        self.settle();
        let mut summary = std::mem::take(&mut self.summary);
        summary.take(&self.books.balance()?);
        summary.connections_made = self.made;
        summary.attempts = self.dials.iter().map(|dial| dial.attempts).sum();
        let condition = match (in_order, summary.is_closed()) {
            (_, false) | (false, _) => Condition::Tainted,
            _ => Condition::Complete,
        };
        let reason = if summary.is_closed() {
            Reason::Requested
        } else {
            Reason::Residual
        };
        self.books.close(condition, reason);
        let record = serde_json::to_string_pretty(&summary);
        self.books
            .keep(&record.map_err(RunError::not_sayable("record"))?)?;
        Ok(summary)
    }
}
