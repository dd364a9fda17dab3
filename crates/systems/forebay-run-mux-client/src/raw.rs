//! The echo without a stack: a datagram of UDP goes back as the frame that brought it, with addresses and ports changed over. Sums of such swaps are the same,
//! so that checksums stay right. Generated load without a datagram (`forebay load --raw`) goes back as the frame that it is.

use forebay_client::{Client, ClientError};
use forebay_ledger::Leak;
use forebay_wire::load::{ETHERTYPE, LoadHead};
use forebay_wire::packet::Ip;
use forebay_wire::packet::link::{self, ETHERNET_HEADER_BYTES, EtherType, ethernet};
use forebay_wire::packet::udp::Datagram;

use crate::counts::{Amount, SendCounts, WorkCounts, WorkDrop};
use crate::workload::{SEND, WORK};

/// The daemon of the client library's tests.
#[cfg(test)]
#[path = "../../../movers/forebay-client/tests/place/mod.rs"]
mod place;

const UDP: u8 = 17;
const MAC_BYTES: usize = 6;
/// Frames of one turn: then the other side is told.
const BATCH: usize = 256;

/// An echo of raw frames at its place.
pub(crate) struct Raw {
    client: Client,
    port: u16,
    frame: Vec<u8>,
    sent: Amount,
    /// Frames that came and are no datagrams for this client.
    others: u64,
}

/// Turns a frame round if it is a whole datagram to this Ethernet address and port, or a packet of generated load without one; the bytes of its payload, or of the frame.
fn turn_round(frame: &mut [u8], mac: [u8; MAC_BYTES], port: u16) -> Option<usize> {
    if is_load(frame, mac) {
        link::turn_round(frame);
        return Some(frame.len());
    }
    let (ip_at, udp_at, is_v4, bytes) = look(frame, mac, port)?;
    link::turn_round(frame);
    let (at, address_bytes) = if is_v4 { (12, 4) } else { (8, 16) };
    swap(frame, ip_at + at, address_bytes);
    swap(frame, udp_at, 2);
    Some(bytes)
}

/// Whether a frame to this Ethernet address has generated load behind its header, by its type and its head.
fn is_load(frame: &[u8], mac: [u8; MAC_BYTES]) -> bool {
    let Some((header, packet)) = frame.split_at_checked(ETHERNET_HEADER_BYTES) else {
        return false;
    };
    header[..MAC_BYTES] == mac
        && header[2 * MAC_BYTES..] == ETHERTYPE.to_be_bytes()
        && LoadHead::parse(packet).is_ok()
}

/// Changes two fields over that lie side by side.
fn swap(frame: &mut [u8], at: usize, bytes: usize) {
    let (first, second) = frame[at..at + 2 * bytes].split_at_mut(bytes);
    first.swap_with_slice(second);
}

/// Where the packet and its datagram begin, whether it is of version 4, and the bytes of the payload.
fn look(frame: &[u8], mac: [u8; MAC_BYTES], port: u16) -> Option<(usize, usize, bool, usize)> {
    let link = ethernet(frame).ok()?;
    if frame[..MAC_BYTES] != mac || !link.ethertype.is_ip() {
        return None;
    }
    let ip = Ip::parse(link.payload).ok()?;
    if ip.fragment.is_some() || ip.protocol != UDP {
        return None;
    }
    let carried = ip.payload().ok()?;
    let datagram = Datagram::new_checked(carried).ok()?;
    let ip_at = frame.len() - link.payload.len();
    // Behind all headers of the packet, whatever they are.
    let udp_at = ip_at + (carried.as_ptr() as usize - link.payload.as_ptr() as usize);
    let is_v4 = link.ethertype == EtherType::IPV4;
    (datagram.destination_port() == port).then_some((
        ip_at,
        udp_at,
        is_v4,
        datagram.payload().len(),
    ))
}

