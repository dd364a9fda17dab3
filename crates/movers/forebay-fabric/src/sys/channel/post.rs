//! Posting: from here on until the completion, memory is the provider's.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::super::abi::{FI_ADDR_UNSPEC, FI_MR_LOCAL, FiOpsMsg};
use super::super::contexts::Posted;
use super::super::memory::{Page, Region};
use super::super::objects::{FromCode, call};
use super::super::shared::SharedMemory;
use super::{Channel, Refused};

/// Parts of one send: a piece and a few ranges.
const PARTS_MAX: usize = 8;
/// A connection has one peer, which is not named.
const PEER: u64 = FI_ADDR_UNSPEC;

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
                FiOpsMsg.recv(ep, start.cast(), len, description, PEER, context)
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
        let ep = self.ep().raw();
        let store = self.store();
        let len = store.send.bytes(&page).len().min(bytes);
        let (start, description) = store.send.place(&page);
        let context = store.contexts.occupy(at, Posted::Send(page));
        // SAFETY: as in `post_receive`.
        let code = unsafe {
            call!(
                (*ep).msg,
                FiOpsMsg.send(ep, start.cast(), len, description, PEER, context)
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

    /// Whether the provider must know memory before it is sent from, and does not know this.
    pub(crate) fn is_foreign(&self, piece: &Region, behind: Option<&Arc<SharedMemory>>) -> bool {
        let domain = &self.domain;
        let known = piece.is_of(domain) && behind.is_none_or(|memory| memory.is_of(domain));
        domain.mr_mode & FI_MR_LOCAL != 0 && !known
    }

    /// Sends the beginning of a piece, and behind it ranges of other memory: at most [`parts_max`](Self::parts_max) parts. All of it must lie there.
    pub(crate) fn post_piece(
        &mut self,
        piece: Region,
        len: usize,
        behind: Option<(&Arc<SharedMemory>, &[Range<usize>])>,
        user: u64,
    ) -> Result<(), Refused<Region>> {
        let ep = self.ep().raw();
        let domain = Arc::clone(&self.domain);
        let contexts = &mut self.store().contexts;
        let Some(at) = contexts.loose() else {
            let code = -i64::from(libc::EAGAIN);
            return Err(Refused { back: piece, code });
        };
        let mut parts = [part(ptr::null_mut(), 0); PARTS_MAX];
        let mut descriptions = [ptr::null_mut::<c_void>(); PARTS_MAX];
        let mut count = 0;
        let mut add = |start: *mut u8, len: usize, description| {
            if len > 0 {
                (parts[count], descriptions[count]) = (part(start, len), description);
                count += 1;
            }
        };
        let (start, description) = piece.place(&domain);
        add(start, piece.bytes()[..len].len(), description);
        if let Some((memory, ranges)) = behind {
            for range in ranges {
                let (start, description) = memory.place(range, &domain);
                add(start, range.len(), description);
            }
        }
        let behind = behind.map(|(memory, _)| Arc::clone(memory));
        let posted = Posted::Piece {
            piece,
            behind,
            user,
        };
        let context = contexts.occupy(at, posted);
        // SAFETY: all parts lie in the piece and the memory behind it, which the context holds until the completion. A piece is written through a unique
        // reference only, and nobody has one meanwhile; the other memory is a mapping of its own that nothing in this process writes through, and
        // is read here by nobody but the provider. Lists are copied by the call, as FI_ASYNC_IOV was not offered.
        let code = unsafe {
            if count == 1 {
                let (start, len) = (parts[0].iov_base, parts[0].iov_len);
                call!(
                    (*ep).msg,
                    FiOpsMsg.send(ep, start, len, descriptions[0], PEER, context)
                )
            } else {
                call!(
                    (*ep).msg,
                    FiOpsMsg.sendv(
                        ep,
                        parts.as_ptr(),
                        descriptions.as_mut_ptr(),
                        count,
                        PEER,
                        context
                    )
                )
            }
        };
        if code >= 0 {
            return Ok(());
        }
        match contexts.vacate(at) {
            Some(Posted::Piece { piece: back, .. }) => Err(Refused { back, code }),
            _ => unreachable!("a send was noted there"),
        }
    }

    /// Whether one more piece could be posted.
    pub(crate) fn has_context(&mut self) -> bool {
        self.store().contexts.has_loose()
    }

    /// Parts that a send takes.
    pub(crate) fn parts_max(&self) -> usize {
        self.domain.send_parts.clamp(1, PARTS_MAX)
    }

    /// Sends a message without bytes.
    pub(crate) fn post_end(&mut self) -> Result<(), Refused<()>> {
        let ep = self.ep().raw();
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
                FiOpsMsg.send(ep, ptr::null(), 0, ptr::null_mut(), PEER, context)
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
