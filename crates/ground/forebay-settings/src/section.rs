//! Sections of a file: a struct, its keys, limits, defaults and documentation from one declaration.

use crate::key::{Absent, Key, Section};
use crate::kind::Kind;
use crate::setting::Got;

/// What a section of a file says, with what holds where it says nothing. Made by [`settings!`](crate::settings!).
pub trait Settings: Default {
    /// The section with its keys.
    const SECTION: &'static Section;

    /// Takes the value of a key; false when it has no such key, or the value is of another type. Limits are held by the reader, see [`Key::kind`].
    fn set(&mut self, key: &str, got: &Got) -> bool;

    /// The value of a key; none when it is left out, or there is no such key.
    fn get(&self, key: &str) -> Option<Got>;
}

/// How many keys these parts have.
#[must_use]
pub const fn total(parts: &[&[Key]]) -> usize {
    let (mut keys, mut part) = (0, 0);
    while part < parts.len() {
        keys += parts[part].len();
        part += 1;
    }
    keys
}

/// The keys of these parts, one behind the other; `N` is their [`total`].
#[must_use]
pub const fn join<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    const NONE: Key = Key {
        name: "",
        kind: Kind::Flag,
        absent: Absent::Required,
        says: "",
        flag: None,
    };
    let mut keys = [NONE; N];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut from = 0;
        while from < parts[part].len() {
            keys[at] = parts[part][from];
            (at, from) = (at + 1, from + 1);
        }
        part += 1;
    }
    keys
}

