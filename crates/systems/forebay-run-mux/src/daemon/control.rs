//! The control socket at work: one request of each connection for each look, so that clients have their turn between them.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};

use forebay_ledger::DropReason;
use forebay_mux::account::ClientCounts;
use forebay_mux::{ClientId, Mux};
use forebay_sys::seqpacket::{Arrived, Peer, SeqSocket};
use serde_json::{Value, json};

use super::Daemon;
use super::arrivals::ANSWERS;
use crate::books::AnswerDrop;
use crate::control::{
    Answer, Change, Changed, PAGE_CLIENTS, REQUEST_BYTES_MAX, Refused, Request, Why, settings_of,
    settings_of_class,
};
use crate::driver::{Driver, Link};
use crate::error::MuxError;
use crate::listener::Listener;
use crate::plan::MuxPlan;
use crate::summary::{ConfinedSummary, SettingChange};

/// Connections that may wait to be taken in.
const BACKLOG: u16 = 8;
/// Connections at once.
const ASKERS_MAX: usize = 8;
/// Of one user: root has a place beside any other one.
const ASKERS_OF_USER_MAX: usize = ASKERS_MAX / 2;
/// Mistakes that an answer names.
const MISTAKES_MAX: usize = 64;
/// How long one may say nothing.
const SILENCE_NS_MAX: u64 = 5_000_000_000;
/// Changes that the record keeps: the last ones.
const CHANGES_MAX: usize = 256;
/// Its file, where only the daemon's user and root may ask, and where others may: the list of users says which.
const MODES: [u32; 2] = [0o600, 0o666];

/// One that asks.
#[derive(Debug)]
struct Asker {
    socket: SeqSocket,
    peer: Peer,
    since_ns: u64,
}

/// The control socket, and what was changed by it.
#[derive(Debug)]
pub(super) struct ControlDoor {
    listener: Listener,
    askers: VecDeque<Asker>,
    /// Users that may ask.
    users: Vec<u32>,
    refused: BTreeMap<&'static str, u64>,
    /// When the daemon began, by the monotonic clock, ns.
    begun_ns: u64,
    /// The last changes.
    changes: VecDeque<SettingChange>,
    /// All of them.
    changes_made: u64,
    /// What an operator is not told yet.
    told: Vec<String>,
}

impl ControlDoor {
    /// Listens.
    pub(super) fn open(plan: &MuxPlan, now_ns: u64) -> Result<Self, MuxError> {
        let settings = &plan.settings;
        let mode = MODES[usize::from(!settings.control_uid.is_empty())];
        let listener = Listener::open(&settings.control_path(), BACKLOG, mode)?;
        let own = rustix::process::geteuid().as_raw();
        let users = [0, own].into_iter().chain(settings.control_uid.clone());
        Ok(Self {
            listener,
            askers: VecDeque::new(),
            users: users.collect(),
            refused: BTreeMap::new(),
            begun_ns: now_ns,
            changes: VecDeque::new(),
            changes_made: 0,
            told: Vec::new(),
        })
    }

