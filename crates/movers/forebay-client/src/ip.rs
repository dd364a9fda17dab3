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
mod stack;

use std::net::IpAddr;

use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, HardwareAddress, IpCidr, IpProtocol,
    Ipv4Packet, Ipv6Packet, UdpPacket,
};

pub use client::{Datagram, IpClient, SocketId, UdpLimits};
pub use counts::{Datagrams, IpTotals, UdpCounts};
pub use error::IpError;
pub use smoltcp;
pub use stack::{Ends, Fate, Network, PATIENCE_NS, PortId, Stack, Waiting};

use crate::protocol::HEADER_BYTES;
use crate::{Client, ClientError, SendError};

/// Bytes of the two Ethernet addresses, behind which a tag stands.
const ADDRESSES_BYTES: usize = 12;
const TAG_BYTES: usize = 4;
const TAG: [u8; 2] = [0x81, 0x00];

/// What a device has counted beside its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpCounts {
    /// Frames with a datagram of UDP that were handed over.
    pub datagrams_sent: u64,
    /// Bytes of their payload.
    pub datagrams_sent_bytes: u64,
    /// Times that the stack had something to send and there was no buffer.
    pub no_room: u64,
    /// Frames that the stack made as an answer and that were lost, as there was no buffer.
    pub answers_lost: u64,
    /// Frames that came with another tag than that of the client's VLAN.
    pub foreign_tag: u64,
}

/// A client under an IP stack.
#[derive(Debug)]
pub struct IpDevice {
    client: Client,
    counts: IpCounts,
    received: Vec<u8>,
    spare: Vec<u8>,
    failed: Option<ClientError>,
    /// Whether the last frame that came has a datagram of UDP.
    brought_datagram: bool,
    /// Ports from which datagrams were sent since this was emptied; none: nobody asks.
    sent_from: Option<Vec<u16>>,
}

impl IpDevice {
    /// Over this client.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self {
            client,
            counts: IpCounts {
                datagrams_sent: 0,
                datagrams_sent_bytes: 0,
                no_room: 0,
                answers_lost: 0,
                foreign_tag: 0,
            },
            received: Vec::new(),
            spare: Vec::new(),
            failed: None,
            brought_datagram: false,
            sent_from: None,
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
        self.counts
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
                self.brought_datagram = datagram(&self.received).is_some();
                return Ok(true);
            }
            self.counts.foreign_tag += 1;
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

/// A datagram of UDP in a frame.
#[derive(Clone, Copy, Debug)]
struct Inside {
    from_port: u16,
    bytes: usize,
}

/// The datagram of UDP that a frame has, if it has one.
fn datagram(frame: &[u8]) -> Option<Inside> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    let payload = match frame.ethertype() {
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
            (packet.next_header() == IpProtocol::Udp).then(|| packet.payload())?
        }
        EthernetProtocol::Ipv6 => {
            let packet = Ipv6Packet::new_checked(frame.payload()).ok()?;
            (packet.next_header() == IpProtocol::Udp).then(|| packet.payload())?
        }
        _ => return None,
    };
    let packet = UdpPacket::new_checked(payload).ok()?;
    Some(Inside {
        from_port: packet.src_port(),
        bytes: packet.payload().len(),
    })
}

/// A frame that came.
#[derive(Debug)]
pub struct Came<'a>(&'a [u8]);

/// Leave to send a frame.
#[derive(Debug)]
pub struct Leave<'a> {
    client: &'a mut Client,
    counts: &'a mut IpCounts,
    spare: &'a mut Vec<u8>,
    failed: &'a mut Option<ClientError>,
    sent_from: &'a mut Option<Vec<u16>>,
}

impl Device for IpDevice {
    type RxToken<'a> = Came<'a>;
    type TxToken<'a> = Leave<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Came<'_>, Leave<'_>)> {
        let taken = self.take();
        self.or_failed(taken).then(|| {
            let leave = Leave {
                client: &mut self.client,
                counts: &mut self.counts,
                spare: &mut self.spare,
                failed: &mut self.failed,
                sent_from: &mut self.sent_from,
            };
            (Came(&self.received), leave)
        })
    }

    fn transmit(&mut self, _: Instant) -> Option<Leave<'_>> {
        let ready = self.client.is_ready();
        if !self.or_failed(ready) {
            self.counts.no_room += 1;
            return None;
        }
        Some(Leave {
            client: &mut self.client,
            counts: &mut self.counts,
            spare: &mut self.spare,
            failed: &mut self.failed,
            sent_from: &mut self.sent_from,
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
        let mut inside = None;
        let sent = match self.client.welcome().vlan {
            None => self.client.send_with(bytes, |room| {
                // A buffer has what was sent before.
                room.fill(0);
                made = make.take().map(|make| make(room));
                inside = datagram(room);
            }),
            Some(vlan) => {
                self.spare.clear();
                self.spare.resize(bytes, 0);
                made = make.take().map(|make| make(self.spare));
                inside = datagram(self.spare);
                let [v0, v1] = vlan.to_be_bytes();
                let tag = [TAG[0], TAG[1], v0, v1];
                self.spare.splice(ADDRESSES_BYTES..ADDRESSES_BYTES, tag);
                self.client.send(self.spare)
            }
        };
        self.note(sent, inside);
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
    fn note(&mut self, sent: Result<(), SendError>, inside: Option<Inside>) {
        match (sent, inside) {
            (Ok(()), Some(inside)) => {
                self.counts.datagrams_sent += 1;
                self.counts.datagrams_sent_bytes += inside.bytes as u64;
                if let Some(ports) = self.sent_from {
                    ports.push(inside.from_port);
                }
            }
            (Ok(()), None) => {}
            (Err(SendError::Client(error)), _) => {
                self.failed.get_or_insert(error);
            }
            (Err(SendError::Full { .. } | SendError::Length { .. }), _) => {
                self.counts.answers_lost += 1;
            }
        }
    }
}
