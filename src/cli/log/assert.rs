//! `--assert`: a claim about the transport, and whether the log proves it.

use std::io::{self, Write};

use clap::ValueEnum;

use crate::exit::Exit;
use crate::fact::run::Carrier;
use crate::report::log::{LogAnswers, ShownTransport};

/// What is claimed of the traffic between the nodes of each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Claim {
    /// All of it goes over RDMA
    Rdma,
    /// All channels over RDMA use GPUDirect, in both directions
    Gdr,
    /// All of it goes over TCP sockets
    Socket,
    /// All of it goes over RDMA of EFA
    Efa,
    /// All of it goes over NVLink
    Nvlink,
}

/// What a log says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Proven,
    Disproved,
    Unknown,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Proven => "proven",
            Outcome::Disproved => "disproved",
            Outcome::Unknown => "cannot be told",
        }
    }

    /// What two runs show together: one that disproves a claim settles it.
    fn and(self, other: Outcome) -> Outcome {
        match (self, other) {
            (Outcome::Disproved, _) | (_, Outcome::Disproved) => Outcome::Disproved,
            (Outcome::Unknown, _) | (_, Outcome::Unknown) => Outcome::Unknown,
            (Outcome::Proven, Outcome::Proven) => Outcome::Proven,
        }
    }
}

/// Writes a line for each claim, and gives the exit status: 0 where all are proven, 1 where one is
/// disproved, else 3.
pub(super) fn write(out: &mut dyn Write, log: &LogAnswers, claims: &[Claim]) -> io::Result<Exit> {
    let mut all = Outcome::Proven;
    for claim in claims {
        let outcome = of_log(*claim, log);
        all = all.and(outcome);
        let name = claim.to_possible_value();
        let name = name.as_ref().map_or("", |name| name.get_name());
        let sentences: Vec<String> = log
            .answers
            .iter()
            .map(|answer| answer.sentence.to_string())
            .collect();
        let said = match sentences.as_slice() {
            [] => "no line of this log is of a run of NCCL".to_owned(),
            sentences => sentences.join("; "),
        };
        writeln!(out, "{name}: {}: {said}", outcome.word())?;
    }
    Ok(match all {
        Outcome::Proven => Exit::Healthy,
        Outcome::Disproved => Exit::Warnings,
        Outcome::Unknown => Exit::Undecided,
    })
}

/// What the runs of a log show together.
fn of_log(claim: Claim, log: &LogAnswers) -> Outcome {
    let runs = log.transports.iter().map(|shown| of_run(claim, shown));
    runs.reduce(Outcome::and).unwrap_or(Outcome::Unknown)
}

fn of_run(claim: Claim, shown: &ShownTransport) -> Outcome {
    // On one node nothing shows how two would speak.
    if shown.is_one_node {
        return Outcome::Unknown;
    }
    match claim {
        Claim::Rdma => of_carrier(Carrier::Rdma, shown),
        Claim::Socket => of_carrier(Carrier::Socket, shown),
        Claim::Nvlink => of_carrier(Carrier::Nvlink, shown),
        Claim::Gdr => match of_carrier(Carrier::Rdma, shown) {
            Outcome::Proven => direct(shown),
            other => other,
        },
        Claim::Efa => match (of_carrier(Carrier::Rdma, shown), shown.is_efa) {
            (_, Some(false)) => Outcome::Disproved,
            (carried, Some(true)) => carried,
            (Outcome::Disproved, None) => Outcome::Disproved,
            (_, None) => Outcome::Unknown,
        },
    }
}

/// Whether this carried the traffic. What was chosen and is not seen in use proves nothing; a choice
/// of sockets rules out the others.
fn of_carrier(wanted: Carrier, shown: &ShownTransport) -> Outcome {
    match shown.carrier {
        Some(carrier) if carrier == wanted && shown.is_used => Outcome::Proven,
        Some(Carrier::Plugin) | None => Outcome::Unknown,
        Some(carrier) if carrier == wanted => Outcome::Unknown,
        Some(Carrier::Socket) => Outcome::Disproved,
        Some(_) if shown.is_used => Outcome::Disproved,
        Some(_) => Outcome::Unknown,
    }
}

/// Whether all channels over RDMA use GPUDirect, both those that send and those that receive.
fn direct(shown: &ShownTransport) -> Outcome {
    match shown.channels {
        Some(all) if all.send_gdr < all.send || all.receive_gdr < all.receive => Outcome::Disproved,
        Some(all) if all.send > 0 && all.receive > 0 => Outcome::Proven,
        _ => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{Claim, Outcome, of_run};
    use crate::fact::run::Carrier;
    use crate::report::log::{Channels, ShownTransport};

    fn shown(carrier: Option<Carrier>, is_used: bool) -> ShownTransport {
        ShownTransport {
            carrier,
            is_used,
            is_one_node: false,
            channels: None,
            is_efa: None,
        }
    }

    #[test]
    fn what_is_used_proves_and_what_is_chosen_does_not() {
        let used = shown(Some(Carrier::Rdma), true);
        assert_eq!(of_run(Claim::Rdma, &used), Outcome::Proven);
        assert_eq!(of_run(Claim::Socket, &used), Outcome::Disproved);
        let chosen = shown(Some(Carrier::Rdma), false);
        assert_eq!(of_run(Claim::Rdma, &chosen), Outcome::Unknown);
        assert_eq!(of_run(Claim::Socket, &chosen), Outcome::Unknown);
        let sockets = shown(Some(Carrier::Socket), false);
        assert_eq!(of_run(Claim::Rdma, &sockets), Outcome::Disproved);
        assert_eq!(of_run(Claim::Socket, &sockets), Outcome::Unknown);
        let mixed = shown(Some(Carrier::Mixed), true);
        assert_eq!(of_run(Claim::Rdma, &mixed), Outcome::Disproved);
        for carrier in [None, Some(Carrier::Plugin)] {
            assert_eq!(of_run(Claim::Rdma, &shown(carrier, true)), Outcome::Unknown);
        }
        let alone = ShownTransport {
            is_one_node: true,
            ..used
        };
        assert_eq!(of_run(Claim::Rdma, &alone), Outcome::Unknown);
    }

    #[test]
    fn gpudirect_is_claimed_of_both_directions() {
        let of = |send, send_gdr, receive, receive_gdr| {
            let channels = Channels {
                all: send + receive,
                rdma: send + receive,
                socket: 0,
                send,
                send_gdr,
                receive,
                receive_gdr,
            };
            let shown = ShownTransport {
                channels: Some(channels),
                ..shown(Some(Carrier::Rdma), true)
            };
            of_run(Claim::Gdr, &shown)
        };
        assert_eq!(of(2, 2, 2, 2), Outcome::Proven);
        assert_eq!(of(2, 2, 2, 1), Outcome::Disproved);
        assert_eq!(of(0, 0, 2, 2), Outcome::Unknown);
        assert_eq!(of(0, 0, 2, 0), Outcome::Disproved);
    }

    #[test]
    fn efa_is_told_by_its_provider() {
        let rdma = |is_efa| ShownTransport {
            is_efa,
            ..shown(Some(Carrier::Rdma), true)
        };
        assert_eq!(of_run(Claim::Efa, &rdma(Some(true))), Outcome::Proven);
        assert_eq!(of_run(Claim::Efa, &rdma(Some(false))), Outcome::Disproved);
        assert_eq!(of_run(Claim::Efa, &rdma(None)), Outcome::Unknown);
    }
}
