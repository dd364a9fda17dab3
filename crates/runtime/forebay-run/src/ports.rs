//! Ports in a row.

use crate::RunError;

/// The port `index` places after `base_port`, of `count` ports; any free one when `base_port` is 0.
///
/// # Errors
/// There are not so many ports.
pub fn nth_port(base_port: u16, index: usize, count: usize) -> Result<u16, RunError> {
    if base_port == 0 {
        return Ok(0);
    }
    let port = u16::try_from(index)
        .ok()
        .and_then(|index| base_port.checked_add(index));
    port.ok_or_else(|| RunError::Ports { base_port, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_each_other_up_to_the_last_one() {
        let port = |base, index| nth_port(base, index, 600);
        assert_eq!(port(50_000, 0).unwrap(), 50_000);
        assert_eq!(port(65_000, 535).unwrap(), 65_535);
        assert_eq!(port(0, 70_000).unwrap(), 0, "any free one");
        for index in [536, 65_536, 1 << 40] {
            let told = port(65_000, index).unwrap_err().to_string();
            assert!(told.contains("600 ports from 65000 on"), "{told}");
        }
    }
}
