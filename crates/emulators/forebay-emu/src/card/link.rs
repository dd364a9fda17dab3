//! One E-link, from its front end to its block.

mod disturbed;

use super::Dma;
use super::account::{CardLoss, ChunkBooks, ElinkAccount, Lost};
use super::block::{Builder, Why};
use super::config::{ElinkConfig, Speed};
use super::fault::LinkFaults;
use super::fifo::{Fifo, Pushed};
use super::loop_back::Messages;
use super::payload::{Chunk, End, Payload, Place, SLACK_BYTES, emit_whole};
use super::sizes::Sizes;
use super::triggers::Triggers;
use super::ttc::{TICKS_PER_NS, Trigger};
use crate::totals::Amount;
use forebay_wire::felix::{BLOCK_HEAD_BYTES, Elink, TTC_MESSAGE_BYTES};

/// What a chunk costs in time.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Bytes of a unit, as a power of two.
    unit_log2: u32,
    /// Units beside those of the chunk.
    overhead: u64,
    ticks: u64,
}

impl Cost {
    fn of(speed: Speed) -> Self {
        match speed {
            // 240 MHz: 25/6 ns. Start, end, and one idle.
            Speed::Full => Self {
                unit_log2: 2,
                overhead: 3,
                ticks: 25 * TICKS_PER_NS / 6,
            },
            // 4 bytes in 1 µs for each bit of width. Start and end.
            Speed::Gbt { width_bits } => Self {
                unit_log2: 0,
                overhead: 2,
                ticks: 250 * TICKS_PER_NS / u64::from(width_bits),
            },
        }
    }

    #[inline]
    fn ticks(self, bytes: usize) -> u64 {
        let units = (bytes + (1 << self.unit_log2) - 1) >> self.unit_log2;
        (units as u64 + self.overhead) * self.ticks
    }
}

/// Chunks of one size, ready to be copied; the trigger number is to be put in.
#[derive(Debug, Clone)]
struct Image {
    bytes: Vec<u8>,
    chunk_bytes: usize,
    stride: usize,
    l1id_at: usize,
    cost: u64,
}

/// An E-link.
#[derive(Debug, Clone)]
pub(super) struct Link {
    elink: Elink,
    buffer: usize,
    key: u64,
    sizes: Sizes,
    cost: Cost,
    image: Option<Image>,
    /// Chunks that have left the front end, which is the number of the next one.
    sent: u64,
    /// When the link has sent what it was given so far.
    free_at: u64,
    pub(super) is_busy: bool,
    fifo: Fifo,
    builder: Builder,
    made: Amount,
    dropped: Lost,
    truncated: u64,
    faults: Option<Box<LinkFaults>>,
}

impl Link {
    pub(super) fn new(
        config: &ElinkConfig,
        key: u64,
        sizes: &Sizes,
        queues: (Fifo, Builder),
    ) -> Self {
        let cost = Cost::of(config.speed);
        let (fifo, builder) = queues;
        let image = match sizes {
            Sizes::Fixed(bytes) => Image::new(&builder, *bytes, cost),
            _ => None,
        };
        Self::with(
            config.elink,
            config.buffer,
            (key, sizes.clone(), cost),
            image,
            (fifo, builder),
        )
    }

    /// The E-link for messages about triggers, which come from the card itself.
    pub(super) fn ttc(buffer: usize, queues: (Fifo, Builder)) -> Self {
        let sizes = Sizes::Fixed(TTC_MESSAGE_BYTES);
        let cost = Cost {
            unit_log2: 0,
            overhead: 0,
            ticks: 0,
        };
        Self::with(Elink::TTC_TO_HOST, buffer, (0, sizes, cost), None, queues)
    }

