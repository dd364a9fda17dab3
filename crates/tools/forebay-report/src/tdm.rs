//! A session of time division: a row for each window, pictures, and a page.

pub mod picture;
mod report;
pub mod seen;
pub mod windows;

pub use report::SessionReport;
pub use windows::WindowFile;
