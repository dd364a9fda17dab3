//! The engine of the multiplexer: one network card, shared by many untrusted clients. It is told the time and given bytes; it touches no card, no ring and
//! no memory of a client.
//!
//! | module | what it decides |
//! |---|---|
//! | [`classify`] | which client a frame is for |
//! | [`buffers`] | which receive buffers a client may hold |
//! | [`responder`] | what is answered to ARP and neighbour discovery |
//! | [`descriptor`] | whether what a client says of its packet can be true |
//! | [`transmit`] | what waits, for how long, and in which class |
//! | [`policy`] | which client sends next: one file for each policy |
//! | [`account`] | which terms make equations |
//!
//! [`Mux`] has all of them together, with books that close after each call.
//!
//! ```
//! use forebay_mux::buffers::{BufferId, Share};
//! use forebay_mux::classify::{Classifier, Rule};
//! use forebay_mux::descriptor::{Descriptor, TransmitLimits};
//! use forebay_mux::policy::PolicyConfig;
//! use forebay_mux::transmit::{ClassConfig, Next, Sender};
//! use forebay_mux::{ClientConfig, ClientId, Mac, Mux, MuxConfig, Outlet};
//!
//! /// In the place of a client's memory and of the card.
//! #[derive(Default)]
//! struct Given(Vec<(ClientId, BufferId)>);
//!
//! impl Outlet for Given {
//!     fn give(&mut self, client: ClientId, buffer: BufferId) {
//!         self.0.push((client, buffer)); // copy the frame, and tell the client
//!     }
//!     fn answer(&mut self, _frame: &[u8]) {}
//! }
//!
//! let (echo, mac) = (ClientId::new(0), Mac([2, 0, 0, 0, 0, 1]));
//! let rules = [Rule { destination_mac: Some(mac), ..Rule::of(echo) }];
//! let classes = vec![ClassConfig { policy: PolicyConfig::RoundRobin, guard_ns: None }];
//! let config = MuxConfig { receive_buffers: 1024, card_buffers: 0, classes, faults_of_a_kind_max: Some(100) };
//! let mut mux = Mux::new(&config, Classifier::new(&rules, &[])?)?;
//! mux.add_client(echo, &ClientConfig {
//!     share: Share { queue_frames: 512, guaranteed_frames: 64 },
//!     sender: Sender { class: 0, queue_packets: 512, sojourn_max_ns: Some(5_000_000) },
//!     limits: TransmitLimits { buffers: 512, buffer_bytes: 2048, frame_bytes_max: 1514, source: mac.into() },
//! })?;
//!
//! // A frame comes, the client gives the buffer back, and hands over a packet.
//! let frame = [&mac.0[..], &[2, 0, 0, 0, 0, 9, 0x88, 0xb5], b"hello"].concat();
//! let mut given = Given::default();
//! mux.handle_frame(&frame, &mut given);
//! let (client, buffer) = given.0[0];
//! mux.take_back(client, buffer);
//! let descriptor = Descriptor { buffer: 7, offset: 0, length: 64 };
//! mux.offer(client, descriptor, 1_000, |_| Some(mac.into()))?; // copy the packet, and say which sender it names
//! while let Next::Send(client, packet) = mux.poll(2_000, |_, _| {}) {
//!     mux.finish(client, packet, true); // the card took it
//! }
//! assert_eq!(mux.counts(echo).transmit.sent.items, 1);
//! assert_eq!(mux.counts(echo).transmit.sojourn_max_ns, 1_000);
//! // A lie costs the client its packet, and no other client anything.
//! assert!(mux.offer(echo, Descriptor { buffer: 512, offset: 0, length: 64 }, 3_000, |_| Some(mac.into())).is_err());
//! assert!(mux.residual().is_zero());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it costs, in ns, with 2 clients and with 64 (`cargo bench -p forebay-mux`; a virtual machine with two cores of an AMD EPYC that others used as well, load
//! 5 to 12: so these are the fastest of 50 samples of 100,000 packets each, and no medians):
//!
//! | | 2 clients | 64 clients |
//! |---|---|---|
//! | classify a frame of 64 bytes, by Ethernet address, by port | 32 | 32 |
//! | by IP address, by connection | 34 | 34 |
//! | send a packet (into its queue, chosen, out): `round_robin` | 21 | 22 |
//! | `signalled` | 23 | 23 |
//! | `deficit_round_robin` | 23 | 24 |
//! | `tdm` | 30 | 30 |
//! | `window` | 32 | 34 |
//! | `priority`, four levels (two with 2 clients) | 31 | 35 |
//! | `token_bucket` | 34 | 37 |
//! | all of it: a frame in, delivered and given back, a packet checked and out | 120 | 126 |
#![forbid(unsafe_code)]

pub mod account;
pub mod buffers;
pub mod classify;
mod client;
pub mod descriptor;
mod engine;
mod guard;
mod mac;
pub mod policy;
pub mod responder;
mod source;
pub mod transmit;

pub use account::Items;
pub use client::{CLIENTS_MAX, ClientId, ClientSet};
pub use engine::{ClientConfig, ClientError, HOPS, Mux, MuxConfig, Outlet, Refused, Returned};
pub use forebay_settings::OutOfRange;
pub use mac::Mac;
pub use source::{Source, SourceLimits};
