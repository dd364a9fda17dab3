//! A client against a daemon that is only as much of one as a test needs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_client::protocol::{Message, PoolShape, Reason, Refusal, Welcome};
use forebay_client::{Client, ClientError, Counts, SendError, Woken};
use forebay_ring::{BareReceiver, BareSender, FramePoolMemory, FramePoolSpec};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::seqpacket::{Arrived, SeqListener, SeqSocket};

const LONG: Duration = Duration::from_secs(30);
const SHAPE: PoolShape = PoolShape {
    frames: 4,
    frame_bytes: 128,
};

struct Daemon {
    _folder: tempfile::TempDir,
    path: PathBuf,
    listener: SeqListener,
}

struct Place {
    /// The page that this side writes of the pool in which frames go.
    page: OwnedFd,
    socket: SeqSocket,
    sender: BareSender,
    receiver: BareReceiver,
}

impl Daemon {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mux");
        let listener = SeqListener::bind(&path, 4).unwrap();
        Self {
            _folder: folder,
            path,
            listener,
        }
    }

    /// Lets a client of this name connect, and answers with what is given.
    fn answer(
        &self,
        answer: &Message,
        fds: &[OwnedFd],
    ) -> (Result<Client, ClientError>, SeqSocket) {
        let path = self.path.clone();
        let client = std::thread::spawn(move || Client::connect(&path, "echo", LONG));
        let socket = loop {
            match self.listener.accept().unwrap() {
                Some(socket) => break socket,
                None => std::thread::yield_now(),
            }
        };
        let mut record = [0; 256];
        let bytes = loop {
            match socket.receive(&mut record).unwrap() {
                Arrived::Record(bytes) => break bytes,
                Arrived::Nothing => std::thread::yield_now(),
                Arrived::End => panic!("the client has gone"),
            }
        };
        let Message::Hello(name) = Message::parse(&record[..bytes]).unwrap() else {
            panic!("no hello");
        };
        assert_eq!(name.as_str(), "echo");
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        assert!(socket.send(&answer.emit(), &fds).unwrap());
        (client.join().unwrap(), socket)
    }

    fn place(&self) -> (Client, Place) {
        let spec = FramePoolSpec {
            name: "test".into(),
            frames: SHAPE.frames,
            frame_bytes: SHAPE.frame_bytes,
        };
        let [down, up] = [0; 2].map(|_| FramePoolMemory::create(&spec).unwrap());
        let sender = BareSender::map(&spec, down.sender_fds().unwrap()).unwrap();
        let receiver = BareReceiver::map(&spec, up.receiver_fds().unwrap()).unwrap();
        let mut fds = down.receiver_fds().unwrap();
        fds.extend(up.sender_fds().unwrap());
        let (client, socket) = self.answer(&Message::Welcome(welcome()), &fds);
        let place = Place {
            page: up.receiver_fds().unwrap().remove(1),
            socket,
            sender,
            receiver,
        };
        (client.unwrap(), place)
    }
}

fn welcome() -> Welcome {
    Welcome {
        client: 0,
        mac: [2, 0, 0, 0, 0, 1],
        vlan: None,
        mtu_bytes: 100,
        receive: SHAPE,
        transmit: SHAPE,
        addresses: Vec::new(),
    }
}

impl Place {
    fn give(&mut self, frame: u32, bytes: &[u8]) {
        self.sender.send(frame, bytes, 0).unwrap();
        self.sender.publish();
        if self.sender.data.is_asked() {
            self.ring();
        }
    }

    fn ring(&self) {
        self.socket.send(&Message::Bell.emit(), &[]).unwrap();
    }

    fn given_back(&mut self) -> Vec<u64> {
        let mut back = Vec::new();
        self.sender.reclaim(|frame| back.push(frame)).unwrap();
        back
    }
}

#[test]
fn frames_come_in_order_and_their_buffers_go_back() {
    let daemon = Daemon::open();
    let (mut client, mut place) = daemon.place();
    assert!(client.receive().unwrap().is_none());
    place.give(2, b"first");
    place.give(0, b"second one");
    assert_eq!(client.wait(Instant::now() + LONG).unwrap(), Woken::Frame);
    let held = client.receive().unwrap().unwrap().hold();
    let mut frame = Vec::new();
    assert!(client.receive_into(&mut frame).unwrap());
    assert_eq!(frame, b"second one");
    client.flush();
    assert_eq!(place.given_back(), [0], "the first one is held");
    assert_eq!(client.view(&held).unwrap().to_vec(), b"first");
    client.release(held);
    client.flush();
    assert_eq!(place.given_back(), [2]);
    let counts = Counts {
        received: 2,
        received_bytes: 15,
        ..Counts::default()
    };
    assert_eq!(client.counts(), counts);
}

