//! What a peer says that knows what would be right, and does not keep to it.

use forebay_msg::{Credit, Entry, Refusal, Role, Slow, Totals};
use forebay_wire::net::{DataFields, Frame, Hello, Subscribe, Welcome};
use forebay_wire::netio3::{BufferWriter, Head};

use super::said::Said;
use super::{EPOCH, LIMITS};

/// What is left of the input.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Below `most`, which is at most 64 Ki.
    pub(super) fn size(&mut self, most: usize) -> usize {
        let low = usize::from(self.byte().unwrap_or(0));
        let high = if most > 256 {
            usize::from(self.byte().unwrap_or(0)) << 8
        } else {
            0
        };
        (low + high) % most
    }

    /// Less than `most` bytes.
    pub(super) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let count = self.size(most).min(self.0.len());
        let (first, rest) = self.0.split_at(count);
        self.0 = rest;
        first
    }

    /// The right number, or one near it, or any.
    pub(super) fn near(&mut self, right: u64) -> u64 {
        match self.byte().unwrap_or(0) {
            0..240 => right,
            byte @ 240..255 => right.wrapping_add(u64::from(byte)).wrapping_sub(247),
            255 => {
                let mut any = [0; 8];
                any.fill_with(|| self.byte().unwrap_or(0));
                u64::from_le_bytes(any)
            }
        }
    }

    fn near_u32(&mut self, right: u32) -> u32 {
        self.near(right.into()) as u32
    }
}

pub(super) struct Peer {
    role: Role,
    pub(super) epoch: u64,
    /// What it has sent, as it says.
    sent: Totals,
    /// Its last buffer.
    last: Vec<u8>,
}

impl Peer {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            epoch: EPOCH,
            sent: Totals::default(),
            last: Vec::new(),
        }
    }

    /// Its last buffer, as it was.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// A frame of a kind.
    pub(super) fn frame(&mut self, kind: u8, input: &mut Input<'_>, said: &Said) -> Vec<u8> {
        match kind {
            2 => self.greeting(input, said),
            3 | 4 => self.data(input),
            5 => Frame::Credit(Credit {
                buffers: input.near(said.sent.buffers),
                messages: input.near(said.sent.messages),
                bytes: input.near(said.sent.bytes),
            })
            .emit(),
            6 => self.totals(input, said),
            _ => small(input),
        }
    }

    fn greeting(&self, input: &mut Input<'_>, said: &Said) -> Vec<u8> {
        let (bytes, count) = (LIMITS.buffer_bytes, LIMITS.buffer_count);
        if said.dials {
            return Frame::Welcome(Welcome {
                epoch: EPOCH,
                buffer_bytes: input.near_u32(bytes),
                buffer_count: input.near_u32(count),
                answers: input.size(2) == 1,
            })
            .emit();
        }
        let slow = [
            Slow::Block,
            Slow::DropNewest,
            Slow::DropOldest,
            Slow::Disconnect,
        ];
        Frame::Hello(Hello {
            role: self.role,
            slow: slow[input.size(4)],
            buffer_bytes: input.near_u32(bytes),
            buffer_count: input.near_u32(count),
            identity: 6,
        })
        .emit()
    }

    fn fields(
        &mut self,
        input: &mut Input<'_>,
        messages: u32,
        payload: u64,
        len: u32,
    ) -> DataFields {
        let fields = DataFields {
            epoch: input.near(self.epoch),
            sequence: input.near(self.sent.buffers),
            messages_total: input.near(self.sent.messages.wrapping_add(messages.into())),
            bytes_total: input.near(self.sent.bytes.wrapping_add(payload)),
            messages: input.near_u32(messages),
            bytes: input.near_u32(len) & 0xff_ffff,
        };
        self.sent.buffers = fields.sequence.wrapping_add(1);
        (self.sent.messages, self.sent.bytes) = (fields.messages_total, fields.bytes_total);
        fields
    }

    /// Up to three messages in a buffer, of which a byte may be damaged.
    fn data(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let mut area = [0; 200];
        let mut writer = BufferWriter::new(&mut area);
        let (mut messages, mut payload) = (0, 0);
        for _ in 0..input.size(4) {
            let bytes = input.size(50);
            if writer.push(bytes as u64 % 3, 0, &vec![9; bytes]) {
                (messages, payload) = (messages + 1, payload + bytes as u64);
            }
        }
        let len = writer.into_state().len;
        let damaged = input.near(200) as usize;
        if let Some(byte) = area[..len].get_mut(damaged % 256) {
            *byte ^= 1 << input.size(8);
        }
        let fields = self.fields(input, messages, payload, len as u32);
        self.last = [&fields.to_bytes()[..], &area[..len]].concat();
        self.last.clone()
    }

    /// A buffer with one message, and how long its payload is, which is elsewhere.
    pub(super) fn apart(&mut self, input: &mut Input<'_>) -> (Vec<u8>, usize) {
        let elsewhere = input.size(130);
        let head = Head::emit(
            None,
            1,
            0,
            input.near(elsewhere as u64) as usize % (1 << 20),
        );
        let len = head.as_bytes().len() + elsewhere;
        let fields = self.fields(input, 1, elsewhere as u64, len as u32);
        let frame = [&fields.to_bytes()[..], head.as_bytes()].concat();
        (frame, elsewhere)
    }

    /// The end, being let go, or a farewell.
    fn totals(&self, input: &mut Input<'_>, said: &Said) -> Vec<u8> {
        let kind = input.size(4);
        let right = if kind < 2 { &self.sent } else { &said.sent };
        let totals = Totals {
            buffers: input.near(right.buffers),
            messages: input.near(right.messages),
            bytes: input.near(right.bytes),
            messages_dropped: input.near(0),
            bytes_dropped: input.near(0),
        };
        match kind {
            0 => Frame::End(totals),
            1 => Frame::LetGo(totals),
            _ => Frame::Farewell(totals),
        }
        .emit()
    }
}

fn small(input: &mut Input<'_>) -> Vec<u8> {
    let request = input.size(256) as u32;
    match request % 8 {
        0 => Frame::Leave.emit(),
        1 => Frame::Subscribed(request, None).emit(),
        2 => Frame::Subscribed(request, Some(Ok(Refusal::TooMany))).emit(),
        3 => Frame::Refuse(Err(request)).emit(),
        4 | 5 => Subscribe::to_frame(request, request & 16 == 0, &[Entry::one(1); 3]),
        _ => Frame::Alive.emit(),
    }
}
