//! A table of connections as a flow table lends to it.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use forebay_flow::offload::{Answer, Counted, Loan, Lower};
use forebay_flow::{FlowKey, Frame, LinkType};
use forebay_xdp::{Changed, Entry, Inserted, Key, Seed, State};

use super::Table;

/// A table of connections as below a flow table.
#[derive(Debug)]
pub(crate) struct Below<T> {
    table: Arc<Mutex<T>>,
    trims: bool,
}

impl<T: Table> Below<T> {
    pub(crate) fn new(table: &Arc<Mutex<T>>, trims: bool) -> Self {
        Self {
            table: Arc::clone(table),
            trims,
        }
    }

    fn lend(&mut self, flow: &FlowKey, state: State, loan: &Loan) -> Answer {
        let mut below = self.table.lock().unwrap();
        match below.insert(&key(flow), state, &seed(loan)).unwrap() {
            Inserted::At(since_ns) => Answer::Since(since_ns),
            Inserted::Full => Answer::Full,
            Inserted::Exists => panic!("{flow:?} is lent twice"),
        }
    }
}

impl<T: Table + Debug + Send> Lower for Below<T> {
    fn watch(&mut self, flow: &FlowKey, loan: &Loan) -> Answer {
        self.lend(flow, State::Data, loan)
    }

    fn trims(&self) -> bool {
        self.trims
    }

    fn trim(&mut self, flow: &FlowKey, loan: &Loan) -> Answer {
        self.lend(flow, State::Trim, loan)
    }

    fn count(&mut self, flow: &FlowKey, loan: &Loan) -> bool {
        let mut below = self.table.lock().unwrap();
        let changed = below.set(&key(flow), State::Stat, &seed(loan)).unwrap();
        assert_ne!(changed, Changed::Absent);
        changed != Changed::Closed
    }

    fn take(&mut self, flow: &FlowKey) -> Option<Counted> {
        let entry = self.table.lock().unwrap().remove(&key(flow)).unwrap();
        entry.map(counted)
    }

    fn collect(&mut self, flow: &FlowKey) -> Option<Counted> {
        let entry = self.table.lock().unwrap().collect(&key(flow)).unwrap();
        entry.map(counted)
    }
}

fn counted(entry: Entry) -> Counted {
    Counted {
        packets: entry.frames,
        octets: entry.octets,
        tcp_flags: entry.tcp_flags,
        first_ns: entry.first_ns,
        last_ns: entry.last_ns,
    }
}

const fn seed(loan: &Loan) -> Seed {
    Seed {
        heard_ns: loan.heard_ns,
        active_due_ns: loan.active_due_ns,
    }
}

pub(crate) fn flow_key(key: &Key) -> FlowKey {
    let (low, high) = (key.low(), key.high());
    let flow = FlowKey::new(low.0, high.0, key.protocol()).with_ports(low.1, high.1);
    assert_eq!(flow.canonical(), (flow, false));
    flow
}

pub(crate) fn key(flow: &FlowKey) -> Key {
    let source = (flow.source(), flow.source_port);
    let destination = (flow.destination(), flow.destination_port);
    let (key, turned) = Key::of(source, destination, flow.vlan, flow.protocol);
    assert!(!turned);
    key
}

pub(crate) fn captured(frame: &[u8], time_ns: u64) -> Frame<'_> {
    Frame {
        time_ns,
        link: Some(LinkType::Ethernet),
        bytes: frame,
        wire_bytes: frame.len() as u32,
    }
}
