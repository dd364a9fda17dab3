//! Arrows point down only: the crates' dependencies against the drawing in `docs/ARCHITECTURE.md`.

use cargo_metadata::{DependencyKind, Metadata};

use super::Finding;
use super::places::{ENGINES, FACES, RUNTIME, SYSTEMS};
use super::tree::Tree;

const TABLE: &str = "xtask/src/tidy/edges.rs";

/// Which of our crates each crate may use; the drawing, line by line from the ground up.
const ALLOWED: &[(&str, &[&str])] = &[
    ("forebay-wire", &[]),
    ("forebay-ledger", &[]),
    ("forebay-settings", &[]),
    ("forebay-rows", &[]),
    ("forebay-testing", &["forebay-ledger"]),
    ("forebay-sys", &[]),
    ("forebay-host", &["forebay-sys"]),
    ("forebay-ring", &[]),
    ("forebay-client", &["forebay-sys", "forebay-ring"]),
    ("forebay-fabric", &["forebay-wire"]),
    ("forebay-xdp", &["forebay-settings", "forebay-wire"]),
    (
        "forebay-link",
        &[
            "forebay-settings",
            "forebay-wire",
            "forebay-sys",
            "forebay-ring",
            "forebay-fabric",
        ],
    ),
    (
        "forebay-sink",
        &[
            "forebay-wire",
            "forebay-ledger",
            "forebay-sys",
            "forebay-ring",
        ],
    ),
    ("forebay-evb", ENGINE),
    ("forebay-msg", &["forebay-wire", "forebay-settings"]),
    ("forebay-readout", ENGINE),
    ("forebay-flow", ENGINE),
    ("forebay-mux", ENGINE),
    ("forebay-card", BELOW_CARD),
    ("forebay-tdm", ENGINE),
    ("forebay-emu", ENGINE),
    ("forebay-traffic", &["forebay-wire", "forebay-emu"]),
    (
        "forebay-load",
        &["forebay-wire", "forebay-ledger", "forebay-emu"],
    ),
    (
        "forebay-ctt",
        &["forebay-settings", "forebay-emu", "forebay-traffic"],
    ),
    ("forebay-config", &["forebay-settings"]),
    ("forebay-run", BELOW_RUN),
    ("forebay-run-net", BELOW_RUN_NET),
    ("forebay-run-hades", BELOW_RUN_HADES),
    ("forebay-run-evb", BELOW_RUN_EVB),
    ("forebay-run-mover", BELOW_RUN_MOVER),
    ("forebay-run-tdm", BELOW_RUN_TDM),
    ("forebay-run-felix", BELOW_RUN_FELIX),
    ("forebay-run-probe", BELOW_RUN_PROBE),
    ("forebay-run-mux", BELOW_RUN_MUX),
    ("forebay-run-mux-client", BELOW_RUN_MUX_CLIENT),
    ("forebay-run-emu", BELOW_RUN_EMU),
    ("forebay-run-traffic", BELOW_RUN_TRAFFIC),
    ("forebay-run-load", BELOW_RUN_LOAD),
    ("forebay-report", BELOW_REPORT),
    ("forebay-bench", BELOW_FACES),
    (
        "forebay",
        &[
            "forebay-config",
            "forebay-settings",
            "forebay-sys",
            "forebay-host",
            "forebay-run",
            "forebay-run-net",
            "forebay-run-evb",
            "forebay-run-mover",
            "forebay-run-mux",
            "forebay-run-mux-client",
            "forebay-run-tdm",
            "forebay-run-felix",
            "forebay-run-probe",
            "forebay-run-emu",
            "forebay-run-hades",
            "forebay-run-traffic",
            "forebay-run-load",
            "forebay-ctt",
            "forebay-evb",
            "forebay-wire",
            "forebay-ledger",
            "forebay-report",
            "forebay-bench",
        ],
    ),
    (
        "forebay-python",
        &["forebay-client", "forebay-run", "forebay-run-net"],
    ),
    ("forebay-client-c", &["forebay-client"]),
    ("xtask", &["forebay-testing"]),
];

