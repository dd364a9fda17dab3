//! The hand of one thread in a table below: what its flow table lends, and gets back.

use forebay_flow::FlowKey;
use forebay_flow::offload::{Answer, Counted, Loan, Lower};
use forebay_xdp::{Changed, Entry, Inserted, Key, Seed, State};

use super::{Below, Shared};

/// What a thread's table lends to.
#[derive(Debug)]
pub(super) struct Lender(pub(super) Below);

impl Lender {
    fn lend(&self, flow: &FlowKey, state: State, loan: &Loan) -> Answer {
        let mut shared = self.0.shared();
        if shared.is_taken_off {
            // It would count nothing: the flow stays, and nobody is asked for a while.
            return Answer::Full;
        }
        match shared.answer(|table| table.insert(&key(flow), state, &seed(loan))) {
            Some(Inserted::At(since_ns)) => {
                shared.lent += 1;
                shared.lenders.insert(key(flow), self.0.lane);
                Answer::Since(since_ns)
            }
            Some(Inserted::Full) | None => {
                shared.refused += 1;
                Answer::Full
            }
            Some(Inserted::Exists) => {
                shared.elsewhere += 1;
                Answer::Elsewhere
            }
        }
    }
}

impl Lower for Lender {
    fn watch(&mut self, flow: &FlowKey, loan: &Loan) -> Answer {
        self.lend(flow, State::Data, loan)
    }

    fn trims(&self) -> bool {
        self.0.trims
    }

    fn trim(&mut self, flow: &FlowKey, loan: &Loan) -> Answer {
        self.lend(flow, State::Trim, loan)
    }

    fn count(&mut self, flow: &FlowKey, loan: &Loan) -> bool {
        let mut shared = self.0.shared();
        let changed = shared.answer(|table| table.set(&key(flow), State::Stat, &seed(loan)));
        matches!(changed, Some(Changed::At(_)))
    }

    fn take(&mut self, flow: &FlowKey) -> Option<Counted> {
        let mut shared = self.0.shared();
        let entry = shared.answer(|table| table.remove(&key(flow)))??;
        shared.lenders.remove(&key(flow));
        Some(shared.took(self.0.lane, &entry))
    }

    fn collect(&mut self, flow: &FlowKey) -> Option<Counted> {
        let mut shared = self.0.shared();
        let entry = shared.answer(|table| table.collect(&key(flow)))??;
        Some(shared.took(self.0.lane, &entry))
    }
}

impl Shared {
    /// What a thread got of an entry, which is in its books from now on.
    fn took(&mut self, lane: usize, entry: &Entry) -> Counted {
        let counted = Counted {
            packets: entry.frames,
            octets: entry.octets,
            tcp_flags: entry.tcp_flags,
            first_ns: entry.first_ns,
            last_ns: entry.last_ns,
        };
        // What has nothing cannot vanish.
        if counted.volume().packets > 0 && self.leak.take("offload") {
            return Counted::default();
        }
        self.lanes[lane].taken += counted.volume();
        counted
    }
}

const fn seed(loan: &Loan) -> Seed {
    Seed {
        heard_ns: loan.heard_ns,
        active_due_ns: loan.active_due_ns,
    }
}

/// The key below of a canonical key here.
pub(super) fn key(flow: &FlowKey) -> Key {
    let source = (flow.source(), flow.source_port);
    let destination = (flow.destination(), flow.destination_port);
    Key::of(source, destination, flow.vlan, flow.protocol).0
}

pub(super) fn flow_key(key: &Key) -> FlowKey {
    let (low, high) = (key.low(), key.high());
    let mut flow = FlowKey::new(low.0, high.0, key.protocol()).with_ports(low.1, high.1);
    flow.vlan = key.vlan();
    flow
}
