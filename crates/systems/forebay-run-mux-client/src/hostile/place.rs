//! A place in the hands of a client that does harm.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use forebay_client::protocol::{Message, RECORD_BYTES_MAX, Welcome};
use forebay_client::{ClientError, Handed};
use forebay_ring::{Descriptor, ForgedEnd};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::eventfd::EventFd;
use forebay_sys::seqpacket::{Arrived, SeqSocket};
use forebay_sys::{SysError, wait};

use super::PATIENCE;
use super::books::{Counts, Numbers};
use super::lies::{Lie, Position};

/// What the multiplexer has taken is looked at so often, in ns.
const LOOK_NS: u64 = 50_000;
/// A first frame, to be given back twice, is waited for so long.
const FIRST_FRAME: Duration = Duration::from_millis(50);
/// A frame of a local experimental EtherType (IEEE 802).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// The EtherType of a VLAN tag (IEEE 802.1Q).
const VLAN_TAG: [u8; 2] = [0x81, 0x00];
const FRAME_BYTES: u32 = 64;
/// Bytes that a frame has beside the MTU: its header and a VLAN tag.
const BESIDE_MTU_BYTES: u32 = 18;

/// What came of a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The multiplexer has taken it.
    Taken,
    /// It has ended the connection, for this one or before.
    Over { was_taken: bool },
    /// It cannot be told here.
    Nothing,
}

pub(super) struct Hostile {
    socket: SeqSocket,
    welcome: Welcome,
    send: ForgedEnd,
    receive: ForgedEnd,
    /// What wakes the multiplexer, and what it would wake this client by.
    rings_on: [EventFd; 2],
    woken_by: [EventFd; 2],
    /// Descriptors written, and numbers given back.
    sent: u64,
    freed: u64,
    /// Of both, those that came too late.
    sent_lost: u64,
    freed_lost: u64,
    /// Buffers that were given back once, and held.
    returned: u64,
    /// Packets that were sound.
    sound: u64,
    rings: u64,
    /// The last word of the multiplexer, when it was heard; none: it went away.
    heard: Option<Option<&'static str>>,
}

/// An error of a call for a file of the place.
fn failed(call: &'static str) -> impl FnOnce(io::Error) -> SysError {
    move |error| SysError::new(call, "the place's memory", error)
}

impl Hostile {
    pub(super) fn open(handed: Handed) -> Result<Self, ClientError> {
        let Handed {
            socket,
            welcome,
            receive,
            transmit,
        } = handed;
        let (send, send_bells) = ForgedEnd::new(&welcome.transmit.spec("hostile"), transmit)?;
        let (receive, bells) = ForgedEnd::new(&welcome.receive.spec("hostile"), receive)?;
        let [[out, woken], [back, given]] =
            [send_bells, bells].map(|both| both.map(EventFd::from_fd));
        Ok(Self {
            send,
            receive,
            rings_on: [out, back],
            woken_by: [woken, given],
            socket,
            welcome,
            sent: 0,
            freed: 0,
            sent_lost: 0,
            freed_lost: 0,
            returned: 0,
            sound: 0,
            rings: 0,
            heard: None,
        })
    }

    /// Tells one lie, and waits until the multiplexer has taken it.
    pub(super) fn tell(&mut self, lie: Lie) -> Result<Told, SysError> {
        let is_told = match lie {
            Lie::ReturnUnknown => self.give_back(&[u64::from(self.welcome.receive.frames) + 7])?,
            Lie::ReturnTwice => self.give_back_twice()?,
            _ => self.hand_over(lie)?,
        };
        if !is_told {
            return Ok(Told::Nothing);
        }
        let until_ns = monotonic_ns() + PATIENCE.as_nanos() as u64;
        while !self.is_taken()? {
            if self.hears()? {
                // It takes nothing more: what it has taken stays as it is.
                let was_taken = self.is_taken()?;
                if !was_taken {
                    self.lose(lie);
                }
                return Ok(Told::Over { was_taken });
            }
            self.nap(until_ns)?;
        }
        let was_taken = true;
        Ok(if self.hears()? {
            Told::Over { was_taken }
        } else {
            Told::Taken
        })
    }

