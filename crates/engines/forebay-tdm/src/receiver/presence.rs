//! Which senders are there and which are missing, for the operator.

use std::collections::HashSet;
use std::time::Duration;

use forebay_wire::tdm::{Mode, RefuseReason};

use super::{PeerState, PeerTotals, Phase, Receiver};

/// Lines about senders in a session, at most: a sender that joins and leaves again and again does not fill a screen.
const LINES_MAX: usize = 100;

/// Lines about senders that were refused, at most: strangers keep nobody from hearing of members.
const REFUSED_MAX: usize = 32;

/// What is told of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Event {
    Here,
    Again,
    Left,
    Dead,
}

/// A place, as it was seen last.
struct Known {
    name: String,
    restarts: u32,
    state: PeerState,
}

/// Tells of each sender once that it is here, is here again, has left before the start, is dead, and was refused, and why.
pub struct Presence {
    senders: u16,
    silence: Duration,
    known: Vec<Known>,
    told: HashSet<(String, Event)>,
    is_full: bool,
    refused: HashSet<(String, RefuseReason)>,
}

impl Presence {
    /// Of a session with so many `senders`, of which one is dead that says nothing for `silence`.
    pub fn new(senders: u16, silence: Duration) -> Self {
        Self {
            senders,
            silence,
            known: Vec::new(),
            told: HashSet::new(),
            is_full: false,
            refused: HashSet::new(),
        }
    }

    /// Tells what has changed since the last look, and which were refused.
    pub fn look(&mut self, receiver: &mut Receiver, tell: &mut impl FnMut(&str)) {
        while let Some((name, reason)) = receiver.poll_refused() {
            self.refused(name, reason, tell);
        }
        let has_begun = receiver.plan().is_some();
        // Where nothing began, all go as they were told to.
        if !has_begun && *receiver.phase() != Phase::Waiting {
            return;
        }
        let peers = receiver.peers();
        let here = peers.filter(|peer| is_here(peer)).count();
        for (at, peer) in receiver.peers().enumerate() {
            if let Some(event) = self.event(at, peer, has_begun) {
                self.tell(&peer.name, event, here, tell);
            }
        }
    }

    /// The session begins: which are missing.
    pub fn begins(&self, receiver: &Receiver, mode: Mode, tell: &mut impl FnMut(&str)) {
        let planned = usize::from(self.senders);
        let here = receiver.peers().filter(|peer| is_here(peer)).count();
        let missing = planned.saturating_sub(here);
        if missing == 0 {
            return;
        }
        let verb = if here == 1 { "is" } else { "are" };
        let slots = match mode {
            Mode::Slots | Mode::SlotsPaced if missing == 1 => {
                ": 1 slot stays empty until another joins".to_owned()
            }
            Mode::Slots | Mode::SlotsPaced => {
                format!(": {missing} slots stay empty until others join")
            }
            Mode::Incast | Mode::Credit => String::new(),
        };
        tell(&format!("{here} of {planned} senders {verb} here{slots}"));
    }

    fn refused(&mut self, name: String, reason: RefuseReason, tell: &mut impl FnMut(&str)) {
        if self.refused.len() >= REFUSED_MAX {
            return;
        }
        let told = format!("{name} was refused: {}", reason.text());
        if !self.refused.insert((name, reason)) {
            return;
        }
        tell(&told);
        if self.refused.len() == REFUSED_MAX {
            tell("so many senders were refused that no more of it is told");
        }
    }

    fn event(&mut self, at: usize, peer: &PeerTotals, has_begun: bool) -> Option<Event> {
        let before = self.known.get_mut(at);
        let same = before.filter(|it| it.restarts == peer.restarts && it.name == peer.name);
        let (is_new, old) = match same {
            Some(it) => (false, std::mem::replace(&mut it.state, peer.state)),
            None => {
                let known = Known {
                    name: peer.name.clone(),
                    restarts: peer.restarts,
                    state: peer.state,
                };
                match self.known.get_mut(at) {
                    Some(it) => *it = known,
                    None => self.known.push(known),
                }
                (true, PeerState::Joined)
            }
        };
        match peer.state {
            PeerState::Dead if is_new || old != PeerState::Dead => Some(Event::Dead),
            PeerState::Ended if !has_begun && (is_new || old != PeerState::Ended) => {
                Some(Event::Left)
            }
            PeerState::Joined | PeerState::Ready if is_new && peer.restarts > 0 => {
                Some(Event::Again)
            }
            PeerState::Joined | PeerState::Ready if is_new => Some(Event::Here),
            _ => None,
        }
    }

