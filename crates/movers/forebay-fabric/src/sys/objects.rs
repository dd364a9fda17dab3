//! The library's objects, each closed once and before what it rests on.

use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::abi::*;
use super::events::{Event, read_event};
use super::info::{ADDRESS_BYTES_MAX, Info, address_text};
use super::library::Library;
use crate::error::FabricError;

/// Events that a queue keeps at the least.
const EVENTS: usize = 256;

/// Calls a function of an object's table, or says that the provider has none.
macro_rules! call {
    ($table:expr, $kind:ident . $function:ident ( $($argument:expr),* $(,)? )) => {{
        // The caller's `SAFETY` comment holds for this, too: the table is the live object's own.
        let table: *const $kind = $table;
        let function = if table.is_null()
            || (*table).size <= std::mem::offset_of!($kind, $function)
        {
            None
        } else {
            (*table).$function
        };
        match function {
            Some(function) => i64::from_code(function($($argument),*)),
            None => -i64::from(libc::ENOSYS),
        }
    }};
}
pub(super) use call;

/// A result as one type, whichever the function has.
pub(super) trait FromCode<T> {
    fn from_code(code: T) -> i64;
}

impl FromCode<c_int> for i64 {
    fn from_code(code: c_int) -> Self {
        code.into()
    }
}

impl FromCode<isize> for i64 {
    fn from_code(code: isize) -> Self {
        code as Self
    }
}

/// An object of the library's that begins with a `struct fid`; closed when dropped.
pub(super) struct Handle<T> {
    raw: NonNull<T>,
}

// SAFETY: the domains are opened with FI_THREAD_SAFE, so that any thread may call.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above; through a shared reference no memory of the object is changed from here.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// Takes over what the library has just made.
    ///
    /// # Safety
    /// `raw` is null or an open object, of a type that begins with `Fid`, that nobody else closes.
    pub(super) unsafe fn own(
        library: &Library,
        call: &'static str,
        raw: *mut T,
    ) -> Result<Self, FabricError> {
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { raw }),
            None => Err(library.failed(call, libc::ENOMEM.into())),
        }
    }

    pub(super) fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }

    pub(super) fn fid(&self) -> *mut Fid {
        self.raw.as_ptr().cast()
    }

    /// Closes it; false: the library refused, and goes on using what the object has.
    pub(super) fn close(self) -> bool {
        let closed = self.close_raw();
        std::mem::forget(self);
        closed
    }

    fn close_raw(&self) -> bool {
        let fid = self.fid();
        // SAFETY: the object is open until here, see `own`.
        let code = unsafe { call!((*fid).ops, FiOps.close(fid)) };
        code >= 0
    }

    pub(super) fn control(&self, command: c_int, argument: *mut c_void) -> i64 {
        let fid = self.fid();
        // SAFETY: the object is open; the callers give each command the argument that it wants.
        unsafe { call!((*fid).ops, FiOps.control(fid, command, argument)) }
    }

    /// Its descriptor to wait for; `None` when it has none.
    pub(super) fn wait_fd(&self) -> Option<RawFd> {
        let mut fd: c_int = -1;
        let code = self.control(FI_GETWAIT, (&raw mut fd).cast());
        (code >= 0 && fd >= 0).then_some(fd)
    }

    pub(super) fn bind(&self, to: *mut Fid, flags: u64) -> i64 {
        let fid = self.fid();
        // SAFETY: both objects are open; the callers keep `to` open for longer.
        unsafe { call!((*fid).ops, FiOps.bind(fid, to, flags)) }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        self.close_raw();
    }
}

/// A provider's network.
pub(crate) struct Fabric {
    handle: Handle<FidFabric>,
    pub(super) library: Arc<Library>,
}

