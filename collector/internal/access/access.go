// SPDX-License-Identifier: Apache-2.0

// Package access decides who may ask the collector, and for what. Without authentication only the machine itself
// may ask. With it, a request has a user, the user has a role, and a role with a scope sees nothing else: the scope
// is part of the request's context, and the store applies it to every table (see store.Confine).
package access

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/problem"
)

// Config says who may ask.
type Config struct {
	Address string   // where the API listens: ADDRESS:PORT
	TLS     bool     // what the settings say: https
	Web     string   // Prometheus' web configuration file; "": no TLS and no users
	Hosts   []string // names by which browsers may ask, besides addresses and the names in the certificate
	OIDC    *OIDC    // nil: there is no login
	Roles   []Role   // the first that a user has counts; none: every user is a viewer of everything
	Notify  func(level slog.Level, text string)
}

// Role is what some users may do.
type Role struct {
	Admin         bool
	Users, Groups []string
	Scope         *store.Scope // nil: everything
}

// Identity is who asks.
type Identity struct {
	User   string   // "": there are no users
	Groups []string // of OpenID Connect
	Role   Role

	provided bool // the provider of OpenID Connect says who it is
}

// LoggedIn reports whether they logged in with OpenID Connect, and can log out.
func (i Identity) LoggedIn() bool { return i.provided }

// Guard lets requests through, or refuses them.
type Guard struct {
	config Config
	at     netip.AddrPort
	web    *webFile // nil: there is none
	users  users
	login  *login // nil: there is no login
	cross  *http.CrossOriginProtection
}

// New makes a guard, and reports settings that would let others in unasked.
func New(c Config) (*Guard, error) {
	at, err := netip.ParseAddrPort(c.Address)
	if err != nil {
		return nil, fmt.Errorf("api.address %q: want ADDRESS:PORT", c.Address)
	}
	if c.Notify == nil {
		c.Notify = func(slog.Level, string) {}
	}
	g := &Guard{config: c, at: at, cross: http.NewCrossOriginProtection()}
	if c.Web != "" {
		if g.web, err = openWeb(c.Web, c.Notify); err != nil {
			return nil, err
		}
	}
	switch secured := g.web != nil && g.web.now().tls != nil; {
	case c.TLS && !secured:
		return nil, problem.New("api.address has https, and there is no certificate", "set api.web to a file with tls_server_config")
	case !c.TLS && secured:
		return nil, problem.New(fmt.Sprintf("api.address has http, and %s has tls_server_config", c.Web), "write https:// in api.address")
	}
	if c.OIDC != nil {
		if g.login, err = newLogin(*c.OIDC); err != nil {
			return nil, err
		}
	}
	if !at.Addr().IsLoopback() && (!c.TLS || !g.asks()) {
		return nil, problem.New(
			fmt.Sprintf("api.address %s can be reached from other machines: it needs TLS and users", at),
			fmt.Sprintf("set api.web to a file with tls_server_config and basic_auth_users, or use [::1]:%d", at.Port()),
		)
	}
	if !g.asks() && len(c.Roles) > 0 {
		return nil, problem.New(
			"api.roles are of users, and nobody is asked who they are",
			"set api.web to a file with basic_auth_users, or api.oidc",
		)
	}
	return g, nil
}

// Open is a guard of the machine itself: without users and without TLS, at an address of loopback.
func Open(address string) (*Guard, error) { return New(Config{Address: address}) }

// asks reports whether users are asked who they are.
func (g *Guard) asks() bool {
	return g.login != nil || g.web != nil && (len(g.web.now().users.hashes) > 0 || g.web.now().certificates)
}

// Listen opens the port.
func (g *Guard) Listen() (net.Listener, error) {
	l, err := net.Listen("tcp", g.at.String())
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, problem.New(g.at.String()+" is used by another program",
				"stop the program that listens there ('ss -lntup' names it), or set api.address to another port")
		}
		return nil, problem.Wrap(err, "set api.address to an address of this machine, and a port that this user may open")
	}
	return l, nil
}

// TLS is the configuration of the server; nil: plain HTTP. Certificates are read again when they change.
func (g *Guard) TLS() *tls.Config {
	if !g.config.TLS {
		return nil
	}
	return g.web.serverTLS()
}

// Scheme is http or https.
func (g *Guard) Scheme() string {
	if g.config.TLS {
		return "https"
	}
	return "http"
}

// Paths are those of the API, by who may ask for them. What is in none of them is for roles without a scope.
type Paths struct {
	Scoped []string // also for roles with a scope; one that ends in / is all below it, but for / itself
	Admin  []string // for admins only

	// Pages are those without data: every role may have them, and links of other sites may lead there. nil: none.
	Pages func(*http.Request) bool
}

func (p *Paths) scoped(path string) bool { return within(p.Scoped, path) }

func (p *Paths) isPage(r *http.Request) bool { return p.Pages != nil && p.Pages(r) }

func within(list []string, path string) bool {
	return slices.ContainsFunc(list, func(one string) bool {
		return path == one || one != "/" && strings.HasSuffix(one, "/") && strings.HasPrefix(path, one)
	})
}

type identityKey struct{}

// Of is who asks.
func Of(ctx context.Context) Identity {
	i, _ := ctx.Value(identityKey{}).(Identity)
	return i
}

