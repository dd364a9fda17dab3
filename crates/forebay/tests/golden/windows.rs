//! Time division: a sender and the receiver, of a stream and of messages.

use std::path::Path;

use crate::rig::{start, tdm_send, wait_items};
use crate::taken::{Taken, address, begin, stop, text};

/// A stream that goes on until it is told to end.
fn stream(taken: &mut Taken, folder: &Path) {
    let [at, near, far] = [address(), address(), address()];
    let (sent, came) = (folder.join("sent"), folder.join("came"));
    let receive = ["tdm", "receive", "--bind", &at, "--senders", "1"];
    let port = ["--link-rate", "200M", "--port-buffer", "128K"];
    let flags = ["--metrics", &far, "--output", text(&came)];
    let receiver = begin(&[&receive[..], &port, &flags].concat());
    let mut send = tdm_send(&at, "north");
    let sender = start(send.args(["--metrics", &near, "--out"]).arg(&sent));
    taken.page("tdm send", &near, "windows_sent");
    taken.page("tdm receive", &far, "place=\"write\"");
    wait_items(&came, ("write", "packets"), "outgoing", 10);
    taken.said("tdm send", &stop(sender), &[]);
    taken.said("tdm receive", &receiver.end().json_of(0), &[]);
    taken.left("tdm send", &sent, &[]);
    taken.left("tdm receive", &came, &[]);
    let top = ["top", "--once", text(&came)];
    taken.run("top tdm receive", &top, &["dropped"]);
}

/// Messages that keep their boundaries.
fn heaps(taken: &mut Taken, folder: &Path) {
    let [at, input] = [address(), format!("tcp://{}", address())];
    let came = folder.join("heaps");
    let receive = ["tdm", "receive", "--bind", &at, "--senders", "1"];
    let flags = ["--link-rate", "200M", "--output", text(&came)];
    let receiver = begin(&[&receive[..], &flags].concat());
    let mut send = tdm_send(&at, "north");
    let sender = start(send.args(["--input", &input, "--heaps"]));
    let give = ["net", "send", &input, "--input", "generate"];
    let giver = begin(&[&give[..], &["--count", "100"]].concat());
    assert_eq!(giver.end().code(), Some(0));
    taken.said("tdm send heaps", &sender.end().json_of(0), &[]);
    let json = receiver.end().json_of(0);
    taken.said("tdm receive heaps", &json, &["heaps.dropped"]);
}

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
    stream(taken, folder);
    heaps(taken, folder);
}
