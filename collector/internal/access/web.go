// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"
	"golang.org/x/time/rate"

	"github.com/waymark-net/waymark/internal/inputfile"
	"github.com/waymark-net/waymark/internal/problem"
)

// webFile is Prometheus' web configuration file, which has TLS, users and headers. It and the certificates are read
// again while the collector runs, so that a certificate can be renewed and a password changed.
type webFile struct {
	path   string
	notify func(level slog.Level, text string)

	mu     sync.Mutex
	read   time.Time
	loaded *loaded
	fault  string // of the last attempt; "": it succeeded
}

// mostOctets bounds the file.
const mostOctets = 1 << 20

// loaded is what the file said.
type loaded struct {
	tls          *tls.Config // nil: no TLS
	leaf         *x509.Certificate
	users        passwords
	limiter      *rate.Limiter // nil: no limit
	certificates bool          // clients need a certificate, which says who they are
	headers      map[string]string
	key          string // file with the certificate's key; "": none
}

func openWeb(path string, notify func(slog.Level, string)) (*webFile, error) {
	w := &webFile{path: path, notify: notify}
	var err error
	w.loaded, err = loadWeb(path)
	w.read = time.Now()
	return w, err
}

// rereadInterval bounds how often the file is read.
const rereadInterval = time.Second

// now is what the file says. A file that became wrong is reported, and what it said before stays in force.
func (w *webFile) now() *loaded {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.read) < rereadInterval {
		return w.loaded
	}
	w.read = time.Now()
	again, err := loadWeb(w.path)
	if err == nil && (again.tls == nil) != (w.loaded.tls == nil) {
		err = problem.New(fmt.Sprintf("%s: tls_server_config was added or removed", w.path), "restart the collector")
	}
	if err == nil && len(w.loaded.users.hashes) > 0 && len(again.users.hashes) == 0 {
		err = problem.New(fmt.Sprintf("%s: all users were removed", w.path), "restart the collector")
	}
	if err != nil {
		if text := err.Error(); text != w.fault {
			w.fault = text
			w.notify(slog.LevelError, text+"; what it said before stays in force")
		}
		return w.loaded
	}
	if again.limiter != nil && w.loaded.limiter != nil {
		w.loaded.limiter.SetLimit(again.limiter.Limit())
		w.loaded.limiter.SetBurst(again.limiter.Burst())
		again.limiter = w.loaded.limiter
	}
	w.loaded, w.fault = again, ""
	return w.loaded
}

// serverTLS is for the server: it looks at the file for each connection.
func (w *webFile) serverTLS() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.now().tls, nil },
		GetCertificate:     func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &w.now().tls.Certificates[0], nil },
	}
}

// names reports whether the certificate is for a name.
func (w *webFile) names(name string) bool {
	l := w.now()
	return l.leaf != nil && l.leaf.VerifyHostname(name) == nil
}

// values are quoted values in errors of the YAML reader.
var values = regexp.MustCompile("`[^`]*`")

// loadWeb reads the file. Errors never have values in it: it has hashes of passwords, and may have a key.
func loadWeb(path string) (*loaded, error) {
	text, err := inputfile.Read(path, mostOctets)
	if err != nil {
		return nil, fmt.Errorf("api.web: %w", err)
	}
	var c web.Config
	c.TLSConfig.MinVersion, c.HTTPConfig.HTTP2 = tls.VersionTLS12, true
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, problem.New(
			fmt.Sprintf("api.web: %s: %s", path, values.ReplaceAllString(err.Error(), "a value")),
			"Prometheus documents this file under \"HTTPS and authentication\"",
		)
	}
	if err := web.Validate(path); err != nil {
		return nil, problem.Wrap(
			fmt.Errorf("api.web: %s: %w", path, err),
			"Prometheus documents this file under \"HTTPS and authentication\"",
		)
	}
	c.TLSConfig.SetDirectory(filepath.Dir(path))
	l := &loaded{users: passwords{hashes: map[string]string{}}, headers: c.HTTPConfig.Header}
	for name, hash := range c.Users {
		l.users.set(name, string(hash))
	}
	if every := c.RateLimiterConfig; every.Interval > 0 {
		l.limiter = rate.NewLimiter(rate.Every(every.Interval), every.Burst)
	}
	if !c.TLSConfig.IsEnabled() {
		return l, nil
	}
	l.key = c.TLSConfig.TLSKeyPath
	if l.tls, err = web.ConfigToTLSConfig(&c.TLSConfig); err != nil {
		return nil, fmt.Errorf("api.web: %s: tls_server_config: %w", path, err)
	}
	if len(l.tls.Certificates) == 0 && l.tls.GetCertificate != nil { // of files
		certificate, err := l.tls.GetCertificate(nil)
		if err != nil {
			return nil, fmt.Errorf("api.web: %s: %w", path, err)
		}
		l.tls.Certificates = []tls.Certificate{*certificate}
	}
	if len(l.tls.Certificates) == 0 {
		return nil, problem.New(fmt.Sprintf("api.web: %s: tls_server_config has no certificate", path), "add cert_file and key_file")
	}
	if c.HTTPConfig.HTTP2 {
		l.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	l.certificates = l.tls.ClientAuth == tls.RequireAndVerifyClientCert
	l.leaf, err = x509.ParseCertificate(l.tls.Certificates[0].Certificate[0])
	return l, err
}

// Secrets are the files with secrets of a web configuration file: itself, and the key that it names.
func Secrets(path string) []string {
	if l, err := loadWeb(path); err == nil && l.key != "" {
		return []string{path, l.key}
	}
	return []string{path}
}

// Certificate is that of a web configuration file; nil: it has none.
func Certificate(path string) (*x509.Certificate, error) {
	l, err := loadWeb(path)
	if err != nil {
		return nil, err
	}
	return l.leaf, nil
}
