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
use super::neighbours::neighbours;
use super::objects::{Domain, EventQueue, FromCode, Handle, call, name};
use super::stay::Stay;
use super::unix::UnixSocket;
use crate::error::{FabricError, Fault};
pub(crate) use open::has_wait_fd;
use open::{open_av, open_cq, open_ep};

/// Completions that are read with one call.
const BATCH: usize = 16;
/// Loose contexts beside those of regions: the end of this side.
const ENDS: usize = 1;
/// Names that are tried for an end point of the provider `shm`. It calls them by the process's number and counts them, and what a killed process has left
/// in `/dev/shm` keeps its names: they are taken when a later process gets the same number, as the provider then takes that for alive.
const NAMES: usize = 4096;

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

/// What is closed in this order: end point, queues, registrations, memory.
pub(super) struct Parts {
    ep: Option<Handle<FidEp>>,
    cq: Option<Handle<FidCq>>,
    events: Option<EventQueue>,
    av: Option<Handle<FidAv>>,
    store: Option<Store>,
    /// What the provider may hold up, where it shares memory with the peer.
    stay: Arc<Stay>,
    /// Closed after all of these.
    domain: Arc<Domain>,
}

/// An end point, its queues and its pages.
pub(crate) struct Channel {
    parts: Option<Parts>,
    cq_fd: Option<RawFd>,
    peer: u64,
    /// The own address, where the provider has no connections.
    address: Vec<u8>,
    receive_pages: usize,
    /// By whose end it shows that nobody reads this end's memory any more.
    reader: Option<UnixSocket>,
    pub(crate) domain: Arc<Domain>,
}

/// A channel just opened, and the rights to its pages.
pub(crate) struct Opened {
    pub(crate) channel: Channel,
    pub(crate) receive_pages: Vec<Page>,
    pub(crate) send_pages: Vec<Page>,
}

impl Channel {
    /// Opens an end point: with an event queue for connections, or with an address vector for one peer.
    pub(crate) fn open(
        domain: &Arc<Domain>,
        info: &Info,
        room: Room,
        connects: bool,
    ) -> Result<Opened, FabricError> {
        let (receive, receive_pages) =
            Arena::new(domain, room.page_bytes, room.receive_pages, true)?;
        let (send, send_pages) = Arena::new(domain, room.page_bytes, room.send_pages, false)?;
        let tied = room.receive_pages + room.send_pages;
        let contexts = Contexts::new(tied, room.region_sends + ENDS);
        let events = connects
            .then(|| EventQueue::open(&domain.fabric))
            .transpose()?;
        let av = (!connects).then(|| open_av(domain)).transpose()?;
        let cq = open_cq(domain, tied + room.region_sends + ENDS)?;
        let ep = open_ep(domain, info)?;
        let cq_fd = cq.wait_fd();
        let stay = if connects {
            Arc::default()
        } else {
            Stay::watched()
        };
        let parts = Parts {
            ep: Some(ep),
            cq: Some(cq),
            events,
            av,
            store: Some(Store {
                receive,
                send,
                contexts,
            }),
            stay,
            domain: Arc::clone(domain),
        };
        let mut channel = Self {
            parts: Some(parts),
            cq_fd,
            peer: FI_ADDR_UNSPEC,
            address: Vec::new(),
            receive_pages: room.receive_pages,
            reader: None,
            domain: Arc::clone(domain),
        };
        channel.enable_with_a_name(info)?;
        Ok(Opened {
            channel,
            receive_pages,
            send_pages,
        })
    }

    fn enable(&mut self) -> Result<(), FabricError> {
        let library = Arc::clone(self.library());
        let ep = self.ep();
        if let Some(events) = self.events() {
            library.check("fi_ep_bind", ep.bind(events.handle.fid(), 0))?;
        }
        if let Some(av) = &self.parts().av {
            library.check("fi_ep_bind", ep.bind(av.fid(), 0))?;
        }
        let cq = self.cq().fid();
        library.check("fi_ep_bind", ep.bind(cq, FI_TRANSMIT | FI_RECV))?;
        library.check("fi_enable", ep.control(FI_ENABLE, ptr::null_mut()))?;
        if self.parts().av.is_some() {
            self.address = self.own_address()?;
            neighbours().open(self.address.clone());
        }
        Ok(())
    }

    /// As `enable`, with the next name while one is taken.
    fn enable_with_a_name(&mut self, info: &Info) -> Result<(), FabricError> {
        for _ in 1..NAMES {
            let enabled = self.enable();
            let (true, Some(parts)) = (enabled.as_ref().is_err_and(is_taken), &mut self.parts)
            else {
                return enabled;
            };
            parts.ep = Some(open_ep(&self.domain, info)?);
        }
        self.enable()
    }

    fn library(&self) -> &Arc<Library> {
        &self.domain.fabric.library
    }

