//! Parameters of a query string, each of which may stand once.

use percent_encoding::percent_decode_str;
use unavez_core::problem::Code;
use unavez_tower::problem::Problem;

use crate::books::PAGE_MAX;

/// How many items a page has unless the caller says otherwise.
const PAGE_DEFAULT: usize = 20;

/// The parameters that a route knows, as the caller sent them.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string; only `allowed` names may stand in it.
    pub(super) fn parse(query: Option<&str>, allowed: &[&str]) -> Result<Self, Problem> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for pair in query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).ok_or_else(|| invalid("", "a parameter's name is not UTF-8"))?;
            if !allowed.contains(&name.as_str()) {
                let detail =
                    format!("the query has a parameter that is not known, allowed: {}", allowed.join(", "));
                return Err(invalid("", detail));
            }
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(invalid(&name, format!("{name} stands twice, allowed is once")));
            }
            let value = decode(value).ok_or_else(|| invalid(&name, format!("{name} is not UTF-8")))?;
            parameters.push((name, value));
        }
        Ok(Self(parameters))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A parameter in the form that `parse` reads; `allowed` says which one that is.
    pub(super) fn parsed<T>(
        &self,
        name: &str,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let length = value.chars().count();
        let refuse =
            || invalid(name, format!("{name} has {length} characters of another form, allowed: {allowed}"));
        parse(value).map(Some).ok_or_else(refuse)
    }

    /// `limit`: how many items the page may have.
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        let Some(value) = self.get("limit") else { return Ok(PAGE_DEFAULT) };
        match value.parse() {
            Ok(limit @ 1..=PAGE_MAX) if value.bytes().all(|byte| byte.is_ascii_digit()) => Ok(limit),
            _ => Err(invalid("limit", format!("limit is no whole number from 1 to {PAGE_MAX}"))),
        }
    }
}

pub(super) fn invalid(member: &str, detail: impl Into<String>) -> Problem {
    let problem = Problem::new(Code::Validation).with_detail(detail);
    if member.is_empty() { problem } else { problem.with_member(member) }
}

/// Percent-decoded, `+` being a space.
fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    Some(percent_decode_str(&spaced).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[&str] = &["order_id", "limit"];

    fn detail(problem: &Problem) -> String {
        let json: serde_json::Value = serde_json::from_slice(&problem.to_json()).unwrap();
        format!("{}: {}", json["member"].as_str().unwrap_or(""), json["detail"].as_str().unwrap_or(""))
    }

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some("order_id=a%20b+c%2B&&limit="), ALLOWED).unwrap();
        assert_eq!(query.get("order_id"), Some("a b c+"));
        assert_eq!(query.get("limit"), Some(""));
        assert_eq!(Query::parse(None, ALLOWED).unwrap().limit().unwrap(), 20);
    }

    #[test]
    fn faults_name_the_parameter_and_the_limit() {
        let refused = |query| Query::parse(Some(query), ALLOWED).map(|_| ()).unwrap_err();
        assert_eq!(
            detail(&refused("4111111111111111=1")),
            ": the query has a parameter that is not known, allowed: order_id, limit"
        );
        assert_eq!(detail(&refused("limit=1&limit=1")), "limit: limit stands twice, allowed is once");
        assert_eq!(detail(&refused("order_id=%FF")), "order_id: order_id is not UTF-8");
        for limit in ["0", "101", "-1", "+5", "1e1", "", "99999999999999999999"] {
            let query = Query(vec![("limit".to_owned(), limit.to_owned())]);
            let problem = query.limit().unwrap_err();
            assert_eq!(detail(&problem), "limit: limit is no whole number from 1 to 100", "{limit}");
        }
    }
}
