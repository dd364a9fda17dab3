use std::path::PathBuf;
use std::time::Duration;

use forebay_run_mux::config::PolicyChoice;
use serde_json::json;

use super::*;
use crate::mux::baseline::of_datagrams;
use crate::mux::{ClientOptions, Placement};

type Change = fn(&mut Told);

fn options(workload: Workload) -> Options {
    let client = ClientOptions {
        load_bps: 1_000_000,
        sojourn_max_us: Some(5),
        ..ClientOptions::default()
    };
    Options {
        program: PathBuf::new(),
        workload,
        policy: PolicyChoice::RoundRobin,
        clients: vec![client],
        size_bytes: 1_000,
        duration: Duration::from_secs(2),
        receive_buffers: 1_024,
        wire_bps: None,
        link_bps: None,
        gather_us: None,
        real_time: None,
        is_raw: false,
        driver_threads: 1,
        has_baseline: false,
        has_soaker: true,
        placement: Placement::default(),
    }
}

/// 100 datagrams there, of which 4 get lost on the wire and 6 at the daemon, and 80 back, of which 3 get lost; 2 frames of ARP each way.
fn told() -> Told {
    let books = |mut more: Value| {
        let closed =
            json!({"residual_items": 0, "residual_bytes": 0, "left_items": 0, "left_bytes": 0});
        let all = more.as_object_mut().unwrap();
        all.extend(closed.as_object().unwrap().clone());
        more
    };
    Told {
        load: books(json!({
            "sending_s": 2.0, "limit": null, "drops": {},
            "targets": [{
                "name": "A", "packets_sent": 100, "packets_answered": 70, "late": 3, "duplicate": 2, "corrupt": 1, "foreign": 1,
                "socket_drops": 1, "rtt_ns": {"p50": 7}, "answering_s": 2.5,
            }],
        })),
        daemon: books(json!({
            "cpu_s": {"mux": 0.5}, "signals": 4, "driver_threads": 2,
            "clients": [{
                "name": "A", "is_trusted": true, "bells": 3, "frames_for": 98, "frames_given": 92, "packets_asked": 82, "packets_sent": 82, "sojourn_ns_max": 9,
            }],
            "drops": {
                "mux_deliver.queue_full.A": {"items": 6}, "mux_receive.client_gone.A": {"items": 5},
                "mux_card_in.ring_full.card": {"items": 3},
            },
        })),
        clients: vec![books(json!({
            "name": "A", "frames_received": 87, "datagrams_came": 85, "frames_sent": 82, "datagrams_sent": 80,
            "drops": {"client_work.no_room.echo": {"items": 5}},
        }))],
        counted: Counted {
            there: 1,
            back: 2,
            far_errors: 1,
            ..Counted::default()
        },
    }
}

#[test]
fn each_packet_is_found_on_the_way_and_rates_are_of_the_payload() {
    let share = CpuShare {
        kernel: 0.5,
        soaker: Some(0.6),
    };
    let (summary, books) = told().summed_up(&options(Workload::Echo), share).unwrap();
    assert_eq!(summary.disagreements, []);
    assert_eq!(books, Closed::default());
    let client = &summary.clients[0];
    assert_eq!(
        (client.requested_bps, client.achieved_bps),
        (1e6, 70.0 * 8_000.0 / 2.5)
    );
    let drops = [
        ("client_work.no_room", 5),
        ("far_socket.full", 1),
        ("mux_deliver.queue_full", 6),
        ("mux_receive.client_gone", 5),
        ("wire_back.dropped", 2),
        ("wire_there.dropped", 4),
    ];
    let drops = drops.map(|(name, packets)| (name.to_owned(), packets));
    assert_eq!(client.drops, BTreeMap::from(drops));
    assert!(client.is_trusted);
    assert_eq!(summary.driver_threads, 2);
    assert_eq!(summary.packets_per_cpu_second, 174.0 / 0.5);
    assert_eq!(summary.signals_per_packet, 7.0 / 174.0);
    assert_eq!(summary.wire_drops["mux_card_in.ring_full"], 3);
    let of = |workload| {
        let (summary, _) = told().summed_up(&options(workload), share).unwrap();
        summary.clients[0].achieved_bps
    };
    assert_eq!(of(Workload::RxMostly), 85.0 * 4_000.0);
    assert_eq!(of(Workload::TxMostly), 77.0 * 4_000.0);
}

