//! From sub-event to sub-event through the body of a message.

use forebay_wire::subevent::{SUB_EVENT_HEADER_BYTES, SubEventHeader};

use crate::head::padded;

/// Counts the sub-events in `body` up to the first that cannot be true: how many, and their padded bytes.
#[must_use]
pub fn walk(body: &[u8]) -> (u32, usize) {
    let mut items = 0;
    let bytes = headers(body, |_| items += 1);
    (items, bytes)
}

/// Shows the header of each sub-event in `body` up to the first that cannot be true; the padded bytes of those that were shown.
#[inline]
pub(crate) fn headers(body: &[u8], mut show: impl FnMut(SubEventHeader)) -> usize {
    let mut at = 0;
    while let Some(head) = body
        .get(at..)
        .and_then(<[u8]>::first_chunk::<SUB_EVENT_HEADER_BYTES>)
    {
        let Ok(header) = SubEventHeader::parse(head) else {
            break;
        };
        let end = at + padded(header.size) as usize;
        if end > body.len() {
            break;
        }
        at = end;
        show(header);
    }
    at
}

/// Padded bytes of the first `items` sub-events of `body`, or of all that are true.
#[must_use]
pub fn bytes_of(body: &[u8], items: u32) -> usize {
    let mut at = 0;
    for _ in 0..items {
        let Some(head) = body.get(at..).and_then(<[u8]>::first_chunk) else {
            break;
        };
        let Ok(header) = SubEventHeader::parse(head) else {
            break;
        };
        at += padded(header.size) as usize;
    }
    at.min(body.len())
}
