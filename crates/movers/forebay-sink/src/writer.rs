//! What every way of writing events has in common.

use forebay_ledger::Taint;

use crate::block::Block;
use crate::books::SinkBooks;

/// What a sink has to say to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Something an operator should know.
    Warning(String),
    /// It taints the run.
    Tainted(Taint),
}

/// What writes blocks of events somewhere.
pub trait Writer {
    /// Makes ready for blocks of `run`; true when the books now say something that must be committed before a block is
    /// written: a successor would not know of the file otherwise, and write its events a second time.
    fn prepare(&mut self, run: u32, books: &mut SinkBooks) -> bool;
    /// Writes the events of one block. What is lost is counted by the writer.
    fn write_block(&mut self, block: &Block<'_>, books: &mut SinkBooks);
    /// Looks after what was written while nothing more comes; true when the books must be committed.
    fn watch(&mut self, books: &mut SinkBooks) -> bool;
    /// Ends the output in order.
    fn finish(&mut self, books: &mut SinkBooks);
    /// What the supervisor should know.
    fn reports(&mut self) -> Vec<Told>;
}
