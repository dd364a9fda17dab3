//! Chain files: what they come to, and what is said about wrong ones.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use forebay_run_evb::config::{self, SECTIONS};
use forebay_run_evb::plan::{Backpressure, Completion, FullPolicy, SinkKind, SourceKey, TcpPlan};
use forebay_run_evb::presets;
use forebay_settings::{Absent, Kind};
use proptest::prelude::*;

const SMALL: &str = "[[sources]]\nbase_port = 50000\ncount = 2\n";

fn parse(text: &str) -> config::Chain {
    config::parse("chain.toml", text, "7").unwrap()
}

fn mistakes(text: &str) -> String {
    config::parse("chain.toml", text, "7")
        .unwrap_err()
        .to_string()
}

#[test]
fn a_short_file_is_the_plan_of_the_command_line() {
    let chain = parse(SMALL);
    let run_dir = Path::new("forebay-run");
    let mut plan = presets::plan("run-7", run_dir, [127, 0, 0, 1].into(), 50000, 2);
    plan.sinks = vec![presets::file_sink(run_dir.into(), "be")];
    assert_eq!(chain.plan, plan);
    assert_eq!(
        (chain.duration, chain.processes, chain.memory_bytes_max),
        (None, true, None)
    );
}

#[test]
fn the_example_is_a_chain() {
    let example = forebay_testing::root().join("examples/hades.toml");
    let chain = config::load(&example, &[], "7").unwrap();
    let plan = &chain.plan;
    assert_eq!((plan.sources.len(), plan.ports.len()), (95, 92));
    let names: Vec<&str> = [0, 59, 60, 90, 94]
        .map(|at| plan.sources[at].name.as_str())
        .into();
    assert_eq!(names, ["mdc0", "mdc59", "rich0", "hub0", "start1"]);
    assert_eq!(plan.ports[91], SocketAddr::from(([127, 0, 0, 1], 50091)));
    assert_eq!(plan.sources[91].key, SourceKey::SubEventId(0x8001));
    assert_eq!(plan.sources[80].ring_bytes, 16 << 20);
    assert_eq!(chain.duration, Some(Duration::from_secs(3600)));
    assert_eq!(plan.sinks.len(), 2);
    plan.builder_config().validate().unwrap();
    plan.event_rings().validate().unwrap();
}

/// Every key, none with its default.
const EVERY_KEY: &str = r#"
[run]
name = "night"
directory = "there"
duration_s = 5
stages = "threads"
metrics = "[::1]:9400"
memory_bytes_max = 1_000_000_000
[receiver]
bind = "0.0.0.0"
queue_bytes = 1048576
socket_buffer_bytes = 100000
message_bytes_max = 500000
batch_datagrams = 8
spin_us = 9
latency_budget_us = 12
gather_us = 10
stamps = false
gro = true
full = "drop"
populate_queues = true
cpu = 1
real_time = 2
[[sources]]
name = "left"
ports = [6000, 7000]
[[sources]]
port = 8000
bind = "127.0.0.2"
senders = ["10.0.0.1:5", "10.0.0.2:5"]
[builder]
completion = "discard"
trigger_bits = 16
check_tag = false
timeout_ms = 20
timeout_events = 30
window_events = 40
event_bytes_max = 5000
gather_us = 11
cpu = 3
real_time = 4
[[sinks]]
kind = "file"
name = "disk"
directory = "/data"
prefix = "te"
builder_number = 42
file_bytes_max = 65536
file_events_max = 2
file_s_max = 3
sync = true
queue_bytes = 65536
full = "drop"
[[sinks]]
kind = "tcp"
address = "10.0.0.9:1234"
full = "block"
block_ms_max = 77
file_events_max = 4
patience_ms = 5
"#;