    /// What an operator is to be told.
    pub(super) fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    /// Requests and connections that were refused, by reason.
    pub(super) const fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
    }

    /// The last changes, and how many there were.
    pub(super) fn changes(&self) -> (Vec<SettingChange>, u64) {
        (self.changes.iter().cloned().collect(), self.changes_made)
    }

    /// Takes in those that come, and lets those go that say nothing.
    fn take_in(&mut self, now_ns: u64) {
        let is_heard = |asker: &Asker| now_ns.saturating_sub(asker.since_ns) < SILENCE_NS_MAX;
        self.askers.retain(is_heard);
        for _ in 0..BACKLOG {
            let Ok(Some(socket)) = self.listener.accept(now_ns) else {
                return;
            };
            let Ok(peer) = socket.peer() else {
                continue;
            };
            if !self.users.contains(&peer.uid) {
                let text = format!(
                    "user {} may not ask this multiplexer: its own user and root may, and those of mux.control_uid in its file",
                    peer.uid
                );
                self.refuse(&socket, Refused::new(Why::NotAllowed, text));
                continue;
            }
            let is_watched = self.listener.wait_for(&socket).is_ok();
            let of_user = self.askers.iter().filter(|it| it.peer.uid == peer.uid);
            let is_full = self.askers.len() >= ASKERS_MAX || of_user.count() >= ASKERS_OF_USER_MAX;
            if is_full || !is_watched {
                let text = "too many ask at once: ask again in some seconds";
                self.refuse(&socket, Refused::new(Why::Crowded, text));
                continue;
            }
            self.askers.push_back(Asker {
                socket,
                peer,
                since_ns: now_ns,
            });
        }
    }

    /// Takes in again, if it is time.
    pub(super) fn open_again(&mut self, now_ns: u64) {
        self.listener.open_again(now_ns);
    }

    /// When it takes in again, if it does not now.
    pub(super) const fn shut_until_ns(&self) -> Option<u64> {
        self.listener.shut_until_ns()
    }

    fn refuse(&mut self, socket: &SeqSocket, mut refused: Refused) {
        refused.mistakes.truncate(MISTAKES_MAX);
        *self.refused.entry(refused.reason.name()).or_default() += 1;
        answer(socket, &Answer::Refused(refused));
    }

    /// Notes what was changed, for operator and record.
    fn note(&mut self, peer: Peer, changed: &[Changed], now_ns: u64) {
        let at_s = now_ns.saturating_sub(self.begun_ns) as f64 / 1e9;
        for change in changed {
            let Peer { uid, pid } = peer;
            self.told
                .push(format!("set by user {uid} (process {pid}): {change}"));
            self.changes_made += 1;
            self.changes.push_back(SettingChange {
                at_s,
                uid,
                pid,
                change: change.clone(),
            });
            if self.changes.len() > CHANGES_MAX {
                self.changes.pop_front();
            }
        }
    }
}

/// Readable when a connection comes or asks.
impl AsFd for ControlDoor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Whether it was taken: one that does not read is not waited for.
fn answer(socket: &SeqSocket, answer: &Answer) -> bool {
    let record = answer.emit();
    record.is_ok_and(|record| matches!(socket.send(&record, &[]), Ok(true)))
}

/// Answers those that ask, one request of each.
pub(super) fn serve(daemon: &mut Daemon, now_ns: u64) {
    daemon.control.take_in(now_ns);
    for _ in 0..daemon.control.askers.len() {
        let Some(mut asker) = daemon.control.askers.pop_front() else {
            return;
        };
        if hear(daemon, &mut asker, now_ns) {
            daemon.control.askers.push_back(asker);
        }
    }
}

/// Hears a request, if one came, and answers. Whether the connection stays.
fn hear(daemon: &mut Daemon, asker: &mut Asker, now_ns: u64) -> bool {
    let mut record = [0; REQUEST_BYTES_MAX + 1];
    let bytes = match asker.socket.receive(&mut record) {
        Ok(Arrived::Record(bytes)) => bytes,
        Ok(Arrived::Nothing) => return true,
        Ok(Arrived::End) | Err(_) => return false,
    };
    asker.since_ns = now_ns;
    match Request::parse(&record[..bytes]) {
        Ok(Request::Status(page)) => {
            let status = status(daemon, page.first as usize, now_ns);
            answer(&asker.socket, &Answer::Status(status))
        }
        Ok(Request::Set(changes)) => match set(daemon, &changes, now_ns) {
            Ok(changed) => {
                daemon.control.note(asker.peer, &changed, now_ns);
                answer(&asker.socket, &Answer::Set(changed))
            }
            Err(refused) => {
                daemon.control.refuse(&asker.socket, refused);
                true
            }
        },
        Err(error) => {
            let refused = Refused::new(Why::Malformed, error.to_string());
            daemon.control.refuse(&asker.socket, refused);
            false
        }
    }
}

