//! The receiving end of a connection.

use forebay_wire::net::{BUFFER_COUNT_MAX, Credit, DataFields, Frame, NetError, Totals};
use forebay_wire::netio3::{
    BufferError, HEAD_BYTES_MAX, HEADER_BYTES, HeadFields, Message, Messages,
};
use thiserror::Error;

/// Why a connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InboundError {
    /// The bytes are no frame.
    #[error(transparent)]
    Frame(#[from] NetError),
    /// Another frame than a buffer of messages, or a part of one.
    #[error("no whole buffer of messages")]
    NotData,
    /// A buffer of another connection.
    #[error("a buffer of connection {found}; this is {epoch}")]
    Epoch {
        /// Its connection.
        found: u64,
        /// This one.
        epoch: u64,
    },
    /// The sender's totals do not fit to what came of it.
    #[error("the sender says {found} {what} in all; {sent} were told before, which cannot be")]
    Totals {
        /// Of what.
        what: &'static str,
        /// What it says.
        found: u64,
        /// What came.
        sent: u64,
    },
    /// A buffer that cannot be read to its end.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// A buffer that does not hold what it says.
    #[error("a buffer says {said} {what} and holds {found}, or more")]
    Holds {
        /// Of what.
        what: &'static str,
        /// What it says.
        said: u64,
        /// What was found, at which it was read no further.
        found: u64,
    },
}

/// What the buffers' numbers and totals say is lost, repeated or broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Buffers that never came.
    pub gap_buffers: u64,
    /// Messages in them, by the totals of the next one.
    pub gap_messages: u64,
    /// Bytes of their payloads.
    pub gap_bytes: u64,
    /// Buffers that came again, and were not looked at.
    pub repeated_buffers: u64,
    /// Buffers that end within a message, or hold another number of messages or bytes than they say: one at most, after which the connection ends.
    pub broken_buffers: u64,
    /// Messages that were in them by their own field and were not read.
    pub broken_messages: u64,
    /// Bytes of their payloads.
    pub broken_bytes: u64,
}

/// A message whose payload is not in the frame's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Whose it is.
    pub tag: u64,
    /// What its source says of it.
    pub status: u8,
    /// Bytes of its payload.
    pub payload_bytes: usize,
}

/// A buffer that fits to what came before it.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    /// Messages that it says it holds.
    said: u32,
    /// Bytes of payload that the totals say came since the buffer before.
    due_bytes: u64,
    /// Messages are missing before it, and some of these bytes are theirs.
    after_gap: bool,
}

/// The receiving end of a connection: checks numbers and totals, counts.
#[derive(Debug)]
pub struct Inbound {
    epoch: u64,
    buffer_bytes: u32,
    next: u64,
    taken: Totals,
    /// The sender's totals at the end of the last buffer.
    told: [u64; 2],
    losses: Losses,
    /// The buffer after which nothing more is taken.
    wrong: Option<InboundError>,
}

impl Inbound {
    /// The receiving end of the connection `epoch`, whose buffers take `buffer_bytes` of payload.
    #[must_use]
    pub fn new(epoch: u64, buffer_bytes: u32) -> Self {
        Self {
            epoch,
            buffer_bytes: buffer_bytes.saturating_add(HEAD_BYTES_MAX as u32),
            next: 0,
            taken: Totals::default(),
            told: [0; 2],
            losses: Losses::default(),
            wrong: None,
        }
    }

    /// Takes a whole frame with a buffer of messages and gives them; each is counted as it is read. Give the frame's memory back, and then
    /// [`credit`](Self::credit) to the sender.
    ///
    /// # Errors
    /// It is none of this connection.
    pub fn handle_frame<'a>(&'a mut self, frame: &'a [u8]) -> Result<Reading<'a>, InboundError> {
        match Frame::parse(frame, self.buffer_bytes)? {
            Some((Frame::Data(fields, messages), _)) => self.handle_data(&fields, messages),
            _ => Err(InboundError::NotData),
        }
    }