#[test]
fn e_links_are_sources_that_are_subscribed_to() {
    let text = "[[sources]]\naddress = \"shm://felix\"\nelinks = [0, 64]\nconnector = 3\n\
                [[sources]]\nname = \"slow\"\naddress = \"tcp://10.0.0.1:7200\"\nelinks = [0]\ndetector = 1\n\
                [elinks]\nl1id_offset_bytes = 4\nl1id_bytes = 3\nbuffer_count = 9\nplain = true\n";
    let plan = parse(text).plan;
    let elinks = plan.elinks.unwrap();
    assert_eq!(elinks.publishers, ["shm://felix", "tcp://10.0.0.1:7200"]);
    assert_eq!(
        (elinks.said.l1id_offset_bytes, elinks.said.l1id_bytes),
        (4, 3)
    );
    assert_eq!(
        (elinks.said.buffer_count, elinks.said.security.plain),
        (9, true)
    );
    let of = |source: usize| (plan.sources[source].name.as_str(), plan.sources[source].key);
    assert_eq!(of(0), ("elink0", SourceKey::Elink(0x1000_0030_0000_0000)));
    assert_eq!(of(1), ("elink64", SourceKey::Elink(0x1000_0030_0040_0000)));
    assert_eq!(of(2), ("slow", SourceKey::Elink(0x1010_0000_0000_0000)));
    assert!(plan.ports.is_empty());
}

#[test]
fn e_links_and_datagrams_do_not_mix() {
    let block = "[[sources]]\naddress = \"shm://felix\"\nelinks = [0]\n";
    for (text, wrong) in [
        (
            format!("{block}[[sources]]\nport = 5000\n"),
            "sources of one kind",
        ),
        (format!("{block}count = 2\n"), "sources[0].count"),
        (
            "[[sources]]\nelinks = [0]\n".into(),
            "where its E-links are published",
        ),
        (format!("{block}{block}"), "is called elink0 too"),
        (
            format!("{block}[[sources]]\nname = \"b\"\naddress = \"shm://x\"\nelinks = [0]\n"),
            "belongs to the block of line 1 already",
        ),
        (format!("{block}[receiver]\ngro = true\n"), "receiver.gro"),
        (
            "[[sources]]\nport = 5000\nconnector = 1\n".into(),
            "sources[0].connector",
        ),
        (
            "[[sources]]\nport = 5000\n[elinks]\nl1id_bytes = 2\n".into(),
            "elinks.l1id_bytes",
        ),
    ] {
        let told = mistakes(&text);
        assert!(told.contains(wrong), "{text}\n{told}");
    }
}

#[test]
fn every_key_arrives_in_the_plan() {
    let chain = parse(EVERY_KEY);
    let plan = &chain.plan;
    assert_eq!(
        (plan.run_id.as_str(), plan.run_dir.to_str()),
        ("night-7", Some("there"))
    );
    assert_eq!(
        (chain.duration, chain.processes),
        (Some(Duration::from_secs(5)), false)
    );
    assert_eq!(chain.metrics, Some("[::1]:9400".parse().unwrap()));
    let receiver = &plan.receiver;
    assert_eq!(
        (receiver.socket_buffer_bytes, receiver.message_bytes_max),
        (Some(100_000), 500_000)
    );
    assert_eq!((receiver.batch_datagrams, receiver.spin_us), (8, 9));
    assert_eq!(
        (receiver.stamps, receiver.gro, receiver.full),
        (false, true, FullPolicy::Drop)
    );
    assert_eq!((receiver.cpu, receiver.real_time), (Some(1), Some(2)));
    assert!(receiver.populate_queues && plan.event_rings().populate);
    let ports: Vec<String> = plan.ports.iter().map(ToString::to_string).collect();
    assert_eq!(ports, ["0.0.0.0:6000", "0.0.0.0:7000", "127.0.0.2:8000"]);
    let names: Vec<&str> = plan
        .sources
        .iter()
        .map(|source| source.name.as_str())
        .collect();
    assert_eq!(names, ["left0", "left1", "source2", "source3"]);
    assert_eq!(
        plan.sources[3].key,
        SourceKey::Sender("10.0.0.2:5".parse().unwrap())
    );
    assert!(
        plan.sources
            .iter()
            .all(|source| source.ring_bytes == 1 << 20)
    );
    let builder = &plan.builder;
    assert_eq!(
        (builder.completion, builder.trigger_bits),
        (Completion::Discard, 16)
    );
    assert_eq!((receiver.gather_us, builder.gather_us), (Some(10), 11));
    assert_eq!(receiver.latency_budget(), Some(Duration::from_micros(12)));
    assert_eq!((builder.check_tag, builder.timeout_ms), (false, 20));
    assert_eq!((builder.timeout_events, builder.window_events), (30, 40));
    assert_eq!(
        (builder.event_bytes_max, builder.cpu, builder.real_time),
        (5000, Some(3), Some(4))
    );
    let SinkKind::File(file) = &plan.sinks[0].kind else {
        panic!("{:?}", plan.sinks[0])
    };
    assert_eq!(
        (file.directory.to_str(), file.prefix.as_str()),
        (Some("/data"), "te")
    );
    assert_eq!((file.builder_number, file.sync), (42, true));
    assert_eq!(
        (file.bytes_max, file.events_max, file.seconds_max),
        (65536, 2, 3)
    );
    assert_eq!(
        (plan.sinks[0].queue_bytes, plan.sinks[0].backpressure),
        (65536, Backpressure::Drop)
    );
    assert_eq!(plan.sinks[0].name, "disk");
    let mover: SocketAddr = "10.0.0.9:1234".parse().unwrap();
    let tcp = TcpPlan {
        events_max: 4,
        patience_ms: 5,
        ..mover.into()
    };
    assert_eq!(plan.sinks[1].kind, SinkKind::Tcp(tcp));
    assert_eq!(
        plan.sinks[1].backpressure,
        Backpressure::Block { limit_ms: 77 }
    );
}

