//! Copies between GPUs, and between GPUs and the host: the plan, and what a measurement says.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::statistics;
use crate::fact::{BitRate, Percent, Seconds};
use crate::source::failed_call::failed_call;
use crate::source::{Answer, Question, Refusal, Reply, Source};

/// The name of the benchmark: `{"bench":"p2p"}`.
pub const NAME: &str = "p2p";

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Bytes of a copy.
    pub size: u64,
    /// Timed trials of each measurement.
    pub trials: u64,
    /// The GPUs, by their PCI addresses, in the order of their numbers in CUDA.
    pub gpus: Vec<Arc<str>>,
}

/// An end of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Pinned memory of the host.
    Host,
    /// The memory of a GPU, by its PCI address.
    Gpu(Arc<str>),
}

impl End {
    fn name(&self) -> &str {
        match self {
            End::Host => "host",
            End::Gpu(pci) => pci,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One measurement: copies from one end to another, or in both directions at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Where the bytes come from.
    pub from: End,
    /// Where they go.
    pub to: End,
    /// Whether as many go back at the same time.
    pub both: bool,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from, self.to)?;
        if self.both {
            f.write_str(" and back")?;
        }
        Ok(())
    }
}

impl Plan {
    /// The question to which the plan is the answer.
    pub fn question() -> Question {
        Question::bench(NAME, [])
    }

    /// The plan as a reply.
    pub fn to_value(&self) -> Value {
        // Names and numbers only: there is nothing that JSON cannot hold.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The plan of a reply.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        Deserialize::deserialize(value).map_err(|e| e.to_string())
    }

    /// The measurements in their order: each GPU with the host first, so that one that does not
    /// answer at all is known before its pairs are tried.
    pub fn cells(&self) -> Vec<Cell> {
        let gpu = |pci: &Arc<str>| End::Gpu(Arc::clone(pci));
        let mut cells = Vec::new();
        let mut ways = |a: End, b: End| {
            for (from, to, both) in [(&a, &b, false), (&b, &a, false), (&a, &b, true)] {
                cells.push(Cell {
                    from: from.clone(),
                    to: to.clone(),
                    both,
                });
            }
        };
        for pci in &self.gpus {
            ways(End::Host, gpu(pci));
        }
        for (at, first) in self.gpus.iter().enumerate() {
            for second in self.gpus.iter().skip(at + 1) {
                ways(gpu(first), gpu(second));
            }
        }
        cells
    }

    /// The question that a measurement is.
    pub fn question_of(&self, cell: &Cell) -> Question {
        let from = ("from", cell.from.name().into());
        let to = ("to", cell.to.name().into());
        let (size, trials) = (("size", self.size.into()), ("trials", self.trials.into()));
        if cell.both {
            Question::bench(NAME, [from, to, size, trials, ("both", 1.into())])
        } else {
            Question::bench(NAME, [from, to, size, trials])
        }
    }
}

/// What became of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Every byte was right in every trial.
    Verified(Numbers),
    /// Bytes came wrong: how many, in which trial.
    Corrupt(String),
    /// It was refused: by the driver, or because somebody has the GPU for himself.
    Denied(String),
    /// It ended with an error.
    Failed(String),
    /// It did not end by its deadline.
    Hung(String),
    /// It took its process along.
    Died(String),
    /// It was not tried: why.
    NotMeasured(String),
    /// The recording does not have it.
    NotRecorded,
}

/// The numbers of a measurement whose bytes were right.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// What the copies carry, both directions together where there are two: the median of the
    /// trials.
    pub bandwidth: BitRate,
    /// How far the middle half of the trials lies apart, of the median.
    pub spread: Percent,
    /// How long a small copy takes, of many in a row; not where both directions copy at once.
    pub latency: Option<Seconds>,
    /// Whether the bytes go from GPU to GPU, and not through memory of the host; `None` with the
    /// host.
    pub direct: Option<bool>,
}

impl Numbers {
    /// Whether the trials agree enough for their median to count: the middle half of them lies no
    /// further apart than this.
    pub fn is_steady(&self, most: Percent) -> bool {
        self.spread <= most
    }
}

/// `CUDA_ERROR_DEVICE_UNAVAILABLE` (another process has the GPU for itself),
/// `CUDA_ERROR_NOT_PERMITTED`.
const DENIED: [u64; 2] = [46, 800];

