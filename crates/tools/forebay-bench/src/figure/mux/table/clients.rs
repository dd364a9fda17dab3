//! Clients of the figures: one as the original's, and others with one thing changed.

use crate::mux::ClientOptions;

pub(super) const ONE: ClientOptions = ClientOptions {
    load_bps: 0,
    limit_bps: None,
    rx_queue: 512,
    tx_queue: 512,
    guarantee: 16,
    sojourn_max_us: None,
    niceness: 0,
    rounds: None,
    is_trusted: false,
};
/// One of four loaded clients of the original: it works a hundred times on each packet, where two do ten times.
pub(super) const LOADED: ClientOptions = ClientOptions {
    rounds: Some(100),
    ..ONE
};
pub(super) const TRUSTED: ClientOptions = ClientOptions {
    is_trusted: true,
    ..ONE
};
pub(super) const BEHIND: ClientOptions = ClientOptions {
    niceness: 10,
    ..ONE
};
pub(super) const GUARANTEED: ClientOptions = ClientOptions {
    guarantee: 256,
    ..ONE
};
pub(super) const SMALL: ClientOptions = ClientOptions {
    rx_queue: 16,
    ..ONE
};
pub(super) const SMALL_BEHIND: ClientOptions = ClientOptions {
    rx_queue: 32,
    ..BEHIND
};
pub(super) const SMALLEST_BEHIND: ClientOptions = ClientOptions {
    rx_queue: 16,
    tx_queue: 16,
    ..BEHIND
};
pub(super) const LIMITED: ClientOptions = ClientOptions {
    limit_bps: Some(100_000_000),
    sojourn_max_us: Some(0),
    ..ONE
};
pub(super) const LIMITED_BOUND: ClientOptions = ClientOptions {
    sojourn_max_us: Some(5_000),
    ..LIMITED
};