// Wrap puts the guard before a handler.
func (g *Guard) Wrap(next http.Handler, paths Paths) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.headers(w)
		if g.web != nil && g.web.now().limiter != nil && !g.web.now().limiter.Allow() {
			w.Header().Set("Retry-After", "1")
			Fail(w, http.StatusTooManyRequests, "there are more requests than rate_limit of api.web allows; ask again later")
			return
		}
		if code, text := g.foreign(r, &paths); code != 0 {
			Fail(w, code, text)
			return
		}
		if g.login != nil && g.login.serve(w, r) {
			return
		}
		who, ok := g.identify(r)
		if !ok {
			g.askWho(w, r)
			return
		}
		if who.Role, ok = g.role(who); !ok {
			Fail(
				w,
				http.StatusForbidden,
				fmt.Sprintf("%q has no role; an administrator adds the user, or one of its groups, to api.roles", who.User),
			)
			return
		}
		switch {
		case within(paths.Admin, r.URL.Path) && !who.Role.Admin:
			Fail(w, http.StatusForbidden, "this is for the role admin; see api.roles")
			return
		case who.Role.Scope != nil && !paths.scoped(r.URL.Path) && !paths.isPage(r):
			Fail(w, http.StatusForbidden, "this is about all packets, and your role has some of them")
			return
		}
		ctx := context.WithValue(r.Context(), identityKey{}, who)
		next.ServeHTTP(w, r.WithContext(store.Confine(ctx, who.Role.Scope)))
	})
}

// headers are those of every answer. A handler of pages replaces the policy by its own.
func (g *Guard) headers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin")
	if g.config.TLS {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	if g.web != nil {
		for name, value := range g.web.now().headers {
			h.Set(name, value)
		}
	}
}

// foreign refuses requests that a browser makes by another name for this machine (DNS rebinding), and those that
// pages of other origins make. A link to a page of the console may be followed from everywhere.
func (g *Guard) foreign(r *http.Request, paths *Paths) (code int, text string) {
	if !g.isOurs(r.Host) {
		return http.StatusForbidden, "the API is asked by the address of its machine, or by a name in its certificate or in api.hosts"
	}
	if g.cross.Check(r) != nil {
		return http.StatusForbidden, "pages of other origins may not ask"
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "cross-site" && site != "same-site" {
		return 0, ""
	}
	dest := r.Header.Get("Sec-Fetch-Dest")
	followed := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && (dest == "" || dest == "document")
	if followed && (paths.isPage(r) || g.login != nil && (r.URL.Path == loginPath || r.URL.Path == callbackPath)) {
		return 0, ""
	}
	return http.StatusForbidden, "pages of other origins may not ask"
}

// isOurs reports whether a request's host is this machine. A page whose origin is an address was served by that
// address, so addresses need no list; at loopback, only its own addresses are taken.
func (g *Guard) isOurs(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "localhost" || slices.ContainsFunc(g.config.Hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return a.IsLoopback() || !g.at.Addr().IsLoopback()
	}
	return g.web != nil && g.web.names(name)
}

// identify finds out who asks: by a password, by a session, or by a certificate.
func (g *Guard) identify(r *http.Request) (Identity, bool) {
	if !g.asks() {
		return Identity{Role: Role{Admin: true}}, true
	}
	if name, password, ok := r.BasicAuth(); ok {
		if g.web == nil || !g.users.check(r.Context(), &g.web.now().users, name, password) {
			return Identity{}, false
		}
		return Identity{User: name}, true
	}
	if g.login != nil {
		if who, ok := g.login.session(r); ok {
			return who, true
		}
	}
	if g.web != nil && g.web.now().certificates && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return Identity{User: r.TLS.PeerCertificates[0].Subject.CommonName}, true
	}
	return Identity{}, false
}

// role is that of a user: the first that names them, or one of their groups.
func (g *Guard) role(who Identity) (Role, bool) {
	if !g.asks() {
		return who.Role, true
	}
	if len(g.config.Roles) == 0 {
		return Role{}, g.login == nil
	}
	// Many providers let people choose their names: that of a user with a password is not theirs.
	if who.provided && g.web != nil {
		if _, taken := g.web.now().users.hashes[who.User]; taken {
			return Role{}, false
		}
	}
	for _, r := range g.config.Roles {
		if slices.Contains(r.Users, who.User) ||
			slices.ContainsFunc(who.Groups, func(group string) bool { return slices.Contains(r.Groups, group) }) {
			return r, true
		}
	}
	return Role{}, false
}

// askWho answers a request without a known user: a browser that opens a page goes to the login.
func (g *Guard) askWho(w http.ResponseWriter, r *http.Request) {
	if g.login != nil && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") &&
		r.Header.Get("Authorization") == "" {
		g.login.begin(w, r)
		return
	}
	if g.web != nil && len(g.web.now().users.hashes) > 0 {
		w.Header().Set("WWW-Authenticate", `Basic realm="Waymark", charset="UTF-8"`)
	}
	Fail(w, http.StatusUnauthorized, "who are you? give a user of api.web and the password, or log in with a browser if api.oidc is set")
}

// failure is an error in JSON.
type failure struct {
	Kind  string `json:"kind"`
	Error string `json:"error"`
}

// Fail answers with an error: a sentence, and what to do.
func Fail(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure{"error", text}) // escapes <, > and &
}
