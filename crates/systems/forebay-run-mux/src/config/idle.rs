//! Keys that the policy of their class does not read: each is refused, as it would be believed to hold.

use forebay_config::Block;

use super::classes::PolicyChoice::{
    self, DeficitRoundRobin, Priority, Signalled, Tdm, TokenBucket, Window,
};
use super::{ClassSettings, ClientSettings};

/// Keys of a class, and the policies that read them.
const OF_CLASSES: [(&str, &[PolicyChoice]); 7] = [
    ("burst_packets", &[Signalled]),
    ("level_guard_us", &[Priority]),
    ("window_us", &[Window]),
    ("uncounted_bytes", &[TokenBucket, Window]),
    ("cycle_us", &[Tdm]),
    ("link_rate_bps", &[Tdm]),
    ("overhead_bytes", &[Tdm]),
];
/// Keys of a client, and the policies that read them.
const OF_CLIENTS: [(&str, &[PolicyChoice]); 6] = [
    ("rate_bps", &[TokenBucket, Window]),
    ("burst_bytes", &[TokenBucket]),
    ("level", &[Priority]),
    ("quantum_bytes", &[DeficitRoundRobin]),
    ("slot_offset_us", &[Tdm]),
    ("slot_us", &[Tdm]),
];

/// The policies that read a key of a class or a client; none of a key that all of them read.
pub(crate) fn readers(key: &str) -> Option<&'static [PolicyChoice]> {
    let mut all = OF_CLASSES.iter().chain(&OF_CLIENTS);
    all.find(|(name, _)| *name == key)
        .map(|(_, readers)| *readers)
}

/// Complains of each key that has no effect where it stands.
pub(super) fn check(
    classes: &[(ClassSettings, Block<'_, '_>)],
    clients: &[(ClientSettings, Block<'_, '_>)],
) {
    for (said, block) in classes {
        complain(block, said.policy, &OF_CLASSES);
    }
    if let Some((_, first)) = classes.first() {
        first.idle("guard_us", "no class goes before the first one");
    }
    let usual = ClassSettings::default();
    for (said, block) in clients {
        let class = match classes.get(usize::from(said.class)) {
            Some((class, _)) => class,
            None if classes.is_empty() => &usual,
            // That there is no such class is told by the engine.
            None => continue,
        };
        complain(block, class.policy, &OF_CLIENTS);
    }
}

fn complain(block: &Block<'_, '_>, policy: PolicyChoice, keys: &[(&str, &[PolicyChoice])]) {
    for (key, readers) in keys {
        if !readers.contains(&policy) {
            let names: Vec<_> = readers.iter().map(|reader| reader.name()).collect();
            let (policy, names) = (policy.name(), names.join(" or "));
            let because = format!("its class has the policy {policy}, and {key} is of {names}");
            block.idle(key, &because);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;

    use crate::plan::MuxPlan;

    /// What is told of a file with these classes, and these keys of its one client.
    fn told(classes: &str, of_client: &str) -> Result<MuxPlan, String> {
        let text = format!(
            "[mux]\ninterface = \"eth0\"\n{classes}\n\
             [[clients]]\nname = \"a\"\nuid = 1000\nmac = \"02:00:00:00:00:01\"\n{of_client}\n"
        );
        parse("mux.toml", &text).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn each_key_is_taken_where_its_policy_reads_it_and_told_elsewhere() {
        let policies = [
            "signalled",
            "round-robin",
            "deficit-round-robin",
            "priority",
            "token-bucket",
            "window",
            "tdm",
        ];
        for (key, of_client, readers) in [
            ("burst_packets = 8", false, &policies[..1]),
            ("level_guard_us = 8", false, &policies[3..4]),
            ("window_us = 800", false, &policies[5..6]),
            ("uncounted_bytes = 42", false, &policies[4..6]),
            ("cycle_us = 5000", false, &policies[6..]),
            ("link_rate_bps = 100000000", false, &policies[6..]),
            ("overhead_bytes = 20", false, &policies[6..]),
            ("slot_us = 500", true, &policies[6..]),
            ("rate_bps = 100000", true, &policies[4..6]),
            ("burst_bytes = 6400", true, &policies[4..5]),
            ("level = 3", true, &policies[3..4]),
            ("quantum_bytes = 2000", true, &policies[2..3]),
        ] {
            for policy in policies {
                let class = format!("[[classes]]\npolicy = \"{policy}\"");
                // A client of a schedule has a window.
                let window = ["", "slot_offset_us = 0"][usize::from(policy == "tdm")];
                let found = if of_client {
                    told(&class, &format!("{window}\n{key}"))
                } else {
                    told(&format!("{class}\n{key}"), window)
                };
                if readers.contains(&policy) {
                    assert!(found.is_ok(), "{key} of {policy}: {found:?}");
                    continue;
                }
                let wrong = found.unwrap_err();
                let (name, value) = key.split_once(" = ").unwrap();
                for part in [name, value, policy, readers[0], "take it out"] {
                    assert!(wrong.contains(part), "{key} of {policy}: {wrong}");
                }
            }
        }
    }

    #[test]
    fn the_usual_class_and_the_first_one_are_held_as_well() {
        let wrong = told("", "rate_bps = 100000").unwrap_err();
        assert!(wrong.contains("round-robin"), "{wrong}");
        let wrong = told("[[classes]]\nguard_us = 10", "").unwrap_err();
        assert!(wrong.contains("guard_us"), "{wrong}");
        let second = "[[classes]]\n[[classes]]\npolicy = \"window\"\nguard_us = 10";
        assert!(told(second, "class = 1\nrate_bps = 100000").is_ok());
        let wrong = told(second, "class = 0\nrate_bps = 100000").unwrap_err();
        assert!(wrong.contains("round-robin"), "{wrong}");
    }
}
