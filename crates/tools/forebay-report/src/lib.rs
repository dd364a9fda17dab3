//! What is shown of runs: the live view of a ledger, tables and pages of a session, pictures, and under which conditions a number was measured.
//!
//! It reads ledgers, records and rows, and measures nothing itself.

#![forbid(unsafe_code)]

pub mod conditions;
pub mod plot;
pub mod rows;
pub mod statistics;
pub mod tdm;
pub mod text;
pub mod top;
