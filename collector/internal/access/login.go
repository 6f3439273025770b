// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/waymark-net/waymark/internal/problem"
)

// OIDC is a provider of OpenID Connect, where users log in.
type OIDC struct {
	Issuer, ClientID, Secret string
	URL                      string        // of the collector, as browsers see it
	UserClaim, GroupsClaim   string        // what of the ID token is the user, and what the groups
	Session                  time.Duration // how long a login lasts
}

// Paths of the login.
const (
	loginPath    = "/login"
	callbackPath = "/login/callback"
	logoutPath   = "/logout"
)

// Cookies. The prefix __Host- keeps other hosts of the domain from setting them.
const (
	sessionCookie = "__Host-waymark-session"
	loginCookie   = "__Host-waymark-login"
)

// loginTime is how long a login may take.
const loginTime = 10 * time.Minute

// login lets users log in with OpenID Connect (authorization code flow with PKCE).
type login struct {
	config OIDC

	mu       sync.Mutex
	provider *oidc.Provider // nil: not found yet
	sessions map[[sha256.Size]byte]*session
}

type session struct {
	who   Identity
	until time.Time
}

// mostSessions bounds the sessions; beyond it, the one that ends first is ended.
const mostSessions = 10_000

func newLogin(c OIDC) (*login, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf(
			"api.oidc.url %q: want the address that browsers use, such as https://collector.example.net; cookies of sessions need https",
			c.URL,
		)
	}
	c.URL = "https://" + u.Host
	return &login{config: c, sessions: map[[sha256.Size]byte]*session{}}, nil
}

// client asks the provider where it is, unless that is known. It may be away when the collector starts.
func (l *login) client(ctx context.Context) (*oauth2.Config, *oidc.IDTokenVerifier, error) {
	l.mu.Lock()
	p := l.provider
	l.mu.Unlock()
	if p == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		var err error
		if p, err = oidc.NewProvider(ctx, l.config.Issuer); err != nil {
			return nil, nil, err
		}
		l.mu.Lock()
		l.provider = p
		l.mu.Unlock()
	}
	scopes := []string{oidc.ScopeOpenID, "email", "profile", "groups"}
	var offered struct {
		Scopes []string `json:"scopes_supported"`
	}
	if p.Claims(&offered) == nil && len(offered.Scopes) > 0 {
		scopes = slices.DeleteFunc(scopes, func(s string) bool { return !slices.Contains(offered.Scopes, s) && s != oidc.ScopeOpenID })
	}
	return &oauth2.Config{
		ClientID: l.config.ClientID, ClientSecret: l.config.Secret, Endpoint: p.Endpoint(), RedirectURL: l.config.URL + callbackPath,
		Scopes: scopes,
	}, p.Verifier(&oidc.Config{ClientID: l.config.ClientID}), nil
}

// serve answers the requests of the login; false: it is another one.
func (l *login) serve(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.URL.Path == loginPath && r.Method == http.MethodGet:
		l.begin(w, r)
	case r.URL.Path == callbackPath && r.Method == http.MethodGet:
		l.end(w, r)
	case r.URL.Path == logoutPath && r.Method == http.MethodPost: // pages of other origins were refused
		l.forget(r)
		l.setCookie(w, sessionCookie, "", -1, http.SameSiteStrictMode)
		w.WriteHeader(http.StatusNoContent)
	default:
		return false
	}
	return true
}

// pending is a login that has begun. The browser keeps it in a cookie.
type pending struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	To       string `json:"to"`
	Until    int64  `json:"until"` // seconds since 1970
}

// local is a path of this server; another address becomes /.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") ||
		strings.ContainsAny(to, "\\\r\n\t") ||
		strings.HasPrefix(to, loginPath) || len(to) > 2000 {
		return "/"
	}
	return to
}

// begin sends a browser to the provider.
func (l *login) begin(w http.ResponseWriter, r *http.Request) {
	client, _, err := l.client(r.Context())
	if err != nil {
		Fail(w, http.StatusBadGateway, "the provider of api.oidc does not answer; try again, or look at its issuer")
		return
	}
	p := pending{
		State:    rand.Text(),
		Nonce:    rand.Text(),
		Verifier: oauth2.GenerateVerifier(),
		To:       local(r.URL.RequestURI()),
		Until:    time.Now().Add(loginTime).Unix(),
	}
	text, err := json.Marshal(p)
	if err != nil {
		Fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	// Lax: the provider sends the browser back from another site.
	l.setCookie(w, loginCookie, base64.RawURLEncoding.EncodeToString(text), int(loginTime.Seconds()), http.SameSiteLaxMode)
	http.Redirect(w, r, client.AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier)), http.StatusSeeOther)
}

