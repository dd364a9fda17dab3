//! What happened to connections.

use std::ffi::c_void;
use std::mem::{offset_of, size_of};
use std::sync::Arc;

use super::abi::*;
use super::info::Info;
use super::library::Library;
use super::objects::{FromCode, Handle, call};
use crate::error::{FabricError, Fault};

/// Room for an event and the peer's bytes, which are 256 at most with the providers of today.
const WORDS: usize = 128;

/// Something that happened to a connection.
pub(crate) enum Event {
    /// Somebody wants to connect, and says this.
    Request { info: Info, data: Vec<u8> },
    /// The connection is made; the peer says this.
    Connected { data: Vec<u8> },
    /// The peer has gone.
    Shutdown,
    /// Something failed.
    Failed(Fault),
    /// Something that does not matter here.
    Other,
}

pub(super) fn read_event(
    queue: &Handle<FidEq>,
    library: &Arc<Library>,
) -> Result<Option<Event>, FabricError> {
    let mut buffer = [0_u64; WORDS];
    let mut kind = 0;
    let eq = queue.raw();
    clear_errno();
    // SAFETY: the queue is open; the call writes into `kind` and the buffer's bytes only.
    let read = unsafe {
        call!(
            (*eq).ops,
            FiOpsEq.read(
                eq,
                &raw mut kind,
                buffer.as_mut_ptr().cast::<c_void>(),
                size_of_val(&buffer),
                0
            )
        )
    };
    if read == -i64::from(libc::EAGAIN) || read == 0 {
        return Ok(None);
    }
    if read == -i64::from(FI_EAVAIL) {
        return read_error(queue, library).map(Some);
    }
    library.check("fi_eq_read", read)?;
    let bytes = usize::try_from(read)
        .unwrap_or_default()
        .min(size_of_val(&buffer));
    Ok(Some(understand(kind, &buffer, bytes, library)))
}

fn understand(kind: u32, buffer: &[u64; WORDS], bytes: usize, library: &Arc<Library>) -> Event {
    let head = size_of::<FiEqCmEntry>();
    let data = || -> Vec<u8> {
        let all = buffer.iter().flat_map(|word| word.to_ne_bytes());
        all.take(bytes).skip(head).collect()
    };
    match kind {
        FI_CONNREQ if bytes >= head => {
            let info = buffer[offset_of!(FiEqCmEntry, info) / size_of::<u64>()];
            // An entry of the library's own, which is ours to free.
            match Info::own(library, info as usize as *mut FiInfo) {
                Some(info) => Event::Request { info, data: data() },
                None => Event::Other,
            }
        }
        FI_CONNECTED => Event::Connected { data: data() },
        FI_SHUTDOWN => Event::Shutdown,
        _ => Event::Other,
    }
}

fn read_error(queue: &Handle<FidEq>, library: &Arc<Library>) -> Result<Event, FabricError> {
    // SAFETY: numbers and pointers, for which zero is a value.
    let mut entry: FiEqErrEntry = unsafe { std::mem::zeroed() };
    let eq = queue.raw();
    // SAFETY: the queue is open; with no room for the provider's own data (size 0) the call fills the entry only.
    let read = unsafe { call!((*eq).ops, FiOpsEq.readerr(eq, &raw mut entry, 0)) };
    if read == -i64::from(libc::EAGAIN) {
        return Ok(Event::Other);
    }
    library.check("fi_eq_readerr", read)?;
    Ok(Event::Failed(library.fault(entry.err)))
}

/// Makes libfabric's tcp provider see what is: it looks at `errno` also after a short read, which does not set it, and would ask a connection that
/// has ended again and again when something before had left EAGAIN there.
fn clear_errno() {
    // SAFETY: the address is this thread's own.
    unsafe { *libc::__errno_location() = 0 }
}
