//! Link readout: a card, to-host, two subscribers, and messages to the front ends.

use std::fs;
use std::path::Path;

use forebay_wire::felix::{Elink, Fid};

use crate::rig::{Run, at_work, blocks, signal, wait_for, wait_items};
use crate::taken::{Taken, address, begin, stop, text};

/// A chain in a folder: the names of its programs are those of their directories and files.
struct Chain<'a> {
    folder: &'a Path,
    name: String,
}

impl<'a> Chain<'a> {
    fn new(folder: &'a Path, name: &str) -> Self {
        // Of six digits in each run.
        let name = format!("{name}-{:06}", std::process::id());
        Self { folder, name }
    }

    /// Writes `text` into a program's file; `OUT`, `CARD`, `HOST` and `FLX` in it stand for its directory, the card's socket and the addresses in
    /// shared memory.
    fn file(&self, program: &str, text: &str) -> String {
        let out = format!("{:?}", self.folder.join(program));
        let card = format!("{:?}", self.folder.join("card.sock"));
        let words = text.replace("OUT", &out).replace("CARD", &card);
        let host = format!("{:?}", self.address("host"));
        let words = words.replace("HOST", &host);
        let words = words.replace("FLX", &format!("{:?}", self.address("flx")));
        let file = self.folder.join(format!("{program}.toml"));
        fs::write(&file, words).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn address(&self, of: &str) -> String {
        format!("shm://{of}-{}", self.name)
    }

    /// Starts the card, and waits until it is there.
    fn card(&self, words: &[&str]) -> Run {
        let mut run = begin(&[&["emulate", "card"], words].concat());
        let socket = self.folder.join("card.sock");
        wait_for("the card", || {
            assert!(!run.is_over(), "{}", run.said());
            socket.exists().then_some(())
        });
        run
    }
}

fn toflx(taken: &mut Taken, chain: &Chain<'_>, metrics: &str) -> Run {
    let file = format!(
        "[toflx]\ndirectory = OUT\naddress = FLX\nmetrics = {metrics:?}\n[[devices]]\nsocket = CARD\n"
    );
    let run = begin(&["toflx", &chain.file("toflx", &file)]);
    let link = Elink::of_link(2).unwrap();
    let tag = Fid::to_host(0, 0, link).from_host().0.to_string();
    let sender = ["net", "send", &chain.address("flx"), "--tag", &tag];
    let generated = ["--input", "generate", "--count", "10"];
    let sent = begin(&[&sender[..], &generated].concat());
    assert_eq!(sent.end().code(), Some(0));
    taken.page("toflx", metrics, "elink_messages");
    run
}

/// A card with two links that answer triggers and one that sends back what it is sent.
fn whole(taken: &mut Taken, folder: &Path) {
    let chain = Chain::new(folder, "golden");
    let doors: [String; 5] = std::array::from_fn(|_| address());
    let card = format!(
        "[card]\nsocket = CARD\ndirectory = OUT\nmetrics = {:?}\ntrigger_times = {:?}\n[ttc]\nrate_hz = 1000\n[chunks]\nbytes = 64\n\
         [[links]]\nlinks = [0, 1]\n[[links]]\nlinks = [2]\nloop_back = true\n",
        doors[0],
        folder.join("times"),
    );
    let card = chain.card(&[&chain.file("card", &card)]);
    let tohost = format!(
        "[tohost]\ndirectory = OUT\nmetrics = {:?}\nsubscribers_min = 2\n[[devices]]\nsocket = CARD\naddress = HOST\n",
        doors[1]
    );
    let tohost = begin(&["tohost", &chain.file("tohost", &tohost)]);
    let run = format!("[run]\ndirectory = OUT\nmetrics = {:?}\n", doors[4]);
    let sources = "[[sources]]\naddress = HOST\nelinks = [0, 64]\n\
                   [elinks]\nl1id_offset_bytes = 3\nl1id_bytes = 1\n[[sinks]]\nkind = \"null\"\n";
    let evb = begin(&["evb", &chain.file("evb", &(run + sources))]);
    let out = folder.join("swrod");
    let times = folder.join("times");
    let host = chain.address("host");
    let swrod = [
        "swrod",
        &host,
        "--elinks",
        "0-1",
        "--fragments",
        "--connections",
        "2",
    ];
    let flags = ["--trigger-times", text(&times), "--metrics", &doors[2]];
    let swrod = begin(&[&swrod[..], &flags, &["--out", text(&out)]].concat());
    at_work(&folder.join("tohost"), 1000);
    wait_items(&folder.join("evb"), ("sink", "events"), "outgoing", 100);
    let toflx = toflx(taken, &chain, &doors[3]);
    for (program, door, sign) in [
        ("emulate card", &doors[0], "busy"),
        ("tohost", &doors[1], "elink_chunks"),
        ("swrod", &doors[2], "trigger_latency"),
        ("evb elinks", &doors[4], "event_latency"),
    ] {
        taken.page(program, door, sign);
    }
    signal("INT", card.pid());
    // Messages about triggers, which nobody wants here.
    let sure = ["chunks_dropped", "dropped", "drops"];
    for (program, run, sure) in [
        ("emulate card", card, &[][..]),
        ("tohost", tohost, &sure),
        ("swrod", swrod, &[]),
        ("toflx", toflx, &[]),
    ] {
        taken.said(program, &run.end().json_of(0), sure);
        let out = program.trim_start_matches("emulate ");
        taken.left(program, &folder.join(out), sure);
    }
    taken.said("evb elinks", &stop(evb), &[]);
    taken.left("evb elinks", &folder.join("evb"), &[]);
    let out = folder.join("tohost");
    let out = text(&out);
    taken.run("top tohost", &["top", "--once", out], &sure);
    taken.run("audit tohost", &["audit", out], &sure);
}

/// A card that shows blocks of a file.
fn replay(taken: &mut Taken, folder: &Path) {
    let chain = Chain::new(folder, "golden-replay");
    let file = folder.join("blocks.dat");
    fs::write(&file, blocks::blocks(8).concat()).unwrap();
    let metrics = address();
    let card = format!(
        "[card]\nsocket = CARD\ndirectory = OUT\nmetrics = {metrics:?}\n[[links]]\nlinks = [0, 1]\n"
    );
    let card = chain.card(&[&chain.file("card", &card), "--replay", text(&file)]);
    taken.page("emulate card replay", &metrics, "blocks");
    let tohost = "[tohost]\ndirectory = OUT\n[[devices]]\nsocket = CARD\naddress = HOST\n";
    let tohost = begin(&["tohost", &chain.file("tohost", tohost)]);
    taken.said("emulate card replay", &card.end().json_of(0), &[]);
    tohost.end().json_of(0);
    taken.left("emulate card replay", &folder.join("card"), &[]);
    taken.run("fcheck", &["fcheck", text(&file)], &[]);
}

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
    for part in ["whole", "replay"] {
        fs::create_dir(folder.join(part)).unwrap();
    }
    whole(taken, &folder.join("whole"));
    replay(taken, &folder.join("replay"));
    let out = folder.join("demo");
    let demo = ["demo", "tohost", "--links", "1", "--duration", "200ms"];
    let flags = ["--out", text(&out)];
    taken.run("demo tohost", &[&demo[..], &flags].concat(), &[]);
}
