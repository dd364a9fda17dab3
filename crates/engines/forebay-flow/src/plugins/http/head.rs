//! The head of a message of HTTP/1, and of what borrows its form (RFC 9112, section 2).

/// The lines of a head: names with their values. It ends with an empty line, with a line that has no name, or where the bytes do.
#[derive(Clone, Debug)]
pub(in super::super) struct Head<'a> {
    first: &'a [u8],
    left: &'a [u8],
    is_complete: bool,
}

/// A line, without its end, and what is behind it; none without an end.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &bytes[end + 1..]))
}

impl<'a> Head<'a> {
    /// The head at the begin of a message; none before its first line is there.
    pub(in super::super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let (first, left) = line(bytes)?;
        Some(Self {
            first,
            left,
            is_complete: false,
        })
    }

    pub(in super::super) const fn first_line(&self) -> &'a [u8] {
        self.first
    }

    /// Whether its end was seen when its lines were read.
    pub(in super::super) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The status of a response: three figures behind its version.
    pub(in super::super) fn status(&self) -> Option<u16> {
        let mut words = self.first.split(|byte| *byte == b' ');
        let figures = words.nth(1).filter(|word| word.len() == 3)?;
        let mut status = 0;
        for figure in figures {
            let figure = char::from(*figure).to_digit(10)?;
            status = status * 10 + figure as u16;
        }
        Some(status)
    }
}

impl<'a> Iterator for Head<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (line, left) = line(self.left).filter(|_| !self.is_complete)?;
        self.left = left;
        let colon = line.iter().position(|byte| *byte == b':');
        let Some(colon) = colon.filter(|_| !line.is_empty()) else {
            self.is_complete = true;
            return None;
        };
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_lines_to_an_empty_one() {
        let text = b"HTTP/1.1 404 Not Found\r\nA: b\r\nC:d \n\r\nE: f\r\n";
        let mut head = Head::of(text).unwrap();
        assert_eq!(head.first_line(), b"HTTP/1.1 404 Not Found");
        assert_eq!(head.status(), Some(404));
        let lines: Vec<_> = head.by_ref().collect();
        let expected = [(&b"A"[..], &b"b"[..]), (b"C", b"d")];
        assert_eq!(
            (lines.as_slice(), head.is_complete()),
            (&expected[..], true)
        );
        let mut head = Head::of(b"GET / HTTP/1.1\r\nHost: a\r\nUser-A").unwrap();
        assert_eq!((head.by_ref().count(), head.is_complete()), (1, false));
        assert_eq!(head.status(), None);
        assert!(Head::of(b"GET / HTT").is_none());
        for bad in [
            &b"HTTP/1.1 20' OK\n"[..],
            b"HTTP/1.1 \xff00 OK\n",
            b"HTTP/1.1 20 OK\n",
        ] {
            assert_eq!(Head::of(bad).unwrap().status(), None);
        }
    }
}
