//! How the command line and files name a plugin.

use std::fmt;
use std::str::FromStr;

use forebay_flow::plugins::PluginKind;
use forebay_settings::{Text, Wrong, text_setting};

/// A plugin that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginChoice(pub PluginKind);

impl FromStr for PluginChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for PluginChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

static PLUGIN: Text = Text {
    right: "the name of a plugin, as \"tls\"",
    right_list: "a list of different plugins, as [\"pstats\", \"tls\"]",
    check: |text| {
        text.parse::<PluginChoice>().map(drop).map_err(|_| {
            Wrong::new(
                "it names no plugin",
                format!(
                    "write one of {}",
                    PluginKind::ALL.map(PluginKind::name).join(", ")
                ),
            )
        })
    },
};

text_setting!(PluginChoice, PLUGIN);
