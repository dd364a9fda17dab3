//! Sockets of processes, as the kernel lists them.

use std::collections::BTreeSet;
use std::fs;

/// Sockets of a process that receive datagrams or wait for connections: `address:port` as the kernel writes it.
pub(crate) fn listeners(pid: u32) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return BTreeSet::new();
    };
    let own: BTreeSet<String> = entries
        .flatten()
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let inode = target.to_str()?.strip_prefix("socket:[")?;
            Some(inode.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut found = BTreeSet::new();
    for (table, state) in [("udp", "07"), ("tcp", "0A"), ("udp6", "07"), ("tcp6", "0A")] {
        for line in fs::read_to_string(format!("/proc/net/{table}"))
            .unwrap_or_default()
            .lines()
            .skip(1)
        {
            let cells: Vec<&str> = line.split_whitespace().collect();
            if cells[3] == state && own.contains(cells[9]) {
                found.insert(cells[1].to_owned());
            }
        }
    }
    found
}

/// 127.0.0.1 as the kernel's tables write it on this machine.
pub(crate) fn loopback() -> String {
    format!("{:08X}:", u32::from_ne_bytes([127, 0, 0, 1]))
}
