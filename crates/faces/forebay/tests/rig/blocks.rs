//! Raw blocks as a card writes them.

use forebay_wire::felix::{BlockFormat, BlockWriter, Elink, Flags, Generated};

/// Their format.
pub(crate) fn format() -> BlockFormat {
    BlockFormat::phase2(4096).unwrap()
}

/// Blocks of two E-links in turn, each with 10 generated chunks of 100 to 109 bytes.
pub(crate) fn blocks(each: u32) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    for number in 0..each {
        for link in [0, 1] {
            let elink = Elink::of_link(link).unwrap();
            let mut block = vec![0; format().bytes()];
            let sequence = (number % 32) as u8;
            let mut writer = BlockWriter::begin(format(), elink, sequence, &mut block).unwrap();
            for one in 0..10 {
                let mut chunk = vec![0; 100 + one as usize];
                let generated = Generated {
                    first: 0xaa,
                    l1id: (number * 10 + one) as u8,
                    elink: 0,
                    width: 16,
                };
                assert!(generated.emit(&mut chunk));
                writer.push(&chunk, 0, Flags::NONE).unwrap();
            }
            writer.close();
            blocks.push(block);
        }
    }
    blocks
}
