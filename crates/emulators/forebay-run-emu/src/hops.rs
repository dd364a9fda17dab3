//! The hops of emulated cards at which items can be made to vanish uncounted, for tests of the books.

/// An emulated card.
pub const CARD: &[&str] = &["card", "from_host"];

/// A card that shows the blocks of a file.
pub const CARD_REPLAY: &[&str] = &["file", "card"];

/// The processes of `demo tohost` by name, the publisher first: of several that have a hop the first one is meant.
pub const DEMO_TOHOST: [(&str, &[&str]); 3] = [
    ("tohost", forebay_run_felix::hops::TOHOST),
    ("card", CARD),
    ("swrod", forebay_run_felix::hops::SWROD),
];
