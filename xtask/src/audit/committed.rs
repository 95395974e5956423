//! What host/ptx has: the order, the scope and the width of every access that ranks share, whatever the source says.

use std::collections::BTreeSet;

use super::parse::Module;
use super::rules;
use crate::packs;

/// The files of host/ptx: their path, and their text.
fn committed() -> Vec<(String, String)> {
    let files = packs::unpack(&packs::read(&packs::committed()).unwrap()).unwrap();
    assert!(files.len() > 20, "{} files", files.len());
    files.into_iter().map(|(path, text)| (path.to_string_lossy().into_owned(), text)).collect()
}

/// All opcodes of a file with the names of their accesses, as far as they order something or pass between ranks; and whether its
/// kernels are of the protocol that is the default.
fn opcodes(text: &str) -> BTreeSet<(String, String)> {
    let module = Module::parse(text);
    let code = module.kernels.iter().flat_map(|kernel| &kernel.code);
    let of_ranks = ["acquire", "release", "acq_rel", "relaxed", "volatile", "sc", "sys", "gpu", "cta", "cluster"];
    let shared = code.filter(|it| it.parts().any(|part| of_ranks.contains(&part)) || it.verb() == "fence");
    shared.map(|it| (it.opcode.clone(), it.note.clone())).collect()
}

#[test]
fn b02_b04_b130_b134_every_access_of_host_ptx_that_ranks_share_is_of_the_system() {
    for (file, text) in committed() {
        assert_eq!(rules::check(&file, &text), []);
        let opcodes = opcodes(&text);
        let any_protocol = ["presets.ptx", "stress.ptx", "_ops.ptx"].iter().any(|end| file.ends_with(end));
        // A type without sums of its own has there the copy before a call alone.
        let waits = !file.contains("verify") && text.matches(".visible .entry ").count() > 1;
        for (opcode, note) in &opcodes {
            let parts: Vec<_> = opcode.split('.').collect();
            let volatile = parts.contains(&"volatile");
            assert!(volatile || parts.contains(&"sys"), "{file}: {opcode} is not of the system");
            assert!(!["gpu", "cta", "cluster"].iter().any(|scope| parts.contains(scope)), "{file}: {opcode}");
            // Presets of other libraries have volatile flags, by name; our own have none.
            assert!(any_protocol || !volatile || note.ends_with("_status"), "{file}: {opcode}, {note}");
        }
        let has = |opcode: &str| opcodes.iter().any(|(it, _)| it == opcode);
        if waits {
            assert!(has("st.release.sys.global.u64") && has("ld.acquire.sys.global.u64"), "{file}: {opcodes:?}");
        }
    }
}

#[test]
fn b137_every_volatile_access_of_host_ptx_is_one_of_a_whole_word() {
    let mut seen = BTreeSet::new();
    for (file, text) in committed() {
        for (opcode, note) in opcodes(&text).into_iter().filter(|(opcode, _)| opcode.contains("volatile")) {
            assert!(opcode == "ld.volatile.global.u64" || opcode == "st.volatile.global.u64", "{file}: {opcode}");
            seen.insert(note);
        }
    }
    let names = ["ld_flag_volatile", "st_flag_volatile"].map(str::to_string);
    assert!(names.iter().all(|name| seen.contains(name)) && seen.len() == names.len(), "{seen:?}");
}

#[test]
fn b123_b125_each_file_is_of_the_lowest_version_that_has_its_target() {
    for (file, text) in committed() {
        let of = |directive: &str| text.lines().find_map(|line| line.strip_prefix(directive)).map(str::trim);
        let (target, version) = (of(".target ").unwrap(), of(".version ").unwrap());
        // By the PTX ISA's table of targets: a driver that knows the GPU reads it.
        let lowest = match target {
            "sm_80" => "7.0",
            "sm_90" => "7.8",
            _ => panic!("{file}: {target} is not in this test's table"),
        };
        assert_eq!(version, lowest, "{file}: {target}");
        assert!(file.starts_with(&format!("{target}/")), "{file}: {target}");
        assert_eq!(text.matches("\n.version ").count(), 1, "{file}");
    }
}
