//! Other programs that do the same, in the same run.

mod built;
mod copy;
mod fabric;
mod iperf;
mod pingpong;
mod zmq;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::Skipped;
use super::ground::{Ground, Side};
use super::remote::NOT_FOUND;
pub use fabric::{BareFabric, BarePattern};
use forebay_report::rows::Row;

/// A program to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// What TCP gives with as large writes.
    Iperf3,
    /// libzmq, a queue that blocks.
    ZmqPushPull,
    /// libzmq, publish and subscribe, a publisher that blocks.
    ZmqPubSub,
    /// libzmq, round trips.
    ZmqReqRep,
    /// Copying as large blocks in memory.
    Memcpy,
    /// libfabric's own round trips.
    FiPingpong,
}

impl Peer {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Iperf3,
        Self::ZmqPushPull,
        Self::ZmqPubSub,
        Self::ZmqReqRep,
        Self::Memcpy,
        Self::FiPingpong,
    ];

    /// The program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            Self::ZmqPushPull | Self::ZmqPubSub | Self::ZmqReqRep => "libzmq",
            Self::Memcpy => "memcpy",
            Self::FiPingpong => "fi_pingpong",
        }
    }

    /// What it does.
    #[must_use]
    pub fn pattern(self) -> &'static str {
        match self {
            Self::Iperf3 => "stream",
            Self::ZmqPushPull => "push_pull",
            Self::ZmqPubSub => "pub_sub",
            Self::ZmqReqRep => "req_rep",
            Self::Memcpy => "copy",
            Self::FiPingpong => "rtt",
        }
    }

    /// The column for the ratio of our result to its.
    #[must_use]
    pub fn ratio_column(self) -> &'static str {
        match self {
            Self::Iperf3 => "ratio_iperf3",
            Self::ZmqPushPull => "ratio_libzmq_push_pull",
            Self::ZmqPubSub => "ratio_libzmq_pub_sub",
            Self::ZmqReqRep => "ratio_libzmq_req_rep",
            Self::Memcpy => "ratio_memcpy",
            Self::FiPingpong => "ratio_fi_pingpong",
        }
    }

    /// Whether it measures round trips.
    #[must_use]
    pub fn is_answered(self) -> bool {
        matches!(self, Self::ZmqReqRep | Self::FiPingpong)
    }

    /// Whether our results over `backend` are set beside it.
    #[must_use]
    pub fn fits(self, backend: &str) -> bool {
        match self {
            Self::Iperf3 | Self::ZmqPushPull | Self::ZmqPubSub | Self::ZmqReqRep => {
                backend == "tcp"
            }
            Self::Memcpy => true,
            Self::FiPingpong => backend.starts_with("fabric+"),
        }
    }
}

/// The programs that can be run here.
#[derive(Debug, Default)]
pub struct Peers {
    zmq: Option<built::Built>,
    missing: Vec<(&'static str, Skipped)>,
}

impl Peers {
    /// Looks which of the `wanted` can be run here, and builds what must be built.
    #[must_use]
    pub fn find(wanted: &[Peer], ground: &Ground<'_>) -> Self {
        let mut found = Self {
            zmq: None,
            missing: Vec::new(),
        };
        let mut programs: Vec<&'static str> = wanted.iter().map(|peer| peer.program()).collect();
        programs.dedup();
        for program in programs {
            if let Some(excluded) = ground.excludes(program) {
                found.missing.push((program, excluded));
                continue;
            }
            let reason = match program {
                "iperf3" => lacks(program, "--version", "iperf3", ground),
                "fi_pingpong" => lacks(program, "-h", "libfabric-bin", ground),
                "libzmq" => match zmq::build() {
                    Ok(built) => {
                        found.zmq = Some(built);
                        None
                    }
                    Err(error) => Some(format!("{error:#}")),
                },
                _ => None,
            };
            if let Some(reason) = reason {
                let what = program.to_owned();
                found.missing.push((program, Skipped { what, reason }));
            }
        }
        found
    }

    /// What cannot be run here, and why.
    pub fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.missing.iter().map(|missing| &missing.1)
    }

    /// Whether `peer` can be run.
    #[must_use]
    pub fn has(&self, peer: Peer) -> bool {
        !self
            .missing
            .iter()
            .any(|missing| missing.0 == peer.program())
    }

    /// Runs `peer` once.
    ///
    /// # Errors
    /// It fails, or does not get on, or the user wants it to end.
    pub fn measure(
        &self,
        peer: Peer,
        backend: &str,
        message_bytes: u32,
        duration: Duration,
        ground: &Ground<'_>,
    ) -> Result<Row> {
        let done = match (peer, &self.zmq) {
            (Peer::Iperf3, _) => iperf::measure(message_bytes, duration, ground),
            (Peer::Memcpy, _) => Ok(copy::measure(message_bytes, duration)),
            (Peer::FiPingpong, _) => pingpong::measure(backend, message_bytes, ground),
            (_, Some(built)) => {
                zmq::measure(built, peer.pattern(), message_bytes, duration, ground)
            }
            (_, None) => Err(anyhow!("libzmq is missing")),
        };
        ground.unless_stopped(done)
    }
}

/// Why `program` cannot be run on both sides, if it cannot.
fn lacks(program: &str, harmless: &str, package: &str, ground: &Ground<'_>) -> Option<String> {
    let reason = [Side::Sender, Side::Listener]
        .into_iter()
        .find_map(|side| {
            let mut command = Command::new(program);
            command.arg(harmless);
            match ground.output(command, side) {
                Err(error) => Some(error.to_string()),
                Ok(said) if said.status.code() == Some(NOT_FOUND) => {
                    Some("the peer has it not".into())
                }
                Ok(_) => None,
            }
        })?;
    Some(format!(
        "{program} cannot be run ({reason}); it comes with the Debian package {package}"
    ))
}

/// A directory that is removed when dropped.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn make(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("forebay-{name}-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is small and lies where the system cleans up.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
