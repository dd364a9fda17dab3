//! The daemon over cards of memory, with clients in the same thread: what comes between two frames is the test's to say.

mod apart;
mod shared;
mod trusted;
mod vlan;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use forebay_client::protocol::{Message, PoolShape};
use forebay_config::source::Source;
use forebay_ledger::OneOf;
use forebay_mux::transmit::TransmitDrop;
use forebay_ring::{BareReceiver, BareSender, FramePoolSpec, SIDE_FDS};
use forebay_sys::eventfd::EventFd;
use forebay_sys::seqpacket::{Arrived, SeqSocket};

use super::*;
use crate::driver::emulated::{self, EmulatedOptions, FarEnd};
use crate::driver::{
    DriverError, Fate, Fill, Link, ReceiveCounts, ReceiveSide, SendCounts, SendSide, Sent,
};

/// A daemon, and the other end of its cable.
pub(super) struct Rig {
    pub(super) daemon: Daemon,
    pub(super) far: FarEnd,
    _folder: tempfile::TempDir,
}

/// A client with both of its pools.
#[derive(Debug)]
pub(super) struct Station {
    socket: SeqSocket,
    receiver: BareReceiver,
    sender: BareSender,
    sent: u32,
}

/// Keys of the multiplexer, and of both clients.
fn plan(folder: &std::path::Path, [of_mux, of_a, of_b]: [&str; 3]) -> MuxPlan {
    use std::os::unix::fs::MetadataExt;
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    let socket = folder.join("socket");
    let text = format!(
        "[mux]\ninterface = \"none\"\ndriver = \"tap\"\nsocket = {socket:?}\ntransmit_buffers = 1024\n{of_mux}\n\
         [[clients]]\nname = \"a\"\nuid = {uid}\nmac = \"02:00:00:00:00:01\"\naddress = [\"10.0.0.10\"]\n{of_a}\n\
         [[clients]]\nname = \"b\"\nuid = {uid}\nmac = \"02:00:00:00:00:02\"\n{of_b}\n"
    );
    forebay_config::read(&Source::of_text("mux.toml", &text)).unwrap()
}

impl Rig {
    pub(super) fn new(of_a: &str, options: &EmulatedOptions) -> Self {
        Self::with(["", of_a, ""], options)
    }

    pub(super) fn with(keys: [&str; 3], options: &EmulatedOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), keys);
        let (driver, far) = emulated::open(options).unwrap();
        let sizes = plan.sizes(1500).unwrap();
        Self {
            daemon: Daemon::over(driver, sizes, plan).unwrap(),
            far,
            _folder: folder,
        }
    }

    /// Connects and says hello.
    fn knock(&self, name: &str) -> SeqSocket {
        let socket = SeqSocket::connect(&self.daemon.plan.settings.socket).unwrap();
        let hello = Message::Hello(forebay_client::protocol::Name::new(name).unwrap());
        socket.send(&hello.emit(), &[]).unwrap();
        socket
    }

    pub(super) fn join(&mut self, name: &str) -> Station {
        let socket = self.knock(name);
        let (mut record, mut fds) = ([0; 256], Vec::new());
        let bytes = loop {
            self.daemon.look(Duration::ZERO).unwrap();
            match socket.receive_with_fds(&mut record, &mut fds).unwrap() {
                Arrived::Record(bytes) => break bytes,
                Arrived::Nothing => {}
                Arrived::End => panic!("no welcome"),
            }
        };
        let Ok(Message::Welcome(welcome)) = Message::parse(&record[..bytes]) else {
            panic!("no welcome");
        };
        let transmit = fds.split_off(SIDE_FDS);
        Station {
            socket,
            receiver: BareReceiver::map(&spec(welcome.receive), fds).unwrap(),
            sender: BareSender::map(&spec(welcome.transmit), transmit).unwrap(),
            sent: 0,
        }
    }

    pub(super) fn counts(&self, place: u8) -> ClientSummary {
        let summary = self.daemon.summary();
        summary.clients.into_iter().nth(place.into()).unwrap()
    }
}

fn spec(shape: PoolShape) -> FramePoolSpec {
    FramePoolSpec {
        name: "test".into(),
        frames: shape.frames,
        frame_bytes: shape.frame_bytes,
    }
}

impl Station {
    /// Hands packets over, and shows them to the daemon.
    pub(super) fn send(&mut self, packets: u32) {
        for _ in 0..packets {
            let packet = frame_from(0, self.sent);
            self.sender.send(self.sent % 1_024, &packet, 0).unwrap();
            self.sent += 1;
        }
        self.sender.publish();
    }

