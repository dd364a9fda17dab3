//! Subscriptions that were refused: asked for again, or not.

use forebay_msg::Refusal;
use forebay_msg::session::SessionError;

use super::{EndPoint, Role, dialled};
use crate::error::NetError;
use crate::lasting::Lasting;
use crate::settings::Backoff;

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
    pub(super) fn refused(&mut self, at: usize, reason: Result<Refusal, u32>) {
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
    pub(super) fn ask_again(&mut self) {
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
