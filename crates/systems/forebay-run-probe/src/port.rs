//! The ring of a thread that captures from an interface: of a packet socket, or of an AF_XDP socket.

use std::os::fd::BorrowedFd;

use forebay_flow::LinkType;
use forebay_link::packet::{
    Event, Frames, PacketError, PacketPort, PortOptions, RingError, RingSize,
};

use crate::config::{InputChoice, OffloadChoice, ProbeSettings};
use crate::error::ProbeError;
use crate::live::RingCounts;
use crate::xdp::XdpPort;

/// A block that has a packet is handed over after so long, in ms.
const BLOCK_TIMEOUT_MS: u32 = 10;
/// A block, in bytes: each takes any frame of an interface.
const BLOCK_BYTES: u32 = 256 << 10;

/// A frame as a ring has it: its time in ns since 1970, its length on the wire, and what there is of it.
pub(crate) type Seen<'a> = (u64, u32, &'a [u8]);

/// The ring of one thread.
pub(crate) enum Port {
    Packet(PacketPort),
    Xdp(Box<XdpPort>),
}

impl Port {
    /// Opens one for each thread. It takes packets at once, or as soon as a table at the sockets is there.
    pub(crate) fn open(interface: &str, settings: &ProbeSettings) -> Result<Vec<Self>, ProbeError> {
        match settings.input {
            InputChoice::Packet => {
                let ports = packet_ports(interface, settings)?;
                Ok(ports.into_iter().map(Self::Packet).collect())
            }
            InputChoice::Xdp => {
                let ports = XdpPort::open(interface, settings)?;
                Ok(ports.into_iter().map(Box::new).map(Self::Xdp).collect())
            }
        }
    }

    pub(crate) const fn link_type(&self) -> i32 {
        match self {
            Self::Packet(port) => port.link_type(),
            Self::Xdp(_) => XdpPort::LINK_TYPE,
        }
    }

    pub(crate) fn interface(&self) -> &str {
        match self {
            Self::Packet(port) => port.interface(),
            Self::Xdp(port) => port.interface(),
        }
    }

    /// What fills it, for people and scripts.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Packet(_) => "packet socket",
            Self::Xdp(port) => port.kind(),
        }
    }

    /// As [`PacketPort::wait`].
    pub(crate) fn wait(
        &mut self,
        other: BorrowedFd<'_>,
        until_ns: u64,
    ) -> Result<Event, ProbeError> {
        Ok(match self {
            Self::Packet(port) => port.wait(other, until_ns).map_err(PacketError::from)?,
            Self::Xdp(port) => port.wait(other, until_ns)?,
        })
    }

    pub(crate) fn is_ready(&mut self) -> bool {
        match self {
            Self::Packet(port) => port.is_ready(),
            Self::Xdp(port) => port.is_ready(),
        }
    }

    /// Visits the frames that go together, and gives how many of them are not believed; none if there are no frames.
    pub(crate) fn read(&mut self, mut visit: impl FnMut(Seen<'_>)) -> Option<u64> {
        let port = match self {
            Self::Packet(port) => port,
            Self::Xdp(port) => return port.read(visit),
        };
        let mut block = port.take()?;
        Some(visit_all(block.frames(), &mut visit))
    }

    /// Fills in what is held, and what the kernel has counted.
    pub(crate) fn count(&mut self, ring: &mut RingCounts) -> Result<(), ProbeError> {
        // What is held is read first: a packet that comes in between is not counted as one too many.
        match self {
            Self::Packet(port) => {
                ring.held = port.held();
                ring.kernel = port.kernel_counts().map_err(PacketError::from)?;
            }
            Self::Xdp(port) => port.count(ring)?,
        }
        Ok(())
    }

    /// Has a port that was opened shut take packets as a program says. One of AF_XDP was not.
    pub(crate) fn accept_by(&self, program: BorrowedFd<'_>) -> Result<(), ProbeError> {
        if let Self::Packet(port) = self {
            port.accept_by(program).map_err(PacketError::from)?;
        }
        Ok(())
    }

    /// Whether packets come: of AF_XDP, the program that steers them may have been taken off.
    pub(crate) fn is_steered(&self) -> bool {
        match self {
            Self::Packet(_) => true,
            Self::Xdp(port) => port.is_steered(),
        }
    }

    /// Takes no more packets; those that came before are in the ring, or will be.
    pub(crate) fn close(&self) -> Result<(), ProbeError> {
        match self {
            Self::Packet(port) => port.close().map_err(PacketError::from)?,
            Self::Xdp(port) => port.close(),
        }
        Ok(())
    }
}