    /// Counts what was written for this lie and came too late.
    fn lose(&mut self, lie: Lie) {
        match lie {
            Lie::ReturnUnknown => self.freed_lost += 1,
            Lie::ReturnTwice => {
                self.freed_lost += 2;
                self.returned -= 1;
            }
            Lie::BufferInUse => {
                self.sent_lost += 2;
                self.sound -= 1;
            }
            _ => self.sent_lost += 1,
        }
    }

    /// Hands a packet over that is none. False: this place has no such lie.
    fn hand_over(&mut self, lie: Lie) -> Result<bool, SysError> {
        let shape = self.welcome.transmit;
        let is_tagged = self.welcome.vlan.is_some();
        let has_room = shape.frame_bytes > self.welcome.mtu_bytes + BESIDE_MTU_BYTES;
        if (lie == Lie::ForeignVlan && !is_tagged) || (lie == Lie::TooLong && !has_room) {
            return Ok(false);
        }
        let frame = (self.sent % u64::from(shape.frames)) as u32;
        let mut source = self.welcome.mac;
        if lie == Lie::ForeignSource {
            source[5] ^= 0x80;
        }
        // To itself: the one that is sound goes to nobody.
        let mut bytes = [self.welcome.mac, source].concat();
        if let Some(vlan) = self.welcome.vlan {
            let other = u16::from(lie == Lie::ForeignVlan);
            bytes.extend(VLAN_TAG);
            bytes.extend((vlan ^ other).to_be_bytes());
        }
        bytes.extend(ETHERTYPE);
        bytes.resize(FRAME_BYTES as usize, 0);
        self.send.fill(frame, &bytes).map_err(failed("pwrite"))?;
        let honest = Descriptor {
            frame,
            offset: 0,
            len: FRAME_BYTES,
            tag: 0,
        };
        if lie == Lie::BufferInUse {
            self.write(honest)?;
            self.sound += 1;
        }
        self.write(match lie {
            Lie::BufferUnknown => Descriptor {
                frame: shape.frames + 7,
                ..honest
            },
            Lie::Range => Descriptor {
                offset: shape.frame_bytes - 1,
                ..honest
            },
            Lie::TooShort => Descriptor { len: 5, ..honest },
            Lie::TooLong => Descriptor {
                len: shape.frame_bytes,
                ..honest
            },
            _ => honest,
        })?;
        // Of two at once: the multiplexer gives nothing back before it has looked at both.
        self.send.say_sent(self.sent).map_err(failed("pwrite"))?;
        self.ring();
        Ok(true)
    }

    fn write(&mut self, descriptor: Descriptor) -> Result<(), SysError> {
        let written = self.send.write_descriptor(self.sent, descriptor);
        written.map_err(failed("pwrite"))?;
        self.sent += 1;
        Ok(())
    }

    /// Gives back a buffer that it was given, twice at once: between both the multiplexer gives nothing, so that the second is a lie. False: it has none.
    fn give_back_twice(&mut self) -> Result<bool, SysError> {
        let until_ns = monotonic_ns() + FIRST_FRAME.as_nanos() as u64;
        while self.frames_given()? <= self.returned {
            if monotonic_ns() >= until_ns || self.hears()? {
                return Ok(false);
            }
            self.nap(until_ns + LOOK_NS)?;
        }
        let descriptor = self.receive.read_descriptor(self.returned);
        let number = u64::from(descriptor.map_err(failed("pread"))?.frame);
        self.returned += 1;
        self.give_back(&[number; 2])
    }

    fn give_back(&mut self, numbers: &[u64]) -> Result<bool, SysError> {
        for number in numbers {
            let written = self.receive.write_returned(self.freed, *number);
            written.map_err(failed("pwrite"))?;
            self.freed += 1;
        }
        self.receive
            .say_freed(self.freed)
            .map_err(failed("pwrite"))?;
        self.ring();
        Ok(true)
    }

    /// Says a position that cannot be, and fills all bells: to ring one is to wait from then on.
    pub(super) fn say_position(&mut self, position: Position) -> Result<(), SysError> {
        let said = match position {
            Position::SentBack => self.send.say_sent(self.sent.wrapping_sub(1 << 40)),
            Position::SentBeyond => self.send.say_sent(self.sent + self.send.entries() + 1),
            Position::FreedBack => self.receive.say_freed(self.freed.wrapping_sub(1 << 40)),
            Position::FreedBeyond => self
                .receive
                .say_freed(self.freed + self.receive.entries() + 1),
        };
        said.map_err(failed("pwrite"))?;
        let bells = self.rings_on.iter().chain(&self.woken_by);
        bells.for_each(EventFd::fill);
        Ok(())
    }

