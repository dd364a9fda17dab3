//! Readout of detector links through the cards of FELIX: blocks, chunks, and who looks at them.

pub mod check;
pub mod numbers;
mod payload;