const ENGINE: &[&str] = &["forebay-wire", "forebay-ledger", "forebay-settings"];

const BELOW_RUN: &[&str] = &[
    "forebay-config",
    "forebay-settings",
    "forebay-ledger",
    "forebay-sys",
    "forebay-host",
    "forebay-ring",
    "forebay-link",
];

const BELOW_RUN_NET: &[&str] = &[
    "forebay-config",
    "forebay-settings",
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-link",
    "forebay-msg",
];

const BELOW_RUN_EVB: &[&str] = &[
    "forebay-config",
    "forebay-settings",
    "forebay-run",
    "forebay-run-net",
    "forebay-run-hades",
    "forebay-host",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-ring",
    "forebay-link",
    "forebay-sink",
    "forebay-evb",
    "forebay-msg",
    "forebay-readout",
    "forebay-emu",
];

const BELOW_RUN_MOVER: &[&str] = &[
    "forebay-config",
    "forebay-settings",
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-sink",
];

const BELOW_RUN_TRAFFIC: &[&str] = &[
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-link",
    "forebay-sys",
    "forebay-traffic",
];

const BELOW_RUN_LOAD: &[&str] = &[
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-link",
    "forebay-sys",
    "forebay-load",
];

const BELOW_RUN_PROBE: &[&str] = &[
    "forebay-xdp",
    "forebay-rows",
    "forebay-config",
    "forebay-settings",
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-link",
    "forebay-flow",
    "forebay-traffic",
];

const BELOW_CARD: &[&str] = &[
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-ring",
    "forebay-link",
    "forebay-xdp",
    "forebay-mux",
];

const BELOW_RUN_MUX: &[&str] = &[
    "forebay-card",
    "forebay-config",
    "forebay-settings",
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-ring",
    "forebay-link",
    "forebay-xdp",
    "forebay-mux",
    "forebay-client",
];

const BELOW_RUN_MUX_CLIENT: &[&str] = &[
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-client",
    "forebay-ring",
];

const BELOW_RUN_TDM: &[&str] = &[
    "forebay-run",
    "forebay-run-net",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-tdm",
];

const BELOW_RUN_FELIX: &[&str] = &[
    "forebay-config",
    "forebay-settings",
    "forebay-run",
    "forebay-run-net",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-ring",
    "forebay-link",
    "forebay-msg",
    "forebay-readout",
];

/// Cards are emulated for the readers of cards, whose protocol they speak.
const BELOW_RUN_EMU: &[&str] = &[
    "forebay-config",
    "forebay-settings",
    "forebay-run",
    "forebay-run-net",
    "forebay-run-felix",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-ring",
    "forebay-link",
    "forebay-readout",
    "forebay-emu",
];

/// Sources are emulated in the books of the event builder, which starts them.
const BELOW_RUN_HADES: &[&str] = &[
    "forebay-run",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-emu",
];

/// It shows what systems tell of themselves.
const BELOW_REPORT: &[&str] = &[
    "forebay-rows",
    "forebay-run",
    "forebay-run-evb",
    "forebay-evb",
    "forebay-run-tdm",
    "forebay-ledger",
    "forebay-sys",
];

const BELOW_FACES: &[&str] = &[
    "forebay-ctt",
    "forebay-flow",
    "forebay-report",
    "forebay-run",
    "forebay-run-net",
    "forebay-run-evb",
    "forebay-run-tdm",
    "forebay-run-felix",
    "forebay-run-emu",
    "forebay-run-hades",
    "forebay-run-mux",
    "forebay-load",
    "forebay-wire",
    "forebay-ledger",
    "forebay-sys",
    "forebay-ring",
    "forebay-sink",
    "forebay-link",
    "forebay-evb",
    "forebay-msg",
    "forebay-readout",
    "forebay-tdm",
    "forebay-emu",
    "forebay-xdp",
];

/// What talks to the system: engines need none of it.
const SYSTEM: &[&str] = &[
    "libc",
    "rustix",
    "nix",
    "socket2",
    "mio",
    "tokio",
    "signal-hook",
];

