//! `forebay elinks` with the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::Path;

use rig::{Ended, forebay, start};

fn elinks(args: &[&str], file: &Path) -> Ended {
    let (verb, more) = args.split_first().unwrap();
    start(forebay().args(["elinks", verb]).arg(file).args(more)).end()
}

#[test]
fn a_map_is_shown_drawn_changed_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("card.toml");
    let example = forebay_testing::root().join("examples/card.toml");
    fs::copy(example, &file).unwrap();
    let picture = directory.path().join("map.svg");
    let shown = elinks(&["show", "--svg", picture.to_str().unwrap()], &file);
    assert_eq!(shown.code(), Some(0), "{}", shown.stderr);
    assert!(
        shown.stdout.contains("DMA buffer 1: 6 E-links"),
        "{}",
        shown.stdout
    );
    assert!(fs::read_to_string(&picture).unwrap().starts_with("<svg "));
    assert_eq!(elinks(&["check"], &file).code(), Some(0));

    let set = [
        "set",
        "--links",
        "0-3",
        "--dma-buffer",
        "1",
        "--format",
        "json",
    ];
    let map = elinks(&set, &file).json_of(0);
    assert_eq!(map["buffers"][0]["elinks"], 2);
    assert_eq!(map["buffers"][1]["elinks"], 10);
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("# Readers open the card here"),
        "remarks stay: {text}"
    );
    let check = start(
        forebay()
            .args(["elinks", "show", "--format", "json"])
            .arg(&file),
    )
    .end();
    assert_eq!(check.json_of(0), map);

    // All of them in one: the other has nothing to do, which is told.
    assert_eq!(
        elinks(&["set", "--links", "4,5", "--dma-buffer", "1"], &file).code(),
        Some(0)
    );
    let idle = elinks(&["check"], &file);
    assert_eq!(idle.code(), Some(1));
    assert!(
        idle.stdout.contains("DMA buffer 0 has no E-link"),
        "{}",
        idle.stdout
    );

    let before = fs::read_to_string(&file).unwrap();
    for (args, part) in [
        (
            &["set", "--links", "0", "--dma-buffer", "7"][..],
            "no such buffer",
        ),
        (&["set"], "no E-link is named"),
        (&["set", "--elinks", "0x900"], "up to 2047"),
    ] {
        let refused = elinks(args, &file);
        assert_eq!(refused.code(), Some(2), "{}", refused.stdout);
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}
