//! Link readout with the real binary: a card, to-host and subscribers as processes, on good days and on bad ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;

use forebay_run::run_dir::open_ledger;
use forebay_run_felix::device::Device;
use rig::{
    Run, account_items, at_work, audit_json, chunks_published, forebay, signal, start, wait_for,
};
use serde_json::Value;

const LINKS: u64 = 12;

/// A chain in a directory of its own.
struct Chain {
    directory: tempfile::TempDir,
    address: String,
}

impl Chain {
    /// Two DMA buffers of 64 MiB, six links in each: seconds of what is written into them, so that a busy machine holds no trigger back.
    fn new(ttc: &str, name: &str) -> Self {
        let address = format!("shm://{name}-{}", std::process::id());
        Self::at(ttc, 64 << 20, address)
    }

    /// With DMA buffers so small that they are soon full.
    fn narrow(ttc: &str, name: &str) -> Self {
        let address = format!("shm://{name}-{}", std::process::id());
        Self::at(ttc, 1 << 20, address)
    }

    /// The same with chunks of another size.
    fn sized(ttc: &str, chunk_bytes: u32, name: &str) -> Self {
        let chain = Self::narrow(ttc, name);
        let file = chain.path("card.toml");
        let text = fs::read_to_string(&file).unwrap();
        let sized = text.replace("\nbytes = 100\n", &format!("\nbytes = {chunk_bytes}\n"));
        fs::write(&file, sized).unwrap();
        chain
    }

