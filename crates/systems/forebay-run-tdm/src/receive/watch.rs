//! Watchers, which are told what happens in a session: files and pictures that are made of it elsewhere.

use forebay_ledger::Balance;
use forebay_run::record::Record;
use forebay_tdm::plan::Plan;
use forebay_tdm::receiver::Row;

use super::ReceiveSummary;

/// A packet that came.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// The sender's index.
    pub sender: u16,
    /// The window that it was sent in.
    pub window: u32,
    /// Its number.
    pub packet: u64,
    /// When it was given to the sender's kernel, in ns of the receiver's clock.
    pub sent_ns: u64,
    /// When it came, by the kernel's stamp, the same.
    pub came_ns: u64,
}

/// Is told what happens in a session, on the thread that receives: what takes long is a thread's of its own.
///
/// An error, which names its file, is kept for the summary, and what made it is told nothing more; the session goes on.
pub trait Watch {
    /// A sender has this index.
    fn joined(&mut self, sender: u16, name: &str);

    /// There is a plan, and the first window begins at `start_ns` of the receiver's clock.
    fn planned(&mut self, plan: &Plan, start_ns: u64);

    /// A packet came.
    fn packet(&mut self, came: &Came);

    /// A window is closed. The wall clock shows `wall_ns` more than the one that its times are of.
    ///
    /// # Errors
    /// A file cannot be written.
    fn window(&mut self, row: &Row, wall_ns: i64) -> Result<(), String>;

    /// The session has ended, however that came, and its books are closed.
    ///
    /// # Errors
    /// A file cannot be written.
    fn finish(&mut self, record: &Record<ReceiveSummary>, balance: &Balance) -> Result<(), String>;
}
