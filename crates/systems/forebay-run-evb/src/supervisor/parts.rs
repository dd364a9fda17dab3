//! What the supervisor makes for its stages, and hands to each of their lives.

use std::os::fd::{AsFd, OwnedFd};

use forebay_run::error::RunError;
use forebay_sys::socket::{UdpOptions, bind_udp};

use super::Supervisor;
use crate::plan::Plan;
use crate::stages::Role;

impl Supervisor {
    /// Fresh descriptors of everything the role needs.
    pub(super) fn parts(&self, role: Role) -> Result<Vec<Vec<OwnedFd>>, RunError> {
        let mut parts = vec![vec![duplicate(&self.ledger)?]];
        match role {
            Role::Generator => {}
            Role::Receiver => {
                parts.push(self.rings.producer_fds()?);
                parts.push(vec![duplicate(&self.arena)?]);
                parts.push(
                    self.sockets
                        .iter()
                        .map(duplicate)
                        .collect::<Result<_, _>>()?,
                );
            }
            Role::Builder => {
                parts.push(self.rings.consumer_fds()?);
                for sink in &self.sinks {
                    parts.push(sink.producer_fds()?);
                    parts.push(sink.consumer_fds()?);
                }
            }
        }
        Ok(parts)
    }
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, RunError> {
    fd.as_fd()
        .try_clone_to_owned()
        .map_err(RunError::file("duplicating", "a descriptor"))
}

/// Binds every port of the plan and writes the real ones back.
pub(super) fn bind(plan: &mut Plan, warnings: &mut Vec<String>) -> Result<Vec<OwnedFd>, RunError> {
    let options = UdpOptions {
        receive_buffer_bytes: Some(plan.receiver.socket_buffer_bytes),
        stamps: plan.receiver.stamps,
        gro: plan.receiver.gro,
        ..UdpOptions::default()
    };
    let mut sockets = Vec::new();
    let mut shortfall = None;
    for address in &mut plan.ports {
        let bound = bind_udp(*address, &options)?;
        *address = bound.address;
        shortfall = shortfall.or(bound.shortfall);
        sockets.push(bound.fd);
    }
    if plan.receiver.gro {
        warnings.push("UDP GRO is on: the kernel counts merged datagrams that it drops as one, so its drops are a lower bound".into());
    }
    if let Some(shortfall) = shortfall {
        warnings.push(shortfall.to_string());
    }
    Ok(sockets)
}
