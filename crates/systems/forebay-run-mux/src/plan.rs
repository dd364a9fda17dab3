//! What a multiplexer is told, and what its engine is told for it.

use forebay_client::protocol::{HEADER_BYTES, MTU_BYTES, PoolShape};
use forebay_mux::buffers::Share;
use forebay_mux::classify::{Classifier, Multicast, Prefix, Rule, RuleError, Wish};
use forebay_mux::descriptor::TransmitLimits;
use forebay_mux::policy::ScheduleError;
use forebay_mux::responder::Address;
use forebay_mux::transmit::{ClassConfig, Link, Sender};
use forebay_mux::{ClientConfig, ClientId, Mac, Mux, MuxConfig, SourceLimits};
use forebay_wire::packet::{TCP, UDP};

use crate::config::{
    ClassSettings, ClientSettings, MuxSettings, PolicyChoice, ReceiveChoice, RuleSettings,
};
use crate::driver::{Driver, SharedMemory};
use crate::error::MuxError;

/// Bytes that a VLAN tag adds to a frame.
const TAG_BYTES: u32 = 4;
/// Longest that a packet of a client with a limit waits, unless its file, its rate or its window need more.
const LIMITED_SOJOURN_US: u64 = 10_000;
/// The largest bucket that a file can say.
const BURST_BYTES_MAX: u64 = 1_048_576;
/// Two frames of the longest that Ethernet takes without a tag.
const TWO_PACKETS_BITS: u64 = 2 * 1_518 * 8;
/// Frames of pools have a multiple of so many bytes.
const FRAME_STEP: u32 = 64;

/// What a multiplexer is told.
#[derive(Clone, Debug, Default)]
pub struct MuxPlan {
    /// Card, socket and pools.
    pub settings: MuxSettings,
    /// Classes for sending; none: one, with the policy round-robin.
    pub classes: Vec<ClassSettings>,
    /// Places for clients, by their numbers.
    pub clients: Vec<ClientSettings>,
    /// Frames for clients whose own keys are not enough.
    pub rules: Vec<RuleSettings>,
}

/// How long frames of a link are, and so the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) mtu_bytes: u32,
    /// Longest frame, with one VLAN tag.
    pub(crate) frame_bytes_max: u32,
    pub(crate) receive: PoolShape,
    pub(crate) transmit: PoolShape,
}

impl MuxPlan {
    /// Whether all clients could be there together.
    pub(crate) fn check(&self) -> Result<(), MuxError> {
        let sizes = self.sizes(1500)?;
        self.check_windows(sizes)?;
        let mut mux = self.engine(0)?;
        for (client, said) in self.places() {
            self.add(&mut mux, client, said, sizes)?;
        }
        Ok(())
    }

    /// Whether each client of a schedule has a window that its longest packet fits into: otherwise it would wait for ever.
    fn check_windows(&self, sizes: Sizes) -> Result<(), MuxError> {
        for said in &self.clients {
            let class = self.classes.get(usize::from(said.class));
            let Some(class) = class.filter(|class| class.policy == PolicyChoice::Tdm) else {
                continue;
            };
            let name = said.name.clone().unwrap_or_default();
            if said.slot_offset_us.is_none() {
                return Err(MuxError::NoWindow { name });
            }
            let needed_us = class.takes_us(sizes.frame_bytes_max);
            if said.slot_us < needed_us {
                return Err(MuxError::ShortWindow { name, needed_us });
            }
        }
        Ok(())
    }

    /// Clients by their numbers.
    pub(crate) fn places(&self) -> impl Iterator<Item = (ClientId, &ClientSettings)> {
        (0..=u8::MAX).map(ClientId::new).zip(&self.clients)
    }

    /// Buffers for a link with this MTU.
    pub(crate) fn sizes(&self, mtu_bytes: u32) -> Result<Sizes, MuxError> {
        let found = mtu_bytes;
        if !MTU_BYTES.contains(&mtu_bytes) || mtu_bytes > 65_532 {
            return Err(MuxError::Mtu { found });
        }
        let frame_bytes_max = mtu_bytes + HEADER_BYTES as u32 + TAG_BYTES;
        let shape = |frames| PoolShape {
            frames,
            frame_bytes: frame_bytes_max.next_multiple_of(FRAME_STEP),
        };
        Ok(Sizes {
            mtu_bytes,
            frame_bytes_max,
            receive: shape(self.settings.receive_buffers),
            transmit: shape(self.settings.transmit_buffers),
        })
    }

    /// Its classes; the usual one where the file has none.
    pub(crate) fn classes_or_usual(&self) -> Vec<ClassSettings> {
        match self.classes.is_empty() {
            true => vec![ClassSettings::default()],
            false => self.classes.clone(),
        }
    }

