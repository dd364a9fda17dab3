use proptest::prelude::*;

use super::*;

/// What a test says as a client.
pub(in super::super) struct Said<'a> {
    pub(in super::super) version: u16,
    pub(in super::super) ciphers: &'a [u16],
    pub(in super::super) extensions: &'a [(u16, Vec<u8>)],
}

fn behind_length16(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn list(numbers: &[u16]) -> Vec<u8> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    behind_length16(&bytes)
}

pub(in super::super) fn server_name(name: &str) -> (u16, Vec<u8>) {
    let entry = [&[0], &behind_length16(name.as_bytes())[..]].concat();
    (SERVER_NAME, behind_length16(&entry))
}

pub(in super::super) fn alpn(protocols: &[&str]) -> (u16, Vec<u8>) {
    let each = protocols.iter();
    let each = each.map(|name| [&[name.len() as u8], name.as_bytes()].concat());
    (ALPN, behind_length16(&each.collect::<Vec<_>>().concat()))
}

impl Said<'_> {
    pub(in super::super) fn message(&self) -> Vec<u8> {
        let mut body = self.version.to_be_bytes().to_vec();
        body.extend([7; RANDOM_BYTES]);
        body.push(0);
        body.extend(list(self.ciphers));
        body.extend([1, 0]);
        let extensions = self
            .extensions
            .iter()
            .map(|(number, body)| [&number.to_be_bytes()[..], &behind_length16(body)].concat());
        body.extend(behind_length16(&extensions.collect::<Vec<_>>().concat()));
        let length = (body.len() as u32).to_be_bytes();
        [&[CLIENT_HELLO], &length[1..], &body].concat()
    }
}

/// One that asks for a name, with nothing special.
pub(in super::super) fn message(name: &str) -> Vec<u8> {
    let said = Said {
        version: 0x0303,
        ciphers: &[0x1301, 0xc02f],
        extensions: &[
            server_name(name),
            alpn(&["h2", "http/1.1"]),
            (SUPPORTED_VERSIONS, vec![4, 3, 4, 3, 3]),
        ],
    };
    said.message()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_all(message: &[u8], carrier: Carrier) -> Hello {
    let mut hello = Hello::EMPTY;
    read(message, carrier, &mut hello).unwrap();
    hello
}

fn ja4(hello: &Hello) -> String {
    String::from_utf8(hello.ja4.to_vec()).unwrap()
}

/// The example with which JA3 was published: its text, and the MD5 of it.
#[test]
fn ja3_is_that_of_the_published_example() {
    let said = Said {
        version: 769,
        ciphers: &[47, 53, 5, 10, 49161, 49162, 49171, 49172, 50, 56, 19, 4],
        extensions: &[
            server_name("example.org"),
            (GROUPS, list(&[23, 24, 25])),
            (POINT_FORMATS, vec![1, 0]),
        ],
    };
    let hello = read_all(&said.message(), Carrier::Tcp);
    assert_eq!(hex(&hello.ja3), "ada70206e40642a3e4461f35503241d5");
    assert_eq!(hello.version, 0x0301);
}

/// The example with which JA4 was published, in another order and with values that are there to be ignored.
#[test]
fn ja4_is_that_of_the_published_example() {
    let ciphers = [
        0x3a3a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013,
        0xc014, 0x9c, 0x9d, 0x2f, 0x35,
    ];
    let signatures = [
        0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
    ];
    let mut extensions = vec![
        (0x2a2a, vec![]),
        server_name("example.org"),
        (SUPPORTED_VERSIONS, vec![6, 0x4a, 0x4a, 3, 4, 3, 3]),
        alpn(&["h2", "http/1.1"]),
        (SIGNATURE_ALGORITHMS, list(&signatures)),
        (GROUPS, list(&[0x1a1a, 29, 23, 24])),
    ];
    let others = [
        0x1b, 0x33, 0x4469, 0x17, 0x2d, 5, 0x23, 0x12, 0xff01, 0xb, 0x15,
    ];
    extensions.extend(others.map(|number| (number, vec![])));
    let said = Said {
        version: 0x0303,
        ciphers: &ciphers,
        extensions: &extensions,
    };
    let hello = read_all(&said.message(), Carrier::Tcp);
    assert_eq!(ja4(&hello), "t13d1516h2_8daaf6152771_e5627efa2ab1");
    assert_eq!(hello.version, 0x0304);
    assert_eq!(hello.server_name.bytes(), b"example.org");
    assert_eq!(hello.alpn.bytes(), b"h2,http/1.1");
    // The order of the first list is not that of the fingerprint, that of the second is.
    let mut turned = said.ciphers.to_vec();
    turned.reverse();
    let other = Said {
        ciphers: &turned,
        ..said
    };
    let other = read_all(&other.message(), Carrier::Quic);
    assert_eq!(ja4(&other)[1..], ja4(&hello)[1..]);
    assert!(ja4(&other).starts_with('q') && other.ja3 != hello.ja3);
}

#[test]
fn what_is_not_said_has_its_own_text() {
    let said = Said {
        version: 0x0302,
        ciphers: &[],
        extensions: &[],
    };
    let hello = read_all(&said.message(), Carrier::Tcp);
    assert_eq!(ja4(&hello), "t11i000000_000000000000_000000000000");
    assert!(hello.server_name.is_empty() && hello.alpn.is_empty());
    let ciphers: Vec<u16> = (1..=150).collect();
    let said = Said {
        version: 0x0305,
        ciphers: &ciphers,
        extensions: &[alpn(&["\u{ab}x"])],
    };
    let hello = read_all(&said.message(), Carrier::Tcp);
    assert!(ja4(&hello).starts_with("t00i9901c8_"), "{}", ja4(&hello));
}

#[test]
fn a_begin_is_incomplete_and_another_message_is_other() {
    let message = message("example.org");
    let mut hello = Hello::EMPTY;
    for end in 0..message.len() {
        let part = read(&message[..end], Carrier::Tcp, &mut hello);
        assert_eq!(part, Err(NoHello::Incomplete), "{end}");
    }
    let mut other = message.clone();
    other[0] = 2;
    assert_eq!(read(&other, Carrier::Tcp, &mut hello), Err(NoHello::Other));
    // Longer than what is kept of a stream: it would never be complete.
    let mut long = message.clone();
    long[1..4].copy_from_slice(&[0, 0x10, 0]);
    assert_eq!(read(&long, Carrier::Tcp, &mut hello), Err(NoHello::Other));
    // Lengths that contradict each other.
    let mut wrong = message;
    wrong[4 + 2 + RANDOM_BYTES] = 255;
    assert_eq!(read(&wrong, Carrier::Tcp, &mut hello), Err(NoHello::Other));
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(
        at in 0..200_usize,
        garbage in proptest::collection::vec(any::<u8>(), 0..60),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut message = message("example.org");
        let at = at.min(message.len());
        let end = (at + garbage.len()).min(message.len());
        message[at..end].copy_from_slice(&garbage[..end - at]);
        let mut hello = Hello::EMPTY;
        if read(&message, Carrier::Quic, &mut hello).is_ok() {
            prop_assert!(hello.ja4.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'));
        }
        let _ = read(&bytes, Carrier::Tcp, &mut hello);
    }
}
