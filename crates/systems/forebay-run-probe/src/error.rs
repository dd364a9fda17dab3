//! What stops a probe.

use forebay_link::collector::TlsFault;
use forebay_link::packet::PacketError;
use forebay_link::pcap::CaptureError;
use forebay_run::error::RunError;
use forebay_run::whole_file::BeginError;
use forebay_traffic::ProfileError;
use thiserror::Error;

use crate::export::TrustError;
use crate::plugins::PluginChoice;
use crate::source::NotTraffic;

/// Errors of the flow probe.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The capture cannot be opened.
    #[error(transparent)]
    Unopened(CaptureError),
    /// The capture is none, or broken.
    #[error("{path}: {source}")]
    Capture {
        /// Where it is.
        path: String,
        /// What is wrong with it.
        source: CaptureError,
    },
    /// The packets of a profile cannot be made.
    #[error(transparent)]
    Profile(ProfileError),
    /// There is no such traffic.
    #[error(transparent)]
    Traffic(#[from] NotTraffic),
    /// The interface cannot be read.
    #[error(transparent)]
    Interface(#[from] PacketError),
    /// A setting of the engine.
    #[error(transparent)]
    Setting(#[from] forebay_flow::OutOfRange),
    /// A program of the kernel, or a socket past its stack.
    #[error(transparent)]
    Offload(#[from] forebay_xdp::XdpError),
    /// Frames that are counted in the kernel are lost for the host.
    #[error(
        "{interface} has the address {address}: --offload xdp drops frames of heavy flows, this host's own among them; \
         give --offload filter, which takes none from the host, or mirror the traffic to an interface without an address"
    )]
    InUse {
        /// The interface.
        interface: String,
        /// Its address.
        address: std::net::IpAddr,
    },
    /// Frames that are taken past the stack are lost for the host.
    #[error(
        "{interface} has the address {address}: --input xdp takes all frames of the interface, this host's own among them; \
         mirror the traffic to an interface without an address, or give --input packet"
    )]
    Taken {
        /// The interface.
        interface: String,
        /// Its address.
        address: std::net::IpAddr,
    },
    /// A queue without a thread is not read.
    #[error(
        "{interface} has {has} receive queues and there are {queues} threads, of which --input xdp gives each a queue of its own; \
         give --queues {has}, or set the queues of {interface} by `ethtool -L`"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// Its queues.
        has: u32,
        /// Threads that were asked for.
        queues: u32,
    },
    /// Frames past the stack are those of Ethernet.
    #[error(
        "{interface} is of kind {kind} (ARPHRD_*), and --input xdp reads Ethernet (1); give --input packet"
    )]
    NotEthernet {
        /// The interface.
        interface: String,
        /// What it is.
        kind: u16,
    },
    /// A capture has no queues.
    #[error(
        "--input xdp is for an interface; give --interface in place of --read, or leave --input out"
    )]
    NothingToSteer,
    /// A card may take tags off before a frame comes.
    #[error(
        "--input xdp does not see VLAN tags that a card has taken off; leave --vlan-in-key out, or give --input packet"
    )]
    TagsMayNotCome,
    /// An interface has one program.
    #[error(
        "--offload xdp and --input xdp are two programs, and an interface takes one; give --offload software, or --input packet"
    )]
    TwoPrograms,
    /// A table at packet sockets needs such sockets.
    #[error(
        "--offload filter is at packet sockets, and --input xdp has none; give --offload software, or --input packet"
    )]
    NothingToFilter,
    /// A capture has no interface that a program could be put on.
    #[error(
        "--offload {0} is for an interface; give --interface in place of --read, or --offload software"
    )]
    NothingBelow(&'static str),
    /// A program of the kernel reads Ethernet.
    #[error(
        "{0} has no Ethernet frames, which are all that --offload filter reads; give --offload off"
    )]
    NoEthernet(String),
    /// What is counted below has both directions.
    #[error(
        "--offload counts both directions of a flow; leave --uniflow out, or give --offload off"
    )]
    OneWay,
    /// Nothing is counted below, and so no limit of it can be asked for.
    #[error(
        "--offload-limit is of flows that --offload has counted below; give --offload software, filter or xdp, or leave --offload-limit out"
    )]
    NothingCounted,
    /// Nothing is lent, and so nothing can be cut.
    #[error(
        "--offload-trim is nothing without --offload software or filter; give one of them, or leave --offload-trim out"
    )]
    NothingCut,
    /// A card may take tags off before the program of the kernel sees a frame.
    #[error(
        "--offload xdp does not see VLAN tags that a card has taken off; give --offload filter, or leave --vlan-in-key out"
    )]
    TagsMayBeHidden,
    /// A frame that a program on an interface has cut does not say how long it was.
    #[error(
        "--offload xdp does not cut frames: nothing would say how long they were; give --offload filter, or leave --offload-trim out"
    )]
    NotCut,
    /// Packets that are counted below are not there to be exported.
    #[error(
        "--offload counts packets below user space, which --export-packets would lack; leave one of them out"
    )]
    NotThere,
    /// What is counted below is seen by no rule.
    #[error(
        "--filter '{0}' tells apart packets of one flow, which --offload counts below user space; \
         write a rule that names no src or dst and does not sample, or give --offload off"
    )]
    TellsApart(String),
    /// An output cannot be begun.
    #[error(transparent)]
    Output(#[from] BeginError),
    /// The collector is not there.
    #[error("{collector}: {source}; give --export the HOST:PORT where a collector listens")]
    Collector {
        /// Where it should be.
        collector: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The collector is there, and nothing can be said to it over TLS.
    #[error("{collector}: {fault}")]
    Tls {
        /// Where it is.
        collector: String,
        /// Why not.
        fault: TlsFault,
    },
    /// The files for TLS do not do.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The same exporter is asked for twice.
    #[error("{0} is given twice; leave one --export of it out")]
    Twice(String),
    /// The same plugin is named twice.
    #[error("--plugins has {0} twice; leave one of them out")]
    PluginTwice(PluginChoice),
    /// Packets are to be exported, and there is no file for them.
    #[error(
        "a rule of the filter exports packets, and there is no file for them; give --export-packets FILE.pcapng, or take the rule out"
    )]
    NoPacketFile,
    /// Books, files, the system.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ProbeError {
    /// That a collector could not be reached.
    pub(crate) fn collector(collector: &str, source: std::io::Error) -> Self {
        let collector = collector.to_owned();
        match TlsFault::of(&source).cloned() {
            Some(fault) => Self::Tls { collector, fault },
            None => Self::Collector { collector, source },
        }
    }
}
