//! The files of cards and of batches of them: TOML in, plans out, or every mistake with its place and its remedy. It is the machinery of [configuration files](forebay_config) with
//! other sections.

mod batch;
mod card;
mod chunks;
mod faults;
mod links;
mod queues;
mod ttc;
mod words;

use forebay_config::{ConfigFile, Sections};
use forebay_run_felix::config::ToFlxSettings;
use forebay_run_felix::tohost::ToHostFile;
use forebay_settings::Settings;

use crate::card::CardPlan;
pub use batch::{BatchSettings, DefectSettings};

/// Which kind of file of link readout a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// That of a card.
    Card,
    /// That of to-host.
    ToHost,
    /// That of a batch of cards to validate.
    Batch,
    /// That of to-flx.
    ToFlx,
}

/// The kind of a text, by its sections; none when it has none that only these files have.
#[must_use]
pub fn kind_of(text: &str) -> Option<FileKind> {
    let (table, _) = toml::de::DeTable::parse_recoverable(text);
    let has = |sections: Sections| {
        let mut keys = table.get_ref().keys();
        keys.any(|key| {
            sections
                .iter()
                .any(|section| section.name == &**key.get_ref())
        })
    };
    if has(&[BatchSettings::SECTION]) {
        Some(FileKind::Batch)
    } else if has(CardPlan::SECTIONS) {
        Some(FileKind::Card)
    } else if has(&[ToFlxSettings::SECTION]) {
        Some(FileKind::ToFlx)
    } else if has(ToHostFile::SECTIONS) {
        Some(FileKind::ToHost)
    } else {
        None
    }
}

/// 0 stands for none.
fn positive(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;
    use forebay_emu::Pick;
    use forebay_emu::card::CardFault;
    use forebay_settings::Absent;
    use forebay_wire::felix::Elink;

    use super::*;

    #[test]
    fn the_examples_are_as_they_say() {
        let card =
            parse::<CardPlan>("card.toml", include_str!("../../../../examples/card.toml")).unwrap();
        assert_eq!(card.config.elinks.len(), 12);
        assert_eq!(card.config.ttc.limit.duration_ns, Some(10_000_000_000));
        assert_eq!((card.dma_blocks, card.config.buffers), (16_384, 2));
        let text = include_str!("../../../../examples/tohost.toml");
        let tohost = parse::<ToHostFile>("tohost.toml", text).unwrap();
        assert_eq!(tohost.devices[0].socket, card.socket);
        assert_eq!(tohost.devices[0].buffers, None);
        // What is commented out is the default: it changes nothing.
        let written = |text: &str| {
            let lines = text.lines().map(|line| match line.strip_prefix("# ") {
                Some(key) if key.contains(" = ") && !key.contains('`') => key,
                _ => line,
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let same = parse::<ToHostFile>("tohost.toml", &written(text)).unwrap();
        assert_eq!(
            same.devices[0].settings.messages,
            tohost.devices[0].settings.messages
        );
        assert_eq!((same.said.detector, same.said.subscribers_min), (0, 0));
    }

    #[test]
    fn every_fault_can_be_asked_for_by_its_name() {
        for name in CardFault::NAMES {
            let text = format!(
                "[[links]]\nlinks = [3]\n[[faults]]\nkind = \"{name}\"\nelink = 192\nfirst = 10\ncount = 5\nevery = 2\n"
            );
            let card = parse::<CardPlan>("card.toml", &text).unwrap();
            let rule = &card.config.faults[0];
            assert_eq!(rule.fault.name(), name);
            assert_eq!((rule.triggers.clone(), rule.pick), (10..15, Pick::Every(2)));
            assert_eq!(rule.elink, Elink::of_link(3));
        }
    }

    #[test]
    fn times_of_triggers_need_numbers_that_go_on() {
        let text = |ecr: &str| {
            format!("[card]\ntrigger_times = \"times\"\n[ttc]\n{ecr}\n[[links]]\nlinks = [0]\n")
        };
        let card = parse::<CardPlan>("card.toml", &text("")).unwrap();
        assert_eq!(card.trigger_times, Some("times".into()));
        let mistakes =
            parse::<CardPlan>("card.toml", &text("ecr_period_us = 1000000")).unwrap_err();
        let told = mistakes.to_string();
        assert!(
            told.contains("trigger_times") && told.contains("reset"),
            "{told}"
        );
    }

    #[test]
    fn a_declared_default_of_a_card_is_the_one_that_holds() {
        let shortest = "[[links]]\nlinks = [0]\n";
        let mut text = String::new();
        for section in CardPlan::SECTIONS {
            let header = section.header();
            if section.many {
                continue;
            }
            text += &format!("{header}\n");
            let apart = [
                "trains",
                "train_bunches",
                "gap_bunches",
                "min_bytes",
                "max_bytes",
                "sigma_percent",
                "ramp_triggers",
            ];
            for key in section.keys.iter().filter(|key| !apart.contains(&key.name)) {
                if let Absent::Value(value) = key.absent {
                    text += &format!("{} = {}\n", key.name, value());
                }
            }
        }
        let written = parse::<CardPlan>("card.toml", &format!("{text}{shortest}")).unwrap();
        let usual = parse::<CardPlan>("card.toml", shortest).unwrap();
        assert_eq!(written.config, usual.config);
        assert_eq!(written.dma_blocks, usual.dma_blocks);
        assert_eq!(written.drain, usual.drain);
    }
}
