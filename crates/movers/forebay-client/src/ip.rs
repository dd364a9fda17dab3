//! The client as a device of smoltcp: an IP stack over the frames that the multiplexer hands over.
//!
//! A received frame is copied out of the shared memory before the stack reads it, as the other side could change it in between. A frame to be sent is made in
//! the buffer that is handed over. Where there is no buffer the stack gets no token to send with and keeps what it has. What it would answer at once (an
//! acknowledgement, an answer to a neighbour's question) is lost then, and counted: the frames behind it do not wait for it.
//!
//! A client in a VLAN of its own sends and receives with its tag, which the stack does not see.
//!
//! [`IpDevice`] is for programs that have smoltcp's interface and sockets in their own hands. [`Stack`] has them, and takes turns with datagrams whose fate it
//! tells; [`IpClient`] has sockets with queues and books over that, as the libraries for C and Python give them.

mod client;
mod counts;
mod error;
mod frame;
mod stack;
mod tcp;
mod udp;

use std::net::{IpAddr, SocketAddr};

use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

pub use client::{IpClient, SocketId};
pub use counts::{Datagrams, IpTotals, TcpCounts, UdpCounts};
pub use error::IpError;
pub use smoltcp;
pub use stack::{Ends, Fate, Network, PATIENCE_NS, PortId, Stack, Waiting};
pub use tcp::TcpLimits;
pub use udp::{Datagram, UdpLimits};

use crate::protocol::HEADER_BYTES;
use crate::{Client, ClientError, Counts, SendError};
use frame::Inside;

/// Bytes of the two Ethernet addresses, behind which a tag stands.
const ADDRESSES_BYTES: usize = 12;
const TAG_BYTES: usize = 4;
/// Most ends of segments that are noted.
const SEGMENTS_NOTED_MAX: usize = 256;
const TAG: [u8; 2] = [0x81, 0x00];

/// What a device has counted beside its client.
///
/// What was sent is counted by the client ([`Client::counts`]), frame by frame as it hands them over; the device knows which of them have no datagram. A frame that
/// the program sends of its own, past the stack, is one more here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpCounts {
    /// Frames that the client handed over since the device is there, less those that have no datagram of UDP.
    pub datagrams_sent: u64,
    /// Their bytes, less those of their headers: those of payload.
    pub datagrams_sent_bytes: u64,
    /// Frames with a segment of TCP that were handed over.
    pub segments_sent: u64,
    /// Bytes of their payload, those that were sent again among them.
    pub segments_sent_bytes: u64,
    /// Frames with a segment of TCP that came.
    pub segments_received: u64,
    /// Bytes of their payload.
    pub segments_received_bytes: u64,
    /// Frames without a datagram or a segment that the stack sent: questions for neighbours, say, and answers.
    pub others_sent: u64,
    /// Times that the stack had something to send and there was no buffer.
    pub no_room: u64,
    /// Frames that the stack made as an answer and that were lost, as there was no buffer.
    pub answers_lost: u64,
    /// Frames that came with another tag than that of the client's VLAN.
    pub foreign_tag: u64,
}

/// What the device counts itself.
#[derive(Debug, Default)]
struct Tally {
    /// Frames without a datagram and without a segment that were handed over.
    others: Datagrams,
    /// Segments of TCP that were handed over, and bytes of their payload.
    segments_sent: Datagrams,
    /// Those that came.
    segments_received: Datagrams,
    /// Bytes of frames with a datagram or a segment that are none of its payload.
    headers_bytes: u64,
    no_room: u64,
    answers_lost: u64,
    foreign_tag: u64,
}

/// What was sent since this was last emptied, for a stack that asks.
#[derive(Debug, Default)]
struct Noted {
    /// Ports from which datagrams were sent.
    from_ports: Vec<u16>,
    /// Neighbours that were asked for.
    asked: Vec<IpAddr>,
    /// Ends of segments that were sent, the own one first; some of them alone, if nobody empties this.
    segments: Vec<[SocketAddr; 2]>,
}

