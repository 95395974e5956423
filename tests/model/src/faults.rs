//! The mutation check: every strength of the sound protocols is taken away, one at a time, and the model must notice.

use allfold_kernels::protocol::abi::{Algorithm, InputMode, Phase};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::spec::{Check, Order, Protocol, Reuse, Scope};

use serde::{Deserialize, Serialize};

use crate::assumptions::Assumptions;
use crate::cell::{Cell, Efforts, SHAPES, Verdict};
use crate::explore::Subject;
use crate::mutants::Mutation;
use crate::program::{Call, Program, Usage};
use crate::search::{Counterexample, Coverage, search};

/// One fault in one protocol.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Whose protocol.
    pub preset: Preset,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The input mode.
    pub input: InputMode,
    /// The protocol with the fault, where it is in the protocol.
    pub protocol: Protocol,
    /// The fault, where it is in the machine.
    pub mutation: Mutation,
    /// In words.
    pub name: String,
}

/// What the model said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Fate {
    /// It fails; and the assumptions with which it would not, for a weaker memory order.
    Killed(Box<Counterexample>, Option<Verdict>),
    /// No execution that was explored fails: how deep each program was explored.
    Survived(Vec<Coverage>),
}

/// Presets whose protocols are taken apart.
const PRESETS: [Preset; 2] = [Preset::Allfold, Preset::Trtllm];

/// All faults, protocol by protocol.
pub fn all() -> Vec<Fault> {
    let forms = PRESETS.into_iter().flat_map(|preset| {
        Algorithm::OF_ANY_PROTOCOL
            .into_iter()
            .flat_map(move |algorithm| InputMode::ALL.map(|input| (preset, algorithm, input)))
    });
    let of_form = |(preset, algorithm, input): (Preset, _, _)| {
        let protocol = preset.protocol(algorithm, input)?;
        let fault = |(name, mutation, protocol)| Fault { preset, algorithm, input, protocol, mutation, name };
        Some(in_protocol(protocol, algorithm, input).into_iter().map(fault).collect::<Vec<_>>())
    };
    forms.filter_map(of_form).flatten().collect()
}

fn in_protocol(protocol: Protocol, algorithm: Algorithm, input: InputMode) -> Vec<(String, Mutation, Protocol)> {
    let two_shot = algorithm == Algorithm::TwoShot;
    // No preset here has a block sync after its end barrier.
    let end = if let Reuse::EndBarrier { order, .. } = protocol.reuse { Some(order) } else { None };
    let mut faults = Vec::new();
    let mut machine = |name: String, mutation| faults.push((name, mutation, protocol));

    let mut phases = vec![(Phase::Start, "start", protocol.start.order)];
    phases.extend(two_shot.then_some((Phase::Middle, "middle", protocol.middle)));
    phases.extend(end.map(|order| (Phase::End, "end", order)));
    for &(phase, name, order) in &phases {
        if order == Order::ReleaseAcquire {
            machine(format!("{name}: release becomes volatile"), Mutation::WeakStore(phase));
            machine(format!("{name}: acquire becomes volatile"), Mutation::WeakLoad(phase));
        }
        machine(format!("{name}: nobody waits"), Mutation::NoWait(phase));
        machine(format!("{name}: nobody announces"), Mutation::NoArrive(phase));
        machine(format!("{name}: no barrier"), Mutation::NoBarrier(phase));
    }

    let mut syncs = Vec::new();
    syncs.extend(protocol.start.sync_before.then_some("before start"));
    syncs.push("after start");
    syncs.extend(if two_shot { &["before middle", "after middle"][..] } else { &[] });
    syncs.extend(end.map(|_| "before end"));
    for (number, place) in (0..).zip(syncs) {
        machine(format!("no block sync {place}"), Mutation::NoSync(number));
    }

    if two_shot {
        machine("each block gathers the other block's chunks".into(), Mutation::OtherReduced);
    } else if input == InputMode::Copied {
        machine("each block reads the other block's copies".into(), Mutation::OtherStaged);
    }
    machine("a block moves its own epoch word only".into(), Mutation::OwnEpochOnly);
    if phases.len() > 1 || protocol.start.scope == Scope::Block {
        machine("one flag row for all blocks".into(), Mutation::OneFlagBlock);
    }
    if phases.len() > 1 {
        machine("one flag row for all phases".into(), Mutation::OneFlagPhase);
    }
    machine("one bank of flags".into(), Mutation::OneFlagBank);

    let equal = Protocol { check: Check::Equal, ..protocol };
    if protocol.check == Check::Reached {
        faults.push(("equality in place of \"reached\"".into(), Mutation::Nothing, equal));
        faults.push(("one bank of flags, and equality".into(), Mutation::OneFlagBank, equal));
    }
    if protocol.alternates() {
        let single = Protocol { reuse: Reuse::Nothing, ..protocol };
        faults.push(("one staging bank".into(), Mutation::Nothing, single));
    }
    if protocol.copy_in {
        let mut multi_gpu = protocol;
        multi_gpu.start.scope = Scope::MultiGpu;
        faults.push(("multi-GPU start barrier".into(), Mutation::Nothing, multi_gpu));
    }
    faults
}