    /// Buffers that came back.
    fn freed(&mut self) -> usize {
        let mut freed = 0;
        self.sender.reclaim(|_| freed += 1).unwrap();
        freed
    }

    /// Takes what there is and gives it back; how many frames.
    fn take(&mut self) -> u64 {
        let mut taken = 0;
        while let Some(frame) = self.receiver.next().unwrap() {
            self.receiver.free(frame.frame);
            taken += 1;
        }
        self.receiver.publish();
        taken
    }
}

fn frame_for(place: u8, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1 + place, 2, 0, 0, 0, 0, 9, 0x88, 0xb5];
    frame.resize(bytes, 7);
    frame
}

/// A card whose frames come all at once, and a client that takes its own as soon as it sees them.
#[derive(Debug)]
struct Burst {
    frames: usize,
    client: Arc<Mutex<Option<Station>>>,
    taken: Arc<Mutex<u64>>,
    event: EventFd,
}

impl ReceiveSide for Burst {
    fn receive(&mut self, _: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError> {
        let frame = frame_for(0, 60);
        let frames = std::mem::take(&mut self.frames);
        for _ in 0..frames {
            visit(&frame);
            if let Some(client) = self.client.lock().unwrap().as_mut() {
                *self.taken.lock().unwrap() += client.take();
            }
        }
        Ok(frames)
    }

    fn is_ready(&mut self) -> bool {
        self.frames > 0
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn settle(&mut self) {}

    fn close(&mut self) {}

    fn counts(&mut self) -> Result<ReceiveCounts, DriverError> {
        Ok(ReceiveCounts::default())
    }
}

#[test]
fn a_client_that_keeps_up_loses_nothing_of_a_burst_that_is_longer_than_its_queue() {
    let (client, taken) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(0)));
    let mut rig = Rig::new("queue = 128", &EmulatedOptions::default());
    *client.lock().unwrap() = Some(rig.join("a"));
    rig.daemon.driver.receive = Box::new(Burst {
        frames: 1_000,
        client: client.clone(),
        taken: taken.clone(),
        event: EventFd::create().unwrap(),
    });
    assert!(rig.daemon.round(1).unwrap() > 0);
    let last = client.lock().unwrap().as_mut().unwrap().take();
    assert_eq!(*taken.lock().unwrap() + last, 1_000);
    let counts = rig.counts(0);
    assert_eq!((counts.frames_for, counts.frames_given), (1_000, 1_000));
}

/// One that asks to be woken, and does not wake, is signalled behind each 64 frames of a burst and behind its last one, and that is counted.
#[test]
fn a_client_that_sleeps_is_woken_within_a_burst_and_each_signal_is_counted() {
    let mut rig = Rig::new("queue = 200", &EmulatedOptions::default());
    let mut station = rig.join("a");
    for (frames, within, in_all) in [(63, 0, 1), (64, 1, 1), (130, 2, 3)] {
        rig.daemon.driver.receive = Box::new(Burst {
            frames,
            client: Arc::default(),
            taken: Arc::default(),
            event: EventFd::create().unwrap(),
        });
        station.receiver.data.prepare();
        let before = rig.daemon.signals;
        assert_eq!(rig.daemon.receive().unwrap(), frames);
        assert_eq!(rig.daemon.signals - before, within, "{frames}");
        rig.daemon.round(1).unwrap();
        assert_eq!(rig.daemon.signals - before, in_all, "{frames}");
        station.receiver.data.finish();
        assert_eq!(station.take(), frames as u64);
    }
}

/// A packet of a client, with its number.
fn frame_from(place: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1 + place, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.resize(60, 7);
    frame
}

#[test]
fn what_the_card_gives_up_is_no_packet_that_was_sent() {
    let mut rig = Rig::new("", &EmulatedOptions::default());
    let mut client = rig.join("a");
    client.send(3);
    rig.daemon.round(1).unwrap();
    rig.far.set_link(Link::Down);
    client.send(2);
    rig.daemon.round(2).unwrap();
    let counts = rig.counts(0);
    assert_eq!((counts.packets_asked, counts.packets_sent), (5, 3));
    assert_eq!(client.freed(), 5, "buffers come back either way");
    assert_eq!(std::iter::from_fn(|| rig.far.receive()).count(), 3);
    assert_eq!(rig.daemon.mux.residual().items, 0);
}

#[test]
fn a_packet_is_not_sent_before_the_card_has_it() {
    let options = EmulatedOptions {
        send_frames: 2,
        ..EmulatedOptions::default()
    };
    let mut rig = Rig::new("", &options);
    let mut client = rig.join("a");
    client.send(5);
    rig.daemon.round(1).unwrap();
    assert_eq!((rig.counts(0).packets_sent, client.freed()), (2, 2));
    assert!(rig.far.receive().is_some());
    rig.daemon.round(2).unwrap();
    assert_eq!((rig.counts(0).packets_sent, client.freed()), (3, 1));
}

