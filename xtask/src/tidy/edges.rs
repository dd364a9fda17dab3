//! Arrows point down only: the crates' dependencies against the drawing in `docs/ARCHITECTURE.md`.

use cargo_metadata::{DependencyKind, Metadata};

use super::Finding;

const TABLE: &str = "xtask/src/tidy/edges.rs";

/// Which of our crates each crate may use; the drawing, line by line from the ground up.
const ALLOWED: &[(&str, &[&str])] = &[
    ("forebay-testing", &[]),
    ("forebay-wire", &[]),
    ("forebay-ledger", &[]),
    ("forebay-sys", &[]),
    ("forebay-ring", &[]),
    ("forebay-fabric", &[]),
    (
        "forebay-link",
        &["forebay-sys", "forebay-ring", "forebay-fabric"],
    ),
    ("forebay-evb", &["forebay-wire", "forebay-ledger"]),
    ("forebay-msg", &["forebay-wire"]),
    ("forebay-readout", &["forebay-wire"]),
    ("forebay-tdm", &["forebay-wire"]),
    ("forebay-emu", &["forebay-wire", "forebay-ledger"]),
    ("forebay-run", BELOW_RUN),
    ("forebay-bench", BELOW_FACES),
    (
        "forebay",
        &[
            "forebay-run",
            "forebay-wire",
            "forebay-ledger",
            "forebay-bench",
        ],
    ),
    ("forebay-python", &["forebay-run"]),
    ("xtask", &["forebay-testing"]),
];

const BELOW_RUN: &[&str] = &[
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-ring",
    "forebay-link",
    "forebay-evb",
    "forebay-msg",
    "forebay-readout",
    "forebay-tdm",
    "forebay-emu",
];

const BELOW_FACES: &[&str] = &[
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-ring",
    "forebay-link",
    "forebay-evb",
    "forebay-msg",
    "forebay-readout",
    "forebay-tdm",
    "forebay-emu",
];

/// Nothing may rest on these, tests included.
const FACES: &[&str] = &["forebay", "forebay-bench", "forebay-python", "xtask"];

/// Crates that are told the time and handed bytes, and so need nothing that talks to the system.
const SANS_IO: &[&str] = &[
    "forebay-wire",
    "forebay-ledger",
    "forebay-evb",
    "forebay-msg",
    "forebay-readout",
    "forebay-tdm",
    "forebay-emu",
];
const SYSTEM: &[&str] = &[
    "libc",
    "rustix",
    "nix",
    "socket2",
    "mio",
    "tokio",
    "signal-hook",
];

/// A dependency as a `Cargo.toml` declares it.
pub(super) struct Edge {
    from: String,
    to: String,
    for_tests: bool,
}

/// Every dependency that a crate of the workspace declares.
pub(super) fn declared(metadata: &Metadata) -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in metadata.workspace_packages() {
        edges.extend(package.dependencies.iter().map(|dependency| Edge {
            from: package.name.to_string(),
            to: dependency.name.clone(),
            for_tests: dependency.kind == DependencyKind::Development,
        }));
    }
    edges
}

pub(super) fn check(edges: &[Edge]) -> Vec<Finding> {
    edges.iter().filter_map(judge).collect()
}

fn judge(edge: &Edge) -> Option<Finding> {
    let Edge {
        from,
        to,
        for_tests,
    } = edge;
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| name == from) else {
        return Some(finding(
            edge,
            format!("the crate {from} is not in the drawing"),
        ));
    };
    let ours = to == "xtask" || to == "forebay" || to.starts_with("forebay-");
    if !ours {
        let breaks =
            !for_tests && SANS_IO.contains(&from.as_str()) && SYSTEM.contains(&to.as_str());
        return breaks.then(|| {
            finding(
                edge,
                format!("{from} may not use {to}: it reads no clock, socket or file"),
            )
        });
    }
    let planned = if *for_tests {
        !FACES.contains(&to.as_str())
    } else {
        allowed.contains(&to.as_str())
    };
    (!planned).then(|| {
        finding(
            edge,
            format!(
                "{from} may not use {to}{}",
                if *for_tests {
                    ", not even in tests"
                } else {
                    ""
                }
            ),
        )
    })
}

fn finding(edge: &Edge, what: String) -> Finding {
    let manifest = if edge.from == "xtask" {
        "xtask/Cargo.toml".into()
    } else {
        format!("crates/{}/Cargo.toml", edge.from)
    };
    Finding::new(
        manifest,
        what,
        format!("move the code to where the arrow points down, or change the drawing and {TABLE}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(from: &str, to: &str, for_tests: bool) -> Vec<Finding> {
        check(&[Edge {
            from: from.into(),
            to: to.into(),
            for_tests,
        }])
    }

    #[test]
    fn an_arrow_down_is_planned() {
        assert!(judged("forebay-run", "forebay-evb", false).is_empty());
        assert!(judged("forebay-evb", "thiserror", false).is_empty());
    }

    #[test]
    fn an_arrow_up_or_sideways_is_found_with_its_file() {
        for (from, to) in [
            ("forebay-wire", "forebay-ledger"),
            ("forebay-evb", "forebay-sys"),
            ("forebay-run", "forebay"),
        ] {
            let found = judged(from, to, false);
            assert_eq!(found.len(), 1, "{from} -> {to}");
            assert_eq!(found[0].place, format!("crates/{from}/Cargo.toml"));
        }
    }

    #[test]
    fn tests_may_reach_sideways_but_not_into_faces() {
        assert!(judged("forebay-evb", "forebay-emu", true).is_empty());
        assert_eq!(judged("forebay-evb", "forebay", true).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(judged("forebay-surprise", "thiserror", false).len(), 1);
    }

    #[test]
    fn an_engine_needs_no_system() {
        assert_eq!(judged("forebay-evb", "libc", false).len(), 1);
        assert!(judged("forebay-evb", "libc", true).is_empty());
        assert!(judged("forebay-sys", "libc", false).is_empty());
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        for (position, (name, below)) in ALLOWED.iter().enumerate() {
            for other in *below {
                let at = ALLOWED
                    .iter()
                    .position(|(n, _)| n == other)
                    .expect("every crate has a row");
                assert!(
                    at < position,
                    "{name} rests on {other}, which stands later in the table"
                );
            }
        }
    }
}