// end takes a browser back from the provider.
func (l *login) end(w http.ResponseWriter, r *http.Request) {
	p, err := readPending(r)
	if err == nil && r.URL.Query().Get("state") != p.State {
		err = errors.New("it is not the login that was begun here")
	}
	var who Identity
	if err == nil {
		who, err = l.identify(r, p)
	}
	l.setCookie(w, loginCookie, "", -1, http.SameSiteLaxMode)
	if err != nil {
		Fail(w, http.StatusForbidden, "the login failed: "+err.Error()+"; begin it again at "+loginPath)
		return
	}
	l.setCookie(w, sessionCookie, l.remember(who, time.Now()), int(l.config.Session.Seconds()), http.SameSiteStrictMode)
	// Not a redirect: its request would still come from the provider's site, and so without the cookie.
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	to := html.EscapeString(local(p.To))
	_, _ = fmt.Fprintf(
		w,
		"<!DOCTYPE html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url=%s\"><title>Waymark</title><a href=\"%s\">Go on</a>\n",
		to,
		to,
	)
}

func readPending(r *http.Request) (p pending, err error) {
	c, err := r.Cookie(loginCookie)
	if err != nil {
		return p, errors.New("the browser has no login that was begun")
	}
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(text, &p) != nil || p.State == "" || p.Nonce == "" {
		return p, errors.New("the login that was begun cannot be read")
	}
	if time.Now().Unix() > p.Until {
		return p, errors.New("it took too long")
	}
	return p, nil
}

// identify exchanges the code for an ID token, and checks that.
func (l *login) identify(r *http.Request, p pending) (who Identity, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	client, verifier, err := l.client(ctx)
	if err != nil {
		return who, errors.New("the provider does not answer")
	}
	if r.URL.Query().Get("error") != "" {
		return who, errors.New("the provider refused it")
	}
	token, err := client.Exchange(ctx, r.URL.Query().Get("code"), oauth2.VerifierOption(p.Verifier))
	if err != nil {
		return who, errors.New("the provider does not know its code")
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := verifier.Verify(ctx, raw)
	if err != nil {
		return who, errors.New("the provider's ID token is not valid")
	}
	if id.Nonce != p.Nonce {
		return who, errors.New("the ID token is of another login")
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return who, errors.New("the ID token cannot be read")
	}
	return l.named(claims)
}

// named is who the claims of an ID token say.
func (l *login) named(claims map[string]any) (who Identity, err error) {
	who.User, _ = claims[l.config.UserClaim].(string)
	if who.User == "" {
		return who, problem.New(fmt.Sprintf("the ID token has no claim %q", l.config.UserClaim), "set api.oidc.user-claim")
	}
	if verified, _ := claims["email_verified"].(bool); l.config.UserClaim == "email" && !verified {
		return who, problem.New("the provider does not say that the mail address is the user's", "set api.oidc.user-claim: sub")
	}
	switch groups := claims[l.config.GroupsClaim].(type) {
	case string:
		who.Groups = []string{groups}
	case []any:
		for _, g := range groups {
			if name, ok := g.(string); ok {
				who.Groups = append(who.Groups, name)
			}
		}
	}
	return who, nil
}

// remember begins a session, and returns the text that the browser shows for it.
func (l *login) remember(who Identity, now time.Time) string {
	token := rand.Text() + rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sessions) >= mostSessions {
		var first [sha256.Size]byte
		until := time.Time{}
		for key, s := range l.sessions {
			if until.IsZero() || s.until.Before(until) {
				first, until = key, s.until
			}
		}
		delete(l.sessions, first)
	}
	l.sessions[sha256.Sum256([]byte(token))] = &session{who, now.Add(l.config.Session)}
	return token
}

// session is who a request's cookie stands for.
func (l *login) session(r *http.Request) (Identity, bool) {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return Identity{}, false
	}
	key := sha256.Sum256([]byte(c.Value))
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[key]
	if s == nil {
		return Identity{}, false
	}
	if time.Now().After(s.until) {
		delete(l.sessions, key)
		return Identity{}, false
	}
	who := s.who
	who.provided = true
	return who, true
}

func (l *login) forget(r *http.Request) {
	if c, err := r.Cookie(sessionCookie); err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.sessions, sha256.Sum256([]byte(c.Value)))
	}
}

func (l *login) setCookie(w http.ResponseWriter, name, value string, age int, site http.SameSite) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: site})
}
