use super::*;

#[test]
fn a_name_is_a_file_of_its_own_and_never_leads_elsewhere() {
    assert_eq!(file_name("north-3.dat"), "north-3.dat");
    assert_eq!(file_name("../etc/passwd"), "%2E.%2Fetc%2Fpasswd");
    assert_eq!(file_name("ledger"), "%6Cedger");
    assert_eq!(file_name("ä b"), "%C3%A4%20b");
    assert_eq!(file_name("a.lost.csv"), "%61.lost.csv");
}

#[test]
fn a_file_has_each_byte_at_its_place_whatever_order_they_came_in() {
    let directory = tempfile::tempdir().unwrap();
    let mut streams = Streams::new(Output::Directory(directory.path().to_path_buf()));
    assert_eq!(streams.open(0, "one", Carries::Bytes), None);
    let mut all = Written::default();
    for (offset, payload) in [(0, "abc"), (6, "ghi"), (3, "def"), (12, "mno")] {
        all.add(&streams.write(0, offset, payload.as_bytes()));
    }
    // A packet without a byte is where it should be, too.
    all.add(&streams.write(0, 15, b""));
    let lost = LostRange {
        restarts: 0,
        sender: 0,
        offset: 9,
        bytes: 3,
    };
    streams.lost(&lost, 0);
    let list = directory.path().join("one.lost.csv");
    for (_, written) in streams.flush() {
        all.add(&written);
    }
    // If the receiver is killed now, the range is found there.
    let listed = std::fs::read_to_string(&list).unwrap();
    assert_eq!(listed, "offset_bytes,length_bytes,why\n9,3,lost\n");
    for (_, written) in streams.finish(&[]) {
        all.add(&written);
    }
    let file = std::fs::read(directory.path().join("one")).unwrap();
    assert_eq!(file, b"abcdefghi\0\0\0mno");
    assert_eq!(std::fs::read_to_string(&list).unwrap(), listed);
    assert_eq!((all.written.packets, all.written.bytes), (5, 12));
    assert_eq!(all.settled(), all.written);
    let mut again = Streams::new(Output::Directory(directory.path().to_path_buf()));
    let taken = again.open(0, "one", Carries::Bytes).unwrap();
    assert!(taken.ends_with("one.1"), "never written over: {taken}");
}

#[test]
fn a_stream_that_has_lost_its_end_is_as_long_as_it_was_sent() {
    let directory = tempfile::tempdir().unwrap();
    let mut streams = Streams::new(Output::Directory(directory.path().to_path_buf()));
    assert_eq!(streams.open(0, "one", Carries::Bytes), None);
    streams.write(0, 0, b"abc");
    for offset in [3, 5] {
        let lost = LostRange {
            restarts: 0,
            sender: 0,
            offset,
            bytes: 2,
        };
        streams.lost(&lost, 0);
    }
    streams.finish(&[]);
    assert_eq!(streams.failure(), None);
    let file = std::fs::read(directory.path().join("one")).unwrap();
    assert_eq!(file, b"abc\0\0\0\0");
}

#[test]
fn a_stream_whose_file_cannot_be_made_fails_by_name_and_loses_its_packets_by_count() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone");
    let mut streams = Streams::new(Output::Directory(gone));
    streams.open(0, "one", Carries::Bytes);
    let written = streams.write(0, 0, b"abc");
    assert_eq!(
        (
            written.dropped.total().packets,
            written.dropped.total().bytes
        ),
        (1, 3)
    );
    assert_eq!(written.written.packets, 0);
    assert!(streams.failure().unwrap().contains("one"));
}
