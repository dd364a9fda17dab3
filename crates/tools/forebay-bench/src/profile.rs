//! A process looked at with `perf`: which functions were at work, and which functions had called them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::net::Skipped;

/// What it is called where it is left out.
const PERF: &str = "perf";
/// Looks at a process per second: not a round number, so that nothing that ticks is met each time.
const HZ: &str = "499";
/// How long is waited for what must come.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// Options of `perf record`: time on a CPU as the kernel's clock has it, which virtual machines have too, and callers from the tables for unwinding.
const RECORD: [&str; 8] = [
    "record",
    "-q",
    "-e",
    "cpu-clock",
    "-F",
    HZ,
    "--call-graph",
    "dwarf,8192",
];

/// A build without optimisation merges no functions into their callers, and to look for such takes long.
const INLINE: &str = if cfg!(debug_assertions) {
    "--no-inline"
} else {
    "--inline"
};

/// Stacks, from the first caller to the function at work, and how often each was found.
pub(crate) type Stacks = BTreeMap<Vec<String>, u64>;

/// Why `perf` cannot be used here, if so.
pub(crate) fn trial(directory: &Path) -> Option<Skipped> {
    let file = directory.join(format!(".perf-{}", std::process::id()));
    let reason = tried(&file);
    // It is not there when nothing was recorded.
    let _ = fs::remove_file(&file);
    reason.map(|reason| Skipped {
        what: PERF.into(),
        reason,
    })
}

fn tried(file: &Path) -> Option<String> {
    let said = Command::new(PERF)
        .args(RECORD)
        .arg("-o")
        .arg(file)
        .args(["--", "sh", "-c", "exit"])
        .stdin(Stdio::null())
        .output();
    match said {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some("not installed (Debian package linux-perf)".into())
        }
        Err(error) => Some(format!("cannot be started: {error}")),
        Ok(said) if said.status.success() => None,
        Ok(said) => {
            let text = String::from_utf8_lossy(&said.stderr);
            let first = text.lines().find(|line| !line.trim().is_empty());
            Some(format!(
                "perf record says {:?} (as root, or with kernel.perf_event_paranoid at 2 or less, it may look)",
                first.unwrap_or("nothing").trim()
            ))
        }
    }
}

/// Records the process of this one's children that works as `forebay ROLE`, from when it has a thread whose name begins with `thread` until it ends, into `file`.
///
/// # Errors
/// There is no such process before `over`, or it could not be recorded.
pub(crate) fn record(role: &str, thread: &str, file: &Path, over: &AtomicBool) -> Result<()> {
    let pid = loop {
        if let Some(pid) = child_of_role(role).filter(|pid| has_thread(*pid, thread)) {
            break pid;
        }
        if over.load(Ordering::Relaxed) {
            bail!("there was no process {role} to look at");
        }
        std::thread::sleep(LOOK);
    };
    let mut perf = Command::new(PERF)
        .args(RECORD)
        .arg("-o")
        .arg(file)
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting perf")?;
    let ended = wait(&mut perf, over);
    if ended.is_err() {
        // It may end by itself meanwhile.
        let _ = perf.kill();
        let _ = perf.wait();
    }
    ended
}

/// It ends with the process that it looks at.
fn wait(perf: &mut Child, over: &AtomicBool) -> Result<()> {
    let mut since = None;
    loop {
        if let Some(status) = perf.try_wait().context("waiting for perf")? {
            if status.success() {
                return Ok(());
            }
            bail!("perf record failed: {status}");
        }
        if over.load(Ordering::Relaxed)
            && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE
        {
            bail!("perf record did not end");
        }
        std::thread::sleep(LOOK);
    }
}

fn child_of_role(role: &str) -> Option<u32> {
    let own = std::process::id();
    let tasks = fs::read_dir(format!("/proc/{own}/task")).ok()?;
    let children = tasks.filter_map(|task| {
        let path = task.ok()?.path().join("children");
        fs::read_to_string(path).ok()
    });
    let children: Vec<String> = children.collect();
    let pids = children.iter().flat_map(|text| text.split_whitespace());
    let pids = pids.filter_map(|pid| pid.parse::<u32>().ok());
    let is_it = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command
            .split(|byte| *byte == 0)
            .any(|word| word == role.as_bytes())
    };
    pids.into_iter().find(is_it)
}

fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks.into_iter().flatten().flatten().any(|task| {
        let named = fs::read_to_string(task.path().join("comm"));
        named.is_ok_and(|text| text.starts_with(name))
    })
}

