//! The way to a camera, from the URL of its source along redirections.

use glassline_rtsp::auth::User;
use url::Url;

use super::failure::Failure;
use crate::spec::CameraScheme;
use crate::{CameraSource, Transport};

/// Most redirections that are followed, one after another.
const REDIRECTIONS_MAX: usize = 5;

/// Most characters of a URL in a text for people.
const URL_CHARS_MAX: usize = 80;

/// The URL that is dialled, and how it was found.
///
/// The user and the password of the source go to the source's own host only, at any port, and never
/// from TLS to a URL without. Who redirects could ask for them itself, so another port of the same host
/// learns nothing that the camera does not know. A target may have credentials of its own.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) url: Url,
    pub(super) user: Option<User>,
    /// Whether the source has credentials that are not for this URL.
    is_withheld: bool,
    /// The URLs before this one, without users, the source's first.
    before: Vec<Url>,
}

impl Route {
    pub(super) fn new(camera: &CameraSource) -> Self {
        Self {
            url: camera.url.clone(),
            user: user_of(camera),
            is_withheld: false,
            before: Vec::new(),
        }
    }

    /// Returns whether the camera redirected the server to this URL.
    pub(super) fn is_redirected(&self) -> bool {
        !self.before.is_empty()
    }

    /// Returns the URL for people.
    pub(super) fn target(&self) -> String {
        shown(&self.url)
    }

    /// Returns why a camera that asks for credentials gets none.
    pub(super) fn withheld(&self) -> Option<Failure> {
        let target = self.target();
        self.is_withheld.then_some(Failure::Withheld { target })
    }

    /// Returns the way on to `location`, an absolute URL to which the camera redirects.
    ///
    /// # Errors
    /// Returns why the redirection is not followed.
    pub(super) fn to(&self, camera: &CameraSource, location: &str) -> Result<Self, Failure> {
        let refused = |why: String| Err(Failure::Redirection(why));
        if location.is_empty() {
            return refused("the camera redirects, but names no URL (no Location)".to_owned());
        }
        let Ok(mut url) = Url::parse(location) else {
            let text = shortened(glassline_url::hidden(location));
            return refused(format!("the camera redirects to '{text}', which is no URL"));
        };
        let own = own_user(&mut url);
        let target = shown(&url);
        let protocol = CameraScheme::of(&camera.url).map(CameraScheme::protocol);
        let scheme = CameraScheme::of(&url);
        let is_known = scheme.is_some() && scheme.map(CameraScheme::protocol) == protocol;
        if !is_known || url.host_str().is_none_or(str::is_empty) {
            let protocol = protocol.unwrap_or("a camera");
            return refused(format!(
                "the camera redirects to {target}, which is no URL of {protocol}"
            ));
        }
        if scheme == Some(CameraScheme::Rtsps) && camera.transport == Transport::Udp {
            return refused(format!(
                "the camera redirects to {target}, and transport=udp has no encryption: use \
                 transport=tcp"
            ));
        }
        let mut before = self.before.clone();
        before.push(self.url.clone());
        if before.contains(&url) {
            let way = before.iter().chain([&url]).map(shown);
            let way: Vec<_> = way.collect();
            return refused(format!(
                "the camera redirects in a circle: {}",
                way.join(" to ")
            ));
        }
        if before.len() > REDIRECTIONS_MAX {
            return refused(format!(
                "the camera redirects more than {REDIRECTIONS_MAX} times, at last to {target}"
            ));
        }
        let shares = may_have_credentials(&camera.url, &url);
        let of_source = user_of(camera);
        Ok(Self {
            is_withheld: own.is_none() && !shares && of_source.is_some(),
            user: own.or(of_source.filter(|_| shares)),
            url,
            before,
        })
    }
}

/// Returns whether the credentials of a source at `source` may go to `target`.
fn may_have_credentials(source: &Url, target: &Url) -> bool {
    let host = |url: &Url| url.host_str().unwrap_or_default().to_ascii_lowercase();
    let is_secure = |url: &Url| CameraScheme::of(url).is_some_and(CameraScheme::is_secure);
    let is_downgrade = is_secure(source) && !is_secure(target);
    host(source) == host(target) && !is_downgrade
}

fn user_of(camera: &CameraSource) -> Option<User> {
    let is_any = camera.user.is_some() || camera.password.is_some();
    is_any.then(|| User {
        name: camera.user.clone().unwrap_or_default(),
        password: camera.password.clone().unwrap_or_default(),
    })
}

