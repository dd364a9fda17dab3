//! The `[[clients]]` blocks: the user of each client, the frames that are for it, and how much it may have.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use forebay_client::protocol::{ADDRESSES_MAX, Name};
use forebay_config::Block;
use forebay_mux::{CLIENTS_MAX, Mac};
use forebay_settings::{Text, Wrong, choices, settings, text_setting};

use super::{DriverChoice, MuxSettings};

/// An Ethernet address, as a file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddress(pub Mac);

impl FromStr for MacAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = bytes_of(text)?;
        let is_station = bytes[0] & 1 == 0 && bytes != [0; 6];
        is_station.then_some(Self(Mac(bytes))).ok_or(())
    }
}

/// Six bytes of two hexadecimal digits.
fn bytes_of(text: &str) -> Result<[u8; 6], ()> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2).ok_or(())?;
        *byte = u8::from_str_radix(part, 16).map_err(drop)?;
    }
    parts.next().is_none().then_some(bytes).ok_or(())
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

static MAC: Text = Text {
    right: "a text: an Ethernet address of one station, as \"02:00:00:00:00:01\"",
    right_list: "a list of different Ethernet addresses",
    check: |text| {
        let read = text.parse::<MacAddress>().map(drop);
        let remedy =
            "write six bytes of two hexadecimal digits, the first one even, not all of them zero";
        read.map_err(|()| Wrong::new("it is no Ethernet address of one station", remedy))
    },
};

text_setting!(MacAddress, MAC);

/// A group of stations, by its address in Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAddress(pub Mac);

impl FromStr for GroupAddress {
    type Err = ();

    /// Of an address of IP, the one that it has in Ethernet (RFC 1112, RFC 2464).
    fn from_str(text: &str) -> Result<Self, ()> {
        let mac = match text.parse() {
            Ok(IpAddr::V4(group)) if group.is_multicast() => {
                let [_, b, c, d] = group.octets();
                Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
            }
            Ok(IpAddr::V6(group)) if group.is_multicast() => {
                let [.., a, b, c, d] = group.octets();
                Mac([0x33, 0x33, a, b, c, d])
            }
            Ok(_) => return Err(()),
            Err(_) => Mac(bytes_of(text)?),
        };
        let is_group = mac.is_group() && mac != Mac::BROADCAST;
        is_group.then_some(Self(mac)).ok_or(())
    }
}

impl fmt::Display for GroupAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

static GROUP: Text = Text {
    right: "a text: the address of a group, as \"239.1.2.3\", \"ff02::fb\" or \"01:00:5e:01:02:03\"",
    right_list: "a list of different addresses of groups",
    check: |text| {
        let read = text.parse::<GroupAddress>().map(drop);
        let remedy = "write one of 224.0.0.0/4 or ff00::/8, or six bytes of two hexadecimal digits, the first one odd; all stations are `broadcast = true`";
        read.map_err(|()| Wrong::new("it is no address of a group", remedy))
    },
};

text_setting!(GroupAddress, GROUP);

choices! {
    /// Where frames for a client lie.
    pub enum ReceiveChoice {
        /// In memory of its own, into which each is copied.
        Copied = "copied",
        /// Where the driver has received them. The client can read all frames that come, also those of other clients. For one that is trusted, with the driver xdp or tap.
        Shared = "shared",
    }
}

settings! {
    /// A place for a client: a process of one user comes in by its name, and gets what is for it.
    pub struct ClientSettings in [[clients]] {
        /// Its name, 32 characters at most.
        name: Option<String>,
        /// The user (number) that may take the place: no other one is let in.
        uid: Option<u32>,
        /// Its Ethernet address: the sender that its frames must name, and the receiver of frames for it.
        mac: Option<MacAddress>,
        /// Its IP addresses, 8 at most: questions for them (ARP, neighbour discovery) are answered with its Ethernet address. With ports below, frames must be to one of them.
        address: Vec<IpAddr> = Vec::new() => "none",
        /// Its VLAN, by the number of the outermost tag: it gets frames of that one alone, and may send in no other one.
        vlan: Option<u16> [1..=4094] => "any, and none",
        /// Frames to these ports of UDP alone are for it; several clients with one Ethernet address may so share it.
        udp_ports: Vec<u16> = Vec::new() => "all",
        /// Frames to these ports of TCP alone are for it.
        tcp_ports: Vec<u16> = Vec::new() => "all",
        /// Frames to all stations (broadcast) come to it.
        broadcast: bool = false,
        /// Frames to all groups of stations (multicast) come to it.
        multicast: bool = false,
        /// Frames to these groups come to it, by the address of each in IP (as 239.1.2.3 or ff02::fb) or in Ethernet. Groups of IP that share an address in Ethernet (RFC 1112: 32 of version 4) come together.
        groups: Vec<GroupAddress> = Vec::new() => "none",
        /// Most received frames that it may hold: by default as many short ones as a link of 1 Gb/s brings in 0.7 ms, as cards hand frames over in bursts of 1 ms.
        queue: u32 [1..=65_536] = 1024,
        /// Received frames that it may always hold, whatever others do.
        guarantee: u32 [0..=65_536] = 16,
        /// Its class for sending, by its place among the blocks; the first one is 0.
        class: u8 [0..=7] = 0,
        /// What it sends is copied once, when it goes, and no more when it is handed over: less work, and its packets can change after that. It can harm nobody's memory, and name no other sender.
        trusted: bool = false,
        /// Where its frames lie: in memory of its own, into which each is copied, or where the driver has received them. Shared needs `trusted` and the driver xdp or tap, and the client can read all frames that come to the card.
        receive: ReceiveChoice = ReceiveChoice::Copied,
        /// Most frames that wait to be sent.
        transmit_queue: u32 [1..=65_536] = 256,
        /// Longest that a frame waits to be sent; one that would wait longer is dropped. 0: without a bound.
        sojourn_max_us: Option<u64> [0..=60_000_000] => "with a limit 10,000, two long packets at its rate, or a window, whichever is longest; else without a bound",
        /// For token-bucket and window: bits in a second.
        rate_bps: Option<u64> [8000..=1_000_000_000_000] => "as fast as there is room",
        /// For token-bucket: most bytes above the rate.
        burst_bytes: u32 [64..=1_048_576] = 65_536,
        /// For priority: its level; 0 goes first.
        level: u8 [0..=7] = 0,
        /// For deficit-round-robin: bytes of its turn.
        quantum_bytes: u32 [1514..=1_048_576] = 1514,
        /// For tdm: begin of its window, from that of the cycle.
        slot_offset_us: Option<u64> [0..=60_000_000] => "it has no window",
        /// For tdm: length of its window.
        slot_us: u64 [1..=60_000_000] = 1000,
    }
}

