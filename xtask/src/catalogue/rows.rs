//! The list of failures: a line each, `id | kind | failure`, and behind it the reason of one that cannot arise here.

/// A failure.
pub struct Row {
    /// `B17`.
    pub id: String,
    /// What kind of failure it is.
    pub kind: String,
    /// What happened.
    pub failure: String,
    /// Why it cannot happen here, or what of it is not done yet.
    pub reason: Option<String>,
}

/// Whether a reason is none, but says what is to come.
pub fn is_pending(reason: &str) -> bool {
    reason.starts_with("PENDING:")
}

/// The rows of `list`, and what is wrong with it. Lines that are empty or begin with `#` are for the reader.
pub fn read(list: &str) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut wrong): (Vec<Row>, Vec<String>) = (Vec::new(), Vec::new());
    for (index, line) in list.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let mut complain = |what: String| wrong.push(format!("{}:{}: {what}", super::LIST, index + 1));
        let fields: Vec<_> = line.split('|').map(str::trim).collect();
        let ([id, kind, failure] | [id, kind, failure, _]) = fields[..] else {
            complain("a line is `id | kind | failure`, with a reason behind it or without".to_string());
            continue;
        };
        if fields.iter().any(|field| field.is_empty()) {
            complain("a part of the line is empty".to_string());
        }
        if id_number(id).is_none() {
            complain(format!("`{id}` is no id: B and two digits or more"));
        }
        if rows.iter().any(|row| row.id == id) {
            complain(format!("{id} is there already"));
        }
        rows.push(Row {
            id: id.to_string(),
            kind: kind.to_string(),
            failure: failure.to_string(),
            reason: fields.get(3).map(|reason| (*reason).to_string()),
        });
    }
    (rows, wrong)
}

/// The number in an id: a B and two digits or more, none of them spare.
fn id_number(id: &str) -> Option<u32> {
    let digits = id.strip_prefix('B')?;
    let number: u32 = digits.parse().ok()?;
    (digits == format!("{number:02}")).then_some(number)
}
