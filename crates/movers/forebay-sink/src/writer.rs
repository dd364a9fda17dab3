//! What every way of writing events has in common.

use std::time::Duration;

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
    /// Takes the events of one block, and writes them now or later.
    fn write_block(&mut self, block: &Block<'_>, books: &mut SinkBooks);
    /// How many blocks, in the order in which they were taken, are decided since it was asked last: written or lost, and counted here as one of both.
    fn settle(&mut self, books: &mut SinkBooks) -> u64;
    /// How soon it wants to be asked again, while blocks are not decided.
    fn patience(&self) -> Option<Duration>;
    /// Looks after what was written while nothing more comes; true when the books must be committed.
    fn watch(&mut self, books: &mut SinkBooks) -> bool;
    /// Ends the output in order.
    fn finish(&mut self, books: &mut SinkBooks);
    /// What the supervisor should know.
    fn reports(&mut self) -> Vec<Told>;
}
