//! Lists through the entries of the table: rings with a post each, so that an entry is taken out without a look for its list. Every step takes the same time.

/// The neighbours of an entry or of a post: numbers below the entries' count are entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    next: u32,
    previous: u32,
}

impl Links {
    pub(super) const NONE: Self = Self::both(u32::MAX);

    const fn both(at: u32) -> Self {
        Self {
            next: at,
            previous: at,
        }
    }
}

/// An entry that can be in a list.
pub(super) trait Node {
    fn links(&mut self) -> &mut Links;
}

/// Lists, by number, that an entry can be in one of.
#[derive(Debug)]
pub(super) struct Lists {
    posts: Vec<Links>,
    entries: u32,
}

impl Lists {
    pub(super) fn new(lists: usize, entries: usize) -> Self {
        let entries = entries as u32;
        let posts = (entries..).take(lists).map(Links::both);
        Self {
            posts: posts.collect(),
            entries,
        }
    }

    #[inline]
    pub(super) fn first(&self, list: usize) -> Option<u32> {
        let next = self.posts[list].next;
        (next < self.entries).then_some(next)
    }

    /// Puts an entry at the end.
    #[inline]
    pub(super) fn push(&mut self, nodes: &mut [impl Node], list: usize, at: u32) {
        let post = self.entries + list as u32;
        let last = self.posts[list].previous;
        *nodes[at as usize].links() = Links {
            next: post,
            previous: last,
        };
        self.links(nodes, last).next = at;
        self.posts[list].previous = at;
    }

    /// Takes an entry out of the list that it is in.
    #[inline]
    pub(super) fn remove(&mut self, nodes: &mut [impl Node], at: u32) {
        let Links { next, previous } = *nodes[at as usize].links();
        self.links(nodes, previous).next = next;
        self.links(nodes, next).previous = previous;
    }

    /// Moves all of one list to the end of another one.
    pub(super) fn append(&mut self, nodes: &mut [impl Node], from: usize, to: usize) {
        if self.first(from).is_none() {
            return;
        }
        let Links {
            next: first,
            previous: last,
        } = self.posts[from];
        let before = self.posts[to].previous;
        self.links(nodes, before).next = first;
        self.links(nodes, first).previous = before;
        self.links(nodes, last).next = self.entries + to as u32;
        self.posts[to].previous = last;
        self.posts[from] = Links::both(self.entries + from as u32);
    }

    #[inline]
    fn links<'a>(&'a mut self, nodes: &'a mut [impl Node], at: u32) -> &'a mut Links {
        match at.checked_sub(self.entries) {
            Some(post) => &mut self.posts[post as usize],
            None => nodes[at as usize].links(),
        }
    }
}
