//! The probe's file.

use std::path::PathBuf;

use forebay_config::{Block, ConfigFile, Document, Sections};
use forebay_flow::filter::{Action, Filter, RULES_MAX};
use forebay_flow::plugins::Plugins;
use forebay_flow::{Config, DecodeConfig, Eviction, OutOfRange};
use forebay_run::chain::{Joints, Member};
use forebay_settings::{Settings as _, choices, settings};

use crate::error::ProbeError;
use crate::export::{Export, Trust};
use crate::filter::FilterRule;
use crate::offload;
use crate::plugins::PluginChoice;
use crate::run::ProbePlan;
use crate::xdp;

const SECOND_NS: u64 = 1_000_000_000;

choices! {
    /// Which flow goes when a new one finds no room.
    pub enum EvictionChoice {
        /// The one whose time-out is nearest.
        Oldest = "oldest",
        /// The one that was used least recently of the 16 that share a row by their hash.
        LineLru = "line-lru",
    }
}

impl From<EvictionChoice> for Eviction {
    fn from(choice: EvictionChoice) -> Self {
        match choice {
            EvictionChoice::Oldest => Self::Oldest,
            EvictionChoice::LineLru => Self::LineLru,
        }
    }
}

choices! {
    /// How the packets of an interface come to this process.
    pub enum InputChoice {
        /// By packet sockets: whatever else the host does with them. Needs CAP_NET_RAW.
        Packet = "packet",
        /// Past the kernel's stack (AF_XDP), which gets none of them: for taps and mirror ports. Needs CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN, and may lock its rings (`ulimit -l`, CAP_IPC_LOCK).
        Xdp = "xdp",
    }
}

choices! {
    /// What counts the packets of heavy flows in place of the flow table.
    pub enum OffloadChoice {
        /// Nothing: all packets come to user space.
        Off = "off",
        /// A table in front of the decoder, in this process.
        Software = "software",
        /// A program of the kernel on the interface (XDP), which drops what it counts: for taps and mirror ports. Needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
        Xdp = "xdp",
        /// A program of the kernel at the probe's own sockets: what it counts goes on to the host, and does not come to the probe. Needs the same rights.
        Filter = "filter",
    }
}

choices! {
    /// Which flows are counted there.
    pub enum PolicyChoice {
        /// Those that have had a number of packets.
        Packets = "packets",
        /// Those that have had a number of packets, 1,000 each second or more.
        Rate = "rate",
        /// Those that have one of 1,000 of the packets that come to user space.
        HeavyHitter = "heavy-hitter",
    }
}

