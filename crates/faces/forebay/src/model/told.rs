//! What the model comes to, in text and JSON.

use anyhow::Result;
use forebay_config::ConfigFile as _;
use forebay_ctt::fit::{CONSTANTS, Fit, quantity_of};
use forebay_ctt::published::{FITTED_ON, Published, Quantity};
use forebay_ctt::{Edition, Outcome, Parameters};
use forebay_settings::Settings as _;
use serde_json::{Map, Value, json};

use super::{Computed, ParametersFile};
use crate::output::{Format, note_line, print_line};

const QUANTITIES: [(Quantity, &str); 3] = [
    (Quantity::Drop, "drop_percent"),
    (Quantity::Hit, "hit_percent"),
    (Quantity::Latency, "latency_ns_mean"),
];

const fn word(edition: Edition) -> &'static str {
    match edition {
        Edition::Default => "default",
        Edition::Small => "small",
    }
}

/// What a search found.
pub(super) fn fit(fit: &Fit) {
    let found = CONSTANTS.iter().map(|constant| {
        let value = fit.parameters.value(constant.name).unwrap_or_default();
        let at_bound = if value == constant.from || value == constant.to {
            " (at its bound)"
        } else {
            ""
        };
        format!("{}={value}{at_bound}", constant.name)
    });
    let found: Vec<String> = found.collect();
    note_line(format_args!(
        "forebay: {} tries, error {:.3}: {}",
        fit.tries,
        fit.error,
        found.join(", ")
    ));
}

/// Parameters, as a file that can be read again.
pub(super) fn parameters(parameters: &Parameters, format: Format) -> Result<()> {
    if format == Format::Json {
        print_line(serde_json::to_string(&values(parameters))?);
        return Ok(());
    }
    for section in ParametersFile::SECTIONS {
        print_line(format_args!("[{}]", section.name));
        for key in section.keys {
            let value = match section.name {
                "table" => parameters.table.get(key.name),
                _ => parameters.memory.get(key.name),
            };
            print_line(format_args!("# {}", key.says));
            if let Some(value) = value {
                print_line(format_args!("{} = {value}", key.name));
            }
        }
    }
    Ok(())
}

fn values(parameters: &Parameters) -> Value {
    let sections = ParametersFile::SECTIONS.iter().map(|section| {
        let keys = section.keys.iter().map(|key| {
            let value = parameters.value(&format!("{}.{}", section.name, key.name));
            let flag =
                (key.name == "retention_renewed").then_some(parameters.table.retention_renewed);
            let value = value.map_or_else(|| json!(flag), |value| json!(value));
            (
                key.name.to_owned(),
                json!({ "value": value, "says": key.says }),
            )
        });
        (section.name.to_owned(), Value::Object(keys.collect()))
    });
    Value::Object(sections.collect())
}

/// Published values, the model's, and what is left.
pub(super) fn comparison(parameters: &Parameters, all: &[Computed], format: Format) -> Result<()> {
    if format == Format::Json {
        let rows: Vec<Value> = all.iter().map(row).collect();
        let object = json!({
            "is": "a model, fitted on some profiles; no measurement",
            "fitted_on": FITTED_ON,
            "parameters": values(parameters),
            "rows": rows,
        });
        print_line(serde_json::to_string(&object)?);
        return Ok(());
    }
    print_line(
        "published (first edition | July 2025 where it has the value), model, and model less the nearer published value",
    );
    print_line(format_args!(
        "{:<21}{:<6}{:<8}{:>22}{:>31}{:>41}",
        "profile", "for", "packets", "drop %", "hit %", "mean latency ns"
    ));
    for one in all {
        let cells: Vec<String> = QUANTITIES
            .iter()
            .map(|(quantity, _)| cell(one, *quantity))
            .collect();
        let is_fitted = if FITTED_ON.contains(&one.profile.stands_for) {
            "  fitted"
        } else {
            ""
        };
        print_line(format_args!(
            "{:<21}{:<6}{:<8}{}{}{}{is_fitted}",
            one.profile.name,
            one.profile.stands_for,
            word(one.edition),
            cells[0],
            cells[1],
            cells[2],
        ));
    }
    print_line(format_args!(
        "Memory: {:.0} M contexts/s at most.",
        parameters.memory_rate_hz() / 1e6
    ));
    Ok(())
}

/// The published value that is nearer to the model's, and both.
fn published(one: &Computed, quantity: Quantity) -> Option<(f64, (f64, Option<f64>))> {
    let both = Published::of(one.profile.stands_for)?.values(one.edition, quantity);
    let found = quantity_of(&one.outcome, quantity);
    let nearer = match both {
        (first, Some(july)) if (found - july).abs() < (found - first).abs() => july,
        (first, _) => first,
    };
    Some((nearer, both))
}

