//! What the kernel's answers say; any bytes may be given.

use std::collections::BTreeMap;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWQDISC: u16 = 36;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER_BYTES: usize = 16;
const IFINFO_BYTES: usize = 16;
const TC_BYTES: usize = 20;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// The two highest bits of an attribute's type are flags.
const TYPE_MASK: u16 = 0x3fff;

/// Names of the counters of `struct rtnl_link_stats64`, in its order (`linux/if_link.h`).
pub const LINK_COUNTERS: [&str; 25] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
];

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number; one that is made again has another one.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its counters by name, as many as this kernel has.
    pub counters: BTreeMap<&'static str, u64>,
}

/// A queueing discipline of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// Number of its interface.
    pub interface: u32,
    /// Its own number, as `8001:0` in two halves; 0 for one that the kernel made.
    pub handle: u32,
    /// Where it hangs: `0xffffffff` is the interface itself.
    pub parent: u32,
    /// Its kind, as `tbf`.
    pub kind: String,
    /// Packets that it dropped; the kernel keeps 32 bits.
    pub drops: u32,
    /// Packets that it had to hold back for its rate.
    pub overlimits: u32,
    /// Packets that the driver did not take and that were queued again.
    pub requeues: u32,
}

/// Why an answer was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused the question.
    #[error("the kernel answers with error {errno}")]
    Refused {
        /// Its error number.
        errno: i32,
    },
    /// A message is longer than what came, or shorter than its own head.
    #[error("a message of {claimed} bytes where {left} are left")]
    Length {
        /// What the message says.
        claimed: usize,
        /// What is there.
        left: usize,
    },
}

/// Whether the answer ends with this piece.
pub(super) fn is_last(piece: &[u8]) -> bool {
    Messages { rest: piece }.any(
        |message| !matches!(message, Ok((kind, _)) if kind != NLMSG_DONE && kind != NLMSG_ERROR),
    )
}

/// Reads a piece of the answer to `RTM_GETLINK`.
///
/// # Errors
/// The kernel refused, or a message is cut off.
pub fn parse_links(piece: &[u8]) -> Result<Vec<Link>, NetlinkError> {
    of_kind(piece, RTM_NEWLINK, link)
}

/// Reads a piece of the answer to `RTM_GETQDISC`.
///
/// # Errors
/// The kernel refused, or a message is cut off.
pub fn parse_qdiscs(piece: &[u8]) -> Result<Vec<Qdisc>, NetlinkError> {
    of_kind(piece, RTM_NEWQDISC, qdisc)
}

/// All messages of one kind; one without what is needed is left out.
fn of_kind<T>(
    piece: &[u8],
    wanted: u16,
    read: fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, NetlinkError> {
    let mut found = Vec::new();
    for message in (Messages { rest: piece }) {
        match message? {
            (NLMSG_ERROR, body) => {
                let errno = u32_at(body, 0).unwrap_or(0).cast_signed().wrapping_neg();
                return Err(NetlinkError::Refused { errno });
            }
            (kind, body) if kind == wanted => found.extend(read(body)),
            _ => {}
        }
    }
    Ok(found)
}

fn link(body: &[u8]) -> Option<Link> {
    let index = u32_at(body, 4)?;
    let (mut name, mut counters) = (None, BTreeMap::new());
    for (kind, value) in (Attributes {
        rest: body.get(IFINFO_BYTES..)?,
    }) {
        match kind {
            IFLA_IFNAME => name = Some(text(value)),
            IFLA_STATS64 => {
                let values = value
                    .chunks_exact(8)
                    .filter_map(|word| word.try_into().ok());
                counters = LINK_COUNTERS
                    .into_iter()
                    .zip(values.map(u64::from_ne_bytes))
                    .collect();
            }
            _ => {}
        }
    }
    Some(Link {
        index,
        name: name?,
        counters,
    })
}

fn qdisc(body: &[u8]) -> Option<Qdisc> {
    let mut kind = None;
    // Bytes waiting, packets waiting, drops, requeues, overlimits (`struct gnet_stats_queue`).
    let mut queue = [0; 5];
    for (at, value) in (Attributes {
        rest: body.get(TC_BYTES..)?,
    }) {
        match at {
            TCA_KIND => kind = Some(text(value)),
            TCA_STATS2 => {
                let mut nested = Attributes { rest: value };
                if let Some((_, value)) = nested.find(|(at, _)| *at == TCA_STATS_QUEUE) {
                    let words = value
                        .chunks_exact(4)
                        .filter_map(|word| word.try_into().ok());
                    queue
                        .iter_mut()
                        .zip(words.map(u32::from_ne_bytes))
                        .for_each(|(to, from)| *to = from);
                }
            }
            _ => {}
        }
    }
    let [_, _, drops, requeues, overlimits] = queue;
    Some(Qdisc {
        interface: u32_at(body, 4)?,
        handle: u32_at(body, 8)?,
        parent: u32_at(body, 12)?,
        kind: kind?,
        drops,
        overlimits,
        requeues,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..at + 2)?;
    word.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    word.try_into().ok().map(u32::from_ne_bytes)
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]).into_owned()
}

