//! Bytes as from-host packets: the decoder neither panics nor loses count, and what it gives whole comes back when it is written again.

use forebay_wire::felix::{
    FromHostDecoder, PACKET_BYTES, PacketFormat, PacketWriter, Pieces, Taken,
};

const MESSAGE_BYTES_MAX: usize = 200;

/// The first byte chooses the format, the others are packets; the last one may be cut.
pub(crate) fn check(bytes: &[u8]) {
    let Some((choice, packets)) = bytes.split_first() else {
        return;
    };
    let format = [PacketFormat::Rm5, PacketFormat::Rm4][usize::from(choice % 2)];
    let mut decoder = FromHostDecoder::new(format, MESSAGE_BYTES_MAX);
    let mut again = FromHostDecoder::new(format, MESSAGE_BYTES_MAX);
    for packet in packets.chunks(PACKET_BYTES) {
        if let Taken::Message { elink, bytes, .. } = decoder.handle_packet(packet) {
            assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            let mut writer = PacketWriter::begin(format, elink, bytes).expect("as it was said");
            let (mut packet, mut found) = ([0; PACKET_BYTES], None);
            while writer.emit(&mut packet) {
                assert!(found.is_none());
                if let Taken::Message { elink, bytes, .. } = again.handle_packet(&packet) {
                    found = Some((elink, bytes.to_vec()));
                }
            }
            assert_eq!(found, Some((elink, bytes.to_vec())));
        }
        assert_eq!(decoder.account().residual(), [0; 3]);
    }
    decoder.abandon();
    assert_eq!(decoder.account().residual(), [0; 3]);
    assert_eq!(decoder.account().held, Pieces::default());
}
