//! Budgets, and whether a recording keeps them.

use highwater_analysis::{Analysis, DeviceAnalysis};
use highwater_documents::check::Row;
use highwater_findings::budget::{Amount, Measure, check};
use highwater_problem::Problem;
use highwater_units::{parse_bytes, parse_size};

/// Checks each device against each limit.
pub fn rows(analysis: &Analysis<'_>, devices: &[&DeviceAnalysis<'_>], limits: &[(Measure, Amount)]) -> Vec<Row> {
    let pairs = devices.iter().flat_map(|device| limits.iter().map(move |&(measure, limit)| (*device, measure, limit)));
    let row = |(device, measure, limit): (&DeviceAnalysis<'_>, _, _)| Row {
        device: device.device,
        is_baseline: false,
        checked: check(analysis, device, measure, limit),
    };
    pairs.map(row).collect()
}

/// Parses a budget: the name of a rule, such as `max-peak-reserved`, and its limit, such as `16GiB` or `10%`.
///
/// # Errors
/// If there is no such rule, or the amount is none of it.
pub fn limit(rule: &str, amount: &str) -> Result<(Measure, Amount), Problem> {
    let measure = Measure::ALL.into_iter().find(|measure| measure.rule() == rule).ok_or_else(|| {
        let rules = Measure::ALL.map(Measure::rule).join(", ");
        Problem::new(format!("`{rule}` is not a budget")).hint(format!("known: {rules}"))
    })?;
    let parsed = match measure {
        Measure::Fragmentation => parse_share(amount).map(Amount::Share),
        Measure::GrowthPerIteration => parse_bytes(amount).map(Amount::Bytes).map_err(|why| why.to_string()),
        _ => parse_size(amount).map(Amount::Bytes).map_err(|why| why.to_string()),
    };
    Ok((
        measure,
        parsed.map_err(|why| Problem::new(format!("`{amount}` is not a valid amount for `{rule}`")).because(why))?,
    ))
}

/// A share given as `10%`.
///
/// # Errors
/// A message that says what is accepted.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').ok_or("expected a percentage, such as `10%`")?;
    let percent: f64 = number.trim().parse().map_err(|_| "expected a percentage, such as `10%`")?;
    if percent.is_finite() && percent >= 0.0 { Ok(percent / 100.0) } else { Err("expected 0% or more".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_of_at_least_nothing() {
        assert_eq!(parse_share("10%"), Ok(0.1));
        assert_eq!(parse_share(" 2.5 % "), Ok(0.025));
        for text in ["10", "%", "-1%", "nan%", "inf%", "ten%"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
