//! What a setting is, declared once: the reader of files, errors, documentation, flags and code have it from here.
//!
//! [`choices!`] declares a setting that is one of several words, [`settings!`] a section of a file with its keys. Neither knows a format of files or a parser of
//! the command line: a reader holds what it finds against a [`Section`], and hands it over as [`Got`].
//!
//! ```
//! use forebay_settings::{Got, Settings, choices, settings};
//!
//! choices! {
//!     /// What becomes of an event that lacks a source.
//!     pub enum Completion {
//!         /// It waits.
//!         Wait = "wait",
//!         /// It is built without it.
//!         Partial = "partial",
//!     }
//! }
//!
//! settings! {
//!     /// The builder stage.
//!     pub struct Builder in [builder] {
//!         /// What becomes of an event that lacks a source.
//!         completion: Completion = Completion::Partial,
//!         /// Longest wait for a source.
//!         timeout_ms: u64 [1..=3_600_000] = 1000,
//!         /// CPU to run on.
//!         cpu: Option<usize> [0..=8191] => "not pinned",
//!     }
//! }
//!
//! let mut builder = Builder::default();
//! assert_eq!((builder.timeout_ms, builder.cpu), (1000, None));
//! assert!(builder.set("completion", &Got::Text("wait".into())));
//! assert_eq!(builder.completion, Completion::Wait);
//!
//! let key = Builder::SECTION.key("timeout_ms").unwrap();
//! assert_eq!(key.right(), "an integer from 1 to 3600000 ms");
//! assert_eq!(key.absent.to_string(), "`1000`");
//! ```

#![forbid(unsafe_code)]

mod choices;
mod key;
mod kind;
mod range;
mod section;
mod setting;

pub use key::{Absent, Key, Section};
pub use kind::{Kind, NAME, Text, Wrong, quoted};
pub use range::{OutOfRange, in_range};
pub use section::{Settings, join, total};
pub use setting::{Got, Many, Setting};
