//! The header is what the sources declare: `UPDATE_DOCS=1 cargo test -p forebay-client-c --test header` writes it anew; the difference is for the review.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use syn::{Attribute, Expr, Fields, FnArg, Item, Lit, Pat, PointerMutability, ReturnType, Type};

/// Most columns of a comment.
const COLUMNS: usize = 100;

const HEAD: &str = r#"/*
 * The client of Forebay's multiplexer: frames of a network card that a daemon owns, through shared
 * memory, without privileges; and sockets over an IP stack, if the program wants one. docs/MULTIPLEXER.md is about the daemon and its file.
 *
 * Made from the sources in Rust, and not by hand: see tests/header.rs of the crate forebay-client-c.
 *
 *     cargo build --release -p forebay-client-c
 *     cc -Icrates/faces/forebay-client-c/include program.c -Ltarget/release -lforebay_client
 *
 * Codes. A function gives a code, or a descriptor: below 0 it has failed, and has done nothing.
 * forebay_client_error_text() says why, for people.
 *
 * Threads. One thread at a time is in a call with a client; another one is given
 * FOREBAY_CLIENT_BUSY, and nothing is done. A client may go from one thread to another. Two clients
 * have nothing in common. Texts of errors are of the thread whose call failed.
 *
 * Pointers. NULL is FOREBAY_CLIENT_ARGUMENT wherever a pointer is asked for. Others are the
 * caller's word: memory that it has, or a client that forebay_client_connect() gave and
 * forebay_client_disconnect() did not take. No copy of that pointer is used behind the disconnect.
 *
 * IP. After forebay_client_ip_open() the client's frames are those of an IP stack, and the program
 * has sockets of UDP and connections of TCP, which are named by numbers. The stack works while a call
 * with its client does, and sends no fragments. forebay_client_ip_get_counts() says what became of each
 * datagram, and of the bytes of connections.
 *
 * Frames. What is received is the program's until it is released, what is reserved until it is sent
 * or put back: after that its memory is not read or written any more. Both show to the multiplexer
 * with forebay_client_flush() or forebay_client_wait(), once for many.
 */
#ifndef FOREBAY_CLIENT_H
#define FOREBAY_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A client. Its memory is the library's. */
typedef struct forebay_client forebay_client;
"#;

const FOOT: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

fn folder() -> PathBuf {
    forebay_testing::root().join("crates/faces/forebay-client-c")
}

#[test]
fn the_header_is_what_the_sources_declare() {
    let made = header();
    let path = folder().join("include/forebay_client.h");
    let found = fs::read_to_string(&path).unwrap_or_default();
    if found != made && std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    } else {
        assert_eq!(found, made, "UPDATE_DOCS=1 with this test writes it anew");
    }
}

fn header() -> String {
    let mut header = HEAD.to_owned();
    let sources = ["types.rs", "ip_types.rs", "abi.rs", "ip.rs", "tcp.rs"];
    for source in sources.map(|name| format!("src/{name}")) {
        let text = fs::read_to_string(folder().join(source)).unwrap();
        for item in syn::parse_file(&text).unwrap().items {
            header += &declaration(&item);
        }
    }
    header + FOOT
}

