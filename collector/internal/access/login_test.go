// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/tls"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"

	"github.com/waymark-net/waymark/collector/internal/store"
)

// provider is a provider of OpenID Connect, and a collector whose users log in there.
func provider(t *testing.T, roles ...Role) (m *mockoidc.MockOIDC, at string, browser func() *http.Client) {
	t.Helper()
	m, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown() })
	dir := t.TempDir()
	pool := certificate(t, dir, time.Now().Add(time.Hour))
	c := m.Config()
	at = start(t, Config{
		Address: "127.0.0.1:0", TLS: true, Web: write(t, dir, true, "prometheus"), Roles: append(roles, Role{Users: []string{"prometheus"}}),
		OIDC: &OIDC{
			Issuer:      c.Issuer,
			ClientID:    c.ClientID,
			Secret:      c.ClientSecret,
			URL:         "https://collector.example.net",
			UserClaim:   "email",
			GroupsClaim: "groups",
			Session:     time.Hour,
		},
	})
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return m, "https://collector.example.net", func() *http.Client {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		transport := trusting(pool).Transport.(*http.Transport)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: "collector.example.net"}
		return &http.Client{Jar: jar, Transport: resolving{transport, "collector.example.net", u.Host}}
	}
}

// resolving sends what is for a name to an address.
type resolving struct {
	*http.Transport
	name, address string
}

func (r resolving) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Host != r.name {
		return http.DefaultTransport.RoundTrip(q)
	}
	again := q.Clone(q.Context())
	again.Host, again.URL.Host = r.name, r.address
	response, err := r.Transport.RoundTrip(again)
	if response != nil {
		response.Request = q
	}
	return response, err
}

// page is how a browser asks for a page.
func page(path string) asking {
	return asking{path: path, header: map[string]string{"Accept": "text/html"}}
}

// Somebody logs in at the provider, is who it says, gets the role of a group, and logs out.
func TestLogin(t *testing.T) {
	t.Parallel()
	m, at, browser := provider(
		t,
		Role{Groups: []string{"noc"}, Scope: &store.Scope{Namespaces: []uint16{1}}},
		Role{Admin: true, Users: []string{"alice@example.net"}},
	)
	client := browser()
	m.QueueUser(&mockoidc.MockUser{Subject: "7", Email: "bob@example.net", EmailVerified: true, Groups: []string{"x", "noc"}})
	code, body, h := page("/assets/x?since=3h&a=%3Cb%3E").of(t, client, at)
	if code != http.StatusOK || !strings.Contains(body, `url=/assets/x?since=3h&amp;a=%3Cb%3E"`) {
		t.Fatal(code, body)
	}
	cookies := strings.Join(h.Values("Set-Cookie"), "\n")
	for _, want := range []string{"__Host-waymark-session=", "HttpOnly", "Secure", "SameSite=Strict", "Path=/",
		"__Host-waymark-login=; Path=/; Max-Age=0"} {
		if !strings.Contains(cookies, want) {
			t.Errorf("%s lacks %s", cookies, want)
		}
	}
	if code, body, _ := page("/v1/paths").of(t, client, at); code != http.StatusOK || body != "user bob@example.net, admin false, scope true" {
		t.Error(code, body)
	}
	if code, body, _ := page("/v1/settings").of(t, client, at); code != http.StatusForbidden {
		t.Error(code, body)
	}
	if code, body, _ := (asking{path: "/v1/paths"}).of(t, browser(), at); code != http.StatusUnauthorized { // a program is not sent to a login
		t.Error(code, body)
	}
	if code, body, _ := (asking{path: "/metrics", user: "prometheus", password: "prometheus-password"}).of(t, browser(),
		at); code != http.StatusOK {
		t.Error(code, body)
	}
	evil := asking{method: http.MethodPost, path: "/logout", header: map[string]string{"Origin": "https://evil.example"}}
	if code, _, _ := evil.of(t, client, at); code != http.StatusForbidden {
		t.Error("another origin logs users out: ", code)
	}
	if code, _, _ := (asking{method: http.MethodPost, path: "/logout"}).of(t, client, at); code != http.StatusNoContent {
		t.Error(code)
	}
	if code, body, _ := (asking{path: "/v1/paths"}).of(t, client, at); code != http.StatusUnauthorized {
		t.Error(code, body)
	}
}

