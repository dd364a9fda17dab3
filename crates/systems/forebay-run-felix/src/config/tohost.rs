//! To-host's file.

use std::path::Path;
use std::time::Duration;

use forebay_msg::Config;
use forebay_run::config::block::Block;
use forebay_run::config::mistake::Mistakes;
use forebay_run::config::page::Page;
use forebay_run::config::{ConfigError, Source};
use forebay_run_net::Settings;
use forebay_run_net::section::security;

use super::sections::{DEVICES, TOHOST, TOHOST_SECTIONS};
use crate::tohost::{DevicePlan, ToHostFile};

/// Reads to-host's file.
///
/// `said` are keys of the command line, see [`Source::read`].
///
/// # Errors
/// It cannot be read, or has mistakes: all of them are told.
pub fn load_tohost(path: &Path, said: &[String]) -> Result<ToHostFile, ConfigError> {
    Ok(of_source(&Source::read(path, said)?)?)
}

/// Reads the text of to-host's file called `file`.
///
/// # Errors
/// All mistakes in it.
pub fn parse_tohost(file: &str, text: &str) -> Result<ToHostFile, Mistakes> {
    of_source(&Source::of_text(file, text))
}

fn of_source(source: &Source) -> Result<ToHostFile, Mistakes> {
    let page = Page::new(source, &TOHOST_SECTIONS);
    let plan = tohost(&page);
    page.conclude(plan)
}

fn tohost(page: &Page<'_>) -> Option<ToHostFile> {
    let table = page.parse()?;
    let root = table.get_ref();
    page.check_sections(root);
    let whole = page.one(root, &TOHOST);
    let blocks = page.many(root, &DEVICES);
    if blocks.is_empty() {
        whole.complain_whole(
            "no card is named",
            "one [[devices]] block or more",
            "add [[devices]] with socket = \"card0.sock\" and address = \"shm://felix\"",
        );
    }
    let out = whole.path("directory");
    let mut devices: Vec<DevicePlan> = Vec::new();
    for block in &blocks {
        devices.extend(device(block, &devices));
    }
    let seconds = |name| whole.integer(name).map(Duration::from_secs);
    Some(ToHostFile {
        out: Some(out.unwrap_or_else(|| "forebay-tohost".into())),
        metrics: whole.socket("metrics"),
        duration: seconds("duration_s"),
        detector: whole.integer("detector").unwrap_or(0) as u8,
        connector: whole.integer("connector").unwrap_or(0) as u16,
        subscribers_min: whole.integer("subscribers_min").unwrap_or(0) as usize,
        card_wait: seconds("card_wait_s").unwrap_or(Duration::from_secs(10)),
        decoder: forebay_readout::Config {
            chunk_bytes_max: whole.integer("chunk_bytes_max").unwrap_or(1 << 20) as usize,
        },
        devices,
    })
}

fn device(block: &Block<'_, '_>, before: &[DevicePlan]) -> Option<DevicePlan> {
    for name in ["socket", "address"] {
        if !block.has(name) {
            block.complain_whole(
                &format!("its {name} is not named"),
                "socket and address of each card",
                &format!("add {name}"),
            );
        }
    }
    let usual = Config::default();
    let of = |name, otherwise: u32| block.integer(name).map_or(otherwise, |value| value as u32);
    let messages = Config {
        buffer_bytes: of("buffer_bytes", usual.buffer_bytes),
        buffer_count: of("buffer_count", usual.buffer_count),
        flush_ns: block.integer("flush_us").unwrap_or(1000) * 1000,
        block_ns: block.integer("block_ms").unwrap_or(10_000) * 1_000_000,
        ..usual
    };
    let subscribers_max = of("subscribers_max", 128) as usize;
    let buffers = block.integers("dma_buffers");
    let buffers = buffers.map(|all| all.iter().map(|number| *number as usize).collect());
    let device = DevicePlan {
        socket: block.path("socket")?,
        buffers,
        by_reference_bytes: block
            .integer("by_reference_bytes")
            .filter(|bytes| *bytes > 0)
            .map(|bytes| bytes as usize),
        address: block.link("address")?,
        settings: Settings {
            messages,
            connections_max: subscribers_max,
            security: security(block),
            ..Settings::default()
        },
    };
    if !device.address.is_shown() {
        block.idle(
            "by_reference_bytes",
            "subscribers see the card's memory over shm:// only",
        );
    }
    if before.iter().any(|one| one.address == device.address) {
        block.complain(
            "address",
            "another block publishes there already",
            "an address for each card; the further buffers of one take the names or ports behind it",
            "choose another name, or a port that is farther away",
        );
    }
    if before.iter().any(|one| is_read_by(one, &device)) {
        block.complain_whole(
            "another block reads these DMA buffers of that card already",
            "each buffer once",
            "name different dma_buffers in both blocks",
        );
    }
    Some(device)
}

/// Whether one of these reads a buffer that the other one reads, too.
fn is_read_by(one: &DevicePlan, other: &DevicePlan) -> bool {
    let shares = match (&one.buffers, &other.buffers) {
        (Some(some), Some(others)) => some.iter().any(|buffer| others.contains(buffer)),
        _ => true,
    };
    one.socket == other.socket && shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_blocks_cannot_both_have_is_told() {
        let told = |more: &str| {
            let text = format!("[[devices]]\nsocket = \"a\"\naddress = \"shm://x\"\n{more}");
            parse_tohost("tohost.toml", &text).map_err(|mistakes| mistakes.to_string())
        };
        let other = "[[devices]]\nsocket = \"b\"\naddress = \"shm://y\"\n";
        assert_eq!(told(other).unwrap().devices.len(), 2);
        for (more, wrong) in [
            (
                "[[devices]]\nsocket = \"b\"\naddress = \"shm://x\"\n",
                "publishes there already",
            ),
            (
                "[[devices]]\nsocket = \"a\"\naddress = \"shm://y\"\n",
                "reads these DMA buffers",
            ),
            (
                "[[devices]]\nsocket = \"b\"\naddress = \"tcp://127.0.0.1:7200\"\nby_reference_bytes = 512\n",
                "over shm:// only",
            ),
        ] {
            let told = told(more).unwrap_err();
            assert!(told.contains(wrong), "{more}: {told}");
        }
        let apart = "dma_buffers = [0]\n[[devices]]\nsocket = \"a\"\naddress = \"shm://y\"\ndma_buffers = [1]\n";
        assert!(told(apart).is_ok());
    }
}