impl Fault {
    /// What the caller may do with such a protocol.
    fn cells(&self) -> Vec<Cell> {
        let usages = if self.input.staged() { &[Usage::InTurn][..] } else { &[Usage::Rewritten, Usage::InTurn] };
        let cell = |&usage| Cell { algorithm: self.algorithm, input: self.input, protocol: self.protocol, usage };
        usages.iter().map(cell).collect()
    }

    /// Every program that could notice: each shape; a grid that shrinks and grows again; after the other algorithm.
    fn programs(&self) -> Vec<Program> {
        let cells = self.cells();
        let mut programs: Vec<_> = cells.iter().flat_map(|cell| SHAPES.map(|shape| cell.program(shape))).collect();
        let usage = cells[0].usage;
        let [small, two_blocks, ..] = SHAPES;
        let mut row = |shape, calls: [(&Cell, u32); 3]| {
            let calls = calls.map(|(cell, blocks)| Call { blocks, ..cell.call(shape) }).to_vec();
            programs.push(Program { shape, calls, usage, ..Program::EMPTY });
        };
        let this = &cells[0];
        row(two_blocks, [(this, 2), (this, 1), (this, 2)]);
        let other = match self.algorithm {
            Algorithm::OneShot => Algorithm::TwoShot,
            Algorithm::TwoShot
            | Algorithm::OneShotPush
            | Algorithm::TwoShotPush
            | Algorithm::OnePass
            | Algorithm::Exchange => Algorithm::OneShot,
        };
        // How a flag is tested is one choice for a whole communicator. Which of its forms have banks is not: there the
        // question is whether this one may do without.
        if let Some(protocol) = self.preset.protocol(other, self.input) {
            let protocol = Protocol { check: self.protocol.check, ..protocol };
            let other = &Cell { algorithm: other, protocol, ..*this };
            row(small, [(other, 1), (other, 1), (this, 1)]);
            row(two_blocks, [(other, 2), (other, 1), (this, 2)]);
        }
        programs
    }

    /// Whether the model notices.
    pub fn fate(&self, efforts: Efforts) -> Fate {
        let ask = |program: Program| {
            let effort = efforts(&program);
            search(&Subject { program, assumptions: Assumptions::NONE, mutation: self.mutation }, effort)
        };
        let found = match self.programs().into_iter().map(ask).collect::<Result<Vec<_>, _>>() {
            Ok(coverages) => return Fate::Survived(coverages),
            Err(found) => found,
        };
        let weaker_order = match self.mutation {
            Mutation::WeakStore(_) | Mutation::WeakLoad(_) => Some(self.cells()[0].verdict(self.mutation, efforts)),
            Mutation::Nothing
            | Mutation::NoArrive(_)
            | Mutation::NoWait(_)
            | Mutation::NoBarrier(_)
            | Mutation::NoSync(_)
            | Mutation::OtherStaged
            | Mutation::OtherReduced
            | Mutation::OwnEpochOnly
            | Mutation::OneFlagBank
            | Mutation::OneFlagPhase
            | Mutation::OneFlagBlock
            | Mutation::NoClear
            | Mutation::Generations(_)
            | Mutation::SamePlaces
            | Mutation::OtherPlace
            | Mutation::SumsOnTerms
            | Mutation::StuckCursor
            | Mutation::OwnCursorOnly
            | Mutation::Forgotten
            | Mutation::TwoOn => None,
        };
        Fate::Killed(found, weaker_order)
    }
}

/// Why a fault makes no difference; every survivor must have its reason here.
pub fn why_it_survives(fault: &str) -> Option<&'static str> {
    match fault {
        "one bank of flags" => Some(
            "\"reached\" takes the epoch of the next call too, and a peer cannot be further than that. The banks are \
             there for the test for equality, which the presets have. They cost memory and no instruction.",
        ),
        "equality in place of \"reached\"" => Some(
            "with two banks, a flag of this call's bank cannot hold the next call's epoch. Both tests cost the same.",
        ),
        "one bank of flags, and equality" => Some(
            "where a call has two barriers, each keeps the other's flags from being overwritten too early. Forms with \
             one barrier a call hang (see the table).",
        ),
        _ => None,
    }
}
