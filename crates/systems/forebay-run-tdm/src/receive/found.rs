//! What somebody did to the files of a session while they were written.

use forebay_sys::watched::Gone;

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Packets of a stream; what is gone of it is missing in it.
    Packets,
    Heaps,
    /// Lines of a list.
    Lines,
}

impl Kind {
    /// What its items are called.
    pub(super) const fn items(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Heaps => "heaps",
            Self::Lines => "",
        }
    }
}

/// Gathers it.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) gone: Vec<(Kind, Gone)>,
    /// For the operator.
    pub(super) notes: Vec<String>,
}

impl Found {
    pub(super) fn add(&mut self, kind: Kind, gone: Option<Gone>, notes: Vec<String>) {
        self.gone.extend(gone.map(|gone| (kind, gone)));
        self.notes.extend(notes);
    }
}