impl Noted {
    fn add_segment(&mut self, ends: [SocketAddr; 2]) {
        let is_new = !self.segments.contains(&ends);
        if is_new && self.segments.len() < SEGMENTS_NOTED_MAX {
            self.segments.push(ends);
        }
    }
}

/// A client under an IP stack.
#[derive(Debug)]
pub struct IpDevice {
    client: Client,
    /// What the client had counted before.
    begun: Counts,
    tally: Tally,
    received: Vec<u8>,
    spare: Vec<u8>,
    failed: Option<ClientError>,
    /// What the last frame that came has.
    brought: Inside,
    /// None: nobody asks.
    noted: Option<Noted>,
}

impl IpDevice {
    /// Over this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            begun: client.counts(),
            client,
            tally: Tally::default(),
            received: Vec::new(),
            spare: Vec::new(),
            failed: None,
            brought: Inside::Other,
            noted: None,
        }
    }

    /// An interface with the client's Ethernet address and its IP addresses, each in a network of so many bits: of version 4 (0 to 32) and 6 (0 to 128).
    #[must_use]
    pub fn interface(&mut self, prefixes: [u8; 2], seed: u64, now: Instant) -> Interface {
        let mac = EthernetAddress(self.client.welcome().mac);
        let mut config = Config::new(HardwareAddress::Ethernet(mac));
        config.random_seed = seed;
        let mut interface = Interface::new(config, self, now);
        let [v4, v6] = prefixes;
        interface.update_ip_addrs(|addresses| {
            for address in &self.client.welcome().addresses {
                let bits = match address {
                    IpAddr::V4(_) => v4.min(32),
                    IpAddr::V6(_) => v6.min(128),
                };
                // A welcome has no more addresses than the interface has room for.
                let _ = addresses.push(IpCidr::new((*address).into(), bits));
            }
        });
        interface
    }

    /// The client.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The client, to wait for it.
    pub const fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// What it has counted so far.
    #[must_use]
    pub const fn counts(&self) -> IpCounts {
        let (now, begun, own) = (self.client.counts(), &self.begun, &self.tally);
        let frames = now.sent - begun.sent;
        let bytes = now.sent_bytes - begun.sent_bytes;
        let (others, segments) = (own.others, own.segments_sent);
        let none_bytes = others.bytes + segments.bytes + own.headers_bytes;
        IpCounts {
            datagrams_sent: frames.saturating_sub(others.items + segments.items),
            datagrams_sent_bytes: bytes.saturating_sub(none_bytes),
            segments_sent: segments.items,
            segments_sent_bytes: segments.bytes,
            segments_received: own.segments_received.items,
            segments_received_bytes: own.segments_received.bytes,
            others_sent: own.others.items,
            no_room: own.no_room,
            answers_lost: own.answers_lost,
            foreign_tag: own.foreign_tag,
        }
    }

    /// What failed since this was last asked.
    ///
    /// # Errors
    /// The daemon is gone, or its memory has what an honest one does not write.
    pub fn check(&mut self) -> Result<(), ClientError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Takes the next frame that is for the client.
    fn take(&mut self) -> Result<bool, ClientError> {
        while self.client.receive_into(&mut self.received)? {
            if untag(&mut self.received, self.client.welcome().vlan) {
                self.brought = Inside::of(&self.received);
                if let Inside::Segment { bytes, .. } = self.brought {
                    self.tally.segments_received.add(bytes);
                }
                return Ok(true);
            }
            self.tally.foreign_tag += 1;
        }
        Ok(false)
    }

    fn or_failed(&mut self, done: Result<bool, ClientError>) -> bool {
        done.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            false
        })
    }
}

/// Takes the tag off a frame; false if it has not that of the client's VLAN.
fn untag(frame: &mut Vec<u8>, vlan: Option<u16>) -> bool {
    let Some(vlan) = vlan else { return true };
    let behind = ADDRESSES_BYTES..ADDRESSES_BYTES + TAG_BYTES;
    let is_own = match frame.get(behind.clone()) {
        Some(&[t0, t1, v0, v1]) => [t0, t1] == TAG && u16::from_be_bytes([v0, v1]) & 0x0fff == vlan,
        _ => false,
    };
    if is_own {
        frame.drain(behind);
    }
    is_own
}

