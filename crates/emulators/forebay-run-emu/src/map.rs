//! Which E-link goes into which DMA buffer, and what each can carry: read out of a card's file, drawn, and changed in it.

mod change;
mod picture;

use forebay_emu::card::{CardConfig, ChunkSizes, ElinkConfig, FULL_WORDS_HZ, Speed};
use forebay_wire::felix::Elink;
use serde::Serialize;

pub use change::{Change, ChangeError, change};
pub use picture::svg;

/// Bytes per second of one bit of width: 40 Mb/s, of which 8b10b leaves 4 in 5.
const GBT_BYTES_HZ_PER_BIT: f64 = 4e6;
/// Words of a chunk on a link in FULL mode beside its own: one before, one behind, one idle.
const FULL_FRAME_WORDS: f64 = 3.0;
/// Symbols around a chunk on an E-link of a GBT link.
const GBT_FRAME_BYTES: f64 = 2.0;

/// One E-link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ElinkRow {
    /// Its number.
    pub elink: u16,
    /// Its link.
    pub link: u16,
    /// `full`, `gbt`, `ttc`, or `loop` of one that sends back what it is sent.
    pub kind: &'static str,
    /// Bits of each 25 ns; none of a whole link.
    pub width_bits: Option<u8>,
    /// Where its blocks go.
    pub dma_buffer: usize,
    /// First byte of its chunks, where that is a stream.
    pub stream: Option<u8>,
    /// What it can carry, in bytes of payload and framing per second; none of the messages about triggers, which come over no link.
    pub budget_bytes_per_second: Option<f64>,
    /// Triggers per second at which it is full, with chunks of the mean size of the file.
    pub limit_hz: Option<f64>,
    /// Triggers asked for, as a part of that: above 1 triggers are held back.
    pub utilisation: Option<f64>,
}

/// One DMA buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BufferRow {
    /// Number of the DMA buffer.
    pub dma_buffer: usize,
    /// E-links that go into it.
    pub elinks: usize,
    /// Bytes of chunks per second at the rate asked for, or at what the links let through.
    pub bytes_per_second: f64,
}

/// The map of a card.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ElinkMap {
    /// Triggers asked for per second of the card's time.
    pub trigger_rate_hz: f64,
    /// Mean size of a chunk in bytes.
    pub chunk_bytes_mean: f64,
    /// E-links by number.
    pub elinks: Vec<ElinkRow>,
    /// The DMA buffers.
    pub buffers: Vec<BufferRow>,
    /// What somebody who set this up would want to know.
    pub findings: Vec<String>,
}

impl ElinkMap {
    /// The map of such a card.
    #[must_use]
    pub fn of(config: &CardConfig) -> Self {
        let (rate, mean) = (config.ttc.rate_hz, mean_bytes(&config.sizes));
        let mut elinks: Vec<ElinkRow> = config
            .elinks
            .iter()
            .map(|one| row(one, rate, mean))
            .collect();
        if let Some(buffer) = config.ttc.to_host {
            elinks.push(ElinkRow {
                elink: Elink::TTC_TO_HOST.number(),
                link: Elink::TTC_TO_HOST.link(),
                kind: "ttc",
                width_bits: None,
                dma_buffer: buffer,
                stream: None,
                budget_bytes_per_second: None,
                limit_hz: None,
                utilisation: None,
            });
        }
        elinks.sort_by_key(|row| row.elink);
        // BUSY is one for the whole card: the slowest link holds all of them back.
        let slowest = elinks.iter().filter_map(|row| row.limit_hz);
        let given = slowest.fold(rate, f64::min);
        let buffers = (0..config.buffers).map(|buffer| {
            let own = elinks.iter().filter(|row| row.dma_buffer == buffer);
            let bytes = |row: &ElinkRow| match row.kind {
                "ttc" => 26.0 * given,
                // What it is sent the file does not say.
                "loop" => 0.0,
                _ => mean * given,
            };
            BufferRow {
                dma_buffer: buffer,
                elinks: own.clone().count(),
                bytes_per_second: own.map(bytes).sum(),
            }
        });
        let buffers = buffers.collect();
        let mut map = Self {
            trigger_rate_hz: rate,
            chunk_bytes_mean: mean,
            elinks,
            buffers,
            findings: Vec::new(),
        };
        map.findings = findings(&map, given);
        map
    }
}