/// Changes settings, all of them or none.
fn set(daemon: &mut Daemon, changes: &[Change], now_ns: u64) -> Result<Vec<Changed>, Refused> {
    let (new, changed) = daemon.plan.changed(changes).map_err(|mistakes| Refused {
        mistakes,
        ..Refused::new(Why::Mistakes, "nothing was set")
    })?;
    // What cannot be answered is not done.
    if Answer::Set(changed.clone()).emit().is_err() {
        let text = "these are more changes than an answer has room for: set them in several steps";
        return Err(Refused::new(Why::Mistakes, text));
    }
    let Daemon {
        mux, plan, places, ..
    } = daemon;
    let is_there = |client: ClientId| places[client.index()].lane.is_some();
    if let Err(error) = apply(mux, plan, &new, is_there, now_ns) {
        // What was checked can be set; if it cannot, all is as it was.
        let restored = apply(mux, &new, plan, is_there, now_ns);
        debug_assert!(restored.is_ok(), "{error}");
        return Err(Refused::new(Why::Mistakes, error.to_string()));
    }
    *plan = new;
    // A policy may have a packet for the card now, or ask at another time.
    daemon.ask_at_ns = Some(now_ns);
    Ok(changed)
}

/// Tells the engine what is different between two plans with the same clients.
fn apply(
    mux: &mut Mux,
    old: &MuxPlan,
    new: &MuxPlan,
    is_there: impl Fn(ClientId) -> bool,
    now_ns: u64,
) -> Result<(), MuxError> {
    let before = old.class_configs()?;
    for (class, config) in new.class_configs()?.iter().enumerate() {
        let before = before.get(class);
        if before.map(|before| before.guard_ns) != Some(config.guard_ns) {
            mux.set_guard(class, config.guard_ns)?;
        }
        if before.map(|before| &before.policy) != Some(&config.policy) {
            mux.set_policy(class, &config.policy, now_ns)?;
        }
    }
    let mut changed: Vec<_> = new
        .places()
        .zip(&old.clients)
        .filter(|((client, said), before)| {
            // Its class can bring a bound, too.
            let is_other = said != before || new.sender(said) != old.sender(before);
            is_other && is_there(*client)
        })
        .collect();
    // What some have less of is there for others.
    changed.sort_by_key(|((_, said), before)| said.guarantee > before.guarantee);
    for ((client, said), _) in changed {
        let named = |source| MuxError::Client {
            name: said.name.clone().unwrap_or_default(),
            source,
        };
        mux.set_sender(client, new.sender(said))
            .map_err(|error| named(error.into()))?;
        mux.set_share(client, said.share())
            .map_err(|error| named(error.into()))?;
    }
    Ok(())
}

/// How it stands, with the clients from this number on.
fn status(daemon: &mut Daemon, first: usize, now_ns: u64) -> Value {
    let card = daemon.driver.card.look();
    let drops = (first == 0).then(|| drops_before_clients(daemon));
    let plan = &daemon.plan;
    let places = plan.places().skip(first).take(PAGE_CLIENTS);
    let clients: Vec<_> = places
        .map(|(client, _)| client_of(daemon, client))
        .collect();
    let next = first.saturating_add(PAGE_CLIENTS);
    let (_, changes) = daemon.control.changes();
    let classes = plan.classes_or_usual();
    let classes = classes.iter().enumerate().map(|(number, class)| {
        let members = plan.clients.iter();
        let members = members.filter(|said| usize::from(said.class) == number);
        let names: Vec<_> = members.filter_map(|said| said.name.as_deref()).collect();
        json!({"class": number, "settings": settings_of_class(class), "clients": names})
    });
    json!({
        "interface": daemon.driver.card.name(),
        "pid": std::process::id(),
        "uptime_s": now_ns.saturating_sub(daemon.control.begun_ns) as f64 / 1e9,
        "link": link_name(card.link),
        "mtu_bytes": card.mtu_bytes,
        "drops": drops,
        "confined": daemon.confined.map(ConfinedSummary::from),
        "receive_buffers": {"all": plan.settings.receive_buffers, "free": daemon.mux.free_frames()},
        "frames_in": daemon.mux.frames().came.items,
        "answers": daemon.answers.sent.items,
        "connections": daemon.door.came,
        "changes": changes,
        "classes": classes.collect::<Vec<_>>(),
        "clients": clients,
        "next": (next < plan.clients.len()).then_some(next),
    })
}

