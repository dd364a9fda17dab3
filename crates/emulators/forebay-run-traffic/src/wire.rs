//! The interface that packets go onto: each of them is taken by the kernel, or refused by name.

use std::ops::Range;
use std::os::fd::AsFd as _;

use forebay_ledger::{DropReason as _, reasons};
use forebay_link::packet::{FrameBatch, Refusal, SendPort, Stopped};
use forebay_run::Stop;
use forebay_sys::clock;
use forebay_traffic::{FlowKey, Packet};

use crate::TrafficError;
use crate::capture::Amount;
use crate::sent::SentTruth;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_HEADER_BYTES: u32 = 14;
/// So long at most room is waited for before it is looked again, in ns.
const ROOM_NS: u64 = 100_000_000;

reasons! {
    /// Why a packet is not on the wire.
    pub(crate) enum WireDrop {
        /// The device did not take it: its queue is full, or it has no carrier.
        Device = "device",
        /// The interface is down.
        InterfaceDown = "interface_down",
        /// The interface is there no more.
        InterfaceGone = "interface_gone",
        /// It is longer than the interface takes since its MTU was lowered.
        TooLong = "too_long",
        /// The kernel refused it for another reason.
        Refused = "refused",
        /// It was not sent yet when it should end.
        NotSent = "not_sent",
    }
}

impl WireDrop {
    const fn of(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Device => Self::Device,
            Refusal::Down => Self::InterfaceDown,
            Refusal::Gone => Self::InterfaceGone,
            Refusal::TooLong => Self::TooLong,
            Refusal::Other(_) => Self::Refused,
        }
    }
}

/// An interface, and the packets that are to go onto it.
pub(crate) struct Wire {
    port: SendPort,
    interface: String,
    frames: FrameBatch,
    waiting: Vec<Packet>,
    truth: Option<SentTruth>,
    /// What the kernel took.
    pub(crate) sent: Amount,
    /// What was not sent, by its reason.
    pub(crate) refused: [Amount; WireDrop::ALL.len()],
}

impl Wire {
    /// Of frames that have so many bytes at most.
    pub(crate) fn new(
        port: SendPort,
        interface: &str,
        frame_bytes_max: usize,
        truth: Option<SentTruth>,
    ) -> Self {
        Self {
            port,
            interface: interface.to_owned(),
            frames: FrameBatch::new(frame_bytes_max),
            waiting: Vec::new(),
            truth,
            sent: Amount::default(),
            refused: Default::default(),
        }
    }