/// A file that writes down every declared default but those of `apart`, with these sources.
fn with_defaults(sources: &str, apart: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let named = ["name", "base_port", "count", "kind"];
        let is_apart = |key: &str| {
            (section.many && named.contains(&key)) || apart.contains(&(section.name, key))
        };
        writeln!(text, "{}", section.header()).unwrap();
        for key in section.keys.iter().filter(|key| !is_apart(key.name)) {
            if let Absent::Value(value) = key.absent {
                writeln!(text, "{} = {}", key.name, value()).unwrap();
            }
        }
        match section.name {
            "sources" => text += sources,
            "sinks" => text += "kind = \"file\"\n",
            _ => {}
        }
    }
    text
}

/// A declared default is the one that holds: writing it down changes nothing.
#[test]
fn declared_defaults_are_the_real_ones() {
    let of_elinks = [
        "l1id_offset_bytes",
        "l1id_bytes",
        "buffer_bytes",
        "buffer_count",
        "plain",
    ];
    let mut apart = of_elinks.map(|key| ("elinks", key)).to_vec();
    apart.extend([("sources", "detector"), ("sources", "connector")]);
    let text = with_defaults("base_port = 50000\ncount = 2\n", &apart);
    assert_eq!(parse(&text), parse(SMALL), "{text}");
    let of_sockets = [
        "bind",
        "batch_datagrams",
        "spin_us",
        "gro",
        "latency_budget_us",
        "gather_us",
    ];
    let apart = of_sockets.map(|key| ("receiver", key));
    let sources = "address = \"shm://felix\"\nelinks = [0]\n";
    let text = with_defaults(sources, &apart);
    let small = format!("[[sources]]\n{sources}");
    assert_eq!(parse(&text), parse(&small), "{text}");
}

#[test]
fn a_receiver_that_spins_lets_nothing_gather_unless_it_is_said() {
    let budget = |keys: &str| {
        let chain = parse(&format!("[receiver]\n{keys}{SMALL}"));
        chain.plan.receiver.latency_budget()
    };
    assert_eq!(budget(""), Some(Duration::from_millis(1)));
    for less in ["spin_us = 5\n", "gather_us = 200\n", "real_time = 3\n"] {
        assert_eq!(budget(less), None, "{less}");
    }
    assert_eq!(budget("latency_budget_us = 0\n"), None);
    let said = budget("spin_us = 5\nlatency_budget_us = 7\n");
    assert_eq!(said, Some(Duration::from_micros(7)));
}

