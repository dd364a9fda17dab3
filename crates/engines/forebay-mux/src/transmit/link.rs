//! The link that packets leave on, where the narrow place is behind the card: it is given no more than the link takes, so that packets wait where policies decide.

use crate::policy::bucket::Bucket;
use forebay_settings::{OutOfRange, in_range};

const PS_PER_NS: u128 = 1000;
/// What the link has not taken for so long is made up for: timers are not exact.
const MADE_UP_FOR_HZ: u64 = 1_000;
/// And of a slow one two packets.
const BURST_BYTES_MIN: u64 = 3_028;
const BURST_BYTES_MAX: u64 = 1 << 20;

/// What a link takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bits in a second, 8,000 to 10^12.
    pub rate_bps: u64,
    /// Bytes that each packet takes beside its own, 0 to 256: of Ethernet 24 for preamble, check sum and gap.
    pub overhead_bytes: u32,
}

/// When the link takes the next packet.
#[derive(Debug)]
pub(super) struct LinkPace {
    bucket: Bucket,
    overhead_bytes: u32,
}

impl LinkPace {
    pub(super) fn new(link: Link) -> Result<Self, OutOfRange> {
        in_range("link_rate_bps", link.rate_bps, 8_000, 1_000_000_000_000)?;
        in_range("link_overhead_bytes", link.overhead_bytes.into(), 0, 256)?;
        let burst = (link.rate_bps / 8 / MADE_UP_FOR_HZ).clamp(BURST_BYTES_MIN, BURST_BYTES_MAX);
        Ok(Self {
            bucket: Bucket::new(Some(link.rate_bps), burst as u32),
            overhead_bytes: link.overhead_bytes,
        })
    }

    /// When it takes a packet, of whatever length, ns, if not now.
    #[inline]
    pub(super) fn busy_until_ns(&self, now_ns: u64) -> Option<u64> {
        let ready_ns = self.bucket.ready_at_ps(0).div_ceil(PS_PER_NS);
        let ready_ns = u64::try_from(ready_ns).unwrap_or(u64::MAX);
        (ready_ns > now_ns).then_some(ready_ns)
    }

    #[inline]
    pub(super) fn take(&mut self, bytes: u32, now_ns: u64) {
        let now_ps = u128::from(now_ns) * PS_PER_NS;
        self.bucket.take(bytes + self.overhead_bytes, now_ps);
    }
}
