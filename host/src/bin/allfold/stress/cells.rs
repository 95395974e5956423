//! Which cells are run: a protocol with an algorithm and an input each.

use allfold::{Algorithm, InputMode, Preset, Protocol, Soundness};
use anyhow::{Result, bail};

use crate::args::{StressArgs, algorithm_name};
use crate::choice::{Choice, END, ORDERS, SCOPES};

/// One protocol with one algorithm and one input.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub choice: Choice,
    pub algorithm: Algorithm,
    pub input: InputMode,
    /// What the choice is for these two.
    pub form: Protocol,
    /// One of so many cells that share the calls of a run.
    pub sharing: u64,
}

impl Cell {
    pub fn soundness(&self) -> Soundness {
        self.form.soundness(self.algorithm, self.input)
    }

    pub fn in_words(&self) -> String {
        let Cell { choice, algorithm, input, .. } = self;
        format!("{}, {}, {} input", choice.in_words(), algorithm_name(*algorithm), input.name())
    }
}

/// The cells that the command line asks for, of `world` ranks.
pub fn cells(args: &StressArgs, world: usize) -> Result<Vec<Cell>> {
    let inputs = match (args.input, args.matrix || args.presets) {
        (Some(input), _) => vec![input],
        (None, true) => InputMode::ALL.to_vec(),
        (None, false) => vec![InputMode::Registered],
    };
    let algorithms = args.algo.map_or(Algorithm::ALL.to_vec(), |algorithm| vec![algorithm]);
    let calls: Vec<_> = algorithms
        .iter()
        .filter(|a| a.takes(world as u32))
        .flat_map(|&a| inputs.iter().map(move |&input| (a, input)))
        .collect();
    let cell = |choice: Choice, (algorithm, input)| {
        Some(Cell { choice, algorithm, input, form: choice.form(algorithm, input)?, sharing: 1 })
    };
    if args.matrix {
        return Ok(calls.into_iter().flat_map(|call| custom().filter_map(move |choice| cell(choice, call))).collect());
    }
    if args.presets {
        let forms_of = |preset| calls.iter().filter_map(|&call| cell(Choice::Preset(preset), call)).collect();
        let shared = Preset::ALL.into_iter().flat_map(|preset| {
            let forms: Vec<Cell> = forms_of(preset);
            let sharing = forms.len() as u64;
            forms.into_iter().map(move |form| Cell { sharing, ..form })
        });
        return Ok(shared.collect());
    }
    let choice = Choice::new(&args.protocol);
    let cells: Vec<_> = calls.into_iter().filter_map(|call| cell(choice, call)).collect();
    if cells.is_empty() {
        bail!("{} has no form for {} input", choice.in_words(), inputs[0].name());
    }
    Ok(cells)
}

/// Every start with every order and every end.
fn custom() -> impl Iterator<Item = Choice> {
    let starts = SCOPES.into_iter().flat_map(|scope| ORDERS.map(|order| (scope, order)));
    starts.flat_map(|(scope, order)| END.map(|end| Choice::custom(scope, order, end)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn asked(line: &str) -> Result<Vec<Cell>> {
        let words = ["allfold", "stress"].into_iter().chain(line.split_whitespace());
        let Command::Stress(args) = Args::try_parse_from(words)?.command else { panic!("asked for stress") };
        cells(&args, 2)
    }

    #[test]
    fn the_matrix_has_96_cells_all_different() {
        let all = asked("--matrix").expect("possible");
        let different: HashSet<_> = all.iter().map(|cell| (cell.algorithm, cell.input, cell.form)).collect();
        assert_eq!((all.len(), different.len()), (96, 96));
        assert!(all.iter().all(|cell| cell.sharing == 1));
        assert_eq!(asked("--matrix --algo one-shot --input copied").expect("possible").len(), 16);
    }

    #[test]
    fn a_preset_has_the_forms_that_it_has_and_they_share_its_calls() {
        let all = asked("--presets").expect("possible");
        for preset in Preset::ALL {
            let of_preset: Vec<_> = all.iter().filter(|cell| cell.choice == Choice::Preset(preset)).collect();
            assert!(!of_preset.is_empty() && of_preset.iter().all(|cell| cell.sharing == of_preset.len() as u64));
        }
        let of_vllm = all.iter().filter(|cell| cell.choice == Choice::Preset(Preset::Vllm));
        assert_eq!(of_vllm.filter(|cell| cell.input == InputMode::Copied).count(), 0);
    }

    #[test]
    fn one_protocol_is_every_algorithm_that_has_it_unless_one_is_asked_for() {
        assert_eq!(asked("").expect("possible").len(), Algorithm::ALL.len());
        assert_eq!(asked("--protocol vllm").expect("possible").len(), Algorithm::OF_ANY_PROTOCOL.len());
        assert_eq!(asked("--algo two-shot --start block --order volatile --end parity").expect("possible").len(), 1);
        let error = asked("--protocol vllm --input copied").expect_err("vllm has no such form");
        assert_eq!(error.to_string(), "protocol vllm has no form for copied input");
        for line in ["--matrix --presets", "--matrix --protocol vllm", "--presets --end none", "--matrix --start block"]
        {
            assert!(asked(line).is_err(), "{line}");
        }
    }
}
