//! The list of figures.

use super::scan::Scan;
use super::{
    batch, buffers, chunks, components, ctt, grid, huge, loss, mark, memory, mux, offload, profile,
    round_trip, sources, tdm, test2,
};
use forebay_report::plot::{Bars, Chart, Flame};
use forebay_report::rows::Row;

/// One figure: what is measured, how it is drawn, what is said.
pub(super) struct Definition {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What others published, in words.
    pub(super) published: &'static str,
    /// The points to measure; quick or not.
    pub(super) scan: fn(bool) -> Scan,
    /// The picture.
    pub(super) drawing: Drawing,
    /// Published values beside ours, line by line.
    pub(super) compare: fn(&[Row]) -> Vec<String>,
    /// What is real, what is emulated, and what else a reader must know.
    pub(super) remark: &'static str,
}

/// How a figure is drawn from its rows.
#[derive(Clone, Copy)]
pub(super) enum Drawing {
    Charts(fn(&[Row]) -> Vec<Chart>),
    /// Charts that have more in them than a median of runs.
    Whole(fn(&[Row]) -> Vec<Chart>),
    Flame(fn(&[Row]) -> Flame),
    Bars(fn(&[Row]) -> Bars),
    /// Bars of what a model comes to, of which nothing is measured.
    Model(fn(&[Row]) -> Bars),
}

impl Drawing {
    /// Nothing of it is measured.
    pub(super) const fn is_model(self) -> bool {
        matches!(self, Self::Model(_))
    }
}

const CTT: &str = "A model and no measurement: the inside of the table of CESNET's probe is not public, nor is its traffic. Six constants were fitted on G_MR and N_M; the others are predictions, \
                   but the shares of heavy flows of all seven made-up profiles were set by the published hits of whole packets. Each run has a seed of its own, and 2 M packets of each profile; \
                   with --quick there are 100,000, too few for the shares that the heaviest flows have in turn. See docs/CTT_MODEL.md.";

const GRID: &str = "Sources are emulated on this host and send over real UDP sockets on loopback, water mark 32 kB; receiver and builder \
                    are processes that share one core, the sources have the rest; events go to the null sink.";
const CHAIN: &str = "Sources are emulated on this host and send over real UDP sockets on loopback; receiver and builder are processes; \
                     events go to the null sink.";

const FABRIC: &str = "Sender and receiver are two processes on this host, one connection over libfabric's tcp provider on loopback: no RDMA hardware, no \
                      wire. One message fills one buffer; rates are the receiver's.";
const TCP: &str = "Sender and receiver are two processes on this host, one TCP connection over loopback: no wire and no card. One message fills one \
                   buffer; rates are the receiver's.";

const READOUT: &str = "The card is emulated: it, to-host and the subscriber, which checks every byte, are three processes on this host, over shared memory, with no \
                       wire and no card. One link is read in real time. With twelve links the card's time is made slower until this host keeps up, at most 256 \
                       times, and rates are per second of the card's time. Hollow points, which no line joins: this host was the limit all the same.";

const PORT: &str = "Senders, receiver and switch are network namespaces on this host, joined by a bridge; a token bucket (tbf) on the bridge's port to the receiver stands for a switch \
                    port of 1 Gb/s with a buffer of 128 KiB. Clocks of senders are set off by up to 20 ms and 100 ppm. An overlap is counted in both of its windows. All of it shares \
                    this host's CPUs: where the receiver is held up, its own socket loses, which the rows name (lost_socket_overflow).";

const RECORDED: &str = "Lines are means over all runs, pale strokes reach from the smallest to the largest; points of more windows than a picture has room for are drawn together. Rows have each window. \
                        Travel time is from the sender's kernel to the receiver's, with the clock that the sender was measured to have. Hosts are network namespaces on one machine, and a bridge port of 1 Gb/s and \
                        128 KiB with a token bucket (tbf) stands for the switch's port; clocks of senders are set off by up to 20 ms and 100 ppm. All of it shares this host's CPUs: where the receiver is held up, its own socket loses, at least as many as the rows name (lost_socket_overflow).";