settings! {
    /// A flow probe: it reads packets, and writes a record of each flow.
    pub struct ProbeSettings in [probe] {
        /// A capture, pcap or pcapng, compressed by gzip or Zstandard or not; `-` is standard input; `traffic:PROFILE`, or `traffic:PROFILE:PACKETS:SEED`, is traffic that is made here, of the profiles of `forebay emulate traffic`.
        read: Option<PathBuf> => "required, if there is no interface",
        /// An interface, as eth0, whose packets are read live, in and out; of loopback each once, and past the kernel's stack those that come in alone. Needs CAP_NET_RAW.
        #[flag = "interface"]
        interface: Option<String> => "required, if there is no capture to read",
        /// Of an interface: how its packets come to this process: packet, by packet sockets, or xdp, past the kernel's stack, which gets none of them: for an interface at a tap or a mirror port, each queue of which has a thread.
        #[flag = "input"]
        input: InputChoice = InputChoice::Packet,
        /// Of an interface: so many threads share its packets, each flow in one of them, with a ring and a table of its own.
        #[flag = "queues"]
        queues: u16 [1..=64] = 1,
        /// Of an interface: memory of each queue for packets that wait to be read, in bytes, in blocks of 256 KiB, or with `input = "xdp"` in buffers of 4 KiB for a frame each, a power of two of them; what finds no room is lost, and counted.
        #[flag = "ring"]
        ring_bytes: u64 [524_288..=4_294_967_296] = 33_554_432,
        /// Of an interface: so many first bytes of each packet are read. Octets are those of whole packets.
        #[flag = "snap"]
        snap_bytes: u32 [64..=262_144] = 262_144,
        /// Of an interface: it takes frames that are not for this host, too.
        #[flag = "promiscuous"]
        promiscuous: bool = false,
        /// The run ends after so long, in s.
        #[flag = "duration"]
        duration_s: Option<u64> [1..=31_536_000] => "until the capture ends, Ctrl-C or SIGTERM",
        /// What counts the packets of heavy flows in place of the flow table: off, software, or a program of the kernel: xdp, which drops what it counts, for an interface at a tap or a mirror port, or filter, which keeps it from the probe alone, for a host that is reached through the interface.
        #[flag = "offload"]
        offload: OffloadChoice = OffloadChoice::Off,
        /// Which flows are counted there, once no plugin wants their packets any more (with offload_trim: their payload): packets, rate or heavy-hitter.
        #[flag = "offload-policy"]
        offload_policy: PolicyChoice = PolicyChoice::Packets,
        /// Of the policies packets and rate: packets that a flow has had first.
        #[flag = "offload-after"]
        offload_after_packets: u64 [0..=1_000_000_000] = 30,
        /// A flow of which plugins want no more than headers, lengths and times, as pstats and bursts do, is lent, too, and its packets come up without what is behind their headers until nothing is wanted any more: with `offload = "filter"` or `"software"`.
        #[flag = "offload-trim"]
        offload_trim: bool = false,
        /// Of a flow that is counted there: its counts come to the flow table once N packets or more were counted since the last time, on an interface at most ten times a second, and the flow stays there.
        #[flag = "offload-limit"]
        offload_limit_packets: Option<u64> [1..=1_000_000_000_000] => "never: counts come when the flow comes back",
        /// Flows that there is room for there, about 200 bytes each; others stay with the flow table.
        #[flag = "offload-flows"]
        offload_flows: u32 [1..=4_194_304] = 16_384,
        /// Records of each thread that captures that may wait for the exporters, and for each collector over TCP or TLS that is away while an interface is read. Those of an interface that find no room are lost, and counted.
        #[flag = "queue"]
        queue_flows: u32 [256..=16_777_216] = 262_144,
        /// Where records go: a file that ends in .ipfix, in .parquet or .csv for a table, or, with a JSON object in each line, in .jsonl; a collector as ipfix+udp://HOST:PORT (20,000 flows/s; faster where records of an interface would wait for more than half a second), ipfix+tcp://HOST:PORT, or ipfix+tls://HOST:PORT (port 4740 by convention); `none` forms and counts them.
        export: Vec<Export> = Vec::new() => "none",
        /// Of ipfix+tls://: certificates of the authorities that made the collectors', as PEM. No authority is believed of itself; /etc/ssl/certs/ca-certificates.crt has those that Debian believes.
        #[flag = "export-ca"]
        export_ca: Option<PathBuf> => "required with ipfix+tls://",
        /// Of ipfix+tls://: the probe's own certificate, as PEM, which is shown to collectors that ask for one; then those between it and its authority. With `export_key`.
        #[flag = "export-certificate"]
        export_certificate: Option<PathBuf> => "none",
        /// Of ipfix+tls://: the key of that certificate, as PEM without a password.
        #[flag = "export-key"]
        export_key: Option<PathBuf> => "none",
        /// What is read of flows beside their counts: basic, pstats, bursts, rtt, entropy, dns, mdns, tls, quic, http, ssdp, ntp, dhcp. What each one says, and its memory, is in docs/FLOW_PROBE.md.
        plugins: Vec<PluginChoice> = Vec::new() => "none",
        /// Rules for packets before they are counted; the first that matches says what becomes of one: pass, drop, sample 1/N, trim BYTES, export, each with src, dst, net, src-port, dst-port, port, tcp, udp, sctp, icmp, icmp6, proto. The language is in docs/FLOW_PROBE.md.
        filter: Vec<FilterRule> = Vec::new() => "none: all packets pass",
        /// A capture file (pcapng) of the packets that pass the filter, as long as rules with `trim` leave them, with flow and rule in the comment of each; where a rule has the action `export`, its packets alone. Those of an interface that the file cannot take in time are lost, and counted.
        export_packets: Option<PathBuf> => "none",
        /// Where ledger and record lie. Made if it is not there.
        directory: PathBuf = "forebay-probe".into(),
        /// Flows that there is room for, 160 bytes each; line-lru rounds up to a power of two.
        #[flag = "flows"]
        flows: u32 [16..=67_108_864] = Config::default().flows,
        /// Each direction is a flow of its own.
        #[flag = "uniflow"]
        uniflow: bool = false,
        /// A flow ends so long after it began, in s; one that goes on is another record.
        #[flag = "active-timeout"]
        active_timeout_s: u64 [1..=86_400] = Config::default().active_timeout_ns / SECOND_NS,
        /// A flow without a packet for so long ends, in s.
        #[flag = "idle-timeout"]
        idle_timeout_s: u64 [1..=3_600] = Config::default().idle_timeout_ns / SECOND_NS,
        /// Which flow goes when a new one finds no room.
        #[flag = "eviction"]
        eviction: EvictionChoice = EvictionChoice::Oldest,
        /// The same addresses and ports in two VLANs are two flows.
        #[flag = "vlan-in-key"]
        vlan_in_key: bool = false,
        /// So many tunnels (GRE, VXLAN, GTP-U) are looked into: the flow is that of the innermost packet found.
        #[flag = "tunnel-depth"]
        tunnel_depth: u8 [0..=4] = DecodeConfig::default().tunnel_depth,
    }
}

/// Keys that say how an interface is read, and nothing of a capture.
pub const OF_INTERFACES: [&str; 5] = ["input", "queues", "ring_bytes", "snap_bytes", "promiscuous"];

