//! Who a key belongs to (P4): a required argument, taken from what authentication left in the request.

use std::any::type_name;

use http::request::Parts;
pub use unavez_core::identity::Tenant;

/// Finds the tenant of a request. `None` is answered 401: a request without a tenant shares its keys with nobody.
///
/// Who shares a tenant may read its answers, since authorisation is not repeated on a replay; so a tenant may be finer
/// than a customer, such as customer and user.
pub trait TenantSource: Send + Sync + 'static {
    /// The tenant, from the request's head alone: never from its body.
    fn tenant(&self, head: &Parts) -> Option<Tenant>;
}

impl<F> TenantSource for F
where
    F: Fn(&Parts) -> Option<Tenant> + Send + Sync + 'static,
{
    fn tenant(&self, head: &Parts) -> Option<Tenant> {
        self(head)
    }
}

/// All callers share one scope of keys: right for a deployment with a single customer, wrong for any other.
///
/// ```
/// use unavez_tower::tenant;
/// let source = tenant::single();
/// # fn takes(_: impl unavez_tower::tenant::TenantSource) {}
/// # takes(source);
/// ```
pub fn single() -> impl TenantSource {
    let tenant = Tenant::single();
    move |_: &Parts| Some(tenant.clone())
}

/// The tenant of a value that authentication left in the request's extensions. A request with a key and without the value
/// is answered 401, and the log names the type: authentication must stand outside this layer, so that it has run first.
/// (In axum, of two `route_layer` calls the later one stands outside.)
///
/// The layer only tells scopes apart, it does not authenticate: a request without a key on an optional route passes.
///
/// ```
/// use unavez_tower::tenant::{self, Tenant};
///
/// #[derive(Clone)]
/// struct User {
///     account: String,
/// }
/// let source = tenant::from_extension(|user: &User| Tenant::parse(&user.account).ok());
/// # fn takes(_: impl unavez_tower::tenant::TenantSource) {}
/// # takes(source);
/// ```
pub fn from_extension<T, R>(of: impl Fn(&T) -> R + Send + Sync + 'static) -> impl TenantSource
where
    T: Send + Sync + 'static,
    R: Into<Option<Tenant>>,
{
    move |head: &Parts| {
        let value = head.extensions.get::<T>();
        if value.is_none() {
            tracing::warn!(
                extension = type_name::<T>(),
                "request has no tenant: is authentication outside this layer?"
            );
        }
        value.and_then(|value| of(value).into())
    }
}