// Logins that are not sound end in no session.
func TestLoginRefused(t *testing.T) {
	t.Parallel()
	m, at, browser := provider(t, Role{Admin: true, Users: []string{"alice@example.net"}})
	client := browser()
	m.QueueUser(&mockoidc.MockUser{Subject: "8", Email: "alice@example.net"})
	if code, body, _ := page("/").of(t, client, at); code != http.StatusForbidden ||
		!strings.Contains(body, "does not say that the mail address is the user's") {
		t.Error("an address that nobody verified: ", code, body)
	}
	m.QueueUser(&mockoidc.MockUser{Subject: "9", Email: "eve@example.net", EmailVerified: true})
	page("/").of(t, client, at)
	if code, body, _ := (asking{path: "/v1/paths"}).of(t, client, at); code != http.StatusForbidden || !strings.Contains(body, "has no role") {
		t.Error("a user without a role: ", code, body)
	}
	// A callback that this browser did not begin, and one with another state: an attacker would log the victim in.
	if code, body, _ := page("/login/callback?code=x&state=y").of(t, browser(), at); code != http.StatusForbidden ||
		!strings.Contains(body, "no login that was begun") {
		t.Error(code, body)
	}
	begun := browser()
	begun.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	code, _, h := page("/").of(t, begun, at)
	to, err := url.Parse(h.Get("Location"))
	if err != nil || code != http.StatusSeeOther {
		t.Fatal(code, h)
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(to.Query().Get(name)) < 20 {
			t.Errorf("%s: %s", name, to)
		}
	}
	if cookies := strings.Join(h.Values("Set-Cookie"), "\n"); !strings.Contains(cookies, "SameSite=Lax") ||
		!strings.Contains(cookies, "HttpOnly") {
		t.Error(cookies)
	}
	if code, body, _ := page("/login/callback?code=x&state=y").of(t, begun, at); code != http.StatusForbidden ||
		!strings.Contains(body, "not the login that was begun here") {
		t.Error(code, body)
	}
	if code, body, _ := page("/login/callback?code=forged&state="+to.Query().Get("state")).of(t, begun, at); code != http.StatusForbidden {
		t.Error(code, body)
	}
}

// After a login, a browser goes on to a path of this server, whatever was asked for.
func TestLocal(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/": "/", "/packets?since=1h": "/packets?since=1h", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/",
		"javascript:alert(1)": "/", "/login": "/", "/a\r\nb": "/", "": "/", "/" + strings.Repeat("a", 3000): "/",
	} {
		if got := local(to); got != want {
			t.Errorf("%q: %q, want %q", to, got, want)
		}
	}
}

// Sessions end with their time, and are bounded.
func TestSessions(t *testing.T) {
	t.Parallel()
	l, err := newLogin(OIDC{URL: "https://a.example", Session: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	is := func(token string) bool {
		r := &http.Request{Header: http.Header{"Cookie": {sessionCookie + "=" + token}}}
		_, ok := l.session(r)
		return ok
	}
	old, first := l.remember(Identity{User: "a"}, begin.Add(-2*time.Hour)), l.remember(Identity{User: "b"}, begin)
	if is(old) || !is(first) || is("x") || is("") {
		t.Error("a session that is over counts, or one that is not does not")
	}
	for i := range mostSessions {
		l.remember(Identity{User: "c"}, begin.Add(time.Duration(i+1)))
	}
	if len(l.sessions) != mostSessions || is(first) {
		t.Errorf("%d sessions", len(l.sessions))
	}
}