#[test]
fn a_remote_mover_has_defaults_of_its_own() {
    let sinks = "[[sinks]]\nkind = \"tcp\"\naddress = \"127.0.0.1:9\"\n";
    let chain = parse(&format!("{SMALL}{sinks}"));
    let tcp = presets::tcp_sink(([127, 0, 0, 1], 9).into());
    assert_eq!(tcp.backpressure, Backpressure::Drop);
    assert!(matches!(&tcp.kind, SinkKind::Tcp(plan) if plan.patience_ms == 10_000));
    assert_eq!(chain.plan.sinks, [tcp]);
}

#[test]
fn ports_shared_and_free_ones() {
    let chain = parse(
        "[[sources]]\nport = 0\nsub_event_ids = [1, 2]\n[[sources]]\nbase_port = 0\ncount = 2\n\
         [[sources]]\nport = 9\nsub_event_ids = [1]\n[[sources]]\nport = 9\nsenders = [\"1.2.3.4:5\"]\n",
    );
    let ports: Vec<u16> = chain.plan.ports.iter().map(SocketAddr::port).collect();
    assert_eq!(ports, [0, 0, 0, 9]);
    let of: Vec<usize> = chain
        .plan
        .sources
        .iter()
        .map(|source| source.port)
        .collect();
    assert_eq!(of, [0, 0, 1, 2, 3, 3]);
}

macro_rules! refused {
    ($($name:ident: $text:expr;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(mistakes($text));
        }
    )*};
}

refused! {
    an_unknown_key_is_refused: "[receiver]\nsocket_bufer_bytes = 4194304\n[[sources]]\nbase_port = 1\n";
    a_key_of_another_section_is_sent_there: "[run]\ntimeout_ms = 5\n[[sources]]\nbase_port = 1\n";
    a_key_without_a_section_is_sent_there: "duration_s = 5\n[[sources]]\nbase_port = 1\n";
    an_unknown_section_is_refused: "[reciever]\ncpu = 1\n[[sources]]\nbase_port = 1\n";
    a_size_in_words_is_translated: "[receiver]\nqueue_bytes = \"4Mi\"\n[[sources]]\nbase_port = 1\n";
    a_size_that_is_no_power_of_two: "[receiver]\nqueue_bytes = 3_000_000\n[[sources]]\nbase_port = 1\n";
    a_value_out_of_range: "[builder]\ntimeout_ms = 0\ntrigger_bits = 32\nwindow_events = -1\n[[sources]]\nbase_port = 1\n";
    a_wrong_type: "[receiver]\ncpu = 1.5\ngro = \"on\"\nbind = 127\nstamps = 1\n[[sources]]\nbase_port = 1\n";
    a_wrong_choice: "[builder]\ncompletion = \"partail\"\n[[sources]]\nbase_port = 1\n";
    broken_toml: "[run]\nname = \"x\nduration_s = = 5\n";
    a_key_twice: "[run]\nduration_s = 5\nduration_s = 6\n[[sources]]\nbase_port = 1\n";
    no_sources: "[run]\nname = \"x\"\n";
    a_section_that_is_no_list: "[sources]\nbase_port = 1\n";
    a_list_that_is_a_section: "[[run]]\nname = \"x\"\n[[sources]]\nbase_port = 1\n";
    ports_beyond_the_last: "[[sources]]\nbase_port = 65530\ncount = 7\n";
    too_many_sources: "[[sources]]\nbase_port = 1\ncount = 1000\n[[sources]]\nbase_port = 2000\ncount = 25\n";
    a_port_twice: "[[sources]]\nname = \"a\"\nbase_port = 50000\ncount = 3\n[[sources]]\nname = \"b\"\nport = 50002\n";
    a_port_on_two_addresses: "[[sources]]\nport = 5\n[[sources]]\nport = 5\nbind = \"127.0.0.2\"\n";
    a_name_twice: "[[sources]]\nname = \"a\"\nport = 1\n[[sources]]\nname = \"a\"\nport = 2\n";
    an_id_twice: "[[sources]]\nport = 1\nsub_event_ids = [7, 7]\n[[sources]]\nport = 2\nsub_event_ids = [8]\n[[sources]]\nport = 2\nsub_event_ids = [8]\n";
    two_ways_to_name_ports: "[[sources]]\nport = 1\nbase_port = 1\n[[sources]]\nname = \"lost\"\n";
    a_sender_without_a_port: "[[sources]]\nport = 1\nsenders = [\"10.0.0.7\", \"host:5\"]\n";
    a_queue_too_small_for_a_message: "[receiver]\nmessage_bytes_max = 1_000_000\nqueue_bytes = 1048576\n[[sources]]\nport = 1\n";
    an_event_too_long_for_a_sink: "[[sources]]\nport = 1\n[[sinks]]\nkind = \"file\"\nqueue_bytes = 1048576\n";
    a_window_too_wide: "[builder]\ntrigger_bits = 16\nwindow_events = 20_000\n[[sources]]\nport = 1\n";
    keys_without_a_meaning: "[[sources]]\nport = 1\ncount = 2\n[[sinks]]\nkind = \"null\"\nqueue_bytes = 65536\nprefix = \"x\"\n";
    sinks_that_collide: "[[sources]]\nport = 1\n[[sinks]]\nkind = \"file\"\nname = \"x\"\n[[sinks]]\nkind = \"file\"\nname = \"x\"\n";
    sinks_that_say_too_little: "[[sources]]\nport = 1\n[[sinks]]\nprefix = \"x\"\n[[sinks]]\nkind = \"tcp\"\n";
    what_a_mover_does_not_take: "[run]\nname = \"a-name-that-is-three-and-forty-letters-long.x\"\n[builder]\nevent_bytes_max = 67_108_865\n[[sources]]\nport = 1\n[[sinks]]\nkind = \"tcp\"\nname = \"a-name-that-is-33-letters-long.xxx\"\naddress = \"127.0.0.1:9400\"\nqueue_bytes = 268435456\n";
    a_name_that_is_no_file_name: "[run]\nname = \"../x\"\n[[sources]]\nname = \"\"\nport = 1\n";
}

