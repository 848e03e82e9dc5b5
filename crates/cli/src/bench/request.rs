//! The requests: bytes built once, in which only the key and the order change.

use uuid::Uuid;

/// Where the requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Host and port as they stand in the URL, for the `Host` header.
    pub(super) authority: String,
    /// Host and port to connect to.
    pub(super) address: String,
    /// The path of the URL, without a `/` at its end.
    base: String,
}

impl Target {
    /// Reads `http://host[:port][/path]`. For clap's `value_parser`.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let uri: http::Uri = url.parse().map_err(|error| format!("{error}; expected http://HOST:PORT"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err("bench speaks plain http; measure behind the TLS terminator".to_owned());
            }
            _ => return Err("expected http://HOST:PORT".to_owned()),
        }
        if uri.query().is_some() {
            return Err("a query has no place here; expected http://HOST:PORT".to_owned());
        }
        let authority = uri.authority().ok_or("expected http://HOST:PORT")?;
        if authority.as_str().contains('@') {
            return Err("credentials in the URL are not used; see --api-key-file".to_owned());
        }
        Ok(Self {
            authority: authority.as_str().to_owned(),
            address: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Where the server says how it is.
    pub(super) fn health_path(&self) -> String {
        format!("{}/healthz", self.base)
    }
}

/// The keys of one run: the n-th is a function of the run's seed and n, so that none has to be kept to be sent again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    seed: u64,
}

impl Keys {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The n-th key. Neighbours have nothing in common, as with random keys: an index sees them in no order.
    pub(super) fn nth(self, n: u64) -> u128 {
        let high = mix(self.seed ^ mix(n));
        let low = mix(high ^ n);
        u128::from(high) << 64 | u128::from(low)
    }
}

/// A bijection of 64 bits in which every input bit moves every output bit (the finisher of splitmix64).
pub(super) fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// The bytes of a charge request. One per connection; stamping allocates nothing.
#[derive(Clone, Debug)]
pub(super) struct Request {
    bytes: Vec<u8>,
    key_at: usize,
    order_at: usize,
}

const KEY: &str = "00000000-0000-4000-8000-000000000000";
const ORDER: &str = "00000000000040008000000000000000";

impl Request {
    /// Builds the request for a target; `bearer` is the API key.
    pub(super) fn new(target: &Target, bearer: Option<&str>, payment_method: &str) -> Self {
        let body = format!(
            r#"{{"order_id":"bench-{ORDER}","amount":2500,"currency":"EUR","payment_method":"{payment_method}"}}"#
        );
        let authorization = bearer.map_or_else(String::new, |key| format!("Authorization: Bearer {key}\r\n"));
        let head = format!(
            "POST {base}/v1/charges HTTP/1.1\r\nHost: {host}\r\nUser-Agent: unavez-bench/{version}\r\n{authorization}\
             Content-Type: application/json\r\nContent-Length: {length}\r\nIdempotency-Key: ",
            base = target.base,
            host = target.authority,
            version = env!("CARGO_PKG_VERSION"),
            length = body.len(),
        );
        let key_at = head.len();
        let before_order = body.find(ORDER).expect("the body is built around the order");
        let order_at = key_at + KEY.len() + "\r\n\r\n".len() + before_order;
        Self { bytes: format!("{head}{KEY}\r\n\r\n{body}").into_bytes(), key_at, order_at }
    }

    /// The request under this key. The same key always makes the same bytes.
    pub(super) fn stamp(&mut self, key: u128) -> &[u8] {
        let id = uuid::Builder::from_random_bytes(key.to_be_bytes()).into_uuid();
        Uuid::hyphenated(id).encode_lower(&mut self.bytes[self.key_at..self.key_at + KEY.len()]);
        Uuid::simple(id).encode_lower(&mut self.bytes[self.order_at..self.order_at + ORDER.len()]);
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn urls_are_read_and_refused() {
        let target = Target::parse("http://127.0.0.1:8080").expect("a URL");
        assert_eq!(
            (target.address.as_str(), target.health_path()),
            ("127.0.0.1:8080", "/healthz".to_owned())
        );
        let target = Target::parse("http://[::1]/prefix/").expect("a URL");
        assert_eq!(
            (target.address.as_str(), target.health_path()),
            ("[::1]:80", "/prefix/healthz".to_owned())
        );
        for (url, reason) in [
            ("127.0.0.1:8080", "http://HOST:PORT"),
            ("https://pay.example", "plain http"),
            ("http://u:p@h", "--api-key-file"),
            ("http://h/?a=b", "query"),
            ("", "HOST"),
        ] {
            let refused = Target::parse(url).expect_err(url);
            assert!(refused.contains(reason), "{url}: {refused}");
        }
    }

    #[test]
    fn a_stamped_request_is_a_valid_charge_of_about_120_bytes() {
        let target = Target::parse("http://localhost:1").expect("a URL");
        let mut request = Request::new(&target, Some("secret"), "tok_approve");
        let text = str::from_utf8(request.stamp(u128::MAX)).expect("ASCII").to_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("POST /v1/charges HTTP/1.1\r\nHost: localhost:1\r\n"));
        assert!(head.contains("\r\nAuthorization: Bearer secret\r\n"));
        assert!(head.ends_with("\r\nIdempotency-Key: ffffffff-ffff-4fff-bfff-ffffffffffff"));
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())));
        assert!((110..=130).contains(&body.len()), "{}", body.len());
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["order_id"], "bench-ffffffffffff4fffbfffffffffffffff");
        assert_eq!(body["amount"], 2500);
    }

    #[test]
    fn the_same_key_makes_the_same_bytes_after_any_other() {
        let target = Target::parse("http://localhost:1").expect("a URL");
        let mut request = Request::new(&target, None, "tok_approve");
        let keys = Keys::new(7);
        let first = request.stamp(keys.nth(1)).to_vec();
        assert_ne!(request.stamp(keys.nth(2)), first);
        assert_eq!(request.stamp(keys.nth(1)), first);
    }

    #[test]
    fn keys_of_one_run_and_of_two_runs_differ() {
        let (one, two) = (Keys::new(1), Keys::new(2));
        let drawn: HashSet<u128> = (0..10_000).flat_map(|n| [one.nth(n), two.nth(n)]).collect();
        assert_eq!(drawn.len(), 20_000);
    }
}
