//! What was published of the real table: values read from figures of two editions of a page, those of drops to about 0.3 percentage points.

use crate::trace::Edition;

/// What a figure says of a profile. Ratios are in per cent, latencies in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Label of the profile.
    pub label: &'static str,
    /// Drops of small packets; those of whole ones are 0 in both editions.
    pub drop_small: f64,
    /// Hits of whole packets, first edition.
    pub hit: f64,
    /// The same, edition of July 2025.
    pub hit_july: f64,
    /// Hits of small packets.
    pub hit_small: f64,
    /// Mean latency of whole packets, first edition.
    pub latency_ns: f64,
    /// The same, edition of July 2025.
    pub latency_ns_july: f64,
    /// Mean latency of small packets.
    pub latency_ns_small: f64,
}

const fn row(
    label: &'static str,
    drop_small: f64,
    hits: [f64; 3],
    latencies_ns: [f64; 3],
) -> Published {
    Published {
        label,
        drop_small,
        hit: hits[0],
        hit_july: hits[1],
        hit_small: hits[2],
        latency_ns: latencies_ns[0],
        latency_ns_july: latencies_ns[1],
        latency_ns_small: latencies_ns[2],
    }
}

/// All seven profiles: hits and latencies of whole packets in the first edition and in that of July 2025, and of small packets, which the first edition alone has.
pub const PUBLISHED: [Published; 7] = [
    row(
        "G_AD",
        0.9,
        [80.14, 80.31, 89.56],
        [434.67, 447.4, 3_210.51],
    ),
    row("G_MR", 0.1, [87.41, 87.83, 94.18], [334.16, 365.05, 512.85]),
    row("G_S", 2.8, [77.56, 82.09, 85.36], [481.28, 443.75, 4_962.8]),
    row(
        "N_AD",
        16.0,
        [48.16, 49.77, 67.34],
        [685.22, 703.89, 13_324.85],
    ),
    row(
        "N_M",
        37.6,
        [26.37, 29.26, 44.77],
        [1_298.58, 884.78, 15_220.78],
    ),
    row(
        "N_NL",
        23.0,
        [41.17, 43.03, 59.43],
        [1_590.86, 833.83, 13_472.84],
    ),
    row(
        "N_WP",
        34.1,
        [31.21, 34.3, 48.96],
        [1_115.17, 893.74, 13_914.31],
    ),
];

/// The profiles whose values constants are fitted on; of all others they are predicted.
pub const FITTED_ON: [&str; 2] = ["G_MR", "N_M"];

/// A quantity of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Packets that were dropped, per cent.
    Drop,
    /// Packets that found their context, per cent.
    Hit,
    /// Mean latency, ns.
    Latency,
}

impl Published {
    /// What is said of a profile.
    #[must_use]
    pub fn of(label: &str) -> Option<&'static Self> {
        PUBLISHED.iter().find(|published| published.label == label)
    }

    /// The values of a quantity: of the first edition, and of that of July 2025 where this has it.
    #[must_use]
    pub const fn values(&self, edition: Edition, quantity: Quantity) -> (f64, Option<f64>) {
        match (edition, quantity) {
            (Edition::Default, Quantity::Drop) => (0.0, Some(0.0)),
            (Edition::Default, Quantity::Hit) => (self.hit, Some(self.hit_july)),
            (Edition::Default, Quantity::Latency) => (self.latency_ns, Some(self.latency_ns_july)),
            (Edition::Small, Quantity::Drop) => (self.drop_small, None),
            (Edition::Small, Quantity::Hit) => (self.hit_small, None),
            (Edition::Small, Quantity::Latency) => (self.latency_ns_small, None),
        }
    }
}
