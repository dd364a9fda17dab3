//! Addresses as people write them: in numbers, or as a name of a host.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Reads an address, or the name of a host.
pub(crate) fn host(text: &str) -> Result<IpAddr, String> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => first((text, 0), "127.0.0.1 or localhost").map(|found| found.ip()),
    }
}

/// Reads `HOST:PORT`.
pub(crate) fn socket(text: &str) -> Result<SocketAddr, String> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => first(text, "127.0.0.1:9400 or localhost:9400"),
    }
}

/// Reads `HOST:PORT`, or a port on 127.0.0.1.
pub(crate) fn socket_or_port(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => socket(text),
    }
}

/// What a name stands for; of several addresses the first of version 4, which the defaults are of.
fn first(name: impl ToSocketAddrs, right: &str) -> Result<SocketAddr, String> {
    let found = name.to_socket_addrs();
    let found = found.map_err(|error| format!("it is no address: {error}; write it as {right}"))?;
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|address| !address.is_ipv4());
    let first = found.first().copied();
    first.ok_or_else(|| format!("it has no address; write it as {right}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_names() {
        assert_eq!(socket_or_port("9400"), Ok(([127, 0, 0, 1], 9400).into()));
        assert_eq!(socket("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        assert_eq!(host("localhost"), Ok(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(socket("localhost:1"), Ok(([127, 0, 0, 1], 1).into()));
        let without_port = socket("localhost").unwrap_err();
        assert!(without_port.contains("127.0.0.1:9400"), "{without_port}");
    }
}
