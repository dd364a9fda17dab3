//! What each driver needs of the file, and what it does not read.

use forebay_config::Block;

use super::{DriverChoice, MuxSettings};

/// Complains of a card that is not named, and of keys of another driver.
pub(super) fn check(said: &MuxSettings, block: &Block<'_, '_>) {
    if said.driver != DriverChoice::Xdp {
        let because = format!(
            "the driver is {}, and xdp_copy is of xdp",
            said.driver.name()
        );
        block.idle("xdp_copy", &because);
    }
    if said.driver == DriverChoice::Pcap {
        block.idle("interface", "the driver pcap has files and no interface");
        check_files(said, block);
        return;
    }
    if !block.has("interface") {
        let remedy = "add interface = \"eth0\"";
        block.complain_whole("it names no card", "the interface that is shared", remedy);
    }
    for key in ["pcap_read", "pcap_write"] {
        let because = format!("the driver is {}, and {key} is of pcap", said.driver.name());
        block.idle(key, &because);
    }
}

fn check_files(said: &MuxSettings, block: &Block<'_, '_>) {
    if !block.has("pcap_read") && !block.has("pcap_write") {
        let remedy = "add pcap_read = \"in.pcap\", pcap_write = \"out.pcap\", or both";
        let right = "the files that are read and written";
        block.complain_whole("it names no card", right, remedy);
    }
    if said.pcap_read.is_some() && said.pcap_read == said.pcap_write {
        let wrong = "is the file that is read";
        block.complain("pcap_write", wrong, "another file", "name another file");
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;

    use crate::plan::MuxPlan;

    fn told(keys: &str) -> Result<MuxPlan, String> {
        let text = format!(
            "[mux]\n{keys}\n[[clients]]\nname = \"a\"\nuid = 1000\nmac = \"02:00:00:00:00:01\"\n"
        );
        parse("mux.toml", &text).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn each_driver_is_taken_with_what_it_needs() {
        for driver in ["packet", "packet-blocks", "xdp", "tap"] {
            let plan = told(&format!("driver = \"{driver}\"\ninterface = \"eth0\"")).unwrap();
            assert_eq!(plan.settings.driver.name(), driver);
        }
        let pcap = "driver = \"pcap\"";
        for files in [
            "pcap_read = \"a\"",
            "pcap_write = \"a\"",
            "pcap_read = \"a\"\npcap_write = \"b\"",
        ] {
            assert!(told(&format!("{pcap}\n{files}")).is_ok());
        }
    }

    #[test]
    fn a_bucket_of_less_than_a_millisecond_of_its_rate_is_warned_of() {
        let of = |keys: &str| {
            let classes = "[[classes]]\n[[classes]]\npolicy = \"token-bucket\"";
            let client = "[[clients]]\nname = \"b\"\nuid = 1\nmac = \"02:00:00:00:00:02\"";
            let plan = told(&format!(
                "interface = \"eth0\"\n{classes}\n{client}\n{keys}"
            ))
            .unwrap();
            plan.small_bursts().collect::<Vec<_>>()
        };
        let small = of("class = 1\nrate_bps = 50000000\nburst_bytes = 6249");
        assert_eq!(small.len(), 1);
        for part in ["client b: burst_bytes = 6249", "write 6250 or more"] {
            assert!(small[0].contains(part), "{part}: {small:?}");
        }
        let none = Vec::<String>::new();
        assert_eq!(
            of("class = 1\nrate_bps = 50000000\nburst_bytes = 6250"),
            none
        );
        assert_eq!(of("class = 1\nburst_bytes = 64"), none);
    }

    #[test]
    fn who_shares_is_trusted_and_has_a_driver_that_can() {
        let of = |driver: &str, keys: &str| {
            let card = format!("driver = \"{driver}\"\ninterface = \"eth0\"");
            let client = "[[clients]]\nname = \"b\"\nuid = 1000\nmac = \"02:00:00:00:00:02\"";
            told(&format!("{card}\n{client}\nreceive = \"shared\"\n{keys}"))
        };
        for driver in ["tap", "xdp"] {
            let plan = of(driver, "trusted = true").unwrap();
            let shares = plan.clients.iter().map(|client| client.shares());
            assert!(shares.eq([true, false]));
        }
        let wrong = of("tap", "").unwrap_err();
        for part in [
            "mux.toml:8",
            "receive",
            "is not trusted",
            "add trusted = true",
        ] {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
        for driver in ["packet", "packet-blocks"] {
            let wrong = of(driver, "trusted = true").unwrap_err();
            let because = format!("the driver is {driver}, which receives elsewhere");
            for part in ["mux.toml:8", &because, "set driver = \"xdp\""] {
                assert!(wrong.contains(part), "{part}: {wrong}");
            }
        }
    }

    #[test]
    fn what_a_driver_lacks_or_does_not_read_is_told_with_its_place_and_a_remedy() {
        for (keys, parts) in [
            ("", &["it names no card", "add interface"][..]),
            ("driver = \"tap\"", &["it names no card", "add interface"]),
            ("driver = \"pcap\"", &["it names no card", "add pcap_read"]),
            (
                "driver = \"pcap\"\ninterface = \"eth0\"\npcap_read = \"a\"",
                &["mux.toml:3", "interface", "eth0", "take it out"],
            ),
            (
                "interface = \"eth0\"\npcap_write = \"b.pcap\"",
                &[
                    "mux.toml:3",
                    "b.pcap",
                    "the driver is packet",
                    "take it out",
                ],
            ),
            (
                "driver = \"pcap\"\npcap_read = \"a.pcap\"\npcap_write = \"a.pcap\"",
                &["mux.toml:4", "pcap_write", "a.pcap", "name another file"],
            ),
            (
                "interface = \"eth0\"\nxdp_copy = \"never\"",
                &[
                    "mux.toml:3",
                    "xdp_copy",
                    "the driver is packet",
                    "take it out",
                ],
            ),
            (
                "driver = \"dpdk\"",
                &["mux.toml:2", "dpdk", "packet-blocks"],
            ),
        ] {
            let wrong = told(keys).unwrap_err();
            for part in parts {
                assert!(wrong.contains(part), "{part}: {wrong}");
            }
        }
    }
}
