//! `forebay net sub` and `forebay net recv`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use forebay_run::StopSignals;
use forebay_run::net::bus::Bus;
use forebay_run::net::{Address, Delivered, Entry, NetError, Receiver, Settings, Subscriber};

use super::manner::{CommonArgs, END_LIMIT, SlowArg, tag, tell};
use super::sink::{Sink, SinkArgs};
use crate::output::note_line;

/// One wait: an order to end costs this much.
const WAIT: Duration = Duration::from_millis(20);

/// What comes is written at the latest so long after, however much comes.
const FLUSH: Duration = Duration::from_millis(100);

/// Subscribes to tags and writes what comes.
///
/// Connects to the publishers, and again when a connection is lost or there is no publisher yet. Ends by Ctrl-C, after --count messages, or with
/// --once when the publishers end. Exits with 1 when the books do not close.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay net sub tcp://127.0.0.1:7100 --tag 42 --once")]
pub(crate) struct SubArgs {
    /// Where the publishers listen.
    #[arg(required_unless_present = "bus")]
    addresses: Vec<Address>,
    /// A bus to find them on: dir:PATH or tcp://HOST:PORT of `forebay net bus`. Publishers of the tags are connected to as they come.
    #[arg(long, value_name = "BUS", conflicts_with = "addresses")]
    bus: Option<Bus>,
    /// Tags to subscribe to, or a pattern TAG/MASK: those that equal TAG where MASK has ones. All, when there is none.
    #[arg(long = "tag", value_name = "TAG[/MASK]", value_delimiter = ',', value_parser = entry)]
    tags: Vec<Entry>,
    /// What becomes of messages for which this subscriber is too slow.
    #[arg(long, value_enum, default_value_t)]
    slow: SlowArg,
    #[command(flatten)]
    end: EndArgs,
    #[command(flatten)]
    sink: SinkArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Receives messages of any number of senders and writes them.
///
/// Listens. Ends by Ctrl-C, after --count messages, or with --once when the senders have ended. Exits with 1 when the books do not close.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay net recv tcp://0.0.0.0:7100 --output data.raw --as raw --once"
)]
pub(crate) struct RecvArgs {
    /// Where to listen.
    address: Address,
    #[command(flatten)]
    end: EndArgs,
    #[command(flatten)]
    sink: SinkArgs,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, clap::Args)]
struct EndArgs {
    /// Ends after so many messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Ends when the publishers have ended in order, or when the senders have gone.
    #[arg(long)]
    once: bool,
}

fn entry(text: &str) -> Result<Entry, String> {
    match text.split_once('/') {
        Some((bits, mask)) => Ok(Entry {
            tag: tag(bits)?,
            mask: tag(mask)?,
        }),
        None => tag(text).map(Entry::one),
    }
}

/// Where messages come from.
trait In {
    fn take(&mut self, most: Duration, on: &mut dyn FnMut(Delivered<'_>))
    -> Result<bool, NetError>;
    fn has_ended(&self) -> bool;
}

impl In for Receiver {
    fn take(
        &mut self,
        most: Duration,
        on: &mut dyn FnMut(Delivered<'_>),
    ) -> Result<bool, NetError> {
        self.poll(most, on)
    }

    fn has_ended(&self) -> bool {
        Receiver::has_ended(self)
    }
}

impl In for Subscriber {
    fn take(
        &mut self,
        most: Duration,
        on: &mut dyn FnMut(Delivered<'_>),
    ) -> Result<bool, NetError> {
        self.poll(most, on)
    }

    fn has_ended(&self) -> bool {
        Subscriber::has_ended(self)
    }
}

/// Until the end that was asked for.
fn carry(from: &mut impl In, sink: &mut Sink, end: &EndArgs, signals: &StopSignals) -> Result<()> {
    let mut left = end.count.unwrap_or(u64::MAX);
    let mut flushed = Instant::now();
    while signals.count() == 0 && left > 0 && !(end.once && from.has_ended()) {
        let busy = from.take(WAIT, &mut |delivered| {
            if left > 0 {
                sink.write(delivered.message.tag, delivered.message.payload);
                left -= 1;
            }
        })?;
        if !busy || flushed.elapsed() >= FLUSH {
            sink.flush();
            flushed = Instant::now();
        }
        if !sink.check()? {
            break;
        }
    }
    sink.flush();
    sink.check().map(drop)
}

pub(crate) fn subscribe(args: &SubArgs) -> Result<ExitCode> {
    let mut sink = args.sink.open()?;
    let signals = Arc::new(forebay_run::signals()?);
    let mut settings: Settings = args.common.settings(Arc::clone(&signals))?;
    settings.messages.slow = args.slow.into();
    let mut subscriber = match &args.bus {
        Some(bus) => Subscriber::find(bus, &settings)?,
        None => Subscriber::connect(&args.addresses, &settings)?,
    };
    let all = [Entry { tag: 0, mask: 0 }];
    subscriber.subscribe(if args.tags.is_empty() {
        &all
    } else {
        &args.tags
    });
    let carried = carry(&mut subscriber, &mut sink, &args.end, &signals);
    let more = args.end.count.is_none();
    let summary = subscriber.finish(END_LIMIT, |delivered| {
        // What was on its way when the end was asked for.
        if more {
            sink.write(delivered.message.tag, delivered.message.payload);
        }
    })?;
    sink.flush();
    let code = tell(&summary, args.common.format, sink.is_stdout())?;
    carried.and_then(|()| sink.check().map(drop)).map(|()| code)
}

pub(crate) fn receive(args: &RecvArgs) -> Result<ExitCode> {
    let mut sink = args.sink.open()?;
    let signals = Arc::new(forebay_run::signals()?);
    let mut receiver =
        Receiver::listen(&args.address, &args.common.settings(Arc::clone(&signals))?)?;
    note_line(format_args!(
        "forebay: listening on {}",
        receiver.address()?
    ));
    let carried = carry(&mut receiver, &mut sink, &args.end, &signals);
    let more = args.end.count.is_none();
    let summary = receiver.finish(END_LIMIT, |delivered| {
        if more {
            sink.write(delivered.message.tag, delivered.message.payload);
        }
    })?;
    sink.flush();
    let code = tell(&summary, args.common.format, sink.is_stdout())?;
    carried.and_then(|()| sink.check().map(drop)).map(|()| code)
}
