// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/patience"
)

// certificate writes a certificate for a name and ::1, and returns those who trust it.
func certificate(t *testing.T, dir string, until time.Time) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(
			time.Now().UnixNano(),
		), Subject: pkix.Name{CommonName: "collector"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		DNSNames: []string{
			"collector.example.net",
		}, IPAddresses: []net.IP{net.IPv6loopback, net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	octets, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{"cert.pem": text,
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: octets})} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// write writes a web configuration file with users, whose passwords are their names backwards.
func write(t *testing.T, dir string, secure bool, users ...string) string {
	t.Helper()
	text := ""
	if secure {
		text = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
	}
	if len(users) > 0 {
		text += "basic_auth_users:\n"
	}
	for _, name := range users {
		hash, err := bcrypt.GenerateFromPassword([]byte(name+"-password"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("  %s: %s\n", name, hash)
	}
	path := filepath.Join(dir, "web.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start serves a page that says who asks and what they may see, behind a guard.
func start(t *testing.T, c Config) (url string) {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig:         g.TLS(),
		ReadHeaderTimeout: time.Minute,
		Handler: g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i := Of(r.Context())
			fmt.Fprintf(w, "user %s, admin %v, scope %v", i.User, i.Role.Admin, store.ScopeOf(r.Context()) != nil)
		}), Paths{
			Scoped: []string{"/v1/paths"}, Admin: []string{"/v1/settings"},
			Pages: func(r *http.Request) bool { return r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/assets/") },
		}),
	}
	go func() {
		if server.TLSConfig != nil {
			_ = server.ServeTLS(l, "", "")
			return
		}
		_ = server.Serve(l)
	}()
	t.Cleanup(func() { server.Close() })
	return g.Scheme() + "://" + l.Addr().String()
}

type asking struct {
	method, path, user, password, host string
	header                             map[string]string
}

func (a asking) of(t *testing.T, client *http.Client, url string) (int, string, http.Header) {
	t.Helper()
	method := a.method
	if method == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url+a.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.user != "" {
		r.SetBasicAuth(a.user, a.password)
	}
	if a.host != "" {
		r.Host = a.host
	}
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body), response.Header
}

func trusting(pool *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
}

