// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/secretfile"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// API is where questions are answered, and for whom.
type API struct {
	Address Address `key:"address" default:"http://[::1]:4780"`
	Time    Wait    `key:"time" default:"10s"`
	Queries Count   `key:"queries" default:"4"`
	Web     string  `key:"web" optional:"true"`
	Hosts   []Host  `key:"hosts" optional:"true"`
	OIDC    *OIDC   `key:"oidc" optional:"true"`
	Roles   []Role  `key:"roles" optional:"true"`
}

// OIDC is a provider of OpenID Connect.
type OIDC struct {
	Issuer      string `key:"issuer" required:"true"`
	Client      string `key:"client-id" required:"true"`
	SecretFile  string `key:"client-secret-file" required:"true"`
	URL         string `key:"url" required:"true"`
	UserClaim   string `key:"user-claim" default:"email"`
	GroupsClaim string `key:"groups-claim" default:"groups"`
	Session     Age    `key:"session" default:"12h"`
}

// Role is what some users may do.
type Role struct {
	Role       RoleName    `key:"role" required:"true"`
	Users      []string    `key:"users" optional:"true"`
	Groups     []string    `key:"groups" optional:"true"`
	Prefixes   []Prefix    `key:"prefixes" optional:"true"`
	Namespaces []Namespace `key:"namespaces" optional:"true"`
	Flows      []string    `key:"flows" optional:"true"`
}

// apiTexts say what the keys of api mean.
var apiTexts = yamlfile.KeyTexts{
	"address": "Address and port, as http://ADDRESS:PORT or https://ADDRESS:PORT. An address that other machines reach " +
		"needs https and users: see web and oidc.",
	"time":    "How long one question may take.",
	"queries": "How many questions are worked on at a time; others wait.",
	"web": "Prometheus' web configuration file: the certificate (tls_server_config), and users with hashes of their " +
		"passwords (basic_auth_users). It is read again when it changes.",
	"web, absent":   "no TLS, and no users",
	"hosts":         "More names by which browsers may ask, such as that of a proxy in front.",
	"hosts, absent": "addresses, localhost, and the names in the certificate",
	"oidc":          "A provider of OpenID Connect, where people log in.",
	"oidc, absent":  "only users of web",
	"roles": "What users may do. The first role that names a user, or one of its groups, counts; who has none is " +
		"refused.",
	"roles, absent":           "every user of web is a viewer of everything",
	"oidc.issuer":             "Its URL, as in its tokens.",
	"oidc.client-id":          "Name of the collector at the provider.",
	"oidc.client-secret-file": "File with the collector's secret at the provider, which only its user may read.",
	"oidc.url": "Address of the collector as browsers see it, with https://. At the provider, its path /login/callback " +
		"is the redirect URI.",
	"oidc.user-claim":   "Claim of the ID token that is the name in roles. email counts only if the provider verified it.",
	"oidc.groups-claim": "Claim that has the groups.",
	"oidc.session":      "How long a login lasts.",
	"roles[].role":      "viewer asks questions; admin also sees the settings.",
	"roles[].users": "Users of web by name, those of oidc by user-claim, and those with a certificate by its common " +
		"name.",
	"roles[].users, absent":      "none",
	"roles[].groups":             "Groups of oidc.",
	"roles[].groups, absent":     "none",
	"roles[].prefixes":           "Only packets whose source or destination is in one of these.",
	"roles[].prefixes, absent":   "all addresses",
	"roles[].namespaces":         "Only packets with one of these IOAM Namespace-IDs.",
	"roles[].namespaces, absent": "all",
	"roles[].flows":              "Only these measured flows, by name: they have no addresses by which prefixes could select them.",
	"roles[].flows, absent":      "all, or none if the role has prefixes or namespaces",
}

// The roles.
const (
	viewer RoleName = "viewer"
	admin  RoleName = "admin"
)

// scope is what the role is confined to; nil: nothing.
func (r *Role) scope() *store.Scope {
	if len(r.Prefixes)+len(r.Namespaces)+len(r.Flows) == 0 {
		return nil
	}
	s := &store.Scope{Flows: r.Flows}
	for _, p := range r.Prefixes {
		s.Prefixes = append(s.Prefixes, netip.Prefix(p))
	}
	for _, n := range r.Namespaces {
		s.Namespaces = append(s.Namespaces, uint16(n))
	}
	return s
}