/// The service under the other systems, which they may use.
const MESSAGING: &str = "forebay-run-net";

/// A dependency as a `Cargo.toml` declares it.
pub(super) struct Edge {
    to: String,
    for_tests: bool,
}

/// A crate of the workspace.
pub(super) struct Declared {
    name: String,
    manifest: String,
    edges: Vec<Edge>,
}

/// Every crate of the workspace, with every dependency that it declares.
pub(super) fn declared(metadata: &Metadata) -> Vec<Declared> {
    let packages = metadata.workspace_packages().into_iter();
    packages
        .map(|package| {
            let manifest = package.manifest_path.strip_prefix(&metadata.workspace_root);
            let edges = package.dependencies.iter().map(|dependency| Edge {
                to: dependency.name.clone(),
                for_tests: dependency.kind == DependencyKind::Development,
            });
            Declared {
                name: package.name.to_string(),
                manifest: manifest.unwrap_or(&package.manifest_path).to_string(),
                edges: edges.collect(),
            }
        })
        .collect()
}

pub(super) fn check(tree: &Tree, crates: &[Declared]) -> Vec<Finding> {
    judge_all(crates, &ENGINES.packages(tree), &FACES.packages(tree))
}

fn judge_all(crates: &[Declared], engines: &[String], faces: &[String]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = gone(crates).collect();
    for of in crates {
        let edges = of.edges.iter();
        findings.extend(edges.filter_map(|edge| judge(of, edge, engines, faces)));
        findings.extend(sideways(of, crates));
    }
    findings
}

/// Whatever the table says, the runtime uses no system, and a system no other one but messaging; in tests as well.
fn sideways(of: &Declared, crates: &[Declared]) -> Vec<Finding> {
    let (is_runtime, is_system) = (
        of.manifest.starts_with(RUNTIME),
        of.manifest.starts_with(SYSTEMS),
    );
    if !is_runtime && !is_system {
        return Vec::new();
    }
    let is_service = |edge: &&Edge| is_system && edge.to == MESSAGING;
    let named = |edge: &&Edge| {
        let to = crates.iter().find(|other| other.name == edge.to);
        to.is_some_and(|to| to.name != of.name && to.manifest.starts_with(SYSTEMS))
    };
    let edges = of
        .edges
        .iter()
        .filter(|edge| named(edge) && !is_service(edge));
    let what = |to: &str| match is_runtime {
        true => format!(
            "{} is the runtime, and knows no system: {to} is one",
            of.name
        ),
        false => format!("{} is a system and may not use {to}, another one", of.name),
    };
    let remedy = "hand it in, or move what both need into the runtime";
    edges
        .map(|edge| Finding::new(&of.manifest, what(&edge.to), remedy))
        .collect()
}

/// Rows of the drawing that are no crate.
fn gone(crates: &[Declared]) -> impl Iterator<Item = Finding> {
    let is_gone = |name: &str| !crates.iter().any(|of| of.name == name);
    let rows = ALLOWED.iter().filter(move |(name, _)| is_gone(name));
    rows.map(|(name, _)| {
        Finding::new(
            TABLE,
            format!("the drawing has {name}, which is no crate of the workspace"),
            "give it its new name here, or take its row out",
        )
    })
}

fn judge(of: &Declared, edge: &Edge, engines: &[String], faces: &[String]) -> Option<Finding> {
    let (from, to) = (&of.name, &edge.to);
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| name == from) else {
        let what = format!("the crate {from} is not in the drawing");
        return Some(finding(of, what));
    };
    let ours = to == "xtask" || to == "forebay" || to.starts_with("forebay-");
    if !ours {
        let breaks = !edge.for_tests && engines.contains(from) && SYSTEM.contains(&to.as_str());
        let what = || format!("{from} may not use {to}: it reads no clock, socket or file");
        return breaks.then(|| finding(of, what()));
    }
    let planned = if edge.for_tests {
        !faces.contains(to)
    } else {
        allowed.contains(&to.as_str())
    };
    let when = if edge.for_tests {
        ", not even in tests"
    } else {
        ""
    };
    (!planned).then(|| finding(of, format!("{from} may not use {to}{when}")))
}

