//! Structures of libfabric's interface, as far as they are used, in the layout of its version 1.17 (symbols `FABRIC_1.3`).
//!
//! Written from the manual pages and `<rdma/*.h>`; `layout.rs` compares sizes and offsets with the header of the host.

use std::ffi::{c_char, c_int, c_void};

/// A place in a table of functions that is not called.
pub(crate) type Unused = Option<unsafe extern "C" fn()>;

pub(crate) const FI_MSG: u64 = 1 << 1;
pub(crate) const FI_RECV: u64 = 1 << 10;
pub(crate) const FI_TRANSMIT: u64 = 1 << 11;
pub(crate) const FI_SOURCE: u64 = 1 << 57;
pub(crate) const FI_DELIVERY_COMPLETE: u64 = 1 << 28;

pub(crate) const FI_CONTEXT: u64 = 1 << 59;
pub(crate) const FI_CONTEXT2: u64 = 1 << 52;

pub(crate) const FI_MR_LOCAL: c_int = 1 << 2;
pub(crate) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(crate) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const FI_MR_PROV_KEY: c_int = 1 << 6;

pub(crate) const FI_THREAD_SAFE: c_int = 1;
pub(crate) const FI_PROGRESS_AUTO: c_int = 1;

pub(crate) const FI_EP_MSG: c_int = 1;
pub(crate) const FI_EP_DGRAM: c_int = 2;
pub(crate) const FI_EP_RDM: c_int = 3;

pub(crate) const FI_ADDR_UNSPEC: u64 = u64::MAX;

pub(crate) const FI_GETWAIT: c_int = 5;
pub(crate) const FI_ENABLE: c_int = 6;

pub(crate) const FI_WAIT_NONE: c_int = 0;
pub(crate) const FI_WAIT_FD: c_int = 3;
pub(crate) const FI_CQ_FORMAT_MSG: c_int = 2;

pub(crate) const FI_CONNREQ: u32 = 1;
pub(crate) const FI_CONNECTED: u32 = 2;
pub(crate) const FI_SHUTDOWN: u32 = 3;

pub(crate) const FI_EAVAIL: i32 = 259;
pub(crate) const FI_ETRUNC: i32 = 265;

#[repr(C)]
pub(crate) struct FiTxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
    pub(crate) rma_iov_limit: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct FiRxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) total_buffered_recv: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
}

#[repr(C)]
pub(crate) struct FiEpAttr {
    pub(crate) kind: c_int,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) msg_prefix_size: usize,
    pub(crate) max_order_raw_size: usize,
    pub(crate) max_order_war_size: usize,
    pub(crate) max_order_waw_size: usize,
    pub(crate) mem_tag_format: u64,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
}

#[repr(C)]
pub(crate) struct FiDomainAttr {
    pub(crate) domain: *mut FidDomain,
    pub(crate) name: *mut c_char,
    pub(crate) threading: c_int,
    pub(crate) control_progress: c_int,
    pub(crate) data_progress: c_int,
    pub(crate) resource_mgmt: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
    pub(crate) cq_data_size: usize,
    pub(crate) cq_cnt: usize,
    pub(crate) ep_cnt: usize,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) max_ep_tx_ctx: usize,
    pub(crate) max_ep_rx_ctx: usize,
    pub(crate) max_ep_stx_ctx: usize,
    pub(crate) max_ep_srx_ctx: usize,
    pub(crate) cntr_cnt: usize,
    pub(crate) mr_iov_limit: usize,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) auth_key: *mut u8,
    pub(crate) auth_key_size: usize,
    pub(crate) max_err_data: usize,
    pub(crate) mr_cnt: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct FiFabricAttr {
    pub(crate) fabric: *mut FidFabric,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct FiInfo {
    pub(crate) next: *mut FiInfo,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut Fid,
    pub(crate) tx_attr: *mut FiTxAttr,
    pub(crate) rx_attr: *mut FiRxAttr,
    pub(crate) ep_attr: *mut FiEpAttr,
    pub(crate) domain_attr: *mut FiDomainAttr,
    pub(crate) fabric_attr: *mut FiFabricAttr,
    pub(crate) nic: *mut c_void,
}

#[repr(C)]
pub(crate) struct FiEqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct FiCqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: c_int,
    pub(crate) wait_set: *mut c_void,
}

/// The head of an entry of the event queue about a connection; the peer's bytes follow it.
#[repr(C)]
pub(crate) struct FiEqCmEntry {
    pub(crate) fid: *mut Fid,
    pub(crate) info: *mut FiInfo,
}

#[repr(C)]
pub(crate) struct FiEqErrEntry {
    pub(crate) fid: *mut Fid,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FiCqMsgEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
}

#[repr(C)]
pub(crate) struct FiCqErrEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) olen: usize,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

/// What an operation needs while it is posted: the provider's own until then.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FiContext2 {
    pub(crate) internal: [*mut c_void; 8],
}

#[repr(C)]
pub(crate) struct Fid {
    pub(crate) fclass: usize,
    pub(crate) context: *mut c_void,
    pub(crate) ops: *const FiOps,
}

#[repr(C)]
pub(crate) struct FidFabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *const FiOpsFabric,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct FidDomain {
    pub(crate) fid: Fid,
    pub(crate) ops: *const FiOpsDomain,
    pub(crate) mr: *const FiOpsMr,
}