#[test]
fn frames_go_out_until_all_buffers_are_on_their_way_and_again_when_some_are_back() {
    let daemon = Daemon::open();
    let (mut client, mut place) = daemon.place();
    (0..4).for_each(|number| client.send(&[number; 100]).unwrap());
    assert!(matches!(
        client.send(&[4; 100]),
        Err(SendError::Full { frames: 4 })
    ));
    assert!(place.receiver.next().unwrap().is_none(), "not flushed yet");
    let daemon_side = std::thread::spawn(move || {
        let mut place = place;
        for number in 0..4 {
            let sent = loop {
                if let Some(sent) = place.receiver.next().unwrap() {
                    break sent;
                }
                std::thread::yield_now();
            };
            let bytes = place.receiver.view(&sent).unwrap().to_vec();
            assert_eq!(bytes, [number; 100]);
            place.receiver.free(sent.frame);
        }
        place.receiver.publish();
        place.ring();
        place
    });
    loop {
        match client.wait(Instant::now() + LONG).unwrap() {
            Woken::Room => break,
            other => assert_eq!(other, Woken::Early),
        }
    }
    client.send(&[4; 100]).unwrap();
    for length in [13, 119] {
        let wrong = client.send(&vec![0; length]).unwrap_err();
        let said =
            matches!(wrong, SendError::Length { found, least: 14, most: 118 } if found == length);
        assert!(said, "{wrong}");
    }
    let counts = client.counts();
    assert_eq!((counts.sent, counts.sent_bytes), (5, 500));
    assert_eq!(counts.refused_full, 1);
    daemon_side.join().unwrap();
}

#[test]
fn a_client_that_found_room_asks_for_it_no_more() {
    let daemon = Daemon::open();
    let (mut client, mut place) = daemon.place();
    while client.send(&[0; 60]).is_ok() {}
    client.flush();
    let due = Instant::now() + Duration::from_millis(1);
    assert_eq!(
        client.wait(due).unwrap(),
        Woken::Due,
        "all are on their way"
    );
    while let Some(sent) = place.receiver.next().unwrap() {
        place.receiver.free(sent.frame);
    }
    place.receiver.publish();
    assert_eq!(client.wait(Instant::now() + LONG).unwrap(), Woken::Room);
    assert!(!place.receiver.returns.is_asked(), "nobody need ring");
    let due = Instant::now() + Duration::from_millis(1);
    assert_eq!(client.wait(due).unwrap(), Woken::Due, "room is told once");
    assert!(!place.receiver.returns.is_asked());
}

#[test]
fn a_daemon_that_goes_is_an_error_after_all_that_it_gave() {
    let daemon = Daemon::open();
    let (mut client, mut place) = daemon.place();
    let due = client
        .wait(Instant::now() + Duration::from_millis(1))
        .unwrap();
    assert_eq!(due, Woken::Due);
    place.give(1, b"last");
    drop(place);
    assert_eq!(client.wait(Instant::now() + LONG).unwrap(), Woken::Frame);
    let mut frame = Vec::new();
    assert!(client.receive_into(&mut frame).unwrap());
    assert_eq!(frame, b"last", "memory outlives the one who gave it");
    let gone = client.wait(Instant::now() + LONG).unwrap_err();
    assert!(matches!(gone, ClientError::Gone), "{gone}");
}

#[test]
fn a_refusal_says_why_whenever_it_comes() {
    let daemon = Daemon::open();
    let text = "no place 'echo' for user 1000";
    let refusal = Refusal::new(Reason::NotAllowed, text);
    let (refused, _) = daemon.answer(&Message::Refusal(refusal), &[]);
    let said = refused.unwrap_err().to_string();
    assert_eq!(
        said,
        format!("the multiplexer refuses: {text} (not_allowed)")
    );
    let (mut client, place) = daemon.place();
    let lied = Message::Refusal(Refusal::new(Reason::Faults, "range"));
    place.socket.send(&lied.emit(), &[]).unwrap();
    let refused = client.wait(Instant::now() + LONG).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(_)), "{refused}");
}