fn cell(one: &Computed, quantity: Quantity) -> String {
    let found = quantity_of(&one.outcome, quantity);
    let digits = if quantity == Quantity::Latency { 0 } else { 1 };
    let Some((nearer, both)) = published(one, quantity) else {
        return format!("{found:.digits$}");
    };
    let said = match both {
        (first, Some(july)) if quantity != Quantity::Drop => {
            format!("{first:.digits$} | {july:.digits$}")
        }
        (first, _) => format!("{first:.digits$}"),
    };
    let width = match quantity {
        Quantity::Drop => (6, 8, 8),
        Quantity::Hit => (14, 8, 9),
        Quantity::Latency => (17, 10, 14),
    };
    let residual = found - nearer;
    format!(
        "{said:>a$}{found:>b$.digits$}{residual:>+c$.digits$}",
        a = width.0,
        b = width.1,
        c = width.2
    )
}

fn row(one: &Computed) -> Value {
    let (mut first, mut july, mut model, mut residual) =
        (Map::new(), Map::new(), Map::new(), Map::new());
    for (quantity, name) in QUANTITIES {
        let found = quantity_of(&one.outcome, quantity);
        model.insert(name.into(), json!(found));
        if let Some((nearer, both)) = published(one, quantity) {
            first.insert(name.into(), json!(both.0));
            july.insert(name.into(), json!(both.1));
            residual.insert(name.into(), json!(found - nearer));
        }
    }
    json!({
        "profile": one.profile.name,
        "stands_for": one.profile.stands_for,
        "packets": word(one.edition),
        "fitted": FITTED_ON.contains(&one.profile.stands_for),
        "published": first,
        "published_july_2025": july,
        "model": model,
        "residual": residual,
        "outcome": outcome(&one.outcome),
    })
}

fn outcome(outcome: &Outcome) -> Value {
    json!({
        "packets_in": outcome.packets_in,
        "packets_out": outcome.packets_out,
        "packets_dropped": outcome.packets_dropped,
        "packets_held": outcome.packets_held,
        "bytes_in": outcome.bytes_in,
        "bytes_out": outcome.bytes_out,
        "bytes_dropped": outcome.bytes_dropped,
        "bytes_held": outcome.bytes_held,
        "hits": outcome.hits,
        "misses": outcome.misses,
        "contexts_fetched": outcome.contexts_fetched,
        "contexts_written": outcome.contexts_written,
        "contexts_held": outcome.contexts_held,
        "offered_rate_hz": outcome.offered_rate_hz(),
        "miss_rate_hz": outcome.miss_rate_hz(),
        "latency_ns_mean": outcome.latency_ns_mean,
        "latency_ns_p25": outcome.latency_ns_p25,
        "latency_ns_p50": outcome.latency_ns_p50,
        "latency_ns_p75": outcome.latency_ns_p75,
    })
}

/// A row for each line, memory, profile and edition.
pub(super) fn sweep(
    variants: &[(String, Parameters)],
    computed: &[Vec<Computed>],
    format: Format,
) -> Result<()> {
    let each = || {
        variants
            .iter()
            .zip(computed)
            .flat_map(|((name, parameters), all)| {
                all.iter().map(move |one| (name, parameters, one))
            })
    };
    if format == Format::Json {
        let rows: Vec<Value> = each()
            .map(|(name, parameters, one)| {
                json!({
                    "variant": name,
                    "memory_rate_hz": parameters.memory_rate_hz(),
                    "profile": one.profile.name,
                    "stands_for": one.profile.stands_for,
                    "packets": word(one.edition),
                    "outcome": outcome(&one.outcome),
                    "drop_percent": quantity_of(&one.outcome, Quantity::Drop),
                    "hit_percent": quantity_of(&one.outcome, Quantity::Hit),
                })
            })
            .collect();
        let object = json!({ "is": "a model, fitted on some profiles; no measurement", "fitted_on": FITTED_ON, "rows": rows });
        print_line(serde_json::to_string(&object)?);
        return Ok(());
    }
    print_line(format_args!(
        "{:<16}{:>14}  {:<21}{:<8}{:>8}{:>8}{:>12}",
        "line, memory", "contexts/s", "profile", "packets", "drop %", "hit %", "latency ns"
    ));
    for (name, parameters, one) in each() {
        print_line(format_args!(
            "{name:<16}{:>12.0} M  {:<21}{:<8}{:>8.1}{:>8.1}{:>12.0}",
            parameters.memory_rate_hz() / 1e6,
            one.profile.name,
            word(one.edition),
            quantity_of(&one.outcome, Quantity::Drop),
            quantity_of(&one.outcome, Quantity::Hit),
            one.outcome.latency_ns_mean,
        ));
    }
    Ok(())
}
