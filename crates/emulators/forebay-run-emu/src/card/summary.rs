//! What a card has to say at its end.

use std::collections::BTreeMap;

use forebay_emu::Behind;
use forebay_emu::card::{CardAccount, FromHostBooks};
use serde::Serialize;

use super::Process;

/// What became of one DMA buffer.
#[derive(Clone, Debug, Serialize)]
pub struct DmaSummary {
    /// Blocks shown to its reader.
    pub blocks: u64,
    /// Of these, blocks that nobody has given back.
    pub blocks_unread: u64,
    /// Blocks of the buffer.
    pub capacity_blocks: u64,
    /// How often it had too few free blocks, and BUSY was up for that; a replay has no BUSY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<u64>,
}

/// What one E-link had.
#[derive(Clone, Debug, Serialize)]
pub struct ElinkSummary {
    /// Its number.
    pub elink: u16,
    /// The DMA buffer that its blocks went into.
    pub dma_buffer: usize,
    /// Messages that its front end was sent.
    pub messages: u64,
    /// Whether it sends them back as chunks, and answers no triggers.
    pub loops_back: bool,
    /// Chunks of its front end.
    pub chunks: u64,
    /// Chunks in the DMA buffer.
    pub chunks_out: u64,
    /// Chunks that lost their end behind the link.
    pub truncated: u64,
    /// Blocks that went out full, by time, and at the end.
    pub blocks: [u64; 3],
    /// How often its front end was told to stop.
    pub xoff: u64,
    /// Most bytes behind the link.
    pub fifo_peak_bytes: u64,
}

/// What became of what the card was sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FromHostSummary {
    /// Packets read.
    pub packets: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Messages sent back.
    pub looped: u64,
    /// Bytes of them.
    pub looped_bytes: u64,
    /// Messages that front ends took and did not send back.
    pub sunk: u64,
    /// Bytes of them.
    pub sunk_bytes: u64,
    /// Messages lost, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets of them, and such that are of no message.
    pub dropped_packets: BTreeMap<&'static str, u64>,
    /// How often packets were left where they were, since a queue in front of a link was full.
    pub held_up: u64,
    /// Packets in the buffer that nobody has read.
    pub packets_left: u64,
    /// Writers that were hung up on, since they wrote what cannot be.
    pub broken_writers: u64,
}

impl FromHostSummary {
    pub(super) fn of(books: &FromHostBooks) -> Self {
        let lost = |of: fn(&forebay_wire::felix::Pieces) -> u64| {
            let dropped = books.dropped();
            let all = dropped
                .iter()
                .map(|(why, pieces)| (why.name(), of(&pieces)));
            all.filter(|(_, count)| *count > 0).collect()
        };
        let come = books.decoded.come;
        Self {
            packets: come.packets,
            messages: come.messages,
            bytes: come.bytes,
            looped: books.looped.messages,
            looped_bytes: books.looped.bytes,
            sunk: books.sunk.messages,
            sunk_bytes: books.sunk.bytes,
            dropped: lost(|pieces| pieces.messages),
            dropped_packets: lost(|pieces| pieces.packets),
            ..Self::default()
        }
    }
}

/// What a card did.
#[derive(Clone, Debug, Serialize)]
pub struct CardSummary {
    /// Triggers asked for.
    pub triggers_requested: u64,
    /// Triggers given.
    pub triggers: u64,
    /// Triggers held back by BUSY: a link could not carry more.
    pub held_by_link: u64,
    /// Triggers held back by BUSY: a DMA buffer was full, or nearly.
    pub held_by_dma: u64,
    /// Triggers held back by dead time.
    pub held_by_dead_time: u64,
    /// Chunks of all front ends: one for each trigger and E-link, and one for each message that is sent back.
    pub chunks: u64,
    /// Bytes of them.
    pub chunk_bytes: u64,
    /// Chunks in DMA buffers.
    pub chunks_out: u64,
    /// Bytes of them.
    pub chunk_bytes_out: u64,
    /// Chunks that lost their end in the card.
    pub chunks_truncated: u64,
    /// Chunks lost in the card, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Bytes lost in the card, by reason.
    pub dropped_bytes: BTreeMap<&'static str, u64>,
    /// Faults that were injected, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Chunks that were still in the card at its end.
    pub held: u64,
    /// What it was sent.
    pub from_host: FromHostSummary,
    /// How often BUSY went up.
    pub busy: u64,
    /// Share of the card's time in which BUSY was up, 0 to 1.
    pub busy_fraction: f64,
    /// Triggers given per second of the card's time.
    pub trigger_rate_hz: f64,
    /// How long triggers came, in s of the card's time.
    pub trigger_time_s: f64,
    /// How much slower than real time it lived.
    pub time_dilation: u64,
    /// Whether the host was too slow for the card, so that rates are not the card's own limit.
    pub host_limited: bool,
    /// 99th percentile of the lateness of triggers, in ns of the card's time.
    pub lag_ns_p99: u64,
    /// Readers that were turned away.
    pub readers_refused: u64,
    /// The DMA buffers.
    pub dma: Vec<DmaSummary>,
    /// The E-links, then that of messages about triggers, then those that send back what they are sent.
    pub elinks: Vec<ElinkSummary>,
}