// check adds the errors that single values do not have.
func (a *API) check(add func(path, problem, cure string)) {
	at, err := netip.ParseAddrPort(a.Listens())
	secure := strings.HasPrefix(string(a.Address), "https://")
	switch {
	case err != nil: // reported with the value
	case secure && a.Web == "":
		add("api.address", "https needs a certificate", "set api.web to a file with tls_server_config")
	case !secure && !at.Addr().IsLoopback():
		add("api.address", fmt.Sprintf("the address %s can be reached from other machines: it needs TLS and users", at.Addr()),
			fmt.Sprintf("write https://%s and set api.web, or use http://[::1]:%d", at, at.Port()))
	}
	if a.OIDC != nil && len(a.Roles) == 0 {
		add("api.oidc", "without roles, everybody with an account at the provider would be let in", "add api.roles, with users or groups")
	}
	if len(a.Roles) > 0 && a.Web == "" && a.OIDC == nil {
		add("api.roles", "nobody is asked who they are", "set api.web to a file with basic_auth_users, or api.oidc")
	}
	for i, r := range a.Roles {
		path := fmt.Sprintf("api.roles[%d]", i)
		if len(r.Users)+len(r.Groups) == 0 {
			add(path, "it has no users and no groups", "add users, or groups of api.oidc")
		}
		if len(r.Groups) > 0 && a.OIDC == nil {
			add(path, "groups come from api.oidc, which is not there", "name users instead, or set api.oidc")
		}
		if r.Role == admin && r.scope() != nil {
			add(path, "an admin sees everything", "remove prefixes, namespaces and flows, or write role: viewer")
		}
		if len(r.Flows) > 0 && len(r.Prefixes)+len(r.Namespaces) == 0 {
			add(path, "with flows alone, the role would see all packets", "add prefixes or namespaces")
		}
	}
}

// URL is where the collector's own machine asks it: at loopback, if it listens at all addresses.
func (a *API) URL() string {
	scheme, at, _ := strings.Cut(string(a.Address), "://")
	if p, err := netip.ParseAddrPort(at); err == nil && p.Addr().IsUnspecified() {
		loopback := netip.IPv6Loopback()
		if p.Addr().Is4() {
			loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		at = netip.AddrPortFrom(loopback, p.Port()).String()
	}
	return scheme + "://" + at
}

// Listens is where the API listens.
func (a *API) Listens() string {
	_, at, _ := strings.Cut(string(a.Address), "://")
	return at
}

// Access says who may ask. It reads the secret of api.oidc.
func (s *Settings) Access(notify func(slog.Level, string)) (access.Config, error) {
	a := &s.API
	c := access.Config{Address: a.Listens(), TLS: strings.HasPrefix(string(a.Address), "https://"), Web: a.Web, Notify: notify}
	for _, h := range a.Hosts {
		c.Hosts = append(c.Hosts, string(h))
	}
	for _, r := range a.Roles {
		c.Roles = append(c.Roles, access.Role{Admin: r.Role == admin, Users: r.Users, Groups: r.Groups, Scope: r.scope()})
	}
	if a.OIDC == nil {
		return c, nil
	}
	text, err := secret(a.OIDC.SecretFile)
	c.OIDC = &access.OIDC{
		Issuer: a.OIDC.Issuer, ClientID: a.OIDC.Client, Secret: text, URL: a.OIDC.URL,
		UserClaim: a.OIDC.UserClaim, GroupsClaim: a.OIDC.GroupsClaim, Session: time.Duration(a.OIDC.Session),
	}
	return c, err
}

// secret reads a file with a secret: its first line.
func secret(name string) (string, error) {
	const most = 1 << 12
	content, err := secretfile.Read(name, most, "write the secret into it, and run: chmod 600 "+name)
	if err != nil {
		return "", fmt.Errorf("api.oidc.client-secret-file: %w", err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", problem.New(fmt.Sprintf("api.oidc.client-secret-file: %s is empty", name), "write the secret into it")
	}
	return line, nil
}

var hosts = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

func parseHost(text string) (Host, error) {
	if !hosts.MatchString(text) {
		return "", fmt.Errorf("%q is not the name of a host", text)
	}
	return Host(text), nil
}

func parseRole(text string) (RoleName, error) {
	if r := RoleName(text); r == viewer || r == admin {
		return r, nil
	}
	return "", fmt.Errorf("%q is no role", text)
}

func parsePrefix(text string) (Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return Prefix{}, fmt.Errorf("%q is not a prefix", text)
	case p != p.Masked():
		return Prefix{}, problem.New(fmt.Sprintf("%s has bits beyond its length", text), fmt.Sprintf("write %s", p.Masked()))
	}
	return Prefix(p), nil
}

func parseNamespace(text string) (Namespace, error) {
	n, err := yamlfile.ParseUint(text, 16)
	return Namespace(n), err
}

func parseAddress(text string) (Address, error) {
	rest, ok := strings.CutPrefix(text, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(text, "https://")
	}
	if !ok {
		return "", fmt.Errorf("%q does not begin with http:// or https://", text)
	}
	if _, err := netip.ParseAddrPort(rest); err != nil {
		return "", fmt.Errorf("%q is not an address with a port", rest)
	}
	return Address(text), nil
}
