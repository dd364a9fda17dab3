//! Chain files through the command line: `check`, and `evb` with its metrics.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what must not be"
)]

mod rig;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

fn forebay() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("forebay"))
}

/// Exit code, standard output, standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = forebay().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn file(directory: &Path, text: &str) -> String {
    let path = directory.join("chain.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn keys_of_the_command_line_are_for_one_member() {
    let chain = forebay_testing::root().join("examples/chain.toml");
    for verb in ["check", "doctor"] {
        let words = [verb, chain.to_str().unwrap(), "--set", "tohost.detector=1"];
        let (code, out, err) = run(&words);
        assert_eq!(code, Some(2), "{out}{err}");
        assert!(err.contains("--only NAME --set"), "{err}");
    }
}

#[test]
fn the_example_is_good_and_its_use_is_told() {
    let example = forebay_testing::root().join("examples/hades.toml");
    let example = example.to_str().unwrap();
    let (code, out, _) = run(&["check", example]);
    assert_eq!(code, Some(0), "{out}");
    // Five of the sources leave it to the host.
    let queues = ((60 * 2 + 20 * 4 + 10 * 16) << 20) + 5 * forebay_run_evb::presets::ring_bytes(95);
    for part in [
        "95 sources on 127.0.0.1:50000-50091",
        "sink file: HLD files in data/hades",
        &format!("memory at most {queues} (sources' queues)"),
    ] {
        assert!(out.contains(part), "{out}");
    }
    let (code, out, _) = run(&["check", example, "--format", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["good"], &report["sources"]),
        (Some(0), &true.into(), &95.into())
    );
    assert_eq!(report["sinks"][1]["kind"], "null");
    let parts = report["memory"]
        .as_object()
        .unwrap()
        .values()
        .map(|part| part.as_u64().unwrap());
    assert_eq!(report["memory_bytes"].as_u64().unwrap(), parts.sum::<u64>());
    assert!(
        report["host"]
            .as_array()
            .unwrap()
            .iter()
            .any(|check| check["name"] == "net.ipv4.udp_mem")
    );
}