// Who asks, for what, and what they get.
func TestWho(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir, time.Now().Add(time.Hour))
	url := start(t, Config{
		Address: "[::1]:0", TLS: true, Web: write(t, dir, true, "alice", "bob", "carol", "dave"), Hosts: []string{"proxy.example.net"},
		Roles: []Role{
			{Admin: true, Users: []string{"alice"}},
			{Users: []string{"bob"}},
			{Users: []string{"carol", "alice"}, Scope: &store.Scope{Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}}},
		},
	})
	as := func(user, path string) asking {
		return asking{path: path, user: user, password: user + "-password"}
	}
	cross := func(a asking, headers ...string) asking {
		a.header = map[string]string{}
		for i := 0; i < len(headers); i += 2 {
			a.header[headers[i]] = headers[i+1]
		}
		return a
	}
	for name, c := range map[string]struct {
		asking
		code int
		body string
	}{
		"nobody":                        {asking{path: "/v1/paths"}, 401, "who are you"},
		"a wrong password":              {asking{path: "/v1/paths", user: "bob", password: "x"}, 401, "who are you"},
		"another's password":            {asking{path: "/v1/paths", user: "bob", password: "alice-password"}, 401, "who are you"},
		"a name that is not there":      {asking{path: "/v1/paths", user: "eve", password: "eve-password"}, 401, "who are you"},
		"an admin":                      {as("alice", "/v1/settings"), 200, "user alice, admin true, scope false"},
		"a viewer":                      {as("bob", "/v1/paths"), 200, "user bob, admin false, scope false"},
		"a viewer who asks for more":    {as("bob", "/v1/settings"), 403, "for the role admin"},
		"a viewer's metrics":            {as("bob", "/metrics"), 200, "user bob"},
		"a tenant":                      {as("carol", "/v1/paths"), 200, "user carol, admin false, scope true"},
		"a tenant who asks for metrics": {as("carol", "/metrics"), 403, "about all packets"},
		"a tenant and a new request":    {as("carol", "/v1/tomorrow"), 403, "about all packets"},
		"a tenant and pages":            {as("carol", "/assets/a.js"), 200, "scope true"},
		"a tenant and another path":     {as("carol", "/v1/paths/"), 403, "about all packets"},
		"a user without a role":         {as("dave", "/v1/paths"), 403, "has no role"},

		"another name":             {asking{path: "/v1/paths", user: "bob", password: "bob-password", host: "evil.example"}, 403, "by a name in its certificate"},
		"the certificate's name":   {asking{path: "/v1/paths", user: "bob", password: "bob-password", host: "Collector.example.net:4780"}, 200, "bob"},
		"the proxy's name":         {asking{path: "/v1/paths", user: "bob", password: "bob-password", host: "proxy.example.net"}, 200, "bob"},
		"another's address":        {asking{path: "/v1/paths", user: "bob", password: "bob-password", host: "192.0.2.1"}, 403, "by a name in"},
		"a form of another origin": {cross(asking{method: "POST", path: "/v1/paths", user: "bob", password: "bob-password"}, "Origin", "https://evil.example"), 403, "other origins"},
		"a script of another one":  {cross(as("bob", "/v1/paths"), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"), 403, "other origins"},
		"a link to data":           {cross(as("bob", "/v1/paths"), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 403, "other origins"},
		"a link to a page":         {cross(as("bob", "/"), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 200, "bob"},
		"a page in a frame":        {cross(as("bob", "/"), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"), 403, "other origins"},
	} {
		for range 2 { // the second time, the password is remembered
			code, body, h := c.of(t, trusting(pool), url)
			if code != c.code || !strings.Contains(body, c.body) {
				t.Errorf("%s: %d %s", name, code, body)
			}
			if h.Get("Strict-Transport-Security") == "" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %v", name, h)
			}
			if code == http.StatusUnauthorized && !strings.HasPrefix(h.Get("WWW-Authenticate"), "Basic") {
				t.Errorf("%s: %v", name, h)
			}
		}
	}
}

// Settings that let others in unasked are refused, and say what to do.
func TestRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate(t, dir, time.Now().Add(time.Hour))
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secure = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
	users := file("users", "basic_auth_users: {a: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}\n")
	for name, c := range map[string]struct {
		Config
		want string
	}{
		"others, unasked":         {Config{Address: "[::]:0"}, "needs TLS and users"},
		"others, without users":   {Config{Address: "[::]:0", TLS: true, Web: file("tls", secure)}, "needs TLS and users"},
		"others, without TLS":     {Config{Address: "[::]:0", Web: users}, "needs TLS and users"},
		"https without TLS":       {Config{Address: "[::1]:0", TLS: true, Web: users}, "there is no certificate"},
		"TLS without https":       {Config{Address: "[::1]:0", Web: file("tls", secure)}, "write https://"},
		"roles of nobody":         {Config{Address: "[::1]:0", Roles: []Role{{Users: []string{"a"}}}}, "nobody is asked"},
		"no file":                 {Config{Address: "[::1]:0", Web: filepath.Join(dir, "none")}, "no such file"},
		"no hash":                 {Config{Address: "[::1]:0", Web: file("plain", "basic_auth_users: {a: hunter2}\n")}, "bcrypt"},
		"an unknown key":          {Config{Address: "[::1]:0", Web: file("key", "basic_auth: {a: hunter2}\n")}, "field basic_auth not found"},
		"a text in place of them": {Config{Address: "[::1]:0", Web: file("text", "basic_auth_users: hunter2\n")}, "cannot unmarshal"},
		"no key":                  {Config{Address: "[::1]:0", TLS: true, Web: file("nokey", "tls_server_config: {cert_file: cert.pem, key_file: none.pem}\n")}, "none.pem"},
		"a login without https":   {Config{Address: "[::1]:0", OIDC: &OIDC{URL: "http://[::1]:4780"}}, "need https"},
	} {
		if _, err := New(c.Config); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := New(Config{Address: "[::]:0", TLS: true,
		Web: file("both", secure+"basic_auth_users: {a: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}\n")}); err != nil {
		t.Error(err)
	}
}

// A certificate that is renewed and a user who is added count without a restart, and a file that became wrong changes
// nothing.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir, time.Now().Add(time.Hour))
	notes := make(chan string, 100)
	notify := func(_ slog.Level, text string) { notes <- text }
	url := start(t, Config{Address: "[::1]:0", TLS: true, Web: write(t, dir, true, "alice"), Notify: notify})
	erin := asking{path: "/", user: "erin", password: "erin-password"}
	if code, body, _ := erin.of(t, trusting(pool), url); code != http.StatusUnauthorized {
		t.Fatal(code, body)
	}
	again := certificate(t, dir, time.Now().Add(2*time.Hour))
	write(t, dir, true, "alice", "erin")
	eventually(t, "the new certificate and user", func() bool {
		client := trusting(again)
		defer client.CloseIdleConnections()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		r.SetBasicAuth("erin", "erin-password")
		response, err := client.Do(r)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	write(t, dir, false)
	eventually(t, "a note", func() bool {
		code, body, _ := erin.of(t, trusting(again), url)
		if code != http.StatusOK {
			t.Fatal(code, body)
		}
		return len(notes) > 0
	})
	if text := <-notes; !strings.Contains(text, "stays in force") {
		t.Error(text)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience.Of(30 * time.Second)); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// Requests beyond rate_limit of the file are refused.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "web")
	if err := os.WriteFile(path, []byte("rate_limit: {interval: 1h, burst: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := start(t, Config{Address: "[::1]:0", Web: path})
	codes := map[int]int{}
	for range 5 {
		code, _, _ := asking{path: "/"}.of(t, http.DefaultClient, url)
		codes[code]++
	}
	if codes[http.StatusOK] != 3 || codes[http.StatusTooManyRequests] != 2 {
		t.Error(codes)
	}
}

// A provider's user with the name of one who has a password is not that one.
func TestNamesOfOthers(t *testing.T) {
	g := &Guard{config: Config{Roles: []Role{{Users: []string{"root", "guest"}, Admin: true}}}, login: &login{}, web: &webFile{
		read: time.Now().Add(time.Hour), loaded: &loaded{users: passwords{hashes: map[string]string{"root": "a hash"}}}}}
	for _, test := range []struct {
		who Identity
		has bool
	}{
		{Identity{User: "root"}, true}, {Identity{User: "root", provided: true}, false}, {Identity{User: "guest", provided: true}, true},
	} {
		if _, has := g.role(test.who); has != test.has {
			t.Errorf("%+v: %v", test.who, has)
		}
	}
}