#[test]
fn a_place_whose_packets_are_in_the_card_is_free_when_they_are_out() {
    let options = EmulatedOptions {
        send_frames: 1,
        ..EmulatedOptions::default()
    };
    let mut rig = Rig::new("", &options);
    let mut client = rig.join("a");
    client.send(2);
    rig.daemon.round(1).unwrap();
    drop(client);
    let _waiting = rig.knock("a");
    rig.daemon.look(Duration::ZERO).unwrap();
    let late_ns = monotonic_ns() + 1_000_000_000;
    rig.daemon.welcome_early(late_ns);
    assert_eq!(rig.counts(0).connected, 1);
    assert!(rig.far.receive().is_some());
    rig.daemon.round(2).unwrap();
    rig.daemon.welcome_early(late_ns);
    assert_eq!(
        (rig.counts(0).connected, rig.counts(0).packets_sent),
        (2, 2)
    );
}

#[test]
fn however_the_end_comes_the_card_is_shut_before_books_are() {
    let gone = || MuxError::CardGone {
        name: "none".to_owned(),
    };
    for worked in [Ok(()), Err(gone())] {
        let mut rig = Rig::new("", &EmulatedOptions::default());
        let is_in_order = worked.is_ok();
        let closed = rig.daemon.close(worked, Urgency::Now);
        assert_eq!(closed.is_ok(), is_in_order);
        assert!(!rig.far.send(&frame_for(0, 60)), "the card took a frame");
    }
}

#[test]
fn what_was_handed_over_last_is_counted_at_the_end() {
    let mut rig = Rig::new("", &EmulatedOptions::default());
    let mut client = rig.join("a");
    assert!(rig.far.send(&frame_for(0, 60)));
    rig.daemon.round(1).unwrap();
    assert_eq!(client.take(), 1);
    client.send(5);
    rig.daemon.close(Ok(()), Urgency::Now).unwrap();
    let counts = rig.counts(0);
    assert_eq!((counts.packets_asked, counts.packets_sent), (5, 0));
    assert_eq!(counts.buffers_returned, 1);
    assert_eq!(counts.parted.get("end"), Some(&1));
    assert_eq!(rig.daemon.mux.residual().items, 0);
    let mut record = [0; 256];
    assert_eq!(client.socket.receive(&mut record).unwrap(), Arrived::End);
}

#[test]
fn at_the_end_the_card_may_take_its_time_for_what_the_driver_has() {
    let options = EmulatedOptions {
        send_frames: 1,
        ..EmulatedOptions::default()
    };
    let mut rig = Rig::new("", &options);
    let mut client = rig.join("a");
    client.send(3);
    rig.daemon.round(1).unwrap();
    assert_eq!(rig.counts(0).packets_sent, 1);
    let far = rig.far.clone();
    let taking = std::thread::spawn(move || {
        let mut taken = 0;
        while taken < 3 {
            taken += usize::from(far.receive().is_some());
        }
    });
    rig.daemon.send_out(Duration::from_secs(30));
    taking.join().unwrap();
    assert_eq!(rig.counts(0).packets_sent, 3);
    let mut rig = Rig::new("", &options);
    rig.join("a").send(2);
    rig.daemon.round(1).unwrap();
    rig.daemon.send_out(Duration::ZERO);
    assert_eq!(rig.counts(0).packets_sent, 1, "nobody waits for ever");
}

#[test]
fn all_that_a_client_sent_before_it_left_goes_out() {
    let mut rig = Rig::new("", &EmulatedOptions::default());
    let mut client = rig.join("a");
    client.send(1_000);
    drop(client);
    rig.daemon.look(Duration::ZERO).unwrap();
    let counts = rig.counts(0);
    assert_eq!(counts.parted.get("left"), Some(&1));
    assert_eq!((counts.packets_asked, counts.packets_sent), (1_000, 1_000));
    for number in 0..1_000 {
        assert_eq!(rig.far.receive(), Some(frame_from(0, number)));
    }
}

/// A card without a batch: what it has no room for it has nothing of.
#[derive(Debug)]
struct Narrow {
    is_shut: Arc<AtomicBool>,
    card: Box<dyn SendSide>,
}

impl SendSide for Narrow {
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        match self.is_shut.load(Ordering::Relaxed) {
            true => Sent::NoRoom,
            false => self.card.send_with(bytes, fill),
        }
    }

    fn flush(&mut self) -> Flushed {
        self.card.flush()
    }

    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        self.card.fates(told);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.card.descriptor()
    }

    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        self.card.counts()
    }
}

