//! The way to the front ends: packets into messages, and messages to their takers.

use forebay_ledger::{DropReason, PerReason, reasons};
use forebay_wire::felix::{
    ELINKS, Elink, FromHostAccount, FromHostDecoder, FromHostLoss, Pieces, Taken,
};

use super::config::CardConfig;
use super::loop_back::LoopBack;
use crate::totals::Amount;

reasons! {
    /// Why messages, or packets that are of none, are lost.
    pub enum FromHostDrop {
        /// The card has no such E-link, or it is one of its own.
        NoElink = "no_elink",
        /// [`FromHostLoss::WrongSize`].
        WrongSize = FromHostLoss::WrongSize.name(),
        /// [`FromHostLoss::TooLong`].
        TooLong = FromHostLoss::TooLong.name(),
        /// [`FromHostLoss::NotFull`].
        NotFull = FromHostLoss::NotFull.name(),
        /// [`FromHostLoss::Unended`].
        Unended = FromHostLoss::Unended.name(),
    }
}

/// What came in packets, and what became of it: `come = looped + sunk + no_elink + lost + held`, in packets, messages and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FromHostBooks {
    /// As the packets were read.
    pub decoded: FromHostAccount,
    /// Of messages that are sent back.
    pub looped: Pieces,
    /// Of messages that front ends have taken.
    pub sunk: Pieces,
    /// Of messages for E-links that the card does not have, or that are its own.
    pub no_elink: Pieces,
}

impl FromHostBooks {
    /// Lost, by why.
    #[must_use]
    pub fn dropped(&self) -> PerReason<FromHostDrop, Pieces, { FromHostDrop::COUNT }> {
        PerReason::from_fn(|why| match why {
            FromHostDrop::NoElink => self.no_elink,
            FromHostDrop::WrongSize => self.decoded.lost(FromHostLoss::WrongSize),
            FromHostDrop::TooLong => self.decoded.lost(FromHostLoss::TooLong),
            FromHostDrop::NotFull => self.decoded.lost(FromHostLoss::NotFull),
            FromHostDrop::Unended => self.decoded.lost(FromHostLoss::Unended),
        })
    }

    /// What they do not explain, in packets, messages and bytes: nothing, always.
    #[must_use]
    pub fn residual(&self) -> [u64; 3] {
        let mut rest = self.decoded.residual();
        let whole = self.decoded.whole;
        let mut given = self.looped;
        given += self.sunk;
        given += self.no_elink;
        rest[0] += whole.packets.abs_diff(given.packets);
        rest[1] += whole.messages.abs_diff(given.messages);
        rest[2] += whole.bytes.abs_diff(given.bytes);
        rest
    }
}

/// What takes the messages to an E-link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taker {
    Nobody,
    FrontEnd,
    /// The n-th of those that send back.
    Loop(u16),
}

#[derive(Debug, Clone)]
pub(super) struct FromHost {
    decoder: FromHostDecoder,
    takers: Box<[Taker]>,
    sent_to: Box<[Amount]>,
    looped: Pieces,
    sunk: Pieces,
    no_elink: Pieces,
}

impl FromHost {
    /// The E-links that send back are numbered as they are configured.
    pub(super) fn new(config: &CardConfig) -> Self {
        let mut takers = vec![Taker::Nobody; ELINKS];
        let mut loops = 0;
        for one in &config.elinks {
            takers[usize::from(one.elink.number())] = if one.loop_back {
                loops += 1;
                Taker::Loop(loops - 1)
            } else {
                Taker::FrontEnd
            };
        }
        let front_end = &config.front_end;
        Self {
            decoder: FromHostDecoder::new(front_end.packets, front_end.message_bytes_max as usize),
            takers: takers.into(),
            sent_to: vec![Amount::default(); ELINKS].into(),
            looped: Pieces::default(),
            sunk: Pieces::default(),
            no_elink: Pieces::default(),
        }
    }

    #[inline]
    pub(super) fn handle_packet(&mut self, packet: &[u8], at: u64, loops: &mut [LoopBack]) {
        let Taken::Message {
            elink,
            packets,
            bytes,
        } = self.decoder.handle_packet(packet)
        else {
            // What is lost the decoder has counted.
            return;
        };
        let number = usize::from(elink.number());
        let pieces = Pieces {
            packets,
            messages: 1,
            bytes: bytes.len() as u64,
        };
        match self.takers[number] {
            Taker::Nobody => self.no_elink += pieces,
            Taker::FrontEnd => {
                self.sent_to[number].add((1, pieces.bytes));
                self.sunk += pieces;
            }
            Taker::Loop(which) => {
                if let Some(one) = loops.get_mut(usize::from(which)) {
                    one.push(bytes, at);
                    self.sent_to[number].add((1, pieces.bytes));
                    self.looped += pieces;
                }
            }
        }
    }

    pub(super) fn abandon(&mut self) {
        self.decoder.abandon();
    }

    /// Messages that the front end of an E-link was sent.
    pub(super) fn sent_to(&self, elink: Elink) -> Amount {
        self.sent_to[usize::from(elink.number())]
    }

    pub(super) fn books(&self) -> FromHostBooks {
        FromHostBooks {
            decoded: *self.decoder.account(),
            looped: self.looped,
            sunk: self.sunk,
            no_elink: self.no_elink,
        }
    }
}
