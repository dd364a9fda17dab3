//! Posting: from here on until the completion, memory is the provider's.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::super::abi::{FI_ADDR_UNSPEC, FI_MR_LOCAL, FiOpsMsg};
use super::super::contexts::Posted;
use super::super::memory::{Page, Region};
use super::super::objects::{FromCode, call};
use super::{Channel, Refused};

impl Channel {
    /// Lets the provider fill the page.
    pub(crate) fn post_receive(&mut self, page: Page, bytes: usize) -> Result<(), Refused<Page>> {
        let ep = self.ep().raw();
        let store = self.store();
        let at = page.index();
        let len = store.receive.bytes(&page).len().min(bytes);
        let (start, description) = store.receive.place(&page);
        let context = store.contexts.occupy(at, Posted::Receive(page));
        // SAFETY: the memory is this page's, whose `Page` the context now holds until the completion; context and memory outlive the end point.
        let code = unsafe {
            call!(
                (*ep).msg,
                FiOpsMsg.recv(ep, start.cast(), len, description, FI_ADDR_UNSPEC, context)
            )
        };
        if code >= 0 {
            return Ok(());
        }
        match store.contexts.vacate(at) {
            Some(Posted::Receive(back)) => Err(Refused { back, code }),
            _ => unreachable!("a receive was noted there"),
        }
    }

    /// Sends the first so many bytes of the page.
    pub(crate) fn post_send(&mut self, page: Page, bytes: usize) -> Result<(), Refused<Page>> {
        let at = self.receive_pages + page.index();
        let (ep, peer) = (self.ep().raw(), self.peer);
        let store = self.store();
        let len = store.send.bytes(&page).len().min(bytes);
        let (start, description) = store.send.place(&page);
        let context = store.contexts.occupy(at, Posted::Send(page));
        // SAFETY: as in `post_receive`.
        let code = unsafe {
            call!(
                (*ep).msg,
                FiOpsMsg.send(ep, start.cast(), len, description, peer, context)
            )
        };
        if code >= 0 {
            return Ok(());
        }
        match store.contexts.vacate(at) {
            Some(Posted::Send(back)) => Err(Refused { back, code }),
            _ => unreachable!("a send was noted there"),
        }
    }

    /// Whether the provider must know a region before it is sent from, and does not know this one.
    pub(crate) fn is_foreign(&self, region: &Region) -> bool {
        self.domain.mr_mode & FI_MR_LOCAL != 0 && !region.is_of(&self.domain)
    }

    /// Sends a head from a page, if there is one, and a range of a region behind it. The range must lie in the region.
    pub(crate) fn post_region(
        &mut self,
        head: Option<(Page, usize)>,
        region: Arc<Region>,
        range: Range<usize>,
        user: u64,
    ) -> Result<(), Refused<Option<Page>>> {
        let (ep, peer) = (self.ep().raw(), self.peer);
        let domain = Arc::clone(&self.domain);
        let store = self.store();
        let (head, head_len) = head.map_or((None, 0), |(page, len)| (Some(page), len));
        let Some(at) = store.contexts.loose() else {
            let code = -i64::from(libc::EAGAIN);
            return Err(Refused { back: head, code });
        };
        let mut parts = [part(ptr::null_mut(), 0); 2];
        let mut descriptions = [ptr::null_mut::<c_void>(); 2];
        let mut count = 0;
        if let Some(page) = &head {
            let (start, description) = store.send.place(page);
            let len = store.send.bytes(page).len().min(head_len);
            (parts[0], descriptions[0]) = (part(start, len), description);
            count = 1;
        }
        let body = &region.bytes()[range];
        let (_, description) = region.place(&domain);
        (parts[count], descriptions[count]) =
            (part(body.as_ptr().cast_mut(), body.len()), description);
        let posted = Posted::Region { head, region, user };
        let context = store.contexts.occupy(at, posted);
        // SAFETY: page and region are held by the context until the completion, and nobody writes there meanwhile: a region is written
        // through a unique reference only. Lists are copied by the call, as FI_ASYNC_IOV was not offered.
        let code = unsafe {
            call!(
                (*ep).msg,
                FiOpsMsg.sendv(
                    ep,
                    parts.as_ptr(),
                    descriptions.as_mut_ptr(),
                    count + 1,
                    peer,
                    context
                )
            )
        };
        if code >= 0 {
            return Ok(());
        }
        match store.contexts.vacate(at) {
            Some(Posted::Region { head: back, .. }) => Err(Refused { back, code }),
            _ => unreachable!("a send was noted there"),
        }
    }

    /// Sends a message without bytes.
    pub(crate) fn post_end(&mut self) -> Result<(), Refused<()>> {
        let (ep, peer) = (self.ep().raw(), self.peer);
        let store = self.store();
        let Some(at) = store.contexts.loose() else {
            let code = -i64::from(libc::EAGAIN);
            return Err(Refused { back: (), code });
        };
        let context = store.contexts.occupy(at, Posted::End);
        // SAFETY: nothing is read; the context outlives the end point.
        let code = unsafe {
            call!(
                (*ep).msg,
                FiOpsMsg.send(ep, ptr::null(), 0, ptr::null_mut(), peer, context)
            )
        };
        if code >= 0 {
            return Ok(());
        }
        store.contexts.vacate(at);
        Err(Refused { back: (), code })
    }
}

fn part(start: *mut u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast(),
        iov_len: len,
    }
}
