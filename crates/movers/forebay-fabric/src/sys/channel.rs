//! An end point with its queues and its pages.

mod open;
mod post;

use std::mem::forget;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::Arc;

use super::abi::*;
use super::contexts::{Contexts, Posted};
use super::events::Event;
use super::info::Info;
use super::library::Library;
use super::memory::{Arena, Page};
use super::objects::{Domain, EventQueue, FromCode, Handle, call};
use crate::error::{FabricError, Fault};
pub(crate) use open::has_wait_fd;
use open::{open_cq, open_ep};

/// Completions that are read with one call.
const BATCH: usize = 16;
/// Loose contexts beside those of regions: the end of this side.
const ENDS: usize = 1;

/// How much memory an end point has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) page_bytes: usize,
    pub(crate) receive_pages: usize,
    pub(crate) send_pages: usize,
    pub(crate) region_sends: usize,
}

/// What became of an operation.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) what: Posted,
    /// Bytes received, or why it failed.
    pub(crate) result: Result<usize, Fault>,
}

/// What is posted was not taken: the pages come back.
pub(crate) struct Refused<T> {
    pub(crate) back: T,
    /// Negative number of libfabric's; `-EAGAIN` when there is no room.
    pub(crate) code: i64,
}

/// The pages, registered, and what is posted with them.
struct Store {
    receive: Arena,
    send: Arena,
    contexts: Contexts,
}

/// An end point, its queues and its pages. Closed in the order of the fields: end point, queues, registrations, memory, and then the domain.
pub(crate) struct Channel {
    ep: Option<Handle<FidEp>>,
    cq: Handle<FidCq>,
    cq_fd: Option<RawFd>,
    events: EventQueue,
    store: Option<Store>,
    receive_pages: usize,
    pub(crate) domain: Arc<Domain>,
}

/// A channel just opened, and the rights to its pages.
pub(crate) struct Opened {
    pub(crate) channel: Channel,
    pub(crate) receive_pages: Vec<Page>,
    pub(crate) send_pages: Vec<Page>,
}

impl Channel {
    /// Opens an end point that is not connected yet.
    pub(crate) fn open(
        domain: &Arc<Domain>,
        info: &Info,
        room: Room,
    ) -> Result<Opened, FabricError> {
        let (receive, receive_pages) =
            Arena::new(domain, room.page_bytes, room.receive_pages, true)?;
        let (send, send_pages) = Arena::new(domain, room.page_bytes, room.send_pages, false)?;
        let tied = room.receive_pages + room.send_pages;
        let contexts = Contexts::new(tied, room.region_sends + ENDS);
        let events = EventQueue::open(&domain.fabric)?;
        let cq = open_cq(domain, tied + room.region_sends + ENDS)?;
        let ep = open_ep(domain, info)?;
        let channel = Self {
            ep: Some(ep),
            cq_fd: cq.wait_fd(),
            cq,
            events,
            store: Some(Store {
                receive,
                send,
                contexts,
            }),
            receive_pages: room.receive_pages,
            domain: Arc::clone(domain),
        };
        channel.enable()?;
        Ok(Opened {
            channel,
            receive_pages,
            send_pages,
        })
    }

    fn enable(&self) -> Result<(), FabricError> {
        let (library, ep) = (self.library(), self.ep());
        library.check("fi_ep_bind", ep.bind(self.events.handle.fid(), 0))?;
        let both_ways = FI_TRANSMIT | FI_RECV;
        library.check("fi_ep_bind", ep.bind(self.cq.fid(), both_ways))?;
        library.check("fi_enable", ep.control(FI_ENABLE, ptr::null_mut()))
    }

    fn library(&self) -> &Arc<Library> {
        &self.domain.fabric.library
    }

    #[expect(clippy::expect_used, reason = "taken out in `drop` alone")]
    fn ep(&self) -> &Handle<FidEp> {
        let ep = self.ep.as_ref();
        ep.expect("the end point is open until dropped")
    }

    #[expect(clippy::expect_used, reason = "taken out in `drop` alone")]
    fn store(&mut self) -> &mut Store {
        let store = self.store.as_mut();
        store.expect("the pages are there until dropped")
    }

    /// Begins to connect to where the entry points, and says `data` to the listener.
    pub(crate) fn connect(&mut self, info: &Info, data: &[u8]) -> Result<(), FabricError> {
        let ep = self.ep().raw();
        // SAFETY: the end point is open, the entry valid; address and data are copied by the call.
        let code = unsafe {
            let address = info.raw.as_ref().dest_addr;
            call!(
                (*ep).cm,
                FiOpsCm.connect(ep, address, data.as_ptr().cast(), data.len())
            )
        };
        self.library().check("fi_connect", code)
    }

