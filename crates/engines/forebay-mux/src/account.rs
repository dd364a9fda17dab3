//! What is counted, and which terms make equations.

/// Items and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// Number of items.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Items {
    /// One more of so many bytes.
    #[inline]
    pub const fn add(&mut self, bytes: u32) {
        self.items += 1;
        self.bytes += bytes as u64;
    }

    /// One less of so many bytes.
    #[inline]
    pub const fn sub(&mut self, bytes: u32) {
        self.items -= 1;
        self.bytes -= bytes as u64;
    }

    /// So many more.
    pub const fn add_all(&mut self, more: Self) {
        self.items += more.items;
        self.bytes += more.bytes;
    }

    /// So many less.
    pub const fn sub_all(&mut self, less: Self) {
        self.items -= less.items;
        self.bytes -= less.bytes;
    }
}

impl core::ops::AddAssign for Items {
    fn add_assign(&mut self, more: Self) {
        self.add_all(more);
    }
}
