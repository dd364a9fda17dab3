//! Faults as texts in a plan that is handed to another process.

use forebay_emu::FaultRule;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(rules: &[FaultRule], to: S) -> Result<S::Ok, S::Error> {
    let texts: Vec<String> = rules.iter().map(ToString::to_string).collect();
    texts.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<FaultRule>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts
        .iter()
        .map(|text| text.parse().map_err(serde::de::Error::custom))
        .collect()
}
