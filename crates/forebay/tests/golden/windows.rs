//! Time division: a sender and the receiver.

use std::path::Path;

use crate::rig::{start, tdm_send, wait_items};
use crate::taken::{Taken, address, begin, stop, text};

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
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
