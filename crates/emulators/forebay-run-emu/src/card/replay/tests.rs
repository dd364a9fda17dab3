//! What a replay says of itself when it cannot go on.

use std::fs;
use std::path::Path;
use std::time::Instant;

use forebay_ledger::{Leak, Supervisor, audit};
use forebay_ring::BlockConsumer;
use forebay_run::Stop;
use forebay_run::run_dir::open_ledger;
use forebay_run_felix::device::{Wanted, ask};
use forebay_wire::felix::{BlockWriter, Elink};

use super::*;

/// A file of so many empty blocks.
fn file_of(blocks: usize, path: &Path) {
    let format = BlockFormat::phase2(4096).unwrap();
    let mut all = vec![0; blocks * format.bytes()];
    for (number, block) in all.chunks_exact_mut(format.bytes()).enumerate() {
        let elink = Elink::of_link(0).unwrap();
        let writer = BlockWriter::begin(format, elink, (number % 32) as u8, block);
        writer.unwrap().close();
    }
    fs::write(path, all).unwrap();
}

/// A reader that waits until it is shown so many blocks, and then writes an index that cannot be.
fn hostile(socket: &Path, wanted: u64) {
    let begun = Instant::now();
    let (_socket, info, fds) = loop {
        match ask(socket, Wanted::Buffer(0), &|| false) {
            Ok(opened) => break opened,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let index = fds[2].try_clone().unwrap();
    let mut blocks = BlockConsumer::map(&info.spec(0).unwrap(), fds).unwrap();
    while blocks.look().unwrap() < wanted {
        blocks.wait(Duration::from_millis(100)).unwrap();
    }
    rustix::io::pwrite(&index, &(1_u64 << 62).to_ne_bytes(), 128).unwrap();
    // It stays until the card has seen it.
    while !blocks.is_closed() && socket.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_block_in_hand_has_a_name_when_a_reader_ends_it() {
    // The first waits for room, the second for its time.
    for (blocks_hz, shown) in [(None, 16), (Some(1), 1)] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        file_of(40, &path("blocks.dat"));
        let plan = CardPlan {
            socket: path("card.sock"),
            out: Some(path("out")),
            dma_blocks: 16,
            ..CardPlan::of_replay()
        };
        let replay = BlockReplay {
            file: path("blocks.dat"),
            blocks_hz,
            loops: 1,
            headers: false,
        };
        let socket = plan.socket.clone();
        let reader = std::thread::spawn(move || hostile(&socket, shown));
        let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
        let ended = CardReplay { plan, replay }.run(&host);
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("hostile"), "{error}");
        reader.join().unwrap();
        let snapshot = open_ledger(&path("out")).unwrap().snapshot().unwrap();
        let verdict = audit(&snapshot, Supervisor::Gone);
        assert_eq!(verdict.balance.residual_items, 0, "{:?}", verdict.offenders);
        let accounts = &verdict.balance.accounts;
        let card = accounts.iter().find(|line| line.place == "card").unwrap();
        assert_eq!(card.incoming.items, shown + 1);
        assert_eq!(card.outgoing.items, shown);
        assert_eq!(
            (card.dropped[0].reason.as_str(), card.dropped[0].items),
            ("not_shown", 1)
        );
        assert_eq!(card.held.items, 0);
    }
}
