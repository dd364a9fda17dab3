use forebay_ring::BlockRingMemory;
use forebay_sys::seqpacket::SeqListener;

use super::*;

fn info() -> DeviceInfo {
    DeviceInfo {
        name: "card".into(),
        marker: 0xc0ce,
        headers: false,
        blocks: vec![64, 128],
        elinks: vec![vec![0], vec![64]],
        from_host: None,
        pid: std::process::id(),
    }
}

fn memories() -> Vec<BlockRingMemory> {
    let specs = (0..2).map(|buffer| info().spec(buffer).unwrap());
    specs
        .map(|spec| BlockRingMemory::create(&spec).unwrap())
        .collect()
}

/// Serves until the thread's answer is there.
fn serving<T: Send + 'static>(door: &mut Door, ask: impl FnOnce() -> T + Send + 'static) -> T {
    let asking = std::thread::spawn(ask);
    while !asking.is_finished() {
        door.serve().unwrap();
        std::thread::yield_now();
    }
    asking.join().unwrap()
}

#[test]
fn readers_get_the_buffer_that_they_name_and_one_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("card.sock");
    let missing = Device::open(&path, 0).unwrap_err();
    assert!(matches!(missing, DeviceError::NotThere { .. }), "{missing}");
    let mut door = Door::open(&path, info(), memories()).unwrap();
    let other = Door::<NoDiagnostics>::open(&path, info(), memories()).unwrap_err();
    assert!(matches!(other, DeviceError::InUse { .. }), "{other}");
    let opens = |buffer: usize| {
        let path = path.clone();
        move || Device::open(&path, buffer)
    };
    let described = {
        let path = path.clone();
        serving(&mut door, move || Device::describe(&path)).unwrap()
    };
    assert_eq!((described, door.readers()), (info(), 0));
    let device = serving(&mut door, opens(1)).unwrap();
    assert_eq!((device.blocks.blocks(), device.format.bytes()), (128, 1024));
    assert!(door.reads(1) && !door.reads(0));
    let second = serving(&mut door, opens(1)).unwrap_err();
    assert!(second.to_string().contains("another reader"), "{second}");
    let third = serving(&mut door, opens(2)).unwrap_err();
    assert!(third.to_string().contains("0 to 1"), "{third}");
    assert!(!device.is_gone());
    drop(device);
    door.serve().unwrap();
    assert_eq!(door.readers(), 0);
    let device = serving(&mut door, opens(1)).unwrap();
    drop(door);
    assert!(device.is_gone());
    assert!(!path.exists());
}

#[test]
fn what_is_no_left_over_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious.txt");
    std::fs::write(&path, "data").unwrap();
    let error = Door::<NoDiagnostics>::open(&path, info(), memories()).unwrap_err();
    assert!(matches!(error, DeviceError::NoSocket { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"data");
    // Somebody has put another socket there meanwhile: it is not this door's to remove.
    let path = directory.path().join("card.sock");
    let door = Door::<NoDiagnostics>::open(&path, info(), memories()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = SeqListener::bind(&path, 1).unwrap();
    drop(door);
    assert!(path.exists());
}

#[test]
fn a_reader_that_writes_what_cannot_be_is_told_apart_from_one_that_is_slow() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("card.sock");
    let spec = info().spec(0).unwrap();
    let memories = memories();
    let fds = memories[0].producer_fds().unwrap();
    let mut producer = forebay_ring::BlockProducer::map(&spec, fds).unwrap();
    let mut door = Door::open(&path, info(), memories).unwrap();
    let (_socket, _, fds) =
        serving(&mut door, move || ask(&path, Wanted::Buffer(0), &|| false)).unwrap();
    assert_eq!(producer.free_blocks(), 64);
    // Its own index, beyond all that was ever written.
    rustix::io::pwrite(&fds[2], &(1_u64 << 62).to_ne_bytes(), 128).unwrap();
    assert_eq!(producer.free_blocks(), 0);
    assert!(producer.fault().is_some());
    let waited = producer.wait_space(Duration::from_secs(5)).unwrap_err();
    assert!(waited.to_string().contains("index"), "{waited}");
}

#[test]
fn a_card_that_says_what_cannot_be_is_none() {
    let says = |spoil: fn(&mut DeviceInfo)| {
        let mut info = info();
        spoil(&mut info);
        info.fault()
    };
    assert_eq!(info().fault(), None);
    assert!(says(|info| info.blocks = vec![64; 1500]).is_some());
    assert!(says(|info| info.elinks = vec![vec![0; 4000], vec![]]).is_some());
    assert!(says(|info| info.elinks.clear()).is_some());
    assert!(says(|info| info.name = "../x".into()).is_some());
}

#[test]
fn a_socket_that_was_left_is_taken_over_and_garbage_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("card.sock");
    drop(SeqListener::bind(&path, 1).unwrap());
    assert!(path.exists(), "as a card that was killed leaves it");
    let mut door = Door::open(&path, info(), memories()).unwrap();
    for garbage in [
        &b"x"[..],
        b"{}",
        br#"{"version":1,"buffer":7}"#,
        br#"{"version":9,"buffer":0}"#,
        &[0xff; 600],
    ] {
        let socket = SeqSocket::connect(&path).unwrap();
        socket.send(garbage, &[]).unwrap();
        door.serve().unwrap();
        let (text, fds) = hear(&socket, &path, &|| false).unwrap();
        let answer: Answer = serde_json::from_slice(&text).unwrap();
        assert!(matches!(answer, Answer::Refused(_)) && fds.is_empty());
    }
    assert_eq!((door.refused(), door.readers()), (5, 0));
    // A process that says nothing holds no other up.
    let _silent = SeqSocket::connect(&path).unwrap();
    let path = path.clone();
    assert!(serving(&mut door, move || Device::open(&path, 0)).is_ok());
}

#[test]
fn where_no_card_will_ever_be_is_told_from_one_that_is_not_there_yet() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let asked = |path: &Path| Device::describe(path).unwrap_err();
    let missing = asked(&path("no/card.sock"));
    assert!(matches!(missing, DeviceError::NotThere { .. }), "{missing}");
    drop(SeqListener::bind(&path("left.sock"), 1).unwrap());
    let left = asked(&path("left.sock"));
    assert!(matches!(left, DeviceError::NotThere { .. }), "{left}");
    std::fs::write(path("file"), "data").unwrap();
    for (place, says) in [(path(""), "a directory"), (path("file"), "a file")] {
        let wrong = asked(&place);
        assert!(matches!(wrong, DeviceError::NoDoor { .. }), "{wrong}");
        assert!(wrong.to_string().contains(says), "{wrong}");
    }
    let _stream = std::os::unix::net::UnixListener::bind(path("stream.sock")).unwrap();
    let longest = path(&"x".repeat(200));
    for place in [path("file/card.sock"), path("stream.sock"), longest] {
        let wrong = asked(&place);
        assert!(matches!(wrong, DeviceError::Unreachable { .. }), "{wrong}");
        assert!(wrong.to_string().contains("name the socket"), "{wrong}");
    }
}

#[test]
fn a_card_that_says_nothing_is_left_as_soon_as_nobody_wants_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("card.sock");
    let _silent = SeqListener::bind(&path, 4).unwrap();
    let begun = Instant::now();
    let stops = || begun.elapsed() > Duration::from_millis(10);
    for wrong in [
        Device::describe_unless(&path, &stops).unwrap_err(),
        Device::open_unless(&path, 0, &stops).unwrap_err(),
    ] {
        assert!(matches!(wrong, DeviceError::Left { .. }), "{wrong}");
    }
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}