    /// What the engine is told of classes.
    ///
    /// # Errors
    /// Windows of clients are no schedule.
    pub(crate) fn class_configs(&self) -> Result<Vec<ClassConfig>, MuxError> {
        let classes = self.classes_or_usual();
        let configs = classes.iter().enumerate().map(|(number, class)| {
            let config = class.class(number, &self.clients);
            config.map_err(|source| MuxError::Schedule {
                number,
                clients: match &source {
                    ScheduleError::Overlap { client, .. } => vec![self.named(*client)],
                    _ => Vec::new(),
                },
                source,
            })
        });
        configs.collect()
    }

    /// Whether a client reads frames where the driver receives them.
    pub(crate) fn shares(&self) -> bool {
        self.clients.iter().any(ClientSettings::shares)
    }

    /// Has the driver receive where clients read, if one of them is to do so.
    pub(crate) fn share(&self, driver: &mut Driver) -> Result<Option<SharedMemory>, MuxError> {
        if !self.shares() {
            return Ok(None);
        }
        let shared = driver.receive.share(self.settings.receive_buffers)?;
        let driver = self.settings.driver.name();
        shared.map(Some).ok_or(MuxError::NotShared { driver })
    }

    /// The engine without clients, and with so many buffers more for the card: frames for each are known as such from the start.
    pub(crate) fn engine(&self, card_buffers: u32) -> Result<Mux, MuxError> {
        let config = MuxConfig {
            receive_buffers: self.settings.receive_buffers,
            card_buffers,
            classes: self.class_configs()?,
            faults_of_a_kind_max: self.settings.faults_max(),
        };
        let classifier = self.classifier().map_err(|source| self.refused(source))?;
        let mut mux = Mux::new(&config, classifier)?;
        let overhead_bytes = self.settings.link_overhead_bytes;
        let link = self.settings.link_rate_bps.map(|rate_bps| Link {
            rate_bps,
            overhead_bytes,
        });
        mux.set_link(link)?;
        Ok(mux)
    }

    /// The error with the names of its clients.
    fn refused(&self, source: RuleError) -> MuxError {
        let clients = source.clients();
        MuxError::Rules {
            clients: clients.iter().map(|client| self.named(*client)).collect(),
            source: Box::new(source),
        }
    }

    /// The place of a client in the file, and its name.
    fn named(&self, client: ClientId) -> (usize, String) {
        let said = self.clients.get(client.index());
        let name = said.and_then(|said| said.name.clone());
        (client.index(), name.unwrap_or_default())
    }

    pub(crate) fn classifier(&self) -> Result<Classifier, RuleError> {
        let mut rules = Vec::new();
        for (client, said) in self.places() {
            let of_it = self.rules.iter().filter(|rule| rule.is_of(said));
            let before = rules.len();
            rules.extend(of_it.map(|rule| rule.rule(client, said)));
            if rules.len() == before {
                rules.extend(said.rules(client));
            }
        }
        let wishes: Vec<_> = self
            .places()
            .map(|(client, said)| said.wish(client))
            .collect();
        Classifier::new(&rules, &wishes)
    }

    /// How a client sends.
    pub(crate) fn sender(&self, said: &ClientSettings) -> Sender {
        Sender {
            class: said.class.into(),
            queue_packets: said.transmit_queue,
            sojourn_max_ns: self.sojourn_bound_us(said).map(|us| us * 1000),
        }
    }

    /// The longest that packets of a client wait. Of one with a limit that is not its whole queue, unless its file says so: the time of two long packets at its rate, a window, or 10 ms.
    pub(crate) fn sojourn_bound_us(&self, said: &ClientSettings) -> Option<u64> {
        // The usual class has no limiter.
        let class = self.classes.get(usize::from(said.class));
        let window_us = class.and_then(|class| match class.policy {
            PolicyChoice::TokenBucket => Some(0),
            PolicyChoice::Window => Some(class.window_us),
            _ => None,
        });
        let by_itself = said.rate_bps.zip(window_us).map(|(rate_bps, window_us)| {
            let packets_us = (TWO_PACKETS_BITS * 1_000_000).div_ceil(rate_bps);
            packets_us.max(window_us).max(LIMITED_SOJOURN_US)
        });
        said.sojourn_max_us.or(by_itself).filter(|us| *us > 0)
    }

    /// Warnings of buckets that hold less than 1 ms of their rate: what comes to a full one before the daemon wakes is lost to it.
    pub(crate) fn small_bursts(&self) -> impl Iterator<Item = String> {
        self.clients.iter().filter_map(|said| {
            let class = self.classes.get(usize::from(said.class))?;
            let needed_bytes = (said.rate_bps? / (8 * 1000)).min(BURST_BYTES_MAX);
            let is_small = class.policy == PolicyChoice::TokenBucket
                && u64::from(said.burst_bytes) < needed_bytes;
            is_small.then(|| {
                format!(
                    "client {}: burst_bytes = {} is less than 1 ms of rate_bps = {}: when the daemon wakes later than that, the client has less than its rate; write {needed_bytes} or more",
                    said.name.as_deref().unwrap_or_default(),
                    said.burst_bytes,
                    said.rate_bps.unwrap_or_default()
                )
            })
        })
    }