    /// The same for a frame that is taken apart.
    ///
    /// # Errors
    /// It is none of this connection.
    pub fn handle_data<'a>(
        &'a mut self,
        fields: &DataFields,
        messages: &'a [u8],
    ) -> Result<Reading<'a>, InboundError> {
        let begun = self.begin(fields)?;
        let messages = begun.map_or(&[][..], |_| messages);
        Ok(Reading::of(self, messages, begun.unwrap_or_default()))
    }

    /// The same for a frame with one message, of whose bytes only the head is here and the payload, of `elsewhere` bytes, in other memory. None: it came
    /// before.
    ///
    /// # Errors
    /// It is none of this connection, or what it says of itself is wrong; then that is counted, and nothing more is taken.
    pub fn handle_apart(
        &mut self,
        fields: &DataFields,
        head: &[u8],
        elsewhere: usize,
    ) -> Result<Option<Apart>, InboundError> {
        let Some(begun) = self.begin(fields)? else {
            return Ok(None);
        };
        let found = match begun.only_one(head, elsewhere) {
            Ok(found) => found,
            Err(wrong) => {
                self.give_up(wrong, begun.said, begun.due_bytes);
                return Err(wrong);
            }
        };
        let bytes = elsewhere as u64;
        self.taken.messages += 1;
        self.taken.bytes += bytes;
        self.losses.gap_bytes += begun.due_bytes - bytes;
        Ok(Some(Apart {
            tag: found.tag,
            status: found.status,
            payload_bytes: elsewhere,
        }))
    }

    /// A buffer is not what it says: so much of it was not read, and nothing more is.
    fn give_up(&mut self, wrong: InboundError, messages: u32, bytes: u64) {
        self.losses.broken_buffers += 1;
        self.losses.broken_messages += u64::from(messages);
        self.losses.broken_bytes += bytes;
        self.wrong = Some(wrong);
    }

    /// Whether all buffers so far were what they said.
    ///
    /// # Errors
    /// One was not: the connection has to end.
    pub fn check(&self) -> Result<(), InboundError> {
        self.wrong.map_or(Ok(()), Err)
    }

    /// Holds the fields of a buffer against what came before it; none for one that came again.
    fn begin(&mut self, fields: &DataFields) -> Result<Option<Begun>, InboundError> {
        self.check()?;
        if fields.epoch != self.epoch {
            return Err(InboundError::Epoch {
                found: fields.epoch,
                epoch: self.epoch,
            });
        }
        if fields.sequence < self.next {
            self.losses.repeated_buffers += 1;
            return Ok(None);
        }
        let gap_buffers = fields.sequence - self.next;
        let gap_messages = self.gap_messages(fields, gap_buffers)?;
        self.losses.gap_buffers += gap_buffers;
        self.losses.gap_messages += gap_messages;
        self.next = fields.sequence + 1;
        self.taken.buffers += 1;
        let due_bytes = fields.bytes_total - self.told[1];
        self.told = [fields.messages_total, fields.bytes_total];
        Ok(Some(Begun {
            said: fields.messages,
            due_bytes,
            after_gap: gap_messages > 0,
        }))
    }

    /// Messages that were in the buffers before this one and never came. What a peer says of its past is held against what came of it.
    fn gap_messages(&self, fields: &DataFields, gap_buffers: u64) -> Result<u64, InboundError> {
        let wrong = |what, found, sent| Err(InboundError::Totals { what, found, sent });
        // More than may be on their way cannot be lost on it.
        if gap_buffers > u64::from(BUFFER_COUNT_MAX) {
            return wrong("buffers", fields.sequence, self.next);
        }
        let before = fields.messages_total - u64::from(fields.messages);
        let gap_bytes_max = gap_buffers * u64::from(self.buffer_bytes);
        let most = gap_bytes_max / HEADER_BYTES as u64;
        if !(self.told[0]..=self.told[0].saturating_add(most)).contains(&before) {
            return wrong("messages", before, self.told[0]);
        }
        let bytes_max = self.told[1]
            .saturating_add(gap_bytes_max)
            .saturating_add(fields.bytes.into());
        if !(self.told[1]..=bytes_max).contains(&fields.bytes_total) {
            return wrong("bytes", fields.bytes_total, self.told[1]);
        }
        Ok(before - self.told[0])
    }

    /// The sender has ended: what it sent after the last buffer that came is lost, too.
    ///
    /// # Errors
    /// It says that it sent less than what came.
    pub fn handle_end(&mut self, totals: &Totals) -> Result<(), InboundError> {
        let known = [
            ("buffers", totals.buffers, self.next),
            ("messages", totals.messages, self.told[0]),
            ("bytes", totals.bytes, self.told[1]),
        ];
        let gap_buffers = totals.buffers.saturating_sub(self.next);
        let gap_bytes = gap_buffers.saturating_mul(self.buffer_bytes.into());
        let most = [
            u64::from(BUFFER_COUNT_MAX),
            gap_bytes / HEADER_BYTES as u64,
            gap_bytes,
        ];
        for ((what, found, sent), most) in known.into_iter().zip(most) {
            if !(sent..=sent.saturating_add(most)).contains(&found) {
                return Err(InboundError::Totals { what, found, sent });
            }
        }
        self.losses.gap_buffers += totals.buffers - self.next;
        self.losses.gap_messages += totals.messages - self.told[0];
        self.losses.gap_bytes += totals.bytes - self.told[1];
        self.next = totals.buffers;
        self.told = [totals.messages, totals.bytes];
        Ok(())
    }

    /// Messages and bytes that the sender has sent, by the totals that came with its buffers or at its end.
    #[must_use]
    pub fn told(&self) -> [u64; 2] {
        self.told
    }

    /// What the sender may be told: buffers before this number are given back, and what was read of them is confirmed, for a reader that is through with a
    /// message when it is read.
    #[must_use]
    pub fn credit(&self) -> Credit {
        Credit {
            buffers: self.next,
            messages: self.taken.messages,
            bytes: self.taken.bytes,
        }
    }

    /// What was taken so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.taken
    }

    /// What was found wrong so far.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Holds the sender's totals against what came: messages and bytes that were sent and never read. 0 when nothing is lost.
    #[must_use]
    pub fn missing(&self, sent: &Totals) -> [i128; 2] {
        [
            i128::from(sent.messages) - i128::from(self.taken.messages),
            i128::from(sent.bytes) - i128::from(self.taken.bytes),
        ]
    }
}