fn client_of(daemon: &Daemon, client: ClientId) -> Value {
    let (said, place) = (
        &daemon.plan.clients[client.index()],
        &daemon.places[client.index()],
    );
    let counts = daemon.mux.counts_now(client);
    let mut shown = serde_json::to_value(place.summary(said, &counts)).unwrap_or_default();
    let peer = place.lane.as_ref().and_then(|lane| lane.socket.peer().ok());
    shown["is_connected"] = place.lane.is_some().into();
    shown["pid"] = peer.map(|peer| peer.pid).into();
    shown["uid"] = said.uid.into();
    shown["settings"] = json!(settings_of(said));
    // What holds: a limit brings one by itself.
    shown["sojourn_bound_us"] = json!(daemon.plan.sojourn_bound_us(said));
    shown["frames_held"] = counts.receive_held.items.into();
    shown["packets_waiting"] = daemon.mux.waiting(client).into();
    shown["packets_held"] = counts.transmit_held.items.into();
    shown["drops"] = json!(drops(&counts));
    shown
}

const fn link_name(link: Link) -> &'static str {
    match link {
        Link::Up => "up",
        Link::NoCarrier => "no-carrier",
        Link::Down => "down",
        Link::Gone => "gone",
    }
}

/// Losses of a place, by its name and the reason.
fn at<R: DropReason>(
    place: &str,
    lost: impl Iterator<Item = (R, u64)>,
) -> impl Iterator<Item = (String, u64)> {
    lost.map(move |(why, lost)| (format!("{place}.{}", why.name()), lost))
}

/// Losses that are no client's, by place and reason: at the card, of frames for nobody, and of answers. What a card does not tell now is not there.
fn drops_before_clients(daemon: &mut Daemon) -> BTreeMap<String, u64> {
    let Driver { receive, send, .. } = &mut daemon.driver;
    let came = receive.counts().map(|counts| counts.dropped);
    let went = send.counts().map(|counts| counts.dropped);
    let (came, went) = (came.unwrap_or_default(), went.unwrap_or_default());
    let frames = daemon.mux.frames().dropped.map(|lost| lost.items);
    let ([card_in, card_out], [classify, ..]) = (crate::driver::HOPS, forebay_mux::HOPS);
    let answers = format!("{ANSWERS}.{}", AnswerDrop::Card.name());
    let answers = (answers, daemon.answers.dropped.items);
    let all = at(card_in, came.iter()).chain(at(card_out, went.iter()));
    let all = all.chain(at(classify, frames.iter())).chain([answers]);
    all.filter(|(_, lost)| *lost > 0).collect()
}

/// Losses by place and reason.
fn drops(counts: &ClientCounts<'_>) -> BTreeMap<String, u64> {
    let delivery = counts.delivery.dropped.map(|lost| lost.items);
    let transmit = counts.transmit.dropped.map(|lost| lost.items);
    let gone = counts.receive.reclaimed.items;
    let receive = ("mux_receive.client_gone".to_owned(), gone);
    let all = at("mux_deliver", delivery.iter()).chain(at("mux_transmit", transmit.iter()));
    let all = all.chain([receive]);
    all.filter(|(_, lost)| *lost > 0).collect()
}

#[cfg(test)]
mod tests;
