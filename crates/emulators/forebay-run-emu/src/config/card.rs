//! The card as a whole.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_config::{Block, ConfigFile, Document, Sections};
use forebay_emu::card::CardConfig;
use forebay_run::chain::{Joints, Member};
use forebay_settings::{Settings, settings};
use forebay_wire::felix::BlockFormat;

use super::batch::{self, DefectSettings};
use super::chunks::ChunkSettings;
use super::faults::FaultSettings;
use super::links::LinkSettings;
use super::queues::{FromHostSettings, QueueSettings};
use super::ttc::TtcSettings;
use super::words::BlockWord;
use crate::card::CardPlan;

settings! {
    /// The emulated card as a whole.
    pub struct CardSettings in [card] {
        /// What it is called, in its record and in the names of its memory.
        name: String = "card0".into(),
        /// Where readers open it: what a device file is for a real card.
        socket: Option<PathBuf> => "the name with `.sock`, in the current directory",
        /// Where its ledger and record lie. Made if it is not there.
        directory: Option<PathBuf> => "nothing is kept",
        /// Serves Prometheus' text format at GET /metrics there.
        metrics: Option<SocketAddr> => "not served",
        /// A file in which the card notes when each 256th trigger was due, for `forebay swrod --trigger-times`; in `/dev/shm` it waits for no disk.
        trigger_times: Option<PathBuf> => "not noted",
        /// Format of blocks: marker 0xC0CE with 32-bit trailers, 0xABCD with 16-bit ones, or 0xABCE with 32-bit ones.
        blocks: BlockWord = BlockWord::Phase2,
        /// Size of a block of phase 2; those of phase 1 have 1024 bytes.
        block_bytes: usize [pow2 1024..=16_384] = 4096,
        /// Words in front of the data instead of behind: a variant of this project, which no card has.
        subchunk_headers: bool = false,
        /// A block that is not full goes out so long after its first byte: the latency at low rates.
        block_timeout_us: u64 [1..=1_000_000] = 1000,
        /// DMA buffers.
        dma_buffers: usize [1..=8] = 1,
        /// Size of each: the longest stall of its reader that shall hold no trigger back, times the data rate.
        dma_bytes: u64 [pow2 1 << 20..=1 << 36] = 64 << 20,
        /// Whether triggers begin when every DMA buffer has been opened, or at once.
        wait_for_readers: bool = true,
        /// How much slower than real time the card lives: what this host could not move in real time keeps its shape.
        time_dilation: u64 [1..=1_000_000] = 1,
        /// How long the card waits at its end until its readers have read everything.
        drain_s: u64 [0..=3600] = 60,
        /// All that is random follows from it.
        seed: u64 [0..=u32::MAX as u64] = 1,
    }
}

impl ConfigFile for CardPlan {
    const SECTIONS: Sections = &[
        CardSettings::SECTION,
        TtcSettings::SECTION,
        ChunkSettings::SECTION,
        QueueSettings::SECTION,
        FromHostSettings::SECTION,
        LinkSettings::SECTION,
        FaultSettings::SECTION,
        DefectSettings::SECTION,
    ];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, card) = document.one::<CardSettings>();
        let links = document.many::<LinkSettings>();
        let mut elinks = Vec::new();
        for (link, block) in &links {
            link.add(block, said.dma_buffers, &mut elinks);
        }
        if links.is_empty() {
            card.complain_whole(
                "no link is named",
                "one [[links]] block or more",
                "add [[links]] with links = [0, 1]",
            );
        }
        let (from_host, from_host_block) = document.one::<FromHostSettings>();
        let format = said.format(&card)?;
        let dma_blocks = said.dma_bytes / format.bytes() as u64;
        let (queues, queue_block) = document.one::<QueueSettings>();
        let (ttc, ttc_block) = document.one::<TtcSettings>();
        let (chunks, chunk_block) = document.one::<ChunkSettings>();
        let faults = document.many::<FaultSettings>();
        let config = CardConfig {
            format,
            elinks,
            buffers: said.dma_buffers,
            ttc: ttc.config(&ttc_block, said.dma_buffers),
            sizes: chunks.sizes(&chunk_block),
            front_end: queues.front_end(&queue_block, &from_host, dma_blocks),
            fifo: queues.fifo(&queue_block),
            block_timeout_ns: said.block_timeout_us * 1000,
            seed: said.seed,
            faults: faults
                .iter()
                .filter_map(|(fault, block)| fault.rule(block))
                .collect(),
        };
        if document.is_clean()
            && let Err(error) = config.validate()
        {
            card.complain_whole(
                &error.to_string(),
                "values that agree with each other",
                "change one of them",
            );
        }
        if config.ttc.ecr_period_ns.is_some() {
            card.idle(
                "trigger_times",
                "trigger numbers are reset, and chunks then do not say which trigger they are of",
            );
        }
        let name = said.name;
        let of_name = || PathBuf::from(format!("{name}.sock"));
        Some(Self {
            defects: batch::of_card(document, &config),
            socket: said.socket.unwrap_or_else(of_name),
            name,
            out: said.directory,
            metrics: said.metrics,
            trigger_times: said.trigger_times,
            dma_blocks,
            from_host_packets: from_host.packets(&from_host_block),
            config,
            wait_for_readers: said.wait_for_readers,
            time_dilation: said.time_dilation,
            drain: Duration::from_secs(said.drain_s),
        })
    }
}

impl Member for CardPlan {
    const KIND: &'static str = "card";
    const DIRECTORY: &'static str = "card.directory";

    fn joints(&self) -> Joints {
        Joints {
            listens: vec![self.socket.display().to_string()],
            ..Joints::default()
        }
    }
}

impl CardSettings {
    fn format(&self, card: &Block<'_, '_>) -> Option<BlockFormat> {
        let format = match self.blocks {
            BlockWord::Phase1 => BlockFormat::PHASE1,
            BlockWord::Phase1Wide => BlockFormat::PHASE1_WIDE,
            BlockWord::Phase2 => BlockFormat::phase2(self.block_bytes).ok()?,
        };
        if self.blocks != BlockWord::Phase2 {
            card.idle("block_bytes", "blocks of phase 1 have 1024 bytes");
        }
        Some(if self.subchunk_headers {
            format.with_headers()
        } else {
            format
        })
    }
}