fn findings(map: &ElinkMap, given: f64) -> Vec<String> {
    let mut found = Vec::new();
    let full: Vec<&ElinkRow> = map
        .elinks
        .iter()
        .filter(|row| row.utilisation.is_some_and(|part| part > 1.0))
        .collect();
    if let Some(first) = full.first() {
        found.push(format!(
            "{} of {} E-links cannot carry chunks of {:.0} bytes at {:.0} Hz (E-link {:#05x} is full at {:.0} Hz): BUSY will hold the card at {given:.0} Hz; make \
             chunks shorter, E-links wider, or ask for fewer triggers",
            full.len(),
            map.elinks.len(),
            map.chunk_bytes_mean,
            map.trigger_rate_hz,
            first.elink,
            first.limit_hz.unwrap_or(0.0),
        ));
    }
    for buffer in map.buffers.iter().filter(|buffer| buffer.elinks == 0) {
        found.push(format!(
            "DMA buffer {} has no E-link: nothing will come out of it; give it some, or take it out of dma_buffers",
            buffer.dma_buffer
        ));
    }
    found
}

fn row(one: &ElinkConfig, rate: f64, mean: f64) -> ElinkRow {
    let (kind, width_bits, budget, limit) = match one.speed {
        Speed::Full => {
            let words = (mean / 4.0).ceil() + FULL_FRAME_WORDS;
            let words_hz = FULL_WORDS_HZ as f64;
            ("full", None, 4.0 * words_hz, words_hz / words)
        }
        Speed::Gbt { width_bits } => {
            let budget = GBT_BYTES_HZ_PER_BIT * f64::from(width_bits);
            (
                "gbt",
                Some(width_bits),
                budget,
                budget / (mean + GBT_FRAME_BYTES),
            )
        }
    };
    let answers = !one.loop_back;
    ElinkRow {
        elink: one.elink.number(),
        link: one.elink.link(),
        kind: if answers { kind } else { "loop" },
        width_bits,
        dma_buffer: one.buffer,
        stream: one.stream,
        budget_bytes_per_second: Some(budget),
        limit_hz: answers.then_some(limit),
        utilisation: answers.then_some(rate / limit),
    }
}

/// Mean size of a chunk, cuts at both ends left out of account.
fn mean_bytes(sizes: &ChunkSizes) -> f64 {
    let middle = |low: u32, high: u32| f64::from(low).midpoint(high.into());
    match *sizes {
        ChunkSizes::Fixed { bytes } => bytes.into(),
        ChunkSizes::Uniform {
            min_bytes,
            max_bytes,
        } => middle(min_bytes, max_bytes),
        ChunkSizes::Normal {
            mean_bytes,
            min_bytes,
            max_bytes,
            ..
        } => mean_bytes.clamp(min_bytes.into(), max_bytes.into()),
        ChunkSizes::LogNormal {
            median_bytes,
            sigma,
            min_bytes,
            max_bytes,
        } => {
            let mean = median_bytes * (sigma * sigma / 2.0).exp();
            mean.clamp(min_bytes.into(), max_bytes.into())
        }
        ChunkSizes::Ramp {
            from_bytes,
            to_bytes,
            ..
        } => middle(from_bytes, to_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_full_where_a_card_holds_triggers_back() {
        let of = |bytes| {
            let config = CardConfig::full_mode(2, 1e6, bytes);
            let map = ElinkMap::of(&config);
            (map.elinks[1].limit_hz.unwrap(), map.findings.len(), map)
        };
        let (limit, findings, map) = of(948);
        assert_eq!((limit, findings), (1e6, 0));
        assert_eq!(map.buffers[0].bytes_per_second, 2.0 * 948e6);
        let (limit, findings, map) = of(1024);
        assert_eq!((limit.floor(), findings), (926_640.0, 1));
        assert!(map.findings[0].contains("926641 Hz"), "{:?}", map.findings);
        assert!((map.elinks[0].utilisation.unwrap() - 259.0 / 240.0).abs() < 1e-9);
    }
}
