//! libfabric, in a loop that does nothing else.

use std::time::Duration;

use anyhow::Result;

use super::built::{Built, Driver};
use crate::net::Ground;
use forebay_report::rows::Row;

/// A bare loop over libfabric: pages that are posted and completions that are read, with no protocol.
#[derive(Debug)]
pub struct BareFabric(Built);

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarePattern {
    /// Sends as much as goes; each message is copied into its page.
    Stream,
    /// Sends as much as goes, of pages that are never written.
    InPlace,
    /// One message at a time, there and back.
    RoundTrip,
}

impl BareFabric {
    /// Builds it.
    ///
    /// # Errors
    /// The compiler or libfabric's headers are missing; the message names their packages.
    pub fn build() -> Result<Self> {
        Built::make(Driver {
            name: "fabric",
            library: "bare libfabric",
            source: include_str!("../../../reference/fabric.c"),
            link: "-lfabric",
            package: "libfabric-dev",
        })
        .map(Self)
    }

    /// Runs it once over a provider, with so many pages of a message each, either way.
    ///
    /// # Errors
    /// It fails, or does not get on, or the user wants it to end.
    pub fn measure(
        &self,
        pattern: BarePattern,
        provider: &str,
        message_bytes: u32,
        pages: u32,
        duration: Duration,
        ground: &Ground<'_>,
    ) -> Result<Row> {
        let pattern = match pattern {
            BarePattern::Stream => "stream",
            BarePattern::InPlace => "in_place",
            BarePattern::RoundTrip => "rtt",
        };
        let (bytes, pages) = (message_bytes.to_string(), pages.to_string());
        let ms = duration.as_millis().to_string();
        let words = |role: &str, address: &str| {
            [pattern, role, provider, address, &bytes, &pages, &ms]
                .map(str::to_owned)
                .to_vec()
        };
        let place = ground.listening().to_string();
        let done = self
            .0
            .measure(words, &place, message_bytes, duration, ground);
        ground.unless_stopped(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_count_the_same() {
        let bare = match BareFabric::build() {
            Ok(bare) => bare,
            Err(error) => return forebay_testing::skip!("{error:#}"),
        };
        let stop = || false;
        let ground = Ground::host("forebay".into(), &stop);
        let short = Duration::from_millis(20);
        for pattern in [
            BarePattern::Stream,
            BarePattern::InPlace,
            BarePattern::RoundTrip,
        ] {
            let row = bare
                .measure(pattern, "tcp", 8192, 4, short, &ground)
                .unwrap();
            assert!(row.number("messages") > 0.0, "{pattern:?}");
            assert_eq!(row.number("dropped"), 0.0, "{pattern:?}");
            let answered = pattern == BarePattern::RoundTrip;
            assert_eq!(row.number("rtt_ns_p50") > 0.0, answered, "{pattern:?}");
        }
    }
}
