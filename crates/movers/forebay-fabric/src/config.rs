//! What a connection may take.

use forebay_wire::fabric::{self, Hello};

use crate::error::FabricError;

/// How much memory a connection has, and how it confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a page, which is one message. 1 to 65 MiB; default 66,000: a buffer of 64 KiB and its head. The smaller one of both
    /// ends limits what is sent.
    pub page_bytes: usize,
    /// Pages to receive into, posted before the connection is made. 1 to 65,536; default 64. A provider that takes fewer gets fewer.
    pub receive_pages: usize,
    /// Pages to send from: so many are on their way at most. 1 to 65,536; default 64. A provider that takes fewer gets fewer.
    pub send_pages: usize,
    /// Sends from regions that are on their way at most, beside those of pages. 0 to 65,536; default 0.
    pub region_sends: usize,
    /// Whether a page counts as completed only when it is in the peer's memory, and not when it is handed over to the kernel or the device. Costs an
    /// acknowledgement per page. Default false.
    pub confirm_delivery: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            page_bytes: 66_000,
            receive_pages: 64,
            send_pages: 64,
            region_sends: 0,
            confirm_delivery: false,
        }
    }
}

impl Config {
    /// Longest page, in bytes.
    pub const PAGE_BYTES_MAX: usize = fabric::PAGE_BYTES_MAX as usize;
    /// Most pages of one kind.
    pub const PAGES_MAX: usize = fabric::PAGES_MAX as usize;

    /// What an end with these settings says about itself.
    pub(crate) fn hello(&self) -> Hello {
        Hello {
            page_bytes: u32::try_from(self.page_bytes).unwrap_or(u32::MAX),
            receive_pages: u32::try_from(self.receive_pages).unwrap_or(u32::MAX),
        }
    }

    /// Looks at the ranges.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn check(&self) -> Result<(), FabricError> {
        let in_range = |name, value, low, high| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(FabricError::OutOfRange {
                name,
                value,
                low,
                high,
            })
        };
        in_range("page_bytes", self.page_bytes, 1, Self::PAGE_BYTES_MAX)?;
        in_range("receive_pages", self.receive_pages, 1, Self::PAGES_MAX)?;
        in_range("send_pages", self.send_pages, 1, Self::PAGES_MAX)?;
        in_range("region_sends", self.region_sends, 0, Self::PAGES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_in_range_and_what_is_not_is_named() {
        assert_eq!(Config::default().check(), Ok(()));
        let config = Config {
            send_pages: 0,
            ..Config::default()
        };
        let error = config.check().unwrap_err();
        assert_eq!(error.to_string(), "send_pages = 0 is not in 1 to 65536");
    }
}