/// What lies behind a part of `length` bytes: parts begin at multiples of 4.
fn behind(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(length.next_multiple_of(4)..).unwrap_or_default()
}

/// Kind and body of each message.
struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<(u16, &'a [u8]), NetlinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        let left = rest.len();
        let claimed = u32_at(rest, 0).unwrap_or(0) as usize;
        let (Some(body), Some(kind)) = (rest.get(HEADER_BYTES..claimed), u16_at(rest, 4)) else {
            return Some(Err(NetlinkError::Length { claimed, left }));
        };
        self.rest = behind(rest, claimed);
        Some(Ok((kind, body)))
    }
}

/// Type and value of each attribute, up to one that is cut off.
struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.rest, 0)?);
        let kind = u16_at(self.rest, 2)? & TYPE_MASK;
        let value = self.rest.get(4..length)?;
        self.rest = behind(self.rest, length);
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((4 + value.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((16 + body.len() as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A token bucket at the root of interface 7 that dropped 12 and held back 900.
    fn tbf() -> Vec<u8> {
        let mut body = words(&[0, 7, 0x8001_0000, u32::MAX, 2]);
        body.extend(attribute(TCA_KIND, b"tbf\0"));
        let queue = attribute(TCA_STATS_QUEUE, &words(&[3, 1500, 12, 1, 900]));
        let basic = attribute(1, &[9; 12]);
        body.extend(attribute(TCA_STATS2 | 0x8000, &[basic, queue].concat()));
        message(RTM_NEWQDISC, &body)
    }

    #[test]
    fn a_queue_is_read_behind_other_messages() {
        let piece = [
            message(RTM_NEWLINK, &[0; 16]),
            tbf(),
            message(NLMSG_DONE, &[0; 4]),
        ]
        .concat();
        let expected = Qdisc {
            interface: 7,
            handle: 0x8001_0000,
            parent: u32::MAX,
            kind: "tbf".to_owned(),
            drops: 12,
            overlimits: 900,
            requeues: 1,
        };
        assert_eq!(parse_qdiscs(&piece), Ok(vec![expected]));
        assert!(is_last(&piece));
        assert!(!is_last(&tbf()));
    }

    #[test]
    fn a_link_of_an_older_kernel_has_fewer_counters() {
        let stats: Vec<u8> = (1..=24_u64).flat_map(u64::to_ne_bytes).collect();
        let mut body = words(&[0, 3, 0, 0]);
        body.extend(attribute(IFLA_IFNAME, b"eth0\0"));
        body.extend(attribute(IFLA_STATS64, &stats));
        let links = parse_links(&message(RTM_NEWLINK, &body)).unwrap();
        let [link] = links.as_slice() else {
            panic!("{links:?}")
        };
        assert_eq!((link.index, link.name.as_str()), (3, "eth0"));
        assert_eq!(link.counters["rx_dropped"], 7);
        assert_eq!(link.counters["rx_nohandler"], 24);
        assert!(!link.counters.contains_key("rx_otherhost_dropped"));
    }

    #[test]
    fn a_refusal_has_its_number() {
        let refused = message(NLMSG_ERROR, &words(&[1_u32.wrapping_neg(), 0]));
        assert_eq!(
            parse_qdiscs(&refused),
            Err(NetlinkError::Refused { errno: 1 })
        );
        assert!(is_last(&refused));
    }

    #[test]
    fn a_piece_that_is_cut_off_is_named() {
        let whole = tbf();
        let cut = &whole[..whole.len() - 8];
        let error = parse_qdiscs(cut).unwrap_err();
        assert_eq!(
            error,
            NetlinkError::Length {
                claimed: whole.len(),
                left: cut.len()
            }
        );
        assert!(is_last(cut), "an answer that is broken has no rest");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (parse_links(&bytes), parse_qdiscs(&bytes), is_last(&bytes));
            let framed = message(RTM_NEWQDISC, &bytes);
            let _ = parse_qdiscs(&framed);
            let _ = parse_links(&message(RTM_NEWLINK, &bytes));
        }

        #[test]
        fn a_broken_byte_does_no_harm(at in 0_usize..96, value in any::<u8>()) {
            let mut bytes = tbf();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
            let _ = (parse_qdiscs(&bytes), is_last(&bytes));
        }
    }
}