/// All figures.
pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        id: "C1",
        title: "Model: packets that a connection table for 400 Gb/s drops, by profile",
        published: "no packet with whole packets; of small ones the bars have 0.1 to 2.8 % for profiles of GEANT, of which the text says that none is dropped, and 16 to 38 % for those of NIX; \
                    the edition of July 2025 has no small packets (CESNET, FETA)",
        scan: ctt::scan,
        drawing: Drawing::Model(ctt::drops),
        compare: ctt::compare_drops,
        remark: CTT,
    },
    Definition {
        id: "C2",
        title: "Model: hits of the flow-state cache of that table, by profile",
        published: "about 80 % for profiles of GEANT, 26 to 50 % for those of NIX, and more of small packets (CESNET, FETA, two editions)",
        scan: ctt::scan,
        drawing: Drawing::Model(ctt::hits),
        compare: ctt::compare_hits,
        remark: CTT,
    },
    Definition {
        id: "C3",
        title: "Model: mean latency of that table, by profile",
        published: "0.3 to 1.6 us with whole packets; up to 15 us in the mean, and 40 us at most, where the memory cannot keep up (CESNET, FETA, two editions)",
        scan: ctt::scan,
        drawing: Drawing::Model(ctt::latencies),
        compare: ctt::compare_latencies,
        remark: CTT,
    },
    Definition {
        id: "C4",
        title: "What the flow probe loses with its offload off and on, where it has too little CPU",
        published: "of the packets of a GEANT morning 5.17 % were lost without the connection table and 0.01 % with it (CESNET, FETA)",
        scan: offload::scan,
        drawing: Drawing::Bars(offload::bars),
        compare: offload::compare,
        remark: "A real probe on a virtual wire (veth) of this host, and no card. Packets of the made-up profile geant-like-morning are sent whole, as fast as the generator can; on CPUs of their own the probe keeps up \
                 with it even without the offload. So both have one CPU together, and the probe gets a smaller part of it by its niceness: as much as the generator with 0, a ninth or so with 10. That stands for a rate \
                 that it cannot follow. Plugins tls, dns, http, quic and pstats; one ring of 32 MiB. The program of the kernel (XDP, in the driver) runs in the generator's time, whose rate falls by what that takes; so does \
                 the kernel's copying into the ring. Packets lost are the kernel's own count; octets, which it does not count, are those sent less those that came in.",
    },
    Definition {
        id: "C5",
        title: "What each part of the flow probe takes: CPU time a packet, and memory",
        published: "logic and memory blocks of each component in an FPGA, which have no counterpart here (CESNET, FETA)",
        scan: components::scan,
        drawing: Drawing::Bars(components::bars),
        compare: components::compare,
        remark: "Each is what a run with it takes more than one without it, so that small ones are within the spread of runs. Decoding and the table: the engine in one thread over frames in memory. All else: \
                 the program as a process of its own, which reads the capture from a file; most memory that was resident is the kernel's VmHWM, looked at each ms. Packets are those of the made-up profile \
                 geant-like-morning, cut to 256 bytes; payloads are random bytes, so that plugins of a protocol look at them and find nothing: with such traffic to read they take more. \
                 A table has room for 131,072 flows, of which few are used. Exports are files; those of records are once a flow, and here packets are many.",
    },
    Definition {
        id: "F1",
        title: "Fabric backend, 1 KiB buffers: goodput and message rate over the number of buffers",
        published: "large spread at 1 KiB, by the cost of setting up (netio3, two hosts, 200 Gb/s)",
        scan: buffers::scan_fabric_1_kib,
        drawing: Drawing::Charts(buffers::charts_of_one_size),
        compare: buffers::compare_spread,
        remark: FABRIC,
    },
    Definition {
        id: "F2",
        title: "Fabric backend, 64 KiB buffers: goodput and message rate over the number of buffers",
        published: "small spread, line rate reached (netio3, two hosts, 200 Gb/s)",
        scan: buffers::scan_fabric_64_kib,
        drawing: Drawing::Charts(buffers::charts_of_one_size),
        compare: buffers::compare_spread,
        remark: FABRIC,
    },
    Definition {
        id: "F3",
        title: "Fabric backend, all sizes and numbers of buffers",
        published: "below 8 KiB or 16 buffers: avoid; 200 Gb/s reached with large buffers (netio3)",
        scan: buffers::scan_fabric,
        drawing: Drawing::Charts(buffers::charts_of_fabric),
        compare: buffers::compare_regions,
        remark: FABRIC,
    },
    Definition {
        id: "F4",
        title: "TCP backend, sizes and numbers of buffers",
        published: "70–90 kHz, below 10 Gb/s; small buffers give the higher rate at any number (netio3)",
        scan: buffers::scan_tcp,
        drawing: Drawing::Charts(buffers::charts_of_tcp),
        compare: buffers::compare_tcp,
        remark: TCP,
    },
    Definition {
        id: "F5",
        title: "Round-trip time of all backends over the size of a message",
        published: "named as a key parameter, no number printed (netio3)",
        scan: round_trip::scan,
        drawing: Drawing::Charts(round_trip::charts),
        compare: round_trip::compare,
        remark: "Both sides are processes on this host, over loopback or shared memory: no wire and no card. One message at a time, there and back, in \
                 64 buffers of 64 KiB; the first 100 round trips of a run do not count.",
    },
    Definition {
        id: "F6",
        title: "To-host over chunk size at 1 MHz asked: rates, buffers, chunks cut off",
        published: "no loss; the rate falls only above 7.68 Gb/s per link (12 links over 4 DMA buffers, 16 B to 2 KiB, FELIX to-host)",
        scan: chunks::scan,
        drawing: Drawing::Charts(chunks::charts),
        compare: chunks::compare,
        remark: READOUT,
    },
    Definition {
        id: "F7",
        title: "CPU of each process over chunk size at 1 MHz asked",
        published: "\"not very resource-intensive\", 100 % = one core (FELIX to-host)",
        scan: chunks::scan,
        drawing: Drawing::Charts(chunks::cpu_charts),
        compare: chunks::compare_cpu,
        remark: "The card is emulated: it, to-host and the subscriber, which checks every byte, are three processes on this host, over shared memory. One link is read \
                 in real time. With twelve links the card's time is made slower until this host keeps up, at most 256 times, and CPU is seconds per second of the \
                 card's time: what goes with real time and not with data (waking up, looking) counts there as many times as time is slower, so that those values are \
                 upper bounds. Hollow points, which no line joins: this host was the limit all the same.",
    },
    Definition {
        id: "F8",
        title: "Flame graph of to-host",
        published: "hot: decoding of subchunk headers, posting of subchunks, block integrity, chunk copies (FELIX to-host)",
        scan: profile::scan,
        drawing: Drawing::Flame(profile::flame),
        compare: profile::compare,
        remark: "The card is emulated: it, to-host and the subscriber are three processes on this host, over shared memory, 12 links over 4 DMA buffers, 300 kHz, \
                 chunks of 64 B, real time. Samples of to-host's threads while they were on a CPU, 499 a second (perf record, cpu-clock), all runs together.",
    },
    Definition {
        id: "F9",
        title: "Yield of batches of cards that are validated",
        published: "40 cards, 10 of them faulty, 8 of these recovered (FELIX, one production campaign)",
        scan: batch::scan,
        drawing: Drawing::Bars(batch::bars),
        compare: batch::compare,
        remark: "Cards and their faults are emulated; tests, diagnosis and the choice of repairs see registers, blocks and counters alone. How many cards are faulty is the published \
                 number, and an input. Which faults there are, each kind as likely, and which share of them a repair cures, 75 to 95 % by kind, is a model of this project: \
                 nobody has published either. So the number of recovered cards shows how well faults are found and repairs chosen, not how good a factory is. Each batch has a \
                 seed of its own.",
    },
    Definition {
        id: "F10",
        title: "Memory over the number of tags, on one connection and on one for each tag",
        published: "the reason to keep TCP: RDMA needs a buffer for each E-link, no number printed (netio3)",
        scan: memory::scan,
        drawing: Drawing::Charts(memory::charts),
        compare: memory::compare,
        remark: "Publisher and subscribers are two processes on this host, over loopback or shared memory, messages of 1 KiB, 4 buffers of 64 KiB for a \
                 connection. Resident memory is the kernel's VmRSS of one process; shared memory counts on both sides, and what the kernel has in \
                 sockets on none. Registered is what is made known to libfabric. Connections for each tag: up to 1,000, over libfabric up to 100.",
    },
    Definition {
        id: "H1",
        title: "Efficiency over data rate, by event rate",
        published: "falls steeply above 100 MB/s (HADES)",
        scan: grid::scan,
        drawing: Drawing::Charts(grid::efficiency_by_rate),
        compare: grid::compare_efficiency_by_rate,
        remark: GRID,
    },
    Definition {
        id: "H2",
        title: "Efficiency over data rate, by sub-event size",
        published: "the same limit, 100 MB/s, at every size",
        scan: grid::scan,
        drawing: Drawing::Charts(grid::efficiency_by_size),
        compare: grid::compare_efficiency_by_size,
        remark: GRID,
    },
    Definition {
        id: "H3",
        title: "CPU of the builder over data rate",
        published: "depends on event rate and data rate; 12 % at 23 MB/s, 44 % at 95 MB/s (Test-2)",
        scan: grid::scan,
        drawing: Drawing::Charts(grid::cpu_of_builder),
        compare: grid::compare_cpu_of_builder,
        remark: GRID,
    },
    Definition {
        id: "H4",
        title: "CPU of the receiver over data rate",
        published: "depends on the data rate; 10 % at 23 MB/s, 32 % at 95 MB/s (Test-2)",
        scan: grid::scan,
        drawing: Drawing::Charts(grid::cpu_of_receiver),
        compare: grid::compare_cpu_of_receiver,
        remark: GRID,
    },
    Definition {
        id: "H5",
        title: "Fill of the builder's buffers over data rate",
        published: "10–20 % up to 100 MB/s",
        scan: grid::scan,
        drawing: Drawing::Charts(grid::fill_of_rings),
        compare: grid::compare_fill_of_rings,
        remark: "The builder's buffers are the rings between receiver and builder, one per source. Sources are emulated on this host and \
                 send over real UDP sockets on loopback, water mark 32 kB; receiver and builder share one core.",
    },
    Definition {
        id: "H6",
        title: "Fill of the receiver's buffers over data rate",
        published: "10–20 % up to 100 MB/s",
        scan: grid::scan,
        drawing: Drawing::Charts(grid::fill_of_sockets),
        compare: grid::compare_fill_of_sockets,
        remark: "The receiver's buffers are the kernel's socket buffers, one per source, as the kernel counts memory. Sources are emulated on \
                 this host and send over real UDP sockets on loopback, water mark 32 kB; receiver and builder share one core.",
    },
    Definition {
        id: "H7",
        title: "Test-2: 60 × 116 B + 20 × 338 B + 10 × 1.17 kB",
        published: "1–4 kHz: 23/46/69/95 MB/s, 0 % discarded, CPU (builder + receiver) 12+10 … 44+32 %",
        scan: test2::scan,
        drawing: Drawing::Charts(test2::charts),
        compare: test2::compare,
        remark: CHAIN,
    },
    Definition {
        id: "H8",
        title: "Test-3: a 100 kB sub-event once per 10,000 events in every source",
        published: "0 % discarded at 1–4 kHz",
        scan: huge::scan_rare,
        drawing: Drawing::Charts(huge::charts),
        compare: huge::compare,
        remark: "Fill is what waits in the rings of one class of sources. Sources are emulated on this host (huge sub-events come in \
                 each source at a phase of its own) and send over real UDP sockets on loopback, water mark 32 kB.",
    },
    Definition {
        id: "H10",
        title: "The open problem: a 100 kB sub-event once per 1,000 events in every source",
        published: "builder blocked, receiver's buffers full",
        scan: huge::scan_frequent,
        drawing: Drawing::Charts(huge::charts),
        compare: huge::compare,
        remark: "Fill is what waits in the rings of one class of sources. Sources are emulated on this host (huge sub-events come in \
                 each source at a phase of its own) and send over real UDP sockets on loopback, water mark 32 kB.",
    },
    Definition {
        id: "H13",
        title: "More than 95 sources",
        published: "the 96th source broke the builder on 64 bit",
        scan: sources::scan,
        drawing: Drawing::Charts(sources::charts),
        compare: sources::compare,
        remark: CHAIN,
    },
    Definition {
        id: "H14",
        title: "UDP loss over offered rate, one sender",
        published: "0 % to 7.23 Gb/s, 7.2 % at 7.44, 29 % at 9.0 Gb/s",
        scan: loss::scan,
        drawing: Drawing::Charts(loss::charts),
        compare: loss::compare,
        remark: "Sender and receiver are two threads on this host, each on a CPU of its own, over loopback: no wire and no card. The receiver \
                 is a bare recvmmsg loop; losses are those of the socket's own drop counter, and sent = received + dropped holds exactly.",
    },
    Definition {
        id: "H16",
        title: "CPU over water mark",
        published: "the receiver's rises as the mark falls; the builder's jumps at 1 kB (no numbers printed)",
        scan: mark::scan,
        drawing: Drawing::Charts(mark::charts),
        compare: mark::compare,
        remark: CHAIN,
    },
    mux::definition::<1>(),
    mux::definition::<2>(),
    mux::definition::<3>(),
    mux::definition::<4>(),
    mux::definition::<5>(),
    mux::definition::<6>(),
    mux::definition::<7>(),
    mux::definition::<8>(),
    mux::definition::<9>(),
    mux::definition::<10>(),
    mux::definition::<11>(),
    mux::definition::<12>(),
    mux::definition::<13>(),
    mux::definition::<14>(),
    mux::definition::<15>(),
    mux::definition::<16>(),
    mux::definition::<17>(),
    mux::definition::<18>(),
    mux::definition::<19>(),
    mux::definition::<20>(),
    Definition {
        id: "T1",
        title: "Travel time and jitter of each sender over its windows, windows of 2.5 ms in paced slots",
        published: "a few tens of us, with clocks kept by PTP (SARAO)",
        scan: tdm::windows::scan,
        drawing: Drawing::Whole(tdm::windows::travel_charts),
        compare: tdm::windows::compare_travel,
        remark: RECORDED,
    },
    Definition {
        id: "T2",
        title: "Overlaps and lost packets over the dead time between windows, 3 senders, windows of 2.5 ms",
        published: "overlaps vanish with enough dead time (SARAO, 0 to 5000 us, no number printed)",
        scan: tdm::dead_time::scan,
        drawing: Drawing::Charts(tdm::dead_time::charts),
        compare: tdm::dead_time::compare,
        remark: PORT,
    },
    Definition {
        id: "T3",
        title: "Every packet of the first 30 ms, as it was sent and as it came",
        published: "the same picture, no number printed (SARAO)",
        scan: tdm::windows::scan_packets,
        drawing: Drawing::Whole(tdm::windows::packet_charts),
        compare: tdm::windows::compare_packets,
        remark: "The first run is drawn: each packet is two dots, and each sender has a lane in both rows. Of a packet that was lost nobody knows when it was sent: it has none. Times are the \
                 receiver's clock, to which the senders' are brought. Hosts are network namespaces on one machine, and a bridge port of 1 Gb/s and 128 KiB with a token bucket (tbf) stands for the switch's \
                 port; clocks of senders are set off by up to 20 ms and 100 ppm.",
    },
    Definition {
        id: "T4",
        title: "What is told of every window: totals, missing, overlaps, travel time, rate, start and end, 3 senders",
        published: "the same panel for runs of 8 hours, no number printed (SARAO)",
        scan: tdm::windows::scan,
        drawing: Drawing::Whole(tdm::windows::panel_charts),
        compare: tdm::windows::compare_panel,
        remark: RECORDED,
    },
    Definition {
        id: "T5",
        title: "The smallest dead time that does, searched for, beside the computed guard",
        published: "the author's script \"does not produce useful results\" (SARAO)",
        scan: tdm::search::scan,
        drawing: Drawing::Charts(tdm::search::charts),
        compare: tdm::search::compare,
        remark: "A dead time does when in all sessions of its step (three; one for --quick) the port drops nothing, no windows overlap, and at most one window in a hundred (or one) is cut short or missed, paced slots. What this host makes the \
                 receiver's own socket lose has nothing to do with dead time: it is counted in the rows and not in the search. A search assumes that longer dead times are no worse; \
                 a host that is busy with other things can break that, and the tried steps are in the rows. Hosts are network namespaces on one machine, and a bridge port \
                 with a token bucket (tbf) stands for the switch's port; clocks of senders are set off by up to 20 ms and 100 ppm.",
    },
    Definition {
        id: "T6",
        title: "Gain of a faster way through the socket, one sender to one receiver",
        published: "12 to 41 Gb/s with kernel bypass; the receiver then loses 60 % (SARAO)",
        scan: tdm::path::scan,
        drawing: Drawing::Bars(tdm::path::bars),
        compare: tdm::path::compare,
        remark: "Sender and receiver are two processes on this host, over loopback: no wire and no card. Plain: each datagram is a call's own at both ends; GSO + GRO: the kernel cuts and \
                 merges. Flat out, in windows of 100 ms, one path after the other. CPU time is that of whole processes, their preparations included. No kernel bypass is measured.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_points_and_draws_nothing_from_nothing() {
        for definition in DEFINITIONS {
            for quick in [false, true] {
                assert!(
                    !(definition.scan)(quick).points.is_empty(),
                    "{}",
                    definition.id
                );
            }
            let (Drawing::Charts(charts) | Drawing::Whole(charts)) = definition.drawing else {
                continue;
            };
            let measured = charts(&[])
                .into_iter()
                .flat_map(|chart| chart.series)
                .filter(|series| !series.reference);
            assert_eq!(
                measured.map(|series| series.points.len()).sum::<usize>(),
                0,
                "{} draws what was not measured",
                definition.id
            );
        }
    }
}