#[test]
fn a_refusal_that_came_with_the_last_frames_is_told_behind_them() {
    let daemon = Daemon::open();
    let (mut client, mut place) = daemon.place();
    let (say, said) = std::sync::mpsc::channel();
    let waits = std::thread::spawn(move || {
        say.send(own_thread()).unwrap();
        let woken = client.wait(Instant::now() + LONG);
        (client, woken)
    });
    let thread = said.recv().unwrap();
    // It has asked and sleeps: what comes now comes together.
    while !(place.sender.data.is_asked() && is_asleep(&thread)) {
        std::thread::yield_now();
    }
    place.sender.send(3, b"last", 0).unwrap();
    place.sender.publish();
    let lied = Message::Refusal(Refusal::new(Reason::Faults, "range"));
    place.socket.send(&lied.emit(), &[]).unwrap();
    drop(place);
    let (mut client, woken) = waits.join().unwrap();
    assert_eq!(woken.unwrap(), Woken::Frame);
    assert_eq!(client.receive().unwrap().unwrap().bytes(), 4);
    let refused = client.wait(Instant::now() + LONG).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(_)), "{refused}");
    let gone = client.wait(Instant::now() + LONG).unwrap_err();
    assert!(matches!(gone, ClientError::Gone), "{gone}");
}

#[test]
fn positions_that_no_daemon_writes_are_told_as_that() {
    use std::os::unix::fs::FileExt;
    // Where a page has the positions of its two rings: what was taken of what was sent, and what was freed.
    for position_at in [128, 256] {
        let daemon = Daemon::open();
        let (mut client, mut place) = daemon.place();
        (0..4).for_each(|number| client.send(&[number; 60]).unwrap());
        client.flush();
        (0..4).for_each(|frame| place.receiver.free(frame));
        place.receiver.publish();
        let page = std::fs::File::from(place.page.try_clone().unwrap());
        let impossible = u64::MAX.to_le_bytes();
        page.write_all_at(&impossible, position_at).unwrap();
        let wrong = client.send(&[9; 60]).unwrap_err();
        let is_told = matches!(wrong, SendError::Client(ClientError::Ring(_)));
        assert!(is_told, "{position_at}: {wrong}");
        assert_eq!(client.counts().sent, 4);
    }
}

/// Where the kernel tells of this thread.
fn own_thread() -> PathBuf {
    PathBuf::from("/proc").join(std::fs::read_link("/proc/thread-self").unwrap())
}

/// Whether a thread sleeps in the kernel.
fn is_asleep(thread: &std::path::Path) -> bool {
    let stat = std::fs::read_to_string(thread.join("stat")).unwrap();
    stat.rsplit(')').next().unwrap().starts_with(" S ")
}

#[test]
fn what_a_client_is_given_it_cannot_write() {
    let spec = FramePoolSpec {
        name: "test".into(),
        frames: 4,
        frame_bytes: 128,
    };
    let memory = FramePoolMemory::create(&spec).unwrap();
    let fds = memory.receiver_fds().unwrap();
    // Opened for reading alone, or sealed: no client can write frames that it was given, nor the daemon's page.
    for (at, is_own) in [(0, false), (1, true), (2, false)] {
        let written = takes_a_byte(&fds[at]);
        assert_eq!(written, is_own, "descriptor {at}");
    }
}

/// Whether this memory takes a byte.
fn takes_a_byte(fd: &OwnedFd) -> bool {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::from(fd.try_clone().unwrap());
    file.write_at(&[0], 0).is_ok()
}

#[test]
fn a_client_waits_behind_others_that_wait_to_be_let_in() {
    let daemon = Daemon::open();
    // As many as there may be: the next one finds no room.
    let mut others: Vec<_> = (0..64)
        .map_while(|_| SeqSocket::connect(&daemon.path).ok())
        .collect();
    assert!(others.len() < 64);
    let crowded = Client::connect(&daemon.path, "echo", Duration::from_millis(1));
    let Err(ClientError::System(crowded)) = crowded else {
        panic!("{crowded:?}");
    };
    assert_eq!(crowded.kind(), std::io::ErrorKind::WouldBlock);
    let path = daemon.path.clone();
    let (say, said) = std::sync::mpsc::channel();
    let client = std::thread::spawn(move || {
        say.send(own_thread()).unwrap();
        Client::connect(&path, "echo", LONG)
    });
    let thread = said.recv().unwrap();
    while !is_asleep(&thread) {
        std::thread::yield_now();
    }
    // The others were there before.
    others
        .drain(..)
        .for_each(|_| while daemon.listener.accept().unwrap().is_none() {});
    let socket = loop {
        match daemon.listener.accept().unwrap() {
            Some(socket) => break socket,
            None => std::thread::yield_now(),
        }
    };
    let refusal = Message::Refusal(Refusal::new(Reason::Taken, "later"));
    socket.send(&refusal.emit(), &[]).unwrap();
    let refused = client.join().unwrap().unwrap_err();
    assert!(matches!(refused, ClientError::Refused(_)), "{refused}");
}

