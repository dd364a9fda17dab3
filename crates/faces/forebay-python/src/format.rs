//! What a buffer says of its elements, in the words of PEP 3118: whether they are bytes and numbers, and nothing that has a meaning in this process alone.

use std::iter::Peekable;
use std::str::Chars;

/// Deepest structure within structures that is read; a deeper one counts as not plain.
const DEPTH_MAX: usize = 16;
/// Bytes, truth values, whole and floating-point numbers, and the filling between them.
const PLAIN: &str = "xcbB?hHiIlLqQnNefdgs";
/// What may stand behind the sign of a complex number.
const PARTS: &str = "fdg";

/// Whether elements of this format are bytes and numbers alone, also within structures. All that is not known is not plain: objects, pointers and text
/// are not.
pub(crate) fn is_plain(format: &str) -> bool {
    let mut left = format.chars().peekable();
    items(&mut left, 0).is_some() && left.peek().is_none()
}

/// One element after the other, until something else stands there.
fn items(left: &mut Peekable<Chars<'_>>, depth: usize) -> Option<()> {
    loop {
        while left.next_if(|next| next.is_whitespace()).is_some() {}
        match left.peek() {
            None | Some('}') => return Some(()),
            Some(_) => item(left, depth)?,
        }
    }
}

/// One element: byte order, shape, repetitions, kind, name.
fn item(left: &mut Peekable<Chars<'_>>, depth: usize) -> Option<()> {
    left.next_if(|next| "@=<>!^".contains(*next));
    if left.next_if_eq(&'(').is_some() {
        left.find(|next| *next == ')')?;
        left.next_if(|next| "@=<>!^".contains(*next));
    }
    while left.next_if(char::is_ascii_digit).is_some() {}
    match left.next()? {
        'Z' => left.next_if(|next| PARTS.contains(*next)).map(drop)?,
        'T' if depth < DEPTH_MAX => {
            left.next_if_eq(&'{')?;
            items(left, depth + 1)?;
            left.next_if_eq(&'}')?;
        }
        kind => PLAIN.contains(kind).then_some(())?,
    }
    if left.next_if_eq(&':').is_some() {
        left.find(|next| *next == ':')?;
    }
    Some(())
}
