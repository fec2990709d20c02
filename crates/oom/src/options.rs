//! Programs and their own options against running out of memory: `options.txt`, a table for people to read and search.

use std::sync::LazyLock;

use super::log::Purpose;
use super::steps::Step;

/// The table.
const TABLE: &str = include_str!("options.txt");

/// What stands between a setting and the same for older releases.
const OLDER: &str = " :: ";

/// What stands before a word of another program.
const OTHER: &str = "without ";

/// The rows of the table, in its order: the earlier one counts.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| read(TABLE));

/// A program and its options.
#[derive(Debug)]
struct Row {
    words: Vec<&'static str>,
    /// Words of another program, in whose lines the others do not count.
    others: Vec<&'static str>,
    options: Vec<ProgramOption>,
}

/// One option.
#[derive(Debug)]
struct ProgramOption {
    /// For which work it is.
    works: &'static str,
    id: &'static str,
    title: &'static str,
    /// The flag or setting; empty where it is done by hand.
    setting: &'static str,
    /// The title and the setting of older releases.
    older: Option<(&'static str, &'static str)>,
    detail: &'static str,
}

/// A program that has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named(u8);

fn read(table: &'static str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("= ") {
            rows.push(Row { words: Vec::new(), others: Vec::new(), options: Vec::new() });
        } else if let Some(row) = rows.last_mut() {
            let mut fields = line.split('|').map(str::trim);
            if let Some(words) = line.strip_prefix("~ ") {
                for word in words.split(" | ").map(str::trim) {
                    match word.strip_prefix(OTHER) {
                        Some(other) => row.others.push(other),
                        None => row.words.push(word),
                    }
                }
            } else if let (Some(works), Some(id), Some(title), Some(setting), Some(detail)) =
                (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
            {
                let (title, older_title) = title.split_once(OLDER).unwrap_or((title, title));
                let (setting, older) = match setting.split_once(OLDER) {
                    Some((setting, older)) => (setting, Some((older_title, older))),
                    None => (setting, None),
                };
                row.options.push(ProgramOption { works, id, title, setting, older, detail });
            }
        }
    }
    rows
}

/// All words that programs are known by.
pub(crate) fn words() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|row| row.words.iter().chain(&row.others).copied())
}

/// The first row with a word that `has` finds.
pub(crate) fn named(has: impl Fn(&str) -> bool) -> Option<Named> {
    let any = |words: &[&'static str]| words.iter().any(|word| has(word));
    let at = ROWS.iter().position(|row| any(&row.words) && !any(&row.others))?;
    u8::try_from(at).ok().map(Named)
}

/// The title and the names that older releases have for a setting of the table.
pub(crate) fn older(setting: &str) -> Option<(&'static str, &'static str)> {
    let options = ROWS.iter().flat_map(|row| &row.options);
    options.filter(|option| option.setting == setting).find_map(|option| option.older)
}

impl Named {
    /// Its options for this work, in the order in which they are worth a try. Empty where it has none of its own for it.
    pub(crate) fn options(self, purpose: Option<Purpose>) -> Vec<Step> {
        let exact = match purpose {
            Some(Purpose::Decode) => "decode",
            Some(Purpose::Load) => "load",
            Some(Purpose::Optimize) => "optimize",
            Some(Purpose::Evaluate) => "evaluate",
            Some(Purpose::Grow) => "grow",
            Some(Purpose::Data) => "data",
            Some(Purpose::Parts) => "parts",
            Some(Purpose::Predict) => "predict",
            Some(Purpose::Gather | Purpose::Calibrate | Purpose::Whole) => return Vec::new(),
            Some(Purpose::Generate | Purpose::Collect) | None => "step",
        };
        let found = self.of(exact);
        // Smaller steps help an evaluation and a decoder, too, but neither loading nor an optimizer.
        let is_like_a_step =
            matches!(purpose, Some(Purpose::Decode | Purpose::Evaluate | Purpose::Grow | Purpose::Data));
        if found.is_empty() && is_like_a_step {
            return self.of("step");
        }
        found
    }

    /// Its options for a kind of work of the table.
    pub(crate) fn of(self, work: &str) -> Vec<Step> {
        let row = ROWS.get(usize::from(self.0));
        let options = row.into_iter().flat_map(|row| &row.options);
        let fits = options.filter(|option| option.works.split(',').any(|kind| kind == work));
        fits.map(|option| {
            let step = Step::new(option.id, option.title, option.detail);
            if option.setting.is_empty() { step } else { step.with(option.setting) }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ROWS, TABLE, named};
    use crate::log::Purpose;

    #[test]
    fn every_line_of_the_table_is_read_and_every_word_belongs_to_one_program() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let (mut names, mut options) = (0, 0);
        for line in lines {
            match line.as_bytes()[0] {
                b'=' => names += 1,
                b'~' => {}
                _ => {
                    options += 1;
                    assert_eq!(line.matches('|').count(), 4, "{line}");
                    let works = line.split('|').next().unwrap();
                    let known = [
                        "decode", "load", "step", "grow", "data", "parts", "predict", "logits", "optimize", "evaluate",
                        "host", "numbers", "request",
                    ];
                    assert!(works.trim().split(',').all(|work| known.contains(&work)), "{line}");
                }
            }
        }
        assert!(names >= 25);
        assert_eq!((ROWS.len(), ROWS.iter().map(|row| row.options.len()).sum::<usize>()), (names, options));
        let mut words: Vec<&str> = ROWS.iter().flat_map(|row| row.words.iter().copied()).collect();
        // A short word stands in too many lines.
        assert!(words.iter().all(|word| word.len() >= 5), "{words:?}");
        words.sort_unstable();
        let count = words.len();
        words.dedup();
        assert_eq!(words.len(), count);
    }

    #[test]
    fn a_longer_name_may_be_another_program_s() {
        let line = |line: &'static str| named(|word| line.contains(word)).unwrap();
        let titles = |program: super::Named| -> Vec<String> {
            program.options(Some(Purpose::Load)).into_iter().map(|step| step.title).collect()
        };
        let (ray, plain) = ("-m openrlhf.cli.train_ppo_ray --x", "-m openrlhf.cli.train_ppo --x");
        assert_ne!(titles(line(ray)), titles(line(plain)));
        assert_eq!(titles(line(ray)), titles(line("python train_ppo_ray.py")));
    }

    #[test]
    fn an_option_is_for_the_work_that_failed() {
        let trainer = named(|word| word == "axolotl").unwrap();
        let first = |purpose| trainer.options(purpose).first().map(|step| step.id);
        assert_eq!(first(None), Some("shrink"));
        assert_eq!(first(Some(Purpose::Load)), Some("less-weights"));
        assert_eq!(first(Some(Purpose::Optimize)), Some("smaller-optimizer"));
        assert_eq!(first(Some(Purpose::Gather)), None);
    }
}
