//! Clients that read frames where the driver has received them, beside those that have copies.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use forebay_ring::Descriptor;
use proptest::prelude::*;
use rustix::fs::SealFlags;

use super::*;

const SHARES: &str = "trusted = true\nreceive = \"shared\"";

fn shared() -> Rig {
    Rig::new(SHARES, &EmulatedOptions::default())
}

/// A frame for the client of this place, or for all, or for nobody, with its number and as many bytes.
fn numbered(to: u8, number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = match to {
        2 => [0xff; 6].to_vec(),
        place => vec![2, 0, 0, 0, 0, 1 + place],
    };
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(bytes.max(18), number as u8);
    frame
}

/// A client with what it has.
struct Holder {
    station: Station,
    held: VecDeque<(Descriptor, Vec<u8>)>,
    /// All that it ever had.
    had: Vec<Vec<u8>>,
}

impl Holder {
    fn join(rig: &mut Rig, name: &str) -> Self {
        Self {
            station: rig.join(name),
            held: VecDeque::new(),
            had: Vec::new(),
        }
    }

    fn look(&self, descriptor: &Descriptor) -> Vec<u8> {
        self.station.receiver.view(descriptor).unwrap().to_vec()
    }

    fn take(&mut self, most: usize) -> usize {
        let before = self.had.len();
        while self.had.len() < before + most
            && let Some(descriptor) = self.station.receiver.next().unwrap()
        {
            let bytes = self.look(&descriptor);
            self.had.push(bytes.clone());
            self.held.push_back((descriptor, bytes));
        }
        self.had.len() - before
    }

    /// Gives so many back, each of which is as it was when it came.
    fn free(&mut self, most: usize) {
        for _ in 0..most.min(self.held.len()) {
            let (descriptor, bytes) = self.held.pop_front().unwrap();
            assert_eq!(self.look(&descriptor), bytes, "{descriptor:?}");
            self.station.receiver.free(descriptor.frame);
        }
        self.station.receiver.publish();
    }

    fn say(&mut self, number: u32) {
        self.station.receiver.free(number);
        self.station.receiver.publish();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Come(u8, usize),
    Round,
    Take(usize, usize),
    Free(usize, usize),
    /// Gives this number back, whether or not it has it.
    Lie(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4_u8, 14..1_600_usize).prop_map(|(to, bytes)| Step::Come(to, bytes)),
        4 => Just(Step::Round),
        4 => (0..2_usize, 0..8_usize).prop_map(|(place, most)| Step::Take(place, most)),
        3 => (0..2_usize, 0..8_usize).prop_map(|(place, most)| Step::Free(place, most)),
        1 => (0..2_usize, 20..40_u32).prop_map(|(place, number)| Step::Lie(place, number)),
    ]
}