#[repr(C)]
pub(crate) struct FidEp {
    pub(crate) fid: Fid,
    pub(crate) ops: *const c_void,
    pub(crate) cm: *const FiOpsCm,
    pub(crate) msg: *const FiOpsMsg,
    pub(crate) rma: *const c_void,
    pub(crate) tagged: *const c_void,
    pub(crate) atomic: *const c_void,
    pub(crate) collective: *const c_void,
}

#[repr(C)]
pub(crate) struct FidPep {
    pub(crate) fid: Fid,
    pub(crate) ops: *const c_void,
    pub(crate) cm: *const FiOpsCm,
}

#[repr(C)]
pub(crate) struct FidEq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const FiOpsEq,
}

#[repr(C)]
pub(crate) struct FidCq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const FiOpsCq,
}

#[repr(C)]
pub(crate) struct FidMr {
    pub(crate) fid: Fid,
    pub(crate) mem_desc: *mut c_void,
    pub(crate) key: u64,
}

type FidP = *mut Fid;

#[repr(C)]
pub(crate) struct FiOps {
    pub(crate) size: usize,
    pub(crate) close: Option<unsafe extern "C" fn(FidP) -> c_int>,
    pub(crate) bind: Option<unsafe extern "C" fn(FidP, FidP, u64) -> c_int>,
    pub(crate) control: Option<unsafe extern "C" fn(FidP, c_int, *mut c_void) -> c_int>,
}

type New<A, T> = Option<unsafe extern "C" fn(A, *mut FiInfo, *mut *mut T, *mut c_void) -> c_int>;
type NewBy<A, B, T> = Option<unsafe extern "C" fn(A, *mut B, *mut *mut T, *mut c_void) -> c_int>;

#[repr(C)]
pub(crate) struct FiOpsFabric {
    pub(crate) size: usize,
    pub(crate) domain: New<*mut FidFabric, FidDomain>,
    pub(crate) passive_ep: New<*mut FidFabric, FidPep>,
    pub(crate) eq_open: NewBy<*mut FidFabric, FiEqAttr, FidEq>,
    pub(crate) wait_open: Unused,
    pub(crate) trywait: Option<unsafe extern "C" fn(*mut FidFabric, *mut FidP, c_int) -> c_int>,
}

#[repr(C)]
pub(crate) struct FiOpsDomain {
    pub(crate) size: usize,
    pub(crate) av_open: Unused,
    pub(crate) cq_open: NewBy<*mut FidDomain, FiCqAttr, FidCq>,
    pub(crate) endpoint: New<*mut FidDomain, FidEp>,
}

#[repr(C)]
pub(crate) struct FiOpsMr {
    pub(crate) size: usize,
    pub(crate) reg: Option<
        unsafe extern "C" fn(
            FidP,
            *const c_void,
            usize,
            u64,
            u64,
            u64,
            u64,
            *mut *mut FidMr,
            *mut c_void,
        ) -> c_int,
    >,
}

#[repr(C)]
pub(crate) struct FiOpsCm {
    pub(crate) size: usize,
    pub(crate) setname: Unused,
    pub(crate) getname: Option<unsafe extern "C" fn(FidP, *mut c_void, *mut usize) -> c_int>,
    pub(crate) getpeer: Unused,
    pub(crate) connect:
        Option<unsafe extern "C" fn(*mut FidEp, *const c_void, *const c_void, usize) -> c_int>,
    pub(crate) listen: Option<unsafe extern "C" fn(*mut FidPep) -> c_int>,
    pub(crate) accept: Option<unsafe extern "C" fn(*mut FidEp, *const c_void, usize) -> c_int>,
    pub(crate) reject:
        Option<unsafe extern "C" fn(*mut FidPep, FidP, *const c_void, usize) -> c_int>,
    pub(crate) shutdown: Option<unsafe extern "C" fn(*mut FidEp, u64) -> c_int>,
}

#[repr(C)]
pub(crate) struct FiOpsMsg {
    pub(crate) size: usize,
    pub(crate) recv: Option<
        unsafe extern "C" fn(
            *mut FidEp,
            *mut c_void,
            usize,
            *mut c_void,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub(crate) recvv: Unused,
    pub(crate) recvmsg: Unused,
    pub(crate) send: Option<
        unsafe extern "C" fn(
            *mut FidEp,
            *const c_void,
            usize,
            *mut c_void,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub(crate) sendv: Option<
        unsafe extern "C" fn(
            *mut FidEp,
            *const libc::iovec,
            *mut *mut c_void,
            usize,
            u64,
            *mut c_void,
        ) -> isize,
    >,
}

#[repr(C)]
pub(crate) struct FiOpsEq {
    pub(crate) size: usize,
    pub(crate) read:
        Option<unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, u64) -> isize>,
    pub(crate) readerr: Option<unsafe extern "C" fn(*mut FidEq, *mut FiEqErrEntry, u64) -> isize>,
}

#[repr(C)]
pub(crate) struct FiOpsCq {
    pub(crate) size: usize,
    pub(crate) read: Option<unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize>,
    pub(crate) readfrom: Unused,
    pub(crate) readerr: Option<unsafe extern "C" fn(*mut FidCq, *mut FiCqErrEntry, u64) -> isize>,
}
