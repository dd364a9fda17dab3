//! Replays the corpus of the fuzz targets with their own oracles, so that `cargo test` alone keeps what fuzzing has found.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/fabric.rs"]
mod fabric;
#[path = "../../../../fuzz/oracle/from_host.rs"]
mod from_host;
#[path = "../../../../fuzz/oracle/hadtu.rs"]
mod hadtu;
#[path = "../../../../fuzz/oracle/heap.rs"]
mod heap;
#[path = "../../../../fuzz/oracle/hld.rs"]
mod hld;
#[path = "../../../../fuzz/oracle/ipfix.rs"]
mod ipfix;
#[path = "../../../../fuzz/oracle/mover.rs"]
mod mover;
#[path = "../../../../fuzz/oracle/net.rs"]
mod net;
#[path = "../../../../fuzz/oracle/packet.rs"]
mod packet;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../fuzz/oracle/shm.rs"]
mod shm;
#[path = "../../../../fuzz/oracle/tdm.rs"]
mod tdm;

use replay::replay;

#[test]
fn the_corpus_of_messages() {
    replay("hadtu", 9, hadtu::check);
}

#[test]
fn the_corpus_of_files() {
    replay("hld", 9, hld::check);
}

#[test]
fn the_corpus_of_packets() {
    replay("packet", 13, packet::check);
}

#[test]
fn the_corpus_of_flow_records() {
    replay("ipfix", 10, ipfix::check);
}

#[test]
fn the_corpus_of_mover_streams() {
    replay("mover", 9, mover::check);
}

#[test]
fn the_corpus_of_messaging() {
    replay("net", 8, net::check);
}

#[test]
fn the_corpus_of_from_host_packets() {
    replay("from_host", 6, from_host::check);
}

#[test]
fn the_corpus_of_heaps() {
    replay("heap", 7, heap::check);
}

#[test]
fn the_corpus_of_time_division_udp() {
    replay("tdm", 14, tdm::check);
}

#[test]
fn the_corpus_of_hellos_over_libfabric() {
    replay("fabric", 7, fabric::check);
}

#[test]
fn the_corpus_of_greetings_and_references_over_shared_memory() {
    replay("shm", 9, shm::check);
}
