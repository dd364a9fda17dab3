//! Who asked for a place and got none.

use forebay_wire::tdm::RefuseReason;

use super::Receiver;

/// Hellos that were answered with a refusal; those without the right key are not among them: nobody knows whose they are.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: [u64; RefuseReason::ALL.len()],
    /// The last one that was not told.
    last: Option<(String, RefuseReason)>,
}

impl Refusals {
    pub(super) fn add(&mut self, name: &str, reason: RefuseReason) {
        let at = RefuseReason::ALL.iter().position(|known| *known == reason);
        if let Some(count) = at.and_then(|at| self.counts.get_mut(at)) {
            *count += 1;
        }
        self.last = Some((name.to_owned(), reason));
    }
}

impl Receiver {
    /// Hellos that were refused, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (RefuseReason, u64)> {
        let counts = self.refusals.counts.into_iter();
        RefuseReason::ALL.iter().copied().zip(counts)
    }

    /// The last sender that was refused since this was asked; of several the others are in the counts alone.
    pub fn poll_refused(&mut self) -> Option<(String, RefuseReason)> {
        self.refusals.last.take()
    }
}
