//! What must hold for any datagrams of a source, taken as messages one after the other. Shared by the fuzz target and by the test that replays its corpus.
//!
//! The input: the largest message in KiB (one byte), then datagrams: two bytes of length, and so many bytes. A length with the highest bit set is that of
//! a full datagram, whose bytes are those of the rest, bits 0 to 6, repeated. After one whose low byte has its highest bit set, too, there is no room for
//! more: what is unfinished is refused.

use forebay_evb::{MessageCheck, Step};
use forebay_wire::hadtu::MTU_BYTES;

/// Datagrams and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    datagrams: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, datagrams: u32, bytes: u64) {
        self.datagrams += u64::from(datagrams);
        self.bytes += bytes;
    }
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Some((&kib, mut rest)) = bytes.split_first() else {
        return;
    };
    let most = u32::from(kib) * 1024;
    let mut check = MessageCheck::new(most);
    let mut buffer: Vec<u8> = Vec::new();
    let (mut given, mut taken) = (Sum::default(), Sum::default());
    while let Some((datagram, left)) = next(rest) {
        let has_no_room = matches!(rest, [low, high, ..] if low & high & 0x80 != 0);
        rest = left;
        given.add(1, datagram.len() as u64);
        buffer.truncate(check.unfinished().0);
        buffer.extend_from_slice(&datagram);
        take(&mut check, &mut buffer, datagram.len(), most, &mut taken);
        // Each datagram is in a message, refused by a reason, or held: once.
        let (have, datagrams) = check.unfinished();
        let mut all = taken;
        all.add(datagrams, have as u64);
        assert_eq!(all, given);
        assert!(have as u64 <= u64::from(most).max(MTU_BYTES as u64));
        if has_no_room && have > 0 {
            let refused = check.refuse(&buffer[..have]);
            assert_eq!((refused.datagrams, refused.bytes), (datagrams, have as u64));
            assert_eq!((refused.dropped.items(), check.unfinished()), (0, (0, 0)));
            taken.add(refused.datagrams, refused.bytes);
        }
    }
    if let Some(refused) = check.abandon() {
        taken.add(refused.datagrams, refused.bytes);
    }
    assert_eq!((taken, check.unfinished()), (given, (0, 0)));
}

/// Hands the last `len` bytes of `buffer` in, once more where that is asked for.
fn take(
    check: &mut MessageCheck,
    buffer: &mut Vec<u8>,
    mut len: usize,
    most: u32,
    taken: &mut Sum,
) {
    // At most twice: what is handed in again is the begin of a message.
    for _ in 0..2 {
        match check.handle_datagram(buffer, len) {
            Step::More => return,
            Step::Complete(accepted) => {
                assert!(accepted.message_bytes <= most && accepted.datagrams > 0);
                assert!(accepted.kept_bytes + accepted.broken_bytes < accepted.message_bytes);
                assert!(accepted.items == 0 || accepted.kept_bytes >= 16 * accepted.items);
                taken.add(accepted.datagrams, u64::from(accepted.message_bytes));
                return;
            }
            Step::Rejected(refused) => {
                taken.add(refused.datagrams, refused.bytes);
                // What holds a sub-event was looked through before, or lies here.
                let seen = taken.bytes;
                assert!(refused.dropped.items() <= 1 + seen / 16);
                let Some(at) = refused.retry_at else {
                    return;
                };
                assert_eq!(buffer.len() - at, len, "the last datagram, whole");
                buffer.drain(..at);
                len = buffer.len();
            }
        }
    }
    panic!("a datagram was to be handed in a third time");
}

fn next(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (&[low, high], rest) = bytes.split_first_chunk()?;
    if high & 0x80 == 0 {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (datagram, rest) = rest.split_at(length);
        return Some((datagram.to_vec(), rest));
    }
    let (pattern, rest) = rest.split_at(usize::from(low & 0x7f).min(rest.len()));
    let repeated = pattern.iter().copied().chain([0]).cycle();
    Some((repeated.take(MTU_BYTES).collect(), rest))
}
