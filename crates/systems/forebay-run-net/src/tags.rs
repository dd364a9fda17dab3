//! Messages and bytes by tag.

use std::collections::HashMap;

use serde::Serialize;

/// Most tags that are told apart: a peer chooses them. Further ones are counted together.
const TAGS_MAX: usize = 1 << 20;

/// What one tag had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TagSummary {
    /// The tag; none for all those beyond a million.
    pub tag: Option<u64>,
    /// Copies handed on to connections, or messages delivered.
    pub messages: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

/// Counts by tag, where that was asked for.
#[derive(Debug, Default)]
pub(super) struct Tags {
    is_on: bool,
    rows: Vec<TagSummary>,
    places: HashMap<u64, usize>,
    /// Messages of one tag come in rows.
    last: Option<(u64, usize)>,
}

impl Tags {
    pub(super) fn new(is_on: bool) -> Self {
        Self {
            is_on,
            ..Self::default()
        }
    }

    /// So many messages of a tag, of so many bytes each.
    #[inline]
    pub(super) fn count(&mut self, tag: u64, messages: u64, bytes: u64) {
        if !self.is_on {
            return;
        }
        let at = match self.last {
            Some((last, at)) if last == tag => at,
            _ => self.find(tag),
        };
        let row = &mut self.rows[at];
        row.messages += messages;
        row.bytes += messages * bytes;
    }

    fn find(&mut self, tag: u64) -> usize {
        let at = match self.places.get(&tag) {
            Some(at) => *at,
            None => self.begin(tag),
        };
        self.last = Some((tag, at));
        at
    }

    #[cold]
    fn begin(&mut self, tag: u64) -> usize {
        let row = |tag| TagSummary {
            tag,
            messages: 0,
            bytes: 0,
        };
        if self.places.len() >= TAGS_MAX {
            if self.rows.len() == TAGS_MAX {
                self.rows.push(row(None));
            }
            return TAGS_MAX;
        }
        self.rows.push(row(Some(tag)));
        self.places.insert(tag, self.rows.len() - 1);
        self.rows.len() - 1
    }

    /// All of them, in order.
    pub(super) fn take(&mut self) -> Option<Vec<TagSummary>> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_unstable_by_key(|row| (row.tag.is_none(), row.tag));
        self.is_on.then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_counted_each_and_those_beyond_the_limit_together() {
        let mut tags = Tags::new(true);
        for tag in (0..TAGS_MAX as u64 + 5).rev() {
            tags.count(tag, 2, 10);
            tags.count(tag, 1, 1);
        }
        let rows = tags.take().unwrap_or_default();
        assert_eq!(rows.len(), TAGS_MAX + 1);
        let first = TagSummary {
            tag: Some(5),
            messages: 3,
            bytes: 21,
        };
        assert_eq!(rows[0], first);
        let others = rows[TAGS_MAX];
        assert_eq!((others.tag, others.messages, others.bytes), (None, 15, 105));
        let mut off = Tags::new(false);
        off.count(1, 1, 1);
        assert_eq!(off.take(), None);
    }
}
