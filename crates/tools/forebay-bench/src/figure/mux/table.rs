//! M1 to M20 as a table: what is measured for each, and what was printed of it. Published: the thesis on the network system of sDDF on seL4, 1 Gb/s, 1472 B.

mod clients;

use forebay_run_mux::config::PolicyChoice;

use crate::mux::{ClientOptions, Workload};
use clients::{
    BEHIND, GUARANTEED, LIMITED, LIMITED_BOUND, LOADED, ONE, SMALL, SMALL_BEHIND, SMALLEST_BEHIND,
    TRUSTED,
};

/// A figure.
pub(super) struct Entry {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What was published, in words.
    pub(super) published: &'static str,
    /// Figures with the same one share their runs.
    pub(super) scan: &'static str,
    pub(super) scenarios: &'static [Scenario],
    /// Single values that were printed.
    pub(super) printed: &'static [Printed],
    /// What the numbers side by side say.
    pub(super) sentence: &'static str,
}

/// Clients, what they do, and where they run.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) workload: Workload,
    pub(super) policy: PolicyChoice,
    pub(super) clients: &'static [ClientOptions],
    /// Receive buffers of all clients; none: as many as the bench's.
    pub(super) receive_buffers: Option<u32>,
    pub(super) place: Place,
    /// Threads of the driver: with 2, frames go in one of their own.
    pub(super) driver_threads: u8,
    /// Plain sockets instead of the multiplexer.
    pub(super) is_sockets: bool,
}

/// Where daemon and clients run; the generator is where the kernel puts it, unless another place is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where the kernel puts them.
    Anywhere,
    /// Daemon and clients on the last CPU, the generator on the first.
    Together,
    /// The daemon on the last CPU, clients on the first, beside the generator.
    DaemonApart,
    /// Clients on the last CPU, the daemon on the first, beside the generator.
    ClientsApart,
}

/// What a printed value is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Payload of all clients, in Mbit/s.
    All,
    /// Payload of one client, in Mbit/s.
    Client(usize),
    /// CPU, in percent: published of one core, here of the host.
    Cpu,
    /// Median round trip of a client, in µs.
    RoundTrip(usize),
}

/// A printed value, at the highest load.
pub(super) struct Printed {
    pub(super) scenario: &'static str,
    pub(super) of: Of,
    pub(super) value: f64,
}

const fn printed(scenario: &'static str, of: Of, value: f64) -> Printed {
    Printed {
        scenario,
        of,
        value,
    }
}

const ECHO: Scenario = Scenario {
    name: "echo",
    workload: Workload::Echo,
    policy: PolicyChoice::Signalled,
    clients: &[ONE],
    receive_buffers: None,
    place: Place::Anywhere,
    driver_threads: 1,
    is_sockets: false,
};
const TWO: Scenario = Scenario {
    name: "two clients",
    clients: &[ONE, ONE],
    ..ECHO
};
const HEAVY: Scenario = Scenario {
    name: "heavy",
    workload: Workload::Heavy,
    clients: &[ONE, BEHIND],
    receive_buffers: Some(512),
    place: Place::Together,
    ..ECHO
};
const FOUR: Scenario = Scenario {
    name: "kernel's choice",
    workload: Workload::Heavy,
    clients: &[LOADED, LOADED, LOADED, LOADED],
    ..ECHO
};

const FOUR_APART: Scenario = Scenario {
    name: "driver of two threads",
    driver_threads: 2,
    ..FOUR
};

const PRIORITY: &[Scenario] = &[Scenario {
    name: "A above B",
    policy: PolicyChoice::Priority,
    clients: &[ONE, BEHIND],
    ..ECHO
}];
const UNEQUAL: &[Scenario] = &[Scenario {
    name: "B's Rx queue 32",
    clients: &[ONE, SMALL_BEHIND],
    ..ECHO
}];
const ON_TWO_CORES: &str = "Published on four cores; here two CPUs are shared by driver, multiplexer and copiers (one thread but for M19), clients, switch and generator: a shape of its own, and no comparison of cores.";

