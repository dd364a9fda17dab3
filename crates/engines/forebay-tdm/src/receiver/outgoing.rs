//! Control datagrams that wait to be sent.

use std::net::SocketAddr;

use forebay_wire::tdm::{Kind, Message, Probe, Refusal, RefuseReason, Reply};

use super::Receiver;

/// So many wait; more are dropped and counted, and asked for again by their senders.
const OUTGOING_MAX: usize = 4096;

/// Whom a datagram concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whom {
    pub(super) session: u64,
    pub(super) to: SocketAddr,
    pub(super) sender: u16,
    pub(super) start: u8,
}

/// One that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) whom: Whom,
    pub(super) message: Message<'static>,
    pub(super) stamp: Option<u64>,
}

impl Receiver {
    pub(super) fn answer(&mut self, sender: u16, probe: Probe, came_ns: u64) {
        let answer = self.answers;
        self.answers = answer.wrapping_add(1);
        let reply = Reply {
            sequence: probe.sequence,
            answer: u32::from(answer),
            came_ns,
        };
        if let Some(whom) = self.whom(sender) {
            let places = u64::from(sender) << 48 | u64::from(answer) << 32;
            let stamp = Some(places | u64::from(probe.sequence));
            self.enqueue(whom, Message::Reply(reply), stamp);
        }
    }

    pub(super) fn whom(&self, sender: u16) -> Option<Whom> {
        let peer = self.peers.get(usize::from(sender))?;
        Some(Whom {
            session: self.config.session,
            to: peer.from,
            sender,
            start: peer.start,
        })
    }

    pub(super) fn push(&mut self, sender: u16, message: Message<'static>) {
        if let Some(whom) = self.whom(sender) {
            self.enqueue(whom, message, None);
        }
    }

    /// Tells somebody that the receiver does not know it, in the name of the session that it believes in: it would not listen to another one's.
    pub(super) fn send_away(&mut self, whom: Whom, kind: Kind) {
        // Not for each packet of data, and never to another receiver.
        if matches!(kind, Kind::Probe | Kind::Ready | Kind::Report | Kind::End) {
            let refusal = Refusal {
                nonce: 0,
                reason: RefuseReason::NoSession,
            };
            self.enqueue(whom, Message::Refuse(refusal), None);
        }
    }

    pub(super) fn enqueue(&mut self, whom: Whom, message: Message<'static>, stamp: Option<u64>) {
        if self.outgoing.len() < OUTGOING_MAX {
            self.outgoing.push_back(Outgoing {
                whom,
                message,
                stamp,
            });
        } else {
            self.unsent += 1;
        }
    }
}