/// Visits the frames of a block, and gives how many of them are not believed.
fn visit_all(frames: Frames<'_>, visit: &mut impl FnMut(Seen<'_>)) -> u64 {
    let packets = frames.packets();
    let (mut read, mut broken) = (0, 0);
    for frame in frames {
        match frame {
            Ok(frame) => {
                read += 1;
                visit((frame.timestamp_ns, frame.wire_bytes, frame.bytes));
            }
            // The rest of the block is not believed.
            Err(RingError { .. }) => broken += u64::from(packets - read),
        }
    }
    broken
}

fn packet_ports(interface: &str, settings: &ProbeSettings) -> Result<Vec<PacketPort>, ProbeError> {
    let options = options(settings);
    if settings.offload != OffloadChoice::Filter {
        return Ok(PacketPort::open(interface, &options)?);
    }
    let ports = PacketPort::open_shut(interface, &options)?;
    let is_ethernet =
        |port: &PacketPort| LinkType::of(port.link_type()) == Some(LinkType::Ethernet);
    if ports.iter().all(is_ethernet) {
        return Ok(ports);
    }
    Err(ProbeError::NoEthernet(interface.to_owned()))
}

fn options(settings: &ProbeSettings) -> PortOptions {
    let blocks = settings.ring_bytes / u64::from(BLOCK_BYTES);
    PortOptions {
        queues: settings.queues,
        ring: RingSize {
            block_bytes: BLOCK_BYTES,
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            block_timeout_ms: BLOCK_TIMEOUT_MS,
        },
        snap_bytes: settings.snap_bytes,
        promiscuous: settings.promiscuous,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use forebay_testing::wait_for;
    use forebay_testing::wire::{is_at_wire, may_have_tun, sh};

    use super::*;

    #[test]
    fn a_port_is_of_its_interface_and_takes_packets_until_it_is_closed() {
        let own = "port::tests::a_port_is_of_its_interface_and_takes_packets_until_it_is_closed";
        if !is_at_wire(own) {
            return;
        }
        if !may_have_tun() {
            return;
        }
        sh("ip tuntap add tun mode tun; ip link set tun up");
        let ports = |interface| Port::open(interface, &ProbeSettings::default()).unwrap();
        let [mut closed, mut open] = [(); 2].map(|()| ports("far").remove(0));
        // Of Ethernet, and of packets of IP (numbers of pcap).
        assert_eq!([&closed, &ports("tun")[0]].map(Port::link_type), [1, 101]);
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        let send = |port: &mut Port| {
            assert!(!port.is_ready());
            socket.send_to(b"it", "10.0.0.2:5000").unwrap();
            wait_for(|| port.is_ready());
            while port.read(|_| ()).is_some() {}
        };
        send(&mut closed);
        wait_for(|| open.read(|_| ()).is_some());
        closed.close().unwrap();
        send(&mut open);
        let packets = [&mut closed, &mut open].map(|port| {
            let mut ring = RingCounts::default();
            port.count(&mut ring).unwrap();
            ring.kernel.packets
        });
        assert_eq!(packets, [1, 2]);
    }

    /// A block of three frames of 10 bytes (`linux/if_packet.h`, version 3), the heads of which are where `heads` says, and say so of the next one.
    fn block(heads: [u32; 3], next: [u32; 3]) -> Vec<u8> {
        let mut block = vec![0; 400];
        let mut put = |at: u32, word: u32| {
            let at = at as usize;
            block[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        };
        put(12, 3);
        put(16, heads[0]);
        put(20, 400);
        for ((head, next), time_ns) in heads.into_iter().zip(next).zip(1..) {
            put(head, next);
            put(head + 8, time_ns);
            put(head + 12, 10);
            put(head + 16, 60);
            put(head + 24, 80);
        }
        block
    }

    #[test]
    fn each_frame_of_a_block_is_visited_or_not_believed() {
        for (next, read) in [([100, 100, 0], 3), ([100, 9, 0], 1), ([1_000, 100, 0], 0)] {
            let mut block = block([48, 148, 248], next);
            let mut seen = Vec::new();
            let mut visit = |(time_ns, wire_bytes, bytes): Seen<'_>| {
                seen.push((time_ns, wire_bytes, bytes.len()));
            };
            let broken = visit_all(Frames::new(&mut block, true), &mut visit);
            let expected: Vec<_> = (1..=read).map(|time_ns| (time_ns, 60, 10)).collect();
            assert_eq!((seen, broken), (expected, 3 - read), "{next:?}");
        }
    }
}