/// Declares a section of a file as a struct with public fields, and makes it a [`Settings`].
///
/// `in [name]` is a section, `in [[name]]` one that may stand several times, `in []` holds keys that several sections share: they take it as `..field: Type` behind
/// their own keys. Documentation comments are the text of the reference. A field is
///
/// - its name, which is that of the key, and its type, a [`Setting`](crate::Setting);
/// - for numbers, limits in brackets: `[a..=b]`, `[pow2 a..=b]` (a power of two), `[zero or a..=b]`, `[a or b]`;
/// - `= value`: what holds when the key is left out; or, of an `Option`, `=> "words"` that say what then holds; both: the value holds, and the words are shown.
///   An `Option` with neither is a key that must be there, which the section's own rules hold;
/// - behind its documentation `#[flag = "name"]`, when a flag of the command line says it too.
///
/// Limits that the type cannot have do not compile:
///
/// ```compile_fail
/// forebay_settings::settings! {
///     /// A section.
///     struct Wrong in [wrong] {
///         /// A byte.
///         byte: u8 [0..=256] = 0,
///     }
/// }
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[doc = $says:literal])+
        $(#[derive $derive:tt])?
        $vis:vis struct $name:ident in [$($section:tt)*] {
            $(
                $(#[doc = $doc:literal])+
                $(#[flag = $flag:literal])?
                $key:ident: $type:ty $([$($limits:tt)+])? $(= $default:expr)? $(=> $absent:literal)?
            ),+
            $(, ..$shared:ident: $shared_type:ty)*
            $(,)?
        }
    ) => {
        $(#[doc = $says])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        $(#[derive $derive])?
        $vis struct $name {
            $($(#[doc = $doc])+ pub $key: $type,)+
            $(/// Keys that other sections have, too.
            pub $shared: $shared_type,)*
        }

        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self {
                    $($key: $crate::settings!(@default $($default)?),)+
                    $($shared: <$shared_type as ::core::default::Default>::default(),)*
                }
            }
        }

        impl $crate::Settings for $name {
            const SECTION: &'static $crate::Section = &$crate::Section {
                name: $crate::settings!(@name $($section)*),
                many: $crate::settings!(@many $($section)*),
                says: concat!($($says),+).trim_ascii(),
                keys: {
                    const PARTS: &[&[$crate::Key]] = &[
                        &[$($crate::Key {
                            name: stringify!($key),
                            kind: $crate::settings!(@kind $type $(, $($limits)+)?),
                            absent: $crate::settings!(@absent $name, $key $(= $default)? $(=> $absent)?),
                            says: concat!($($doc),+).trim_ascii(),
                            flag: $crate::settings!(@flag $($flag)?),
                        }),+],
                        $(<$shared_type as $crate::Settings>::SECTION.keys,)*
                    ];
                    const KEYS: [$crate::Key; $crate::total(PARTS)] = $crate::join(PARTS);
                    &KEYS
                },
            };

            fn set(&mut self, key: &str, got: &$crate::Got) -> bool {
                match key {
                    $(stringify!($key) => match $crate::Setting::of(got) {
                        ::core::option::Option::Some(value) => {
                            self.$key = value;
                            true
                        }
                        ::core::option::Option::None => false,
                    },)+
                    _ => false $(|| $crate::Settings::set(&mut self.$shared, key, got))*,
                }
            }

            fn get(&self, key: &str) -> ::core::option::Option<$crate::Got> {
                match key {
                    $(stringify!($key) => $crate::Setting::got(&self.$key),)+
                    _ => ::core::option::Option::None
                        $(.or_else(|| $crate::Settings::get(&self.$shared, key)))*,
                }
            }
        }
    };

    (@name) => { "" };
    (@name $section:ident) => { stringify!($section) };
    (@name [$section:ident]) => { stringify!($section) };

    (@many) => { false };
    (@many $section:ident) => { false };
    (@many [$section:ident]) => { true };

    (@flag) => { ::core::option::Option::None };
    (@flag $flag:literal) => { ::core::option::Option::Some($flag) };

    (@default $default:expr) => { $default };
    (@default) => { ::core::option::Option::None };

    (@kind $type:ty) => { <$type as $crate::Setting>::KIND };
    (@kind $type:ty, zero or $limits:expr) => {
        <$type as $crate::Setting>::KIND.zero_or(&$limits)
    };
    (@kind $type:ty, pow2 $limits:expr) => {
        <$type as $crate::Setting>::KIND.power_of_two(&$limits)
    };
    (@kind $type:ty, $one:literal or $other:literal) => {
        <$type as $crate::Setting>::KIND.either($one, $other)
    };
    (@kind $type:ty, $limits:expr) => { <$type as $crate::Setting>::KIND.within(&$limits) };

    (@absent $name:ident, $key:ident) => { $crate::Absent::Required };
    (@absent $name:ident, $key:ident $(= $default:expr)? => $absent:literal) => {
        $crate::Absent::Depends($absent)
    };
    (@absent $name:ident, $key:ident = $default:expr) => {
        $crate::Absent::Value(|| {
            let usual = <$name as ::core::default::Default>::default();
            $crate::Settings::get(&usual, stringify!($key)).map_or_else(
                ::std::string::String::new,
                |value| ::std::string::ToString::to_string(&value),
            )
        })
    };
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::PathBuf;

    use super::*;
    use crate::{Setting, choices};

    choices! {
        /// A word.
        pub(crate) enum Word {
            /// One.
            First = "first",
            /// The other.
            Second = "second",
        }
    }

    settings! {
        /// What several sections have.
        pub(crate) struct Common in [] {
            /// A path.
            path: Option<PathBuf> => "none",
            /// A switch.
            on: bool = true,
        }
    }

    settings! {
        /// All forms of keys,
        /// over two lines.
        pub(crate) struct All in [[all]] {
            /// In a range.
            within: u8 [1..=9] = 3,
            /// A power of two.
            size_bytes: usize [pow2 1 << 4..=1 << 30] = 4 << 20,
            /// 0 or more.
            later_s: u64 [zero or 5..=9] = 0,
            /// One of two.
            #[flag = "bit-count"]
            bits: u32 [16 or 24] = 24,
            /// Whatever the type takes.
            any: u16 = 7,
            /// In words.
            shown: u32 = 0x100 => "`0x100`",
            /// A word.
            word: Word = Word::Second,
            /// It must be there.
            needed: Option<String>,
            /// May be left out.
            cpu: Option<usize> [0..=8191] => "not pinned",
            /// Several.
            several: Vec<u16> [0..=7] = vec![1, 2],
            /// Several others.
            senders: Vec<SocketAddr> = Vec::new() => "—",
            ..common: Common,
        }
    }

    #[test]
    fn the_declaration_is_the_section() {
        let section = All::SECTION;
        assert_eq!(section.header(), "[[all]]");
        assert_eq!(section.says, "All forms of keys, over two lines.");
        let names: Vec<_> = section.keys.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), 13);
        assert_eq!(names[10..], ["senders", "path", "on"]);
        for (name, right, absent) in [
            ("within", "an integer from 1 to 9", "`3`"),
            (
                "size_bytes",
                "a power of two from 16 to 1073741824 bytes",
                "`4194304`",
            ),
            ("later_s", "0, or an integer from 5 to 9 s", "`0`"),
            ("bits", "16 or 24", "`24`"),
            ("any", "an integer from 0 to 65535", "`7`"),
            ("shown", "an integer from 0 to 4294967295", "`0x100`"),
            ("word", "\"first\" or \"second\"", "`\"second\"`"),
            ("cpu", "an integer from 0 to 8191", "not pinned"),
            (
                "several",
                "a list of different integers from 0 to 7",
                "`[1, 2]`",
            ),
            ("path", "a text: a path", "none"),
            ("on", "true or false", "`true`"),
        ] {
            let key = section.key(name).unwrap();
            assert_eq!(
                (key.right().as_str(), key.absent.to_string().as_str()),
                (right, absent)
            );
        }
        assert_eq!(
            section.key("needed").unwrap().absent.to_string(),
            "required"
        );
        assert_eq!(section.key("cpu").unwrap().says, "May be left out.");
        let flags = section.keys.iter().filter_map(|key| key.flag);
        assert_eq!(flags.collect::<Vec<_>>(), ["bit-count"]);
    }

    #[test]
    fn a_value_reaches_its_own_field_and_no_other() {
        let text = |text: &str| Got::Text(text.into());
        let numbers = |all: &[u64]| Got::List(all.iter().copied().map(Got::Integer).collect());
        for (key, got) in [
            ("within", Got::Integer(9)),
            ("size_bytes", Got::Integer(64)),
            ("later_s", Got::Integer(5)),
            ("bits", Got::Integer(16)),
            ("any", Got::Integer(65_535)),
            ("shown", Got::Integer(1)),
            ("word", text("first")),
            ("needed", text("name")),
            ("cpu", Got::Integer(0)),
            ("several", numbers(&[5])),
            ("senders", Got::List(vec![text("127.0.0.1:5")])),
            ("path", text("there")),
            ("on", Got::Flag(false)),
        ] {
            let (usual, mut all) = (All::default(), All::default());
            assert!(all.set(key, &got), "{key}");
            for other in All::SECTION.keys {
                let expected = match other.name == key {
                    true => Some(got.clone()),
                    false => usual.get(other.name),
                };
                assert_eq!(all.get(other.name), expected, "{key}, then {}", other.name);
            }
        }
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut all = All::default();
        for word in Word::ALL {
            assert!(all.set("word", &word.got().unwrap()));
            assert_eq!(all.word, *word);
        }
        for (key, got) in [
            ("within", Got::Integer(256)),
            ("within", Got::Flag(true)),
            ("word", Got::Text("third".into())),
            ("on", Got::Integer(1)),
            ("several", Got::Integer(1)),
            ("several", Got::List(vec![Got::Integer(65_536)])),
            ("senders", Got::List(vec![Got::Text("nowhere".into())])),
            ("other", Got::Flag(true)),
        ] {
            assert!(!all.set(key, &got), "{key} {got}");
        }
        assert_eq!(all, All::default());
        assert_eq!(all.get("other"), None);
    }
}
