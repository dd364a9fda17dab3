//! The same load on plain sockets of Linux: a program for each client's place, which sends back what comes (`forebay load --echo`).

use std::collections::BTreeMap;

use anyhow::Result;
use forebay_run::Stop;
use serde_json::Value;

use super::account::{came, closed, cpu_s, limit, number, real, targets};
use super::file::HEADERS_BYTES;
use super::ground::{Counted, Ground, socket_address};
use super::session::{PORT, Work, load, under_way};
use super::share::{CpuShare, Sharing};
use super::{Baseline, Options, SocketReport};
use crate::child::{Booked, Child};

/// Carries it out.
pub(super) fn run(
    options: &Options,
    ground: &Ground,
    work: &Work,
    stop: &Stop,
) -> Result<Baseline> {
    ground.has_sockets(true)?;
    let before = ground.counted()?;
    let mut echoes = Vec::new();
    for at in 0..options.clients.len() {
        let out = work.of(&format!("echo-{at}"));
        let mut command = ground.at_card(&options.program, options.placement.clients);
        let address = format!("{}:{PORT}", socket_address(at));
        command.args(["load", "--echo", &address, "--format", "json", "--out"]);
        let echo = Child::start(command.arg(&out), "a socket's echo")?;
        echoes.push(Booked::begin(echo, out)?);
    }
    let load = load(&of_datagrams(options), ground, socket_address);
    let load = (load, work.of("load-sockets"));
    let mut sharing = Sharing::of(options);
    let load = under_way(load, options, &mut [], (stop, &mut sharing))?;
    let share = sharing.share();
    let load = load.child.record()?;
    let echoes = echoes.into_iter().map(Booked::end);
    let told = Told {
        load,
        echoes: echoes.collect::<Result<_>>()?,
        counted: ground.counted()?.since(before),
    };
    ground.has_sockets(false)?;
    told.summed_up(options, share)
}

/// Of load that is frames: datagrams of the same number, in frames of the same length.
pub(super) fn of_datagrams(options: &Options) -> Options {
    let mut options = options.clone();
    if !options.is_raw {
        return options;
    }
    options.is_raw = false;
    let frame_bytes = options.size_bytes as u64;
    options.size_bytes = options.size_bytes.saturating_sub(HEADERS_BYTES as usize);
    for client in &mut options.clients {
        client.load_bps = client.load_bps * options.size_bytes as u64 / frame_bytes;
    }
    options
}

struct Told {
    load: Value,
    echoes: Vec<Value>,
    counted: Counted,
}

impl Told {
    fn summed_up(&self, options: &Options, share: CpuShare) -> Result<Baseline> {
        let mut lost = [0_i64; 2];
        let (mut clients, mut packets) = (Vec::new(), 0);
        for ((target, echo), said) in targets(&self.load)?
            .iter()
            .zip(&self.echoes)
            .zip(&options.clients)
        {
            let (sent, back) = (number(target, "packets_sent")?, came(target)?);
            let (taken, returned) = (
                number(&echo["udp"], "came")?,
                number(&echo["udp"], "returned")?,
            );
            lost[0] += sent as i64 - taken as i64;
            lost[1] += returned as i64 - back as i64;
            packets += taken + returned;
            let answered = number(target, "packets_answered")? * options.size_bytes as u64 * 8;
            clients.push(SocketReport {
                name: target["name"].as_str().unwrap_or_default().to_owned(),
                requested_bps: said.load_bps as f64,
                achieved_bps: answered as f64 / real(target, "answering_s")?.max(1e-9),
                rtt_ns: target["rtt_ns"].clone(),
            });
        }
        let counted = &self.counted;
        let kernels = [
            counted.there + counted.near_errors + counted.near_no_port,
            counted.back + counted.far_errors + counted.far_no_port,
        ];
        let off = lost.iter().zip(kernels);
        let off = off.map(|(lost, kernels)| lost.abs_diff(kernels as i64));
        let mut residual_items: u64 = off.sum();
        for record in std::iter::once(&self.load).chain(&self.echoes) {
            let books = closed(record)?;
            residual_items += books.residual_items + books.left_items;
        }
        let drops = [
            ("wire_there.dropped", counted.there),
            ("near_socket.full", counted.near_errors),
            ("wire_back.dropped", counted.back),
            ("far_socket.full", counted.far_errors),
        ];
        let drops: BTreeMap<String, u64> = drops
            .into_iter()
            .filter(|(_, packets)| *packets > 0)
            .map(|(name, packets)| (name.to_owned(), packets))
            .collect();
        let cpu_s: f64 = self.echoes.iter().map(cpu_s).sum();
        Ok(Baseline {
            what: match options.is_raw {
                true => {
                    "forebay load --echo: a socket of Linux in each client's place, with datagrams in frames of the same length; bits are of frames"
                }
                false => "forebay load --echo: a socket of Linux in each client's place",
            },
            requested_bps: clients.iter().map(|it| it.requested_bps).sum(),
            achieved_bps: clients.iter().map(|it| it.achieved_bps).sum(),
            rtt_ns: clients.first().map_or(Value::Null, |it| it.rtt_ns.clone()),
            clients,
            cpu_fraction: share.kernel,
            cpu_fraction_soaker: share.soaker,
            packets_per_cpu_second: packets as f64 / cpu_s.max(1e-9),
            drops,
            residual_items,
            generator_limit: limit(&self.load),
        })
    }
}
