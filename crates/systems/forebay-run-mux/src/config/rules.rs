//! The `[[rules]]` blocks: which frames are for a client, where its own keys are not enough.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use forebay_config::Block;
use forebay_mux::ClientId;
use forebay_mux::classify::{Prefix, Rule};
use forebay_settings::{Text, Wrong, choices, settings, text_setting};
use forebay_wire::packet::{TCP, UDP};

use super::ClientSettings;

/// Addresses that begin with the same bits, or one alone, as a file has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub Prefix);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| "it is no IP address")?;
        let Some(bits) = bits else {
            return Ok(Self(Prefix::exact(address)));
        };
        let bits = bits.parse().map_err(|_| {
            format!("{bits} is no number of bits that addresses can have in common")
        })?;
        let prefix = Prefix::new(address, bits).map_err(|error| error.to_string())?;
        Ok(Self(prefix))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

static NETWORK: Text = Text {
    right: "a text: an IP address, or a prefix as \"192.0.2.0/24\"",
    right_list: "a list of different IP addresses or prefixes",
    check: |text| {
        let read = text.parse::<Network>().map(drop);
        let remedy = "write the lowest address and how many bits all have in common";
        read.map_err(|wrong| Wrong::new(wrong, remedy))
    },
};

text_setting!(Network, NETWORK);

choices! {
    /// A protocol in an IP packet that has ports.
    pub enum ProtocolChoice {
        /// UDP.
        Udp = "udp",
        /// TCP.
        Tcp = "tcp",
    }
}

settings! {
    /// Frames for a client: to its Ethernet address and in its VLAN, with all that is said here. One that has such blocks gets what one of them takes, and not all that is sent to its Ethernet address.
    pub struct RuleSettings in [[rules]] {
        /// The client's name.
        client: Option<String>,
        /// The sender's IP address, or a prefix of it.
        source: Option<Network> => "any",
        /// The receiver's IP address, or a prefix of it.
        destination: Option<Network> => "any",
        /// The protocol. A fragment has no ports, the first one as little as the others.
        protocol: Option<ProtocolChoice> => "any",
        /// The sender's port.
        source_port: Option<u16> => "any",
        /// The receiver's port.
        destination_port: Option<u16> => "any",
    }
}

impl RuleSettings {
    /// Whether it is of this client.
    pub(crate) fn is_of(&self, client: &ClientSettings) -> bool {
        self.client.is_some() && self.client == client.name
    }

    /// What the engine is told.
    pub(crate) fn rule(&self, number: ClientId, client: &ClientSettings) -> Rule {
        Rule {
            destination_mac: Some(client.mac()),
            vlan: client.vlan,
            source: self.source.map(|it| it.0),
            destination: self.destination.map(|it| it.0),
            protocol: self.protocol.map(|protocol| match protocol {
                ProtocolChoice::Udp => UDP,
                ProtocolChoice::Tcp => TCP,
            }),
            source_port: self.source_port,
            destination_port: self.destination_port,
            ..Rule::of(number)
        }
    }
}

