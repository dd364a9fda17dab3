//! What must hold of the multiplexer for whatever a client says. Shared by the fuzz target and by the test that replays its corpus.
//!
//! The bytes are what a hostile client does, in steps of 14: hand over a packet, give back a buffer, let time pass. Another client gets a frame and sends a
//! packet after each step: it loses neither. What the hostile one handed over lies in its region; each of its buffers is in the multiplexer's hands once; the
//! books close.

use std::collections::HashSet;

use forebay_mux::buffers::{BufferId, Share};
use forebay_mux::classify::{Classifier, Rule};
use forebay_mux::descriptor::{Descriptor, TransmitLimits};
use forebay_mux::policy::PolicyConfig;
use forebay_mux::transmit::{ClassConfig, Next, Packet, Sender};
use forebay_mux::{
    ClientConfig, ClientId, Mac, Mux, MuxConfig, Outlet, Returned, Source, SourceLimits,
};

const GOOD: ClientId = ClientId::new(0);
const BAD: ClientId = ClientId::new(1);
const REGION: u32 = 8;
const BUFFER_BYTES: u32 = 2048;

/// The one that the hostile client may send in.
const BAD_VLAN: u16 = 5;

fn mac(client: ClientId) -> Mac {
    Mac([2, 0, 0, 0, 0, client.index() as u8])
}

fn config(client: ClientId) -> ClientConfig {
    ClientConfig {
        share: Share {
            queue_frames: 8,
            guaranteed_frames: 2,
        },
        sender: Sender {
            class: 0,
            queue_packets: 4,
            sojourn_max_ns: (client == BAD).then_some(1_000_000),
        },
        limits: TransmitLimits {
            buffers: REGION,
            buffer_bytes: BUFFER_BYTES,
            frame_bytes_max: 1514,
            source: SourceLimits {
                mac: Some(mac(client)),
                vlan: (client == BAD).then_some(BAD_VLAN),
            },
        },
    }
}

/// Takes down which buffer the good client got last.
#[derive(Default)]
struct Given(Option<BufferId>);

impl Outlet for Given {
    fn give(&mut self, client: ClientId, buffer: BufferId) {
        if client == GOOD {
            self.0 = Some(buffer);
        }
    }

    fn answer(&mut self, _frame: &[u8]) {}
}

fn mux(faults_of_a_kind_max: Option<u32>) -> Mux {
    let rules = [GOOD, BAD].map(|client| Rule {
        destination_mac: Some(mac(client)),
        ..Rule::of(client)
    });
    let classifier = Classifier::new(&rules, &[]).expect("two stations");
    let config_of_mux = MuxConfig {
        receive_buffers: 5,
        card_buffers: 0,
        classes: vec![ClassConfig {
            policy: PolicyConfig::RoundRobin,
            guard_ns: None,
        }],
        faults_of_a_kind_max,
    };
    let mut mux = Mux::new(&config_of_mux, classifier).expect("sound");
    for client in [GOOD, BAD] {
        mux.add_client(client, &config(client)).expect("room");
    }
    mux
}

fn frame(client: ClientId) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&mac(client).0);
    (frame[12], frame[13]) = (0x88, 0xb5);
    frame
}

struct World {
    mux: Mux,
    now_ns: u64,
    /// Buffers of the hostile client that the multiplexer has.
    taken: HashSet<u32>,
}

impl World {
    fn hostile(&mut self, step: &[u8; 14]) {
        let &[what, source, rest @ ..] = step;
        let word =
            |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        match what % 4 {
            0 | 1 => {
                let descriptor = Descriptor {
                    buffer: word(0),
                    offset: word(4),
                    length: word(8),
                };
                let named = Source {
                    mac: Mac([2, 0, 0, 0, 0, source]),
                    // Its own, none, or another one.
                    vlan: [Some(BAD_VLAN), None, Some(6)][usize::from(what / 4 % 3)],
                };
                let copy = |of: Descriptor| {
                    assert!(of.buffer < REGION && of.offset + of.length <= BUFFER_BYTES);
                    assert!((14..=1514).contains(&of.length));
                    Some(named)
                };
                let offered = self.mux.offer(BAD, descriptor, self.now_ns, copy);
                if offered.is_ok() {
                    assert_eq!((named.mac, named.vlan), (mac(BAD), Some(BAD_VLAN)));
                    assert!(self.taken.insert(descriptor.buffer), "twice");
                }
            }
            2 => {
                let held = self.mux.counts(BAD).receive_held.items;
                let back = self.mux.take_back(BAD, BufferId(word(0)));
                let now = self.mux.counts(BAD).receive_held.items;
                match back {
                    Returned::Taken => assert_eq!(now + 1, held),
                    Returned::Fault(_) => assert_eq!(now, held),
                    Returned::Disconnected(_) => assert_eq!(now, 0),
                }
            }
            _ => {
                self.now_ns += u64::from(word(0) % 2_000_000);
                self.mux.handle_frame(&frame(BAD), &mut Given::default());
            }
        }
    }

    fn sent(&mut self, client: ClientId, packet: Packet, is_sent: bool) {
        let is_back = self.mux.finish(client, packet, is_sent);
        assert!(client == BAD || is_back);
        if client == BAD {
            self.taken.remove(&packet.buffer);
        }
    }

    /// The good client gets a frame, gives it back, and sends a packet.
    fn good(&mut self) {
        let mut given = Given::default();
        self.mux.handle_frame(&frame(GOOD), &mut given);
        let buffer = given.0.expect("below its guarantee");
        assert_eq!(self.mux.take_back(GOOD, buffer), Returned::Taken);
        let descriptor = Descriptor {
            buffer: 0,
            offset: 0,
            length: 60,
        };
        let offered = self
            .mux
            .offer(GOOD, descriptor, self.now_ns, |_| Some(mac(GOOD).into()));
        assert_eq!(offered, Ok(()));
        for _ in 0..2 {
            let taken = &mut self.taken;
            let next = self.mux.poll(self.now_ns, |client, buffer| {
                assert!(client == BAD && taken.remove(&buffer));
            });
            if let Next::Send(client, packet) = next {
                self.sent(client, packet, client == GOOD);
            }
        }
    }
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Some((limit, steps)) = bytes.split_first() else {
        return;
    };
    let limit = u32::from(*limit);
    let mut world = World {
        mux: mux((limit > 0).then_some(limit)),
        now_ns: 0,
        taken: HashSet::new(),
    };
    let mut rounds = 0;
    for step in steps.chunks_exact(14) {
        let mut of = [0; 14];
        of.copy_from_slice(step);
        world.hostile(&of);
        world.good();
        rounds += 1;
        assert!(world.mux.residual().is_zero());
    }
    let counts = world.mux.counts(GOOD);
    assert_eq!(counts.receive.taken_back.items, rounds);
    assert_eq!(counts.transmit.sent.items, rounds);
}
