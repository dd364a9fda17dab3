//! What each counter of a loss means, and what to do about it.

use serde::Serialize;

/// What a counter means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Meaning {
    /// Its name; `*` stands for any interface, CPU or queue, and for the rest of a name.
    pub pattern: &'static str,
    /// What happened.
    pub means: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

const fn of(pattern: &'static str, means: &'static str, remedy: &'static str) -> Meaning {
    Meaning {
        pattern,
        means,
        remedy,
    }
}

const RING: &str = "make the card's ring larger (ethtool -G INTERFACE rx N), spread its interrupts over CPUs, or let senders send less at once";
const CABLE: &str = "look at cable, transceiver and switch port, and at speed and duplex of both ends (ethtool INTERFACE)";
const READER: &str = "give the receiver larger socket buffers (net.core.rmem_max), a CPU of its own, or fewer senders";
const FRAGMENTS: &str = "keep messages below the MTU (a smaller water mark, or jumbo frames), or give fragments more memory (net.ipv4.ipfrag_high_thresh)";
const PATH: &str = "look at who sends this and along which way; routes and addresses of both hosts (ip route, ip address)";

/// The first that fits is meant: the special before the general.
const MEANINGS: [Meaning; 42] = [
    of(
        "softnet.*.dropped",
        "a CPU's queue between interfaces and the IP stack was full",
        "sysctl -w net.core.netdev_max_backlog=10000, or spread the load (RPS, more receive queues)",
    ),
    of(
        "softnet.*.flow_limit_count",
        "one flow took more than its share of a CPU's full queue",
        "sysctl -w net.core.netdev_max_backlog=10000, or switch the flow limit off (net.core.flow_limit_cpu_bitmap)",
    ),
    of(
        "interface.*.rx_missed_errors",
        "the card had no free descriptor and dropped the frame itself",
        RING,
    ),
    of(
        "interface.*.rx_fifo_errors",
        "the card's own memory overflowed",
        RING,
    ),
    of(
        "interface.*.rx_over_errors",
        "the card's ring or memory overflowed",
        RING,
    ),
    of(
        "interface.*.rx_dropped",
        "the kernel dropped frames behind the driver: no memory, a full queue, or a protocol that nobody here speaks",
        "look at softnet and driver counters of the same time; frames of unknown protocols (LLDP, a foreign VLAN) are harmless",
    ),
    of(
        "interface.*.rx_nohandler",
        "frames came on an interface that is only a standby (as in a bond)",
        "look at the bond's state (/proc/net/bonding)",
    ),
    of(
        "interface.*.rx_crc_errors",
        "frames came with a wrong checksum: bits were damaged on the wire",
        CABLE,
    ),
    of(
        "interface.*.rx_frame_errors",
        "frames came with a wrong alignment",
        CABLE,
    ),
    of(
        "interface.*.rx_length_errors",
        "frames came that are longer or shorter than this interface takes",
        "set the same MTU at both ends and in the switch",
    ),
    of(
        "interface.*.rx_errors",
        "frames came damaged; the sum of the errors of receiving",
        CABLE,
    ),
    of(
        "interface.*.rx_otherhost_dropped",
        "frames for another host came",
        "the switch floods: look at its address table",
    ),
    of(
        "interface.*.tx_dropped",
        "frames to be sent were dropped, by the driver or by the queue in front of it",
        "look at the qdisc counters of the same interface; a longer queue (ip link set INTERFACE txqueuelen N) or a lower rate",
    ),
    of(
        "interface.*.tx_carrier_errors",
        "there was no link when a frame was to be sent",
        CABLE,
    ),
    of(
        "interface.*.tx_*_errors",
        "the card could not send a frame",
        CABLE,
    ),
    of(
        "interface.*.tx_errors",
        "the card could not send a frame; the sum of the errors of sending",
        CABLE,
    ),
    of(
        "interface.*.collisions",
        "two ends of a half-duplex link sent at once",
        CABLE,
    ),
    of(
        "qdisc.*.drops",
        "the queue in front of an interface was full, or its policy dropped the packet",
        "give it room (tc qdisc change … limit N), a higher rate, or pace the sender",
    ),
    of(
        "driver.*",
        "the driver's own count of a loss or an error; its name is the driver's",
        RING,
    ),
    of(
        "Ip.InHdrErrors",
        "IP headers came damaged, or a packet came too short",
        PATH,
    ),
    of(
        "Ip.InAddrErrors",
        "packets came for an address that is not this host's",
        PATH,
    ),
    of(
        "Ip.InUnknownProtos",
        "packets came of a protocol that this host does not speak",
        PATH,
    ),
    of(
        "Ip.InDiscards",
        "good packets were dropped on their way in: no memory",
        READER,
    ),
    of(
        "Ip.OutDiscards",
        "good packets were dropped on their way out: no memory, or a full queue",
        "look at the qdisc counters of the interface they leave by",
    ),
    of(
        "Ip.OutNoRoutes",
        "packets had no route out of this host",
        PATH,
    ),
    of(
        "Ip*.ReasmTimeout",
        "parts of a datagram did not come in time: one of its fragments was lost before",
        FRAGMENTS,
    ),
    of(
        "Ip*.ReasmFails",
        "a datagram could not be put together of its fragments: one was lost, or their memory was full",
        FRAGMENTS,
    ),
    of(
        "Ip*.FragFails",
        "packets were too long for the way and must not be cut",
        "set the same MTU at both ends",
    ),
    of(
        "Ip6.In*Errors",
        "IPv6 packets came that could not be taken",
        PATH,
    ),
    of(
        "Ip6.*Discards",
        "good IPv6 packets were dropped: no memory",
        READER,
    ),
    of("Ip6.*NoRoutes", "IPv6 packets had no route", PATH),
    of("Ip6.InTruncatedPkts", "IPv6 packets came cut off", CABLE),
    of(
        "Udp*.NoPorts",
        "datagrams came for a port where nobody listens",
        "start the receiver before its senders, and compare the ports of both",
    ),
    of(
        "Udp*.RcvbufErrors",
        "the socket's buffer was full: this program or another one did not read in time; a run's own part stands in its books as socket.buffer_full",
        READER,
    ),
    of(
        "Udp*.SndbufErrors",
        "the kernel had no room for a datagram that was to be sent",
        "a larger send buffer (net.core.wmem_max), or a lower rate",
    ),
    of(
        "Udp*.InCsumErrors",
        "datagrams came with a wrong checksum",
        CABLE,
    ),
    of(
        "Udp*.MemErrors",
        "all UDP sockets together used what net.ipv4.udp_mem allows",
        "raise net.ipv4.udp_mem (forebay doctor says to what)",
    ),
    of(
        "Udp*.InErrors",
        "datagrams came and were not handed on; the sum of full buffers, wrong checksums and the rest",
        "see the other counters of Udp",
    ),
    of("Tcp.InErrs", "TCP segments came damaged", CABLE),
    of(
        "TcpExt.Listen*",
        "connections came faster than a program took them in",
        "start the program's peers one after the other, or raise net.core.somaxconn",
    ),
    of(
        "TcpExt.*Drop*",
        "TCP dropped segments or connections; TCP sends segments again, so no data is lost by it",
        READER,
    ),
    of("IpExt.In*Errors", "IP packets came damaged", CABLE),
];