/// The ledger's size is not written down here: it grows with every new counter.
#[test]
fn more_memory_than_allowed_is_refused_with_the_sum() {
    let run = "[run]\nmemory_bytes_max = 100_000_000\n[receiver]\nqueue_bytes = 4194304\n[[sources]]\nbase_port = 1\ncount = 90\n";
    let said = mistakes(run);
    let parts = [
        "chain.toml:2:20: run.memory_bytes_max = 100_000_000: the run can take more:",
        " 377487360 (sources' queues) + 67108864 (sinks' queues) + 12582912 (pieces for disks) + 754974720 (socket buffers",
        " (ledger) = 12",
        "right:  at least 12",
    ];
    for part in parts {
        assert!(said.contains(part), "{said}");
    }
    parse(&run.replace("100_000_000", "4_000_000_000"));
    // Three pieces, each an eighth of the queue and 4 MiB at most; through the page cache none.
    let pieces = |keys: &str| {
        let sink = format!("[[sources]]\nport = 1\n[[sinks]]\nkind = \"file\"\n{keys}");
        parse(&sink).plan.memory().sink_pieces_bytes
    };
    assert_eq!(pieces("queue_bytes = 67108864\n"), 12 << 20);
    assert_eq!(pieces("io = \"buffered\"\n"), 0);
    let short = "queue_bytes = 524288\n[builder]\nevent_bytes_max = 100_000\n";
    assert_eq!(pieces(short), 0, "too short for direct");
}

