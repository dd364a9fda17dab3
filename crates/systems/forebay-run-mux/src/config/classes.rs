//! The `[[classes]]` blocks: which client sends next.

use forebay_mux::ClientId;
use forebay_mux::policy::{PerClient, PolicyConfig, Schedule, ScheduleError, Slot};
use forebay_mux::transmit::ClassConfig;
use forebay_settings::{choices, settings};

use super::clients::ClientSettings;

choices! {
    /// Which client of a class sends next.
    pub enum PolicyChoice {
        /// In the order in which they had something again, each up to a number of packets.
        Signalled = "signalled",
        /// One packet of each in turn.
        RoundRobin = "round-robin",
        /// As many bytes of each in turn, by `quantum_bytes` of the clients.
        DeficitRoundRobin = "deficit-round-robin",
        /// The lowest level first, by `level` of the clients.
        Priority = "priority",
        /// Each at its rate with bursts, by `rate_bps` and `burst_bytes` of the clients.
        TokenBucket = "token-bucket",
        /// So many bits in each window of time, by `rate_bps` of the clients.
        Window = "window",
        /// Each in its window of a schedule that comes again, by `slot_offset_us` and `slot_us` of the clients. A class behind it may begin a packet shortly before a window.
        Tdm = "tdm",
    }
}

settings! {
    /// Classes of clients for sending, by strict priority: the first one first. Without a block there is one, with the policy round-robin.
    pub struct ClassSettings in [[classes]] {
        /// Which of its clients sends next.
        policy: PolicyChoice = PolicyChoice::RoundRobin,
        /// When classes before it leave it no turn for so long, it gets one.
        guard_us: Option<u64> [1..=10_000_000] => "it may wait for ever",
        /// For signalled: most packets of a client at once.
        burst_packets: u32 [1..=4_294_967_295] = 64,
        /// For priority: a level that waited for so long sends a packet.
        level_guard_us: Option<u64> [1..=10_000_000] => "it may wait for ever",
        /// For window: its length.
        window_us: u64 [100..=1_000_000] = 10_000,
        /// For token-bucket and window: bytes of each packet that do not count, 42 where rates are those of UDP payload.
        uncounted_bytes: u32 [0..=256] = 0,
        /// For tdm: after so long all windows come again.
        cycle_us: u64 [1..=60_000_000] = 10_000,
        /// For tdm: bits in a second that the link takes: a packet is sent only if it is over before its window is.
        link_rate_bps: u64 [8000..=1_000_000_000_000] = 1_000_000_000,
        /// For tdm: bytes that each packet takes on the link beside its own: preamble, check sum and gap of Ethernet.
        overhead_bytes: u32 [0..=256] = 24,
    }
}

impl ClassSettings {
    /// What the engine is told of it, as the class of this number.
    ///
    /// # Errors
    /// The windows of its clients are no schedule.
    pub(crate) fn class(
        &self,
        number: usize,
        clients: &[ClientSettings],
    ) -> Result<ClassConfig, ScheduleError> {
        Ok(ClassConfig {
            policy: self.policy(number, clients)?,
            guard_ns: self.guard_us.map(|us| us * 1000),
        })
    }

    /// How long the link takes for a packet of so many bytes, in us, rounded up.
    pub(crate) fn takes_us(&self, bytes: u32) -> u64 {
        let bits = u64::from(bytes + self.overhead_bytes) * 8;
        (bits * 1_000_000).div_ceil(self.link_rate_bps)
    }

    /// The windows of its clients, in the order of their begins. The cycle begins by the monotonic clock of the host.
    fn schedule(
        &self,
        number: usize,
        clients: &[ClientSettings],
    ) -> Result<Schedule, ScheduleError> {
        let members = (0..=u8::MAX).map(ClientId::new).zip(clients);
        let members = members.filter(|(_, said)| usize::from(said.class) == number);
        let slots = members.filter_map(|(client, said)| {
            Some(Slot {
                client,
                offset_ns: said.slot_offset_us? * 1000,
                window_ns: said.slot_us * 1000,
            })
        });
        let mut slots: Vec<_> = slots.collect();
        slots.sort_by_key(|slot| slot.offset_ns);
        let (cycle_ns, rate_bps) = (self.cycle_us * 1000, self.link_rate_bps);
        Schedule::new(slots, cycle_ns, 0, rate_bps, self.overhead_bytes)
    }

    fn policy(
        &self,
        number: usize,
        clients: &[ClientSettings],
    ) -> Result<PolicyConfig, ScheduleError> {
        let usual = ClientSettings::default();
        let rate_bps = || per_client(clients, usual.rate_bps, |it| it.rate_bps);
        let uncounted_bytes = self.uncounted_bytes;
        Ok(match self.policy {
            PolicyChoice::Signalled => PolicyConfig::Signalled {
                burst_packets: self.burst_packets,
            },
            PolicyChoice::RoundRobin => PolicyConfig::RoundRobin,
            PolicyChoice::DeficitRoundRobin => PolicyConfig::DeficitRoundRobin {
                quantum_bytes: per_client(clients, usual.quantum_bytes, |it| it.quantum_bytes),
            },
            PolicyChoice::Priority => PolicyConfig::Priority {
                level: per_client(clients, usual.level, |it| it.level),
                guard_ns: self.level_guard_us.map(|us| us * 1000),
            },
            PolicyChoice::TokenBucket => PolicyConfig::TokenBucket {
                rate_bps: rate_bps(),
                burst_bytes: per_client(clients, usual.burst_bytes, |it| it.burst_bytes),
                uncounted_bytes,
            },
            PolicyChoice::Window => PolicyConfig::Window {
                window_ns: self.window_us * 1000,
                rate_bps: rate_bps(),
                uncounted_bytes,
            },
            PolicyChoice::Tdm => PolicyConfig::Tdm(self.schedule(number, clients)?),
        })
    }
}

fn per_client<T: Copy>(
    clients: &[ClientSettings],
    default: T,
    value: fn(&ClientSettings) -> T,
) -> PerClient<T> {
    let named = (0..=u8::MAX)
        .map(ClientId::new)
        .zip(clients.iter().map(value));
    PerClient {
        default,
        named: named.collect(),
    }
}