impl ProbeSettings {
    /// What the engine is told. `seed` is that of its hashes, which strangers must not know.
    pub(crate) fn engine(&self, seed: u64) -> (DecodeConfig, Config) {
        let idle_timeout_ns = self.idle_timeout_s * SECOND_NS;
        let usual = Config::default();
        let decode = DecodeConfig {
            vlan_in_key: self.vlan_in_key,
            tunnel_depth: self.tunnel_depth,
            hash_seed: seed,
            ..DecodeConfig::default()
        };
        let table = Config {
            flows: self.flows,
            biflow: !self.uniflow,
            idle_timeout_ns,
            active_timeout_ns: self.active_timeout_s * SECOND_NS,
            linger_ns: usual.linger_ns.min(idle_timeout_ns),
            eviction: self.eviction.into(),
            hash_seed: seed,
        };
        (decode, table)
    }

    /// The packet filter that is asked for.
    pub(crate) fn make_filter(&self) -> Result<Filter, OutOfRange> {
        let rules: Vec<_> = self.filter.iter().map(|rule| rule.0).collect();
        Filter::new(&rules)
    }

    /// A rule says which packets are exported.
    pub(crate) fn has_export_rule(&self) -> bool {
        let is_one = |rule: &FilterRule| matches!(rule.0.action, Action::Export { .. });
        self.filter.iter().any(is_one)
    }

    /// Whether its keys go together: said before any input is waited for.
    pub(crate) fn check(&self) -> Result<(), ProbeError> {
        if self.has_export_rule() && self.export_packets.is_none() {
            return Err(ProbeError::NoPacketFile);
        }
        let twice =
            (1..self.plugins.len()).find(|&at| self.plugins[..at].contains(&self.plugins[at]));
        if let Some(at) = twice {
            return Err(ProbeError::PluginTwice(self.plugins[at]));
        }
        if self.input == InputChoice::Xdp {
            xdp::check(self)?;
        }
        offload::check(self)
    }

    /// The plugins that are asked for, with memory for so many flows.
    pub(crate) fn make_plugins(&self, flows: usize) -> Plugins {
        let kinds: Vec<_> = self.plugins.iter().map(|choice| choice.0).collect();
        Plugins::new(&kinds, flows)
    }
}

/// The file of a probe.
#[derive(Clone, Debug)]
pub struct ProbeFile(pub ProbePlan);

impl ConfigFile for ProbeFile {
    const SECTIONS: Sections = &[ProbeSettings::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, block) = document.one::<ProbeSettings>();
        let read = match (said.read.clone(), &said.interface) {
            (Some(read), None) => read,
            (None, Some(_)) => PathBuf::new(),
            (Some(_), Some(_)) => {
                block.complain(
                    "interface",
                    "it has two inputs",
                    "a capture to read or an interface",
                    "take read or interface out",
                );
                return None;
            }
            (None, None) => {
                block.complain_whole(
                    "it has no input",
                    "a capture to read, or an interface",
                    "add read = \"packets.pcap\" or interface = \"eth0\"",
                );
                return None;
            }
        };
        if !block.has("interface") && OF_INTERFACES.iter().any(|key| block.has(key)) {
            let of_capture = "a capture is read, and no interface";
            OF_INTERFACES
                .iter()
                .for_each(|key| block.idle(key, of_capture));
            return None;
        }
        if said.filter.len() > RULES_MAX {
            block.complain(
                "filter",
                "it has too many rules",
                "256 rules at most: each packet is held against one after the other",
                "take some out, or make one prefix of several",
            );
            return None;
        }
        if let Err(error) = said.check() {
            let key = match error {
                ProbeError::NoPacketFile => "filter",
                ProbeError::NothingToSteer
                | ProbeError::TagsMayNotCome
                | ProbeError::TwoPrograms
                | ProbeError::NothingToFilter => "input",
                _ => "offload",
            };
            complain(&block, key, &error.to_string(), "keys that go together");
            return None;
        }
        // What is wrong with the files for TLS is told with all other mistakes, before anything is opened.
        if let Err(error) = Trust::load(&said) {
            complain(&block, &error.key(), &error.to_string(), TLS_FILES);
        }
        Some(Self(ProbePlan {
            read,
            out: Some(said.directory.clone()),
            settings: said,
        }))
    }
}

const TLS_FILES: &str = "for ipfix+tls://HOST:PORT export_ca, and both of export_certificate and export_key or none of them";

/// A mistake that an error tells with its remedy behind a semicolon, at the key that it is about.
fn complain(block: &Block<'_, '_>, key: &str, error: &str, right: &str) {
    let (wrong, remedy) = error.split_once("; ").unwrap_or((error, ""));
    block.complain(key, wrong, right, remedy);
}

impl Member for ProbeFile {
    const KIND: &'static str = "probe";
    const DIRECTORY: &'static str = "probe.directory";

    fn joints(&self) -> Joints {
        Joints::default()
    }
}
