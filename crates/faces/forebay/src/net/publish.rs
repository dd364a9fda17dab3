//! `forebay net pub` and `forebay net send`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use forebay_run::Stop;
use forebay_run_net::bus::{Announcer, Bus, Offer};
use forebay_run_net::{Address, NetError, Publisher, Sender};

use super::manner::{CommonArgs, END_LIMIT, sent, tell};
use super::source::{Next, Source, SourceArgs};
use crate::output::{counted, note_line};

/// One wait: an order to end costs this much.
const WAIT: Duration = Duration::from_millis(20);

/// Publishes messages: each goes to the subscribers of its tag.
///
/// Listens; subscribers connect. Ends with its input, or by Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = with_exit_codes!("Example: seq 1000 | forebay net pub tcp://127.0.0.1:7100 --tag 42"))]
pub(crate) struct PubArgs {
    /// Where to listen.
    address: Address,
    /// Begins when so many subscribers are there; what is published before is lost by name.
    #[arg(long, value_name = "N", default_value_t = 1)]
    subscribers: usize,
    /// A bus to announce this publisher on: dir:PATH, a directory that subscribers see, or tcp://HOST:PORT of `forebay net bus`.
    #[arg(long, value_name = "BUS")]
    bus: Option<Bus>,
    /// Its name there.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "publisher",
        requires = "bus"
    )]
    name: String,
    /// Its address there, where that is another one than the one it listens on, as with 0.0.0.0.
    #[arg(long, value_name = "ADDRESS", requires = "bus")]
    advertise: Option<Address>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Sends messages to one receiver.
///
/// Connects to it, and again when the connection is lost. Ends with its input, or by Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(
    after_help = with_exit_codes!("Example: forebay net send tcp://127.0.0.1:7100 --input data.raw --cut pieces --message-bytes 64Ki")
)]
pub(crate) struct SendArgs {
    /// Where the receiver listens.
    address: Address,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// Where messages go.
trait Out {
    fn put(&mut self, tag: u64, payload: &[u8]) -> Result<(), NetError>;
    fn work(&mut self, most: Duration) -> Result<(), NetError>;
}

impl Out for Publisher {
    fn put(&mut self, tag: u64, payload: &[u8]) -> Result<(), NetError> {
        self.publish(tag, 0, payload).map(drop)
    }

    fn work(&mut self, most: Duration) -> Result<(), NetError> {
        self.poll(most).map(drop)
    }
}

impl Out for Sender {
    fn put(&mut self, tag: u64, payload: &[u8]) -> Result<(), NetError> {
        self.send(tag, 0, payload)
    }

    fn work(&mut self, most: Duration) -> Result<(), NetError> {
        self.poll(most, |_| {}).map(drop)
    }
}

/// Until the input ends or a signal comes.
fn carry(source: &mut Source, out: &mut impl Out, stop: &Stop) -> Result<()> {
    source.begin();
    let mut number = 0_u64;
    while !stop.is_asked() {
        match source.next()? {
            Next::Message(tag, payload) => match out.put(tag, payload) {
                // An order to end.
                Err(NetError::Stopped) => break,
                put => put?,
            },
            Next::Later(wait) => out.work(wait)?,
            Next::End => break,
        }
        number += 1;
        if number.is_multiple_of(256) {
            out.work(Duration::ZERO)?;
        }
    }
    Ok(())
}

pub(crate) fn publish(args: &PubArgs) -> Result<ExitCode> {
    let mut source = args.source.open()?;
    let stop = Stop::of_process()?;
    let settings = args.common.settings(stop.clone())?;
    let mut publisher = Publisher::listen(&args.address, &settings)?;
    note_line(format_args!(
        "forebay: publishing on {}",
        publisher.address()?
    ));
    let announced = match &args.bus {
        Some(bus) => {
            let address = args
                .advertise
                .clone()
                .map_or_else(|| publisher.address(), Ok)?;
            let offer = Offer::new(&args.name, &address, &args.source.entries());
            Some(Announcer::start(bus, offer, &settings.security)?)
        }
        None => None,
    };
    if args.subscribers > 0 {
        note_line(format_args!(
            "forebay: waiting for {}",
            counted(args.subscribers as u64, "subscriber")
        ));
    }
    while publisher.ready_subscribers() < args.subscribers && !stop.is_asked() {
        publisher.poll(WAIT)?;
    }
    let carried = carry(&mut source, &mut publisher, &stop);
    // Nobody shall come any more.
    drop(announced);
    say_what_is_waited_for(&stop);
    let summary = publisher.finish(END_LIMIT)?;
    let code = tell(&summary, args.common.format, false)?;
    sent(&summary, carried, code)
}

/// Who asked for the end shall not wonder why it takes its time.
fn say_what_is_waited_for(stop: &Stop) {
    if stop.is_asked() {
        note_line(format_args!(
            "forebay: ending; the other side has {} s to take what is on its way, a second signal ends at once",
            END_LIMIT.as_secs()
        ));
    }
}

pub(crate) fn send(args: &SendArgs) -> Result<ExitCode> {
    let mut source = args.source.open()?;
    let stop = Stop::of_process()?;
    let mut sender = Sender::connect(&args.address, &args.common.settings(stop.clone())?)?;
    sender.connected(|| stop.is_asked())?;
    let carried = carry(&mut source, &mut sender, &stop);
    say_what_is_waited_for(&stop);
    let summary = sender.finish(END_LIMIT)?;
    let code = tell(&summary, args.common.format, false)?;
    sent(&summary, carried, code)
}
