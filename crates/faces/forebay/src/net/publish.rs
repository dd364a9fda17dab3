//! `forebay net pub` and `forebay net send`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use forebay_run::{Host, Stop, System};
use forebay_run_net::bus::{Announcer, Bus, Offer};
use forebay_run_net::hops::NET;
use forebay_run_net::{Address, NetError, NetRecord, NetSummary, Publisher, Sender};

use super::manner::{CommonArgs, END_LIMIT, sent, tell_people};
use super::source::{Next, Source, SourceArgs};
use crate::output::{Format, counted};
use crate::record::{To, recorded};

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

/// A publisher, or a sender, of the messages of a source.
struct Outgoing<'a, A> {
    args: &'a A,
    source: Source,
    /// What went wrong with the source.
    carried: &'a mut Result<()>,
}

impl System for Outgoing<'_, PubArgs> {
    const HOPS: &'static [&'static str] = NET;
    type Summary = NetSummary;
    type Error = anyhow::Error;

    fn run(mut self, host: &Host) -> Result<NetRecord> {
        let args = self.args;
        let settings = args.common.hosted(host)?;
        let mut publisher = Publisher::listen(&args.address, &settings)?;
        host.say(format_args!("publishing on {}", publisher.address()?));
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
            let subscribers = counted(args.subscribers as u64, "subscriber");
            host.say(format_args!("waiting for {subscribers}"));
        }
        while publisher.ready_subscribers() < args.subscribers && !host.stop.is_asked() {
            publisher.poll(WAIT)?;
        }
        *self.carried = carry(&mut self.source, &mut publisher, &host.stop);
        // Nobody shall come any more.
        drop(announced);
        say_what_is_waited_for(host);
        Ok(publisher.finish(END_LIMIT)?)
    }
}

pub(crate) fn publish(args: &PubArgs) -> Result<ExitCode> {
    carry_source(args, &args.source, args.common.format)
}

/// Runs a publisher or a sender.
fn carry_source<A>(args: &A, source: &SourceArgs, format: Format) -> Result<ExitCode>
where
    for<'a> Outgoing<'a, A>: System<Summary = NetSummary, Error = anyhow::Error>,
{
    let mut carried = Ok(());
    let outgoing = Outgoing {
        args,
        source: source.open()?,
        carried: &mut carried,
    };
    let (record, code) = recorded(outgoing, format, To::Stdout, tell_people)?;
    sent(&record, carried, code)
}

/// A user who asked for the end shall not wonder why it takes its time.
fn say_what_is_waited_for(host: &Host) {
    if host.stop.is_asked() {
        host.say(format_args!(
            "ending; the other side has {} s to take what is on its way, a second signal ends at once",
            END_LIMIT.as_secs()
        ));
    }
}

impl System for Outgoing<'_, SendArgs> {
    const HOPS: &'static [&'static str] = NET;
    type Summary = NetSummary;
    type Error = anyhow::Error;

    fn run(mut self, host: &Host) -> Result<NetRecord> {
        let settings = self.args.common.hosted(host)?;
        let mut sender = Sender::connect(&self.args.address, &settings)?;
        sender.connected(|| host.stop.is_asked())?;
        *self.carried = carry(&mut self.source, &mut sender, &host.stop);
        say_what_is_waited_for(host);
        Ok(sender.finish(END_LIMIT)?)
    }
}

pub(crate) fn send(args: &SendArgs) -> Result<ExitCode> {
    carry_source(args, &args.source, args.common.format)
}