impl Begun {
    /// Holds a head of a buffer's only message, whose payload is elsewhere, against what the buffer says.
    fn only_one(&self, head: &[u8], elsewhere: usize) -> Result<HeadFields, InboundError> {
        let found = HeadFields::first(head)?;
        let have = head.len() - found.head_bytes + elsewhere;
        if found.payload_bytes != have || found.head_bytes != head.len() {
            return Err(InboundError::Holds {
                what: "bytes",
                said: found.payload_bytes as u64,
                found: have as u64,
            });
        }
        self.check_messages(1)?;
        self.check_bytes(elsewhere as u64)?;
        Ok(found)
    }

    fn check_messages(&self, found: u32) -> Result<(), InboundError> {
        if found == self.said {
            return Ok(());
        }
        Err(InboundError::Holds {
            what: "messages",
            said: self.said.into(),
            found: found.into(),
        })
    }

    fn check_bytes(&self, found: u64) -> Result<(), InboundError> {
        let fits = found == self.due_bytes || (self.after_gap && found < self.due_bytes);
        if fits {
            return Ok(());
        }
        Err(InboundError::Holds {
            what: "bytes",
            said: self.due_bytes,
            found,
        })
    }
}

/// The messages of a buffer, no more of them than it says; what is not read is skipped, and counted all the same. At its end
/// [`finish`](Self::finish) tells whether the buffer was what it says.
#[derive(Debug)]
pub struct Reading<'a> {
    inbound: &'a mut Inbound,
    messages: Messages<'a>,
    begun: Begun,
    read: u32,
    read_bytes: u64,
    wrong: Option<InboundError>,
    is_closed: bool,
}

impl<'a> Reading<'a> {
    fn of(inbound: &'a mut Inbound, messages: &'a [u8], begun: Begun) -> Self {
        Self {
            inbound,
            messages: Messages::new(messages),
            begun,
            read: 0,
            read_bytes: 0,
            wrong: None,
            is_closed: false,
        }
    }

    /// Skips what is left.
    ///
    /// # Errors
    /// The buffer is cut, or does not hold what it says: the connection has to end.
    pub fn finish(mut self) -> Result<(), InboundError> {
        self.close();
        self.inbound.check()
    }

    /// Closes the buffer's account.
    fn close(&mut self) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        while self.next().is_some() {}
        let (begun, read_bytes) = (self.begun, self.read_bytes);
        let complete = self.wrong.map_or(Ok(()), Err);
        let complete = complete
            .and_then(|()| begun.check_messages(self.read))
            .and_then(|()| begun.check_bytes(read_bytes));
        // Neither can be below 0: reading stops at what was said.
        let unread_bytes = begun.due_bytes - read_bytes;
        match complete {
            Ok(()) => self.inbound.losses.gap_bytes += unread_bytes,
            Err(wrong) => {
                let unread = begun.said - self.read;
                self.inbound.give_up(wrong, unread, unread_bytes);
            }
        }
    }

    /// There is more than was said: none of it is taken.
    #[cold]
    fn stop(&mut self, message: &Message<'_>) {
        self.messages = Messages::new(&[]);
        let beyond = self.begun.check_messages(self.read.saturating_add(1));
        let beyond = if self.read == self.begun.said {
            beyond
        } else {
            let bytes = self.read_bytes + message.payload.len() as u64;
            self.begun.check_bytes(bytes)
        };
        self.wrong = beyond.err();
    }
}

impl<'a> Iterator for Reading<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        match self.messages.next()? {
            Ok(message) => {
                let bytes = message.payload.len() as u64;
                let room_bytes = self.begun.due_bytes - self.read_bytes;
                if self.read == self.begun.said || bytes > room_bytes {
                    self.stop(&message);
                    return None;
                }
                self.read += 1;
                self.read_bytes += bytes;
                self.inbound.taken.messages += 1;
                self.inbound.taken.bytes += bytes;
                Some(message)
            }
            Err(error) => {
                self.wrong = Some(error.into());
                None
            }
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.close();
    }
}
