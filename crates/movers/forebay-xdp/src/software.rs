//! The table in this process: the same states and rules as the kernel's program, on frames that are given to it.

mod parse;

use std::collections::{HashMap, VecDeque};

use forebay_wire::packet::tcp::{FIN, RST, SYN};

use self::parse::{Packet, parse};
use crate::abi::{Key, RawExport, RawMetadata};
use crate::connections::{
    Changed, Config, Connections, Counts, Entry, Export, Inserted, Metadata, Reason, Seed, State,
    Tally, Term,
};
use crate::error::XdpError;
use crate::programs::Verdict;

/// In front of each record of a ring.
const HEAD_BYTES: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Flow {
    entry: Entry,
    seed: Seed,
    /// Frames; none while it was told and was not collected yet.
    export_at: u64,
    published: bool,
}

impl Flow {
    /// It has counted nothing.
    const fn begin(&mut self, config: &Config) {
        self.entry = Entry {
            frames: [0; 2],
            octets: [0; 2],
            tcp_flags: [0; 2],
            first_ns: 0,
            last_ns: 0,
            ..self.entry
        };
        self.export_at = match config.export_limit_frames {
            0 => u64::MAX,
            limit => limit,
        };
    }

    fn frames(&self) -> u64 {
        self.entry.frames.iter().sum()
    }

    /// Why a frame is none of its record.
    fn closing(&self, idle_ns: u64, now_ns: u64, tcp_flags: u8) -> Option<Reason> {
        if now_ns.saturating_sub(self.seed.heard_ns) >= idle_ns {
            Some(Reason::Idle)
        } else if now_ns >= self.seed.active_due_ns {
            Some(Reason::Active)
        } else {
            (tcp_flags & (SYN | FIN | RST) != 0).then_some(Reason::TcpEof)
        }
    }

    /// Why user space is to be told of it, if it is.
    fn publishable(&self) -> Option<Reason> {
        if self.published {
            return None;
        }
        let limit = (self.frames() >= self.export_at).then_some(Reason::Limit);
        self.entry.closed.or(limit)
    }

    fn count(&mut self, packet: &Packet, now_ns: u64) {
        let way = usize::from(packet.turned);
        self.entry.frames[way] += 1;
        self.entry.octets[way] += u64::from(packet.octets);
        self.entry.tcp_flags[way] |= packet.tcp_flags;
        if self.entry.first_ns == 0 || now_ns < self.entry.first_ns {
            self.entry.first_ns = now_ns;
        }
        self.entry.last_ns = self.entry.last_ns.max(now_ns);
    }
}

/// A table of connections without a kernel.
#[derive(Debug)]
pub struct Software {
    config: Config,
    flows: HashMap<Key, Flow>,
    exports: VecDeque<Export>,
    metadata: VecDeque<Metadata>,
    /// Records that each of both has room for, as many as the kernel's rings.
    rooms: [usize; 2],
    counts: Counts,
    now_ns: u64,
}

impl Software {
    /// Makes an empty table.
    ///
    /// # Errors
    /// A setting is outside its range.
    pub fn new(config: &Config) -> Result<Self, XdpError> {
        config.validate()?;
        let room = |bytes: u32, record: usize| (bytes as usize - 1) / (record + HEAD_BYTES);
        let [exports, metadata] = config.ring_bytes;
        Ok(Self {
            config: *config,
            flows: HashMap::new(),
            exports: VecDeque::new(),
            metadata: VecDeque::new(),
            rooms: [
                room(exports, size_of::<RawExport>()),
                room(metadata, size_of::<RawMetadata>()),
            ],
            counts: Counts::default(),
            now_ns: 0,
        })
    }

