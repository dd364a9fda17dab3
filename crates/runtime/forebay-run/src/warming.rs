//! The pages of the rings, taken from the system while the run begins.
//!
//! Making 12 GB of pages takes a thread many seconds, in which a stage would hear nobody. So stages map their rings as they are, data
//! flows at once, and a thread of the supervisor takes the pages ahead of it, slice by slice. More threads would wait for each other: the kernel
//! gives pages of one file to one of them at a time (`shmem_fallocate` holds the file's lock).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use forebay_sys::mapping::take_pages;
use forebay_sys::sched;

/// Pages taken at a time, in bytes: an order to end waits for so many, which the thread takes in what is left of a CPU.
const SLICE_BYTES: u64 = 2 << 20;

/// A thread at work; it ends with this.
#[derive(Debug)]
pub struct Warming {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Warming {
    /// Takes the `bytes` of the file `data`.
    pub fn start(data: OwnedFd, bytes: u64) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stopped);
        let named = std::thread::Builder::new().name("warming".into());
        // Without a thread the pages come when they are touched.
        let thread = named.spawn(move || take(&data, bytes, &told)).ok();
        Self { stopped, thread }
    }

    /// Tells the thread to end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Waits until all pages are taken.
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Warming {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}

fn take(data: &OwnedFd, bytes: u64, stopped: &AtomicBool) {
    // Data that flows already goes first: it takes its pages itself. With a priority this thread had a CPU for seconds in which sockets overflowed.
    let _ = sched::when_idle();
    for offset in (0..bytes).step_by(SLICE_BYTES as usize) {
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = take_pages(data, offset, SLICE_BYTES.min(bytes - offset)) {
            tracing::warn!(%error, "the rings' memory is not taken ahead");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use forebay_ring::{RingSetMemory, RingSetSpec};

    use super::*;

    fn rings(bytes: u64) -> (RingSetMemory, File, u64) {
        let spec = RingSetSpec::new("warming", vec![bytes], 1 << 16);
        let memory = RingSetMemory::create(&spec).unwrap();
        let file = File::from(memory.data_fd().unwrap());
        let length = file.metadata().unwrap().len();
        (memory, file, length)
    }

    fn taken_bytes(file: &File) -> u64 {
        file.metadata().unwrap().blocks() * 512
    }

    /// Where the first page is that nobody has cleared or written: the kernel calls it a hole, although it has a page.
    fn cleared_bytes(file: &File) -> u64 {
        rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(0)).unwrap()
    }

    #[test]
    fn all_pages_are_taken_and_cleared() {
        let (memory, file, length) = rings(32 << 20);
        assert_eq!((taken_bytes(&file), cleared_bytes(&file)), (0, 0));
        Warming::start(memory.data_fd().unwrap(), length).join();
        assert_eq!((taken_bytes(&file), cleared_bytes(&file)), (length, length));
    }

    /// Far more than any host could take meanwhile.
    #[test]
    fn who_is_told_to_end_ends_before_all_are_taken() {
        let (memory, file, length) = rings(1 << 36);
        drop(Warming::start(memory.data_fd().unwrap(), length));
        assert!(taken_bytes(&file) < length / 16);
    }
}