/// Something for a key: right, nearly right, or nonsense.
fn value(kind: Kind) -> BoxedStrategy<String> {
    let number = |min: u64, max: u64| {
        prop_oneof![Just(min), Just(max), min..=max, any::<u64>()].prop_map(|n| n.to_string())
    };
    let right = match kind {
        Kind::Flag => any::<bool>().prop_map(|flag| flag.to_string()).boxed(),
        Kind::Integer(min, max) | Kind::Either(min, max) => number(min, max).boxed(),
        Kind::ZeroOr(min, max) => prop_oneof![Just("0".to_owned()), number(min, max)].boxed(),
        Kind::PowerOfTwo(min, max) => prop_oneof![
            (16u32..37).prop_map(|power| (1u64 << power).to_string()),
            number(min, max)
        ]
        .boxed(),
        Kind::Integers(min, max) => prop::collection::vec(number(min, max), 0..4)
            .prop_map(|all| format!("[{}]", all.join(", ")))
            .boxed(),
        Kind::Choice(words) => prop::sample::select(words)
            .prop_map(|word| format!("{word:?}"))
            .boxed(),
        Kind::Text(_) => prop_oneof![
            "\"[a-zäß./-]{0,60}\"",
            Just("\"127.0.0.1\"".to_owned()),
            Just("\"::1\"".to_owned()),
            "\"127\\.0\\.0\\.1:[0-9]{1,6}\"",
            "\"(tcp|shm|fabric\\+tcp|x)://[a-z0-9.:]{0,9}\"",
        ]
        .boxed(),
        Kind::Texts(_) => "\\[\"127\\.0\\.0\\.[12]:[0-9]{1,4}\"\\]".boxed(),
    };
    prop_oneof![8 => right, 1 => "[-0-9.\"\\[\\]{}=a-zäß]{0,12}"].boxed()
}

fn any_file() -> impl Strategy<Value = String> {
    let block = prop::sample::select(SECTIONS).prop_flat_map(|section| {
        let keys: Vec<_> = section.keys.iter().collect();
        let lines = prop::sample::subsequence(keys.clone(), 0..=keys.len()).prop_flat_map(|keys| {
            let lines: Vec<_> = keys
                .into_iter()
                .map(|key| value(key.kind).prop_map(|v| format!("{} = {v}\n", key.name)))
                .collect();
            lines
        });
        lines.prop_map(move |lines| format!("{}\n{}", section.header(), lines.concat()))
    });
    prop::collection::vec(block, 0..6).prop_map(|blocks| blocks.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_random_file_is_a_sound_plan_or_has_mistakes(text in any_file()) {
        match config::parse("any.toml", &text, "7") {
            Ok(chain) => {
                prop_assert!(chain.plan.builder_config().validate().is_ok());
                prop_assert!(chain.plan.check_movers().is_ok());
                prop_assert!(chain.plan.event_rings().validate().is_ok());
                for sink in 0..chain.plan.sinks.len() {
                    prop_assert!(chain.plan.sink_ring(sink).validate().is_ok());
                }
            }
            Err(mistakes) => {
                prop_assert!(!mistakes.mistakes.is_empty());
                for mistake in &mistakes.mistakes {
                    prop_assert!(mistake.line >= 1 && mistake.column >= 1);
                    prop_assert!(!mistake.right.is_empty() && !mistake.remedy.is_empty());
                }
                let _ = mistakes.to_string();
            }
        }
    }

    #[test]
    fn random_text_never_panics(text in "\\PC{0,200}") {
        let _ = config::parse("any.toml", &text, "7").map_err(|mistakes| mistakes.to_string());
    }

    #[test]
    fn a_damaged_example_never_panics(at in any::<prop::sample::Index>(), cut in 0usize..40, put in "[\\PC\n]{0,10}") {
        let mut text: Vec<char> = include_str!("../../../../examples/hades.toml").chars().collect();
        let at = at.index(text.len());
        let end = (at + cut).min(text.len());
        text.splice(at..end, put.chars());
        let text: String = text.into_iter().collect();
        let _ = config::parse("any.toml", &text, "7").map_err(|mistakes| mistakes.to_string());
    }
}

#[test]
fn a_mover_has_a_port() {
    let text = format!("{SMALL}[[sinks]]\nkind = \"tcp\"\naddress = \"127.0.0.1:0\"\n");
    assert!(
        mistakes(&text).contains("sinks[0].address = \"127.0.0.1:0\": port 0 is none"),
        "{}",
        mistakes(&text)
    );
}
