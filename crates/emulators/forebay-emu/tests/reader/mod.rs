//! Reads what a card wrote, as a readout does, and checks every byte of it.

use std::collections::BTreeMap;

use forebay_emu::card::{Card, CardAccount, CardConfig, Memory};
use forebay_readout::{Chunk, Config, Decoder, Payload, Status};
use forebay_wire::felix::{BlockHead, Elink, Generated, TtcMessage};

/// What one E-link gave.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
    pub(crate) flagged: u64,
    /// Chunks that say that nothing is wrong, and are not what was made.
    pub(crate) wrong: u64,
    /// Low bytes of the trigger numbers, as long as each chunk is whole.
    pub(crate) l1ids: Vec<u8>,
    /// Its blocks, one after the other.
    pub(crate) blocks: Vec<Vec<u8>>,
}

pub(crate) struct Reader {
    decoders: Vec<Decoder>,
    pub(crate) seen: BTreeMap<u16, Seen>,
    pub(crate) messages: Vec<TtcMessage>,
    pub(crate) keeps_blocks: bool,
}

impl Reader {
    pub(crate) fn new(config: &CardConfig) -> Self {
        let decoder = |_| Decoder::new(config.format, &Config::default()).unwrap();
        Self {
            decoders: (0..config.buffers).map(decoder).collect(),
            seen: BTreeMap::new(),
            messages: Vec::new(),
            keeps_blocks: false,
        }
    }

    pub(crate) fn read(&mut self, dma: &mut Memory, most: usize) {
        for (buffer, decoder) in self.decoders.iter_mut().enumerate() {
            dma.take_some(buffer, most, |block| {
                let head = u32::from_le_bytes(block[..4].try_into().unwrap());
                let elink = BlockHead::from_word(head).elink;
                if self.keeps_blocks {
                    let seen = self.seen.entry(elink.number()).or_default();
                    seen.blocks.push(block.to_vec());
                }
                // Damage of blocks is counted by the decoder.
                let _ = decoder.handle_block(block);
                decoder.poll(block, |chunk| {
                    take(&mut self.seen, &mut self.messages, chunk);
                    true
                });
            });
        }
    }

    /// What the decoder says at the end.
    pub(crate) fn finish(&mut self) {
        for decoder in &mut self.decoders {
            decoder.finish(|chunk: Chunk<'_, &[u8]>| {
                take(&mut self.seen, &mut self.messages, chunk);
                true
            });
            assert_eq!(decoder.account().residual(), [0; 3]);
        }
    }

    pub(crate) fn decoder(&self, buffer: usize) -> &Decoder {
        &self.decoders[buffer]
    }

    /// Everything that the card says to have written came, whole, in order, each byte of it.
    pub(crate) fn agrees_with(&self, account: &CardAccount) {
        assert_eq!(account.residual(), [0; 3], "{account:#?}");
        for elink in &account.elinks {
            let number = elink.elink.number();
            let seen = self.seen.get(&number).cloned().unwrap_or_default();
            let found = (seen.chunks, seen.bytes);
            let in_dma = elink.chunks.in_dma;
            assert_eq!(found, (in_dma.items, in_dma.bytes), "{number:#x}");
            assert_eq!(
                (seen.flagged, seen.wrong),
                (elink.truncated, 0),
                "{number:#x}"
            );
        }
        for decoder in &self.decoders {
            let account = decoder.account();
            assert_eq!(account.damage.total(), 0);
            assert_eq!(account.blocks, account.decoded);
        }
    }

    /// Trigger numbers of every E-link are those of all triggers, without a hole.
    pub(crate) fn is_complete(&self, account: &CardAccount) {
        let accepted = account.triggers.accepted;
        for elink in &account.elinks {
            if elink.elink != Elink::TTC_TO_HOST {
                let seen = &self.seen[&elink.elink.number()];
                assert_eq!(seen.l1ids.len() as u64, accepted);
                let mut expected = (0..accepted).map(|n| n as u8);
                assert!(seen.l1ids.iter().all(|l1id| Some(*l1id) == expected.next()));
            }
        }
    }
}

fn take(seen: &mut BTreeMap<u16, Seen>, messages: &mut Vec<TtcMessage>, chunk: Chunk<'_, &[u8]>) {
    let seen = seen.entry(chunk.elink.number()).or_default();
    let bytes = match chunk.payload {
        Payload::Within(bytes) => bytes,
        Payload::Joined(bytes) => bytes,
    };
    seen.chunks += 1;
    seen.bytes += bytes.len() as u64;
    if chunk.status != Status::GOOD {
        seen.flagged += 1;
        return;
    }
    if chunk.elink == Elink::TTC_TO_HOST {
        match TtcMessage::parse(bytes) {
            Ok(message) => messages.push(message),
            Err(_) => seen.wrong += 1,
        }
        return;
    }
    let Ok(generated) = Generated::parse(bytes) else {
        seen.wrong += 1;
        return;
    };
    assert_eq!(u16::from(generated.elink), chunk.elink.number() & 0x3f);
    seen.l1ids.push(generated.l1id);
}

/// Runs a card to its end with a reader that takes all there is each `step_ns`.
pub(crate) fn run(config: &CardConfig, step_ns: u64) -> (CardAccount, Reader) {
    // More blocks than any of these cards fills in a run: how often it is read makes no difference.
    run_with(config, step_ns, 1 << 14, |_| usize::MAX)
}

/// The same with so many blocks, of which `most` are read in each step.
pub(crate) fn run_with(
    config: &CardConfig,
    step_ns: u64,
    blocks: usize,
    mut most: impl FnMut(u64) -> usize,
) -> (CardAccount, Reader) {
    let mut card = Card::new(config).unwrap();
    let mut dma = Memory::new(config, blocks);
    let mut reader = Reader::new(config);
    reader.keeps_blocks = true;
    let mut now_ns = 0;
    let duration_ns = config.ttc.limit.duration_ns.unwrap_or(u64::MAX);
    for step in 0.. {
        let is_up_to_date = card.handle_time(now_ns, &mut dma);
        assert_eq!(card.account().residual(), [0; 3], "{:#?}", card.account());
        reader.read(&mut dma, most(step));
        if card.is_finished() || now_ns > duration_ns {
            break;
        }
        if is_up_to_date {
            now_ns += step_ns;
        }
    }
    while !card.finish(now_ns, &mut dma) {
        assert_eq!(card.account().residual(), [0; 3]);
        reader.read(&mut dma, 1);
    }
    assert!(card.is_finished() && card.poll_timeout().is_none());
    reader.read(&mut dma, usize::MAX);
    reader.finish();
    let account = card.account();
    assert_eq!(account.chunks.held().items, 0);
    (account, reader)
}
