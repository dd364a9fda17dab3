//! The run's schema: the same declarations in every process, so that the handles agree.

mod bound;
mod capture;
mod chunks;
mod sinks;

pub use forebay_evb::CrashDrop;
use forebay_evb::{Reject, declare};
use forebay_ledger::{
    Account, AccountId, Counter, DropReason, GroupId, HistogramId, LinkSpec, OneOf, Schema,
    SchemaBuilder, SchemaError, Tally, Unit, reasons,
};
use forebay_run::host_losses::HostWords;
use forebay_run_hades::GeneratorWords;
pub use forebay_sink::{SinkDrop, SinkWords};
use forebay_sys::gso::{DATAGRAM_BYTES, MERGED_DATAGRAMS_MAX};

use crate::plan::Plan;
pub use capture::{CaptureDrop, CaptureWords, ReassemblyDrop};
pub use chunks::{ArrivalDrop, ChunkDrop, ChunkWords};

/// The name of the program in ledgers and records.
pub const PROGRAM: &str = "evb";

/// Why the receiver drops datagrams.
pub type ReceiverDrop = OneOf<Reject, CrashDrop>;

reasons! {
    /// Why what was received does not go into the queue.
    pub enum QueueDrop {
        /// It lies behind the last good sub-event of a message.
        BrokenSubEvent = "broken_subevent",
    }
}

reasons! {
    /// Why an event passes a sink by, before its queue.
    pub enum OfferDrop {
        /// The queue stayed full.
        QueueFull = "queue_full",
        /// It is longer than the queue's longest record: waiting would not help.
        EventTooLong = "event_too_long",
    }
}

/// Words of one source at the receiver.
#[derive(Debug, Clone)]
pub struct QueueWords<R> {
    /// Datagrams, or chunks.
    pub receiver: Account<R>,
    /// That account's number.
    pub receiver_id: AccountId,
    /// Sub-events.
    pub queue: Account<QueueDrop>,
    /// That account's number.
    pub queue_id: AccountId,
    /// What the ring took, counted at the ring.
    pub published: Tally,
    /// The ring's tail.
    pub tail: Counter,
    /// Bytes and datagrams of the unfinished message.
    pub unfinished: [Counter; 2],
    /// Sub-events that came and were dropped, of which the builder has not heard yet.
    pub unsaid: Counter,
    /// Messages accepted.
    pub messages: Counter,
    /// What the ring can hold, in bytes.
    pub capacity: Counter,
}

/// Words of one port: the receiver's unit of commit.
#[derive(Debug, Clone)]
pub struct PortWords {
    /// The group.
    pub group: GroupId,
    /// Kernel drops of the socket.
    pub kernel_drops: Counter,
    /// Raw kernel counter last seen.
    pub kernel_raw: Counter,
    /// Number of the last batch that is in the books.
    pub batch: Counter,
    /// Fill of the socket buffer in bytes.
    pub buffer_fill: Counter,
    /// What the socket buffer can hold, in the same measure.
    pub buffer_capacity: Counter,
    /// Sources of the port, in the plan's order.
    pub sources: Vec<QueueWords<ReceiverDrop>>,
    /// Where datagrams of no source go, on a port with several.
    pub stray: Option<Account<ReceiverDrop>>,
    /// That account's number.
    pub stray_id: Option<AccountId>,
}

/// Words of one sink at the builder's end of its queue.
#[derive(Debug, Clone)]
pub struct OfferWords {
    /// Events offered, queued, dropped.
    pub account: Account<OfferDrop>,
    /// What the ring took.
    pub published: Tally,
    /// The ring's tail.
    pub tail: Counter,
    /// Run number, bytes, events and start second of the file at hand.
    pub rotation: [Counter; 4],
    /// Run number of the first file.
    pub first_run: Counter,
}