/// What no single key says.
pub(super) fn check(
    clients: &[(ClientSettings, Block<'_, '_>)],
    card: &MuxSettings,
    whole: &Block<'_, '_>,
) {
    if clients.is_empty() || clients.len() > CLIENTS_MAX {
        whole.complain_whole(
            &format!("there are {} clients", clients.len()),
            "1 to 256 [[clients]] blocks",
            "add a block with name, uid and mac",
        );
    }
    let mut names = HashSet::new();
    for (said, block) in clients {
        check_shared(said, card.driver, block);
        for (key, right, remedy) in NEEDED {
            if !block.has(key) {
                block.complain_whole(&format!("it has no {key}"), right, remedy);
            }
        }
        let Some(name) = &said.name else {
            continue;
        };
        if Name::new(name).is_err() {
            block.complain(
                "name",
                "it is too long",
                "32 characters at most",
                "shorten it",
            );
        }
        if !names.insert(name) {
            block.complain(
                "name",
                "another client has it",
                "a name of its own",
                "choose another name",
            );
        }
        if let Some([wrong, right, remedy]) = said.beyond_queue("guarantee") {
            block.complain("guarantee", &wrong, &right, &remedy);
        }
        if said.multicast && !said.groups.is_empty() {
            block.complain(
                "groups",
                "it has frames to all groups already (multicast = true)",
                "one of both",
                "take one of them out",
            );
        }
        if said.address.len() > ADDRESSES_MAX {
            block.complain("address", "they are too many", "8 at most", "take some out");
        }
    }
}

impl ClientSettings {
    /// What is wrong with its guarantee or queue, of which `key` is looked at: what, what would be right, and the remedy.
    pub(crate) fn beyond_queue(&self, key: &str) -> Option<[String; 3]> {
        let (queue, guarantee) = (self.queue, self.guarantee);
        if guarantee <= queue {
            return None;
        }
        match key {
            "guarantee" => Some([
                format!("it is more than the client's queue of {queue} frames"),
                format!("0 to {queue}"),
                format!("write {queue} or less, or a longer queue"),
            ]),
            "queue" => Some([
                format!("it is less than the {guarantee} frames that the client is guaranteed"),
                format!("{guarantee} or more"),
                format!("write {guarantee} or more, or a smaller guarantee"),
            ]),
            _ => None,
        }
    }
}

/// Whether a client may read frames where the driver has received them.
fn check_shared(said: &ClientSettings, driver: DriverChoice, block: &Block<'_, '_>) {
    if !said.shares() {
        return;
    }
    if !said.trusted {
        block.complain(
            "receive",
            "the client could read the frames of all others, and is not trusted",
            "\"copied\", or \"shared\" for a client that is trusted",
            "take it out, or add trusted = true",
        );
    }
    if !matches!(driver, DriverChoice::Tap | DriverChoice::Xdp) {
        let wrong = format!("the driver is {}, which receives elsewhere", driver.name());
        block.complain(
            "receive",
            &wrong,
            "\"copied\", or \"shared\" with the driver xdp or tap",
            "take it out, or set driver = \"xdp\"",
        );
    }
}

const NEEDED: [(&str, &str, &str); 3] = [
    (
        "name",
        "the name by which it comes in",
        "add name = \"echo\"",
    ),
    (
        "uid",
        "the number of the user that may take the place",
        "add uid = 1000, as `id -u` says",
    ),
    (
        "mac",
        "an Ethernet address of its own",
        "add mac = \"02:00:00:00:00:01\"",
    ),
];

impl MuxSettings {
    /// The limit of lies, none where there is none.
    pub(crate) const fn faults_max(&self) -> Option<u32> {
        match self.faults_of_a_kind_max {
            0 => None,
            most => Some(most),
        }
    }
}