    fn tell(&mut self, name: &str, event: Event, here: usize, tell: &mut impl FnMut(&str)) {
        if self.is_full || !self.told.insert((name.to_owned(), event)) {
            return;
        }
        let (planned, silence) = (self.senders, self.silence.as_secs_f64());
        if self.told.len() >= LINES_MAX {
            self.is_full = true;
            tell("so many senders came and went that no more of it is told");
            return;
        }
        match event {
            Event::Here => tell(&format!("{name} is here, {here} of {planned}")),
            Event::Again => tell(&format!("{name} is here again, {here} of {planned}")),
            Event::Left => tell(&format!(
                "{name} has left before the start, {here} of {planned} are here"
            )),
            Event::Dead => tell(&format!(
                "{name} has said nothing for {silence} s and counts as dead"
            )),
        }
    }
}

/// It takes part.
fn is_here(peer: &PeerTotals) -> bool {
    matches!(peer.state, PeerState::Joined | PeerState::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, restarts: u32, state: PeerState) -> PeerTotals {
        PeerTotals {
            name: name.to_owned(),
            restarts,
            state,
            ..PeerTotals::default()
        }
    }

    #[test]
    fn each_name_and_state_is_told_once_and_a_flood_is_cut_off() {
        let mut presence = Presence::new(2, Duration::from_millis(1500));
        let mut lines = Vec::new();
        let mut look = |it: &PeerTotals, has_begun| {
            if let Some(event) = presence.event(0, it, has_begun) {
                presence.tell(&it.name, event, 1, &mut |line: &str| {
                    lines.push(line.to_owned());
                });
            }
        };
        for state in [PeerState::Joined, PeerState::Ready, PeerState::Ended] {
            look(&peer("a", 0, state), false);
        }
        for restarts in 1..1_000 {
            look(&peer("a", restarts, PeerState::Joined), false);
            look(&peer("a", restarts, PeerState::Dead), false);
        }
        look(&peer("b", 0, PeerState::Ready), true);
        look(&peer("b", 0, PeerState::Ended), true);
        for number in 0..1_000 {
            look(&peer(&format!("c{number}"), 0, PeerState::Joined), true);
        }
        let first = [
            "a is here, 1 of 2",
            "a has left before the start, 1 of 2 are here",
            "a is here again, 1 of 2",
            "a has said nothing for 1.5 s and counts as dead",
            "b is here, 1 of 2",
            "c0 is here, 1 of 2",
        ];
        assert_eq!(lines.iter().take(6).collect::<Vec<_>>(), first.each_ref());
        assert_eq!(lines.len(), LINES_MAX);
    }

    #[test]
    fn strangers_that_are_refused_are_told_once_and_keep_nobody_from_hearing_of_members() {
        let mut presence = Presence::new(1, Duration::from_millis(1500));
        let mut lines = Vec::new();
        let mut tell = |line: &str| lines.push(line.to_owned());
        for number in 0..1_000 {
            let name = format!("stranger{}", number / 2);
            presence.refused(name, RefuseReason::Full, &mut tell);
        }
        presence.tell("a", Event::Here, 1, &mut tell);
        assert_eq!(lines.len(), REFUSED_MAX + 2);
        assert_eq!(
            lines[0],
            format!("stranger0 was refused: {}", RefuseReason::Full.text())
        );
        assert_eq!(
            lines[REFUSED_MAX..],
            [
                "so many senders were refused that no more of it is told",
                "a is here, 1 of 1"
            ]
        );
    }
}
