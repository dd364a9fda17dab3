//! The event builder, the mover, the sources, and what reads their output.

use std::path::Path;

use forebay_testing::root;

use crate::rig::sender::{Sender, message};
use crate::rig::{
    demo, evb, files, free_ports, signal, sockets, start, wait_arrived, wait_for, wait_items,
};
use crate::taken::{Taken, address, begin, stop, text};

/// Two sources, and events to a file, to a mover and to nobody.
fn builder(taken: &mut Taken, folder: &Path) {
    let (out, moved) = (folder.join("evb"), folder.join("moved"));
    let [listen, metrics] = [address(), address()];
    let mover = begin(&["mover", "--listen", &listen, "--out", text(&moved)]);
    wait_for("the mover", || {
        (!sockets::listeners(mover.pid()).is_empty()).then_some(())
    });
    let base_port = free_ports(2);
    let tcp = format!("tcp://{listen}");
    let sinks = ["--sink", "file", "--sink", &tcp, "--sink", "null"];
    let flags = [&sinks[..], &["--metrics", &metrics]].concat();
    let run = start(&mut evb(&out, 2, base_port, &flags));
    run.wait_stages(&["receiver", "builder"]);
    let mut sender = Sender::new(base_port);
    for source in 0..2 {
        sender.send(source, &message(source, 0..100, 64));
    }
    // A loss that has a name.
    sender.send(0, &[0xee; 64]);
    wait_arrived(&out, sender.datagrams);
    wait_items(&out, ("sink", "events"), "outgoing", 300);
    taken.page("evb", &metrics, "event_latency");
    let sure = ["drops", "dropped", "unknown_links"];
    taken.said("evb", &stop(run), &sure);
    taken.left("evb", &out, &sure);
    taken.run("audit", &["audit", text(&out)], &sure);
    taken.run("top", &["top", "--once", text(&out)], &sure);
    let json = stop(mover);
    let ledger = json["streams"][0]["ledger"].as_str().unwrap();
    taken.ledger("mover", Path::new(ledger));
    taken.said("mover", &json, &[]);
}

/// Sources of its own.
fn demonstration(taken: &mut Taken, folder: &Path) {
    let (out, metrics) = (folder.join("demo"), address());
    let flags = ["--sources", "2", "--rate", "1000", "--metrics", &metrics];
    let run = start(&mut demo(&out, &flags));
    run.wait_stages(&["generator", "receiver", "builder"]);
    wait_items(&out, ("sink", "events"), "outgoing", 10);
    taken.page("demo", &metrics, "event_latency");
    signal("INT", run.pid());
    let json = run.end().json_of(0);
    taken.said("demo", &json, &[]);
    taken.left("demo", &out, &[]);
    taken.run("inspect", &["inspect", text(&files(&json)[0])], &[]);
}

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
    builder(taken, folder);
    demonstration(taken, folder);
    let capture = root().join("crates/forebay-wire/tests/data/six_sources.pcap");
    let out = folder.join("replay");
    let replay = ["replay", text(&capture), "--sources", "2"];
    let flags = ["--out", text(&out)];
    taken.run("replay", &[&replay[..], &flags].concat(), &[]);
    taken.left("replay", &out, &[]);
    let (out, port) = (folder.join("sources"), free_ports(2).to_string());
    let sources = ["emulate", "hades", "--group", "2:116", "--events", "10"];
    let flags = ["--base-port", &port, "--out", text(&out)];
    taken.run("emulate hades", &[&sources[..], &flags].concat(), &[]);
    taken.left("emulate hades", &out, &[]);
}
