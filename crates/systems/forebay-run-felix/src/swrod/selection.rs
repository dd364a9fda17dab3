//! Which E-links are subscribed to.

use forebay_run_net::Entry;
use forebay_wire::felix::{Elink, Fid};

/// The bits of a fid that say version, detector and connector.
const CONNECTOR_BITS: u64 = 0xffff_fff0_0000_0000;

/// E-links of a detector and a connector; all that there are, when none are named.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// E-links.
    pub elinks: Vec<Elink>,
    /// Whole 64-bit numbers of further ones.
    pub fids: Vec<u64>,
    /// Detector of the E-links, 0 if it is not said; with no E-link, all of it.
    pub detector: Option<u8>,
    /// Connector of the E-links, 0 if it is not said; with no E-link, all of it.
    pub connector: Option<u16>,
}

impl Selection {
    /// Fids one by one, in their order, and patterns.
    #[must_use]
    pub fn entries(&self) -> (Vec<u64>, Vec<Entry>) {
        let (detector, connector) = (self.detector.unwrap_or(0), self.connector.unwrap_or(0));
        let fid = |elink| Fid::to_host(detector, connector, elink).0;
        let mut tags = self.fids.clone();
        tags.extend(self.elinks.iter().copied().map(fid));
        tags.sort_unstable();
        tags.dedup();
        let mask = match (self.detector, self.connector) {
            (None, None) => None,
            (Some(_), Some(_)) => Some(CONNECTOR_BITS),
            (Some(_), None) => Some(CONNECTOR_BITS & !(0xffff << 36)),
            (None, Some(_)) => Some(CONNECTOR_BITS & !(0xff << 52)),
        };
        let pattern = mask.filter(|_| self.elinks.is_empty()).map(|mask| Entry {
            tag: fid(Elink::default()) & mask,
            mask,
        });
        (tags, pattern.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_links_are_asked_for_one_by_one_or_by_connector() {
        let mut which = Selection {
            elinks: [0, 64, 0x600].map(|n| Elink::new(n).unwrap()).to_vec(),
            fids: vec![42],
            detector: None,
            connector: Some(7),
        };
        let (tags, patterns) = which.entries();
        let to_host = |number| Fid::to_host(0, 7, Elink::new(number).unwrap()).0;
        assert_eq!(tags, [42, to_host(0), to_host(64), to_host(0x600)]);
        assert!(patterns.is_empty());

        which.elinks.clear();
        let [pattern] = which.entries().1.try_into().unwrap();
        let of = |detector, connector| Fid::to_host(detector, connector, Elink::TTC_TO_HOST).0;
        let fits = |tag| tag & pattern.mask == pattern.tag;
        assert!(fits(of(0, 7)) && fits(of(9, 7)) && !fits(of(0, 8)));
        which.detector = Some(9);
        let [pattern] = which.entries().1.try_into().unwrap();
        let fits = |tag| tag & pattern.mask == pattern.tag;
        assert!(fits(of(9, 7)) && !fits(of(0, 7)) && !fits(of(9, 8)));
        which.connector = None;
        let [pattern] = which.entries().1.try_into().unwrap();
        let fits = |tag| tag & pattern.mask == pattern.tag;
        assert!(fits(of(9, 7)) && fits(of(9, 8)) && !fits(of(8, 7)));
    }
}