#[test]
fn a_mistake_is_told_with_its_place_and_exits_with_2() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(
        directory.path(),
        "[builder]\ntimeout_s = 1\n[[sources]]\nport = 5\n",
    );
    for verb in ["check", "evb", "run"] {
        let (code, out, error) = run(&[verb, &path]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
        assert!(
            error.contains("chain.toml:2:1: builder.timeout_s = 1: there is no such key"),
            "{error}"
        );
        assert!(
            error.contains("remedy: did you mean timeout_ms?"),
            "{error}"
        );
    }
    let (code, out, _) = run(&["check", &path, "--format", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["good"]), (Some(2), &false.into()));
    let mistake = &report["mistakes"][0];
    assert_eq!(
        (&mistake["line"], &mistake["column"], &mistake["key"]),
        (&2.into(), &1.into(), &"builder.timeout_s".into())
    );
    let (code, _, error) = run(&["check", "/no/such.toml"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("cannot read /no/such.toml"), "{error}");
}

#[test]
fn keys_of_the_command_line_go_before_those_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(
        directory.path(),
        "[run]\nduration_s = 5\n[[sources]]\nbase_port = 50000\ncount = 2\n[[sinks]]\nkind = \"file\"\n[[sinks]]\nname = \"b\"\n",
    );
    let said = [
        "run.duration_s=7",
        "run.directory=other place",
        "sinks[1].kind=null",
        "builder.completion=wait",
    ];
    let mut arguments = vec!["check", &path, "--format", "json"];
    arguments.extend(said.iter().flat_map(|said| ["--set", said]));
    let (code, out, error) = run(&arguments);
    assert_eq!(code, Some(0), "{out}{error}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["duration_s"], 7.0);
    assert_eq!(report["directory"], "other place");
    assert_eq!(report["completion"], "wait");
    let kinds = [0, 1].map(|sink| report["sinks"][sink]["kind"].as_str().unwrap().to_owned());
    assert_eq!(kinds, ["file", "null"]);
    for (kind, said, wrong) in [
        (
            "hades",
            "builder.timeout_ms=0",
            "--set: builder.timeout_ms = 0: it is too small",
        ),
        (
            "card",
            "card.dma_buffers=9",
            "--set: card.dma_buffers = 9: it is too large",
        ),
        (
            "tohost",
            "devices[7].socket=a",
            "--set: devices.socket = \"a\": the file has no such block",
        ),
        (
            "toflx",
            "toflx.drain=1",
            "--set: toflx.drain = 1: there is no such key",
        ),
        (
            "batch",
            "batch.cards=none",
            "--set: batch.cards = \"none\": it is a text",
        ),
    ] {
        let example = forebay_testing::root().join(format!("examples/{kind}.toml"));
        let example = example.to_str().unwrap();
        let verb: &[&str] = match kind {
            "hades" => &["evb"],
            "card" => &["emulate", "card"],
            "batch" => &["card", "validate"],
            other => &[other],
        };
        for verb in [&["check"], verb] {
            let arguments = [verb, &[example, "--set", said]].concat();
            let (code, out, error) = run(&arguments);
            assert_eq!(
                (code, out.as_str()),
                (Some(2), ""),
                "{arguments:?}: {error}"
            );
            assert!(
                error.contains(wrong) && error.contains("remedy: "),
                "{arguments:?}: {error}"
            );
        }
    }
    let (code, _, error) = run(&["evb", "--sources", "2", "--set", "run.name=a"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("FILE"), "{error}");
}

#[test]
fn the_reference_lists_every_section() {
    let (code, out, _) = run(&["check", "--reference"]);
    assert_eq!(code, Some(0));
    for header in [
        "[run]",
        "[receiver]",
        "[[sources]]",
        "[builder]",
        "[[sinks]]",
    ] {
        assert!(out.contains(&format!("### `{header}`")), "{out}");
    }
}

#[test]
fn a_doctor_answers_for_any_host() {
    let (code, out, _) = run(&["doctor", "--format", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, report["checks"].as_array().unwrap().len()),
        (Some(0), 10)
    );
}

#[test]
fn completions_and_the_manual_know_the_verbs() {
    for arguments in [&["completions", "bash"][..], &["man"]] {
        let (code, out, _) = run(arguments);
        assert_eq!(code, Some(0));
        assert!(out.contains("emulate") && out.contains("audit"), "{out}");
    }
}

/// A run from a file that counts what it gets, with the file's limits overridden on the command line.
#[test]
fn a_chain_runs_flags_take_precedence_and_prometheus_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let text = "[run]\nname = \"small\"\nduration_s = 3600\nstages = \"threads\"\ndirectory = \"/no/such/place\"\n\
                metrics = \"127.0.0.1:1\"\n[[sources]]\nname = \"left\"\nport = 0\nqueue_bytes = 1048576\n\
                [[sources]]\nname = \"right\"\nport = 0\nqueue_bytes = 1048576\n[[sinks]]\nkind = \"null\"\n";
    let path = file(directory.path(), text);
    let out = directory.path().join("run");
    let mut child = forebay()
        .args([
            "evb",
            &path,
            "--duration",
            "1500ms",
            "--metrics",
            "0",
            "--format",
            "json",
            "--out",
        ])
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let line = said
        .find(|line| line.starts_with("metrics at http://"))
        .unwrap();
    let address = line
        .trim_start_matches("metrics at http://")
        .trim_end_matches("/metrics")
        .to_owned();
    let rest = std::thread::spawn(move || said.count());
    let page = rig::scrape(&address);
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    assert!(
        page.contains("owner=\"left\"") && page.ends_with("# EOF\n"),
        "{page}"
    );
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        summary["run_id"].as_str().unwrap().starts_with("small-"),
        "{summary}"
    );
    assert_eq!(
        (&summary["residual_items"], &summary["condition"]),
        (&0.into(), &"ended".into())
    );
    let (code, text, _) = run(&["audit", out.to_str().unwrap(), "--format", "prometheus"]);
    assert_eq!(code, Some(0));
    assert!(
        text.ends_with("# EOF\n") && text.contains("forebay_items_total{"),
        "{text}"
    );
}
