//! The door for clients: a socket, connections that have not yet named a place, and the access list.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use forebay_client::protocol::{Message, Name, RECORD_BYTES_MAX, Reason, Refusal};
use forebay_mux::ClientId;
use forebay_sys::seqpacket::{Arrived, Peer, SeqSocket};

use crate::error::MuxError;
use crate::listener::Listener;
use crate::plan::MuxPlan;

/// Connections that may wait to be taken in.
const BACKLOG: u16 = 128;
/// Connections that have said nothing yet, in equal shares for all users that may have a place.
const VISITORS_MAX: usize = 64;
/// How long they may be silent.
const SILENCE_NS_MAX: u64 = 5_000_000_000;
/// Connections that are taken in by one look. The look ends with the first that may have a place, so that clients have their turn before each welcome.
const ACCEPTS_MAX: usize = 64;

/// The socket on which clients come in.
#[derive(Debug)]
pub(crate) struct Door {
    listener: Listener,
    /// Connections that have said nothing yet.
    visitors: VecDeque<Visitor>,
    /// Connections that came.
    pub(crate) came: u64,
    /// Those that got no place, by reason.
    pub(crate) refused: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct Visitor {
    socket: SeqSocket,
    peer: Peer,
    since_ns: u64,
}

/// A client that may have a place.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) socket: SeqSocket,
    pub(crate) client: ClientId,
    pub(crate) name: Name,
}

/// What a visitor has said.
enum Heard {
    Nothing(Visitor),
    Name(Visitor, Name),
    Over,
}

impl Door {
    /// Listens.
    pub(crate) fn open(path: &Path) -> Result<Self, MuxError> {
        // Each user may knock: the access list says which of them comes in.
        let listener = Listener::open(path, BACKLOG, 0o666)?;
        Ok(Self {
            listener,
            visitors: VecDeque::new(),
            came: 0,
            refused: BTreeMap::new(),
        })
    }

    /// Accepts connections, hears what they say, and gives one that may have a place, if there is one.
    pub(crate) fn accept(&mut self, plan: &MuxPlan, now_ns: u64) -> Option<Caller> {
        self.give_up_silent(now_ns);
        for _ in 0..self.visitors.len() {
            let Some(visitor) = self.visitors.pop_front() else {
                break;
            };
            match self.hear(visitor) {
                Heard::Over => {}
                Heard::Nothing(visitor) => self.visitors.push_back(visitor),
                Heard::Name(visitor, name) => {
                    self.listener.forget(&visitor.socket);
                    if let Some(caller) = self.look_up(plan, visitor, name) {
                        return Some(caller);
                    }
                }
            }
        }
        self.take_in(plan, now_ns)
    }

    fn take_in(&mut self, plan: &MuxPlan, now_ns: u64) -> Option<Caller> {
        for _ in 0..ACCEPTS_MAX {
            let Ok(socket) = self.listener.accept(now_ns) else {
                self.count("not_taken_in", 1);
                return None;
            };
            let socket = socket?;
            self.came += 1;
            let caller = self.meet(plan, socket, now_ns);
            if caller.is_some() {
                return caller;
            }
        }
        None
    }

    /// Hears one that has come, and has it wait if it says nothing.
    fn meet(&mut self, plan: &MuxPlan, socket: SeqSocket, now_ns: u64) -> Option<Caller> {
        let peer = match socket.peer() {
            Ok(peer) => peer,
            Err(error) => {
                self.refuse(&socket, Reason::Resource, &error.to_string());
                return None;
            }
        };
        let users = users(plan);
        if !users.contains(&peer.uid) {
            let text = format!("no place for user {}", peer.uid);
            self.refuse(&socket, Reason::NotAllowed, &text);
            return None;
        }
        let visitor = Visitor {
            socket,
            peer,
            since_ns: now_ns,
        };
        match self.hear(visitor) {
            Heard::Over => None,
            Heard::Nothing(visitor) => {
                self.keep(visitor, VISITORS_MAX / users.len().max(1));
                None
            }
            Heard::Name(visitor, name) => self.look_up(plan, visitor, name),
        }
    }

    /// Has one wait that has said nothing yet: so many of one user, so that no other one is kept out by them.
    fn keep(&mut self, visitor: Visitor, share: usize) {
        let (socket, uid) = (&visitor.socket, visitor.peer.uid);
        let silent = self.visitors.iter().filter(|it| it.peer.uid == uid);
        if silent.count() >= share.max(1) {
            let text = "too many others of this user have come and said nothing";
            self.refuse(socket, Reason::Crowded, text);
            return;
        }
        match self.listener.wait_for(socket) {
            Ok(()) => self.visitors.push_back(visitor),
            Err(error) => self.refuse(socket, Reason::Resource, &error.to_string()),
        }
    }

    /// Takes in again, if it is time.
    pub(crate) fn open_again(&mut self, now_ns: u64) {
        self.listener.open_again(now_ns);
    }

    /// When it takes in again, if it does not now.
    pub(crate) const fn shut_until_ns(&self) -> Option<u64> {
        self.listener.shut_until_ns()
    }

