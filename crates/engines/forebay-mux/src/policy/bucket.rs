//! A bucket that fills at a rate and holds a burst, kept as the time at which it would be full, in ps.

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// A bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// None: no limit.
    rate_bps: Option<u64>,
    burst_bytes: u32,
    full_at_ps: u128,
}

impl Bucket {
    /// A full one.
    pub(crate) const fn new(rate_bps: Option<u64>, burst_bytes: u32) -> Self {
        Self {
            rate_bps,
            burst_bytes,
            full_at_ps: 0,
        }
    }

    /// The time that so many bytes take at the rate, rounded down. Bytes are below 2^21, so that the product has less than 64 bits.
    const fn takes_ps(rate_bps: u64, bytes: u32) -> u128 {
        (bytes as u64 * 8 * PS_PER_SECOND / rate_bps) as u128
    }

    /// When it has enough for a packet; a packet longer than the bucket needs a full one.
    pub(crate) fn ready_at_ps(&self, bytes: u32) -> u128 {
        let Some(rate_bps) = self.rate_bps else {
            return 0;
        };
        let lacks = self.burst_bytes - bytes.min(self.burst_bytes);
        self.full_at_ps
            .saturating_sub(Self::takes_ps(rate_bps, lacks))
    }

    pub(crate) fn take(&mut self, bytes: u32, now_ps: u128) {
        if let Some(rate_bps) = self.rate_bps {
            // A picosecond more than rounded down: many packets together never have more than the rate.
            let takes_ps = Self::takes_ps(rate_bps, bytes) + 1;
            self.full_at_ps = self.full_at_ps.max(now_ps) + takes_ps;
        }
    }

    /// Becomes another bucket. A full one has a burst; what is in it stays as many bits as it was, and no more than the new burst: a rate or a burst that is
    /// set often gives nothing away, and a debt of one packet is no longer than that packet is at the new rate. A client without a rate has no bucket, and
    /// begins with a full one.
    pub(super) fn adjust(&mut self, new: &Self, now_ps: u128) {
        let mut full_at_ps = now_ps;
        if let (Some(old_bps), Some(new_bps)) = (self.rate_bps, new.rate_bps) {
            // In bits, each as many parts as a second has ps: below 2^66.
            let lacks = self.full_at_ps.saturating_sub(now_ps) * u128::from(old_bps);
            let bits_ps = |bytes: u32| u128::from(bytes) * 8 * u128::from(PS_PER_SECOND);
            let lacks =
                (bits_ps(new.burst_bytes) + lacks).saturating_sub(bits_ps(self.burst_bytes));
            full_at_ps += lacks.div_ceil(new_bps.into());
        }
        *self = Self { full_at_ps, ..*new };
    }
}
