//! Relative names: how packs write registers and labels, so that kernels that do the same read the same. Uses the standard library alone, for
//! `xtask` has this file, too: it writes packs, and the program reads them.
//!
//! A register of PTX has a number, which says how many of its class the compiler has made before: one more in front, and all that follow
//! are others. In a pack it is `%r@` where a kernel first names it, and from then on how many of its class have come up since: `%r0` is the
//! newest, `%r1` the one before. So it is with labels, `$L@` and `$L0`. What comes out counts from 1 in each kernel, in the order in which
//! names come up: `cargo xtask build-ptx` gives kernels these names, whatever the compiler called them, so that a text comes out as it went in.
//!
//! All else stays as it is: special registers, parameters, comments, and declarations: `%r<292>` says how many the compiler has made, which
//! are no fewer than come up.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Write};

/// What the name of a relative text ends in within a pack, in the place of `ptx`.
pub const EXTENSION: &str = "relative";

/// What is numbered, the most frequent first: registers by their class in LLVM's back end, and labels.
const CLASSES: [&str; 10] = ["%rd", "%r", "%p", "%rs", LABEL, "%f", "%fd", "%rq", "%h", "%hh"];

const LABEL: &str = "$L";

/// How a line begins from which on numbers begin anew.
const KERNEL: &str = ".visible .entry ";

/// What a name has for a number where it comes up first.
const FIRST: &str = "@";

/// A name that stands for none: what it has for a number is none, or goes back further than there are names.
#[derive(Debug, PartialEq, Eq)]
pub struct NoSuchName {
    line: usize,
    name: String,
    before: u32,
}

impl fmt::Display for NoSuchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}, with {} of its class before it", self.line, self.name, self.before)
    }
}

impl Error for NoSuchName {}

/// The text that `packed` stands for.
///
/// # Errors
/// When a name in it stands for none.
pub fn decode(packed: &str) -> Result<String, NoSuchName> {
    rewrite(packed, |seen, name, out| {
        let count = &mut seen.counts[name.class];
        if name.number == FIRST {
            *count = count.checked_add(1)?;
            return write!(out, "{count}").ok();
        }
        let written = name.number == "0" || !name.number.starts_with('0');
        let back: u32 = name.number.parse().ok().filter(|_| written)?;
        let number = count.checked_sub(back).filter(|number| *number > 0)?;
        write!(out, "{number}").ok()
    })
}

/// What stands for `text` in a pack, or for the same with other names: [`decode`] gives them anew.
///
/// # Errors
/// When `text` is relative already.
#[allow(dead_code, reason = "the program reads packs and writes none")]
pub fn encode(text: &str) -> Result<String, NoSuchName> {
    rewrite(text, |seen, name, out| {
        if name.number.starts_with(FIRST) {
            return None;
        }
        let count = &mut seen.counts[name.class];
        if let Some(number) = seen.numbers.get(&(name.class, name.number)) {
            return write!(out, "{}", *count - number).ok();
        }
        *count = count.checked_add(1)?;
        seen.numbers.insert((name.class, name.number), *count);
        out.push_str(FIRST);
        Some(())
    })
}

/// What has come up in a kernel.
#[derive(Default)]
struct Seen<'a> {
    /// How many names of each class.
    counts: [u32; CLASSES.len()],
    /// How many there were with each name, by class and what it had for a number; only for [`encode`].
    numbers: HashMap<(usize, &'a str), u32>,
}

/// A register's name, or a label's.
struct Name<'a> {
    /// Its class, by its place among [`CLASSES`].
    class: usize,
    /// What follows that: digits, what LLVM has for them in labels, or what begins with [`FIRST`].
    number: &'a str,
    /// Where the name begins in its line.
    start: usize,
    /// Where it ends.
    end: usize,
}

/// `text` with what `number` writes for the number of each name.
fn rewrite<'a>(
    text: &'a str,
    number: impl Fn(&mut Seen<'a>, &Name<'a>, &mut String) -> Option<()>,
) -> Result<String, NoSuchName> {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut seen = Seen::default();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.starts_with(KERNEL) {
            seen = Seen::default();
        }
        let mut copied = 0;
        while let Some(name) = next(line, copied) {
            out.push_str(&line[copied..name.end - name.number.len()]);
            number(&mut seen, &name, &mut out).ok_or_else(|| NoSuchName {
                line: index + 1,
                name: line[name.start..name.end].to_string(),
                before: seen.counts[name.class],
            })?;
            copied = name.end;
        }
        out.push_str(&line[copied..]);
    }
    Ok(out)
}

/// The first name in `line` from `from` on and before a comment.
fn next(line: &str, from: usize) -> Option<Name<'_>> {
    let bytes = line.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        let start = at;
        at += 1;
        match bytes[start] {
            b'/' if bytes.get(at) == Some(&b'/') => return None,
            b'%' => {}
            // Within a longer word it begins no label.
            b'$' if start == 0 || !is_of_word(bytes[start - 1]) => {}
            _ => continue,
        }
        at = end_of_word(bytes, at);
        let digits = bytes[start..at].iter().position(u8::is_ascii_digit).map_or(at, |digits| start + digits);
        let (class, number, end) = if digits == at {
            // As in `@%p@`; where nothing of the kind follows it is no name, as in `%r<292>`.
            if bytes.get(at) != Some(&b'@') {
                continue;
            }
            (&line[start..at], at, end_of_word(bytes, at + 1))
        } else if line[start..at].starts_with("$L__BB") {
            (LABEL, start + LABEL.len(), at)
        } else if bytes[digits..at].iter().all(u8::is_ascii_digit) {
            (&line[start..digits], digits, at)
        } else {
            continue;
        };
        if let Some(class) = CLASSES.iter().position(|it| *it == class) {
            return Some(Name { class, number: &line[number..end], start, end });
        }
    }
    None
}