impl Outcome {
    /// Reads the reply to a measurement.
    pub fn of(reply: &Reply, both: bool) -> Self {
        let value = match &reply.said {
            Ok(Answer::Value(value)) => value,
            Ok(_) => return Outcome::Failed("the reply is not a measurement".into()),
            Err(Refusal::Timeout) => return Outcome::Hung("no end by the deadline".into()),
            Err(Refusal::Crash(how)) => return Outcome::Died(how.to_string()),
            Err(Refusal::NotAsked(why)) => return Outcome::NotMeasured(why.to_string()),
            Err(Refusal::NotRecorded) => return Outcome::NotRecorded,
            Err(refusal) => return Outcome::Failed(refusal.to_string()),
        };
        if let Some(failure) = failed_call(value) {
            let said = format!("{}: {}", failure.function, failure.error());
            return if DENIED.contains(&failure.code) {
                Outcome::Denied(said)
            } else {
                Outcome::Failed(said)
            };
        }
        if let Some(wrong) = value.get("wrong") {
            let part = |name: &str| wrong.get(name).and_then(Value::as_u64).unwrap_or(0);
            let all = value.get("bytes").and_then(Value::as_u64).unwrap_or(0);
            return Outcome::Corrupt(format!(
                "{} of {all} bytes are wrong, from byte {} on, in trial {}",
                part("bytes"),
                part("first"),
                part("trial"),
            ));
        }
        match numbers(value, both) {
            Some(numbers) => Outcome::Verified(numbers),
            None => Outcome::Failed("the reply is not a measurement".into()),
        }
    }

    /// The numbers, where there are any.
    pub fn numbers(&self) -> Option<&Numbers> {
        match self {
            Outcome::Verified(numbers) => Some(numbers),
            _ => None,
        }
    }

    /// Whether a copy was begun.
    pub fn was_tried(&self) -> bool {
        !matches!(self, Outcome::NotMeasured(_) | Outcome::NotRecorded)
    }

    /// One word, and what there is to say beyond it; `None` where all is right.
    pub fn trouble(&self) -> Option<(&'static str, &str)> {
        Some(match self {
            Outcome::Verified(_) => return None,
            Outcome::Corrupt(how) => ("corrupt", how),
            Outcome::Denied(how) => ("denied", how),
            Outcome::Failed(how) => ("failed", how),
            Outcome::Hung(how) => ("hung", how),
            Outcome::Died(how) => ("died", how),
            Outcome::NotMeasured(why) => ("not measured", why),
            Outcome::NotRecorded => ("not recorded", ""),
        })
    }
}

fn numbers(value: &Value, both: bool) -> Option<Numbers> {
    let times = |value: &Value| -> Option<Vec<f64>> {
        let times = value.get("ms")?.as_array()?;
        times
            .iter()
            .map(|ms| ms.as_f64().filter(|ms| *ms > 0.0))
            .collect()
    };
    // Each trial after the first was verified, and the first too.
    let ms = times(value)?;
    let verified = value.get("verified")?.as_u64()?;
    if verified != ms.len() as u64 + 1 {
        return None;
    }
    let bytes = value.get("bytes")?.as_f64()? * value.get("copies")?.as_f64()?;
    let ways = if both { 2.0 } else { 1.0 };
    let median = statistics::median(&ms)?;
    let small = value.get("small");
    let latency = small.and_then(|small| {
        let copies = small.get("copies")?.as_f64()?;
        Some(Seconds(statistics::median(&times(small)?)? / 1e3 / copies))
    });
    Some(Numbers {
        bandwidth: BitRate((ways * bytes * 8.0 / (median / 1e3)) as u64),
        spread: Percent(statistics::spread(&ms)?),
        latency,
        direct: value.get("direct").and_then(Value::as_bool),
    })
}

/// A benchmark as it was run.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// What was measured.
    pub plan: Plan,
    /// Each measurement and what became of it.
    pub cells: Vec<(Cell, Outcome)>,
}

impl Results {
    /// Asks for the plan and each measurement.
    ///
    /// # Errors
    ///
    /// The refusal of the plan: nothing was measured; or what of the plan is not understood.
    pub fn read(source: &dyn Source) -> Result<Self, Refusal> {
        let plan = match source.ask(&Plan::question()).said? {
            Answer::Value(value) => Plan::from_value(&value)
                .map_err(|what| Refusal::NotAsked(format!("no plan: {what}").into()))?,
            _ => return Err(Refusal::NotAsked("no plan".into())),
        };
        let cells = plan.cells().into_iter().map(|cell| {
            let reply = source.ask(&plan.question_of(&cell));
            let outcome = Outcome::of(&reply, cell.both);
            (cell, outcome)
        });
        Ok(Results {
            cells: cells.collect(),
            plan: plan.clone(),
        })
    }