impl Rig {
    /// Has the card be without room, as long as this is so.
    fn narrow(&mut self) -> Arc<AtomicBool> {
        let is_shut = Arc::new(AtomicBool::new(true));
        let spare = emulated::open(&EmulatedOptions::default()).unwrap().0.send;
        let card = std::mem::replace(&mut self.daemon.driver.send, spare);
        let is_so = is_shut.clone();
        self.daemon.driver.send = Box::new(Narrow { is_shut, card });
        is_so
    }
}

#[test]
fn a_packet_without_room_has_the_daemon_wait_for_the_card() {
    let mut rig = Rig::new("", &EmulatedOptions::default());
    let mut client = rig.join("a");
    let is_shut = rig.narrow();
    client.send(2);
    rig.daemon.round(1).unwrap();
    assert!(rig.daemon.is_send_waiting);
    // It sleeps meanwhile, and looks again in a while.
    rig.daemon.round(1).unwrap();
    let wait = rig.daemon.patience(1);
    let some = Duration::from_micros(50)..Duration::from_millis(1);
    assert!(some.contains(&wait), "{wait:?}");
    is_shut.store(false, Ordering::Relaxed);
    rig.daemon.round(2).unwrap();
    assert!(!rig.daemon.is_send_waiting);
    assert_eq!(rig.counts(0).packets_sent, 2);
}

#[test]
fn no_packet_waits_for_the_card_longer_than_it_may() {
    let mut rig = Rig::new("sojourn_max_us = 1000", &EmulatedOptions::default());
    let mut client = rig.join("a");
    let is_shut = rig.narrow();
    let since_ns = monotonic_ns();
    client.send(2);
    rig.daemon.round(since_ns).unwrap();
    client.send(1);
    rig.daemon.round(since_ns + 900_000).unwrap();
    assert_eq!(rig.daemon.ask_at_ns, Some(since_ns + 1_000_001));
    // The one that found no room, and the one behind it.
    rig.daemon.round(since_ns + 1_000_001).unwrap();
    let lost = rig.daemon.mux.counts(ClientId::new(0)).transmit.dropped;
    let sojourn = OneOf::Second(TransmitDrop::Sojourn);
    assert_eq!((lost[sojourn].items, client.freed()), (2, 2));
    is_shut.store(false, Ordering::Relaxed);
    rig.daemon.round(since_ns + 1_500_000).unwrap();
    let counts = rig.counts(0);
    assert_eq!((counts.packets_sent, counts.sojourn_ns_max), (1, 600_000));
}

#[test]
fn what_changes_of_the_card_is_told_once() {
    let mut rig = Rig::new("", &EmulatedOptions::default());
    assert!(rig.daemon.card_changes().is_empty());
    rig.far.set_link(Link::Down);
    rig.far.set_mtu_bytes(9_000);
    let told = rig.daemon.card_changes();
    assert!(told[0].contains("is down: what clients send"), "{told:?}");
    assert!(told[1].contains("MTU of 9000 bytes instead of 1500: clients have frames for 1500"));
    assert!(rig.daemon.card_changes().is_empty());
    rig.far.set_link(Link::Up);
    assert_eq!(rig.daemon.card_changes(), ["emulated is up"]);
}

#[test]
fn who_takes_no_welcome_gets_two_and_no_more() {
    let mut rig = Rig::new("", &EmulatedOptions::default());
    let mut silent = Vec::new();
    let mut record = [0; 256];
    for _ in 0..2 {
        let socket = rig.knock("a");
        rig.daemon.look(Duration::ZERO).unwrap();
        assert!(rig.daemon.places[0].lane.is_some());
        socket.send(b"over", &[]).unwrap();
        rig.daemon.look(Duration::ZERO).unwrap();
        rig.daemon.places[0].welcomed_ns = None;
        silent.push(socket);
    }
    let third = rig.knock("a");
    rig.daemon.look(Duration::ZERO).unwrap();
    let Arrived::Record(bytes) = third.receive(&mut record).unwrap() else {
        panic!("no answer");
    };
    let Ok(Message::Refusal(refusal)) = Message::parse(&record[..bytes]) else {
        panic!("no refusal");
    };
    assert_eq!(refusal.reason, No::Resource);
    let first = silent[0].receive(&mut record).unwrap();
    assert!(matches!(first, Arrived::Record(_)));
    let end = silent[0].receive(&mut record).unwrap();
    assert_eq!(end, Arrived::End);
    let _fourth = rig.join("a");
    assert_eq!(rig.counts(0).connected, 3);
}