fn declaration(item: &Item) -> String {
    match item {
        Item::Const(of) => {
            let (comment, value) = (comment(&of.attrs, ""), value(&of.expr));
            let unsigned = if is_named(&of.ty, "u32") { "u" } else { "" };
            format!("\n{comment}#define {} {value}{unsigned}\n", of.ident)
        }
        Item::Struct(of) => {
            let Fields::Named(fields) = &of.fields else {
                panic!("{} has fields without names", of.ident);
            };
            let name = in_c(&of.ident.to_string());
            let mut text = format!("\n{}typedef struct {name} {{\n", comment(&of.attrs, ""));
            for field in &fields.named {
                let named = field.ident.as_ref().unwrap().to_string();
                let declared = declared(&field.ty, &named);
                let comment = comment(&field.attrs, "    ");
                writeln!(text, "{comment}    {declared};").unwrap();
            }
            text + &format!("}} {name};\n")
        }
        Item::Fn(of) if of.sig.abi.is_some() => {
            let is_exported = of.attrs.iter().any(|one| one.path().is_ident("unsafe"));
            assert!(is_exported, "{} is not exported", of.sig.ident);
            let arguments: Vec<String> = of.sig.inputs.iter().map(argument).collect();
            let arguments = match arguments.is_empty() {
                true => "void".to_owned(),
                false => arguments.join(", "),
            };
            let ReturnType::Type(_, result) = &of.sig.output else {
                panic!("{} gives no code", of.sig.ident);
            };
            let called = format!("{}({arguments})", of.sig.ident);
            let (comment, called) = (comment(&of.attrs, ""), declared(result, &called));
            format!("\n{comment}{called};\n")
        }
        Item::Use(_) | Item::Fn(_) => String::new(),
        _ => panic!("an item that no header has"),
    }
}

fn argument(of: &FnArg) -> String {
    let FnArg::Typed(of) = of else {
        panic!("no method is exported");
    };
    let Pat::Ident(name) = &*of.pat else {
        panic!("an argument has a name");
    };
    declared(&of.ty, &name.ident.to_string())
}

/// What is declared with this type under a name, as C writes it.
fn declared(of: &Type, name: &str) -> String {
    match of {
        Type::Ptr(to) => {
            let name = format!("*{name}");
            let constant = if matches!(to.mutability, PointerMutability::Const(_)) {
                "const "
            } else {
                ""
            };
            format!("{constant}{}", declared(&to.elem, &name))
        }
        Type::Array(many) => declared(&many.elem, &format!("{name}[{}]", value(&many.len))),
        Type::Path(path) => {
            let rust = path.path.get_ident().unwrap().to_string();
            format!("{} {name}", in_c(&rust))
        }
        _ => panic!("a type that no header has: {name}"),
    }
}

fn is_named(of: &Type, name: &str) -> bool {
    matches!(of, Type::Path(path) if path.path.is_ident(name))
}

/// The name of a type.
fn in_c(rust: &str) -> String {
    let fixed = match rust {
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i32" => "int32_t",
        "usize" => "size_t",
        "c_char" => "char",
        _ => "",
    };
    if !fixed.is_empty() {
        return fixed.to_owned();
    }
    assert!(rust.starts_with("ForebayClient"), "{rust} has no name in C");
    let mut name = String::new();
    for letter in rust.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

fn value(of: &Expr) -> String {
    match of {
        Expr::Lit(one) => match &one.lit {
            Lit::Int(number) => number.base10_digits().to_owned(),
            _ => panic!("a value that no header has"),
        },
        Expr::Unary(one) => format!("(-{})", value(&one.expr)),
        Expr::Path(path) => path.path.get_ident().unwrap().to_string(),
        _ => panic!("a value that no header has"),
    }
}

/// The documentation up to its part for callers in Rust, which the head of the header has for all functions.
fn comment(attributes: &[Attribute], indent: &str) -> String {
    let lines = attributes.iter().filter_map(|one| {
        let pair = one.meta.require_name_value().ok()?;
        match (&pair.value, pair.path.is_ident("doc")) {
            (Expr::Lit(text), true) => match &text.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        }
    });
    let text: Vec<String> = lines.take_while(|line| line.trim() != "# Safety").collect();
    let text = text.join(" ").replace('`', "");
    assert!(!text.trim().is_empty(), "what is exported is documented");
    let (mut whole, mut line) = (String::new(), format!("{indent}/**"));
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COLUMNS - 3 {
            whole += &line;
            whole.push('\n');
            line = format!("{indent}   ");
        }
        line.push(' ');
        line += word;
    }
    format!("{whole}{line} */\n")
}
