//! Opens what an end point consists of.

use std::ptr;

use super::super::abi::*;
use super::super::info::Info;
use super::super::objects::{Domain, FromCode, Handle, call};
use crate::error::FabricError;

pub(super) fn open_ep(domain: &Domain, info: &Info) -> Result<Handle<FidEp>, FabricError> {
    let mut raw = ptr::null_mut();
    let of = domain.handle.raw();
    // SAFETY: domain and entry are valid; the call copies what it needs.
    let code = unsafe {
        call!(
            (*of).ops,
            FiOpsDomain.endpoint(of, info.raw.as_ptr(), &raw mut raw, ptr::null_mut())
        )
    };
    domain.library().check("fi_endpoint", code)?;
    // SAFETY: just made.
    unsafe { Handle::own(domain.library(), "fi_endpoint", raw) }
}

/// Opens a queue with a descriptor, or without one where the provider has none.
pub(super) fn open_cq(domain: &Domain, size: usize) -> Result<Handle<FidCq>, FabricError> {
    let open = |wait_obj| {
        // SAFETY: numbers and pointers, for which zero is a value and the default.
        let mut attributes: FiCqAttr = unsafe { std::mem::zeroed() };
        attributes.size = size;
        attributes.format = FI_CQ_FORMAT_MSG;
        attributes.wait_obj = wait_obj;
        let mut raw = ptr::null_mut();
        let of = domain.handle.raw();
        // SAFETY: the domain is open, the attributes are read by the call only.
        let code = unsafe {
            call!(
                (*of).ops,
                FiOpsDomain.cq_open(of, &raw mut attributes, &raw mut raw, ptr::null_mut())
            )
        };
        domain.library().check("fi_cq_open", code)?;
        // SAFETY: just made.
        unsafe { Handle::own(domain.library(), "fi_cq_open", raw) }
    };
    open(FI_WAIT_FD).or_else(|_| open(FI_WAIT_NONE))
}

/// Whether one can sleep on a queue of completions.
pub(crate) fn has_wait_fd(domain: &Domain) -> bool {
    open_cq(domain, 1).is_ok_and(|cq| cq.wait_fd().is_some())
}