/// Removes the credentials of a URL, and returns them.
fn own_user(url: &mut Url) -> Option<User> {
    let user = glassline_rtsp::client::user_of(url);
    // These fail for URLs that cannot have a user, and which therefore have none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    user
}

/// Returns `url` for people, without secrets in its query.
fn shown(url: &Url) -> String {
    shortened(glassline_url::shown(url))
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(URL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    fn camera(url: &str) -> CameraSource {
        match Input::parse(url).expect(url) {
            Input::Camera(camera) => camera,
            other => panic!("{other}"),
        }
    }

    fn refusal(camera: &CameraSource, locations: &[&str]) -> String {
        let mut route = Route::new(camera);
        for location in locations {
            match route.to(camera, location) {
                Ok(next) => route = next,
                Err(failure) => return failure.to_string(),
            }
        }
        panic!("{locations:?} is followed");
    }

    #[test]
    fn credentials_go_to_the_same_host_and_are_not_downgraded() {
        for (source, target, is_given) in [
            ("rtsp://u:p@cam/x", "rtsp://cam/y", true),
            ("rtsp://u:p@cam/x", "rtsp://CAM:8554/y", true),
            ("rtsp://u:p@cam/x", "rtsps://cam/y", true),
            ("rtsps://u:p@cam/x", "rtsps://cam:1/y", true),
            ("rtsps://u:p@cam/x", "rtsp://cam/y", false),
            ("rtsp://u:p@cam/x", "rtsp://other/x", false),
            ("rtsp://u:p@cam/x", "rtsp://cam.other/x", false),
            ("rtsp://u:p@127.0.0.1/x", "rtsp://127.0.0.2/x", false),
        ] {
            let camera = camera(source);
            let route = Route::new(&camera).to(&camera, target).expect(target);
            assert_eq!(route.user.is_some(), is_given, "{source} to {target}");
            assert_eq!(route.withheld().is_some(), !is_given);
        }
        let source = camera("rtsp://u:p@cam/x");
        let route = Route::new(&source).to(&source, "rtsp://v:q@other/x#f");
        let route = route.expect("a URL");
        assert_eq!(route.url.as_str(), "rtsp://other/x");
        let user = route.user.expect("the target's own");
        assert_eq!((user.name.as_str(), user.password.as_str()), ("v", "q"));
        let anybody = camera("rtsp://cam/x");
        let route = Route::new(&anybody).to(&anybody, "rtsp://other/x");
        assert!(route.expect("a URL").withheld().is_none(), "there is none");
    }

    #[test]
    fn redirections_end_after_five_or_in_a_circle_with_the_reason() {
        let source = camera("rtsp://cam/0");
        let urls: Vec<_> = (1..=6).map(|it| format!("rtsp://cam/{it}")).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let text = refusal(&source, &urls);
        assert_eq!(
            text,
            "the camera redirects more than 5 times, at last to rtsp://cam/6"
        );
        let text = refusal(&source, &["rtsp://cam/1", "rtsp://u:p@cam/0"]);
        assert_eq!(
            text,
            "the camera redirects in a circle: rtsp://cam/0 to rtsp://cam/1 to rtsp://cam/0"
        );
        let text = refusal(&source, &["rtsp://cam/0"]);
        assert!(text.ends_with("rtsp://cam/0 to rtsp://cam/0"), "{text}");
    }

    #[test]
    fn targets_that_are_no_rtsp_are_named_without_passwords() {
        let source = camera("rtsp://cam/0");
        for (location, wanted) in [
            ("", "names no URL (no Location)"),
            (
                "http://u:secret@cam/login",
                "http://cam/login, which is no URL of RTSP",
            ),
            ("rtspu://cam/x", "which is no URL of RTSP"),
            ("rtsp://u:secret@[/x", "'rtsp://u:…@[/x', which is no URL"),
        ] {
            let text = refusal(&source, &[location]);
            assert!(text.contains(wanted), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
        let by_udp = camera("rtsp://cam/0?transport=udp");
        let text = refusal(&by_udp, &["rtsps://cam/0"]);
        assert!(text.contains("use transport=tcp"), "{text}");
        let long = format!("ftp://cam/{}", "é".repeat(300));
        let text = refusal(&source, &[&long]);
        assert!(text.chars().count() < 200, "{text}");
    }
}
