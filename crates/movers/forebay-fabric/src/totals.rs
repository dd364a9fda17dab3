//! What is counted.

/// What an end point has counted since it was made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Pages that the provider took, those from regions included.
    pub pages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Of these, pages that the provider says are sent: see [`Config::confirm_delivery`](crate::Config::confirm_delivery).
    pub pages_completed: u64,
    /// Of these, pages that the provider says are not sent, or gave up.
    pub pages_failed: u64,
    /// Of these, pages that are under way.
    pub pages_under_way: u64,
    /// Pages that came.
    pub pages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Sends that took nothing, as no page was free or the provider had no room.
    pub sends_without_room: u64,
}

impl Totals {
    /// Pages that were sent and of which it is not known whether they arrived.
    #[must_use]
    pub fn unconfirmed_pages(&self) -> u64 {
        self.pages_failed + self.pages_under_way
    }
}

/// What a listener has counted since it was made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ListenerTotals {
    /// Connections that were taken in.
    pub accepted: u64,
    /// Connections that were turned down: they do not speak the protocol. What does not even speak the provider's own, as
    /// rubbish on a TCP port, the provider `tcp` closes without a word, and it is not counted.
    pub refused: u64,
    /// Connections that were given up before they were made: they ended, or they failed.
    pub given_up: u64,
}
