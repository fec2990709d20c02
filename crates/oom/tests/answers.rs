//! Answers to logs, as the threads that the texts are from found them: `testdata/messages/answers`.

use highwater_oom::{Event, Found, LogReader, Subject, Value, answer};
use highwater_testkit::testdata;
use serde_json::{Map, Value as Json};

fn found(log: &[u8]) -> Found {
    let mut reader = LogReader::new();
    reader.push(log);
    reader.finish()
}

/// A number of an event, as `expected.json` has it.
fn number(event: &Event, name: &str) -> Option<i64> {
    event.values.iter().find(|(found, _)| *found == name).and_then(|(_, value)| match value {
        Value::Bytes(bytes) => Some(*bytes),
        Value::Number(number) => i64::try_from(*number).ok(),
        _ => None,
    })
}

#[test]
fn every_log_has_its_cause_its_first_step_and_its_numbers() {
    let folder = testdata("messages/answers");
    let expected = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: Map<String, Json> = serde_json::from_str(&expected).unwrap();
    assert!(expected.len() > 140);
    let mut wrong = Vec::new();
    for (name, want) in expected {
        let log = std::fs::read(folder.join(format!("{name}.log"))).unwrap();
        let found = found(&log);
        let Some(answer) = answer(&found) else {
            wrong.push(format!("{name}: no answer"));
            continue;
        };
        let first = answer.steps.first().map_or("none", |step| step.id);
        let got = format!("{} {first}", answer.diagnosis.cause.name());
        let wanted = format!("{} {}", want["cause"].as_str().unwrap(), want["first_step"].as_str().unwrap());
        if got != wanted {
            wrong.push(format!("{name}: {got}, wanted {wanted}"));
        }
        let event = match answer.subject {
            Subject::Event(at) => Some(&found.events[at]),
            Subject::Message(_) | Subject::Summary(_) => None,
        };
        for (field, value) in want.as_object().unwrap() {
            let got = match field.as_str() {
                "cause" | "first_step" => continue,
                "setting" => {
                    let change = answer.steps.first().and_then(|step| step.change.as_deref()).unwrap_or_default();
                    if !change.contains(value.as_str().unwrap()) {
                        wrong.push(format!("{name}: the setting is {change}, wanted {value}"));
                    }
                    continue;
                }
                "says" | "absent" => {
                    let steps = answer
                        .steps
                        .iter()
                        .flat_map(|step| [Some(&step.title), Some(&step.detail), step.change.as_ref()]);
                    let words = [Some(&answer.diagnosis.text)]
                        .into_iter()
                        .chain(answer.diagnosis.notes.iter().map(Some))
                        .chain(steps);
                    let has = words.flatten().any(|text| text.contains(value.as_str().unwrap()));
                    if has != (field == "says") {
                        wrong.push(format!("{name}: {field} {value}"));
                    }
                    continue;
                }
                "rank" => event.and_then(|event| event.rank).map(i64::from),
                field => event.and_then(|event| number(event, field)),
            };
            if got != value.as_i64() {
                wrong.push(format!("{name}: {field} is {got:?}, wanted {value}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Warnings, advice, settings, tables and source code that speak of memory, each a log of its own; and failures of another kind, which
/// may be told as such.
#[test]
fn a_log_that_speaks_of_memory_and_failed_otherwise_is_not_told_that_memory_ran_out() {
    let text = std::fs::read_to_string(testdata("messages/answers/innocent.log")).unwrap();
    let logs: Vec<&str> = text.split("\n\n").collect();
    assert!(logs.len() > 40);
    for log in logs {
        let found = found(log.as_bytes());
        let cause = answer(&found).map(|answer| answer.diagnosis.cause.name());
        assert!(cause.is_none_or(|cause| cause == "not-memory"), "{cause:?}: {log}");
    }
}

/// Lines of two ranks between each other, in pieces of any size, say the same.
#[test]
fn pieces_and_neighbours_change_nothing() {
    let folder = testdata("messages/answers");
    for name in ["vllm_kv_too_small", "sglang_graphs", "llama_kv", "dmesg"] {
        let log = std::fs::read(folder.join(format!("{name}.log"))).unwrap();
        let whole = found(&log);
        for length in [1, 13, 4096] {
            let mut reader = LogReader::new();
            log.chunks(length).for_each(|piece| reader.push(piece));
            assert_eq!(reader.finish(), whole, "{name} in pieces of {length}");
        }
        let mixed: String =
            String::from_utf8_lossy(&log).lines().flat_map(|line| [line, "\n(Other pid=1) step 7\n"]).collect();
        let mixed = found(mixed.as_bytes());
        let causes = [&whole, &mixed].map(|found| answer(found).unwrap().diagnosis.cause);
        assert_eq!(causes[0], causes[1], "{name}");
    }
}

/// The wordings of each source, with numbers filled in, alone: `testdata/messages/forms.json`.
#[test]
fn every_wording_of_a_source_is_recognised_with_its_cause() {
    let forms = std::fs::read_to_string(testdata("messages/forms.json")).unwrap();
    let forms: Map<String, Json> = serde_json::from_str(&forms).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (source, texts) in &forms {
        for text in texts.as_array().unwrap() {
            let (text, wanted) = (text[0].as_str().unwrap(), text[1].as_str().unwrap());
            let answer = answer(&found(text.as_bytes()));
            let got = answer.as_ref().map_or("none", |answer| answer.diagnosis.cause.name());
            count += 1;
            // Where the words alone do not tell, each of several is right.
            if !wanted.split(' ').any(|cause| cause == got) {
                wrong.push(format!("{source}: {got}, wanted {wanted}: {text}"));
            }
        }
    }
    assert!(count > 200 && wrong.is_empty(), "{count} forms: {wrong:#?}");
}