impl Fabric {
    pub(crate) fn open(info: &Info) -> Result<Arc<Self>, FabricError> {
        let library = &info.library;
        let mut raw = ptr::null_mut();
        // SAFETY: the entry is whole, and its attributes are copied by the call.
        let code = unsafe {
            let attributes = info.raw.as_ref().fabric_attr;
            (library.fabric)(attributes, &raw mut raw, ptr::null_mut())
        };
        library.check("fi_fabric", code)?;
        // SAFETY: just made.
        let handle = unsafe { Handle::own(library, "fi_fabric", raw) }?;
        Ok(Arc::new(Self {
            handle,
            library: Arc::clone(library),
        }))
    }

    /// Whether all of these may be slept on.
    pub(super) fn may_sleep(&self, fids: &mut [*mut Fid]) -> bool {
        let fabric = self.handle.raw();
        let count = c_int::try_from(fids.len()).unwrap_or_default();
        // SAFETY: the callers' objects are open, and belong to this fabric.
        let code = unsafe {
            call!(
                (*fabric).ops,
                FiOpsFabric.trywait(fabric, fids.as_mut_ptr(), count)
            )
        };
        code >= 0
    }
}

/// What shares memory registrations; keeps the fabric open.
pub(crate) struct Domain {
    pub(super) handle: Handle<FidDomain>,
    pub(crate) name: String,
    pub(super) mr_mode: c_int,
    /// Parts of memory that one send may have.
    pub(super) send_parts: usize,
    next_key: AtomicU64,
    pub(super) fabric: Arc<Fabric>,
}

impl Domain {
    pub(crate) fn open(fabric: &Arc<Fabric>, info: &Info) -> Result<Arc<Self>, FabricError> {
        let mut raw = ptr::null_mut();
        let of = fabric.handle.raw();
        // SAFETY: fabric and entry are valid; the call copies what it needs.
        let code = unsafe {
            call!(
                (*of).ops,
                FiOpsFabric.domain(of, info.raw.as_ptr(), &raw mut raw, ptr::null_mut())
            )
        };
        fabric.library.check("fi_domain", code)?;
        // SAFETY: just made.
        let handle = unsafe { Handle::own(&fabric.library, "fi_domain", raw) }?;
        Ok(Arc::new(Self {
            handle,
            name: info.first().domain(),
            mr_mode: info.first().mr_mode(),
            send_parts: info.first().send_parts(),
            next_key: AtomicU64::new(1),
            fabric: Arc::clone(fabric),
        }))
    }

    pub(super) fn library(&self) -> &Arc<Library> {
        &self.fabric.library
    }

    /// Makes memory known to the provider, for messages only: no peer may read or write it by itself.
    ///
    /// # Safety
    /// The memory stays where it is until the registration is closed.
    pub(super) unsafe fn register(
        &self,
        start: *const u8,
        len: usize,
        access: u64,
    ) -> Result<Handle<FidMr>, FabricError> {
        let mut raw = ptr::null_mut();
        let domain = self.handle.raw();
        // Providers without keys of their own want a different one each time.
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the domain is open; the memory is the caller's promise.
        let code = unsafe {
            call!(
                (*domain).mr,
                FiOpsMr.reg(
                    domain.cast(),
                    start.cast(),
                    len,
                    access,
                    0,
                    key,
                    0,
                    &raw mut raw,
                    ptr::null_mut()
                )
            )
        };
        self.library().check("fi_mr_reg", code)?;
        // SAFETY: just made.
        unsafe { Handle::own(self.library(), "fi_mr_reg", raw) }
    }
}

/// Where events about connections come in.
pub(crate) struct EventQueue {
    pub(super) handle: Handle<FidEq>,
    fd: Option<RawFd>,
    library: Arc<Library>,
}

