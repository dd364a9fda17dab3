//! What must hold for a ledger file that somebody damaged, or made. Shared by the fuzz target and by the test that replays its corpus.
//!
//! The input: one byte of flags, then changes of a sound ledger, each two bytes of place and eight of value. Flag 1: a place is a byte of the directory,
//! and the low byte of the value goes there. Flag 2: the fingerprint is made to fit. Flag 4: the bytes behind are the file itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_ledger::{
    AccountLine, Condition, DropLine, GroupWriter, HEADER_WORDS, LedgerReader, LinkLine, LinkSpec,
    Lossless, Reason, RunWriter, SchemaBuilder, Supervisor, Unit, Words, audit, prometheus,
    reasons,
};

reasons! {
    enum Refused {
        Refused = "refused",
    }
}

reasons! {
    enum Bad {
        Bad = "bad",
        Late = "late",
    }
}

const DIRECTORY: u8 = 1;
const FITS: u8 = 2;
const WHOLE: u8 = 4;
/// Words of the header.
const FINGERPRINT: usize = 4;
const DIRECTORY_BYTES: usize = 5;

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Some((&flags, rest)) = bytes.split_first() else {
        return;
    };
    let mut values = if flags & WHOLE == 0 {
        sound()
    } else {
        words(rest)
    };
    if flags & WHOLE == 0 {
        for change in rest.chunks_exact(10) {
            let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
            let value = u64::from_le_bytes([
                change[2], change[3], change[4], change[5], change[6], change[7], change[8],
                change[9],
            ]);
            set(&mut values, flags & DIRECTORY != 0, place, value);
        }
    }
    if flags & FITS != 0 {
        fit(&mut values);
    }
    read(&values);
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

fn set(values: &mut [u64], in_directory: bool, place: usize, value: u64) {
    let (at, shift) = if in_directory {
        (HEADER_WORDS + place / 8, 8 * (place % 8))
    } else {
        (place, 0)
    };
    if let Some(word) = values.get_mut(at) {
        *word = if in_directory {
            (*word & !(0xff << shift)) | ((value & 0xff) << shift)
        } else {
            value
        };
    }
}

/// FNV-1a over the directory, as the format has it.
fn fit(values: &mut [u64]) {
    let length = values.get(DIRECTORY_BYTES).copied().unwrap_or(0);
    let directory = values
        .iter()
        .skip(HEADER_WORDS)
        .flat_map(|word| word.to_le_bytes());
    let directory = directory.take(usize::try_from(length).unwrap_or(usize::MAX));
    let hash = directory.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    if let Some(word) = values.get_mut(FINGERPRINT) {
        *word = hash;
    }
}

/// A ledger with everything that one can declare.
fn sound() -> Vec<u64> {
    let mut schema = SchemaBuilder::new("fuzzed");
    let (near, far) = (schema.group("near"), schema.group("far"));
    let (from, sent) = schema.account::<Refused>(near, "send", "a", Unit::Datagrams);
    let (to, got) = schema.account::<Bad>(far, "receive", "a", Unit::Datagrams);
    let _ = schema.unbalanced_account::<Lossless>(far, "told", "a", Unit::Datagrams);
    let confirmed = schema.confirmed(from);
    let (kernel, lost) = (schema.kernel_drop(far), schema.link_drop(far));
    let (published, taken) = (
        schema.cursor_tally(near, "published"),
        schema.cursor_tally(far, "taken"),
    );
    let missing = schema.counter(far, "missing", "a", "What gaps say");
    let link = LinkSpec::new("socket", "a")
        .from(from)
        .to(to)
        .drops("named", lost);
    let link = link.merged_kernel_drops("overflow", kernel, 64, 8, 65_507);
    schema.link(
        link.in_flight(published, taken)
            .inferred_lost(missing, Unit::SubEvents)
            .bound_items(3),
    );
    schema.host_term(far, "ip", "reassembly");
    schema.histogram("latency_ns", "ns", "a");
    schema.loss_table(far, 4, &[("receive", "late")]);
    let schema = schema.finish().expect("a declaration that stands");
    let words = Words::zeroed(schema.words_needed());
    let run = RunWriter::format(&schema, &words, 1, 0).expect("room");
    let mut writer = GroupWriter::attach(&schema, &words, near).expect("a group");
    let mut book = writer.restore();
    book.add_tally(sent.incoming, 10, 1000);
    book.add_tally(sent.outgoing, 10, 1000);
    book.add_tally(confirmed, 7, 700);
    writer.commit(&book);
    let mut writer = GroupWriter::attach(&schema, &words, far).expect("a group");
    let mut book = writer.restore();
    book.add_tally(got.incoming, 9, 900);
    book.add_tally(got.outgoing, 9, 900);
    book.set(kernel, 1);
    writer.commit(&book);
    run.finish(Condition::Ended, Reason::InputEnded, 9_000);
    words
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .collect()
}

/// Opens and reads it as everybody does; what is told must be what its own lines come to.
fn read(values: &[u64]) {
    let words = Words::zeroed(values.len());
    words
        .iter()
        .zip(values)
        .for_each(|(word, &value)| word.store(value, Ordering::Relaxed));
    let snapshot = LedgerReader::open(&words).and_then(|reader| reader.snapshot());
    let Ok(snapshot) = snapshot else {
        return;
    };
    for supervisor in [Supervisor::Alive, Supervisor::Gone] {
        let verdict = audit(&snapshot, supervisor);
        verdict.balance.accounts.iter().for_each(check_account);
        verdict.balance.links.iter().for_each(check_link);
        assert_eq!(verdict.closed, verdict.offenders.is_empty());
        assert_eq!(verdict.closed, verdict.closed_books().is_closed());
        assert!(!verdict.sheet().is_empty());
        serde_json::to_string(&verdict).expect("a verdict can be told");
    }
    let _ = prometheus::expose(&Arc::new(snapshot)).expect("it can be shown");
}

fn total(dropped: &[DropLine], of: fn(&DropLine) -> u64) -> i128 {
    dropped.iter().map(|line| i128::from(of(line))).sum()
}

/// The residual of an account, from its own line.
fn check_account(line: &AccountLine) {
    let items = i128::from(line.incoming.items) - i128::from(line.outgoing.items);
    let bytes = i128::from(line.incoming.bytes) - i128::from(line.outgoing.bytes);
    let items = items - i128::from(line.held.items) - total(&line.dropped, |drop| drop.items);
    let bytes = bytes - i128::from(line.held.bytes) - total(&line.dropped, |drop| drop.bytes_min);
    let found = (line.residual.items, line.residual.bytes);
    assert_eq!(
        found,
        if line.one_observer {
            (0, 0)
        } else {
            (items, bytes)
        }
    );
}

/// The same of a link, whose losses may be an interval.
fn check_link(line: &LinkLine) {
    assert_eq!(line.residual.is_some(), line.sent.is_some());
    let (Some(residual), Some(sent)) = (line.residual, line.sent) else {
        return;
    };
    let (received, inside) = (line.received, line.in_flight);
    let items = i128::from(sent.items) - i128::from(received.items) - i128::from(inside.items);
    let (least, most) = (
        total(&line.dropped, |drop| drop.items),
        total(&line.dropped, |drop| drop.items_max),
    );
    let outside = if items < least {
        items - least
    } else {
        (items - most.max(least)).max(0)
    };
    assert_eq!(residual.items, outside);
}
