//! Types that a key may have.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::kind::{Kind, NAME, Text, Wrong, quoted};

/// A value between a file or a flag and its setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// `true` or `false`.
    Flag(bool),
    /// An integer.
    Integer(u64),
    /// A text, or one of several words.
    Text(String),
    /// Several of one kind.
    List(Vec<Self>),
}

impl Got {
    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Flag(_) | Self::Integer(_) | Self::List(_) => None,
        }
    }
}

/// As a file has it.
impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{}", quoted(&[text], "")),
            Self::List(all) => {
                let all: Vec<String> = all.iter().map(Self::to_string).collect();
                write!(f, "[{}]", all.join(", "))
            }
        }
    }
}

/// A type that a key may have.
pub trait Setting: Sized {
    /// What it takes where its key sets no limits.
    const KIND: Kind;

    /// What a reader has found, and held against the key; none when it is something else.
    fn of(got: &Got) -> Option<Self>;

    /// As a reader would find it; none when it would not be there.
    fn got(&self) -> Option<Got>;
}

/// What may stand in a list.
pub trait Many: Setting {
    /// What a list of them takes.
    const LIST: Kind;
}

impl Setting for bool {
    const KIND: Kind = Kind::Flag;

    fn of(got: &Got) -> Option<Self> {
        match got {
            Got::Flag(flag) => Some(*flag),
            Got::Integer(_) | Got::Text(_) | Got::List(_) => None,
        }
    }

    fn got(&self) -> Option<Got> {
        Some(Got::Flag(*self))
    }
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl Setting for $type {
            const KIND: Kind = Kind::Integer(0, <$type>::MAX as u64);

            fn of(got: &Got) -> Option<Self> {
                match got {
                    Got::Integer(number) => Self::try_from(*number).ok(),
                    Got::Flag(_) | Got::Text(_) | Got::List(_) => None,
                }
            }

            fn got(&self) -> Option<Got> {
                u64::try_from(*self).ok().map(Got::Integer)
            }
        }

        impl Many for $type {
            const LIST: Kind = Kind::Integers(0, <$type>::MAX as u64);
        }
    )+};
}

integers!(u8, u16, u32, u64, usize);

/// A name.
impl Setting for String {
    const KIND: Kind = Kind::Text(&NAME);

    fn of(got: &Got) -> Option<Self> {
        got.text().map(Self::from)
    }

    fn got(&self) -> Option<Got> {
        Some(Got::Text(self.clone()))
    }
}

static PATH: Text = Text {
    right: "a text: a path",
    right_list: "a list of different paths",
    check: |text| match text.is_empty() || text.contains('\0') {
        true => Err(Wrong::new("it is no path", "name a directory, as \"data\"")),
        false => Ok(()),
    },
};

/// A relative path starts where the command runs.
impl Setting for PathBuf {
    const KIND: Kind = Kind::Text(&PATH);

    fn of(got: &Got) -> Option<Self> {
        got.text().map(Self::from)
    }

    fn got(&self) -> Option<Got> {
        Some(Got::Text(self.display().to_string()))
    }
}

static ADDRESS: Text = Text {
    right: "a text: an IP address, as \"127.0.0.1\" or \"::1\"",
    right_list: "a list of different IP addresses, as [\"127.0.0.1\"]",
    check: |text| match text.parse::<IpAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Wrong::new(
            "it is no IP address",
            "write the address in numbers; a name of a host is not looked up",
        )),
    },
};

static SOCKET: Text = Text {
    right: "a text: address and port, as \"127.0.0.1:9400\"",
    right_list: "a list of different addresses with ports, as [\"10.0.0.7:50000\"]",
    check: |text| {
        if text.parse::<SocketAddr>().is_ok() {
            return Ok(());
        }
        let remedy = match text.parse::<IpAddr>() {
            Ok(address) => format!("add the port: \"{}\"", SocketAddr::new(address, 50000)),
            Err(_) => "write address and port in numbers; a name of a host is not looked up".into(),
        };
        Err(Wrong::new("it is no address with a port", remedy))
    },
};

/// Makes a type that a file has as a text a [`Setting`](crate::Setting), alone and in lists: `text_setting!(Type, TEXT)`, where `TEXT` is a static
/// [`Text`](crate::Text) that says what is right. The type is read by `FromStr`, and shown by `Display`.
#[macro_export]
macro_rules! text_setting {
    ($type:ty, $text:expr) => {
        impl $crate::Setting for $type {
            const KIND: $crate::Kind = $crate::Kind::Text(&$text);

            fn of(got: &$crate::Got) -> ::core::option::Option<Self> {
                got.text()?.parse().ok()
            }

            fn got(&self) -> ::core::option::Option<$crate::Got> {
                ::core::option::Option::Some($crate::Got::Text(::std::string::ToString::to_string(
                    self,
                )))
            }
        }

        impl $crate::Many for $type {
            const LIST: $crate::Kind = $crate::Kind::Texts(&$text);
        }
    };
}

text_setting!(IpAddr, ADDRESS);
text_setting!(SocketAddr, SOCKET);

/// A key that may be left out.
impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;

    fn of(got: &Got) -> Option<Self> {
        T::of(got).map(Some)
    }

    fn got(&self) -> Option<Got> {
        self.as_ref().and_then(T::got)
    }
}

impl<T: Many> Setting for Vec<T> {
    const KIND: Kind = T::LIST;

    fn of(got: &Got) -> Option<Self> {
        match got {
            Got::List(all) => all.iter().map(T::of).collect(),
            Got::Flag(_) | Got::Integer(_) | Got::Text(_) => None,
        }
    }

    fn got(&self) -> Option<Got> {
        self.iter()
            .map(T::got)
            .collect::<Option<_>>()
            .map(Got::List)
    }
}
