//! The receiving side: a message of several datagrams, one of which is lost the first time.
//!
//! `cargo run -p forebay-evb --example long_message`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use forebay_evb::{MessageCheck, Step};
use forebay_wire::hadtu::{ByteOrder, MTU_BYTES, MessageWriter};
use forebay_wire::subevent::SubEventRepr;

/// Hands one datagram in, as often as the check asks for it.
fn receive(check: &mut MessageCheck, buffer: &mut Vec<u8>, datagram: &[u8]) {
    let (have, _) = check.unfinished();
    buffer.truncate(have);
    buffer.extend_from_slice(datagram);
    loop {
        match check.handle_datagram(buffer, datagram.len()) {
            Step::More => return println!("{} bytes, more follows", datagram.len()),
            Step::Complete(message) => {
                return println!(
                    "complete: {} sub-events in {} datagrams, {} bytes",
                    message.items, message.datagrams, message.message_bytes
                );
            }
            Step::Rejected(rejected) => {
                let (reason, bytes) = (rejected.reason.name(), rejected.bytes);
                println!("{} datagrams, {bytes} bytes: {reason}", rejected.datagrams);
                // The datagram at hand may begin a message of its own.
                let Some(at) = rejected.retry_at else { return };
                buffer.drain(..at);
            }
        }
    }
}

fn main() -> Result<(), forebay_wire::Error> {
    let mut writer = MessageWriter::new(ByteOrder::Big);
    writer.push(&SubEventRepr::default(), &[7; 100_000])?;
    let message = writer.finish().to_vec();
    let pieces: Vec<&[u8]> = message.chunks(MTU_BYTES).collect();

    let mut check = MessageCheck::new(1 << 20);
    let mut buffer = Vec::new();
    // The second piece is lost; then the message is sent again.
    for piece in [pieces[0], pieces[0], pieces[1]] {
        receive(&mut check, &mut buffer, piece);
    }
    Ok(())
}
