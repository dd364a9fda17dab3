//! Packets into messages, E-link by E-link, with what is wrong with them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{HEADER_AT, PACKET_BYTES, PACKET_PAYLOAD_BYTES, PacketFormat};
use crate::felix::{ELINKS, Elink};

/// Why a message, or a packet that is of none, was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromHostLoss {
    /// It has not 32 bytes, so that nobody knows which E-link it is for.
    WrongSize,
    /// The message is longer than may be.
    TooLong,
    /// A packet in the middle of the message is not full, as `Rm4` can say: what lacks is not known.
    NotFull,
    /// The message had no end when its writer was gone, or the run was over.
    Unended,
}

impl FromHostLoss {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::WrongSize, Self::TooLong, Self::NotFull, Self::Unended];

    /// Its name in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongSize => "wrong_size",
            Self::TooLong => "too_long",
            Self::NotFull => "not_full",
            Self::Unended => "unended",
        }
    }
}

/// Packets, messages, and payload bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Packets.
    pub packets: u64,
    /// Messages, counted with their first packet.
    pub messages: u64,
    /// Payload bytes.
    pub bytes: u64,
}

impl core::ops::AddAssign for Pieces {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// What was lost, by [`FromHostLoss`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromHostLost {
    wrong_size: Pieces,
    too_long: Pieces,
    not_full: Pieces,
    unended: Pieces,
}

impl FromHostLost {
    /// For this reason.
    #[must_use]
    pub const fn of(&self, loss: FromHostLoss) -> Pieces {
        match loss {
            FromHostLoss::WrongSize => self.wrong_size,
            FromHostLoss::TooLong => self.too_long,
            FromHostLoss::NotFull => self.not_full,
            FromHostLoss::Unended => self.unended,
        }
    }

    /// The same, to be changed.
    #[must_use]
    pub const fn of_mut(&mut self, loss: FromHostLoss) -> &mut Pieces {
        match loss {
            FromHostLoss::WrongSize => &mut self.wrong_size,
            FromHostLoss::TooLong => &mut self.too_long,
            FromHostLoss::NotFull => &mut self.not_full,
            FromHostLoss::Unended => &mut self.unended,
        }
    }
}

/// What came and what became of it: `come = whole + lost + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromHostAccount {
    /// All that came.
    pub come: Pieces,
    /// Messages that were given whole.
    pub whole: Pieces,
    /// Lost.
    pub lost: FromHostLost,
    /// Messages that have not ended.
    pub held: Pieces,
}

impl FromHostAccount {
    /// Lost for this reason.
    #[must_use]
    pub const fn lost(&self, loss: FromHostLoss) -> Pieces {
        self.lost.of(loss)
    }

    /// What it does not explain, in packets, messages and bytes: nothing, always.
    #[must_use]
    pub fn residual(&self) -> [u64; 3] {
        let mut out = self.whole;
        out += self.held;
        for loss in FromHostLoss::ALL {
            out += self.lost(loss);
        }
        [
            self.come.packets.abs_diff(out.packets),
            self.come.messages.abs_diff(out.messages),
            self.come.bytes.abs_diff(out.bytes),
        ]
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<'a> {
    /// It is held until its message ends.
    Held,
    /// A message has ended with it, and is whole.
    Message {
        /// Where it goes.
        elink: Elink,
        /// Packets of it.
        packets: u64,
        /// What it says.
        bytes: &'a [u8],
    },
    /// A message has ended with it that is lost, or it is of none.
    Lost {
        /// Why.
        loss: FromHostLoss,
        /// How much.
        pieces: Pieces,
    },
}

/// A message that has not ended.
#[derive(Clone, Debug, Default)]
struct Open {
    pieces: Pieces,
    /// It is lost: what comes until its end is counted and not kept.
    loss: Option<FromHostLoss>,
    bytes: Vec<u8>,
}

/// Packets into messages. The memory of an E-link's messages is kept from one to the next.
///
/// A packet that is wrong costs its own message, and no other one.
#[derive(Clone, Debug)]
pub struct FromHostDecoder {
    format: PacketFormat,
    message_bytes_max: usize,
    open: Box<[Open]>,
    account: FromHostAccount,
    /// The E-link whose message was given last: its memory is still full.
    given: Option<usize>,
}

impl FromHostDecoder {
    /// Of a format, for messages of at most so many bytes.
    #[must_use]
    pub fn new(format: PacketFormat, message_bytes_max: usize) -> Self {
        Self {
            format,
            message_bytes_max,
            open: (0..ELINKS).map(|_| Open::default()).collect(),
            account: FromHostAccount::default(),
            given: None,
        }
    }

