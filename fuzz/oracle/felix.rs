//! Bytes as blocks of a card: the decoder neither panics nor loses count, and what is a chunk of the generator or a message about a trigger can be written
//! again.

use forebay_readout::{Chunk, Config, Decoder};
use forebay_wire::felix::{BlockFormat, Generated, TtcMessage};

/// The first byte chooses the format, the others are blocks; the last one may be cut.
pub(crate) fn check(bytes: &[u8]) {
    let Some((choice, blocks)) = bytes.split_first() else {
        return;
    };
    let sized = |bytes| BlockFormat::phase2(bytes).expect("a size that there is");
    let formats = [
        BlockFormat::PHASE1,
        BlockFormat::PHASE1_WIDE,
        sized(1024),
        sized(2048),
        BlockFormat::PHASE1_WIDE.with_headers(),
    ];
    let format = formats[usize::from(*choice) % formats.len()];
    let config = Config {
        chunk_bytes_max: 3000,
    };
    let mut decoder = Decoder::new(format, &config).expect("sound");
    let (mut offered, mut chunks, mut chunk_bytes) = (0_u32, 0, 0);
    let mut take = |chunk: Chunk<'_, &[u8]>| {
        offered += 1;
        if offered % 3 == 0 {
            return false;
        }
        let mut payload = Vec::new();
        chunk.payload.append_to(&mut payload);
        chunks += 1;
        chunk_bytes += payload.len() as u64;
        read_again(&payload);
        true
    };
    for block in blocks.chunks(format.bytes()) {
        // What is wrong with it is counted.
        let _ = decoder.handle_block(block);
        closes(&decoder);
        while !decoder.poll(block, &mut take) {
            closes(&decoder);
        }
        closes(&decoder);
    }
    while !decoder.finish(&mut take) {
        closes(&decoder);
    }
    let account = decoder.account();
    assert_eq!(account.residual(), [0; 3], "{account:?}");
    assert_eq!(account.held, [0; 2], "{account:?}");
    assert_eq!([account.chunks, account.chunk_bytes], [chunks, chunk_bytes]);
}

/// Its books close, whatever the block was and however much of it is taken.
fn closes(decoder: &Decoder) {
    let account = decoder.account();
    assert_eq!(account.residual(), [0; 3], "{account:?}");
}

fn read_again(chunk: &[u8]) {
    if let Ok(generated) = Generated::parse(chunk) {
        let mut again = vec![0; chunk.len()];
        assert!(generated.emit(&mut again));
        // The upper two bits of the E-link's byte are nobody's.
        again[4] = chunk[4];
        assert_eq!(again, chunk);
    }
    if let Ok(message) = TtcMessage::parse(chunk) {
        assert_eq!(TtcMessage::parse(&message.emit()), Ok(message));
    }
}
