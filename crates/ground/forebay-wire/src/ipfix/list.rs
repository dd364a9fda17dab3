//! A `basicList`: values of one element in one field of a record (RFC 6313, section 4.5.1).
//!
//! ```text
//! +0 semantic u8   +1 element u16, bit 15: of an enterprise   +3 bytes of a value u16, 65535: varies   +5 enterprise u32, if any   then values
//! ```

use super::record::split_value;
use super::{FieldSpec, IpfixError, Value};

/// Bytes of the longest header.
const HEADER_BYTES_MAX: usize = 9;

/// The values are in the order in which they were seen (section 4.4.5).
pub const ORDERED: u8 = 4;

/// A checked view of a list: all its values lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicList<'a> {
    /// How its values belong together: 0 none of, 1 exactly one of, 2 one or more of, 3 all of, 4 ordered, 255 undefined.
    pub semantic: u8,
    /// What each value is of.
    pub spec: FieldSpec,
    content: &'a [u8],
}

impl<'a> BasicList<'a> {
    /// Takes the value of a field for a list.
    ///
    /// # Errors
    /// It ends within its header or a value, or its values have no bytes.
    pub fn new_checked(value: Value<'a>) -> Result<Self, IpfixError> {
        let have = value.0.len();
        let cut = IpfixError::ListHeader { have };
        let (&semantic, rest) = value.0.split_first().ok_or(cut)?;
        let (spec, content) = FieldSpec::split(rest).ok_or(cut)?;
        if spec.bytes == 0 {
            return Err(IpfixError::EmptyListValue);
        }
        let list = Self {
            semantic,
            spec,
            content,
        };
        let mut values = list.values();
        let whole = values.by_ref().count();
        match values.left {
            [] => Ok(list),
            _ => Err(IpfixError::ListCut { value: whole }),
        }
    }

    /// Its values, in order.
    #[must_use]
    pub const fn values(&self) -> ListValues<'a> {
        ListValues {
            spec: self.spec,
            left: self.content,
        }
    }

    /// What stands in front of the values of a list, and how many bytes of it count.
    #[must_use]
    pub fn header(semantic: u8, spec: FieldSpec) -> ([u8; HEADER_BYTES_MAX], usize) {
        let (specifier, bytes) = spec.to_bytes();
        let mut header = [semantic; HEADER_BYTES_MAX];
        header[1..].copy_from_slice(&specifier);
        (header, 1 + bytes)
    }
}

/// The values of a list.
#[derive(Clone, Debug)]
pub struct ListValues<'a> {
    spec: FieldSpec,
    left: &'a [u8],
}

impl<'a> Iterator for ListValues<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let (value, left) = split_value(self.spec, self.left)?;
        self.left = left;
        Some(Value(value))
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::super::{Element, VARIABLE_LENGTH};
    use super::*;

    /// Egress interfaces 1, 4 and 8 (element 14), all of them.
    const GOLDEN_INTERFACES: [u8; 17] = [3, 0, 14, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8];
    /// Texts of an enterprise, in order: "a" and, with a length of three bytes, "bc".
    const GOLDEN_TEXTS: [u8; 16] = [
        4, 0x80, 7, 255, 255, 0, 0, 0x72, 0x79, 1, b'a', 255, 0, 2, b'b', b'c',
    ];

    fn read(bytes: &[u8]) -> Result<BasicList<'_>, IpfixError> {
        BasicList::new_checked(Value(bytes))
    }

    #[test]
    fn lists_are_read_and_their_headers_written() {
        let list = read(&GOLDEN_INTERFACES).unwrap();
        let numbers: Vec<_> = list.values().filter_map(Value::unsigned).collect();
        assert_eq!((list.semantic, numbers), (3, vec![1, 4, 8]));
        let (header, bytes) = BasicList::header(list.semantic, list.spec);
        assert_eq!(header[..bytes], GOLDEN_INTERFACES[..5]);
        let list = read(&GOLDEN_TEXTS).unwrap();
        let (enterprise, id) = (29_305, 7);
        let spec = FieldSpec {
            element: Element { enterprise, id },
            bytes: VARIABLE_LENGTH,
        };
        let texts: Vec<_> = list.values().map(|value| value.0).collect();
        assert_eq!((list.semantic, list.spec), (ORDERED, spec));
        assert_eq!(texts, [&b"a"[..], b"bc"]);
        let (header, bytes) = BasicList::header(ORDERED, spec);
        assert_eq!(header[..bytes], GOLDEN_TEXTS[..9]);
        // A list without values is one.
        assert_eq!(read(&GOLDEN_TEXTS[..9]).unwrap().values().count(), 0);
    }

    #[test]
    fn a_list_that_is_cut_anywhere_says_where() {
        for (bytes, header, ends) in [
            (&GOLDEN_INTERFACES[..], 5, &[5, 9, 13, 17][..]),
            (&GOLDEN_TEXTS, 9, &[9, 11, 16]),
        ] {
            for have in 0..bytes.len() {
                let read = read(&bytes[..have]);
                let whole = ends.iter().filter(|end| **end <= have).count();
                match (have < header, ends.contains(&have)) {
                    (true, _) => assert_eq!(read, Err(IpfixError::ListHeader { have })),
                    (_, true) => assert_eq!(read.unwrap().values().count(), whole - 1),
                    (_, false) => {
                        assert_eq!(read, Err(IpfixError::ListCut { value: whole - 1 }));
                    }
                }
            }
        }
        assert_eq!(read(&[4, 0, 1, 0, 0, 7]), Err(IpfixError::EmptyListValue));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_list_or_are_refused(bytes in proptest::collection::vec(0_u8.., 0..300)) {
            match read(&bytes) {
                Ok(list) => {
                    let inner: usize = list.values().map(|value| value.0.len()).sum();
                    let (_, header) = BasicList::header(list.semantic, list.spec);
                    assert!(header + inner <= bytes.len());
                }
                Err(error) => assert!(error.reason().contains("list")),
            }
        }
    }
}