/// What is said of blocks that are still in DMA buffers, and of so many chunks in front of them; none where there are no such blocks.
pub(super) fn unread(dma: &[DmaSummary], held: u64) -> Option<String> {
    let blocks: u64 = dma.iter().map(|dma| dma.blocks_unread).sum();
    let chunks = match held {
        0 => String::new(),
        held => format!(", chunks in front of them: {held}"),
    };
    let said = format!("nobody has read them: blocks in DMA buffers: {blocks}{chunks}");
    (blocks > 0).then_some(said)
}

impl CardSummary {
    pub(super) fn unread(&self) -> Option<String> {
        unread(&self.dma, self.held)
    }
}

impl Process<'_> {
    /// After so much of the card's time.
    pub(super) fn summary(&mut self, card_ns: u64) -> CardSummary {
        let account: CardAccount = self.card.account();
        let Behind {
            lag_ns_p99,
            generator_limited,
            run_ns,
            ..
        } = self.card.behind();
        // What is sent and read after the last trigger is not its time.
        let card_ns = if run_ns > 0 { run_ns } else { card_ns };
        let (triggers, chunks) = (account.triggers, account.chunks);
        let block_bytes = self.plan.config.format.bytes() as u64;
        let rings = self.rings.rings.iter_mut().zip(&account.dma_busy);
        let dma = rings.map(|(ring, busy)| DmaSummary {
            busy: Some(*busy),
            blocks: ring.position() / block_bytes,
            blocks_unread: ring.blocks() - ring.free_blocks(),
            capacity_blocks: ring.blocks(),
        });
        let dma = dma.collect();
        let from_host = FromHostSummary {
            held_up: self.from_host.held_up,
            packets_left: self.from_host.left(),
            broken_writers: self.from_host.broken_writers,
            ..FromHostSummary::of(&account.from_host)
        };
        let lost = |unit: fn(&forebay_emu::Amount) -> u64| {
            let all = chunks.dropped.iter();
            let all = all.map(|(loss, amount)| (loss.name(), unit(&amount)));
            all.filter(|(_, count)| *count > 0).collect()
        };
        let seconds = card_ns as f64 / 1e9;
        let per_second = |count: u64| {
            if card_ns > 0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        CardSummary {
            triggers_requested: triggers.requested,
            triggers: triggers.accepted,
            held_by_link: triggers.held_by_link,
            held_by_dma: triggers.held_by_dma,
            held_by_dead_time: triggers.held_by_dead_time,
            chunks: chunks.made.items,
            chunk_bytes: chunks.made.bytes,
            chunks_out: chunks.in_dma.items,
            chunk_bytes_out: chunks.in_dma.bytes,
            chunks_truncated: account.elinks.iter().map(|elink| elink.truncated).sum(),
            dropped: lost(|amount| amount.items),
            dropped_bytes: lost(|amount| amount.bytes),
            faults: account.faults().filter(|(_, count)| *count > 0).collect(),
            held: chunks.held().items,
            from_host,
            busy: triggers.busy,
            busy_fraction: per_second(triggers.busy_ns) / 1e9,
            trigger_rate_hz: per_second(triggers.accepted),
            trigger_time_s: seconds,
            time_dilation: self.plan.time_dilation,
            host_limited: generator_limited,
            lag_ns_p99,
            readers_refused: self.door.refused(),
            dma,
            elinks: account.elinks.iter().map(of_elink).collect(),
        }
    }
}

fn of_elink(account: &forebay_emu::card::ElinkAccount) -> ElinkSummary {
    let blocks = account.blocks;
    ElinkSummary {
        elink: account.elink.number(),
        dma_buffer: account.buffer,
        messages: account.sent_to_it.items,
        loops_back: account.loops_back,
        chunks: account.chunks.made.items,
        chunks_out: account.chunks.in_dma.items,
        truncated: account.truncated,
        blocks: [blocks.full, blocks.timed_out, blocks.last],
        xoff: account.fifo.xoff,
        fifo_peak_bytes: account.fifo.peak_bytes,
    }
}
