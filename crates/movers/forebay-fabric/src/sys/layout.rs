//! Sizes, offsets and numbers, compared with the header of this host by way of a small C program.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::mem::{offset_of, size_of};
use std::process::{Command, Stdio};

use super::abi::*;

/// What to print, as a C expression, and what it is here.
type Row = (String, u64);

macro_rules! field_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:ident) => {
        stringify!($name)
    };
}

/// `whole`: the size counts, too. `head`: the rest of the table is not used.
macro_rules! rows {
    ($($part:ident $kind:ident = $name:literal { $($field:ident $(= $other:ident)?),* $(,)? })*) => {{
        let mut rows: Vec<Row> = Vec::new();
        $(
            if stringify!($part) == "whole" {
                rows.push((concat!("sizeof(", $name, ")").into(), size_of::<$kind>() as u64));
            }
            $(
                let field = field_name!($field $($other)?);
                let expression = format!("offsetof({}, {field})", $name);
                rows.push((expression, offset_of!($kind, $field) as u64));
            )*
        )*
        rows
    }};
}

/// Constants, by their names.
macro_rules! names {
    ($($name:ident),* $(,)?) => {
        vec![$((stringify!($name).to_owned(), i128::from($name) as u64)),*]
    };
}

fn layout() -> Vec<Row> {
    rows! {
    whole FiTxAttr = "struct fi_tx_attr" { caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit, rma_iov_limit, tclass }
    whole FiRxAttr = "struct fi_rx_attr" { caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit }
    whole FiEpAttr = "struct fi_ep_attr" { kind = type, protocol, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt, auth_key_size, auth_key }
    whole FiDomainAttr = "struct fi_domain_attr" { domain, name, threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit, caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt, tclass }
    whole FiFabricAttr = "struct fi_fabric_attr" { fabric, name, prov_name, prov_version, api_version }
    whole FiInfo = "struct fi_info" { next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle, tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic }
    whole FiEqAttr = "struct fi_eq_attr" { size, flags, wait_obj, signaling_vector, wait_set }
    whole FiCqAttr = "struct fi_cq_attr" { size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set }
    whole FiEqCmEntry = "struct fi_eq_cm_entry" { fid, info }
    whole FiEqErrEntry = "struct fi_eq_err_entry" { fid, context, data, err, prov_errno, err_data, err_data_size }
    whole FiCqMsgEntry = "struct fi_cq_msg_entry" { op_context, flags, len }
    whole FiCqErrEntry = "struct fi_cq_err_entry" { op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size }
    whole FiContext2 = "struct fi_context2" { internal }
    whole Fid = "struct fid" { fclass, context, ops }
    whole FidFabric = "struct fid_fabric" { fid, ops, api_version }
    whole FidDomain = "struct fid_domain" { fid, ops, mr }
    whole FidEp = "struct fid_ep" { fid, ops, cm, msg, rma, tagged, atomic, collective }
    whole FidPep = "struct fid_pep" { fid, ops, cm }
    whole FidEq = "struct fid_eq" { fid, ops }
    whole FidCq = "struct fid_cq" { fid, ops }
    whole FidMr = "struct fid_mr" { fid, mem_desc, key }
    head FiOps = "struct fi_ops" { size, close, bind, control }
    head FiOpsFabric = "struct fi_ops_fabric" { size, domain, passive_ep, eq_open, wait_open, trywait }
    head FiOpsDomain = "struct fi_ops_domain" { size, av_open, cq_open, endpoint }
    head FiOpsMr = "struct fi_ops_mr" { size, reg }
    head FiOpsCm = "struct fi_ops_cm" { size, setname, getname, getpeer, connect, listen, accept, reject, shutdown }
    head FiOpsMsg = "struct fi_ops_msg" { size, recv, recvv, recvmsg, send, sendv }
    head FiOpsEq = "struct fi_ops_eq" { size, read, readerr }
    head FiOpsCq = "struct fi_ops_cq" { size, read, readfrom, readerr }
    }
}

fn numbers() -> Vec<Row> {
    names!(
        FI_MSG,
        FI_RECV,
        FI_TRANSMIT,
        FI_SOURCE,
        FI_DELIVERY_COMPLETE,
        FI_CONTEXT,
        FI_CONTEXT2,
        FI_MR_LOCAL,
        FI_MR_VIRT_ADDR,
        FI_MR_ALLOCATED,
        FI_MR_PROV_KEY,
        FI_THREAD_SAFE,
        FI_PROGRESS_AUTO,
        FI_EP_MSG,
        FI_EP_DGRAM,
        FI_EP_RDM,
        FI_ADDR_UNSPEC,
        FI_GETWAIT,
        FI_ENABLE,
        FI_WAIT_NONE,
        FI_WAIT_FD,
        FI_CQ_FORMAT_MSG,
        FI_CONNREQ,
        FI_CONNECTED,
        FI_SHUTDOWN,
        FI_EAVAIL,
        FI_ETRUNC
    )
}

fn program(rows: &[Row]) -> String {
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_cm.h>\n\
         #include <rdma/fi_domain.h>\n#include <rdma/fi_endpoint.h>\n#include <rdma/fi_eq.h>\n\
         #include <rdma/fi_errno.h>\nint main(void) {\n",
    );
    for (expression, _) in rows {
        let _ = writeln!(
            text,
            "printf(\"%llu\\n\", (unsigned long long)({expression}));"
        );
    }
    text + "return 0; }\n"
}

/// Compiles and runs; `None`, with a line that says why, when this host cannot.
fn of_this_host(rows: &[Row]) -> Option<Vec<u64>> {
    let place = std::env::temp_dir().join(format!("forebay-fabric-layout-{}", std::process::id()));
    let compiler = Command::new("cc")
        .args(["-x", "c", "-", "-o"])
        .arg(&place)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut compiler) = compiler else {
        forebay_testing::skip!("no C compiler (cc)");
        return None;
    };
    compiler
        .stdin
        .take()?
        .write_all(program(rows).as_bytes())
        .ok()?;
    let said = compiler.wait_with_output().ok()?;
    if !said.status.success() {
        let said = String::from_utf8_lossy(&said.stderr);
        assert!(
            said.contains("rdma/fabric.h: No such file"),
            "the program does not compile: {said}"
        );
        forebay_testing::skip!("no <rdma/fabric.h>; apt install libfabric-dev");
        return None;
    }
    let printed = Command::new(&place).output().ok();
    fs::remove_file(&place).ok();
    let printed = String::from_utf8(printed?.stdout).ok()?;
    Some(
        printed
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect(),
    )
}

#[test]
fn structures_are_those_of_the_header() {
    let rows: Vec<Row> = layout().into_iter().chain(numbers()).collect();
    let Some(printed) = of_this_host(&rows) else {
        return;
    };
    assert_eq!(printed.len(), rows.len());
    for ((expression, here), there) in rows.iter().zip(printed) {
        // An `int` that is negative in C was widened there.
        assert_eq!(*here, there, "{expression}");
    }
}