/// All handles of a run.
#[derive(Debug, Clone)]
pub struct Books {
    /// The schema.
    pub schema: Schema,
    /// Ports.
    pub ports: Vec<PortWords>,
    /// The capture, when one is replayed.
    pub capture: Option<CaptureWords>,
    /// Chunks of E-links, when they are what the sources are.
    pub chunks: Option<ChunkWords>,
    /// Losses of the whole host.
    pub host: HostWords,
    /// How often the receiver let datagrams gather before it looked again; in the host's group.
    pub gathers: Counter,
    /// The builder.
    pub builder: forebay_evb::Accounts,
    /// Sinks, seen from the builder.
    pub offers: Vec<OfferWords>,
    /// Sinks, seen from themselves.
    pub sinks: Vec<SinkWords>,
    /// The emulator.
    pub generator: Option<GeneratorWords>,
    /// First receive stamp of an event to its place in a sink's queue, in ns.
    pub latency: HistogramId,
    /// Event sizes in bytes.
    pub event_bytes: HistogramId,
    /// When the first message was there and when the last event was built (to a commit), in ns of the monotonic clock, which no
    /// step of the wall clock moves; in the builder's group.
    pub span: [Counter; 2],
}

impl Books {
    /// Declares the books of `plan`.
    ///
    /// # Errors
    /// A name in the plan is too long or used twice.
    pub fn declare(plan: &Plan) -> Result<Self, SchemaError> {
        let mut schema = SchemaBuilder::new(&plan.run_id);
        schema.program(PROGRAM);
        let (generator, senders) = declare_generator(&mut schema, plan);
        let builder = declare(&mut schema, &plan.owners());
        schema.headline(builder.events_id);
        let ports: Vec<_> = (0..plan.ports.len())
            .map(|port| declare_port(&mut schema, plan, port, &senders, &builder))
            .collect();
        let capture = plan
            .replay
            .as_ref()
            .map(|_| capture::declare(&mut schema, &ports));
        let chunks = plan
            .elinks
            .as_ref()
            .map(|_| chunks::declare(&mut schema, plan, &builder));
        let host = HostWords::declare(&mut schema);
        let gathers = schema.counter(
            host.group,
            "receiver_gathers",
            "",
            "Sleeps of the receiver in which datagrams gather (latency_budget_us, gather_us)",
        );
        link_rings(&mut schema, plan, &ports, &builder);
        let (offers, sinks) = sinks::declare_sinks(&mut schema, plan, &builder);
        let latency = schema.histogram("event_latency_ns", "ns", "builder");
        let event_bytes = schema.histogram("event_bytes", "bytes", "builder");
        let span =
            ["first_message_ns", "last_event_ns"].map(|name| schema.cursor(builder.group, name));
        let schema = schema.finish()?;
        Ok(Self {
            span,
            schema,
            ports,
            capture,
            chunks,
            host,
            gathers,
            builder,
            offers,
            sinks,
            generator,
            latency,
            event_bytes,
        })
    }
}

fn declare_generator(
    schema: &mut SchemaBuilder,
    plan: &Plan,
) -> (Option<GeneratorWords>, Vec<AccountId>) {
    if plan.generator.is_none() {
        return (None, Vec::new());
    }
    let words = GeneratorWords::declare(schema, plan.sources.len());
    let ids = (0..plan.sources.len())
        .filter_map(|source| words.accounts.datagrams(source))
        .collect();
    (Some(words), ids)
}

