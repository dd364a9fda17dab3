//! A daemon in a thread of this process, and the peer of the wire.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_client::{Client, ClientError};
use forebay_config::source::Source;
use forebay_ledger::Leak;
use forebay_run::{Host, Stop, System, Urgency};
use forebay_run_mux::driver::packet::{self, PacketOptions};
use forebay_run_mux::driver::{Driver, Flushed, Sent};
use forebay_run_mux::{MuxPlan, MuxRecord};

/// Nothing takes so long.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// The peer's address.
pub(crate) const PEER: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// The user of this process.
pub(crate) fn uid() -> u32 {
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// The address of a client by its place.
pub(crate) fn mac(place: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, 1 + place as u8]
}

/// A frame from the peer, with its number and bytes that depend on it.
pub(crate) fn frame(to: [u8; 6], number: u64, bytes: usize) -> Vec<u8> {
    let mut frame = [&to[..], &PEER, &[0x88, 0xb5], &number.to_be_bytes()].concat();
    let at = frame.len()..bytes;
    frame.extend(at.map(|at| (at as u64 ^ number) as u8));
    frame
}

/// Asks until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let most = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < most, "{what} did not come");
        std::thread::yield_now();
    }
}

/// A daemon on the end `far`.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) socket: PathBuf,
    stop: Stop,
    thread: JoinHandle<MuxRecord>,
}

impl World {
    /// With places `a` and `b` for this user, each with these further keys, and one that is for another user.
    pub(crate) fn start(keys: &str) -> Self {
        Self::start_for(uid(), keys)
    }

    /// The same with the place `a` for a user that may be another one.
    pub(crate) fn start_for(of_a: u32, keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Others come to the socket.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let socket = folder.path().join("socket");
        let (directory, uid) = (folder.path().join("run"), uid());
        // The daemon is a thread here, and what it gave away the whole test would lack.
        let text = format!(
            "[mux]\nconfine = false\ninterface = \"far\"\nsocket = {socket:?}\ndirectory = {directory:?}\nfaults_of_a_kind_max = 3\n\
             [[clients]]\nname = \"a\"\nuid = {of_a}\nmac = \"02:00:00:00:00:01\"\naddress = [\"10.0.0.10\"]\nguarantee = 8\n{keys}\n\
             [[clients]]\nname = \"b\"\nuid = {uid}\nmac = \"02:00:00:00:00:02\"\nguarantee = 8\n{keys}\n\
             [[clients]]\nname = \"other\"\nuid = {}\nmac = \"02:00:00:00:00:03\"\nguarantee = 8\n",
            uid + 1,
        );
        let plan: MuxPlan = forebay_config::read(&Source::of_text("mux.toml", &text)).unwrap();
        let stop = Stop::of_library().unwrap();
        let host = Host::new(stop.clone(), Leak::off(), ());
        let thread = std::thread::spawn(move || plan.run(&host).unwrap());
        until("the socket", || socket.exists());
        Self {
            folder,
            socket,
            stop,
            thread,
        }
    }

    pub(crate) fn connect(&self, name: &str) -> Result<Client, ClientError> {
        let most = Instant::now() + LONG;
        loop {
            match Client::connect(&self.socket, name, LONG) {
                // Its file is there before it listens.
                Err(ClientError::System(_)) if Instant::now() < most => std::thread::yield_now(),
                other => return other,
            }
        }
    }

    pub(crate) fn end(self) -> MuxRecord {
        self.stop.order(Urgency::Drain);
        let mut record = self.thread.join().unwrap();
        // The place of the other user is not of interest.
        let other = record.summary.clients.pop().unwrap();
        assert_eq!((other.name.as_str(), other.connected), ("other", 0));
        assert!(self.folder.path().join("run/run.json").exists());
        record
    }
}

/// The other end of the wire.
pub(crate) struct Peer {
    driver: Driver,
}

impl Peer {
    pub(crate) fn open() -> Self {
        let driver = packet::open("near", &PacketOptions::default()).unwrap();
        Self { driver }
    }

    pub(crate) fn send(&mut self, frame: &[u8]) {
        assert_eq!(self.driver.send.send(frame), Sent::Taken);
        until("room on the wire", || {
            self.driver.send.flush() == Flushed::All
        });
    }

    pub(crate) fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut visit = |frame: &[u8]| frames.push(frame.to_vec());
        self.driver.receive.receive(256, &mut visit).unwrap();
        frames
    }
}
