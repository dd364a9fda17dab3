//! First the effect, then the acknowledgement: for callers that [gather](crate::Settings::gathers), and say themselves what took effect.

use std::collections::VecDeque;

use forebay_msg::session::Session;

use super::{EndPoint, Role};
use crate::books::{Books, Untaken};
use crate::viewed::Viewed;

/// Messages of one connection, delivered in a row.
#[derive(Debug)]
struct Run {
    connection: u64,
    messages: u64,
    bytes: u64,
}

/// What was delivered and not acknowledged, the oldest first. As long as what its caller has gathered.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    runs: VecDeque<Run>,
    /// Taken out, and not told to the peers yet.
    out: Vec<Run>,
}

impl Unsettled {
    /// A message was delivered.
    #[inline]
    pub(super) fn add(&mut self, connection: u64, bytes: u64) {
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
pub(super) struct Delivery<'a> {
    pub(super) books: &'a mut Books,
    pub(super) unsettled: &'a mut Unsettled,
    pub(super) connection: u64,
    pub(super) declines: bool,
    pub(super) gathers: bool,
    /// Messages and bytes of the connection that were given on to be delivered, from its begin.
    pub(super) handed: [u64; 2],
    /// Messages and bytes for which nobody will account any more.
    pub(super) through: [u64; 2],
}

impl Delivery<'_> {
    /// Takes what was read out of the connection's account.
    #[inline]
    pub(super) fn take(&mut self, viewed: Viewed<'_>, on: &mut impl FnMut(Viewed<'_>)) {
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
    pub(super) fn confirm_now(&mut self, at: usize, [messages, bytes]: [u64; 2]) {
        if messages > 0 {
            self.settle();
            self.connections[at].session.confirm(messages, bytes);
        }
    }
}