    /// Takes a client in, or nothing of it.
    pub(crate) fn add(
        &self,
        mux: &mut Mux,
        client: ClientId,
        said: &ClientSettings,
        sizes: Sizes,
    ) -> Result<(), MuxError> {
        let name = || said.name.clone().unwrap_or_default();
        let sender = self.sender(said);
        let config = said.client(sender, self.settings.transmit_buffers, sizes);
        let added = mux.add_client(client, &config);
        added.map_err(|source| MuxError::Client {
            name: name(),
            source,
        })?;
        for ip in &said.address {
            let address = Address {
                client,
                ip: *ip,
                mac: said.mac(),
                vlan: said.vlan,
            };
            if let Err(source) = mux.responder().add(address) {
                mux.remove_client(client);
                let name = name();
                return Err(MuxError::Address { name, source });
            }
        }
        Ok(())
    }
}

impl ClientSettings {
    /// Its Ethernet address, which its file has.
    pub(crate) fn mac(&self) -> Mac {
        self.mac.map_or(Mac([0; 6]), |mac| mac.0)
    }

    /// Whether it reads frames where the driver has received them.
    pub(crate) fn shares(&self) -> bool {
        self.receive == ReceiveChoice::Shared
    }

    fn rules(&self, client: ClientId) -> Vec<Rule> {
        let whole = Rule {
            destination_mac: Some(self.mac()),
            vlan: self.vlan,
            ..Rule::of(client)
        };
        let ports = |protocol, ports: &[u16]| -> Vec<Rule> {
            let rule = |port: &u16| Rule {
                protocol: Some(protocol),
                destination_port: Some(*port),
                ..whole
            };
            ports.iter().map(rule).collect()
        };
        let of_ports = [ports(UDP, &self.udp_ports), ports(TCP, &self.tcp_ports)].concat();
        if of_ports.is_empty() {
            return vec![whole];
        }
        if self.address.is_empty() {
            return of_ports;
        }
        let to = |rule: Rule| {
            self.address.iter().map(move |ip| Rule {
                destination: Some(Prefix::exact(*ip)),
                ..rule
            })
        };
        of_ports.into_iter().flat_map(to).collect()
    }

    fn wish(&self, client: ClientId) -> Wish {
        Wish {
            client,
            vlan: self.vlan,
            broadcast: self.broadcast,
            multicast: match (self.multicast, &self.groups[..]) {
                (true, _) => Multicast::All,
                (false, []) => Multicast::Nothing,
                (false, groups) => Multicast::Groups(groups.iter().map(|one| one.0).collect()),
            },
        }
    }

    /// How it shares the receive buffers.
    pub(crate) const fn share(&self) -> Share {
        Share {
            queue_frames: self.queue,
            guaranteed_frames: self.guarantee,
        }
    }

    /// The sender that its frames may name.
    pub(crate) fn source(&self) -> SourceLimits {
        SourceLimits {
            mac: Some(self.mac()),
            vlan: self.vlan,
        }
    }

    fn client(&self, sender: Sender, transmit_buffers: u32, sizes: Sizes) -> ClientConfig {
        ClientConfig {
            share: self.share(),
            sender,
            limits: TransmitLimits {
                buffers: transmit_buffers,
                buffer_bytes: sizes.transmit.frame_bytes,
                frame_bytes_max: sizes.frame_bytes_max,
                source: self.source(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_a_limit_has_a_bound_on_waiting_unless_it_says_none() {
        use PolicyChoice::{Priority, TokenBucket, Window};
        for (policy, rate_bps, said, bound_us) in [
            (TokenBucket, None, None, None),
            (TokenBucket, None, Some(12_000), Some(12_000)),
            (TokenBucket, Some(100_000_000), None, Some(10_000)),
            (TokenBucket, Some(100_000_000), Some(12_000), Some(12_000)),
            (TokenBucket, Some(100_000_000), Some(0), None),
            // Two packets are longer than that.
            (TokenBucket, Some(1_000_000), None, Some(24_288)),
            (TokenBucket, Some(8_000), None, Some(3_036_000)),
            // As is its window.
            (Window, Some(100_000_000), None, Some(50_000)),
            (Window, Some(8_000), None, Some(3_036_000)),
            // Nobody reads the rate.
            (Priority, Some(100_000_000), None, None),
        ] {
            let client = ClientSettings {
                rate_bps,
                sojourn_max_us: said,
                ..ClientSettings::default()
            };
            let plan = MuxPlan {
                classes: vec![ClassSettings {
                    policy,
                    window_us: 50_000,
                    ..ClassSettings::default()
                }],
                ..MuxPlan::default()
            };
            let bound_ns = plan.sender(&client).sojourn_max_ns;
            assert_eq!(
                bound_ns,
                bound_us.map(|us: u64| us * 1000),
                "{policy:?} {client:?}"
            );
        }
    }
}
