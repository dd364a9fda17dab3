//! How a multiplexer stands, as a table for people.

use std::fmt::Write;

use serde_json::Value;

const HEADS: [&str; 10] = [
    "client", "process", "class", "held", "given", "asked", "sent", "waiting", "wait max", "lies",
];

/// The table; with what was before, with rates.
pub(super) fn table(now: &Value, before: Option<&Value>) -> String {
    let mut text = format!(
        "{}: link {}, MTU {}; running for {:.1} s, {} frames in, {} of {} receive buffers free, {} settings changed\n",
        word(&now["interface"]),
        word(&now["link"]),
        now["mtu_bytes"],
        now["uptime_s"].as_f64().unwrap_or_default(),
        now["frames_in"],
        now["receive_buffers"]["free"],
        now["receive_buffers"]["all"],
        now["changes"],
    );
    counts(&mut text, "dropped", &now["drops"]);
    for class in list(&now["classes"]) {
        let _ = writeln!(
            text,
            "class {}: {}",
            class["class"],
            settings(&class["settings"])
        );
    }
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(list(&now["clients"]).iter().map(row));
    let widths: Vec<usize> = (0..HEADS.len())
        .map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for client in list(&now["clients"]) {
        detail(&mut text, client);
        if let Some(rates) = before.and_then(|before| rates(now, before, client)) {
            let _ = writeln!(text, "{}: {rates}", word(&client["name"]));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// The sum of the counts in an object.
fn total(counts: &Value) -> u64 {
    let counts = counts.as_object().into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).sum()
}

fn settings(values: &Value) -> String {
    let values = values.as_object().into_iter().flatten();
    let said = values.filter(|(_, value)| !value.is_null());
    let said: Vec<_> = said
        .map(|(key, value)| match value.as_str() {
            Some(text) => format!("{key}={text}"),
            None => format!("{key}={value}"),
        })
        .collect();
    said.join(" ")
}

fn row(client: &Value) -> [String; 10] {
    let set = &client["settings"];
    let count = |key: &str| client[key].to_string();
    [
        word(&client["name"]).to_owned(),
        match client["is_connected"].as_bool() {
            Some(true) => count("pid"),
            _ => "gone".to_owned(),
        },
        set["class"].to_string(),
        format!("{}/{}", client["frames_held"], set["queue"]),
        count("frames_given"),
        count("packets_asked"),
        count("packets_sent"),
        count("packets_waiting"),
        format!(
            "{} us",
            client["sojourn_ns_max"].as_u64().unwrap_or(0) / 1000
        ),
        total(&client["lies"]).to_string(),
    ]
}

/// What a client may do, and what was dropped of it.
fn detail(text: &mut String, client: &Value) {
    let name = word(&client["name"]);
    let trusted = match client["is_trusted"].as_bool() {
        Some(true) => " trusted=true",
        _ => "",
    };
    let sharing = match client["is_sharing"].as_bool() {
        Some(true) => " receive=shared",
        _ => "",
    };
    let bound = match client["sojourn_bound_us"].as_u64() {
        Some(bound_us) if client["settings"]["sojourn_max_us"].is_null() => {
            format!(" (sojourn_bound_us={bound_us})")
        }
        _ => String::new(),
    };
    let set = settings(&client["settings"]);
    let _ = writeln!(text, "{name}: {set}{trusted}{sharing}{bound}");
    let [rang, idle] = ["bells", "idle_bells"].map(|key| client[key].as_u64().unwrap_or(0));
    if idle > 0 {
        let _ = writeln!(
            text,
            "{name}: rang {rang} times, {idle} of them for nothing"
        );
    }
    counts(text, &format!("{name}: dropped"), &client["drops"]);
    counts(text, &format!("{name}: lied"), &client["lies"]);
}

/// A line for each count.
fn counts(text: &mut String, what: &str, counts: &Value) {
    for (why, count) in counts.as_object().into_iter().flatten() {
        let _ = writeln!(text, "{what} {why}: {count}");
    }
}

/// What a client was given and sent in a second, since the look before.
fn rates(now: &Value, before: &Value, client: &Value) -> Option<String> {
    let time_s = now["uptime_s"].as_f64()? - before["uptime_s"].as_f64()?;
    let before = list(&before["clients"]);
    let before = before
        .iter()
        .find(|other| other["name"] == client["name"])?;
    let per_s = |key: &str| {
        let more = client[key].as_u64()?.checked_sub(before[key].as_u64()?)?;
        Some(more as f64 / time_s)
    };
    (time_s > 0.0).then_some(())?;
    Some(format!(
        "in a second: {:.0} frames given ({:.1} Mb/s), {:.0} packets asked, {:.0} sent ({:.1} Mb/s)",
        per_s("frames_given")?,
        per_s("bytes_given")? * 8e-6,
        per_s("packets_asked")?,
        per_s("packets_sent")?,
        per_s("bytes_sent")? * 8e-6,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(uptime_s: f64, packets_sent: u64) -> Value {
        json!({
            "interface": "eth0", "link": "no-carrier", "mtu_bytes": 1500, "drops": {"mux_card_in.too_long": 480}, "uptime_s": uptime_s, "frames_in": 5, "changes": 1,
            "receive_buffers": {"all": 64, "free": 60},
            "classes": [{"class": 0, "settings": {"policy": "priority", "level_guard_us": 1000, "guard_us": null}}],
            "clients": [{
                "name": "a", "is_trusted": true, "is_sharing": true, "is_connected": true, "pid": 7, "frames_held": 4, "frames_given": 5,
                "bytes_given": 500, "packets_asked": packets_sent, "packets_sent": packets_sent,
                "bytes_sent": packets_sent * 1000, "packets_waiting": 2, "sojourn_ns_max": 9000, "sojourn_bound_us": 10_000, "bells": 9, "idle_bells": 4,
                "lies": {"send.length": 3}, "drops": {"mux_deliver.queue_full": 6},
                "settings": {"class": 0, "queue": 8, "rate_bps": null, "level": 1},
            }],
        })
    }

    #[test]
    fn all_that_is_known_of_a_client_is_in_the_table() {
        let text = table(&at(3.0, 30), Some(&at(1.0, 10)));
        for part in [
            "dropped mux_card_in.too_long: 480",
            "eth0: link no-carrier, MTU 1500; running for 3.0 s, 5 frames in, 60 of 64 receive buffers free, 1 settings changed",
            "class 0: level_guard_us=1000 policy=priority",
            "client  process  class  held  given  asked  sent  waiting  wait max  lies",
            "a             7      0   4/8      5     30    30        2      9 us     3",
            "a: class=0 level=1 queue=8 trusted=true receive=shared (sojourn_bound_us=10000)",
            "a: rang 9 times, 4 of them for nothing",
            "a: dropped mux_deliver.queue_full: 6",
            "a: lied send.length: 3",
            "10 sent (0.1 Mb/s)",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(!table(&at(3.0, 30), None).contains("in a second"));
    }
}