    /// The copies from one end to another, and what became of them.
    pub fn get(&self, from: &End, to: &End, both: bool) -> Option<(&Cell, &Outcome)> {
        let found = self.cells.iter().find(|(cell, _)| {
            cell.both == both
                && ((cell.from == *from && cell.to == *to)
                    || (both && cell.from == *to && cell.to == *from))
        });
        found.map(|(cell, outcome)| (cell, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan() -> Plan {
        Plan {
            size: 1 << 20,
            trials: 3,
            gpus: ["0000:1b:00.0", "0000:43:00.0"].map(Arc::from).into(),
        }
    }

    fn outcome(value: Value, both: bool) -> Outcome {
        Outcome::of(
            &Reply {
                at: 0,
                said: Ok(Answer::Value(Arc::new(value))),
            },
            both,
        )
    }

    #[test]
    fn a_plan_is_a_reply_and_its_cells_are_questions() {
        assert_eq!(Plan::from_value(&plan().to_value()).unwrap(), plan());
        let cells = plan().cells();
        let said: Vec<String> = cells.iter().map(Cell::to_string).collect();
        assert_eq!(
            said,
            [
                "host to 0000:1b:00.0",
                "0000:1b:00.0 to host",
                "host to 0000:1b:00.0 and back",
                "host to 0000:43:00.0",
                "0000:43:00.0 to host",
                "host to 0000:43:00.0 and back",
                "0000:1b:00.0 to 0000:43:00.0",
                "0000:43:00.0 to 0000:1b:00.0",
                "0000:1b:00.0 to 0000:43:00.0 and back",
            ]
        );
        assert_eq!(
            serde_json::to_string(&plan().question_of(&cells[8])).unwrap(),
            r#"{"bench":"p2p","both":1,"from":"0000:1b:00.0","size":1048576,"to":"0000:43:00.0","trials":3}"#
        );
        for bad in [
            json!({}),
            json!({"size": 1, "trials": 1, "gpus": [1]}),
            json!(7),
        ] {
            assert!(Plan::from_value(&bad).is_err());
        }
    }

    #[test]
    fn bandwidth_is_bytes_by_the_median_time_and_counts_only_where_all_was_verified() {
        let mut value = json!({
            "bytes": 1_000_000_000u64, "copies": 4, "ms": [100.0, 80.0, 100.0], "verified": 4, "direct": true,
            "small": { "bytes": 16, "copies": 100, "ms": [0.2, 0.25, 0.3] },
        });
        let Outcome::Verified(numbers) = outcome(value.clone(), false) else {
            panic!()
        };
        assert_eq!(numbers.bandwidth, BitRate(320_000_000_000));
        assert_eq!(numbers.latency, Some(Seconds(0.25e-3 / 100.0)));
        assert_eq!(numbers.spread, Percent(10.0));
        assert!(numbers.is_steady(Percent(10.0)) && numbers.direct == Some(true));
        let Outcome::Verified(numbers) = outcome(value.clone(), true) else {
            panic!()
        };
        assert_eq!(numbers.bandwidth, BitRate(640_000_000_000));
        value["verified"] = 3.into();
        assert!(matches!(outcome(value.clone(), false), Outcome::Failed(_)));
        value["verified"] = 4.into();
        value["ms"] = json!([0.0, 1.0, 1.0]);
        assert!(matches!(outcome(value.clone(), false), Outcome::Failed(_)));
        value["wrong"] = json!({ "trial": 2, "bytes": 3, "first": 1024 });
        assert_eq!(
            outcome(value, false),
            Outcome::Corrupt(
                "3 of 1000000000 bytes are wrong, from byte 1024 on, in trial 2".into()
            )
        );
    }

    #[test]
    fn what_fails_is_told_apart() {
        let failed = |code: u64| {
            outcome(
                json!({ "failed": "cuMemcpyPeerAsync", "code": code, "error": "E" }),
                false,
            )
        };
        assert_eq!(
            failed(700),
            Outcome::Failed("cuMemcpyPeerAsync: E (700)".into())
        );
        assert!(matches!(failed(46), Outcome::Denied(_)));
        let refused = |refusal| {
            Outcome::of(
                &Reply {
                    at: 0,
                    said: Err(refusal),
                },
                false,
            )
        };
        assert!(matches!(refused(Refusal::Timeout), Outcome::Hung(_)));
        assert!(matches!(
            refused(Refusal::Crash("x".into())),
            Outcome::Died(_)
        ));
        assert_eq!(refused(Refusal::NotRecorded), Outcome::NotRecorded);
        assert_eq!(
            refused(Refusal::NotAsked("x".into())),
            Outcome::NotMeasured("x".into())
        );
        assert!(matches!(
            refused(Refusal::LibraryMissing("x".into())),
            Outcome::Failed(_)
        ));
        assert!(matches!(outcome(json!([]), false), Outcome::Failed(_)));
    }
}
