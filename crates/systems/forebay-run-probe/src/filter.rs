//! How the command line and files write a rule of the packet filter, and what is told of it.

use std::fmt;
use std::str::FromStr;

use forebay_flow::Volume;
use forebay_flow::filter::{Filter, Rule, RuleCounts};
use forebay_settings::{Text, Wrong, text_setting};
use serde::Serialize;

const RIGHT: &str = "a rule, as \"drop src 10.0.0.0/8 port 53 udp\"";

/// A rule that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRule(pub Rule);

impl FromStr for FilterRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rule = text.parse().map(Self);
        rule.map_err(|error: forebay_flow::filter::RuleError| {
            format!("{error}; {}", error.remedy())
        })
    }
}

impl fmt::Display for FilterRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

static RULE: Text = Text {
    right: RIGHT,
    right_list: "a list of different rules, as [\"drop src 10.0.0.0/8 port 53 udp\", \"sample 1/10\"]",
    check: |text| {
        let rule = text.parse::<Rule>().map(drop);
        rule.map_err(|error| Wrong::new(error.to_string(), error.remedy()))
    },
};

text_setting!(FilterRule, RULE);

/// What a rule of the filter has done, in all threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleSummary {
    /// The rule.
    pub rule: String,
    /// Packets that it was the first to match.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Those of them that it discarded: dropped, or left out by sampling.
    pub packets_discarded: u64,
    /// Their octets.
    pub octets_discarded: u64,
    /// Packets of which it took bytes.
    pub packets_trimmed: u64,
}

/// Each rule with the counts of all filters, which have the same rules.
pub(crate) fn summaries<'a>(filters: impl Iterator<Item = &'a Filter>) -> Vec<RuleSummary> {
    let mut all: Vec<(&Rule, RuleCounts)> = Vec::new();
    for (lane, filter) in filters.enumerate() {
        if lane == 0 {
            all.extend(
                filter
                    .rules()
                    .map(|(rule, _)| (rule, RuleCounts::default())),
            );
        }
        for ((_, sum), (_, counts)) in all.iter_mut().zip(filter.rules()) {
            sum.matched += counts.matched;
            sum.discarded += counts.discarded;
            sum.trimmed += counts.trimmed;
        }
    }
    all.into_iter().map(RuleSummary::of).collect()
}

impl RuleSummary {
    fn of((rule, counts): (&Rule, RuleCounts)) -> Self {
        let (matched, discarded): (Volume, Volume) = (counts.matched, counts.discarded);
        Self {
            rule: rule.to_string(),
            packets: matched.packets,
            octets: matched.octets,
            packets_discarded: discarded.packets,
            octets_discarded: discarded.octets,
            packets_trimmed: counts.trimmed,
        }
    }
}
