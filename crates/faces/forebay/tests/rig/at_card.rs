//! A multiplexer of the far end of a wire, with one client over the library.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_client::{Client, Woken};

use super::{Run, forebay, start, wait_for};

const LONG: Duration = Duration::from_secs(30);

/// A file in this folder with a place for the client `one` of this user, and these further keys of it.
pub(crate) fn file(folder: &Path, of_one: &str) -> PathBuf {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let text = format!(
        "[mux]\ninterface = \"far\"\nsocket = \"{0}/socket\"\ndirectory = \"{0}/out\"\n\
         [[clients]]\nname = \"one\"\nuid = {uid}\nmac = \"02:00:00:00:00:01\"\n{of_one}",
        folder.display()
    );
    let path = folder.join("mux.toml");
    fs::write(&path, text).unwrap();
    path
}

/// The daemon of a file.
pub(crate) fn daemon(file: &Path) -> Run {
    start(forebay().args(["mux", "run", "--format", "json"]).arg(file))
}

/// The client `one`, when the daemon of this folder takes it in.
pub(crate) fn client(folder: &Path) -> Client {
    wait_for("the place", || {
        Client::connect(&folder.join("socket"), "one", LONG).ok()
    })
}

/// Its next frame, for which it waits.
pub(crate) fn next_frame(client: &mut Client) -> Vec<u8> {
    let mut frame = Vec::new();
    while !client.receive_into(&mut frame).unwrap() {
        assert_ne!(client.wait(Instant::now() + LONG).unwrap(), Woken::Due);
    }
    frame
}