/// All of them, in order.
pub(super) const TABLE: [Entry; 20] = [
    Entry {
        id: "M1",
        title: "One client of the multiplexer: throughput and CPU of four workloads",
        published: "957 Mb/s at 82.6 % of a core (echo), 808 at 40 % (Rx-mostly), 914 at 46 % (Tx-mostly), 886 at 37 % (Tx-initiated)",
        scan: "mux-workloads",
        scenarios: &[
            ECHO,
            Scenario {
                name: "rx-mostly",
                workload: Workload::RxMostly,
                ..ECHO
            },
            Scenario {
                name: "tx-mostly",
                workload: Workload::TxMostly,
                ..ECHO
            },
            Scenario {
                name: "tx-initiated",
                workload: Workload::TxInitiated,
                ..ECHO
            },
        ],
        printed: &[
            printed("echo", Of::All, 957.0),
            printed("echo", Of::Cpu, 82.6),
            printed("rx-mostly", Of::All, 808.0),
            printed("rx-mostly", Of::Cpu, 40.0),
            printed("tx-mostly", Of::All, 914.0),
            printed("tx-mostly", Of::Cpu, 46.0),
            printed("tx-initiated", Of::All, 886.0),
            printed("tx-initiated", Of::Cpu, 37.0),
        ],
        sentence: "CPU was printed of one core with the load elsewhere; here it is of the whole host, generator and switch in it.",
    },
    Entry {
        id: "M2",
        title: "Two echo clients of equal priority, queues of 512",
        published: "482 + 480 Mb/s",
        scan: "mux-two",
        scenarios: &[TWO],
        printed: &[
            printed("two clients", Of::Client(0), 482.0),
            printed("two clients", Of::Client(1), 480.0),
        ],
        sentence: "Two clients that ask for the same get the same.",
    },
    Entry {
        id: "M3",
        title: "Two echo clients, B's receive queue of 16",
        published: "496 + 399 Mb/s",
        scan: "mux-small",
        scenarios: &[Scenario {
            name: "B's Rx queue 16",
            clients: &[ONE, SMALL],
            ..ECHO
        }],
        printed: &[
            printed("B's Rx queue 16", Of::Client(0), 496.0),
            printed("B's Rx queue 16", Of::Client(1), 399.0),
        ],
        sentence: "A small queue costs its own client, by queue_full in its account, and the other one nothing.",
    },
    Entry {
        id: "M4",
        title: "A above B, B's receive queue of 32: throughput",
        published: "479 + 479 Mb/s",
        scan: "mux-unequal",
        scenarios: UNEQUAL,
        printed: &[
            printed("B's Rx queue 32", Of::Client(0), 479.0),
            printed("B's Rx queue 32", Of::Client(1), 479.0),
        ],
        sentence: "Below the overload a priority takes nothing from anybody.",
    },
    Entry {
        id: "M5",
        title: "A above B, B's receive queue of 32: median round trip",
        published: "1492 against 1590 us",
        scan: "mux-unequal",
        scenarios: UNEQUAL,
        printed: &[
            printed("B's Rx queue 32", Of::RoundTrip(0), 1492.0),
            printed("B's Rx queue 32", Of::RoundTrip(1), 1590.0),
        ],
        sentence: "The round trip of a virtual wire has no interrupt moderation of a card in it.",
    },
    Entry {
        id: "M6",
        title: "Overload (each packet copied and added up ten times), equal queues",
        published: "414 + 280 Mb/s: B starves A through the shared receive buffers",
        scan: "mux-overload",
        scenarios: &[
            HEAVY,
            Scenario {
                name: "A guaranteed 256 buffers",
                clients: &[GUARANTEED, BEHIND],
                ..HEAVY
            },
        ],
        printed: &[
            printed("heavy", Of::Client(0), 414.0),
            printed("heavy", Of::Client(1), 280.0),
        ],
        sentence: "The original shares its buffers without a minimum; a guarantee keeps A's from B, and leaves B's queue as it is. Daemon and clients share a CPU; the generator, another host in the original, has the other one.",
    },
    Entry {
        id: "M7",
        title: "Overload, B's receive queue of 32",
        published: "486 + 203 Mb/s",
        scan: "mux-overload-small",
        scenarios: &[
            Scenario {
                name: "B's Rx queue 32",
                clients: &[ONE, SMALL_BEHIND],
                ..HEAVY
            },
            Scenario {
                name: "A guaranteed 256 buffers",
                clients: &[GUARANTEED, BEHIND],
                ..HEAVY
            },
        ],
        printed: &[
            printed("B's Rx queue 32", Of::Client(0), 486.0),
            printed("B's Rx queue 32", Of::Client(1), 203.0),
        ],
        sentence: "The original's cure is a smaller queue for B; a guarantee for A does the same without it.",
    },
    Entry {
        id: "M8",
        title: "Overload, B's receive and send queues of 16",
        published: "484 + 187 Mb/s",
        scan: "mux-overload-smallest",
        scenarios: &[Scenario {
            name: "B's queues 16",
            clients: &[ONE, SMALLEST_BEHIND],
            ..HEAVY
        }],
        printed: &[
            printed("B's queues 16", Of::Client(0), 484.0),
            printed("B's queues 16", Of::Client(1), 187.0),
        ],
        sentence: "What B loses is in its own account by name.",
    },
    Entry {
        id: "M9",
        title: "B limited to 100 Mb/s on sending, without and with a bound on waiting",
        published: "478 + 97.6 Mb/s, but B's round trip 121 ms",
        scan: "mux-limit",
        scenarios: &[
            Scenario {
                name: "window",
                policy: PolicyChoice::Window,
                clients: &[ONE, LIMITED],
                ..ECHO
            },
            Scenario {
                name: "window, waits at most 5 ms",
                policy: PolicyChoice::Window,
                clients: &[ONE, LIMITED_BOUND],
                ..ECHO
            },
            Scenario {
                name: "token bucket, waits at most 5 ms",
                policy: PolicyChoice::TokenBucket,
                clients: &[ONE, LIMITED_BOUND],
                ..ECHO
            },
        ],
        printed: &[
            printed("window", Of::Client(0), 478.0),
            printed("window", Of::Client(1), 97.6),
            printed("window", Of::RoundTrip(1), 121_000.0),
        ],
        sentence: "A limiter over a deep queue delays; with a bound in time the rate is the same, and what would wait longer is dropped by name (sojourn).",
    },
    Entry {
        id: "M10",
        title: "Against sockets of Linux, on one core and on all",
        published: "the Linux socket path tops out near 656 Mb/s on one core",
        scan: "mux-sockets",
        scenarios: &[
            Scenario {
                name: "sockets, one core",
                is_sockets: true,
                place: Place::Together,
                ..ECHO
            },
            Scenario {
                name: "sockets",
                is_sockets: true,
                ..ECHO
            },
            Scenario {
                name: "multiplexer, one core",
                place: Place::Together,
                ..ECHO
            },
            Scenario {
                name: "multiplexer",
                ..ECHO
            },
        ],
        printed: &[printed("sockets, one core", Of::All, 656.0)],
        sentence: "The published core is a slow one; what can be compared is both paths on one host.",
    },
    Entry {
        id: "M11",
        title: "Round robin, two echo clients",
        published: "479 + 479 Mb/s",
        scan: "mux-round-robin",
        scenarios: &[Scenario {
            name: "round robin",
            policy: PolicyChoice::RoundRobin,
            ..TWO
        }],
        printed: &[
            printed("round robin", Of::Client(0), 479.0),
            printed("round robin", Of::Client(1), 479.0),
        ],
        sentence: "Equal turns, equal rates.",
    },
    Entry {
        id: "M12",
        title: "Strict priority, A above B: throughput",
        published: "470 + 486 Mb/s: the favoured client had less",
        scan: "mux-priority",
        scenarios: PRIORITY,
        printed: &[
            printed("A above B", Of::Client(0), 470.0),
            printed("A above B", Of::Client(1), 486.0),
        ],
        sentence: "The favoured client must have what is asked of it.",
    },
    Entry {
        id: "M13",
        title: "Strict priority, A above B: median round trip",
        published: "1480 against 1578 us",
        scan: "mux-priority",
        scenarios: PRIORITY,
        printed: &[
            printed("A above B", Of::RoundTrip(0), 1480.0),
            printed("A above B", Of::RoundTrip(1), 1578.0),
        ],
        sentence: "What a priority buys below the overload is a shorter way of its client through the queues.",
    },
    Entry {
        id: "M14",
        title: "Placement: one echo client, daemon and client on one core",
        published: "a panel of the placements on four cores, with four loaded clients 796 Mb/s in all at best",
        scan: "mux-place-one",
        scenarios: &[Scenario {
            name: "one core",
            place: Place::Together,
            ..ECHO
        }],
        printed: &[],
        sentence: ON_TWO_CORES,
    },
    Entry {
        id: "M15",
        title: "Placement: one echo client, the daemon on a core without it",
        published: "a panel of the placements on four cores, with four loaded clients 796 Mb/s in all at best",
        scan: "mux-place-daemon",
        scenarios: &[Scenario {
            name: "daemon apart",
            place: Place::DaemonApart,
            ..ECHO
        }],
        printed: &[],
        sentence: ON_TWO_CORES,
    },
    Entry {
        id: "M16",
        title: "Placement: four loaded clients and the daemon on one core",
        published: "a panel of the placements on four cores, with four loaded clients 796 Mb/s in all at best",
        scan: "mux-four-one",
        scenarios: &[Scenario {
            name: "one core",
            place: Place::Together,
            ..FOUR
        }],
        printed: &[],
        sentence: ON_TWO_CORES,
    },
    Entry {
        id: "M17",
        title: "Placement: four loaded clients, the daemon on a core without them",
        published: "a panel of the placements on four cores, with four loaded clients 796 Mb/s in all at best",
        scan: "mux-four-daemon",
        scenarios: &[Scenario {
            name: "daemon apart",
            place: Place::DaemonApart,
            ..FOUR
        }],
        printed: &[],
        sentence: ON_TWO_CORES,
    },
    Entry {
        id: "M18",
        title: "Placement: four loaded clients on a core without the daemon and the generator",
        published: "a panel of the placements on four cores, with four loaded clients 796 Mb/s in all at best",
        scan: "mux-four-clients",
        scenarios: &[Scenario {
            name: "clients apart",
            place: Place::ClientsApart,
            ..FOUR
        }],
        printed: &[],
        sentence: ON_TWO_CORES,
    },
    Entry {
        id: "M19",
        title: "Four loaded clients where the kernel puts them, and a driver of two threads",
        published: "755 Mb/s in all with the two-thread driver, 796 without",
        scan: "mux-four",
        scenarios: &[FOUR, FOUR_APART],
        printed: &[
            printed("kernel's choice", Of::All, 796.0),
            printed("driver of two threads", Of::All, 755.0),
        ],
        sentence: "There the threads were those of interrupts and of clients, and two of them got less; here frames go in a thread of their own, and two CPUs are shared by all.",
    },
    Entry {
        id: "M20",
        title: "What it costs to copy a packet out of the client's memory when it is handed over",
        published: "a component that copies on sending takes the CPU from 82.6 to 96.9 % of a core at wire speed",
        scan: "mux-copy",
        scenarios: &[
            Scenario {
                name: "copied",
                ..ECHO
            },
            Scenario {
                name: "trusted",
                clients: &[TRUSTED],
                ..ECHO
            },
            Scenario {
                name: "sockets",
                is_sockets: true,
                ..ECHO
            },
        ],
        printed: &[
            printed("copied", Of::Cpu, 96.9),
            printed("trusted", Of::Cpu, 82.6),
        ],
        sentence: "A packet of a trusted client is copied once, into the driver; of another one twice, as it is copied out of the client's memory before. There a component of its own does that, here the daemon; the sockets' kernel copies too.",
    },
];
