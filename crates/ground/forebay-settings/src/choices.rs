//! Settings that are one of several words.

/// Declares a setting that is one of several words, each with its name in files and on the command line, and makes it a [`Setting`](crate::Setting).
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

        impl $crate::Setting for $enum {
            const KIND: $crate::Kind = $crate::Kind::Choice(Self::NAMES);

            fn of(got: &$crate::Got) -> ::core::option::Option<Self> {
                Self::named(got.text()?)
            }

            fn got(&self) -> ::core::option::Option<$crate::Got> {
                ::core::option::Option::Some($crate::Got::Text(self.name().into()))
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