/// The stacks of a recording.
///
/// # Errors
/// It cannot be read.
pub(crate) fn stacks(file: &Path) -> Result<Stacks> {
    let said = Command::new(PERF)
        .args(["script", INLINE, "-F", "comm,ip,sym", "-i"])
        .arg(file)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .context("starting perf script")?;
    if !said.status.success() {
        bail!("perf script failed: {}", said.status);
    }
    Ok(collapse(&String::from_utf8_lossy(&said.stdout)))
}

/// One line of a stack: where, and what, and whether the compiler put it into its caller.
struct Line<'a> {
    at: &'a str,
    name: &'a str,
    inlined: bool,
}

/// Counts equal stacks of what `perf script` says: a thread's name, then a line for each function, that at work first, then an empty line.
fn collapse(text: &str) -> Stacks {
    let mut stacks = Stacks::new();
    for sample in text.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let Some(thread) = lines.next() else { continue };
        let lines = lines.filter_map(|line| {
            let (at, name) = line.trim().split_once(' ')?;
            let inlined = name.ends_with("(inlined)");
            let name = name.trim_end_matches("(inlined)").trim();
            Some(Line { at, name, inlined })
        });
        let lines: Vec<Line<'_>> = lines.collect();
        let mut stack: Vec<String> = Vec::new();
        for (number, line) in lines.iter().enumerate() {
            // Of functions in their callers the first line names the one that all are in, and the last one names it again.
            let again = !line.inlined
                && lines
                    .get(number + 1)
                    .is_some_and(|next| next.inlined && next.at == line.at);
            if !again && line.name != "[unknown]" {
                stack.push(short(line.name));
            }
        }
        // All threads of a kind together.
        let thread = thread
            .trim()
            .trim_end_matches(|letter: char| letter.is_ascii_digit());
        stack.push(thread.to_owned());
        stack.reverse();
        *stacks.entry(stack).or_default() += 1;
    }
    stacks
}

/// A name without types in brackets and without the modules but the last.
fn short(name: &str) -> String {
    let (mut plain, mut depth) = (String::new(), 0_i32);
    for (at, letter) in name.char_indices() {
        match letter {
            '<' if at == 0 => {}
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            // A stack is a cell of a row, its functions between semicolons.
            '>' | ',' | ';' => {}
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    // `<Link as Trait>::send` is Link's.
    let plain = match plain.split_once(" as ") {
        Some((own, rest)) => {
            let method = rest.rsplit("::").next().unwrap_or_default();
            format!("{own}::{method}")
        }
        None => plain,
    };
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    parts[parts.len().saturating_sub(2)..].join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_counted_and_functions_in_their_callers_have_their_places() {
        let sample = "fb-dma1 \n\t 86063e forebay_run_felix::reader::Reader::read\n\t 86063e backwards<4, Shared> (inlined)\n\t 86063e read (inlined)\n\t \
                      4870dc std::sys::backtrace::__rust_begin_short_backtrace\n\tffffffffffffffff [unknown]\n\n";
        let other = "fb-dma3 \n\t 16db75 __memmove_avx512_unaligned_erms\n\t 98b22a <forebay_link::shm::ShmLink as forebay_link::ByteLink>::send\n\n";
        let stacks = collapse(&format!("{sample}{other}{sample}"));
        let told: Vec<(String, u64)> = stacks
            .iter()
            .map(|(stack, count)| (stack.join(";"), *count))
            .collect();
        assert_eq!(
            told,
            [
                (
                    "fb-dma;ShmLink::send;__memmove_avx512_unaligned_erms".into(),
                    1
                ),
                (
                    "fb-dma;backtrace::__rust_begin_short_backtrace;read;backwards".into(),
                    2
                ),
            ]
        );
        assert!(collapse("").is_empty());
    }

    #[test]
    fn names_lose_types_and_modules() {
        for (name, is) in [
            (
                "forebay_run_net::end_point::EndPoint<R>::turn",
                "EndPoint::turn",
            ),
            (
                "alloc::collections::vec_deque::VecDeque<T,A>::pop_front",
                "VecDeque::pop_front",
            ),
            ("publish_or<forebay_run::x::{closure_env#1}>", "publish_or"),
            ("sleep", "sleep"),
        ] {
            assert_eq!(short(name), is);
        }
    }

    #[test]
    fn what_is_not_there_is_no_process_to_record() {
        let over = AtomicBool::new(true);
        let error = record("no-such-role", "fb-", Path::new("/dev/null"), &over).unwrap_err();
        assert!(error.to_string().contains("no-such-role"), "{error}");
    }
}
