//! What a packet costs on the transmit side, with 2 clients and with 64: taken into its queue, chosen by a policy, taken out, and finished. All queues have
//! something; a limiter's rates are such that a client in two is held back at any time. And the whole engine: a frame in and back, a packet checked and out.

#![allow(missing_docs, clippy::expect_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use forebay_mux::buffers::{BufferId, Share};
use forebay_mux::classify::{Classifier, Rule};
use forebay_mux::descriptor::{Descriptor, TransmitLimits};
use forebay_mux::policy::{PerClient, PolicyConfig, Schedule, Slot};
use forebay_mux::transmit::{ClassConfig, Next, Packet, Sender, Transmit};
use forebay_mux::{ClientConfig, ClientId, Mac, Mux, MuxConfig, Outlet};

fn main() {
    divan::main();
}

const PACKETS: u64 = 100_000;
/// A packet of 1,000 bytes leaves each 800 ns: 10 Gb/s.
const PACKET_NS: u64 = 800;
const PACKET_BYTES: u32 = 1000;
const LINK_BPS: u64 = 10_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Signalled,
    RoundRobin,
    DeficitRoundRobin,
    Priority,
    TokenBucket,
    Window,
    Tdm,
}

fn policy(kind: Kind, clients: u8) -> PolicyConfig {
    // Together twice the link.
    let rate_bps = PerClient::all(Some(2 * LINK_BPS / u64::from(clients)));
    match kind {
        Kind::Signalled => PolicyConfig::Signalled { burst_packets: 32 },
        Kind::RoundRobin => PolicyConfig::RoundRobin,
        Kind::DeficitRoundRobin => PolicyConfig::DeficitRoundRobin {
            quantum_bytes: PerClient::all(1514),
        },
        Kind::Priority => {
            let level = (0..clients).fold(PerClient::all(0), |level, client| {
                level.with(ClientId::new(client), client % 4)
            });
            PolicyConfig::Priority {
                level,
                guard_ns: Some(1_000_000),
            }
        }
        Kind::TokenBucket => PolicyConfig::TokenBucket {
            rate_bps,
            burst_bytes: PerClient::all(2000),
            uncounted_bytes: 42,
        },
        Kind::Window => PolicyConfig::Window {
            window_ns: 10_000_000,
            rate_bps,
            uncounted_bytes: 42,
        },
        Kind::Tdm => {
            let slot = |client: u8| Slot {
                client: ClientId::new(client),
                offset_ns: u64::from(client) * 100_000,
                window_ns: 100_000,
            };
            let cycle_ns = u64::from(clients) * 100_000;
            let schedule =
                Schedule::new((0..clients).map(slot).collect(), cycle_ns, 0, LINK_BPS, 24);
            PolicyConfig::Tdm(schedule.expect("in turn"))
        }
    }
}

fn sender() -> Sender {
    Sender {
        class: 0,
        queue_packets: 512,
        sojourn_max_ns: Some(10_000_000_000),
    }
}

fn transmit(kind: Kind, clients: u8) -> Transmit {
    let class = ClassConfig {
        policy: policy(kind, clients),
        guard_ns: None,
    };
    let mut transmit = Transmit::new(&[class]).expect("sound");
    for client in 0..clients {
        transmit
            .add_client(ClientId::new(client), sender())
            .expect("new");
        (0..4).for_each(|_| offer(&mut transmit, ClientId::new(client), 0));
    }
    transmit
}

fn offer(transmit: &mut Transmit, client: ClientId, now_ns: u64) {
    let packet = Packet {
        buffer: 0,
        offset: 0,
        bytes: PACKET_BYTES,
        arrival_ns: now_ns,
    };
    transmit.offer(client, packet, now_ns).expect("room");
}

#[divan::bench(
    sample_count = 50,
    args = [Kind::Signalled, Kind::RoundRobin, Kind::DeficitRoundRobin, Kind::Priority, Kind::TokenBucket, Kind::Window, Kind::Tdm],
    consts = [2, 64],
)]
fn send<const CLIENTS: u8>(bencher: Bencher<'_, '_>, kind: Kind) {
    let mut transmit = transmit(kind, CLIENTS);
    let mut now_ns = 0;
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        let mut sent = 0;
        while sent < PACKETS {
            match transmit.poll(now_ns, |_, _| {}) {
                Next::Send(client, packet) => {
                    transmit.finish(client, packet, true);
                    offer(&mut transmit, client, now_ns);
                    now_ns += PACKET_NS;
                    sent += 1;
                }
                Next::AskAt(at_ns) => now_ns = at_ns,
                Next::Idle => break,
            }
        }
    });
}

/// Clients that give back at once, and say what they got.
#[derive(Default)]
struct Given(Option<(ClientId, BufferId)>);

impl Outlet for Given {
    fn give(&mut self, client: ClientId, buffer: BufferId) {
        self.0 = Some((client, buffer));
    }

    fn answer(&mut self, _frame: &[u8]) {}
}

fn mac(client: u8) -> Mac {
    Mac([2, 0, 0, 0, 1, client])
}

fn mux(clients: u8) -> Mux {
    let rule = |client| Rule {
        destination_mac: Some(mac(client)),
        ..Rule::of(ClientId::new(client))
    };
    let rules: Vec<_> = (0..clients).map(rule).collect();
    let classes = vec![ClassConfig {
        policy: PolicyConfig::RoundRobin,
        guard_ns: None,
    }];
    let config = MuxConfig {
        receive_buffers: 4096,
        card_buffers: 0,
        classes,
        faults_of_a_kind_max: Some(100),
    };
    let mut mux = Mux::new(&config, Classifier::new(&rules, &[]).expect("sound")).expect("sound");
    for client in 0..clients {
        let share = Share {
            queue_frames: 512,
            guaranteed_frames: 32,
        };
        let limits = TransmitLimits {
            buffers: 512,
            buffer_bytes: 2048,
            frame_bytes_max: 1514,
            source: mac(client).into(),
        };
        let config = ClientConfig {
            share,
            sender: sender(),
            limits,
        };
        mux.add_client(ClientId::new(client), &config)
            .expect("room");
    }
    mux
}

/// A frame classified, delivered and given back, and a packet handed over, chosen and sent, for each item.
#[divan::bench(sample_count = 50, consts = [2, 64])]
fn echo<const CLIENTS: u8>(bencher: Bencher<'_, '_>) {
    let mut mux = mux(CLIENTS);
    let frames: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut frame = [
                &mac(client).0[..],
                &[
                    2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0,
                ],
            ]
            .concat();
            frame.extend([10, 0, 0, 9, 10, 0, 0, client, 0x13, 0x88, 0, 7, 0, 30, 0, 0]);
            frame.resize(64, 0);
            frame
        })
        .collect();
    let (mut now_ns, mut given, mut turn) = (0, Given::default(), 0_u32);
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for _ in 0..PACKETS {
            now_ns += PACKET_NS;
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            mux.handle_frame(&frames[(turn >> 16) as usize % frames.len()], &mut given);
            let (client, buffer) = given.0.take().expect("room");
            black_box(mux.take_back(client, buffer));
            let descriptor = Descriptor {
                buffer: buffer.0 % 512,
                offset: 0,
                length: 64,
            };
            let source = Some(mac(client.index() as u8).into());
            mux.offer(client, descriptor, now_ns, |_| source)
                .expect("sound");
            if let Next::Send(client, packet) = mux.poll(now_ns, |_, _| {}) {
                black_box(mux.finish(client, packet, true));
            }
        }
    });
}
