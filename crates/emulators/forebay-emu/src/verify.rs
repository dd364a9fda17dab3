//! Proof that a sub-event is exactly what the emulator sends for its source and trigger number.

use forebay_wire::subevent::SubEventHeader;
use thiserror::Error;

use crate::config::{Config, ConfigError};
use crate::model::Model;

/// Makes each sub-event again and compares.
#[derive(Debug, Clone)]
pub struct Verifier {
    model: Model,
    expected: Vec<u8>,
}

/// Whose sub-event it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// The source, from 0.
    pub source: usize,
    /// The trigger number.
    pub number: u32,
    /// The tag.
    pub tag: u8,
    /// The bytes that agree.
    pub bytes: usize,
}

/// How a sub-event differs from what the emulator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// No header of a sub-event.
    #[error("{have} bytes do not begin with the header of a sub-event")]
    Header {
        /// What there is.
        have: usize,
    },
    /// No source has this id.
    #[error("no source has the id {id:#x}")]
    UnknownId {
        /// The id found, error bit taken off.
        id: u32,
    },
    /// The data error bit is set.
    #[error("source {source_index}, trigger {number}: the data error bit is set")]
    ErrorBit {
        /// The source.
        source_index: usize,
        /// The trigger number.
        number: u32,
    },
    /// Another size than was sent, in the header or of the whole.
    #[error(
        "source {source_index}, trigger {number}: sent {sent} bytes, header says {said}, found {have}"
    )]
    Size {
        /// The source.
        source_index: usize,
        /// The trigger number.
        number: u32,
        /// What the emulator sends.
        sent: u32,
        /// What the size field says.
        said: u32,
        /// What there is.
        have: usize,
    },
    /// Another byte than was sent.
    #[error("source {source_index}, trigger {number}: byte {at} is {found:#04x}, sent {sent:#04x}")]
    Byte {
        /// The source.
        source_index: usize,
        /// The trigger number.
        number: u32,
        /// The first byte that differs.
        at: usize,
        /// What was sent there.
        sent: u8,
        /// What was found there.
        found: u8,
    },
}

impl Verifier {
    /// A verifier of what soft readouts with the same configuration send.
    ///
    /// # Errors
    /// A configuration that cannot be carried out.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        config.check()?;
        let model = Model::new(config);
        let expected = Vec::with_capacity(model.largest_bytes() as usize);
        Ok(Self { model, expected })
    }

    /// Checks one sub-event, header first, padding left out.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&mut self, subevent: &[u8]) -> Result<Verified, Mismatch> {
        let have = subevent.len();
        let header = subevent.first_chunk().map(SubEventHeader::parse);
        let Some(Ok(header)) = header else {
            return Err(Mismatch::Header { have });
        };
        let id = header.address();
        let source = self.model.source_of(id).ok_or(Mismatch::UnknownId { id })?;
        let number = header.trigger(self.model.bits());
        if header.has_data_error() {
            return Err(Mismatch::ErrorBit {
                source_index: source,
                number,
            });
        }
        let shape = self.model.shape(source, number);
        let (sent, said) = (shape.bytes, header.size);
        if sent != said || have != said as usize {
            return Err(Mismatch::Size {
                source_index: source,
                number,
                sent,
                said,
                have,
            });
        }
        let tag = self.model.tag(number);
        self.expected.resize(subevent.len(), 0);
        self.model
            .write(&mut self.expected, source, number, tag, shape.hash);
        if self.expected == subevent {
            return Ok(Verified {
                source,
                number,
                tag,
                bytes: have,
            });
        }
        let pairs = self.expected.iter().zip(subevent);
        let at = pairs.take_while(|(sent, found)| sent == found).count();
        let (sent, found) = (self.expected[at], subevent[at]);
        Err(Mismatch::Byte {
            source_index: source,
            number,
            at,
            sent,
            found,
        })
    }
}
