//! Linux system interfaces, the one place for sockets, mappings and clocks.
