//! What is answered to a request.

use forebay_ledger::prometheus;

use super::door::Counts;
use super::shown::Shown;

/// Why the head of a request was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    TooLong,
    TooSlow,
    Gone,
}

/// The whole answer to a request, head and body.
pub(super) fn answer(request: Result<&[u8], Cut>, shown: &Shown, counts: &Counts) -> Vec<u8> {
    let head = match request {
        Ok(head) => head,
        Err(Cut::TooLong) => return refusal("431 Request Header Fields Too Large", "too long"),
        Err(Cut::TooSlow) => return refusal("408 Request Timeout", "too slow"),
        Err(Cut::Gone) => return refusal("400 Bad Request", "cut off"),
    };
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words: Vec<&str> = std::str::from_utf8(first)
        .unwrap_or_default()
        .split_ascii_whitespace()
        .collect();
    match words[..] {
        [method @ ("GET" | "HEAD"), target, version] if version.starts_with("HTTP/1.") => {
            match target.split('?').next() {
                Some("/metrics") => page(shown, counts, method == "HEAD"),
                _ => refusal("404 Not Found", "there is only /metrics"),
            }
        }
        [_, target, version] if version.starts_with("HTTP/1.") && target.starts_with('/') => {
            refusal("405 Method Not Allowed", "there is only GET /metrics")
        }
        _ => refusal("400 Bad Request", "this is not HTTP/1.1"),
    }
}

fn page(shown: &Shown, counts: &Counts, head_only: bool) -> Vec<u8> {
    let (sheets, mut families) = match shown.now() {
        Ok(now) => now,
        Err(error) => return refusal("503 Service Unavailable", &error.to_string()),
    };
    families.extend(counts.families());
    match prometheus::expose_all(sheets, families) {
        Ok(body) => message("200 OK", prometheus::CONTENT_TYPE, &body, head_only),
        Err(error) => refusal("500 Internal Server Error", &error.to_string()),
    }
}

fn refusal(status: &str, why: &str) -> Vec<u8> {
    message(
        status,
        "text/plain; charset=utf-8",
        &format!("{why}\n"),
        false,
    )
}

fn message(status: &str, content_type: &str, body: &str, head_only: bool) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let body = if head_only { "" } else { body };
    [head.as_bytes(), body.as_bytes()].concat()
}
