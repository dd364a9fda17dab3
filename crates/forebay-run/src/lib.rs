//! Assembly: engines and links joined into processes, clocks, threads and configuration.
#![forbid(unsafe_code)]
