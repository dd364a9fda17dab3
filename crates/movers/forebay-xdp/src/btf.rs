//! Types of the values in the map of flows. The kernel lets a program lock a value only if it knows by its type where the lock is (BTF, `Documentation/bpf/btf.rst`).

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: u32 = 24;
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;

/// Number of the type of keys.
pub(crate) const KEY_TYPE: u32 = 4;
/// Number of the type of values.
pub(crate) const VALUE_TYPE: u32 = 5;

fn push(words: &mut Vec<u8>, numbers: &[u32]) {
    for number in numbers {
        words.extend(number.to_ne_bytes());
    }
}

fn named(strings: &mut Vec<u8>, name: &str) -> u32 {
    let at = strings.len() as u32;
    strings.extend(name.bytes());
    strings.push(0);
    at
}

/// Types of keys of so many bytes, and of values of so many with a lock at this place, a multiple of 4.
pub(crate) fn of_map(key_bytes: u32, value_bytes: u32, lock_at: u32) -> Vec<u8> {
    let (mut types, mut strings) = (Vec::new(), vec![0]);
    let byte = named(&mut strings, "byte");
    let word = named(&mut strings, "word");
    let lock = named(&mut strings, "bpf_spin_lock");
    let value = named(&mut strings, "value");
    // 1 and 2: integers of 8 and 32 bits
    push(&mut types, &[byte, INT << 24, 1, 8]);
    push(&mut types, &[word, INT << 24, 4, 32]);
    // 3: the lock, by the name that the kernel looks for
    push(&mut types, &[lock, STRUCT << 24 | 1, 4, word, 2, 0]);
    // 4: keys, whose fields are not the kernel's business
    push(&mut types, &[0, ARRAY << 24, 0, 1, 2, key_bytes]);
    // 5: values, of which the lock alone is named
    let lock_field = [lock, 3, lock_at * 8];
    push(&mut types, &[value, STRUCT << 24 | 1, value_bytes]);
    push(&mut types, &lock_field);
    let mut blob = Vec::new();
    blob.extend(MAGIC.to_ne_bytes());
    blob.extend([1, 0]);
    let (types_bytes, strings_bytes) = (types.len() as u32, strings.len() as u32);
    push(
        &mut blob,
        &[HEADER_BYTES, 0, types_bytes, types_bytes, strings_bytes],
    );
    blob.extend(types);
    blob.extend(strings);
    blob
}