/// Further counters of TCP that tell of segments thrown away.
const TCP_PRUNED: Meaning = of(
    "TcpExt.*Pruned",
    "TCP threw away received segments for lack of memory; they are sent again",
    READER,
);

/// Words of a driver's own names that tell of a loss or an error.
const DRIVER_WORDS: [&str; 14] = [
    "drop",
    "err",
    "miss",
    "fail",
    "discard",
    "crc",
    "fifo",
    "overrun",
    "overflow",
    "no_buf",
    "nobuf",
    "out_of_buffer",
    "lost",
    "bad",
];

/// All of them.
pub fn meanings() -> impl Iterator<Item = &'static Meaning> {
    MEANINGS.iter().chain([&TCP_PRUNED])
}

/// What the counter `name` means; none for one that does not tell of a loss or an error.
#[must_use]
pub fn meaning_of(name: &str) -> Option<&'static Meaning> {
    let found = meanings().find(|meaning| fits(meaning.pattern, name))?;
    let own = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let tells = !name.starts_with("driver.") || DRIVER_WORDS.iter().any(|word| own.contains(word));
    tells.then_some(found)
}

/// Whether it is the counter of a loss or an error.
pub(super) fn is_loss(name: &str) -> bool {
    meaning_of(name).is_some()
}

/// Whether `name` is `pattern`, where `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name
            .strip_prefix(front)
            .is_some_and(|name| ends(rest, name)),
    }
}

/// Whether any end of `name` fits.
fn ends(rest: &str, name: &str) -> bool {
    rest.is_empty() || name.char_indices().any(|(at, _)| fits(rest, &name[at..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn losses_have_a_meaning_and_traffic_has_none() {
        for (name, part) in [
            ("softnet.cpu3.dropped", "netdev_max_backlog"),
            ("interface.eth0.rx_missed_errors", "ethtool -G"),
            ("interface.eth0.100.rx_dropped", "softnet"),
            ("interface.eth0.tx_fifo_errors", "cable"),
            ("qdisc.veth0.root.tbf.drops", "limit"),
            ("driver.eth0.rx_queue_0_drops", "ring"),
            ("Udp.RcvbufErrors", "rmem_max"),
            ("Udp6.RcvbufErrors", "rmem_max"),
            ("Ip6.ReasmFails", "water mark"),
            ("TcpExt.ListenDrops", "somaxconn"),
            ("TcpExt.RcvPruned", "rmem_max"),
        ] {
            let meaning = meaning_of(name).unwrap_or_else(|| panic!("{name}"));
            assert!(meaning.remedy.contains(part), "{name}: {meaning:?}");
        }
        for name in [
            "interface.eth0.rx_packets",
            "interface.eth0.multicast",
            "driver.eth0.rx_queue_0_packets",
            "driver.err0.rx_packets",
            "qdisc.veth0.root.tbf.overlimits",
            "Udp.InDatagrams",
            "Tcp.RetransSegs",
            "softnet.cpu0.time_squeeze",
            "",
        ] {
            assert_eq!(meaning_of(name), None, "{name}");
        }
    }

    #[test]
    fn each_counter_of_a_link_that_names_an_error_has_a_meaning() {
        let telling = |name: &&&str| {
            let words = ["err", "drop", "nohandler", "collision"];
            words.iter().any(|word| name.contains(word))
        };
        for name in forebay_sys::netlink::LINK_COUNTERS.iter().filter(telling) {
            let name = format!("interface.eth0.{name}");
            assert!(meaning_of(&name).is_some(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_looked_up_without_a_panic(name in "(interface|driver|Udp|[ -~é]|\\.){0,40}") {
            let _ = meaning_of(&name);
        }
    }
}