fn declare_port(
    schema: &mut SchemaBuilder,
    plan: &Plan,
    port: usize,
    senders: &[AccountId],
    builder: &forebay_evb::Accounts,
) -> PortWords {
    let owner = plan.port_owner(port);
    let group = schema.group(&format!("receiver.port{}", plan.ports[port].port()));
    let indices = plan.sources_of(port);
    let sources: Vec<_> = indices
        .iter()
        .map(|source| {
            let owner = &plan.sources[*source].name;
            declare_queue(schema, group, owner, Unit::Datagrams)
        })
        .collect();
    let alone = sources.len() == 1 && plan.sources[indices[0]].key == crate::plan::SourceKey::Port;
    let stray = (!alone).then(|| schema.account(group, "receiver", &owner, Unit::Datagrams));
    let kernel_drops = schema.kernel_drop(group);
    let mut link = LinkSpec::new("socket", &owner);
    for (words, source) in sources.iter().zip(&indices) {
        link = link.to(words.receiver_id);
        if let Some(sender) = senders.get(*source) {
            link = link.from(*sender);
        }
    }
    if let Some((id, _)) = &stray {
        link = link.to(*id);
    }
    if let [only] = indices.as_slice()
        && senders.is_empty()
    {
        // A foreign sender keeps no books: gaps in its trigger numbers are all that tells of loss before the socket.
        link = link.inferred_lost(builder.sources[*only].missing, Unit::SubEvents);
    }
    let (least, most) = DATAGRAM_BYTES;
    let link = if plan.receiver.gro {
        link.merged_kernel_drops(
            "buffer_full",
            kernel_drops,
            MERGED_DATAGRAMS_MAX,
            least,
            most,
        )
    } else {
        link.kernel_drops("buffer_full", kernel_drops, least, most)
    };
    if plan.replay.is_none() {
        schema.link(bound::of_socket(link, plan, indices.len()));
    }
    PortWords {
        group,
        kernel_drops,
        kernel_raw: schema.cursor(group, "kernel_drops_raw"),
        batch: schema.cursor(group, "batch"),
        buffer_fill: schema.gauge(
            group,
            "socket_buffer_fill_bytes",
            &owner,
            "kernel memory in use by the socket's queue",
        ),
        buffer_capacity: schema.gauge(
            group,
            "socket_buffer_capacity_bytes",
            &owner,
            "kernel memory that the socket's queue may use",
        ),
        sources,
        stray_id: stray.as_ref().map(|(id, _)| *id),
        stray: stray.map(|(_, account)| account),
    }
}

fn declare_queue<R: DropReason>(
    schema: &mut SchemaBuilder,
    group: GroupId,
    owner: &str,
    unit: Unit,
) -> QueueWords<R> {
    let (receiver_id, receiver) = schema.account(group, "receiver", owner, unit);
    let (queue_id, queue) = schema.account(group, "queue", owner, Unit::SubEvents);
    QueueWords {
        receiver,
        receiver_id,
        queue,
        queue_id,
        published: schema.cursor_tally(group, &format!("{owner}.published")),
        tail: schema.cursor(group, &format!("{owner}.tail_bytes")),
        unfinished: [
            schema.cursor(group, &format!("{owner}.unfinished_bytes")),
            schema.cursor(group, &format!("{owner}.unfinished_datagrams")),
        ],
        unsaid: schema.cursor(group, &format!("{owner}.dropped_unsaid_subevents")),
        messages: schema.counter(group, "messages", owner, "messages accepted"),
        capacity: schema.gauge(
            group,
            "queue_capacity_bytes",
            owner,
            "what the queue of the source can hold",
        ),
    }
}

fn link_rings(
    schema: &mut SchemaBuilder,
    plan: &Plan,
    ports: &[PortWords],
    builder: &forebay_evb::Accounts,
) {
    for (port, words) in ports.iter().enumerate() {
        for (queue, source) in words.sources.iter().zip(plan.sources_of(port)) {
            link_ring(schema, plan, source, queue, builder);
        }
    }
}

fn link_ring<R>(
    schema: &mut SchemaBuilder,
    plan: &Plan,
    source: usize,
    queue: &QueueWords<R>,
    builder: &forebay_evb::Accounts,
) {
    let far = &builder.sources[source];
    let link = LinkSpec::new("ring", &plan.sources[source].name)
        .from(queue.queue_id)
        .to(far.id);
    schema.link(link.in_flight(queue.published, far.taken));
}

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