    /// Takes the request in that this was opened for, and says `data` to the peer that has come.
    pub(crate) fn accept(&mut self, data: &[u8]) -> Result<(), FabricError> {
        let ep = self.ep().raw();
        // SAFETY: the end point is open; the data are copied by the call.
        let code = unsafe {
            call!(
                (*ep).cm,
                FiOpsCm.accept(ep, data.as_ptr().cast(), data.len())
            )
        };
        self.library().check("fi_accept", code)
    }

    /// Ends the connection, both ways.
    pub(crate) fn shut_down(&mut self) {
        let ep = self.ep().raw();
        // SAFETY: the end point is open.
        unsafe {
            call!((*ep).cm, FiOpsCm.shutdown(ep, 0));
        }
    }

    /// A receive page's bytes.
    pub(crate) fn received<'a>(&'a self, page: &'a Page) -> &'a [u8] {
        let store = self.store.as_ref();
        store.map_or(&[], |store| store.receive.bytes(page))
    }

    /// A send page's bytes, to be written.
    pub(crate) fn page_to_send<'a>(&'a mut self, page: &'a mut Page) -> &'a mut [u8] {
        self.store().send.bytes_mut(page)
    }

    /// Reads what is complete, also as far as the provider only gets on when asked; says how much it was.
    pub(crate) fn poll(&mut self, mut found: impl FnMut(Completion)) -> Result<usize, FabricError> {
        let cq = self.cq.raw();
        let empty = FiCqMsgEntry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
        };
        let mut count = 0;
        // Bounded by what can be posted at all.
        loop {
            let mut entries = [empty; BATCH];
            // SAFETY: the queue is open and of the format of these entries, of which there are as many as said.
            let read = unsafe {
                call!(
                    (*cq).ops,
                    FiOpsCq.read(cq, entries.as_mut_ptr().cast(), BATCH)
                )
            };
            if read == -i64::from(FI_EAVAIL) {
                count += 1;
                match self.poll_error()? {
                    Some(completion) => found(completion),
                    None => return Ok(count),
                }
                continue;
            }
            if read == -i64::from(libc::EAGAIN) || read == 0 {
                return Ok(count);
            }
            self.library().check("fi_cq_read", read)?;
            let read = usize::try_from(read).unwrap_or_default().min(BATCH);
            count += read;
            for entry in &entries[..read] {
                if let Some(what) = self.store().contexts.complete(entry.op_context) {
                    let result = Ok(entry.len);
                    found(Completion { what, result });
                }
            }
            if read < BATCH {
                return Ok(count);
            }
        }
    }

    fn poll_error(&mut self) -> Result<Option<Completion>, FabricError> {
        // SAFETY: numbers and pointers, for which zero is a value; with no room for the provider's own data (size 0).
        let mut entry: FiCqErrEntry = unsafe { std::mem::zeroed() };
        let cq = self.cq.raw();
        // SAFETY: the queue is open, the call fills the entry.
        let read = unsafe { call!((*cq).ops, FiOpsCq.readerr(cq, &raw mut entry, 0)) };
        if read == -i64::from(libc::EAGAIN) {
            return Ok(None);
        }
        self.library().check("fi_cq_readerr", read)?;
        let fault = self.library().fault(entry.err);
        let what = self.store().contexts.complete(entry.op_context);
        Ok(what.map(|what| Completion {
            what,
            result: Err(fault),
        }))
    }

    /// The next event of the connection, if there is one.
    pub(crate) fn next_event(&mut self) -> Result<Option<Event>, FabricError> {
        self.events.read()
    }

    /// Whether one may sleep on the descriptors: false, look again.
    pub(crate) fn may_sleep(&self) -> bool {
        let mut fids = [self.cq.fid(), self.events.handle.fid()];
        self.domain.fabric.may_sleep(&mut fids)
    }

    /// Readable when something is complete; `None`: look again and again.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the queue, which the result borrows.
        self.cq_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Readable when something has happened to the connection.
    pub(crate) fn events_fd(&self) -> Option<BorrowedFd<'_>> {
        self.events.fd()
    }

    /// Sends that are posted and not complete.
    pub(crate) fn sends_under_way(&self) -> usize {
        let store = self.store.as_ref();
        store.map_or(0, |store| store.contexts.sends())
    }

    pub(crate) fn fault(&self, code: i64) -> Fault {
        self.library()
            .fault(i32::try_from(code).unwrap_or(libc::EOVERFLOW))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let closed = self.ep.take().is_none_or(Handle::close);
        if !closed {
            // The provider may still write there: better to lose the memory than to give it to somebody else.
            forget((self.store.take(), Arc::clone(&self.domain)));
        }
    }
}