/// What no single key says.
pub(super) fn check(
    rules: &[(RuleSettings, Block<'_, '_>)],
    clients: &[(ClientSettings, Block<'_, '_>)],
) {
    for (client, block) in clients {
        if rules.iter().any(|(rule, _)| rule.is_of(client)) {
            for key in ["udp_ports", "tcp_ports"] {
                block.idle(key, "frames for it are said in [[rules]]");
            }
        }
    }
    for (said, block) in rules {
        let right = "the name of a [[clients]] block";
        if said.client.is_none() {
            block.complain_whole("it has no client", right, "add client = \"echo\"");
        } else if !clients.iter().any(|(client, _)| said.is_of(client)) {
            let names = clients
                .iter()
                .filter_map(|(client, _)| client.name.as_deref());
            let names: Vec<_> = names.collect();
            let remedy = format!("name one of {}", names.join(", "));
            block.complain("client", "no client has this name", right, &remedy);
        }
        if said.protocol.is_none() {
            for key in ["source_port", "destination_port"] {
                if block.has(key) {
                    let right = "a protocol beside it";
                    let remedy = "add protocol = \"udp\" or \"tcp\"";
                    block.complain(key, "a port needs a protocol", right, remedy);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;
    use forebay_mux::classify::Verdict;

    use super::*;
    use crate::MuxPlan;

    const CLIENTS: &str = "[mux]\ninterface = \"lo\"\n[[clients]]\nname = \"a\"\nuid = 1\nmac = \"02:00:00:00:00:01\"\n[[clients]]\nname = \"b\"\nuid = 1\nmac = \"02:00:00:00:00:01\"\n";

    fn told(rules: &str) -> Result<MuxPlan, String> {
        let text = format!("{CLIENTS}{rules}");
        parse("mux.toml", &text).map_err(|error| error.to_string())
    }

    /// A datagram to both clients' station.
    fn datagram(from: [u8; 5], to: [u8; 5], protocol: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
        frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend(&from[..4]);
        frame.extend(&to[..4]);
        frame.extend([0, from[4], 0, to[4], 0, 20, 0, 0, 0, 0, 0, 0, 0x50]);
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn clients_of_one_station_share_it_by_prefixes_and_by_connections() {
        let plan = told(
            "[[rules]]\nclient = \"a\"\ndestination = \"192.0.2.0/25\"\n\
             [[rules]]\nclient = \"b\"\ndestination = \"192.0.2.128/25\"\n\
             [[rules]]\nclient = \"b\"\nsource = \"198.51.100.7\"\ndestination = \"192.0.2.1\"\nprotocol = \"udp\"\nsource_port = 7\ndestination_port = 8\n",
        )
        .unwrap();
        let rules = plan.classifier().unwrap();
        let far = [198, 51, 100, 7, 7];
        for (from, to, protocol, client) in [
            (far, [192, 0, 2, 1, 9], UDP, Some(0)),
            (far, [192, 0, 2, 127, 8], UDP, Some(0)),
            (far, [192, 0, 2, 128, 8], UDP, Some(1)),
            // The connection.
            (far, [192, 0, 2, 1, 8], UDP, Some(1)),
            (far, [192, 0, 2, 1, 8], TCP, Some(0)),
            ([198, 51, 100, 7, 6], [192, 0, 2, 1, 8], UDP, Some(0)),
            ([198, 51, 100, 8, 7], [192, 0, 2, 1, 8], UDP, Some(0)),
            // Of neither, though it is to their station.
            (far, [192, 0, 3, 1, 8], UDP, None),
        ] {
            let found = match rules.classify(&datagram(from, to, protocol)) {
                Verdict::Client(client) => Some(client.index()),
                Verdict::Dropped(_) => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(found, client, "{from:?} {to:?} {protocol}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_told_with_its_place_and_a_remedy() {
        // Without rules both have the same frames.
        let wrong = told("").unwrap_err();
        for part in [
            "mux.toml:7",
            "more specific",
            "; client 0 is a; client 1 is b",
        ] {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
        let one = "[[rules]]\nclient = \"a\"\ndestination = \"192.0.2.1\"\n";
        for (rules, parts) in [
            (
                "[[rules]]\nclient = \"c\"\n".to_owned(),
                ["rules[0].client", "name one of a, b"],
            ),
            (
                "[[rules]]\ndestination = \"192.0.2.1\"\n".to_owned(),
                ["rules[0]", "it has no client"],
            ),
            (
                "[[rules]]\nclient = \"a\"\nsource = \"192.0.2.1/24\"\n".to_owned(),
                ["rules[0].source", "no prefix"],
            ),
            (
                "[[rules]]\nclient = \"a\"\nsource = \"192.0.2\"\n".to_owned(),
                ["rules[0].source", "it is no IP address"],
            ),
            (
                "[[rules]]\nclient = \"a\"\nsource = \"192.0.2.0/300\"\n".to_owned(),
                ["rules[0].source", "300 is no number of bits"],
            ),
            (
                format!("{one}source_port = 7\n"),
                ["rules[0].source_port", "add protocol"],
            ),
            (
                format!("{one}[[rules]]\nclient = \"b\"\ndestination = \"192.0.2.1\"\n"),
                ["mux.toml:14", "more specific"],
            ),
        ] {
            let wrong = told(&rules).unwrap_err();
            for part in parts {
                assert!(wrong.contains(part), "{rules}: {wrong}");
            }
        }
        // Nor is a key of a client in vain.
        let ports = CLIENTS.replacen("name = \"b\"", "name = \"b\"\nudp_ports = [7]", 1);
        let rules = format!(
            "{one}{}",
            one.replace("\"a\"\n", "\"b\"\nsource = \"192.0.2.9\"\n")
        );
        let wrong = parse::<MuxPlan>("mux.toml", &format!("{ports}{rules}")).unwrap_err();
        assert!(wrong.to_string().contains("udp_ports"), "{wrong}");
    }
}
