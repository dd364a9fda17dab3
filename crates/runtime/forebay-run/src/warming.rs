//! The pages of the rings, taken from the system while the run begins.
//!
//! Making 12 GB of pages takes a thread many seconds, in which a stage would hear nobody. So stages map their rings as they are, data
//! flows at once, and threads of the supervisor take the pages ahead of it, slice by slice.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use forebay_sys::mapping::take_pages;

/// Pages taken at a time, in bytes: an order to end waits for so many of each thread.
const SLICE_BYTES: u64 = 16 << 20;
/// Most threads; the stages need processors, too.
const THREADS_MAX: usize = 4;

/// Threads at work; they end with it.
#[derive(Debug)]
pub struct Warming {
    job: Arc<Job>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Job {
    data: OwnedFd,
    bytes: u64,
    next: AtomicU64,
    stopped: AtomicBool,
}

impl Warming {
    /// Takes the `bytes` of the file `data`.
    pub fn start(data: OwnedFd, bytes: u64) -> Self {
        let job = Arc::new(Job {
            data,
            bytes,
            next: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        });
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spawn = |_| {
            let job = Arc::clone(&job);
            let named = std::thread::Builder::new().name("warming".into());
            // Without a thread the pages come when they are touched.
            named.spawn(move || job.work()).ok()
        };
        let threads = (0..processors.div_ceil(2).min(THREADS_MAX)).filter_map(spawn);
        let threads = threads.collect();
        Self { job, threads }
    }

    /// Tells the threads to end.
    pub fn stop(&self) {
        self.job.stopped.store(true, Ordering::Relaxed);
    }

    /// Waits until all pages are taken.
    #[cfg(test)]
    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Warming {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Job {
    fn work(&self) {
        while !self.stopped.load(Ordering::Relaxed) {
            let offset = self.next.fetch_add(SLICE_BYTES, Ordering::Relaxed);
            let Some(left) = self.bytes.checked_sub(offset).filter(|left| *left > 0) else {
                return;
            };
            if let Err(error) = take_pages(&self.data, offset, left.min(SLICE_BYTES)) {
                tracing::warn!(%error, "the rings' memory is not taken ahead");
                return self.stopped.store(true, Ordering::Relaxed);
            }
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
