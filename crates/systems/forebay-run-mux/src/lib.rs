//! The multiplexer: one network card, shared by many untrusted clients. What decides is `forebay-mux`; here is what touches the card.
//!
//! | module | what it does |
//! |---|---|
//! | [`driver`] | frames from a card and onto one, with what was lost where, over five kinds of cards |
#![forbid(unsafe_code)]

pub mod driver;