fn finding(of: &Declared, what: String) -> Finding {
    Finding::new(
        &of.manifest,
        what,
        format!("move the code to where the arrow points down, or change the drawing and {TABLE}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, edges: Vec<Edge>) -> Declared {
        Declared {
            name: name.into(),
            manifest: format!("crates/{name}/Cargo.toml"),
            edges,
        }
    }

    /// All crates of the drawing, and one with this dependency.
    fn judged(from: &str, to: &str, for_tests: bool) -> Vec<Finding> {
        let edge = Edge {
            to: to.into(),
            for_tests,
        };
        let rows = ALLOWED.iter().map(|(name, _)| one(name, Vec::new()));
        let crates: Vec<Declared> = rows.chain([one(from, vec![edge])]).collect();
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.into()).collect() };
        judge_all(&crates, &names(&["forebay-evb"]), &names(&["forebay"]))
    }

    #[test]
    fn a_row_that_is_no_crate_is_found() {
        let crates: Vec<Declared> = ALLOWED[1..]
            .iter()
            .map(|(name, _)| one(name, Vec::new()))
            .collect();
        let found = judge_all(&crates, &[], &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, TABLE);
        assert!(found[0].what.contains(ALLOWED[0].0), "{}", found[0].what);
    }

    /// The crates of the table of places are drawn, by the names that their manifests give them.
    #[test]
    fn engines_and_faces_of_this_tree_are_in_the_drawing() {
        let tree = Tree::read(&forebay_testing::root()).expect("readable");
        for places in [ENGINES, FACES] {
            let packages = places.packages(&tree);
            assert_eq!(packages.len(), places.entries.len());
            for package in packages {
                assert!(
                    ALLOWED.iter().any(|(name, _)| *name == package),
                    "{package}"
                );
            }
        }
    }

    #[test]
    fn an_arrow_down_is_planned() {
        assert!(judged("forebay-run-evb", "forebay-evb", false).is_empty());
        assert!(judged("forebay-evb", "thiserror", false).is_empty());
    }

    #[test]
    fn an_arrow_up_or_sideways_is_found_with_its_file() {
        for (from, to) in [
            ("forebay-wire", "forebay-ledger"),
            ("forebay-evb", "forebay-sys"),
            ("forebay-run", "forebay"),
            ("forebay-run", "forebay-evb"),
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
    fn a_system_uses_no_other_one_but_messaging_and_the_runtime_none() {
        let at = |floor: &str, name: &str, to: &[(&str, bool)]| Declared {
            name: name.into(),
            manifest: format!("{floor}{name}/Cargo.toml"),
            edges: to
                .iter()
                .map(|(to, for_tests)| Edge {
                    to: (*to).into(),
                    for_tests: *for_tests,
                })
                .collect(),
        };
        let judged = |floor: &str, to: &str, for_tests: bool| {
            let one = at(floor, "one", &[(to, for_tests), ("thiserror", false)]);
            let others = [MESSAGING, "other"].map(|name| at(SYSTEMS, name, &[]));
            let run = at(RUNTIME, "run", &[]);
            let crates: Vec<Declared> = others.into_iter().chain([run, one]).collect();
            let found = sideways(&crates[3], &crates);
            assert!(found.iter().all(|it| it.place.ends_with("one/Cargo.toml")));
            found.len()
        };
        for for_tests in [false, true] {
            for (floor, to, found) in [
                (SYSTEMS, "run", 0),
                (SYSTEMS, MESSAGING, 0),
                (SYSTEMS, "other", 1),
                (RUNTIME, MESSAGING, 1),
                (RUNTIME, "other", 1),
                ("crates/faces/", "other", 0),
            ] {
                assert_eq!(judged(floor, to, for_tests), found, "{floor} -> {to}");
            }
        }
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