fn end_of_word(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|byte| !is_of_word(*byte)).map_or(bytes.len(), |length| from + length)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a compiler names it: numbers with gaps, in any order, and all that is no name.
    const COMPILED: &str = "// allfold: %r7 $L__BB1_1
.visible .entry f32__a_w2(
	.param .align 16 .b8 f32__a_w2_param_0[400]
)
{
	.reg .pred 	%p<185>;
	.reg .b32 	%r<292>;
	ld.param.v2.b64 	{%rd120, %rd17}, [f32__a_w2_param_0+352];
	ld.param.v2.b64 	{%rd17,%rd120}, [f32__x$L3_param_0];
	mov.u32 	%r289, %tid.x; // ld_pack %r289
	add.s32 	%r5, %r289, %ctaid.x; mov.u32 %r6, %envreg6; mov.u32 %r1a, %pm0;
	mov.u64 	%rd3, %globaltimer; mov.u64 %rd3, %clock64; mov.b32 %f1, %laneid;
	setp.ne.u32 p, %r5, 0; mov.b16 %rs46, 7/2;
	@%p4 bra 	$L__BB235_2;
	@!%p4 bra 	$L__BB235_12;
	{ .reg .b16 one; mul.lo.u32 %r5, %r289, one; }
$L__BB235_2:
	brx.idx %r6, $L_brx_0;
$L__BB235_12:
	ret;
}
.visible .entry f32__b_w2()
{
	mov.u32 	%r289, %ntid.x;
	bra 	$L__BB7_9;
$L__BB7_9:
	ret; // é, and no line's end after it
}";

    /// The same as it is packed.
    const PACKED: &str = "// allfold: %r7 $L__BB1_1
.visible .entry f32__a_w2(
	.param .align 16 .b8 f32__a_w2_param_0[400]
)
{
	.reg .pred 	%p<185>;
	.reg .b32 	%r<292>;
	ld.param.v2.b64 	{%rd@, %rd@}, [f32__a_w2_param_0+352];
	ld.param.v2.b64 	{%rd0,%rd1}, [f32__x$L3_param_0];
	mov.u32 	%r@, %tid.x; // ld_pack %r289
	add.s32 	%r@, %r1, %ctaid.x; mov.u32 %r@, %envreg6; mov.u32 %r1a, %pm0;
	mov.u64 	%rd@, %globaltimer; mov.u64 %rd0, %clock64; mov.b32 %f@, %laneid;
	setp.ne.u32 p, %r1, 0; mov.b16 %rs@, 7/2;
	@%p@ bra 	$L@;
	@!%p0 bra 	$L@;
	{ .reg .b16 one; mul.lo.u32 %r1, %r2, one; }
$L1:
	brx.idx %r0, $L_brx_0;
$L0:
	ret;
}
.visible .entry f32__b_w2()
{
	mov.u32 	%r@, %ntid.x;
	bra 	$L@;
$L0:
	ret; // é, and no line's end after it
}";

    #[test]
    fn names_are_relative_in_a_pack_and_count_from_one_in_each_kernel_out_of_it() {
        assert_eq!(encode(COMPILED).as_deref(), Ok(PACKED));
        let text = decode(PACKED).expect("a pack's");
        for part in [
            "{%rd1, %rd2}, [f32__a_w2_param_0+352]",
            "{%rd2,%rd1}",
            "mov.u32 	%r1, %tid.x; // ld_pack %r289",
            "%r2, %r1, %ctaid.x; mov.u32 %r3, %envreg6; mov.u32 %r1a, %pm0;",
            "@%p1 bra 	$L1;\n	@!%p1 bra 	$L2;",
            "mul.lo.u32 %r2, %r1, one; }\n$L1:\n	brx.idx %r3, $L_brx_0;\n$L2:",
            "mov.u32 	%r1, %ntid.x;\n	bra 	$L1;\n$L1:",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn what_came_out_of_a_pack_goes_in_and_out_as_it_is() {
        let text = decode(PACKED).expect("a pack's");
        assert_eq!(encode(&text).as_deref(), Ok(PACKED));
        for text in
            ["", "\n", "%", "$", "%r", "a$L1", "%r1%r1$L2", "%p1@%p1", "//%r@", "%rz9 %r<9> $L__BB", "é%r1é$L1é"]
        {
            assert_eq!(decode(&encode(text).expect("text")).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_name_that_stands_for_none_is_refused_with_its_line() {
        let why = |packed: &str| decode(packed).expect_err("refused").to_string();
        assert_eq!(why("%rd@\n\t%r@ %r0 %r1;"), "line 2: %r1, with 1 of its class before it");
        assert_eq!(why("%r@\n.visible .entry a()\n%r0"), "line 3: %r0, with 0 of its class before it");
        for packed in ["$L0", "%r@ %r00", "%r@ %r4294967296", "%r@1", "%r@_", "%r@$L@", "$L@ $L__BB0_1"] {
            assert!(decode(packed).is_err(), "{packed}");
        }
        assert!(encode(PACKED).is_err() && encode("$L@x").is_err());
    }
}