    fn give_up_silent(&mut self, now_ns: u64) {
        let before = self.visitors.len();
        self.visitors
            .retain(|visitor| now_ns.saturating_sub(visitor.since_ns) < SILENCE_NS_MAX);
        self.count("silent", before - self.visitors.len());
    }

    pub(crate) fn count(&mut self, why: &'static str, how_many: usize) {
        if how_many > 0 {
            *self.refused.entry(why).or_default() += how_many as u64;
        }
    }

    fn hear(&mut self, visitor: Visitor) -> Heard {
        let mut record = [0; RECORD_BYTES_MAX + 1];
        let said = match visitor.socket.receive(&mut record) {
            Ok(Arrived::Nothing) => return Heard::Nothing(visitor),
            Ok(Arrived::Record(bytes)) => Message::parse(&record[..bytes]),
            Ok(Arrived::End) | Err(_) => {
                self.count("left", 1);
                return Heard::Over;
            }
        };
        match said {
            Ok(Message::Hello(name)) => return Heard::Name(visitor, name),
            Ok(other) => {
                let text = format!("{} came where a hello is due", other.kind_name());
                self.refuse(&visitor.socket, Reason::Malformed, &text);
            }
            Err(why) => self.refuse(&visitor.socket, Reason::Malformed, &why.to_string()),
        }
        Heard::Over
    }

    /// Finds the place that this name is of, if it is for this user. A user that may not have it is not told whether it is there.
    fn look_up(&mut self, plan: &MuxPlan, visitor: Visitor, name: Name) -> Option<Caller> {
        let Visitor { socket, peer, .. } = visitor;
        let found = plan.places().find(|(_, said)| {
            said.name.as_deref() == Some(name.as_str()) && said.uid == Some(peer.uid)
        });
        let Some((client, _)) = found else {
            let text = format!("no place '{name}' for user {}", peer.uid);
            self.refuse(&socket, Reason::NotAllowed, &text);
            return None;
        };
        Some(Caller {
            socket,
            client,
            name,
        })
    }

    /// Says no, and why.
    pub(crate) fn refuse(&mut self, socket: &SeqSocket, reason: Reason, text: &str) {
        self.count(reason.name(), 1);
        say_no(socket, reason, text);
    }
}

/// The users that may have a place.
fn users(plan: &MuxPlan) -> BTreeSet<u32> {
    plan.clients.iter().filter_map(|said| said.uid).collect()
}

/// A last word; one that cannot be heard is not waited for.
pub(crate) fn say_no(socket: &SeqSocket, reason: Reason, text: &str) {
    let refusal = Message::Refusal(Refusal::new(reason, text));
    let _ = socket.send(&refusal.emit(), &[]);
}

/// Readable when somebody comes or says something.
impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use forebay_sys::seqpacket::SeqListener;

    use super::*;
    use crate::config::ClientSettings;

    fn plan(users: &[u32]) -> MuxPlan {
        let client = |uid: &u32| ClientSettings {
            uid: Some(*uid),
            ..ClientSettings::default()
        };
        MuxPlan {
            clients: users.iter().map(client).collect(),
            ..MuxPlan::default()
        }
    }

    fn own_uid() -> u32 {
        fs::metadata("/proc/self").unwrap().uid()
    }

    /// So many come and say nothing; which refusals there were.
    fn silent(users: &[u32], visitors: usize) -> Vec<(&'static str, u64)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut door = Door::open(&path).unwrap();
        let sockets: Vec<_> = (0..visitors)
            .map(|_| SeqSocket::connect(&path).unwrap())
            .collect();
        let plan = plan(users);
        (0..visitors).for_each(|_| assert!(door.accept(&plan, 0).is_none()));
        assert_eq!(door.came, sockets.len() as u64);
        door.refused.clone().into_iter().collect()
    }

    #[test]
    fn one_user_that_says_nothing_leaves_room_for_others() {
        let own = own_uid();
        assert_eq!(silent(&[own, own + 1], 40), [("crowded", 8)]);
        assert_eq!(silent(&[own, own], 40), []);
    }

    #[test]
    fn one_for_whom_there_is_no_place_is_refused_before_it_says_a_word() {
        assert_eq!(silent(&[own_uid() + 1], 3), [("not_allowed", 3)]);
    }

    #[test]
    fn a_file_that_is_no_socket_is_told_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        fs::write(&path, "dear").unwrap();
        let error = Door::open(&path).unwrap_err().to_string();
        assert!(error.contains("something that is no socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "dear");
    }

    #[test]
    fn the_socket_of_a_dead_process_is_taken_and_that_of_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(SeqListener::bind(&path, 1).unwrap());
        let door = Door::open(&path).unwrap();
        let error = Door::open(&path).unwrap_err();
        assert!(matches!(error, MuxError::InUse { .. }), "{error}");
        drop(door);
        assert!(!path.exists());
    }

    #[test]
    fn what_another_process_put_in_its_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let door = Door::open(&path).unwrap();
        let beside = folder.path().join("beside");
        fs::write(&beside, "of another").unwrap();
        fs::rename(&beside, &path).unwrap();
        drop(door);
        assert!(path.exists());
    }
}
