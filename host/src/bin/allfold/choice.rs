//! The protocol that a command line asks for, its parts by the names that users have for them, and what is known of it.

use allfold::{Algorithm, Check, InputMode, Options, Order, Preset, Protocol, Reuse, Scope, Soundness, Start};

use crate::args::{ProtocolArgs, algorithm_name};

/// Who can announce at the start.
pub const SCOPES: [Scope; 2] = [Scope::MultiGpu, Scope::Block];
/// The orders that a barrier can have.
pub const ORDERS: [Order; 2] = [Order::Volatile, Order::ReleaseAcquire];
/// What can protect an input's reuse.
pub const END: [Reuse; 4] = [
    Reuse::EndBarrier { order: Order::Volatile, sync_after: false },
    Reuse::EndBarrier { order: Order::ReleaseAcquire, sync_after: false },
    Reuse::Parity,
    Reuse::Nothing,
];

pub const fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::MultiGpu => "multi-gpu",
        Scope::Block => "block",
    }
}

pub const fn order_name(order: Order) -> &'static str {
    match order {
        Order::Volatile => "volatile",
        Order::ReleaseAcquire => "release-acquire",
    }
}

pub const fn end_name(end: Reuse) -> &'static str {
    match end {
        Reuse::EndBarrier { order: Order::Volatile, .. } => "barrier-volatile",
        Reuse::EndBarrier { order: Order::ReleaseAcquire, .. } => "barrier-release-acquire",
        Reuse::Parity => "parity",
        Reuse::Nothing => "none",
    }
}

/// A protocol, by name or by its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Preset(Preset),
    Custom(Protocol),
}

impl Choice {
    pub fn new(args: &ProtocolArgs) -> Choice {
        match (args.start, args.order, args.end) {
            (Some(scope), Some(order), Some(end)) => Choice::custom(scope, order, end),
            _ => Choice::Preset(args.protocol.unwrap_or_default()),
        }
    }

    /// The protocol of these parts; the others are those of our own.
    pub const fn custom(scope: Scope, order: Order, reuse: Reuse) -> Choice {
        // Block 0 alone speaks of nothing that its block did.
        let sync_before = match scope {
            Scope::MultiGpu => false,
            Scope::Block => true,
        };
        let start = Start { scope, order, sync_before };
        Choice::Custom(Protocol { copy_in: false, start, middle: Order::ReleaseAcquire, reuse, check: Check::Reached })
    }

    /// `options` with this protocol.
    pub fn of(self, options: Options) -> Options {
        match self {
            Choice::Preset(protocol) => Options { protocol, custom: None, ..options },
            Choice::Custom(protocol) => Options { custom: Some(protocol), ..options },
        }
    }

    /// What calls of this algorithm and input follow; none where a named protocol has no such form.
    pub fn form(self, algorithm: Algorithm, input: InputMode) -> Option<Protocol> {
        // Alone: beside a push, staging would be kept.
        self.of(Options { algorithms: vec![algorithm], ..Options::default() }).form(algorithm, input)
    }

    /// For tables: a preset's name, or that it is none.
    pub const fn name(self) -> &'static str {
        match self {
            Choice::Preset(preset) => preset.name(),
            Choice::Custom(_) => "custom protocol",
        }
    }

    /// For sentences: `protocol vllm`, or what a custom one is made of.
    pub fn in_words(self) -> String {
        match self {
            Choice::Preset(preset) => format!("protocol {}", preset.name()),
            Choice::Custom(Protocol { start, reuse, .. }) => {
                let (scope, order) = (scope_name(start.scope), order_name(start.order));
                format!("custom protocol ({scope} {order} start, end {})", end_name(reuse))
            }
        }
    }

    /// What a user has to know before the numbers, a line each.
    pub fn notes(self, algorithms: &[Algorithm], input: InputMode) -> Vec<String> {
        let known =
            |&algorithm: &Algorithm| Some((algorithm, self.form(algorithm, input)?.soundness(algorithm, input)));
        let verdicts: Vec<_> = algorithms.iter().filter_map(known).collect();
        let alike = verdicts.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let notes =
            verdicts.iter().take(if alike { 1 } else { verdicts.len() }).filter_map(|&(algorithm, soundness)| {
                let which = if alike { String::new() } else { format!(", {}", algorithm_name(algorithm)) };
                let subject = format!("{} with {} input{which}", self.in_words(), input.name());
                match soundness {
                    Soundness::Sound => None,
                    Soundness::RestsOn(what) => {
                        let each =
                            what.iter().map(|assumption| format!("{} ({})", assumption.name(), assumption.says()));
                        Some(format!("{subject} rests on {}", each.collect::<Vec<_>>().join(" and ")))
                    }
                    Soundness::NotKnown(why) => Some(format!("{subject} is not known to be sound: {why}")),
                }
            });
        notes.collect()
    }
}

/// A verdict in a few words: of assumptions the names alone.
pub fn verdict(soundness: Soundness) -> String {
    match soundness {
        Soundness::Sound => "sound".to_owned(),
        Soundness::RestsOn(what) => {
            let names = what.iter().map(|assumption| assumption.name());
            format!("rests on {}", names.collect::<Vec<_>>().join(", "))
        }
        Soundness::NotKnown(_) => "not known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use allfold::Assumption;

    use super::*;

    fn verdicts() -> impl Iterator<Item = Soundness> {
        let starts = SCOPES.into_iter().flat_map(|scope| ORDERS.map(|order| (scope, order)));
        let forms = starts.flat_map(|(scope, order)| END.map(|end| Choice::custom(scope, order, end)));
        forms.flat_map(|choice| {
            let calls = Algorithm::ALL.into_iter().flat_map(|a| InputMode::ALL.map(|input| (a, input)));
            calls.filter_map(move |(a, input)| Some(choice.form(a, input)?.soundness(a, input))).collect::<Vec<_>>()
        })
    }

    #[test]
    fn a_verdict_keeps_the_names_of_every_assumption() {
        assert_eq!(verdict(Soundness::Sound), "sound");
        let expected = "rests on KernelEndPublishes, PollOrdersLoads, LoadsDoneBeforeBarrier";
        assert_eq!(verdict(Soundness::RestsOn(&Assumption::ALL)), expected);
        assert!(verdicts().any(|soundness| matches!(soundness, Soundness::RestsOn(what) if !what.is_empty())));
    }

    #[test]
    fn each_input_mode_decides_whether_a_custom_protocol_copies_in() {
        let choice = Choice::custom(Scope::Block, Order::Volatile, Reuse::Parity);
        for (input, copies) in InputMode::ALL.into_iter().zip([false, false, true]) {
            assert_eq!(choice.form(Algorithm::OneShot, input).map(|form| form.copy_in), Some(copies), "{input:?}");
        }
        assert_eq!(choice.in_words(), "custom protocol (block volatile start, end parity)");
    }
}
