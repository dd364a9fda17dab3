//! From sub-event to sub-event through the body of a message.

use forebay_wire::subevent::{SUB_EVENT_HEADER_BYTES, SubEventHeader};

use crate::head::padded;

/// Counts the sub-events in `body` up to the first that cannot be true: how many, and their padded bytes.
#[must_use]
pub fn walk(body: &[u8]) -> (u32, usize) {
    let (mut items, mut at) = (0, 0);
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
        items += 1;
    }
    (items, at)
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