    fn with(
        elink: Elink,
        buffer: usize,
        (key, sizes, cost): (u64, Sizes, Cost),
        image: Option<Image>,
        (fifo, builder): (Fifo, Builder),
    ) -> Self {
        Self {
            elink,
            buffer,
            key,
            sizes,
            cost,
            image,
            sent: 0,
            free_at: 0,
            is_busy: false,
            fifo,
            builder,
            made: Amount::default(),
            dropped: Default::default(),
            truncated: 0,
            faults: None,
        }
    }

    /// An E-link whose front end sends back what it is sent.
    pub(super) fn looped(config: &ElinkConfig, queues: (Fifo, Builder)) -> Self {
        let cost = Cost::of(config.speed);
        let how = (0, Sizes::Told, cost);
        Self::with(config.elink, config.buffer, how, None, queues)
    }

    /// The first chunk whose bytes may still be asked for.
    pub(super) fn oldest(&self) -> u64 {
        let waiting = self.fifo.front().map(|entry| entry.chunk.trigger.number);
        waiting.unwrap_or(self.sent)
    }

    /// What the front end was sent, of one that sends it back.
    pub(super) fn messages(&mut self) -> Option<&mut Messages> {
        match &mut self.builder.payload {
            Payload::Looped(messages) => Some(messages),
            Payload::Generated(_) | Payload::Ttc(_) => None,
        }
    }

    /// A message has come that is sent back.
    pub(super) fn made(&mut self, bytes: usize) {
        self.made.add((1, bytes as u64));
    }

    /// With these faults.
    pub(super) fn with_faults(self, faults: Option<Box<LinkFaults>>) -> Self {
        Self { faults, ..self }
    }

    #[inline]
    fn bytes(&self, trigger: Trigger) -> usize {
        self.sizes.bytes(self.key, trigger)
    }

    /// The front end makes a chunk for each of these triggers.
    #[inline]
    pub(super) fn make(&mut self, triggers: &Triggers, from: u64) {
        let count = triggers.accepted() - from;
        let bytes = match self.sizes {
            Sizes::Fixed(bytes) => bytes as u64 * count,
            _ => (from..triggers.accepted())
                .map(|number| self.bytes(triggers.at(number)) as u64)
                .sum(),
        };
        self.made.add((count, bytes));
    }

    /// Chunks in front of the link, and on it.
    #[inline]
    pub(super) fn queued(&self, triggers: &Triggers) -> u64 {
        triggers.accepted() - self.sent
    }

    #[inline]
    pub(super) fn is_xoff(&self) -> bool {
        self.fifo.is_xoff()
    }