    fn at(ttc: &str, dma_bytes: u32, address: String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let card = format!(
            "[card]\nsocket = {socket:?}\ndma_buffers = 2\ndma_bytes = {dma_bytes}\ndirectory = {out:?}\ndrain_s = 20\n[ttc]\n{ttc}\n[chunks]\nbytes = 100\n\
             [[links]]\nlinks = [0, 1, 2, 3, 4, 5]\n[[links]]\nlinks = [6, 7, 8, 9, 10, 11]\ndma_buffer = 1\n",
            socket = directory.path().join("card.sock"),
            out = directory.path().join("card"),
        );
        fs::write(directory.path().join("card.toml"), card).unwrap();
        Self { directory, address }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn card(&self) -> Run {
        let file = self.path("card.toml");
        let mut run = start(
            forebay()
                .args(["emulate", "card"])
                .arg(file)
                .args(["--format", "json"]),
        );
        let socket = self.path("card.sock");
        let is_over = wait_for("the card", || {
            let is_over = run.is_over();
            (socket.exists() || is_over).then_some(is_over)
        });
        if is_over {
            panic!("{}", run.end().stderr);
        }
        run
    }

    /// To-host in the directory `name`; `more` goes below [[devices]].
    fn tohost(&self, name: &str, subscribers: u32, more: &str) -> Run {
        let text = format!(
            "[tohost]\ndirectory = {out:?}\nsubscribers_min = {subscribers}\n[[devices]]\nsocket = {socket:?}\naddress = {address:?}\n{more}\n",
            out = self.path(name),
            socket = self.path("card.sock"),
            address = self.address,
        );
        let file = self.path(&format!("{name}.toml"));
        fs::write(&file, text).unwrap();
        start(forebay().arg("tohost").arg(file).args(["--format", "json"]))
    }

    /// Where both buffers are published.
    fn addresses(&self) -> [String; 2] {
        match self.address.rsplit_once(':') {
            Some((host, port)) if self.address.starts_with("tcp") => {
                let next = port.parse::<u16>().unwrap() + 1;
                [self.address.clone(), format!("{host}:{next}")]
            }
            _ => [self.address.clone(), format!("{}-1", self.address)],
        }
    }

    /// Waits until a DMA buffer is so full that the card holds triggers back: the subscriber that stands still has held everything up.
    fn wait_for_busy(&self) {
        let out = self.path("card");
        wait_for("triggers that a full DMA buffer holds back", || {
            let snapshot = open_ledger(&out).unwrap().snapshot().unwrap();
            let held = snapshot.metric("card", "triggers_held_by_dma", "");
            (held.unwrap() > 0).then_some(())
        });
    }

    fn subscriber(&self, more: &[&str]) -> Run {
        start(
            forebay()
                .args([
                    "net", "sub", "--once", "--output", "null", "--format", "json",
                ])
                .args(self.addresses())
                .args(more),
        )
    }
}

fn number(object: &Value, path: &str) -> u64 {
    let found = object.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{path} in {object}"))
}

/// The same field of both buffers.
fn both(tohost: &Value, path: &str) -> u64 {
    (0..2)
        .map(|buffer| number(tohost, &format!("/buffers/{buffer}{path}")))
        .sum()
}

fn every_chunk_arrives(chain: &Chain) {
    let card = chain.card();
    let tohost = chain.tohost("tohost", 1, "");
    let subscriber = chain.subscriber(&[]);
    let (card, tohost) = (card.end().json_of(0), tohost.end().json_of(0));
    let subscriber = subscriber.end().json_of(0);
    let triggers = number(&card, "/triggers");
    assert_eq!(triggers, 40_000);
    for (object, path) in [
        (&card, "/chunks"),
        (&card, "/chunks_out"),
        (&tohost, "/chunks"),
        (&tohost, "/chunks_published"),
        (&subscriber, "/messages"),
    ] {
        assert_eq!(number(object, path), triggers * LINKS, "{path}");
    }
    let bytes = triggers * LINKS * 100;
    assert_eq!(number(&tohost, "/chunk_bytes"), bytes);
    assert_eq!(number(&subscriber, "/bytes"), bytes);
    let blocks: u64 = (0..2)
        .map(|n| number(&card, &format!("/dma/{n}/blocks")))
        .sum();
    assert_eq!(number(&tohost, "/blocks"), blocks);
    for object in [&card, &tohost, &subscriber] {
        assert_eq!(number(object, "/residual_items"), 0);
        assert_eq!(number(object, "/residual_bytes"), 0);
    }
    assert_eq!(tohost["drops"], serde_json::json!({}));
    for name in ["card", "tohost", "tohost/publisher0", "tohost/publisher1"] {
        let verdict = audit_json(&chain.path(name));
        assert_eq!(verdict["closed"], true, "{name}: {verdict}");
    }
}

#[test]
fn every_chunk_arrives_over_shared_memory() {
    every_chunk_arrives(&Chain::new("rate_hz = 50000\ntriggers = 40000", "arrives"));
}

#[test]
fn every_chunk_arrives_over_tcp() {
    let port = rig::free_ports(2);
    let address = format!("tcp://127.0.0.1:{port}");
    every_chunk_arrives(&Chain::at(
        "rate_hz = 50000\ntriggers = 40000",
        64 << 20,
        address,
    ));
}

#[test]
fn a_killed_tohost_is_followed_by_one_that_goes_on() {
    let chain = Chain::new("rate_hz = 20000", "killed-tohost");
    let card = chain.card();
    let first = chain.tohost("first", 1, "");
    let before = chain.subscriber(&[]);
    at_work(&chain.path("first"), 50_000);
    assert!(signal("KILL", first.pid()));
    first.end();
    signal("INT", before.pid());
    before.end();
    let second = chain.tohost("second", 1, "");
    let subscriber = chain.subscriber(&[]);
    at_work(&chain.path("second"), 50_000);
    assert!(signal("INT", card.pid()));
    let (card, second) = (card.end().json_of(0), second.end().json_of(0));
    let subscriber = subscriber.end().json_of(0);
    let blocks: u64 = (0..2)
        .map(|n| number(&card, &format!("/dma/{n}/blocks")))
        .sum();
    let first = audit_json(&chain.path("first"));
    let of_first = account_items(&first, ("dma", "blocks"), "incoming");
    let of_second = number(&second, "/blocks");
    // The first had in its books what it gave back, and of each buffer at most one batch more, which the second has read again.
    let twice = (of_first + of_second).checked_sub(blocks);
    assert!(
        twice.is_some_and(|twice| twice <= 2 * 64),
        "{of_first} + {of_second}, {blocks}"
    );
    assert_eq!(number(&second, "/residual_items"), 0);
    assert_eq!(
        number(&subscriber, "/messages"),
        number(&second, "/chunks_published")
    );
    assert_eq!(number(&card, "/residual_items"), 0);
    assert_eq!(audit_json(&chain.path("first"))["closed"], true);
    // A chunk that was cut by the change is flagged or dropped by name, one for each E-link at most.
    let orphans = (0..2).map(|n| {
        second["buffers"][n]["damage"]["orphan"]
            .as_u64()
            .unwrap_or(0)
    });
    assert!(orphans.sum::<u64>() <= LINKS, "{second}");
}

#[test]
fn a_killed_card_is_read_to_its_last_block() {
    let chain = Chain::new("rate_hz = 20000", "killed-card");
    let card = chain.card();
    let tohost = chain.tohost("tohost", 1, "");
    let subscriber = chain.subscriber(&[]);
    at_work(&chain.path("tohost"), 50_000);
    // While it stands still the card shows many more, and then goes: nobody has read them.
    assert!(signal("STOP", tohost.pid()));
    let read = chunks_published(&chain.path("tohost"));
    let shown = wait_for("chunks that nobody has read", || {
        let books = audit_json(&chain.path("card"));
        let shown = account_items(&books, ("card", "chunks"), "outgoing");
        (shown >= read + 50_000).then_some(shown)
    });
    assert!(signal("KILL", card.pid()));
    card.end();
    assert!(signal("CONT", tohost.pid()));
    let ended = tohost.end();
    let tohost = ended.json_of(2);
    assert!(
        ended.stderr.contains("without a farewell"),
        "{}",
        ended.stderr
    );
    let subscriber = subscriber.end().json_of(0);
    for buffer in 0..2 {
        assert_eq!(tohost["buffers"][buffer]["end"], "lost");
        assert_eq!(tohost["buffers"][buffer]["blocks_left"], 0);
    }
    // What the card had in its books was shown before.
    let found = number(&tohost, "/chunks");
    assert!(found >= shown, "{found} of {shown}");
    assert_eq!(number(&tohost, "/residual_items"), 0);
    assert_eq!(
        number(&subscriber, "/messages"),
        number(&tohost, "/chunks_published")
    );
    assert_eq!(audit_json(&chain.path("tohost"))["closed"], true);
    // Its socket is left over, and the next card takes the place.
    assert!(chain.path("card.sock").exists());
    let next = chain.card();
    let socket = chain.path("card.sock");
    wait_for("the next card", || Device::describe(&socket).ok());
    assert!(signal("INT", next.pid()));
    assert_eq!(number(&next.end().json_of(0), "/triggers"), 0);
}

#[test]
fn a_killed_subscriber_costs_no_other_one() {
    let chain = Chain::new("rate_hz = 20000", "killed-sub");
    let card = chain.card();
    let tohost = chain.tohost("tohost", 2, "");
    let (victim, other) = (chain.subscriber(&[]), chain.subscriber(&[]));
    at_work(&chain.path("tohost"), 50_000);
    assert!(signal("KILL", victim.pid()));
    victim.end();
    let out = chain.path("tohost");
    at_work(&out, chunks_published(&out) + 50_000);
    assert!(signal("INT", card.pid()));
    let (card, tohost) = (card.end().json_of(0), tohost.end().json_of(0));
    let other = other.end().json_of(0);
    // It was there, and went in the midst of it: no trigger was held back for it.
    assert_eq!(both(&tohost, "/publisher/connections_made"), 4, "{tohost}");
    for buffer in tohost["buffers"].as_array().unwrap() {
        let parted = buffer["publisher"]["parted"].as_object().unwrap();
        assert!(!parted.is_empty(), "{buffer}");
    }
    assert_eq!(number(&card, "/held_by_dma"), 0, "{card}");
    let chunks = number(&card, "/triggers") * LINKS;
    assert_eq!(number(&tohost, "/chunks_published"), chunks);
    assert_eq!(number(&other, "/messages"), chunks);
    assert_eq!(number(&tohost, "/residual_items"), 0);
    assert_eq!(number(&card, "/residual_items"), 0);
}

#[test]
fn a_subscriber_that_comes_and_goes_a_hundred_times_costs_no_other_one() {
    use forebay_run_net::{Address, Entry, Settings, Subscriber};

    let chain = Chain::new("rate_hz = 5000", "comes-goes");
    let card = chain.card();
    let tohost = chain.tohost("tohost", 1, "");
    let steady = chain.subscriber(&[]);
    at_work(&chain.path("tohost"), 10_000);
    let addresses: Vec<Address> = chain
        .addresses()
        .iter()
        .map(|address| address.parse().unwrap())
        .collect();
    let mut took = 0;
    for visit in 0..100 {
        let settings = Settings::default();
        let mut guest = Subscriber::connect(&addresses, &settings).unwrap();
        guest.subscribe(&[Entry { tag: 0, mask: 0 }]);
        let mut came = 0_u64;
        wait_for("a chunk for the guest", || {
            let most = std::time::Duration::from_millis(5);
            guest.poll(most, |_| came += 1).unwrap();
            (came > 0).then_some(())
        });
        took += came;
        // Every other one goes without a word.
        if visit % 2 == 0 {
            let limit = std::time::Duration::from_secs(5);
            let summary = guest.finish(limit, |_| {}).unwrap();
            assert_eq!(summary.envelope.books.residual_items, 0);
        }
    }
    assert!(signal("INT", card.pid()));
    let (card, tohost) = (card.end().json_of(0), tohost.end().json_of(0));
    let chunks = number(&card, "/triggers") * LINKS;
    assert!(took > 0);
    assert_eq!(number(&steady.end().json_of(0), "/messages"), chunks);
    assert_eq!(number(&tohost, "/chunks_published"), chunks);
    assert_eq!(number(&tohost, "/residual_items"), 0, "{tohost}");
    assert_eq!(number(&tohost, "/residual_bytes"), 0, "{tohost}");
    assert!(
        both(&tohost, "/publisher/connections_made") > 100,
        "{tohost}"
    );
}

#[test]
fn a_slow_subscriber_that_drops_stalls_nobody() {
    let chain = Chain::new("rate_hz = 10000", "slow-drop");
    let card = chain.card();
    let tohost = chain.tohost("tohost", 2, "buffer_count = 4");
    let (slow, other) = (
        chain.subscriber(&["--slow", "drop-newest"]),
        chain.subscriber(&[]),
    );
    at_work(&chain.path("tohost"), 20_000);
    assert!(signal("STOP", slow.pid()));
    for publisher in ["tohost/publisher0", "tohost/publisher1"] {
        wait_for("chunks that are dropped for the slow one", || {
            let books = chain.path(publisher);
            (lost_by(&books, "send", "slow_receiver") > 100).then_some(())
        });
    }
    assert!(signal("INT", card.pid()));
    let (card, other) = (card.end().json_of(0), other.end());
    assert!(signal("CONT", slow.pid()));
    let (tohost, slow) = (tohost.end().json_of(0), slow.end());
    let chunks = number(&card, "/triggers") * LINKS;
    assert_eq!(number(&other.json_of(0), "/messages"), chunks);
    assert_eq!(number(&card, "/held_by_dma"), 0, "{card}");
    let dropped = both(&tohost, "/publisher/dropped");
    assert!(dropped > 0, "{tohost}");
    // By the books of the one that gave, and of the one that got.
    let slow = slow.json();
    let got = number(&slow, "/messages");
    assert_eq!(got + dropped, chunks, "{slow} {tohost}");
    assert_eq!(number(&slow, "/dropped_at_peers"), dropped, "{slow}");
    for path in ["/publisher/missing_at_peers", "/publisher/unconfirmed"] {
        assert_eq!(both(&tohost, path), 0, "{tohost}");
    }
    for one in [&tohost, &slow, &card] {
        assert_eq!(number(one, "/residual_items"), 0, "{one}");
        assert_eq!(number(one, "/left_items"), 0, "{one}");
    }
}

#[test]
fn a_slow_subscriber_that_blocks_raises_busy_and_loses_nothing() {
    let chain = Chain::narrow("rate_hz = 30000", "slow-block");
    let card = chain.card();
    let tohost = chain.tohost("tohost", 1, "buffer_count = 4");
    let slow = chain.subscriber(&[]);
    let out = chain.path("tohost");
    at_work(&out, 20_000);
    assert!(signal("STOP", slow.pid()));
    chain.wait_for_busy();
    assert!(signal("CONT", slow.pid()));
    at_work(&out, chunks_published(&out) + 20_000);
    assert!(signal("INT", card.pid()));
    let (card, tohost) = (card.end().json_of(0), tohost.end().json_of(0));
    let slow = slow.end().json_of(0);
    assert!(number(&card, "/held_by_dma") > 0, "{card}");
    assert!(card["busy_fraction"].as_f64().unwrap() > 0.0);
    let times = card["dma"].as_array().unwrap().iter();
    let times: u64 = times.map(|dma| number(dma, "/busy")).sum();
    assert!(times > 0, "{card}");
    let held_up = |buffer: usize| tohost["buffers"][buffer]["held_up_s"].as_f64();
    assert!(held_up(0).unwrap() + held_up(1).unwrap() > 0.0, "{tohost}");
    let chunks = number(&card, "/triggers") * LINKS;
    assert_eq!(number(&slow, "/messages"), chunks);
    assert_eq!(number(&tohost, "/residual_items"), 0);
}

#[test]
fn chunks_that_stay_where_they_are_are_not_written_over_before_all_have_looked() {
    let chain = Chain::sized("rate_hz = 10000\n", 1000, "reference");
    let card = chain.card();
    let tohost = chain.tohost("tohost", 2, "by_reference_bytes = 500");
    let checked = || {
        let mut command = forebay();
        start(
            command
                .args(["swrod", "--format", "json"])
                .args(chain.addresses()),
        )
    };
    let (slow, other) = (checked(), checked());
    at_work(&chain.path("tohost"), 2_000);
    // It stands still with chunks at hand, and the DMA buffers of 1 MiB are soon full.
    assert!(signal("STOP", slow.pid()));
    chain.wait_for_busy();
    assert!(signal("CONT", slow.pid()));
    let out = chain.path("tohost");
    at_work(&out, chunks_published(&out) + 20_000);
    assert!(signal("INT", card.pid()));
    let (card, tohost) = (card.end().json_of(0), tohost.end().json_of(0));
    let chunks = number(&card, "/triggers") * LINKS;
    for swrod in [slow, other] {
        // Every byte of every chunk was as the card had made it.
        let swrod = swrod.end().json_of(0);
        assert_eq!(number(&swrod, "/chunks"), chunks);
    }
    assert!(number(&card, "/held_by_dma") > 0, "{card}");
    let by_reference = both(&tohost, "/chunks_by_reference");
    assert!(by_reference > chunks / 2, "{by_reference} of {chunks}");
    // Chunks of two blocks are joined, and copied twice: for each subscriber.
    let copied = both(&tohost, "/copied_bytes");
    assert_eq!(copied, (chunks - by_reference) * 1000 * 2);
    for object in [&card, &tohost] {
        assert_eq!(number(object, "/residual_items"), 0);
        assert_eq!(number(object, "/residual_bytes"), 0);
    }
}

#[test]
fn a_card_that_nobody_reads_ends_and_says_so() {
    let chain = Chain::narrow("rate_hz = 200000\nduration_ms = 500", "unread");
    let file = chain.path("card.toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("drain_s = 20", "drain_s = 0\nwait_for_readers = false");
    fs::write(&file, text).unwrap();
    let ended = chain.card().end();
    let card = ended.json_of(2);
    assert!(
        ended.stderr.contains("nobody has read them"),
        "{}",
        ended.stderr
    );
    assert!(number(&card, "/held_by_dma") > 0, "{card}");
    // BUSY is still up at the end, and counts.
    assert!(card["busy_fraction"].as_f64().unwrap() > 0.3, "{card}");
    assert_eq!(number(&card, "/residual_items"), 0);
}

#[test]
fn damaged_blocks_have_names_on_both_sides() {
    let faults = [
        ("lost_block", 5000),
        ("wrong_marker", 7000),
        ("bad_trailer", 9000),
        ("crc_flag", 400),
        ("truncated", 600),
    ];
    let blocks =
        faults.map(|(kind, ppm)| format!("[[faults]]\nkind = \"{kind}\"\nchance_ppm = {ppm}\n"));
    let ttc = "rate_hz = 20000\ntriggers = 40000\n";
    let chain = Chain::new(&format!("{ttc}{}", blocks.concat()), "damaged");
    let card = chain.card();
    let tohost = chain.tohost("tohost", 1, "");
    let subscriber = chain.subscriber(&[]);
    let (card, tohost) = (card.end().json_of(0), tohost.end().json_of(0));
    let subscriber = subscriber.end().json_of(0);
    for (kind, _) in faults {
        assert!(
            number(&card, &format!("/faults/{kind}")) > 100,
            "{kind}: {card}"
        );
    }
    // One block may be struck several times.
    let count = |path: &str| -> u64 {
        let of_buffer = |n| tohost["buffers"][n].pointer(path).and_then(Value::as_u64);
        (0..2).filter_map(of_buffer).sum()
    };
    for (path, kind) in [
        ("/blocks_dropped/marker", "wrong_marker"),
        ("/blocks_dropped/untiled", "bad_trailer"),
    ] {
        let (found, injected) = (count(path), number(&card, &format!("/faults/{kind}")));
        // A third of the marked blocks, and a half of the others, are struck twice or hidden by another fault.
        assert!(
            (injected * 2 / 5..=injected).contains(&found),
            "{kind}: {found} of {injected}"
        );
    }
    let injected = |kind: &str| number(&card, &format!("/faults/{kind}"));
    // A block with a wrong marker does not say its number, and is missing too.
    let missing = count("/missing_blocks");
    assert!(missing >= injected("lost_block") * 4 / 5, "{tohost}");
    assert!(count("/damage/gap") >= missing / 2, "{tohost}");
    for (flag, kind) in [("fw_crc", "crc_flag"), ("fw_truncated", "truncated")] {
        let found = count(&format!("/chunks_flagged/{flag}"));
        // Half of them lie in blocks that are damaged or lost.
        let most = injected(kind);
        assert!((most / 3..=most).contains(&found), "{kind}: {found} {card}");
    }
    // Every chunk has its place in the card's books, and every block in to-host's.
    let blocks: u64 = (0..2)
        .map(|n| number(&card, &format!("/dma/{n}/blocks")))
        .sum();
    assert_eq!(number(&tohost, "/blocks"), blocks);
    assert_eq!(number(&card, "/chunks"), 40_000 * LINKS);
    assert_eq!(
        number(&subscriber, "/messages"),
        number(&tohost, "/chunks_published")
    );
    for object in [&card, &tohost, &subscriber] {
        assert_eq!(number(object, "/residual_items"), 0, "{object}");
        assert_eq!(number(object, "/residual_bytes"), 0, "{object}");
    }
}

/// What was lost at a place by this name so far, by the books there.
fn lost_by(out: &std::path::Path, place: &str, reason: &str) -> u64 {
    let verdict = audit_json(out);
    let lines = verdict["balance"]["accounts"].as_array().unwrap().iter();
    let drops = lines
        .filter(|line| line["place"] == place)
        .flat_map(|line| line["dropped"].as_array().unwrap());
    drops
        .filter(|drop| drop["reason"] == reason)
        .map(|drop| drop["items"].as_u64().unwrap())
        .sum()
}

/// A subscriber that looks at every byte.
fn swrod(chain: &Chain) -> Run {
    let mut swrod = forebay();
    swrod.args(["swrod", "--format", "json"]);
    start(swrod.args(chain.addresses()))
}

/// Every chunk is in the card's books, what went out of it in those of to-host and of the subscriber, and nothing is left over.
fn assert_all_accounted(all: &[&Value; 3]) {
    for one in all {
        assert_eq!(number(one, "/residual_items"), 0, "{one}");
        assert_eq!(number(one, "/residual_bytes"), 0, "{one}");
        assert_eq!(number(one, "/left_items"), 0, "{one}");
    }
    let [card, tohost, swrod] = all;
    let dropped = card["dropped"].as_object().unwrap().values();
    let dropped: u64 = dropped.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(
        number(card, "/chunks"),
        number(card, "/triggers") * LINKS,
        "{card}"
    );
    assert_eq!(
        number(card, "/chunks"),
        number(card, "/chunks_out") + dropped,
        "{card}"
    );
    assert_eq!(
        number(swrod, "/chunks"),
        number(tohost, "/chunks_published"),
        "{tohost}"
    );
}

#[test]
fn a_link_that_stops_leaves_one_chunk_open_and_the_others_do_not_feel_it() {
    let fault = "[[faults]]\nkind = \"stopped_link\"\nelink = 192\nfirst = 5000\ncount = 1\n";
    let ttc = format!("rate_hz = 20000\ntriggers = 20000\n{fault}");
    let chain = Chain::new(&ttc, "stopped");
    let (card, tohost, checked) = (chain.card(), chain.tohost("tohost", 1, ""), swrod(&chain));
    let (card, tohost) = (card.end().json_of(0), tohost.end().json_of(0));
    let checked = checked.end().json();
    assert_all_accounted(&[&card, &tohost, &checked]);
    assert_eq!(number(&card, "/faults/stopped_link"), 1);
    assert_eq!(card["dropped"], serde_json::json!({"stopped_link": 15_000}));
    assert_eq!(number(&card, "/held_by_link"), 0, "{card}");
    // The one in the middle of which it stopped came without its end.
    let [struck, other] = [0, 1].map(|n| &tohost["buffers"][n]);
    for (found, name) in [("damage", "unfinished"), ("chunks_flagged", "sw_truncated")] {
        assert_eq!(struck[found], serde_json::json!({name: 1}), "{tohost}");
        assert_eq!(other[found], serde_json::json!({}), "{tohost}");
    }
    let elinks = checked["elinks"].as_array().unwrap();
    assert_eq!(elinks.len() as u64, LINKS, "{checked}");
    for one in elinks {
        let whole = number(one, "/elink") != 192;
        let chunks = if whole { 20_000 } else { 5_001 };
        assert_eq!(number(one, "/chunks"), chunks, "{one}");
        assert_eq!(number(one, "/missing"), 0, "{one}");
    }
}

#[test]
fn a_front_end_that_does_not_listen_to_xoff_loses_chunks_by_name_and_no_other_one_does() {
    let fault = "[[faults]]\nkind = \"xoff_ignored\"\nelink = 192\n";
    // No free blocks raise BUSY, and the queues in front of links hold much: what is full are the queues behind them.
    let queues = "[queues]\nbusy_on_free_blocks = 0\nbusy_on_chunks = 4096\nfifo_bytes = 4096\n";
    let ttc = format!("rate_hz = 20000\n{queues}{fault}");
    let chain = Chain::narrow(&ttc, "xoff");
    let (card, tohost) = (chain.card(), chain.tohost("tohost", 1, "buffer_count = 4"));
    let checked = swrod(&chain);
    at_work(&chain.path("tohost"), 5_000);
    // While it stands still the DMA buffers fill, and then what is behind the links.
    assert!(signal("STOP", tohost.pid()));
    let out = chain.path("card");
    wait_for("chunks that are lost behind the link", || {
        (lost_by(&out, "card", "fifo_full") > 100).then_some(())
    });
    assert!(signal("CONT", tohost.pid()));
    assert!(signal("INT", card.pid()));
    let (card, tohost) = (card.end().json_of(0), tohost.end().json_of(0));
    let checked = checked.end().json();
    assert_all_accounted(&[&card, &tohost, &checked]);
    assert!(number(&card, "/faults/xoff_ignored") > 100, "{card}");
    let lost = number(&card, "/dropped/fifo_full");
    assert!(lost > 100, "{card}");
    assert_eq!(card["dropped"].as_object().unwrap().len(), 1, "{card}");
    let triggers = number(&card, "/triggers");
    for one in checked["elinks"].as_array().unwrap() {
        let obeys = number(one, "/elink") != 192;
        let chunks = if obeys { triggers } else { triggers - lost };
        assert_eq!(number(one, "/chunks"), chunks, "{one}");
    }
}

/// Runs a card with these faults to its end: what it, to-host, and a subscriber that looks at every byte say.
fn struck_by(faults: &[(&str, u64)], name: &str, code: i32) -> [Value; 3] {
    let rule =
        |(kind, ppm): &(&str, u64)| format!("[[faults]]\nkind = \"{kind}\"\nchance_ppm = {ppm}\n");
    let rules: String = faults.iter().map(rule).collect();
    let chain = Chain::new(&format!("rate_hz = 20000\ntriggers = 20000\n{rules}"), name);
    let (card, tohost) = (chain.card(), chain.tohost("tohost", 1, ""));
    let swrod = swrod(&chain);
    let all = [
        card.end().json_of(0),
        tohost.end().json_of(0),
        swrod.end().json_of(code),
    ];
    for one in &all {
        assert_eq!(number(one, "/residual_items"), 0, "{one}");
        assert_eq!(number(one, "/left_items"), 0, "{one}");
    }
    for (kind, _) in faults {
        assert!(number(&all[0], &format!("/faults/{kind}")) > 20, "{kind}");
    }
    all
}

#[test]
fn what_strikes_a_chunk_alone_is_found_each_time() {
    let faults = [("error_flag", 400), ("busy_flag", 500), ("bit_flip", 300)];
    let [card, tohost, swrod] = struck_by(&faults, "chunks-struck", 1);
    for (flag, kind) in [("fw_error", "error_flag"), ("fw_busy", "busy_flag")] {
        let injected = number(&card, &format!("/faults/{kind}"));
        let found = both(&tohost, &format!("/chunks_flagged/{flag}"));
        assert_eq!(found, injected, "{kind}");
        assert_eq!(number(&swrod, &format!("/flagged/{flag}")), injected);
    }
    let wrong = swrod["bad_payload"].as_object().unwrap().values();
    let wrong: u64 = wrong.map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(wrong, number(&card, "/faults/bit_flip"), "{swrod}");
}

#[test]
fn a_number_that_jumps_is_a_gap_each_time_and_a_silent_link_loses_nothing() {
    let faults = [("jumped_sequence", 200), ("stuck_link", 200)];
    let [card, tohost, swrod] = struck_by(&faults, "jumps", 0);
    assert_eq!(number(&swrod, "/chunks"), 20_000 * LINKS);
    let jumps = number(&card, "/faults/jumped_sequence");
    let gaps = both(&tohost, "/damage/gap");
    // One block may jump twice.
    assert!(
        (jumps * 9 / 10..=jumps).contains(&gaps),
        "{gaps} of {jumps}"
    );
    assert!(both(&tohost, "/missing_blocks") >= gaps, "{tohost}");
    assert_eq!(number(&tohost, "/blocks"), {
        let blocks = |n| number(&card, &format!("/dma/{n}/blocks"));
        blocks(0) + blocks(1)
    });
}

#[test]
fn files_with_mistakes_are_refused_with_their_places() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    for (verb, text, parts) in [
        (
            &["emulate", "card"][..],
            "[card]\ndma_bufers = 2\n[[links]]\nlinks = [0, 99]\ndma_buffer = 3\n",
            &[
                "wrong.toml:2",
                "did you mean dma_buffers?",
                "from 0 to 23",
                "no such buffer",
            ][..],
        ),
        (
            &["emulate", "card"],
            "[chunks]\nsizes = \"ramp\"\nmin_bytes = 90\nmax_bytes = 80\n[[links]]\nkind = \"gbt\"\n",
            &["min_bytes", "elinks are not named"],
        ),
        (
            &["tohost"],
            "[[devices]]\nsocket = \"x\"\naddress = \"felix\"\n[tohost]\ndetector = 256\n",
            &["no address of messaging", "from 0 to 255", "wrong.toml:3"],
        ),
        (&["tohost"], "[tohost]\n", &["no card is named"]),
    ] {
        fs::write(&file, text).unwrap();
        let ended = start(forebay().args(verb).arg(&file)).end();
        assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
        }
    }
    fs::write(
        &file,
        "[tohost]\ncard_wait_s = 0\n[[devices]]\nsocket = \"none.sock\"\naddress = \"shm://x\"\n",
    )
    .unwrap();
    let ended = start(forebay().arg("tohost").arg(&file)).end();
    assert_eq!(ended.code(), Some(2));
    assert!(
        ended.stderr.contains("no card answers at none.sock"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_card_that_another_tohost_reads_is_told_with_its_process() {
    let chain = Chain::narrow("rate_hz = 1000\nduration_ms = 20000", "read-by-another");
    let card = chain.card();
    let first = chain.tohost("first", 0, "");
    let out = chain.path("first");
    wait_for("the ledger", || out.join("ledger").exists().then_some(()));
    wait_for("chunks", || {
        let chunks = account_items(&audit_json(&out), ("publish", "chunks"), "incoming");
        (chunks > 100).then_some(())
    });
    let other = Chain {
        directory: tempfile::tempdir().unwrap(),
        address: format!("{}-other", chain.address),
    };
    std::os::unix::fs::symlink(chain.path("card.sock"), other.path("card.sock")).unwrap();
    let reads = format!(
        "another reader has it: process {} reads this card",
        first.pid()
    );
    // One that is told to end while it asks again and again says what the card has said.
    let waiting = other.tohost("second", 0, "");
    wait_for("the second to-host, refused twice", || {
        let said = waiting.said();
        (said.matches("it is waited for").count() == 2).then_some(())
    });
    assert!(signal("INT", waiting.pid()));
    let ended = waiting.end();
    assert_eq!(ended.code(), Some(2), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(
        last.contains(&reads) && !last.contains("waited"),
        "{}",
        ended.stderr
    );
    assert!(
        !ended.stderr.contains("has not answered"),
        "{}",
        ended.stderr
    );
    assert!(signal("INT", first.pid()));
    first.end().json_of(0);
    assert!(signal("INT", card.pid()));
    drop(card.end());
}

#[test]
fn a_tag_that_nobody_asked_for_is_not_subscribed_and_not_lost() {
    let chain = Chain::narrow("rate_hz = 2000\ntriggers = 2000", "not-subscribed");
    let text = fs::read_to_string(chain.path("card.toml")).unwrap();
    fs::write(
        chain.path("card.toml"),
        text.replace("directory", "wait_for_readers = true\ndirectory"),
    )
    .unwrap();
    let card = chain.card();
    let file = chain.path("tohost.toml");
    let out = chain.path("tohost");
    let plan = format!(
        "[tohost]\ndirectory = {out:?}\nsubscribers_min = 0\n[[devices]]\nsocket = {:?}\naddress = {:?}\n",
        chain.path("card.sock"),
        chain.address,
    );
    fs::write(&file, plan).unwrap();
    let ended = start(forebay().arg("tohost").arg(&file)).end();
    drop(card.end());
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let said = ended.stdout;
    assert!(said.contains("not subscribed ("), "{said}");
    assert!(said.contains("no_subscriber): 24000"), "{said}");
    assert!(!said.contains("lost"), "{said}");
}
