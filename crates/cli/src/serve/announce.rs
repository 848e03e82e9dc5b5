//! What a ready service says on standard output.

use std::io::Write as _;
use std::net::SocketAddr;

/// Where the service is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) address: SocketAddr,
    /// Where console and metrics are.
    pub(super) admin: SocketAddr,
    pub(super) tls: bool,
    pub(super) api_keys: bool,
}

/// Prints the first line scripts wait for, then what a person needs to try it. Nobody has to be reading.
pub(super) fn print(place: Place, demo: &str) {
    let mut out = anstream::stdout().lock();
    let _ = writeln!(out, "{}", lines(place, demo));
    let _ = out.flush();
}

/// `demo` makes the key of the example new, so that the first of the two requests does charge.
fn lines(place: Place, demo: &str) -> String {
    let scheme = if place.tls { "https" } else { "http" };
    let base = format!("{scheme}://{}", place.address);
    let admin = format!("{scheme}://{}/", place.admin);
    let bearer = if place.api_keys { " -H \"Authorization: Bearer $KEY\"" } else { "" };
    let insecure = if place.tls { "k" } else { "" };
    let curl = format!(
        "curl -si{insecure} {base}/v1/charges{bearer} -H 'Idempotency-Key: demo-{demo}' \
         --json '{{\"order_id\":\"demo-{demo}\",\"amount\":2500,\"currency\":\"EUR\"}}'"
    );
    let dim = anstyle::Style::new().dimmed();
    format!(
        "listening on {base}\nconsole at {admin}\n\n\
         {dim}# charges once{dim:#}\n{curl}\n\
         {dim}# the same again: the same answer, marked Idempotent-Replayed, and no second charge{dim:#}\n{curl}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(tls: bool, api_keys: bool) -> Place {
        Place { address: ([127, 0, 0, 1], 8080).into(), admin: ([127, 0, 0, 1], 9100).into(), tls, api_keys }
    }

    #[test]
    fn the_first_line_is_the_one_scripts_wait_for() {
        let text = anstream::adapter::strip_str(&lines(place(false, false), "1f")).to_string();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("listening on http://127.0.0.1:8080"));
        assert_eq!(lines.next(), Some("console at http://127.0.0.1:9100/"));
        let curls: Vec<&str> = lines.filter(|line| line.starts_with("curl ")).collect();
        assert_eq!(curls.len(), 2);
        assert_eq!(curls[0], curls[1]);
    }

    #[test]
    fn the_example_fits_how_the_service_is_called() {
        let plain = lines(place(false, false), "1f");
        assert!(!plain.contains("Authorization"));
        let guarded = lines(place(true, true), "1f");
        assert!(guarded.contains("curl -sik https://") && guarded.contains("Bearer $KEY"));
    }
}
