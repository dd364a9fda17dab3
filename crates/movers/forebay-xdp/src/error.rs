//! What can go wrong, by whose fault it is.

use std::io;

/// Why the kernel does not count for us.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// There is no program in this binary.
    #[error(
        "the offload into the kernel is not in this program: {why}. Install clang (apt-get install clang) and build it again"
    )]
    NotBuilt {
        /// What lacked at the time of the build.
        why: &'static str,
    },
    /// This process lacks rights.
    #[error(
        "the offload into the kernel needs {missing}, which this process lacks: be root, or \
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
    /// Another program is there, and stays.
    #[error(
        "{interface} has an XDP program of another user, which is not replaced; \
         `ip link show {interface}` names it, and its owner takes it off (`ip link set {interface} xdp off` if it has none)"
    )]
    Foreign {
        /// Name of the interface.
        interface: String,
    },
    /// No interface has this name in this network namespace.
    #[error("there is no interface {0}")]
    NoInterface(String),
    /// A setting is outside its range.
    #[error("{name} is {value}; it must be from {low} to {high}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// What it is.
        value: u64,
        /// Least allowed.
        low: u64,
        /// Most allowed.
        high: u64,
    },
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
