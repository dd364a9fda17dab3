//! This test binary once more, as a process of its own that can be killed.

use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, Stdio};
use std::time::Duration;

use forebay_link::bytes::{Address, ByteLink, Room};

use crate::door::connect_and_disconnect;
use crate::pieces::Lender;
use crate::tls;
use crate::world::{Deadline, Dice, Writer, connect, listen};

/// What [`Role::SendAndDie`] sends: no backend needs a reader to take so much.
pub(crate) const SENT_BYTES: u64 = 64 << 10;
/// What [`Role::LendForever`] has to send: more than anybody reads before he kills it.
const LENT_BYTES: u64 = 24 << 20;
const ROLE: &str = "BYTES_ROLE";
const ADDRESS: &str = "BYTES_ADDRESS";

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connects, sends a stream and kills itself.
    SendAndDie,
    /// Connects and sends a stream until it is killed.
    SendForever,
    /// The same, from the link's own pieces and from a region.
    LendForever,
    /// Connects and reads until it is killed.
    ReadForever,
    /// Listens, and lets everybody in, until it is killed.
    Listen,
    /// Connects and disconnects often and counts its descriptors.
    CountDescriptors,
}

impl Role {
    const ALL: [Self; 6] = [
        Self::SendAndDie,
        Self::SendForever,
        Self::LendForever,
        Self::ReadForever,
        Self::Listen,
        Self::CountDescriptors,
    ];
}

pub(crate) struct Child {
    child: process::Child,
    /// What it proves itself with lies there.
    _certificates: tempfile::TempDir,
}

impl Child {
    pub(crate) fn start(role: Role, address: &Address) -> Self {
        let certificates = tempfile::tempdir().unwrap();
        tls::own().write(certificates.path());
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "child::role_of_a_child",
                "--nocapture",
                "--quiet",
            ])
            .env(ROLE, format!("{role:?}"))
            .env(ADDRESS, address.to_string())
            .env(tls::CERTIFICATES, certificates.path())
            .stdout(Stdio::null())
            .spawn();
        Self {
            child: child.unwrap(),
            _certificates: certificates,
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.wait_killed();
    }

    /// Until it was killed; the link is asked meanwhile to get on, and nothing is read.
    pub(crate) fn wait_killed_beside(&mut self, link: &mut dyn ByteLink) {
        let deadline = Deadline::begin();
        while self.child.try_wait().unwrap().is_none() {
            // That it is lost is found again by the reader.
            let _ = link.arm(false);
            link.disarm();
            deadline.check();
        }
        self.wait_killed();
    }

    fn wait_killed(&mut self) {
        assert_eq!(self.child.wait().unwrap().signal(), Some(9));
    }

    pub(crate) fn wait_well(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Of a test that has failed; one that was waited for is left alone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: what this binary does when [`Child::start`] starts it.
#[test]
fn role_of_a_child() {
    let Ok(name) = std::env::var(ROLE) else {
        return;
    };
    let role = Role::ALL
        .into_iter()
        .find(|role| format!("{role:?}") == name);
    let address: Address = std::env::var(ADDRESS).unwrap().parse().unwrap();
    match role.unwrap() {
        Role::SendAndDie => send(&address, SENT_BYTES),
        Role::SendForever => send(&address, u64::MAX),
        Role::LendForever => {
            let mut link = connect(&address, Room::default()).unwrap();
            let mut lender = Lender::new(&mut *link, LENT_BYTES).unwrap();
            let mut dice = Dice::new(7);
            loop {
                let left = usize::try_from(LENT_BYTES - lender.position).unwrap();
                let bytes = left.min(60_000);
                lender.offer(&mut *link, bytes, &mut dice).unwrap();
                link.receive().unwrap();
            }
        }
        Role::ReadForever => {
            let mut link = connect(&address, Room::default()).unwrap();
            let mut said = 0;
            loop {
                if said == 0 {
                    said = link.send(&[b"?"]).unwrap();
                }
                link.receive().unwrap();
                link.used(link.bytes().len());
            }
        }
        Role::Listen => {
            let mut door = listen(&address, Room::default()).unwrap();
            let mut links = Vec::new();
            loop {
                links.extend(door.accept().unwrap());
                links.retain_mut(|link| link.bytes().is_empty() && link.receive().is_ok());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Role::CountDescriptors => connect_and_disconnect(&address),
    }
}

fn send(address: &Address, bytes: u64) {
    let (mut dice, mut writer) = (Dice::new(7), Writer::new());
    let mut link = connect(address, Room::default()).unwrap();
    while writer.position < bytes {
        let left = usize::try_from(bytes - writer.position).unwrap();
        let piece = dice.piece(left.min(Room::default().piece_bytes_max));
        writer.offer(&mut *link, piece, &mut dice).unwrap();
    }
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
}