    /// Room for the next frame, if there is any.
    #[inline]
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        self.frames.room()
    }

    /// Takes in the packet whose frame was written into the room.
    #[inline]
    pub(crate) fn take(&mut self, packet: Packet, key: Option<&FlowKey>) {
        if let (Some(truth), Some(key)) = (&mut self.truth, key) {
            truth.begin(packet.row, key);
        }
        self.frames.push(packet.captured_bytes);
        self.waiting.push(packet);
    }

    /// Packets that wait.
    pub(crate) fn packets(&self) -> usize {
        self.waiting.len()
    }

    /// What waits.
    pub(crate) fn held(&self) -> Amount {
        let mut held = Amount::default();
        for packet in &self.waiting {
            held.packets += 1;
            held.octets += u64::from(packet.ip_bytes);
        }
        held
    }

    /// Sends the first so many packets, or as many as there is room for until it shall end; those behind them are the first ones then.
    pub(crate) fn send(&mut self, packets: usize, stop: &Stop) -> Result<(), TrafficError> {
        let mut from = 0;
        let mut done = Ok(());
        while from < packets && done.is_ok() {
            let at_ns = clock::realtime_ns();
            let sent = self.port.send(&self.frames, from..packets);
            done = self.settle(from..from + sent.frames, at_ns);
            from += sent.frames;
            match sent.stopped {
                None => {}
                Some(Stopped::Full) if stop.is_asked() => break,
                Some(Stopped::Full) => {
                    self.port
                        .wait_room(stop.as_fd(), clock::monotonic_ns() + ROOM_NS)
                        .map_err(forebay_run::RunError::from)?;
                }
                // Packets have their times: one that the device has no room for is late already.
                Some(Stopped::Busy) => {
                    done = done.and(self.refuse(from, WireDrop::Device));
                    from += 1;
                }
                Some(Stopped::Refused(refusal)) => {
                    done = done.and(self.refuse(from, WireDrop::of(refusal)));
                    from += 1;
                    if refusal == Refusal::Gone {
                        let interface = self.interface.clone();
                        done = done.and(Err(TrafficError::Gone { interface }));
                    }
                }
            }
        }
        self.frames.remove_before(from);
        self.waiting.drain(..from);
        done
    }

    /// Counts packets that the kernel took.
    fn settle(&mut self, which: Range<usize>, at_ns: u64) -> Result<(), TrafficError> {
        let mut done = Ok(());
        for packet in self.waiting.get(which).unwrap_or_default() {
            self.sent.packets += 1;
            self.sent.octets += u64::from(packet.ip_bytes);
            if let Some(truth) = &mut self.truth {
                truth.count(packet, at_ns);
                done = done.and(truth.settle(packet));
            }
        }
        done
    }

    /// Counts a packet that is not sent.
    fn refuse(&mut self, at: usize, reason: WireDrop) -> Result<(), TrafficError> {
        let Some(packet) = self.waiting.get(at) else {
            return Ok(());
        };
        let to = &mut self.refused[reason.index()];
        to.packets += 1;
        to.octets += u64::from(packet.ip_bytes);
        match &mut self.truth {
            Some(truth) => truth.settle(packet),
            None => Ok(()),
        }
    }

    /// What waits is not sent any more, and the truth is whole.
    pub(crate) fn end(&mut self) -> Result<(), TrafficError> {
        let mut done = Ok(());
        for at in 0..self.waiting.len() {
            done = done.and(self.refuse(at, WireDrop::NotSent));
        }
        self.waiting.clear();
        self.frames.remove_before(usize::MAX);
        done.and(self.truth.as_mut().map_or(Ok(()), SentTruth::cut))
    }

    /// Gives the truth its name.
    pub(crate) fn finish(self) -> Result<(), TrafficError> {
        self.truth.map_or(Ok(()), SentTruth::finish)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use forebay_testing::wire::{is_inside, sh};
    use forebay_traffic::Direction;

    use super::*;
    use crate::truth::Truth;

    const KEY: FlowKey = FlowKey {
        source: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        destination: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        protocol: 17,
        source_port: 1,
        destination_port: 2,
    };

    fn packet(row: u64, direction: Direction, ip_bytes: u32, is_last: bool) -> Packet {
        let frame_bytes = (ip_bytes + ETHERNET_HEADER_BYTES) as usize;
        Packet {
            at_ns: 0,
            row,
            direction,
            ip_bytes,
            wire_bytes: frame_bytes,
            captured_bytes: frame_bytes,
            tcp_flags: 0,
            is_last,
        }
    }

    fn amount(packets: u64, octets: u64) -> Amount {
        Amount { packets, octets }
    }

    /// What left the loopback interface, by the kernel's own count: frames, and their bytes behind the Ethernet header.
    fn left() -> (u64, u64) {
        let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = table
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("lo:"));
        let numbers: Vec<u64> = line
            .unwrap()
            .split_whitespace()
            .map(|number| number.parse().unwrap())
            .collect();
        (numbers[9], numbers[8])
    }

    #[test]
    fn each_refusal_is_its_own_term() {
        let refusals = [
            Refusal::Device,
            Refusal::Down,
            Refusal::Gone,
            Refusal::TooLong,
            Refusal::Other(5),
        ];
        let terms = refusals.map(WireDrop::of);
        assert_eq!(
            terms.map(WireDrop::name),
            [
                "device",
                "interface_down",
                "interface_gone",
                "too_long",
                "refused"
            ]
        );
    }

    #[test]
    fn each_packet_waits_is_sent_or_is_refused_by_its_reason() {
        if !is_inside("wire::tests::each_packet_waits_is_sent_or_is_refused_by_its_reason") {
            return;
        }
        sh("ip link set lo up");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.csv");
        let truth = SentTruth::new(Truth::create(&path).unwrap());
        let port = SendPort::open("lo").unwrap();
        let mut wire = Wire::new(port, "lo", 300, Some(truth));
        for one in [
            packet(0, Direction::Forward, 100, false),
            packet(0, Direction::Reverse, 60, true),
            packet(1, Direction::Forward, 286, true),
            packet(2, Direction::Forward, 50, true),
            packet(3, Direction::Forward, 41, false),
            packet(4, Direction::Forward, 42, false),
        ] {
            wire.room().unwrap().fill(0xff);
            wire.take(one, Some(&KEY));
        }
        assert_eq!((wire.packets(), wire.held()), (6, amount(6, 579)));
        let (stop, before) = (Stop::of_library().unwrap(), left());
        wire.send(2, &stop).unwrap();
        let after = left();
        assert_eq!((after.0 - before.0, after.1 - before.1), (2, 160));
        assert_eq!((wire.sent, wire.held()), (amount(2, 160), amount(4, 419)));
        sh("ip link set lo mtu 100");
        wire.send(1, &stop).unwrap();
        assert_eq!(wire.held(), amount(3, 133));
        sh("ip link set lo down");
        wire.send(1, &stop).unwrap();
        assert_eq!(wire.held(), amount(2, 83));
        wire.end().unwrap();
        assert_eq!((wire.packets(), wire.held()), (0, amount(0, 0)));
        assert_eq!(wire.sent, amount(2, 160));
        assert_eq!(left(), after);
        let mut refused = [Amount::default(); WireDrop::ALL.len()];
        refused[WireDrop::TooLong.index()] = amount(1, 286);
        refused[WireDrop::InterfaceDown.index()] = amount(1, 50);
        refused[WireDrop::NotSent.index()] = amount(2, 83);
        assert_eq!(wire.refused, refused);
        wire.finish().unwrap();
        // Flows of which nothing was sent are in no truth.
        let truth = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<_> = truth.lines().skip(1).collect();
        assert_eq!(rows.len(), 1, "{truth}");
        assert!(
            rows[0].starts_with("0,127.0.0.1,127.0.0.1,1,2,17,1,100,1,60,"),
            "{truth}"
        );
    }
}
