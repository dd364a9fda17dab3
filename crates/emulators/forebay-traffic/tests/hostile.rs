//! Text that is no profile is refused by line, column, value and remedy.
#![allow(clippy::unwrap_used)]

use std::io::{BufReader, Read};

use forebay_traffic::{Profile, ProfileError, Row};
use proptest::prelude::*;

const HEADER: &str =
    "START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV";

fn read(text: &str) -> Result<Vec<Row>, ProfileError> {
    Profile::new(text.as_bytes())?.collect()
}

/// The error of one row with this value in a column.
fn with(column: usize, value: &str) -> Option<String> {
    let mut values = [
        "5",
        "9",
        "4",
        "6",
        "1",
        "2",
        "3",
        "120",
        "0",
        "0",
        "192.0.2.1",
        "192.0.2.2",
    ];
    values[column] = value;
    let text = format!("{HEADER},SRC_IP,DST_IP\n{}\n", values.join(","));
    read(&text).err().map(|error| error.to_string())
}

#[test]
fn a_bad_value_is_named_with_its_place_and_its_remedy() {
    assert_eq!(with(0, "5"), None);
    for (column, value, said) in [
        (
            0,
            "-1",
            "line 2 of the profile, column START_TIME: \"-1\" should be a time in ms, at most 10^12",
        ),
        (
            0,
            "1000000000001",
            "line 2 of the profile, column START_TIME: \"1000000000001\" should be a time in ms, at most 10^12",
        ),
        (
            1,
            "4",
            "line 2 of the profile, column END_TIME: \"4\" should be not before START_TIME",
        ),
        (
            2,
            "5",
            "line 2 of the profile, column L3_PROTO: \"5\" should be 4 or 6",
        ),
        (
            3,
            "256",
            "line 2 of the profile, column L4_PROTO: \"256\" should be the number of a protocol, 0 to 255",
        ),
        (
            5,
            "70000",
            "line 2 of the profile, column DST_PORT: \"70000\" should be a port, 0 to 65535",
        ),
        (
            6,
            "+3",
            "line 2 of the profile, column PACKETS: \"+3\" should be a count of packets, at most 2^40",
        ),
        (
            7,
            "9007199254740993",
            "line 2 of the profile, column BYTES: \"9007199254740993\" should be a count of octets, at most 2^53",
        ),
        (
            9,
            "",
            "line 2 of the profile, column BYTES_REV: \"\" should be a count of octets, at most 2^53",
        ),
        (
            10,
            "::1",
            "line 2 of the profile, column SRC_IP: \"::1\" should be an address of the version that L3_PROTO says",
        ),
        (
            11,
            "",
            "line 2 of the profile, column DST_IP: \"\" should be an IP address, where the other side has one",
        ),
    ] {
        assert_eq!(with(column, value).as_deref(), Some(said));
    }
}

#[test]
fn lines_that_are_no_rows_are_refused() {
    let row = "5,9,4,6,1,2,3,120,0,0";
    let error = |text: &str| read(text).unwrap_err().to_string();
    assert!(error("").contains("column \"\": it is unknown"));
    assert!(error("START_TIME,END").contains("column \"END\": it is unknown"));
    assert!(error(&format!("{HEADER},BYTES")).contains("column \"BYTES\": it is there twice"));
    let short = HEADER.trim_end_matches(",BYTES_REV");
    assert!(error(short).contains("column \"BYTES_REV\": it is missing"));
    let values = error(&format!("{HEADER}\n{row},7\n"));
    assert_eq!(
        values,
        "line 2 of the profile has 11 values; its header has 10 columns"
    );
    let unsorted = error(&format!("{HEADER}\n{row}\n\n4{}\n", &row[1..]));
    assert!(
        unsorted.starts_with("line 4 of the profile, column START_TIME: \"4\"")
            && unsorted.ends_with("sort the rows by it")
    );
    let endless = format!("{HEADER}\n{}", "1".repeat(2000));
    assert!(error(&endless).starts_with("line 2 of the profile has more than 1024 bytes"));
}

#[test]
fn columns_may_be_exchanged_and_lines_end_as_they_do_elsewhere() {
    let text = "END_TIME,START_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS_REV,BYTES_REV,PACKETS,BYTES,DST_IP,SRC_IP\r\n9,5,6,17,1,2,3,144,4,192,::2,::1\r\n\r\n9,5,6,17,1,2,3,144,4,192,,";
    let rows = read(text).unwrap();
    let row = rows[0];
    assert_eq!(
        (row.start_ms, row.end_ms, row.is_ipv6, row.protocol),
        (5, 9, true, 17)
    );
    assert_eq!(
        (
            row.packets,
            row.bytes,
            row.packets_reverse,
            row.bytes_reverse
        ),
        (4, 192, 3, 144)
    );
    assert_eq!(
        row.addresses,
        Some(("::1".parse().unwrap(), "::2".parse().unwrap()))
    );
    assert_eq!((rows.len(), rows[1].addresses), (2, None));
}

#[test]
fn what_cannot_be_read_ends_the_profile() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("gone"))
        }
    }
    let header = format!("{HEADER}\n");
    let text = BufReader::new(header.as_bytes().chain(Broken));
    let mut profile = Profile::new(text).unwrap();
    let error = profile.next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2 of the profile could not be read: gone"
    );
    assert!(profile.next().is_none());
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), values in prop::collection::vec("[-+0-9a-f:.]{0,20}", 10)) {
        let _ = Profile::new(&bytes[..]).map(Iterator::count);
        let text = [HEADER.as_bytes(), b"\n", values.join(",").as_bytes(), b"\n", &bytes].concat();
        if let Ok(profile) = Profile::new(&text[..]) {
            prop_assert!(profile.count() <= 302);
        }
    }
}
