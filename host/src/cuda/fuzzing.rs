//! What fuzzing asks of what ranks tell of their GPUs, and of the text of PTX files, packed or not. See `crate::fuzzing`.

use super::connect::Told;
use super::ptx::{entry, header, relative, version};
use crate::fuzzing::canonical;

/// What a rank tells of its GPU.
pub(crate) fn gpu(bytes: &[u8]) {
    if let Some(told) = Told::decode(bytes) {
        assert_eq!(Told::decode(&told.encode()), Some(told));
    }
}

pub(crate) fn gpu_seed() -> Vec<u8> {
    b"2a00\nNVIDIA H200\n66\n1 2 3 4 5 6".to_vec()
}

/// A name on the first line, and a file of PTX: what is cut out of the file is there, and found again in what is put together of it. Read as a
/// pack's, it is what is packed again.
pub(crate) fn ptx(bytes: &[u8]) {
    let all = String::from_utf8_lossy(bytes);
    canonical(all.as_bytes(), |_| relative::decode(&all).ok(), |text| relative::encode(text).expect("text").into());
    let (name, text) = all.split_once('\n').unwrap_or(("", &all));
    let head = header(text);
    assert!(text.starts_with(head) && !head.contains(".visible .entry "));
    let version = version(text);
    assert!(version == "unknown" || text.contains(version) && !version.contains('\n'));
    if let Some(entry_text) = entry(text, name) {
        assert!(text.contains(entry_text) && entry_text.ends_with("\n}\n"));
        assert!(entry_text.starts_with(&format!(".visible .entry {name}(")));
        assert_eq!(entry_text.matches("\n}\n").count(), 1);
        let module = format!("{head}{entry_text}");
        assert_eq!((header(&module), entry(&module, name)), (head, Some(entry_text)));
    }
}

pub(crate) fn ptx_seeds() -> Vec<Vec<u8>> {
    let head = "\n//\n.version 7.8\n.target sm_90\n.address_size 64\n";
    let kernel = |name: &str| format!(".visible .entry {name}(\n.param .u64 a\n)\n{{\n\tret;\n\n}}\n");
    let file = format!("{head}{}{}", kernel("one"), kernel("another"));
    ["one", "another", "none"].map(|name| format!("{name}\n{file}").into_bytes()).to_vec()
}
