//! Memory that the provider reads and writes while something is posted.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::abi::{FI_RECV, FI_TRANSMIT, FidMr};
use super::objects::{Domain, Handle};
use crate::error::FabricError;

/// Pages begin at multiples of this: of a page of the host, when they are longer than half of one.
const ALIGN: usize = 4096;
const LINE: usize = 64;

/// Bytes that are registered now, of all connections of this process.
static REGISTERED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of memory that this process has registered now, with all providers: pages of connections, and regions. Whether a provider pins them is its
/// own affair.
#[must_use]
pub fn registered_bytes() -> u64 {
    REGISTERED_BYTES.load(Ordering::Relaxed)
}

/// Memory that is registered, counted as long as it is.
pub(super) struct Registration {
    handle: Handle<FidMr>,
    bytes: u64,
}

impl Registration {
    /// Registers memory.
    ///
    /// # Safety
    /// The memory stays where it is until the registration is closed.
    pub(super) unsafe fn new(
        domain: &Domain,
        start: *const u8,
        len: usize,
        access: u64,
    ) -> Result<Self, FabricError> {
        // SAFETY: the caller's promise.
        let handle = unsafe { domain.register(start, len, access) }?;
        let bytes = len as u64;
        REGISTERED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        Ok(Self { handle, bytes })
    }

    /// Whether it is closed; what is not stays registered.
    pub(super) fn close(self) -> bool {
        let closed = self.handle.close();
        if closed {
            REGISTERED_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        closed
    }
}

/// The right to one page: the code that has it may touch the page, and the provider may not. There is one for each page.
#[derive(Debug)]
pub(crate) struct Page {
    arena: u64,
    index: usize,
}

impl Page {
    pub(super) fn index(&self) -> usize {
        self.index
    }
}

/// Registered pages of one length. Freed after the registration is closed, or never.
pub(super) struct Arena {
    id: u64,
    start: NonNull<u8>,
    layout: Layout,
    stride: usize,
    page_bytes: usize,
    registration: Option<Registration>,
}

// SAFETY: plain memory; which thread may touch which page is said by `Page`, of which there is one each.
unsafe impl Send for Arena {}

impl Arena {
    /// Pages for receiving, or for sending.
    pub(super) fn new(
        domain: &Domain,
        page_bytes: usize,
        pages: usize,
        receives: bool,
    ) -> Result<(Self, Vec<Page>), FabricError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let no_memory = || {
            domain
                .library()
                .failed("memory for pages", libc::ENOMEM.into())
        };
        let align = if page_bytes > ALIGN / 2 { ALIGN } else { LINE };
        let stride = page_bytes.next_multiple_of(align);
        let bytes = stride.checked_mul(pages).filter(|&bytes| bytes > 0);
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, ALIGN).ok());
        let layout = layout.ok_or_else(no_memory)?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?;
        let mut arena = Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            start,
            layout,
            stride,
            page_bytes,
            registration: None,
        };
        let access = if receives { FI_RECV } else { FI_TRANSMIT };
        // SAFETY: the memory is freed after the registration is closed, see `drop`.
        let registration =
            unsafe { Registration::new(domain, start.as_ptr(), layout.size(), access) }?;
        arena.registration = Some(registration);
        let pages = (0..pages).map(|index| Page {
            arena: arena.id,
            index,
        });
        let pages = pages.collect();
        Ok((arena, pages))
    }

    /// Where a page begins, and what the provider calls its memory.
    pub(super) fn place(&self, page: &Page) -> (*mut u8, *mut std::ffi::c_void) {
        assert_eq!(page.arena, self.id, "a page of another connection");
        let at = page.index * self.stride;
        assert!(
            at + self.page_bytes <= self.layout.size(),
            "a page behind the memory"
        );
        // SAFETY: within the allocation, as just checked.
        let start = unsafe { self.start.as_ptr().add(at) };
        (start, description(self.registration.as_ref()))
    }

    /// A page's bytes.
    pub(super) fn bytes<'a>(&'a self, page: &'a Page) -> &'a [u8] {
        let (start, _) = self.place(page);
        // SAFETY: the page lies in the allocation, was zeroed, and nobody writes to it while its `Page` is borrowed: the provider has none.
        unsafe { std::slice::from_raw_parts(start, self.page_bytes) }
    }

    /// A page's bytes, to be written.
    pub(super) fn bytes_mut<'a>(&'a mut self, page: &'a mut Page) -> &'a mut [u8] {
        let (start, _) = self.place(page);
        // SAFETY: as above, and the only `Page` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(start, self.page_bytes) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let closed = self.registration.take().is_none_or(Registration::close);
        if closed {
            // SAFETY: allocated with this layout, and the provider does not know it any more.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

/// What the provider calls registered memory.
pub(super) fn description(registration: Option<&Registration>) -> *mut std::ffi::c_void {
    // SAFETY: the registration is open.
    registration.map_or(std::ptr::null_mut(), |mr| unsafe {
        (*mr.handle.raw()).mem_desc
    })
}

/// A caller's memory, registered as a whole.
struct Shared {
    registration: Option<Registration>,
    memory: NonNull<[u8]>,
    domain: Arc<Domain>,
}

// SAFETY: plain memory, of which each `Region` has a part of its own.
unsafe impl Send for Shared {}
// SAFETY: as above: through a shared reference it is only read.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        let closed = self.registration.take().is_none_or(Registration::close);
        if closed {
            // SAFETY: it came from a box, and neither a region nor the provider has it any more.
            drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
        }
    }
}

/// A part of a caller's memory that the provider can send from without a copy. It is written through a unique reference, so not while something of
/// it is posted: a send holds it.
pub struct Region {
    shared: Arc<Shared>,
    range: Range<usize>,
}

impl Region {
    pub(crate) fn register(domain: &Arc<Domain>, memory: Box<[u8]>) -> Result<Self, FabricError> {
        let range = 0..memory.len();
        let memory = NonNull::from(Box::leak(memory));
        let mut shared = Shared {
            registration: None,
            memory,
            domain: Arc::clone(domain),
        };
        if !range.is_empty() {
            let start = memory.as_ptr().cast::<u8>();
            // SAFETY: the box's memory does not move, and is freed after the registration is closed, see `drop`.
            let registration =
                unsafe { Registration::new(domain, start, range.len(), FI_TRANSMIT) }?;
            shared.registration = Some(registration);
        }
        Ok(Self {
            shared: Arc::new(shared),
            range,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies in the memory and is this region's alone; it is written through a unique reference only.
        unsafe { std::slice::from_raw_parts(self.start(), self.range.len()) }
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the reference to it is unique: no send holds it.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.range.len()) }
    }

    /// Takes all from `at` on away as a region of its own; `at` beyond the end takes nothing.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        let middle = self.range.start + at.min(self.range.len());
        let behind = middle..self.range.end;
        self.range.end = middle;
        Self {
            shared: Arc::clone(&self.shared),
            range: behind,
        }
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: within the memory, see `register` and `split_off`.
        unsafe {
            self.shared
                .memory
                .as_ptr()
                .cast::<u8>()
                .add(self.range.start)
        }
    }

    /// Where it begins, and what the provider of `domain` calls it: null when it is another one's.
    pub(super) fn place(&self, domain: &Arc<Domain>) -> (*mut u8, *mut std::ffi::c_void) {
        let known = self.is_of(domain).then_some(&self.shared.registration);
        (self.start(), description(known.and_then(Option::as_ref)))
    }

    pub(super) fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.shared.domain, domain)
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({} bytes)", self.range.len())
    }
}