/// What both clients had, and all that is counted of them, when the one of the first place receives so.
fn played(receive: &str, steps: &[Step]) -> ([Vec<Vec<u8>>; 2], Vec<serde_json::Value>) {
    let of_a = format!(
        "trusted = true\nreceive = {receive:?}\nbroadcast = true\nqueue = 9\nguarantee = 3"
    );
    let of_b = "broadcast = true\nqueue = 9\nguarantee = 3";
    let keys = ["receive_buffers = 14", &of_a, of_b];
    let mut rig = Rig::with(keys, &EmulatedOptions::default());
    let mut clients = ["a", "b"].map(|name| Holder::join(&mut rig, name));
    let mut number = 0;
    for step in steps {
        match *step {
            Step::Come(to, bytes) => {
                number += 1;
                assert!(rig.far.send(&numbered(to, number, bytes)));
            }
            Step::Round => {
                rig.daemon.round(1).unwrap();
            }
            Step::Take(place, most) => {
                clients[place].take(most);
            }
            Step::Free(place, most) => clients[place].free(most),
            Step::Lie(place, number) => clients[place].say(number),
        }
        assert_eq!(rig.daemon.mux.residual().items, 0);
    }
    // Until nothing is under way any more.
    while rig.daemon.round(1).unwrap() > 0 {}
    for (place, client) in (0..).zip(&mut clients) {
        while client.take(100) > 0 {}
        let counts = rig.counts(place);
        let bytes: usize = client.had.iter().map(Vec::len).sum();
        let own = (client.had.len() as u64, bytes as u64);
        assert_eq!((counts.frames_given, counts.bytes_given), own);
        client.free(100);
    }
    while rig.daemon.round(1).unwrap() > 0 {}
    assert_eq!(rig.daemon.mux.free_frames(), 14);
    let counts = [0, 1].map(|place| {
        let mut counts = serde_json::to_value(rig.counts(place)).unwrap();
        let is_sharing = counts["is_sharing"].take();
        assert_eq!(is_sharing, place == 0 && receive == "shared");
        counts
    });
    let drops = [0, 1].map(|place| {
        let counts = rig.daemon.mux.counts(ClientId::new(place));
        serde_json::json!(format!("{:?}", counts.delivery))
    });
    let all = counts.into_iter().chain(drops).collect();
    (clients.map(|client| client.had), all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Frames for one, for both and for nobody, too long ones; clients that are slow and that lie: nothing tells a client that shares from one that has copies.
    #[test]
    fn a_client_that_shares_has_the_same_frames_and_counts_as_one_with_copies(
        steps in proptest::collection::vec(step(), 0..150),
    ) {
        let copied = played("copied", &steps);
        let shared = played("shared", &steps);
        prop_assert_eq!(copied, shared);
    }
}

#[test]
fn one_that_keeps_all_starves_neither_the_card_nor_another_and_lies_are_counted() {
    let keys = ["receive_buffers = 64", SHARES, "guarantee = 8"];
    let mut rig = Rig::with(keys, &EmulatedOptions::default());
    let mut clients = ["a", "b"].map(|name| Holder::join(&mut rig, name));
    for number in 0..2_000 {
        for to in [0, 1] {
            assert!(
                rig.far
                    .send(&numbered(to, number, 60 + number as usize % 1_400))
            );
        }
        rig.daemon.round(1).unwrap();
        clients[0].take(1);
        assert_eq!(clients[1].take(1), 1, "frame {number}");
        clients[1].free(1);
    }
    let wanted: Vec<_> = (0..2_000)
        .map(|number| numbered(1, number, 60 + number as usize % 1_400))
        .collect();
    assert!(
        clients[1].had == wanted,
        "the other one has all of its frames"
    );
    // All that is not guaranteed to the other one, each as it came, and the card has its own.
    assert_eq!(
        (clients[0].had.len(), rig.daemon.mux.lent_frames()),
        (56, 1)
    );
    let numbers: Vec<_> = clients[0].held.iter().map(|(it, _)| it.frame).collect();
    let mut free: Vec<_> = (0..65).filter(|number| !numbers.contains(number)).collect();
    let [one, other] = &mut clients;
    // One of another client, which has it while it is said.
    assert!(rig.far.send(&numbered(1, 7, 100)));
    rig.daemon.round(1).unwrap();
    assert_eq!(other.take(1), 1);
    one.say(other.held[0].0.frame);
    // The one that the card receives into, among all that nobody has, one that is none, and one of its own twice.
    free.drain(..)
        .filter(|number| *number != other.held[0].0.frame)
        .for_each(|number| one.say(number));
    one.say(65);
    one.free(1);
    one.say(numbers[0]);
    rig.daemon.round(1).unwrap();
    let counts = rig.counts(0);
    let lies = [
        ("return.buffer_unknown".to_owned(), 1),
        ("return.not_held".to_owned(), 10),
    ];
    assert_eq!((counts.lies, counts.buffers_returned), (lies.into(), 1));
    other.free(1);
    one.free(100);
    rig.daemon.round(1).unwrap();
    assert_eq!(
        (
            rig.daemon.mux.free_frames(),
            rig.daemon.mux.residual().items
        ),
        (64, 0)
    );
}

#[test]
fn one_that_dies_with_all_that_it_may_hold_gives_all_back() {
    let mut rig = shared();
    let mut one = Holder::join(&mut rig, "a");
    for number in 0..100 {
        assert!(rig.far.send(&numbered(0, number, 500)));
    }
    rig.daemon.round(1).unwrap();
    assert_eq!(one.take(100), 100);
    assert_eq!(rig.daemon.mux.free_frames(), 4_096 - 100);
    drop(one);
    while rig.daemon.places[0].lane.is_some() {
        rig.daemon.look(Duration::ZERO).unwrap();
        rig.daemon.round(1).unwrap();
    }
    assert_eq!(
        (rig.daemon.mux.free_frames(), rig.daemon.mux.lent_frames()),
        (4_096, 1)
    );
    assert_eq!(rig.daemon.mux.residual().items, 0);
    // The next one of the place has the same memory.
    let mut next = Holder::join(&mut rig, "a");
    assert!(rig.far.send(&numbered(0, 7, 500)));
    rig.daemon.round(1).unwrap();
    assert_eq!(next.take(1), 1);
    assert_eq!(next.had, [numbered(0, 7, 500)]);
}

/// What a client has to be trusted with, and another one need not be.
#[test]
fn who_shares_reads_all_that_comes_and_who_has_copies_its_own_alone() {
    let mut rig = shared();
    let mut clients = ["a", "b"].map(|name| Holder::join(&mut rig, name));
    for (to, number) in [(0, 5), (1, 6)] {
        assert!(rig.far.send(&numbered(to, number, 300)));
    }
    rig.daemon.round(1).unwrap();
    let [one, other] = clients.each_mut().map(|client| {
        assert_eq!(client.take(2), 1);
        client.held[0].0
    });
    let [a, b] = &clients;
    assert_eq!(
        (a.look(&one), a.look(&other)),
        (numbered(0, 5, 300), numbered(1, 6, 300))
    );
    assert_eq!(
        (b.look(&one), b.look(&other)),
        (vec![0; 300], numbered(1, 6, 300))
    );
    // Parted with, it has the memory until it ends.
    rig.daemon.leave(ClientId::new(0), "lied", None);
    rig.daemon.part_all();
    assert!(rig.far.send(&numbered(1, 8, 300)));
    rig.daemon.round(1).unwrap();
    let [a, b] = &mut clients;
    assert_eq!(b.take(1), 1);
    assert_eq!(a.look(&b.held[1].0), numbered(1, 8, 300));
}

#[test]
fn the_memory_that_is_shared_can_be_written_by_the_daemon_alone() {
    let mut rig = shared();
    let socket = rig.knock("a");
    let (mut record, mut fds) = ([0; 256], Vec::<OwnedFd>::new());
    while fds.is_empty() {
        rig.daemon.look(Duration::ZERO).unwrap();
        socket.receive_with_fds(&mut record, &mut fds).unwrap();
    }
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    assert_eq!(rustix::fs::fcntl_get_seals(&fds[0]).unwrap(), all);
    // Its user and root may open it for writing, and can write nothing all the same.
    let path = format!("/proc/self/fd/{}", fds[0].as_raw_fd());
    let mut opened = File::options().write(true).open(path).unwrap();
    assert!(opened.write(&[7; 64]).is_err());
    assert!(File::from(fds.remove(0)).write(&[7; 64]).is_err());
}

#[test]
fn a_driver_that_receives_elsewhere_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), ["", SHARES, ""]);
    let (mut driver, _far) = emulated::open(&EmulatedOptions::default()).unwrap();
    driver.receive = Box::new(Burst {
        frames: 0,
        client: Arc::default(),
        taken: Arc::default(),
        event: EventFd::create().unwrap(),
    });
    let sizes = plan.sizes(1500).unwrap();
    let Err(refused) = Daemon::over(driver, sizes, plan) else {
        panic!("it shares");
    };
    let refused = refused.to_string();
    assert!(
        refused.contains("driver tap cannot receive") && refused.contains("take that out"),
        "{refused}"
    );
}