    #[expect(clippy::expect_used, reason = "taken out in `drop` alone")]
    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("all is open until dropped")
    }

    #[expect(clippy::expect_used, reason = "taken out in `drop` alone")]
    fn ep(&self) -> &Handle<FidEp> {
        let ep = self.parts().ep.as_ref();
        ep.expect("the end point is open until dropped")
    }

    #[expect(clippy::expect_used, reason = "taken out in `drop` alone")]
    fn cq(&self) -> &Handle<FidCq> {
        let cq = self.parts().cq.as_ref();
        cq.expect("the queue is open until dropped")
    }

    fn store(&mut self) -> &mut Store {
        self.store_and_stay().0
    }

    #[expect(clippy::expect_used, reason = "taken out in `drop` alone")]
    fn store_and_stay(&mut self) -> (&mut Store, &Stay) {
        let parts = self.parts.as_mut();
        let both = parts.and_then(|parts| Some((parts.store.as_mut()?, &*parts.stay)));
        both.expect("the pages are there until dropped")
    }

    fn events(&self) -> Option<&EventQueue> {
        self.parts().events.as_ref()
    }

    /// Begins to connect to where the entry points, and says `data` to who listens.
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

    /// Takes the request in that this was opened for, and says `data` to who has come.
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

    /// The provider's address of this end.
    pub(crate) fn own_address(&self) -> Result<Vec<u8>, FabricError> {
        let ep = self.ep();
        // SAFETY: the end point is open.
        let cm = unsafe { (*ep.raw()).cm };
        name(self.library(), ep.fid(), cm)
    }

    /// Makes this the peer. The address must end in zero, as the provider reads it so.
    pub(crate) fn set_peer(&mut self, address: &[u8]) -> Result<(), FabricError> {
        let mut peer = FI_ADDR_UNSPEC;
        let refused = |library: &Library| library.failed("fi_av_insert", libc::EINVAL.into());
        let Some(av) = self.parts().av.as_ref().map(Handle::raw) else {
            return Err(refused(self.library()));
        };
        if address.last() != Some(&0) {
            return Err(refused(self.library()));
        }
        let mut neighbours = neighbours();
        if !neighbours.pair(&self.address, address) {
            return Err(self
                .library()
                .failed("fi_av_insert", libc::ECONNREFUSED.into()));
        }
        self.parts().stay.meets(address);
        self.parts().stay.begin();
        // SAFETY: the vector is open; the peer's memory stays as long as this (see `neighbours`); the address ends in zero and is copied by the call.
        let code = unsafe {
            call!(
                (*av).ops,
                FiOpsAv.insert(
                    av,
                    address.as_ptr().cast(),
                    1,
                    &raw mut peer,
                    0,
                    ptr::null_mut()
                )
            )
        };
        self.parts().stay.end();
        self.library().check("fi_av_insert", code)?;
        if code != 1 {
            return Err(refused(self.library()));
        }
        self.peer = peer;
        Ok(())
    }

    /// A receive page's bytes.
    pub(crate) fn received<'a>(&'a self, page: &'a Page) -> &'a [u8] {
        let store = self.parts().store.as_ref();
        store.map_or(&[], |store| store.receive.bytes(page))
    }

    /// A send page's bytes, to be written.
    pub(crate) fn page_to_send<'a>(&'a mut self, page: &'a mut Page) -> &'a mut [u8] {
        self.store().send.bytes_mut(page)
    }

    /// Reads what is complete, also as far as the provider only gets on when asked; says how much it was.
    pub(crate) fn poll(&mut self, mut found: impl FnMut(Completion)) -> Result<usize, FabricError> {
        let cq = self.cq().raw();
        let empty = FiCqMsgEntry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
        };
        let mut count = 0;
        // Bounded by what can be posted at all.
        loop {
            let mut entries = [empty; BATCH];
            self.parts().stay.begin();
            // SAFETY: the queue is open and of the format of these entries, of which there are as many as said.
            let read = unsafe {
                call!(
                    (*cq).ops,
                    FiOpsCq.read(cq, entries.as_mut_ptr().cast(), BATCH)
                )
            };
            self.parts().stay.end();
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
        let cq = self.cq().raw();
        self.parts().stay.begin();
        // SAFETY: the queue is open, the call fills the entry.
        let read = unsafe { call!((*cq).ops, FiOpsCq.readerr(cq, &raw mut entry, 0)) };
        self.parts().stay.end();
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
        let parts = self.parts.as_mut();
        let events = parts.and_then(|parts| parts.events.as_mut());
        events.map_or(Ok(None), EventQueue::read)
    }

    /// Whether one may sleep on the descriptors: false, look again.
    pub(crate) fn may_sleep(&self) -> bool {
        let cq = self.cq().fid();
        let events = self.events().map(|events| events.handle.fid());
        let mut fids = [cq, events.unwrap_or(cq)];
        let count = if events.is_some() { 2 } else { 1 };
        self.domain.fabric.may_sleep(&mut fids[..count])
    }

    /// Readable when something is complete; `None`: look again and again.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open as long as the queue, which the result borrows.
        self.cq_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Readable when something has happened to the connection.
    pub(crate) fn events_fd(&self) -> Option<BorrowedFd<'_>> {
        self.events().and_then(EventQueue::fd)
    }

    /// Sends that are posted and not complete.
    pub(crate) fn sends_under_way(&self) -> usize {
        let store = self.parts().store.as_ref();
        store.map_or(0, |store| store.contexts.sends())
    }

    /// This will be dropped with sends under way: the memory stays until the peer at the socket's other end has left.
    pub(crate) fn keep_for(&mut self, reader: UnixSocket) {
        self.reader = Some(reader);
    }

    pub(crate) fn fault(&self, code: i64) -> Fault {
        self.library()
            .fault(i32::try_from(code).unwrap_or(libc::EOVERFLOW))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        match self.parts.take() {
            Some(parts) if !self.address.is_empty() => {
                neighbours().close(&self.address, parts, self.reader.take());
            }
            parts => drop(parts),
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.stay.begin();
        let closed = self.ep.take().is_none_or(Handle::close);
        drop(self.cq.take());
        drop(self.events.take());
        drop(self.av.take());
        self.stay.end();
        let store = self.store.take();
        if !closed {
            // The provider may still write there: better to lose the memory than to give it to somebody else.
            forget((store, Arc::clone(&self.domain)));
        }
    }
}

/// Whether the name of an end point is another one's.
fn is_taken(error: &FabricError) -> bool {
    matches!(error, FabricError::Call { call: "fi_enable", fault } if fault.errno == libc::EBUSY)
}