#[test]
fn sockets_beside_raw_clients_have_as_many_frames_of_the_same_length() {
    let mut options = options(Workload::Echo);
    options.is_raw = true;
    options.clients[0].load_bps = 4_000_000;
    let sockets = of_datagrams(&options);
    assert_eq!((sockets.is_raw, sockets.size_bytes), (false, 958));
    assert_eq!(sockets.clients[0].load_bps, 3_832_000);
    // Of clients with a stack it is the same load.
    let same = of_datagrams(&sockets);
    assert_eq!((same.size_bytes, same.clients), (958, sockets.clients));
}

#[test]
fn what_found_no_room_in_a_ring_is_counted_there_where_load_is_frames() {
    let mut told = told();
    told.load["transport"] = "raw".into();
    let share = CpuShare {
        kernel: 0.5,
        soaker: None,
    };
    let off = |told: &Told| {
        let (summary, books) = told.summed_up(&options(Workload::Echo), share).unwrap();
        (summary.wire_drops["far_socket.full"], books.residual_items)
    };
    // UDP of that host has dropped another one.
    assert_eq!(off(&told), (2, 1));
    told.counted.far_errors = 0;
    assert_eq!(off(&told), (1, 0));
}

#[test]
fn one_packet_that_somebody_else_counts_is_found() {
    let wrong: [(Change, &str); 9] = [
        (
            |it| it.load["targets"][0]["packets_sent"] = 101.into(),
            "generator and daemon",
        ),
        (
            |it| it.daemon["clients"][0]["frames_for"] = 97.into(),
            "generator and daemon",
        ),
        (|it| it.counted.there = 2, "generator and daemon"),
        (
            |it| it.daemon["drops"]["mux_card_in.ring_full.card"]["items"] = 2.into(),
            "generator and daemon",
        ),
        (
            |it| it.daemon["clients"][0]["frames_given"] = 93.into(),
            "the daemon gave",
        ),
        (
            |it| it.daemon["clients"][0]["packets_asked"] = 81.into(),
            "was handed",
        ),
        (
            |it| it.daemon["clients"][0]["packets_sent"] = 83.into(),
            "card and generator",
        ),
        (
            |it| it.load["targets"][0]["duplicate"] = 3.into(),
            "card and generator",
        ),
        (|it| it.counted.far_no_port = 1, "card and generator"),
    ];
    for (change, named) in wrong {
        let mut told = told();
        change(&mut told);
        let (summary, books) = told
            .summed_up(&options(Workload::Echo), CpuShare::default())
            .unwrap();
        assert_eq!(books.residual_items, 1, "{named}");
        let [one] = &summary.disagreements[..] else {
            panic!("{named}: {:?}", summary.disagreements)
        };
        assert!(one.what.contains(named), "{one:?}");
    }
}

#[test]
fn what_comes_and_never_went_and_books_that_do_not_close_are_no_agreement() {
    let residual = |change: Change| {
        let mut told = told();
        change(&mut told);
        let of = options(Workload::Echo);
        told.summed_up(&of, CpuShare::default()).unwrap().1
    };
    // One too many from nowhere is found, whatever the kernels dropped: 0 and 1, and 0 and 4.
    let more = residual(|it| it.load["targets"][0]["packets_sent"] = 95.into());
    assert_eq!(more.residual_items, 1 + 4);
    let open = residual(|it| it.clients[0]["left_items"] = 2.into());
    assert_eq!((open.residual_items, open.left_items), (0, 2));
    let mut lacks = told();
    lacks.clients[0]["datagrams_came"] = Value::Null;
    let error = lacks
        .summed_up(&options(Workload::Echo), CpuShare::default())
        .unwrap_err();
    assert!(error.to_string().contains("datagrams_came"), "{error}");
}
