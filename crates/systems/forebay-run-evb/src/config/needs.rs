//! What a run takes of the host, known before it starts.

use std::fmt;

use forebay_ledger::SchemaError;
use serde::Serialize;

use crate::plan::Plan;

/// Memory of a run by what it is for, in bytes: upper bounds, all fixed by the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Queues of the sources, receiver to builder.
    pub source_queues_bytes: u64,
    /// Queues of the sinks.
    pub sink_queues_bytes: u64,
    /// Pieces of files on their way past the page cache.
    pub sink_pieces_bytes: u64,
    /// Kernel memory of the sockets: twice what is asked for, as the kernel counts its own overhead too.
    pub socket_buffers_bytes: u64,
    /// The ledger.
    pub ledger_bytes: u64,
}

/// A run that needs more than it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What it can take.
    pub needed_bytes: u64,
    /// What it may.
    pub limit_bytes: u64,
}

impl Memory {
    /// Memory that `plan` takes.
    ///
    /// # Errors
    /// The ledger of the plan cannot be made: a name is used twice.
    pub fn of(plan: &Plan) -> Result<Self, SchemaError> {
        let memory = plan.memory();
        let books = super::books_of(plan)?;
        Ok(Self {
            source_queues_bytes: memory.source_rings_bytes,
            sink_queues_bytes: memory.sink_queues_bytes,
            sink_pieces_bytes: memory.sink_pieces_bytes,
            socket_buffers_bytes: memory.socket_buffers_bytes,
            ledger_bytes: books.schema.bytes_needed() as u64,
        })
    }

    /// All of it.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let parts = [
            self.source_queues_bytes,
            self.sink_queues_bytes,
            self.sink_pieces_bytes,
            self.socket_buffers_bytes,
            self.ledger_bytes,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Whether it stays within a limit.
    ///
    /// # Errors
    /// It does not.
    pub fn within(&self, limit_bytes: Option<u64>) -> Result<(), Need> {
        let needed_bytes = self.total_bytes();
        match limit_bytes {
            Some(limit_bytes) if needed_bytes > limit_bytes => Err(Need {
                needed_bytes,
                limit_bytes,
            }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source_queues_bytes,
            sink_queues_bytes,
            sink_pieces_bytes,
            socket_buffers_bytes,
            ledger_bytes,
        } = self;
        write!(
            f,
            "{source_queues_bytes} (sources' queues) + {sink_queues_bytes} (sinks' queues) + {sink_pieces_bytes} (pieces for disks) + {socket_buffers_bytes} \
             (socket buffers, in the kernel's count) + {ledger_bytes} (ledger) = {} bytes",
            self.total_bytes()
        )
    }
}