    /// When the link was done with what it has sent.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at
    }

    /// Whether nothing is on the way.
    pub(super) fn is_empty(&self, triggers: &Triggers) -> bool {
        self.queued(triggers) == 0 && self.fifo.is_empty() && !self.builder.is_open()
    }

    /// Whether something waits for nothing but room in the DMA buffer.
    pub(super) fn waits_for_dma(&self, now: u64) -> bool {
        !self.fifo.is_empty()
            || self.builder.is_open() && (self.builder.is_full() || self.builder.deadline <= now)
    }

    /// When something is due next.
    pub(super) fn due(&self, triggers: &Triggers) -> Option<u64> {
        let chunk = (self.queued(triggers) > 0 && !self.is_held_up()).then(|| self.end(triggers).1);
        let block = self.builder.is_open().then_some(self.builder.deadline);
        chunk.into_iter().chain(block).min()
    }

    /// The next chunk, and when it is sent.
    #[inline]
    fn end(&self, triggers: &Triggers) -> (Chunk, u64) {
        let trigger = triggers.at(self.sent);
        let bytes = self.bytes(trigger);
        let end = self
            .free_at
            .max(trigger.at)
            .saturating_add(self.cost.ticks(bytes));
        (Chunk::new(trigger, bytes), end)
    }

    /// Sends the chunks whose end comes until then; a block whose time is over by then goes out. No trigger may come later that was before.
    pub(super) fn advance(&mut self, triggers: &Triggers, until: u64, dma: &mut impl Dma) {
        self.send(triggers, u64::MAX, until, dma);
        let comes =
            self.queued(triggers) > 0 && !self.is_held_up() && self.end(triggers).1 <= until;
        if !comes {
            self.let_time_pass(until, dma);
        }
    }

    /// Sends the chunks whose end comes until then, but none from number `last` on.
    pub(super) fn send(&mut self, triggers: &Triggers, last: u64, until: u64, dma: &mut impl Dma) {
        let last = last.min(triggers.accepted());
        loop {
            if self.fifo.is_empty() {
                let sound = self.sound_until(last);
                self.fill(triggers, sound, until);
            }
            if self.sent >= last || self.has_stopped(triggers, last) {
                break;
            }
            self.look(triggers);
            if self.is_held_up() {
                break;
            }
            let (chunk, end) = self.end(triggers);
            if end > until {
                break;
            }
            self.let_time_pass(end, dma);
            self.sent += 1;
            self.free_at = end;
            let chunk = self.strike(chunk);
            self.deliver(chunk, end, dma);
        }
    }

    /// An open block whose time is over goes out.
    #[inline]
    fn let_time_pass(&mut self, now: u64, dma: &mut impl Dma) {
        if self.builder.deadline <= now {
            let why = if self.builder.is_full() {
                Why::Full
            } else {
                Why::Time
            };
            self.builder.let_go(why, dma);
        }
    }

    /// A chunk comes out of the link.
    fn deliver(&mut self, chunk: Chunk, now: u64, dma: &mut impl Dma) {
        if !self.fifo.is_empty() {
            self.drain(now, dma);
        }
        let (done, is_all) = match self.fifo.is_empty() {
            true => self.builder.place(&chunk, 0, now, dma),
            false => (0, false),
        };
        if is_all {
            return;
        }
        match self.fifo.push(chunk, done, now) {
            Pushed::Whole => {}
            Pushed::Truncated(bytes) => {
                self.truncated += 1;
                self.dropped[CardLoss::Truncated].add((0, bytes as u64));
            }
            Pushed::Dropped => {
                let ends = u64::from(chunk.end != End::Never);
                self.dropped[CardLoss::FifoFull].add((ends, chunk.bytes as u64));
            }
        }
    }

    /// Puts what waits behind the link into blocks, as far as the DMA buffer has room.
    pub(super) fn drain(&mut self, now: u64, dma: &mut impl Dma) {
        if self.builder.is_open() && self.builder.is_full() {
            self.builder.let_go(Why::Full, dma);
        }
        while let Some(entry) = self.fifo.front() {
            let (done, is_all) = self.builder.place(&entry.chunk, entry.done, now, dma);
            self.fifo.placed(done, is_all);
            if !is_all {
                break;
            }
        }
        if self.fifo.goes_on(now) {
            self.free_at = self.free_at.max(now);
        }
    }

    /// The open block goes out, if there is one and the DMA buffer has room.
    pub(super) fn let_go_last(&mut self, dma: &mut impl Dma) {
        if self.builder.is_open() {
            self.builder.let_go(Why::Last, dma);
        }
    }

    /// As [`advance`](Self::advance), but only whole chunks into the open block, while they fit and before its time is over.
    #[inline]
    fn fill(&mut self, triggers: &Triggers, last: u64, until: u64) {
        if self.sent >= last || !self.builder.is_open() {
            return;
        }
        match (&self.image, &self.builder.payload) {
            (Some(image), _) => match image.stride {
                ..=32 => self.fill_fixed::<32>(triggers, last, until),
                33..=64 => self.fill_fixed::<64>(triggers, last, until),
                _ => self.fill_fixed::<0>(triggers, last, until),
            },
            (None, Payload::Generated(_)) => self.fill_any(triggers, last, until),
            (None, Payload::Ttc(_) | Payload::Looped(_)) => {}
        }
    }

    /// `COPY` bytes are copied for each chunk, if that is not 0.
    fn fill_fixed<const COPY: usize>(&mut self, triggers: &Triggers, last: u64, until: u64) {
        let Some(image) = &self.image else {
            return;
        };
        let before = self.builder.deadline.min(until.saturating_add(1));
        let room = self.builder.format.bytes() - self.builder.filled;
        let most = (last - self.sent).min((room / image.stride) as u64);
        let memory = &mut self.builder.memory[self.builder.filled..];
        let (mut at, mut free_at, mut count) = (0, self.free_at, 0);
        for (trigger_at, l1id) in triggers.each(self.sent, most) {
            let end = free_at.max(trigger_at) + image.cost;
            if end >= before {
                break;
            }
            if COPY > 0 {
                let to = &mut memory[at..at + COPY];
                to.copy_from_slice(&image.bytes[..COPY]);
                to[image.l1id_at] = l1id;
            } else {
                let to = &mut memory[at..at + image.stride];
                to.copy_from_slice(&image.bytes[..image.stride]);
                to[image.l1id_at] = l1id;
            }
            at += image.stride;
            free_at = end;
            count += 1;
        }
        self.builder
            .open
            .add((count, count * image.chunk_bytes as u64));
        self.builder.filled += at;
        self.free_at = free_at;
        self.sent += count;
    }

    fn fill_any(&mut self, triggers: &Triggers, last: u64, until: u64) {
        let before = self.builder.deadline.min(until.saturating_add(1));
        let layout = self.builder.format.layout();
        let end_of_block = self.builder.format.bytes();
        let (mut at, mut bytes_in) = (self.builder.filled, 0);
        let from = self.sent;
        while self.sent < last {
            let trigger = triggers.at(self.sent);
            let bytes = self.sizes.bytes(self.key, trigger);
            let end = self.free_at.max(trigger.at) + self.cost.ticks(bytes);
            if end >= before || at + Place::of(layout, bytes).stride > end_of_block {
                break;
            }
            let head = self.builder.payload.head(bytes, trigger.l1id);
            at += emit_whole(layout, head, bytes, &mut self.builder.memory[at..]);
            bytes_in += bytes as u64;
            self.free_at = end;
            self.sent += 1;
        }
        self.builder.filled = at;
        self.builder.open.add((self.sent - from, bytes_in));
    }

    pub(super) fn account(&self, triggers: &Triggers) -> ElinkAccount {
        let mut queued = Amount::default();
        for number in self.sent..triggers.accepted() {
            queued.add((1, self.bytes(triggers.at(number)) as u64));
        }
        ElinkAccount {
            elink: self.elink,
            buffer: self.buffer,
            loops_back: matches!(self.builder.payload, Payload::Looped(_)),
            sent_to_it: Amount::default(),
            chunks: ChunkBooks {
                made: self.made,
                in_dma: self.builder.out,
                dropped: self.builder.add_lost(self.dropped),
                queued,
                in_fifo: self.fifo.held(),
                in_block: self.builder.open,
            },
            truncated: self.truncated,
            faults: self
                .faults
                .as_ref()
                .map(|faults| faults.counts)
                .unwrap_or_default(),
            blocks: self.builder.blocks,
            fifo: self.fifo.books,
            is_busy: self.is_busy,
        }
    }
}

impl Image {
    /// None when such a chunk never lies in one block.
    fn new(builder: &Builder, chunk_bytes: usize, cost: Cost) -> Option<Self> {
        let layout = builder.format.layout();
        let Place { data, stride, .. } = Place::of(layout, chunk_bytes);
        if stride > builder.format.bytes() - BLOCK_HEAD_BYTES {
            return None;
        }
        let mut bytes = vec![0; stride + SLACK_BYTES];
        let head = builder.payload.head(chunk_bytes, 0);
        emit_whole(layout, head, chunk_bytes, &mut bytes);
        Some(Self {
            bytes,
            chunk_bytes,
            stride,
            l1id_at: data + 3,
            cost: cost.ticks(chunk_bytes),
        })
    }
}