    /// Takes the next packet.
    #[inline]
    pub fn handle_packet(&mut self, packet: &[u8]) -> Taken<'_> {
        if let Some(given) = self.given.take() {
            self.open[given].bytes.clear();
        }
        let Ok(packet) = <&[u8; PACKET_BYTES]>::try_from(packet) else {
            let pieces = Pieces {
                packets: 1,
                ..Pieces::default()
            };
            self.account.come += pieces;
            return self.lose(FromHostLoss::WrongSize, pieces);
        };
        let header = u16::from_le_bytes([packet[HEADER_AT], packet[HEADER_AT + 1]]);
        let head = self.format.head(header);
        let bytes = usize::from(head.bytes);
        let number = usize::from(head.elink.number());
        let open = &mut self.open[number];
        let new = Pieces {
            packets: 1,
            messages: u64::from(open.pieces.packets == 0),
            bytes: bytes as u64,
        };
        open.pieces += new;
        self.account.come += new;
        if open.bytes.len() + bytes > self.message_bytes_max {
            open.loss = open.loss.or(Some(FromHostLoss::TooLong));
        } else if !head.is_last && bytes < PACKET_PAYLOAD_BYTES {
            open.loss = open.loss.or(Some(FromHostLoss::NotFull));
        }
        if open.loss.is_none() {
            let payload = &packet[PACKET_PAYLOAD_BYTES - bytes..PACKET_PAYLOAD_BYTES];
            open.bytes.extend(payload.iter().rev());
        }
        if !head.is_last {
            self.account.held += new;
            return Taken::Held;
        }
        let pieces = core::mem::take(&mut open.pieces);
        let before = Pieces {
            packets: pieces.packets - new.packets,
            messages: pieces.messages - new.messages,
            bytes: pieces.bytes - new.bytes,
        };
        let loss = open.loss.take();
        take_off(&mut self.account.held, before);
        self.given = Some(number);
        match loss {
            Some(loss) => self.lose(loss, pieces),
            None => {
                self.account.whole += pieces;
                Taken::Message {
                    elink: head.elink,
                    packets: pieces.packets,
                    bytes: &self.open[number].bytes,
                }
            }
        }
    }

    fn lose(&mut self, loss: FromHostLoss, pieces: Pieces) -> Taken<'_> {
        *self.account.lost.of_mut(loss) += pieces;
        Taken::Lost { loss, pieces }
    }

    /// The writer is gone, or the run is over: messages that have not ended are lost by the name [`FromHostLoss::Unended`], those that are lost anyway by theirs.
    pub fn abandon(&mut self) {
        self.given = None;
        for open in &mut self.open {
            open.bytes.clear();
            let pieces = core::mem::take(&mut open.pieces);
            let loss = open.loss.take().unwrap_or(FromHostLoss::Unended);
            take_off(&mut self.account.held, pieces);
            *self.account.lost.of_mut(loss) += pieces;
        }
    }

    /// What came and what became of it.
    #[must_use]
    pub fn account(&self) -> &FromHostAccount {
        &self.account
    }
}