    /// Rings both bells so many times.
    pub(super) fn ring_without_end(&mut self, times: u32) {
        (0..times).for_each(|_| self.ring());
    }

    fn ring(&mut self) {
        self.rings_on.iter().for_each(EventFd::signal);
        self.rings += self.rings_on.len() as u64;
    }

    /// Whether all that was written so far was taken.
    fn is_taken(&self) -> Result<bool, SysError> {
        let counts = self.counts()?;
        Ok(counts.sent.taken == self.sent && counts.freed.taken == self.freed)
    }

    /// What was written, by this side, and what was taken, by the other one.
    pub(super) fn counts(&self) -> Result<Counts, SysError> {
        let taken = self.send.peer_sent().map_err(failed("pread"))?;
        let taken_back = self.receive.peer_freed().map_err(failed("pread"))?;
        Ok(Counts {
            sent: Numbers {
                told: self.sent,
                taken,
                lost: self.sent_lost,
            },
            freed: Numbers {
                told: self.freed,
                taken: taken_back,
                lost: self.freed_lost,
            },
        })
    }

    /// Frames that it was given, by the multiplexer's position.
    pub(super) fn frames_given(&self) -> Result<u64, SysError> {
        self.receive.peer_sent().map_err(failed("pread"))
    }

    /// Buffers that it gave back and held.
    pub(super) const fn frames_returned(&self) -> u64 {
        self.returned
    }

    /// Packets that it handed over and were sound.
    pub(super) const fn packets_sound(&self) -> u64 {
        self.sound
    }

    /// Says that it has taken back buffers that were never given back: the multiplexer can give it none any more, which costs nobody else.
    pub(super) fn say_taken_back_beyond(&self) -> Result<(), SysError> {
        self.send.say_freed(u64::MAX / 2).map_err(failed("pwrite"))
    }

    /// Reaches for memory that is not its own to write, in both pools; by name, whether it got there.
    pub(super) fn reach(&self) -> Vec<(&'static str, bool)> {
        let mut found = self.send.reach();
        found.extend(self.receive.reach());
        found
    }

    pub(super) const fn rings(&self) -> u64 {
        self.rings
    }

    /// Whether the multiplexer has ended the connection.
    fn hears(&mut self) -> Result<bool, SysError> {
        let mut record = [0; RECORD_BYTES_MAX];
        while self.heard.is_none() {
            match self.socket.receive(&mut record)? {
                Arrived::Nothing => return Ok(false),
                Arrived::End => self.heard = Some(None),
                Arrived::Record(bytes) => {
                    if let Ok(Message::Refusal(no)) = Message::parse(&record[..bytes]) {
                        self.heard = Some(Some(no.reason.name()));
                    }
                }
            }
        }
        Ok(true)
    }

    /// Whether the connection was heard to be over.
    pub(super) const fn is_over(&self) -> bool {
        self.heard.is_some()
    }

    /// Why the multiplexer ends the connection.
    pub(super) fn last_word(&mut self, patience: Duration) -> Result<&'static str, ClientError> {
        let until_ns = monotonic_ns() + patience.as_nanos() as u64;
        while !self.hears()? {
            self.nap(until_ns)?;
        }
        self.heard.flatten().ok_or(ClientError::Gone)
    }

    /// Says that it goes, with all that it holds, and waits until the multiplexer has seen it: what that gave until then was given.
    pub(super) fn leave(&mut self, patience: Duration) -> Result<(), SysError> {
        self.socket.end_sending();
        let until_ns = monotonic_ns() + patience.as_nanos() as u64;
        while !self.hears()? {
            self.nap(until_ns)?;
        }
        Ok(())
    }

    fn nap(&self, until_ns: u64) -> Result<(), SysError> {
        let now_ns = monotonic_ns();
        if now_ns >= until_ns {
            let why = io::Error::from(io::ErrorKind::TimedOut);
            return Err(SysError::new("waiting", "the multiplexer", why));
        }
        wait::sleep_until_or([self.socket.as_fd()], now_ns + LOOK_NS, 0).map(drop)
    }
}
