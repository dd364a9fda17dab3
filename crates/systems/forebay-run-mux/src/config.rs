//! The multiplexer's file.

mod card;
mod classes;
mod clients;
mod idle;
mod rules;

use std::path::PathBuf;

use forebay_config::{ConfigFile, Document, Sections};
use forebay_run::chain::{Joints, Member};
use forebay_settings::{Settings as _, choices, settings};

pub use classes::{ClassSettings, PolicyChoice};
pub use clients::{ClientSettings, MacAddress, ReceiveChoice};
pub(crate) use idle::readers;
pub use rules::{Network, ProtocolChoice, RuleSettings};

use crate::error::MuxError;
use crate::plan::MuxPlan;

choices! {
    /// How frames come from the card and go to it.
    pub enum DriverChoice {
        /// By packet sockets, each frame at once. Needs CAP_NET_RAW.
        Packet = "packet",
        /// By packet sockets, in blocks, up to 1 ms later: less work for few frames. Needs CAP_NET_RAW.
        PacketBlocks = "packet-blocks",
        /// Past the kernel's stack (AF_XDP). Needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF.
        Xdp = "xdp",
        /// The interface is made (TAP), and the host is at its other end. Needs CAP_NET_ADMIN and CAP_NET_RAW.
        Tap = "tap",
        /// Files in the place of a card.
        Pcap = "pcap",
    }
}

choices! {
    /// Whether the kernel copies frames of the driver xdp between the card's driver and the daemon.
    pub enum XdpCopyChoice {
        /// Where the card's driver cannot do without.
        IfNeeded = "if-needed",
        /// Always: with any card.
        Always = "always",
        /// Never: a card whose driver cannot do without is refused.
        Never = "never",
    }
}

settings! {
    /// The multiplexer: one network card, shared by many untrusted clients.
    pub struct MuxSettings in [mux] {
        /// The interface, as eth0. It should have no address of its own: the host gets its frames as well. Of the driver tap, the one that is made. The driver pcap has none.
        interface: Option<String> => "required but for pcap",
        /// How frames come from it and go to it.
        driver: DriverChoice = DriverChoice::Packet,
        /// Threads of the driver. With 2, frames go out in a thread of their own, beside all else that the daemon does.
        driver_threads: u8 [1..=2] = 1,
        /// Driver xdp: whether the kernel copies each frame. What it came to is `driver_mode` of the record.
        xdp_copy: XdpCopyChoice = XdpCopyChoice::IfNeeded,
        /// Driver pcap: the capture whose frames come, as fast as they are read, when each place has a client.
        pcap_read: Option<PathBuf> => "no frame comes",
        /// Driver pcap: the capture that is made of frames that go. One that is there is written over.
        pcap_write: Option<PathBuf> => "what goes is lost, as device",
        /// The socket on which clients come in. Its directory must be there.
        socket: PathBuf = "forebay-mux.socket".into(),
        /// The socket at which `forebay mux status` and `set` ask.
        control: Option<PathBuf> => "`socket` with the ending .control",
        /// Users (numbers) that may ask there, beside the daemon's own and root: they may change how all clients send.
        control_uid: Vec<u32> = Vec::new() => "none",
        /// Where ledger and record lie. Made if it is not there.
        directory: PathBuf = "forebay-mux".into(),
        /// Receive buffers of all clients together. Each client has memory of its own for as many frames, of which it takes what it uses.
        receive_buffers: u32 [1..=65_536] = 4096,
        /// Buffers of each client for frames that it sends.
        transmit_buffers: u32 [1..=65_536] = 256,
        /// Bits in a second that a link behind the card takes: no more is given to the card, so that policies decide which packets wait, and not a switch which are lost.
        link_rate_bps: Option<u64> [8000..=1_000_000_000_000] => "as fast as the card takes them",
        /// Bytes that each packet takes on that link beside its own: preamble, check sum and gap of Ethernet.
        link_overhead_bytes: u32 [0..=256] = 24,
        /// When much comes (225 frames, packets and buffers in 1 ms: 60,000 echoes in a second), the daemon leaves it to gather for so long before it goes on, in us: fewer wake-ups, and round trips that are longer by twice as much at least. 0: never.
        gather_us: u32 [0..=500] = 0,
        /// The kernel gives the daemon its time on a CPU in pieces of so long, in us, from Linux 6.12 on: less at a time and sooner, and no more altogether. 1 to 99 are as 100; 0: as any other process, some ms.
        slice_us: u32 [0..=100_000] = 100,
        /// CPU on which the daemon runs; a driver's second thread runs on any.
        cpu: Option<usize> [0..=8191] => "not pinned",
        /// Real-time priority (SCHED_FIFO) of the threads that move frames. They run before all ordinary programs then, clients among them, as the kernel's own work for a socket does. Give a low one; memory is not locked.
        real_time: Option<u8> [1..=99] => "off",
        /// Whether the daemon gives its rights away once card, sockets and books are open: capabilities, new privileges, other files, sockets and system calls.
        confine: bool = true,
        /// After so many lies of one kind a client is disconnected. 0: never.
        faults_of_a_kind_max: u32 [0..=4_294_967_295] = 100,
        /// The run ends after so long.
        duration_s: Option<u64> [1..=31_536_000] => "until Ctrl-C or SIGTERM",
    }
}