    /// The time for what user space does from now on, ns.
    pub const fn set_clock(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Takes an Ethernet frame that came at a time; gives its verdict, and how many of its bytes go up.
    pub fn handle_frame(&mut self, frame: &[u8], now_ns: u64) -> (Verdict, usize) {
        self.handle_cut_frame(frame, frame.len() as u32, now_ns)
    }

    /// As [`Self::handle_frame`], of a frame that was longer on the wire: so many bytes.
    pub fn handle_cut_frame(
        &mut self,
        frame: &[u8],
        wire_bytes: u32,
        now_ns: u64,
    ) -> (Verdict, usize) {
        self.now_ns = now_ns;
        let cut = (wire_bytes as usize).saturating_sub(frame.len());
        let (term, octets, headers) = match parse(frame, cut, &self.config) {
            Err((term, octets)) => {
                self.add(Term::Seen, octets);
                (term, octets, 0)
            }
            Ok(packet) => {
                self.add(Term::Seen, packet.octets);
                (self.of_flow(&packet, now_ns), packet.octets, packet.headers)
            }
        };
        self.add(term, octets);
        match term {
            Term::Counted | Term::Metadata => (Verdict::Drop, frame.len()),
            Term::Trimmed => {
                let kept = headers.max(self.config.trim_bytes as usize);
                (Verdict::Pass, frame.len().min(kept))
            }
            _ => (Verdict::Pass, frame.len()),
        }
    }

    fn add(&mut self, term: Term, octets: u32) {
        self.counts.of[term as usize] += Tally {
            frames: 1,
            octets: octets.into(),
        };
    }

    fn of_flow(&mut self, packet: &Packet, now_ns: u64) -> Term {
        let is_full = self.flows.len() >= self.config.flows as usize;
        let Some(flow) = self.flows.get_mut(&packet.key) else {
            return if is_full {
                Term::TableFull
            } else {
                Term::NewFlow
            };
        };
        if flow.entry.closed.is_none() {
            flow.entry.closed = flow.closing(self.config.idle_timeout_ns, now_ns, packet.tcp_flags);
        }
        let term = if flow.entry.closed.is_some() {
            Term::Closed
        } else {
            flow.seed.heard_ns = flow.seed.heard_ns.max(now_ns);
            match flow.entry.state {
                State::Data => Term::Watched,
                State::Trim => Term::Trimmed,
                State::NoData if self.metadata.len() >= self.rooms[1] => Term::MetadataFull,
                State::NoData => {
                    self.metadata.push_back(told(packet, now_ns));
                    Term::Metadata
                }
                State::Stat => {
                    flow.count(packet, now_ns);
                    Term::Counted
                }
            }
        };
        if let Some(reason) = flow.publishable() {
            if self.exports.len() >= self.rooms[0] {
                self.counts.exports_deferred += 1;
                return term;
            }
            self.exports.push_back(Export {
                entry: flow.entry,
                reason,
                now_ns,
            });
            if reason == Reason::Limit {
                flow.export_at = u64::MAX;
            } else {
                flow.published = true;
            }
        }
        term
    }
}

const fn told(packet: &Packet, time_ns: u64) -> Metadata {
    Metadata {
        key: packet.key,
        turned: packet.turned,
        time_ns,
        octets: packet.octets,
        tcp_flags: packet.tcp_flags,
    }
}

fn drain<T>(from: &mut VecDeque<T>, most: usize, taken: &mut dyn FnMut(&T)) -> usize {
    let count = most.min(from.len());
    from.drain(..count).for_each(|record| taken(&record));
    count
}

impl Connections for Software {
    fn insert(&mut self, key: &Key, state: State, seed: &Seed) -> Result<Inserted, XdpError> {
        if self.flows.contains_key(key) {
            return Ok(Inserted::Exists);
        }
        if self.flows.len() >= self.config.flows as usize {
            return Ok(Inserted::Full);
        }
        let entry = Entry {
            key: *key,
            frames: [0; 2],
            octets: [0; 2],
            tcp_flags: [0; 2],
            first_ns: 0,
            last_ns: 0,
            state,
            closed: None,
        };
        let mut flow = Flow {
            entry,
            seed: *seed,
            export_at: 0,
            published: false,
        };
        flow.begin(&self.config);
        self.flows.insert(*key, flow);
        Ok(Inserted::At(self.now_ns))
    }

    fn set(&mut self, key: &Key, state: State, seed: &Seed) -> Result<Changed, XdpError> {
        let Some(flow) = self.flows.get_mut(key) else {
            return Ok(Changed::Absent);
        };
        if flow.entry.closed.is_some() {
            return Ok(Changed::Closed);
        }
        flow.entry.state = state;
        flow.seed.heard_ns = flow.seed.heard_ns.max(seed.heard_ns);
        flow.seed.active_due_ns = flow.seed.active_due_ns.min(seed.active_due_ns);
        Ok(Changed::At(self.now_ns))
    }

    fn remove(&mut self, key: &Key) -> Result<Option<Entry>, XdpError> {
        let entry = self.flows.remove(key).map(|flow| flow.entry);
        if let Some(entry) = &entry {
            self.counts.removed += Tally::of(entry);
        }
        Ok(entry)
    }

    fn collect(&mut self, key: &Key) -> Result<Option<Entry>, XdpError> {
        let Some(flow) = self.flows.get_mut(key) else {
            return Ok(None);
        };
        let entry = flow.entry;
        self.counts.removed += Tally::of(&entry);
        flow.begin(&self.config);
        Ok(Some(entry))
    }

    fn read(&self, key: &Key) -> Result<Option<Entry>, XdpError> {
        Ok(self.flows.get(key).map(|flow| flow.entry))
    }

    fn poll_exports(&mut self, most: usize, taken: &mut dyn FnMut(&Export)) -> usize {
        drain(&mut self.exports, most, taken)
    }

    fn poll_metadata(&mut self, most: usize, taken: &mut dyn FnMut(&Metadata)) -> usize {
        drain(&mut self.metadata, most, taken)
    }

    fn held(&self) -> Result<Tally, XdpError> {
        let mut held = Tally::default();
        for flow in self.flows.values() {
            held += Tally::of(&flow.entry);
        }
        Ok(held)
    }

    fn counts(&self) -> Result<Counts, XdpError> {
        Ok(Counts {
            held: self.flows.len() as u64,
            ..self.counts
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_collected_is_counted_anew_from_nothing() {
        let mut table = Software::new(&Config::default()).unwrap();
        let frame = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet, IPv4
            0x45, 0, 0, 40, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0,
            2, // 10.0.0.1 to 10.0.0.2
            0xc3, 0x50, 1, 187, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0, 9, 0, 0, 0, 0, // ACK
        ];
        let (key, _) = Key::of(
            ([10, 0, 0, 1].into(), 50_000),
            ([10, 0, 0, 2].into(), 443),
            0,
            6,
        );
        let seed = Seed {
            heard_ns: 1_000,
            active_due_ns: 1_000_000,
        };
        table.insert(&key, State::Stat, &seed).unwrap();
        let fresh = table.read(&key).unwrap();
        assert_eq!(table.handle_frame(&frame, 2_000).0, Verdict::Drop);
        let entry = table.collect(&key).unwrap().unwrap();
        assert_eq!((entry.octets, entry.last_ns), ([40, 0], 2_000));
        assert_eq!(entry.tcp_flags, [0x10, 0]);
        assert_eq!(table.read(&key).unwrap(), fresh);
    }
}
