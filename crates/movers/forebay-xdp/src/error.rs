//! What can go wrong, by whose fault it is.

use std::io;

use forebay_settings::OutOfRange;

/// Why the kernel does not do for us what it should.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// There is no program in this binary.
    #[error(
        "the programs for the kernel (XDP) are not in this binary: {why}. Install clang (apt-get install clang) and build it again"
    )]
    NotBuilt {
        /// What lacked at the time of the build.
        why: &'static str,
    },
    /// This process lacks rights.
    #[error(
        "a program in the kernel (XDP) needs {missing}, which this process lacks: be root, or \
         `setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon+ep` the program"
    )]
    NotAllowed {
        /// Capabilities, with commas between.
        missing: String,
    },
    /// The program that was built in is not what the loader knows.
    #[error("the object of the XDP program: {0}")]
    Object(&'static str),
    /// A call of the kernel failed.
    #[error("{call} {target}: {source}")]
    System {
        /// Its name.
        call: &'static str,
        /// What it was called on.
        target: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel's verifier takes the program for unsafe; the end of what it said.
    #[error("the kernel refuses the program {program}: {source}; its verifier says: {log}")]
    Refused {
        /// Name of the program.
        program: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
        /// Last lines of the verifier.
        log: String,
    },
    /// A program of the kernel did not give an entry of the table back.
    #[error("a program of the kernel had the entry of a flow for all of {tries} tries")]
    EntryInUse {
        /// How often it was tried.
        tries: u32,
    },
    /// A port cannot have the frames of another interface.
    #[error("a port of {port} cannot have frames of another interface; open one there")]
    OtherInterface {
        /// The port's interface.
        port: String,
    },
    /// Another program is there, and stays.
    #[error(
        "{interface} has an XDP program of another user, which is not replaced; \
         `ip link show {interface}` names it, and its owner takes it off (`ip link set {interface} xdp off` if it has none)"
    )]
    Foreign {
        /// Name of the interface.
        interface: String,
    },
    /// A queue of an interface has one socket at a time.
    #[error(
        "queue {queue} of {interface} has an AF_XDP socket of another user; end that one (`ss --xdp -p` names it), or take another queue"
    )]
    QueueInUse {
        /// Name of the interface.
        interface: String,
        /// Its queue.
        queue: u32,
    },
    /// The interface's driver moves no frames without a copy, and none is wanted.
    #[error(
        "the driver of {interface} moves no frames without a copy; allow one, or take another card"
    )]
    Copies {
        /// Name of the interface.
        interface: String,
    },
    /// An interface has not so many queues, or no such sockets at all.
    #[error(
        "{interface} has no queue {queue} that could have an AF_XDP socket; `ethtool -l {interface}` says how many it has"
    )]
    NoQueue {
        /// Name of the interface.
        interface: String,
        /// The queue that was asked for.
        queue: u32,
    },
    /// The kernel does not lock so much memory for this process.
    #[error(
        "{bytes} bytes of memory for frames may not be locked; take less (--ring), raise `ulimit -l` (LimitMEMLOCK= of systemd), or give CAP_IPC_LOCK"
    )]
    Memory {
        /// What was asked for.
        bytes: u64,
    },
    /// No interface has this name in this network namespace.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// A setting is no power of two within its range.
    #[error("{name} is {value}; it must be a power of two from {low} to {high}")]
    Power {
        /// Its name.
        name: &'static str,
        /// What it is.
        value: u64,
        /// Least allowed.
        low: u64,
        /// Most allowed.
        high: u64,
    },
    /// A setting is outside its range.
    #[error(transparent)]
    Setting(#[from] OutOfRange),
}

impl XdpError {
    pub(crate) fn system(call: &'static str, target: impl Into<String>) -> Self {
        Self::System {
            call,
            target: target.into(),
            source: io::Error::last_os_error(),
        }
    }
}