impl ConfigFile for MuxPlan {
    const SECTIONS: Sections = &[
        MuxSettings::SECTION,
        ClassSettings::SECTION,
        ClientSettings::SECTION,
        RuleSettings::SECTION,
    ];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, block) = document.one::<MuxSettings>();
        if said.control_path() == said.socket {
            let right = "a path of its own";
            block.complain(
                "control",
                "it is the clients' socket",
                right,
                "name another path",
            );
        }
        card::check(&said, &block);
        let classes = document.many::<ClassSettings>();
        let clients = document.many::<ClientSettings>();
        clients::check(&clients, &said, &block);
        idle::check(&classes, &clients);
        let rules = document.many::<RuleSettings>();
        rules::check(&rules, &clients);
        if !document.is_clean() {
            return None;
        }
        let plan = Self {
            settings: said,
            classes: classes.into_iter().map(|(said, _)| said).collect(),
            clients: clients.iter().map(|(said, _)| said.clone()).collect(),
            rules: rules.iter().map(|(said, _)| said.clone()).collect(),
        };
        // What the engine refuses is told before any card is opened.
        if let Err(error) = plan.check() {
            let right = "clients and classes that go together";
            let of_name = |name: &String| {
                let mut all = clients.iter();
                all.position(|(said, _)| said.name.as_ref() == Some(name))
            };
            let place = match &error {
                MuxError::Rules { clients: named, .. }
                | MuxError::Schedule { clients: named, .. } => named.last().map(|(at, _)| *at),
                MuxError::Client { name, .. }
                | MuxError::NoWindow { name }
                | MuxError::ShortWindow { name, .. }
                | MuxError::Address { name, .. } => of_name(name),
                _ => None,
            };
            let place = place.and_then(|at| clients.get(at));
            let is_of_rule = matches!(&error, MuxError::Rules { .. });
            let block = place.map_or(&block, |(said, block)| {
                let mut own = rules.iter().rev().filter(|_| is_of_rule);
                let own = own.find(|(rule, _)| rule.is_of(said));
                own.map_or(block, |(_, block)| block)
            });
            block.complain_whole(&error.to_string(), right, "change the block that is named");
        }
        Some(plan)
    }
}

impl MuxSettings {
    /// Where the control socket is.
    #[must_use]
    pub fn control_path(&self) -> PathBuf {
        let beside = || self.socket.with_extension("control");
        self.control.clone().unwrap_or_else(beside)
    }
}

impl Member for MuxPlan {
    const KIND: &'static str = "mux";
    const DIRECTORY: &'static str = "mux.directory";

    fn joints(&self) -> Joints {
        Joints::default()
    }
}
