//! What a finder takes of a registry that never ends is bounded, measured in a process of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use forebay_link::bytes::Security;
use forebay_run_net::bus::{Bus, Finder};

/// Most memory that this process has had so far, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib = line.trim().strip_suffix(" kB").unwrap();
    kib.parse::<u64>().unwrap() << 10
}

/// The smallest offers that there are, page after page: a list of them takes many times what their texts do.
#[test]
fn a_registry_of_tiny_offers_takes_bounded_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bus = Bus::Registry(
        format!("tcp://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap(),
    );
    let offer = r#"{"name":"a","address":"shm://a","tags":[],"host":"","pid":1}"#;
    let offers = vec![offer; 60_000].join(",");
    let before = peak_bytes();
    let _finder = Finder::start(&bus, &Security::default()).unwrap();
    let stream = listener.accept().unwrap().0;
    let mut pages = 0_u64;
    for _ in BufReader::new(&stream).lines().map_while(Result::ok) {
        pages += 1;
        // More than can be found, by far.
        assert!(pages < 200, "it takes all that it is given");
        let page = format!("{{\"page\":{{\"offers\":[{offers}],\"last\":{pages}}}}}\n");
        // It may have left meanwhile.
        let _ = (&stream).write_all(page.as_bytes());
    }
    assert!(pages > 1, "it left after {pages} pages");
    let took = peak_bytes() - before;
    assert!(took < 160 << 20, "{} MiB", took >> 20);
}