impl EventQueue {
    pub(crate) fn open(fabric: &Fabric) -> Result<Self, FabricError> {
        let mut attributes = FiEqAttr {
            size: EVENTS,
            flags: 0,
            wait_obj: FI_WAIT_FD,
            signaling_vector: 0,
            wait_set: ptr::null_mut(),
        };
        let mut raw = ptr::null_mut();
        let of = fabric.handle.raw();
        // SAFETY: the fabric is open, the attributes are read by the call only.
        let code = unsafe {
            call!(
                (*of).ops,
                FiOpsFabric.eq_open(of, &raw mut attributes, &raw mut raw, ptr::null_mut())
            )
        };
        fabric.library.check("fi_eq_open", code)?;
        // SAFETY: just made.
        let handle = unsafe { Handle::own(&fabric.library, "fi_eq_open", raw) }?;
        Ok(Self {
            fd: handle.wait_fd(),
            handle,
            library: Arc::clone(&fabric.library),
        })
    }

    /// The next event, if there is one.
    pub(crate) fn read(&mut self) -> Result<Option<Event>, FabricError> {
        read_event(&self.handle, &self.library)
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the queue, which the result borrows.
        self.fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

/// A place that listens.
pub(crate) struct PassiveEndpoint {
    handle: Handle<FidPep>,
    /// Closed after the end point.
    pub(crate) events: EventQueue,
    fabric: Arc<Fabric>,
}

impl PassiveEndpoint {
    /// Opens one and listens.
    pub(crate) fn listen(fabric: &Arc<Fabric>, info: &Info) -> Result<Self, FabricError> {
        let library = &fabric.library;
        let events = EventQueue::open(fabric)?;
        let mut raw = ptr::null_mut();
        let of = fabric.handle.raw();
        // SAFETY: fabric and entry are valid; the call copies what it needs.
        let code = unsafe {
            call!(
                (*of).ops,
                FiOpsFabric.passive_ep(of, info.raw.as_ptr(), &raw mut raw, ptr::null_mut())
            )
        };
        library.check("fi_passive_ep", code)?;
        // SAFETY: just made.
        let handle: Handle<FidPep> = unsafe { Handle::own(library, "fi_passive_ep", raw) }?;
        library.check("fi_pep_bind", handle.bind(events.handle.fid(), 0))?;
        let pep = handle.raw();
        // SAFETY: the end point is open.
        let code = unsafe { call!((*pep).cm, FiOpsCm.listen(pep)) };
        library.check("fi_listen", code)?;
        Ok(Self {
            handle,
            events,
            fabric: Arc::clone(fabric),
        })
    }

    /// Whether one may sleep until an event comes; takes back the sign of those that were read.
    pub(crate) fn may_sleep(&self) -> bool {
        self.fabric.may_sleep(&mut [self.events.handle.fid()])
    }

    /// Where it listens, for people.
    pub(crate) fn address(&self) -> Result<String, FabricError> {
        let pep = self.handle.raw();
        // SAFETY: the end point is open.
        let cm = unsafe { (*pep).cm };
        let bytes = name(&self.fabric.library, self.handle.fid(), cm)?;
        Ok(address_text(&bytes))
    }

    /// Turns a request down.
    pub(crate) fn reject(&mut self, request: &Info) {
        let pep = self.handle.raw();
        // SAFETY: the end point is open, and the request came in here and has not been accepted.
        unsafe {
            let request = request.raw.as_ref().handle;
            call!((*pep).cm, FiOpsCm.reject(pep, request, ptr::null(), 0));
        }
    }
}

/// The address that an object has.
pub(super) fn name(
    library: &Library,
    fid: *mut Fid,
    cm: *const FiOpsCm,
) -> Result<Vec<u8>, FabricError> {
    let mut bytes = vec![0_u8; ADDRESS_BYTES_MAX];
    let mut len = bytes.len();
    // SAFETY: the callers' object is open and `cm` its table; the call writes `len` bytes at most.
    let code = unsafe {
        call!(
            cm,
            FiOpsCm.getname(fid, bytes.as_mut_ptr().cast(), &raw mut len)
        )
    };
    library.check("fi_getname", code)?;
    bytes.truncate(len);
    Ok(bytes)
}