#[test]
fn an_answer_that_is_none_and_a_silent_daemon_are_errors() {
    let daemon = Daemon::open();
    let (wrong, _) = daemon.answer(&Message::Welcome(welcome()), &[]);
    assert!(matches!(wrong, Err(ClientError::Ring(_))), "{wrong:?}");
    let hello = Message::parse(b"FBMX\x01\x00\x01\x04echo").unwrap();
    let (wrong, _) = daemon.answer(&hello, &[]);
    assert!(matches!(wrong, Err(ClientError::Unexpected { .. })));
    let silent = Client::connect(&daemon.path, "echo", Duration::from_millis(1));
    assert!(matches!(silent, Err(ClientError::Silent { waited_ms: 1 })));
    let name = Client::connect(&daemon.path, "a b", LONG);
    assert!(matches!(name, Err(ClientError::Message(_))));
    let nobody = Client::connect(&daemon.path.with_extension("none"), "echo", LONG);
    assert!(matches!(nobody, Err(ClientError::System(_))));
}

#[test]
fn a_frame_is_made_in_its_buffer_and_sent_or_put_back() {
    let daemon = Daemon::open();
    let (mut client, mut place) = daemon.place();
    let mut reserved: Vec<_> = (0..4).map(|_| client.reserve().unwrap()).collect();
    let mut numbers: Vec<u32> = reserved.iter().map(|one| one.number()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3], "each buffer once");
    let full = client.reserve().unwrap_err();
    assert!(matches!(full, SendError::Full { frames: 4 }), "{full}");
    assert_eq!(client.frames_on_their_way().unwrap(), 0);
    let mut one = reserved.pop().unwrap();
    assert_eq!(client.reserved_mut(&mut one).len(), 118, "the link's most");
    client.reserved_mut(&mut one)[..60].fill(7);
    for wrong in [13, 119] {
        let (error, back) = client.send_reserved(one, wrong).unwrap_err();
        assert!(matches!(error, SendError::Length { .. }), "{error}");
        one = back.unwrap();
    }
    let number = one.number();
    client.send_reserved(one, 60).unwrap();
    reserved.into_iter().for_each(|one| client.put_back(one));
    assert_eq!(client.frames_on_their_way().unwrap(), 1);
    client.flush();
    let sent = place.receiver.next().unwrap().unwrap();
    assert_eq!((sent.frame, sent.len), (number, 60));
    assert_eq!(place.receiver.view(&sent).unwrap().to_vec(), [7; 60]);
    assert!(
        place.receiver.next().unwrap().is_none(),
        "three were not sent"
    );
    let counts = Counts {
        sent: 1,
        sent_bytes: 60,
        refused_full: 1,
        ..Counts::default()
    };
    assert_eq!(client.counts(), counts);
    (0..3).for_each(|_| client.send(&[0; 60]).unwrap());
}

/// Whether the client's descriptor is readable within a time.
fn is_readable(client: &Client, most: Duration) -> bool {
    let until_ns = monotonic_ns() + most.as_nanos() as u64;
    let woken = forebay_sys::wait::sleep_until_or([client.as_fd()], until_ns, 0).unwrap();
    matches!(woken, forebay_sys::wait::Woken::Ready { .. })
}

#[test]
fn a_program_that_waits_for_more_is_woken_by_the_descriptor() {
    let daemon = Daemon::open();
    let (mut client, mut place) = daemon.place();
    assert_eq!(client.arm().unwrap(), None);
    assert!(!is_readable(&client, Duration::from_millis(1)));
    place.give(1, b"one");
    assert!(is_readable(&client, LONG));
    assert_eq!(client.wait(Instant::now()).unwrap(), Woken::Frame);
    assert!(!place.sender.data.is_asked(), "awake: nobody need ring");
    assert_eq!(client.arm().unwrap(), Some(Woken::Frame), "it is not taken");
    assert!(!place.sender.data.is_asked());
    assert!(client.receive().unwrap().is_some());
    // The bell of before is taken away by the next wait that finds nothing.
    assert_eq!(client.wait(Instant::now()).unwrap(), Woken::Early);
    while client.send(&[0; 60]).is_ok() {}
    assert_eq!(client.arm().unwrap(), None);
    assert!(!is_readable(&client, Duration::from_millis(1)));
    while let Some(sent) = place.receiver.next().unwrap() {
        place.receiver.free(sent.frame);
    }
    place.receiver.publish();
    assert!(place.receiver.returns.is_asked());
    place.ring();
    assert!(is_readable(&client, LONG));
    assert_eq!(client.wait(Instant::now()).unwrap(), Woken::Room);
    assert!(!place.receiver.returns.is_asked());
    drop(place);
    assert_eq!(client.arm().unwrap(), None);
    assert!(is_readable(&client, LONG));
    while client.wait(Instant::now()).is_ok() {}
}
