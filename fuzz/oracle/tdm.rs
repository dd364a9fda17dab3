//! What must hold for any bytes taken as a datagram of time-division UDP. Shared by the fuzz target and by the test that replays its corpus.

use forebay_wire::tdm::{
    CONTROL_BYTES_MAX, DATAGRAM_BYTES_MAX, Kind, Message, Packet, TAG_BYTES, TdmError,
};

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if let Err(TdmError::Check { found, .. }) = Packet::parse(&bytes) {
        // Nobody guesses a CRC: what lies behind it is looked at, too.
        bytes[20..24].copy_from_slice(&found.to_be_bytes());
    }
    let packet = match Packet::parse(&bytes) {
        Ok(packet) => packet,
        Err(error) => {
            assert_ne!(
                error.to_string(),
                error.reason(),
                "it says more than its name"
            );
            return;
        }
    };
    assert!(!packet.to_string().is_empty());
    let keyed = packet.tag.is_some();
    let mut again = vec![0xaa; DATAGRAM_BYTES_MAX];
    let length = packet.emit(keyed, &mut again).expect("it fits again");
    assert_eq!(length, bytes.len());
    again.truncate(length);
    if let Some(tag) = packet.tag {
        again[length - TAG_BYTES..].copy_from_slice(&tag);
    }
    assert_eq!(Packet::parse(&again), Ok(packet));
    let is_data = packet.message.kind() == Kind::Data;
    assert!(is_data || length <= CONTROL_BYTES_MAX);
    if let Message::Data(data) = &packet.message {
        let mut front = vec![0; length];
        let fields = packet.emit_front(keyed, data.payload.len(), &mut front);
        let fields = fields.expect("its front fits alone");
        assert_eq!(front[..fields], again[..fields]);
    }
    for cut in [0, 1, 23, 24, length / 2, length - 1] {
        let cut = cut.min(length - 1);
        assert!(Packet::parse(&again[..cut]).is_err(), "cut at {cut}");
    }
}
