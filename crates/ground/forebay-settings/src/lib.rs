//! What a setting is, declared once: the reader of files, errors, documentation and code have it from here.
//!
//! So far it has choices: settings that are one of several words.
//!
//! ```
//! use forebay_settings::{Choices, choices};
//!
//! choices! {
//!     /// What becomes of an event that lacks a source.
//!     #[derive(Default)]
//!     pub enum Completion {
//!         /// It waits.
//!         Wait = "wait",
//!         /// It is built without it.
//!         #[default]
//!         Partial = "partial",
//!     }
//! }
//! assert_eq!(Completion::NAMES, ["wait", "partial"]);
//! assert_eq!(Completion::named("wait"), Some(Completion::Wait));
//! assert_eq!(Completion::named("Wait"), None);
//! assert_eq!(Completion::default().name(), "partial");
//! ```

#![no_std]
#![forbid(unsafe_code)]

/// A setting that is one of several words. Made by [`choices!`].
pub trait Choices: Copy + Sized + 'static {
    /// All words, in the order in which they are listed.
    const NAMES: &'static [&'static str];

    /// The one that is called so.
    fn named(name: &str) -> Option<Self>;
}

/// Declares a setting that is one of several words, each with its name in files and on the command line, and makes it a [`Choices`].
#[macro_export]
macro_rules! choices {
    ($(#[$meta:meta])* $vis:vis enum $enum:ident {
        $($(#[$of:meta])* $choice:ident = $name:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $enum {
            $($(#[$of])* $choice),+
        }

        impl $enum {
            /// All of them, in the order in which they are listed.
            $vis const ALL: &'static [Self] = &[$(Self::$choice),+];
            /// Their names.
            $vis const NAMES: &'static [&'static str] = &[$($name),+];

            /// Its name in files and on the command line.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$choice => $name),+
                }
            }

            /// The one that is called so.
            #[must_use]
            $vis fn named(name: &str) -> ::core::option::Option<Self> {
                match name {
                    $($name => ::core::option::Option::Some(Self::$choice),)+
                    _ => ::core::option::Option::None,
                }
            }
        }

        impl $crate::Choices for $enum {
            const NAMES: &'static [&'static str] = Self::NAMES;

            fn named(name: &str) -> ::core::option::Option<Self> {
                Self::named(name)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    choices! {
        enum Size {
            Large = "large",
            Small = "small",
        }
    }

    #[test]
    fn each_word_is_one_choice_and_back() {
        assert_eq!(Size::ALL, [Size::Large, Size::Small]);
        for (choice, name) in Size::ALL.iter().zip(["large", "small"]) {
            assert_eq!(choice.name(), name);
            assert_eq!(Size::named(name), Some(*choice));
        }
        for none in ["", "Large", "large ", "medium"] {
            assert_eq!(Size::named(none), None);
        }
    }
}