/// A frame that came.
#[derive(Debug)]
pub struct Came<'a>(&'a [u8]);

/// Leave to send a frame.
#[derive(Debug)]
pub struct Leave<'a> {
    client: &'a mut Client,
    tally: &'a mut Tally,
    spare: &'a mut Vec<u8>,
    failed: &'a mut Option<ClientError>,
    noted: &'a mut Option<Noted>,
}

impl Device for IpDevice {
    type RxToken<'a> = Came<'a>;
    type TxToken<'a> = Leave<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Came<'_>, Leave<'_>)> {
        let taken = self.take();
        self.or_failed(taken).then(|| {
            let leave = Leave {
                client: &mut self.client,
                tally: &mut self.tally,
                spare: &mut self.spare,
                failed: &mut self.failed,
                noted: &mut self.noted,
            };
            (Came(&self.received), leave)
        })
    }

    fn transmit(&mut self, _: Instant) -> Option<Leave<'_>> {
        let ready = self.client.is_ready();
        if !self.or_failed(ready) {
            self.tally.no_room += 1;
            return None;
        }
        Some(Leave {
            client: &mut self.client,
            tally: &mut self.tally,
            spare: &mut self.spare,
            failed: &mut self.failed,
            noted: &mut self.noted,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let welcome = self.client.welcome();
        let tag = welcome.vlan.map_or(0, |_| TAG_BYTES);
        let most = welcome.mtu_bytes as usize + HEADER_BYTES;
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = most.min(self.client.frame_bytes_max() - tag);
        capabilities
    }
}

impl RxToken for Came<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl TxToken for Leave<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, bytes: usize, make: F) -> R {
        let (mut make, mut made) = (Some(make), None);
        let (mut inside, mut whole) = (Inside::Other, bytes);
        let sent = match self.client.welcome().vlan {
            None => self.client.send_with(bytes, |room| {
                // A buffer has what was sent before.
                room.fill(0);
                made = make.take().map(|make| make(room));
                inside = Inside::of(room);
            }),
            Some(vlan) => {
                self.spare.clear();
                self.spare.resize(bytes, 0);
                made = make.take().map(|make| make(self.spare));
                inside = Inside::of(self.spare);
                let [v0, v1] = vlan.to_be_bytes();
                let tag = [TAG[0], TAG[1], v0, v1];
                self.spare.splice(ADDRESSES_BYTES..ADDRESSES_BYTES, tag);
                whole = self.spare.len();
                self.client.send(self.spare)
            }
        };
        self.note(sent, inside, whole);
        match (made, make) {
            (Some(made), _) => made,
            // The stack must make its frame, whatever becomes of it.
            (None, Some(make)) => {
                self.spare.clear();
                self.spare.resize(bytes, 0);
                make(self.spare)
            }
            (None, None) => unreachable!("what makes a frame is called once"),
        }
    }
}

impl Leave<'_> {
    /// Notes what became of a frame of so many bytes.
    fn note(&mut self, sent: Result<(), SendError>, inside: Inside, whole: usize) {
        match (sent, inside) {
            (Ok(()), Inside::Datagram { from_port, bytes }) => {
                self.tally.headers_bytes += (whole - bytes) as u64;
                if let Some(noted) = self.noted {
                    noted.from_ports.push(from_port);
                }
            }
            (
                Ok(()),
                Inside::Segment {
                    from, to, bytes, ..
                },
            ) => {
                self.tally.headers_bytes += (whole - bytes) as u64;
                self.tally.segments_sent.add(bytes);
                if let Some(noted) = self.noted {
                    noted.add_segment([from, to]);
                }
            }
            (Ok(()), Inside::Question(target)) => {
                self.tally.others.add(whole);
                if let Some(noted) = self.noted {
                    noted.asked.push(target);
                }
            }
            (Ok(()), Inside::Other) => self.tally.others.add(whole),
            (Err(SendError::Client(error)), _) => {
                self.failed.get_or_insert(error);
            }
            (Err(SendError::Full { .. } | SendError::Length { .. }), _) => {
                self.tally.answers_lost += 1;
            }
        }
    }
}