impl Raw {
    pub(crate) const fn new(client: Client, port: u16) -> Self {
        Self {
            client,
            port,
            frame: Vec::new(),
            sent: Amount {
                packets: 0,
                bytes: 0,
            },
            others: 0,
        }
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) const fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(crate) const fn sent(&self) -> Amount {
        self.sent
    }

    pub(crate) const fn others(&self) -> u64 {
        self.others
    }

    /// Sends back what there is, a batch at most; whether there was something.
    pub(crate) fn turn(
        &mut self,
        work: &mut WorkCounts,
        send: &mut SendCounts,
        leak: &mut Leak,
    ) -> Result<bool, ClientError> {
        for number in 0..BATCH {
            if !self.client.receive_into(&mut self.frame)? {
                return Ok(number > 0);
            }
            let mac = self.client.welcome().mac;
            match turn_round(&mut self.frame, mac, self.port) {
                Some(bytes) => self.answer(bytes, work, send, leak)?,
                None => self.others += 1,
            }
        }
        Ok(true)
    }

    fn answer(
        &mut self,
        bytes: usize,
        work: &mut WorkCounts,
        send: &mut SendCounts,
        leak: &mut Leak,
    ) -> Result<(), ClientError> {
        work.came.add(1, bytes);
        if leak.take(WORK) {
            return Ok(());
        }
        // A frame that came is none that is too long to go.
        if !self.client.is_ready()? {
            work.dropped[WorkDrop::NoRoom].add(1, bytes);
            return Ok(());
        }
        work.answered.add(1, bytes);
        send.due.add(1, bytes);
        if leak.take(SEND) {
            return Ok(());
        }
        match self.client.send(&self.frame) {
            Ok(()) => self.sent.add(1, bytes),
            Err(forebay_client::SendError::Client(error)) => {
                send.dropped[crate::SendDrop::DaemonGone].add(1, bytes);
                return Err(error);
            }
            Err(_) => send.dropped[crate::SendDrop::NoWay].add(1, bytes),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::place::{FRAMES, place};
    use super::*;
    use forebay_wire::load::HEAD_BYTES;
    use proptest::prelude::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    /// From 10.0.0.9 port 40000 to 10.0.0.1 port 9500, "hi".
    const V4: [u8; 44] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0,
        0, 9, 10, 0, 0, 1, 0x9c, 0x40, 0x25, 0x1c, 0, 10, 0, 0, b'h', b'i',
    ];

    fn v6(tag: &[u8]) -> Vec<u8> {
        let mut frame = [&MAC[..], &[2, 0, 0, 0, 0, 9], tag, &[0x86, 0xdd]].concat();
        frame.extend([0x60, 0, 0, 0, 0, 9, 17, 64]);
        frame.extend([&[9; 16][..], &[1; 16]].concat());
        frame.extend([0x9c, 0x40, 0x25, 0x1c, 0, 9, 1, 2, b'x']);
        frame
    }

    #[test]
    fn datagrams_go_back_until_there_is_no_room_and_others_are_counted() {
        let (client, mut place) = place(1, None, &[]);
        let mut raw = Raw::new(client, 9500);
        let (mut work, mut send) = (WorkCounts::default(), SendCounts::default());
        let mut turn = |raw: &mut Raw| {
            let has_come = raw.turn(&mut work, &mut send, &mut Leak::off()).unwrap();
            raw.client_mut().flush();
            (
                has_come,
                work.came.packets,
                work.dropped[WorkDrop::NoRoom].packets,
            )
        };
        assert_eq!(turn(&mut raw), (false, 0, 0));
        let mut other = V4;
        other[12] = 0x86;
        place.give(&V4);
        place.give(&other);
        place.give(&other);
        assert_eq!(turn(&mut raw), (true, 1, 0));
        let back = place.taken();
        assert_eq!(back.len(), 1);
        assert_eq!(back[0][..6], [2, 0, 0, 0, 0, 9]);
        assert_eq!((raw.sent().packets, raw.others()), (1, 2));
        // The daemon takes none of these.
        for number in 1..=FRAMES {
            place.give(&V4);
            assert_eq!(turn(&mut raw), (true, 1 + u64::from(number), 0));
        }
        place.give(&V4);
        assert_eq!(turn(&mut raw), (true, 2 + u64::from(FRAMES), 1));
        assert_eq!(raw.sent().packets, 1 + u64::from(FRAMES));
        assert_eq!(send.due.packets, 1 + u64::from(FRAMES));
    }

    #[test]
    fn a_datagram_is_turned_round() {
        let mut frame = V4;
        assert_eq!(turn_round(&mut frame, MAC, 9500), Some(2));
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1]);
        assert_eq!(frame[26..34], [10, 0, 0, 1, 10, 0, 0, 9]);
        assert_eq!(frame[34..38], [0x25, 0x1c, 0x9c, 0x40]);
        assert_eq!((&frame[12..26], &frame[38..]), (&V4[12..26], &V4[38..]));
        for tag in [&[][..], &[0x81, 0, 0, 7]] {
            let (before, mut frame) = (v6(tag), v6(tag));
            assert_eq!(turn_round(&mut frame, MAC, 9500), Some(1));
            let at = 14 + tag.len();
            assert_eq!(frame[at + 8..at + 40], [[1; 16], [9; 16]].concat());
            assert_eq!(frame[at + 40..at + 44], [0x25, 0x1c, 0x9c, 0x40]);
            assert_eq!(frame[12..at + 8], before[12..at + 8]);
            assert_eq!(frame[at + 44..], before[at + 44..]);
        }
    }

    #[test]
    fn generated_load_without_a_datagram_is_turned_round() {
        let head = LoadHead {
            sequence: 7,
            bytes: 46,
            ..LoadHead::default()
        };
        let addresses = [&MAC[..], &[2, 0, 0, 0, 0, 9], &[0x88, 0xb5]].concat();
        let whole = [&addresses[..], &head.emit(), &[5; 46 - HEAD_BYTES]].concat();
        let mut frame = whole.clone();
        assert_eq!(turn_round(&mut frame, MAC, 9500), Some(60));
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1]);
        assert_eq!(frame[12..], whole[12..]);
        // For another, of another type, of another kind, damaged, and cut.
        for (at, byte) in [(5, 7), (13, 0xb6), (14, b'G'), (30, 1)] {
            let mut frame = whole.clone();
            frame[at] = byte;
            assert_eq!(turn_round(&mut frame, MAC, 9500), None, "byte {at}");
        }
        for bytes in [0, 13, 14, 37] {
            let mut frame = whole[..bytes].to_vec();
            assert_eq!(turn_round(&mut frame, MAC, 9500), None, "{bytes}");
        }
    }

    #[test]
    fn what_is_for_others_is_left_as_it_is() {
        let cases: [(usize, u8); 5] = [(5, 7), (12, 9), (23, 6), (20, 0x20), (37, 0)];
        for (at, byte) in cases {
            let mut frame = V4;
            frame[at] = byte;
            let before = frame;
            assert_eq!(turn_round(&mut frame, MAC, 9500), None, "byte {at}");
            assert_eq!(frame, before);
        }
    }

    proptest! {
        #[test]
        fn no_frame_is_too_strange(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
            at in 0..44usize,
            byte in any::<u8>(),
            cut in 0..=44usize,
        ) {
            turn_round(&mut bytes, MAC, 9500);
            let mut frame = V4;
            frame[at] = byte;
            turn_round(&mut frame[..cut], MAC, 9500);
        }

        #[test]
        fn turned_round_twice_it_is_the_same(at in 38..44usize, byte in any::<u8>()) {
            let mut frame = V4;
            frame[at] = byte;
            let before = frame;
            if turn_round(&mut frame, MAC, 9500).is_some() {
                let back = turn_round(&mut frame, [2, 0, 0, 0, 0, 9], 40_000);
                prop_assert!(back.is_some());
                prop_assert_eq!(frame, before);
            }
        }
    }
}
