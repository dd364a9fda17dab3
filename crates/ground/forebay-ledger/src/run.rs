//! The run's header: what the supervisor says about the run, and the making of the file.

use serde::Serialize;

use crate::directory::fingerprint;
use crate::error::LedgerError;
use crate::layout::{
    AT_CONDITION, AT_DIRECTORY_BYTES, AT_ELAPSED_NS, AT_END_NS, AT_FINGERPRINT, AT_HEADER_WORDS,
    AT_HEARTBEAT_NS, AT_MAGIC, AT_START_NS, AT_SUPERVISOR_PID, AT_TOTAL_WORDS, AT_VERSION,
    HEADER_WORDS, MAGIC, VERSION, VERSION_OLDEST,
};
use crate::schema::Schema;
use crate::sync::{AtomicU64, Ordering};
use crate::words::Words;

/// An enumeration that is a number in the ledger's header: the number and the name of each of its values stand at one place.
macro_rules! coded {
    ($(#[$meta:meta])* pub enum $enum:ident {
        $($(#[$of:meta])* $value:ident = $code:literal, $name:literal;)+
    } $(#[$name_doc:meta])*) => {
        $(#[$meta])*
        pub enum $enum {
            $($(#[$of])* $value = $code),+
        }

        impl $enum {
            $(#[$name_doc])*
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            /// The one with this number.
            const fn of(code: u64) -> Option<Self> {
                match code {
                    $($code => Some(Self::$value),)+
                    _ => None,
                }
            }
        }
    };
}

coded! {
    /// How a run stands or ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    #[repr(u8)]
    pub enum Condition {
        /// Stages are being started.
        Starting = 0, "starting";
        /// Data flows. In the ledger of a dead supervisor this means *interrupted*.
        Running = 1, "running";
        /// Ended in order. Whether anything was lost or is incomplete is told by the books, and not by this.
        Ended = 2, "ended";
        /// Ended in order, but something happened that a user of the data must know.
        Tainted = 3, "tainted";
        /// Ended without order: what was in flight is lost.
        Interrupted = 4, "interrupted";
    }
    /// The name in tables and JSON.
}

coded! {
    /// Why the run is in its condition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    #[repr(u8)]
    #[non_exhaustive]
    pub enum Reason {
        /// Nothing to say.
        None = 0, "no reason given";
        /// The asked duration or number of events was reached.
        LimitReached = 1, "limit reached";
        /// A signal or a command asked for the end.
        Requested = 2, "requested";
        /// A stage died and was started again.
        StageRestarted = 3, "a stage was restarted";
        /// A stage died and could not be started again.
        StageLost = 4, "a stage was lost";
        /// A disk was full.
        DiskFull = 5, "disk full";
        /// Writing failed in another way.
        WriteFailed = 6, "writing failed";
        /// A sink could not follow and data was dropped at it.
        SinkStalled = 7, "a sink stalled";
        /// The supervisor died.
        SupervisorLost = 8, "the supervisor died";
        /// The books did not close.
        Residual = 9, "the books did not close";
        /// A stage could not be started.
        StartFailed = 10, "a stage did not start";
        /// The source's data ended (a replayed file).
        InputEnded = 11, "input ended";
        /// A connection was lost.
        ConnectionLost = 12, "a connection was lost";
        /// Somebody removed or cut a file that was being written.
        OutputRemoved = 13, "output was removed";
    }
    /// The reason in words, for people.
}

/// Condition and reason share a word, so that no death can separate them.
const fn condition_word(condition: Condition, reason: Reason) -> u64 {
    condition as u64 | (reason as u64) << 8
}

fn read_condition_word(word: u64) -> Result<(Condition, Reason), LedgerError> {
    let condition = Condition::of(word & 0xff);
    condition
        .zip(Reason::of(word >> 8))
        .ok_or(LedgerError::Condition { found: word })
}

/// The run's header as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunStatus {
    /// How the run stands.
    pub condition: Condition,
    /// Why.
    pub reason: Reason,
    /// Process id of the supervisor.
    pub supervisor_pid: u32,
    /// Start of the run, in ns since the Unix epoch.
    pub start_ns: u64,
    /// End of the run, in ns since the Unix epoch; 0 while it runs.
    pub end_ns: u64,
    /// Last sign of life of the supervisor, in ns since the Unix epoch.
    pub heartbeat_ns: u64,
    /// How long the run had lasted then, or at its end, by a clock that nobody sets; 0 where it was not said.
    pub elapsed_ns: u64,
}

impl RunStatus {
    /// How long the run has lasted at `now_ns`, in ns; `lives` where it still does. Dates tell it only where the run has not said it: the clock that they are of may have been set.
    #[must_use]
    pub fn lasted_ns(&self, now_ns: u64, lives: bool) -> u64 {
        let end_ns = match self.end_ns {
            0 if lives => now_ns,
            0 => self.heartbeat_ns,
            end_ns => end_ns,
        };
        match self.elapsed_ns {
            0 => end_ns.saturating_sub(self.start_ns),
            elapsed_ns => elapsed_ns,
        }
    }

    pub(crate) fn read(words: &[AtomicU64]) -> Result<Self, LedgerError> {
        let load = |at: usize| words.get(at).map_or(0, |word| word.load(Ordering::Acquire));
        let (condition, reason) = read_condition_word(load(AT_CONDITION))?;
        Ok(Self {
            condition,
            reason,
            supervisor_pid: load(AT_SUPERVISOR_PID) as u32,
            start_ns: load(AT_START_NS),
            end_ns: load(AT_END_NS),
            heartbeat_ns: load(AT_HEARTBEAT_NS),
            elapsed_ns: load(AT_ELAPSED_NS),
        })
    }
}

/// The supervisor's hold on the run's header. Each call is one atomic store.
#[derive(Debug)]
pub struct RunWriter {
    words: Words,
}

impl RunWriter {
    /// Makes the ledger: writes directory and header into fresh memory, the magic word last.
    ///
    /// # Errors
    /// The memory is too short, or it holds something already.
    pub fn format(
        schema: &Schema,
        words: &Words,
        supervisor_pid: u32,
        start_ns: u64,
    ) -> Result<Self, LedgerError> {
        schema.check_length(words)?;
        if words[AT_MAGIC].load(Ordering::Acquire) != 0 {
            return Err(LedgerError::Exists);
        }
        let store = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
        for (at, bytes) in schema.json.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            store(HEADER_WORDS + at, u64::from_le_bytes(word));
        }
        store(AT_VERSION, VERSION);
        store(AT_HEADER_WORDS, HEADER_WORDS as u64);
        store(AT_TOTAL_WORDS, schema.words_needed() as u64);
        store(AT_FINGERPRINT, schema.fingerprint());
        store(AT_DIRECTORY_BYTES, schema.json.len() as u64);
        store(
            AT_CONDITION,
            condition_word(Condition::Starting, Reason::None),
        );
        store(AT_SUPERVISOR_PID, u64::from(supervisor_pid));
        store(AT_START_NS, start_ns);
        store(AT_HEARTBEAT_NS, start_ns);
        // SYNC POINT format: partner is the load of the magic word in `Header::read`.
        words[AT_MAGIC].store(MAGIC, Ordering::Release);
        Ok(Self {
            words: words.clone(),
        })
    }

    /// Takes a ledger over that was made by a process that died.
    ///
    /// # Errors
    /// The memory holds another schema's ledger, or none.
    pub fn attach(
        schema: &Schema,
        words: &Words,
        supervisor_pid: u32,
    ) -> Result<Self, LedgerError> {
        schema.check(words)?;
        let writer = Self {
            words: words.clone(),
        };
        writer.store(AT_SUPERVISOR_PID, u64::from(supervisor_pid));
        Ok(writer)
    }

    /// States how the run stands.
    pub fn set_condition(&self, condition: Condition, reason: Reason) {
        self.store(AT_CONDITION, condition_word(condition, reason));
    }

    /// States the end of the run: the time first, so that a run said to be over has its end.
    pub fn finish(&self, condition: Condition, reason: Reason, end_ns: u64) {
        self.store(AT_END_NS, end_ns);
        self.set_condition(condition, reason);
    }

    /// Gives a sign of life.
    pub fn heartbeat(&self, now_ns: u64) {
        self.store(AT_HEARTBEAT_NS, now_ns);
    }

    /// States how long the run has lasted, by a clock that nobody sets.
    pub fn lasted(&self, elapsed_ns: u64) {
        self.store(AT_ELAPSED_NS, elapsed_ns);
    }

    fn store(&self, at: usize, value: u64) {
        self.words[at].store(value, Ordering::Release);
    }
}

impl Schema {
    /// Checks that `words` are a ledger made from this schema.
    ///
    /// # Errors
    /// Names the first word of the header that disagrees.
    pub fn check(&self, words: &[AtomicU64]) -> Result<(), LedgerError> {
        self.check_length(words)?;
        let header = Header::read(words)?;
        if header.fingerprint != self.fingerprint() {
            let (found, expected) = (header.fingerprint, self.fingerprint());
            return Err(LedgerError::Fingerprint { found, expected });
        }
        header.expect(
            "total words",
            header.total_words,
            self.words_needed() as u64,
        )
    }

    fn check_length(&self, words: &[AtomicU64]) -> Result<(), LedgerError> {
        check_length(words, self.words_needed() as u64)
    }
}

fn check_length(words: &[AtomicU64], need: u64) -> Result<(), LedgerError> {
    let have = words.len() as u64;
    if have < need {
        Err(LedgerError::TooShort { have, need })
    } else {
        Ok(())
    }
}

/// The checked first half of the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) total_words: u64,
    pub(crate) fingerprint: u64,
    pub(crate) directory_bytes: usize,
}

impl Header {
    /// Reads the header of `words`, which may be anything.
    pub(crate) fn read(words: &[AtomicU64]) -> Result<Self, LedgerError> {
        check_length(words, HEADER_WORDS as u64)?;
        // SYNC POINT format.
        let found = words[AT_MAGIC].load(Ordering::Acquire);
        if found != MAGIC {
            return Err(LedgerError::Magic { found });
        }
        let load = |at: usize| words[at].load(Ordering::Relaxed);
        if !(VERSION_OLDEST..=VERSION).contains(&load(AT_VERSION)) {
            return Err(LedgerError::Version {
                found: load(AT_VERSION),
                expected: VERSION,
            });
        }
        let total_words = load(AT_TOTAL_WORDS);
        check_length(words, total_words)?;
        let room = total_words.saturating_sub(HEADER_WORDS as u64) * 8;
        let asked = load(AT_DIRECTORY_BYTES);
        let header = Self {
            total_words,
            fingerprint: load(AT_FINGERPRINT),
            directory_bytes: asked as usize,
        };
        header.expect("header words", load(AT_HEADER_WORDS), HEADER_WORDS as u64)?;
        header.expect("directory bytes", asked, asked.min(room))?;
        Ok(header)
    }

    /// The directory's bytes, when they are those the fingerprint was made of.
    pub(crate) fn directory(&self, words: &[AtomicU64]) -> Result<Vec<u8>, LedgerError> {
        let end = HEADER_WORDS + self.directory_bytes.div_ceil(8);
        let words = words.get(HEADER_WORDS..end).unwrap_or_default();
        let mut bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        bytes.truncate(self.directory_bytes);
        let expected = fingerprint(&bytes);
        if expected != self.fingerprint {
            return Err(LedgerError::Fingerprint {
                found: self.fingerprint,
                expected,
            });
        }
        Ok(bytes)
    }

    pub(crate) fn expect(
        &self,
        field: &'static str,
        found: u64,
        expected: u64,
    ) -> Result<(), LedgerError> {
        if found == expected {
            Ok(())
        } else {
            Err(LedgerError::Header {
                field,
                found,
                expected,
            })
        }
    }
}
