//! E-links as people write them.

use forebay_wire::felix::{ELINKS, Elink};

/// Reads the number of an E-link: decimal, or hexadecimal after `0x`.
pub(crate) fn elink(text: &str) -> Result<Elink, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.and_then(Elink::new).ok_or_else(|| {
        let most = ELINKS - 1;
        format!("{text:?} is no E-link; write a number up to {most}, as 64 or 0x40")
    })
}

/// Links in FULL mode, which have one E-link each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    first: u16,
    last: u16,
}

impl Links {
    /// Their E-links.
    pub(crate) fn elinks(self) -> impl Iterator<Item = Elink> {
        (self.first..=self.last).filter_map(Elink::of_link)
    }
}

/// Reads `3` or `0-11`.
pub(crate) fn links(text: &str) -> Result<Links, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        text.parse()
            .ok()
            .filter(|link| Elink::of_link(*link).is_some())
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok(Links { first, last }),
        _ => Err(format!(
            "{text:?} are no links; write numbers up to 31, as 3 or 0-11"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn e_links_and_links_are_read_as_they_are_written() {
        assert_eq!(elink("0x600"), Ok(Elink::TTC_TO_HOST));
        assert_eq!(elink("2047").unwrap().number(), 2047);
        assert!(elink("2048").unwrap_err().contains("up to 2047"));
        let all = |text| links(text).unwrap().elinks().map(Elink::number);
        assert_eq!(all("3").collect::<Vec<_>>(), [192]);
        assert_eq!(all("0-2").collect::<Vec<_>>(), [0, 64, 128]);
        assert_eq!(all("0-31").count(), 32);
        for text in ["", "32", "3-2", "0-32", "-", "a"] {
            assert!(links(text).unwrap_err().contains("3 or 0-11"), "{text}");
        }
    }
}
