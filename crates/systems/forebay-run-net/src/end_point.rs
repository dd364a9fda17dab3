//! What all end points have in common: connections come and go, frames are read and written, clocks looked at, books kept.

mod acknowledging;
mod asking;
mod comings;
mod ending;
mod following;
mod role;
mod waiting;

use forebay_link::bytes::{Address, listen};
use forebay_msg::Entry;
use forebay_sys::clock;

use crate::books::Books;
use crate::connection::{Connection, FRAMES_PER_TURN_MAX, Parted, Step};
use crate::counts::Counts;
use crate::dial::Dial;
use crate::entrance::Entrance;
use crate::error::NetError;
use crate::hub::Hub;
use crate::leaving::Leaving;
use crate::lends::Lends;
use crate::settings::Settings;
use crate::summary::NetSummary;
use crate::viewed::{ApartCopier, Delivered, Viewed};
use acknowledging::{Delivery, Unsettled};
pub(super) use asking::{Asking, is_final, told};
use following::dialled;
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

    /// Whether nobody is connected any more; all whom this side connects to have ended in order, or else somebody was there.
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

    /// Signals so far.
    pub(super) fn stops(&self) -> u32 {
        let signals = self.settings.signals.as_ref();
        signals.map_or(0, |signals| signals.count())
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
