//! What must hold for any bytes taken as a messaging connection. Shared by the fuzz target and by the test that replays its
//! corpus.

use forebay_wire::net::{Frame, HEAD_BYTES};
use forebay_wire::netio3::{BufferWriter, Messages};

const BUFFER_BYTES: u32 = 4096;

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    check_buffer(bytes);
    let mut rest = bytes;
    while let Ok(Some((frame, taken))) = Frame::parse(rest, BUFFER_BYTES) {
        assert!((HEAD_BYTES..=rest.len()).contains(&taken));
        let again = frame.emit();
        assert_eq!(
            Frame::parse(&again, BUFFER_BYTES),
            Ok(Some((frame, again.len())))
        );
        assert_eq!(Frame::parse(&rest[..taken - 1], BUFFER_BYTES), Ok(None));
        if let Frame::Data(_, messages) = frame {
            check_buffer(messages);
        }
        rest = &rest[taken..];
    }
}

/// Messages that are read can be written, and are then the same.
fn check_buffer(bytes: &[u8]) {
    let mut memory = vec![0; bytes.len() + 16];
    let mut writer = BufferWriter::new(&mut memory);
    let mut count = 0;
    for message in Messages::new(bytes).map_while(Result::ok) {
        assert!(
            writer.push(message.tag, message.status, message.payload),
            "nothing gets longer"
        );
        count += 1;
    }
    let state = writer.into_state();
    let again = Messages::new(&memory[..state.len]).map(|message| message.expect("it was written"));
    assert!(again.eq(Messages::new(bytes).map_while(Result::ok)));
    assert_eq!(state.messages, count);
}