fn take_off(from: &mut Pieces, pieces: Pieces) {
    from.packets -= pieces.packets;
    from.messages -= pieces.messages;
    from.bytes -= pieces.bytes;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use alloc::vec;

    use proptest::prelude::*;

    use super::super::{PacketWriter, packets_of};
    use super::*;

    fn packet(header: u16, fill: u8) -> [u8; PACKET_BYTES] {
        let mut packet = [fill; PACKET_BYTES];
        packet[HEADER_AT..].copy_from_slice(&header.to_le_bytes());
        packet
    }

    fn counts(account: &FromHostAccount) -> [u64; FromHostLoss::ALL.len()] {
        FromHostLoss::ALL.map(|loss| account.lost(loss).messages)
    }

    #[test]
    fn golden_packets_are_one_message() {
        let mut decoder = FromHostDecoder::new(PacketFormat::Rm5, 100);
        let mut first = packet(3 << 5 | 31, 0);
        for (n, byte) in first[..30].iter_mut().rev().enumerate() {
            *byte = n as u8;
        }
        let mut last = packet(3 << 5 | 2, 0xee);
        last[28..30].copy_from_slice(&[31, 30]);
        assert_eq!(decoder.handle_packet(&first), Taken::Held);
        assert_eq!(decoder.account().held.bytes, 30);
        let expected: Vec<u8> = (0..32).collect();
        let Taken::Message {
            elink,
            packets,
            bytes,
        } = decoder.handle_packet(&last)
        else {
            panic!("it has ended");
        };
        assert_eq!((elink.number(), packets, bytes), (3, 2, &expected[..]));
        assert_eq!(decoder.account().residual(), [0; 3]);
    }

    #[test]
    fn what_is_wrong_costs_its_own_message_by_name() {
        let mut decoder = FromHostDecoder::new(PacketFormat::Rm4, 60);
        let (goes_on, ends) = (15 << 1, 15 << 1 | 1);
        // E-link 1 is too long, 2 has a gap, 3 is whole, 4 never ends; in between something that is no packet.
        let steps = [
            (1 << 5 | goes_on, None),
            (2 << 5 | 14 << 1, None),
            (3 << 5 | goes_on, None),
            (4 << 5 | goes_on, None),
            (1 << 5 | goes_on, None),
            (2 << 5 | ends, Some((FromHostLoss::NotFull, 58))),
            (1 << 5 | 1 << 1 | 1, Some((FromHostLoss::TooLong, 62))),
        ];
        for (header, loss) in steps {
            let found = match decoder.handle_packet(&packet(header, 7)) {
                Taken::Lost { loss, pieces } => Some((loss, pieces.bytes)),
                Taken::Held => None,
                Taken::Message { .. } => panic!("{header:#x}"),
            };
            assert_eq!(found, loss, "{header:#x}");
            assert_eq!(decoder.account().residual(), [0; 3]);
        }
        assert!(matches!(
            decoder.handle_packet(&[0; 31]),
            Taken::Lost {
                loss: FromHostLoss::WrongSize,
                ..
            }
        ));
        assert!(matches!(
            decoder.handle_packet(&packet(3 << 5 | ends, 9)),
            Taken::Message { packets: 2, bytes, .. } if bytes.len() == 60
        ));
        // The next one of an E-link that had lost one is whole.
        assert!(matches!(
            decoder.handle_packet(&packet(1 << 5 | 1, 9)),
            Taken::Message {
                packets: 1,
                bytes: [],
                ..
            }
        ));
        decoder.abandon();
        let account = *decoder.account();
        assert_eq!(
            (account.held, account.residual()),
            (Pieces::default(), [0; 3])
        );
        assert_eq!(counts(&account), [0, 1, 1, 1]);
        assert_eq!(account.lost(FromHostLoss::WrongSize).packets, 1);
        assert_eq!((account.whole.messages, account.come.messages), (2, 5));
        assert_eq!(account.come.packets, 10);
    }

    #[test]
    fn a_last_packet_without_bytes_ends_a_full_one() {
        let mut decoder = FromHostDecoder::new(PacketFormat::Rm5, 30);
        assert_eq!(decoder.handle_packet(&packet(31, 5)), Taken::Held);
        let Taken::Message { bytes, packets, .. } = decoder.handle_packet(&packet(0, 5)) else {
            panic!("it has ended");
        };
        assert_eq!((bytes, packets), (&[5; 30][..], 2));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn messages_of_many_e_links_come_back(
            messages in prop::collection::vec((0..4_u16, prop::collection::vec(any::<u8>(), 0..200)), 1..20),
            rm4 in any::<bool>(),
            turns in prop::collection::vec(0..4_usize, 0..400),
        ) {
            let format = if rm4 { PacketFormat::Rm4 } else { PacketFormat::Rm5 };
            let mut queues = vec![Vec::new(); 4];
            let mut sent = vec![Vec::new(); 4];
            for (elink, mut message) in messages {
                if rm4 && message.len() % 2 == 1 {
                    message.pop();
                }
                let number = Elink::new(elink * 64).unwrap();
                let mut writer = PacketWriter::begin(format, number, &message).unwrap();
                let mut packet = [0; PACKET_BYTES];
                let before = queues[usize::from(elink)].len();
                while writer.emit(&mut packet) {
                    queues[usize::from(elink)].push(packet);
                }
                prop_assert_eq!(queues[usize::from(elink)].len() - before, packets_of(message.len()));
                sent[usize::from(elink)].push(message);
            }
            let mut decoder = FromHostDecoder::new(format, 200);
            let mut queues: Vec<_> = queues.into_iter().map(Vec::into_iter).collect();
            let mut found = vec![Vec::new(); 4];
            // In any mixture, then what is left.
            for turn in turns.into_iter().chain((0..4).flat_map(|n| core::iter::repeat_n(n, 200))) {
                if let Some(packet) = queues[turn].next()
                    && let Taken::Message { elink, bytes, .. } = decoder.handle_packet(&packet)
                {
                    found[usize::from(elink.link())].push(bytes.to_vec());
                }
                prop_assert_eq!(decoder.account().residual(), [0; 3]);
            }
            prop_assert_eq!(found, sent);
            prop_assert_eq!(decoder.account().held, Pieces::default());
        }

        #[test]
        fn garbage_has_a_name_and_the_books_close(
            packets in prop::collection::vec((0..40_u16, prop::collection::vec(any::<u8>(), 30..34)), 0..200),
            rm4 in any::<bool>(),
        ) {
            let format = if rm4 { PacketFormat::Rm4 } else { PacketFormat::Rm5 };
            let mut decoder = FromHostDecoder::new(format, 100);
            for (low, mut bytes) in packets {
                if bytes.len() == PACKET_BYTES {
                    bytes[HEADER_AT] = low as u8;
                    bytes[HEADER_AT + 1] = 0;
                }
                if let Taken::Message { bytes, .. } = decoder.handle_packet(&bytes) {
                    prop_assert!(bytes.len() <= 100);
                }
                prop_assert_eq!(decoder.account().residual(), [0; 3]);
            }
            decoder.abandon();
            prop_assert_eq!(decoder.account().residual(), [0; 3]);
            prop_assert_eq!(decoder.account().held, Pieces::default());
        }
    }
}
