// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/waymark-net/waymark/internal/inputfile"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/secretfile"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// NamesFrom is a collector that knows the names of other nodes.
type NamesFrom struct {
	Collector    CollectorURL    `key:"collector" required:"true"`
	CA           string          `key:"ca" optional:"true"`
	User         string          `key:"user" optional:"true"`
	PasswordFile string          `key:"password-file" optional:"true"`
	Interval     yamlfile.Period `key:"interval" default:"5m"`
}

// namesFromTexts say what the keys of names-from mean.
var namesFromTexts = yamlfile.KeyTexts{
	"collector":    "URL of the API of a waymark-collector, such as https://collector.example.net:4780.",
	"ca":           "File with the certificates, in PEM, of those who may have signed the collector's.",
	"ca, absent":   "those of the system",
	"user":         "A user of the collector, with password-file. It needs https, or a collector on this machine.",
	"user, absent": "no user",
	"password-file": "File with the user's password in its first line, mode 0600 or stricter. It is read for each " +
		"question, so that the password can be replaced.",
	"password-file, absent": "no password",
	"interval":              "Time between two questions. After one without an answer, the next comes sooner.",
}

// CollectorURL is the address of a collector's API.
type CollectorURL string

func parseCollectorURL(s string) (CollectorURL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%q is not the URL of a collector", s)
	case u.User != nil:
		return "", problem.New("the URL has a user", "write user and password-file instead")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q has more than a host, a port and a path", s)
	}
	return CollectorURL(s), nil
}

// local reports whether what is sent cannot be read on its way.
func (c CollectorURL) local() bool {
	u, err := url.Parse(string(c))
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || err == nil && at.IsLoopback()
}

func (c *Config) namesFromRules(add func(path, problem, cure string)) {
	n := c.NamesFrom
	if n == nil || n.User == "" && n.PasswordFile == "" {
		return
	}
	switch {
	case n.PasswordFile == "":
		add("names-from.user", "the user has no password", "add password-file")
	case n.User == "":
		add("names-from.password-file", "the password has no user", "add user")
	case n.Collector != "" && !n.Collector.local():
		add("names-from.user", "the password would cross the network unencrypted", "use https, or no user")
	}
}

// namesFiles lists the errors in the files with which the collector is asked.
func (d *decoder) namesFiles(c *Config) (unusable []unusableFile) {
	n := c.NamesFrom
	if n == nil {
		return nil
	}
	reportFault := func(path string, err error) {
		if err != nil && !d.followsFrom(path) {
			unusable = append(unusable, unusableFile{c.source.Fault(path, path+": "+err.Error(), ""), err})
		}
	}
	if n.CA != "" {
		_, err := n.Authorities()
		reportFault("names-from.ca", err)
	}
	if n.PasswordFile != "" {
		_, err := n.Password()
		reportFault("names-from.password-file", err)
	}
	return unusable
}

const (
	// maxAuthorities and maxPassword bound the files, in octets.
	maxAuthorities = 1 << 20
	maxPassword    = 4096
)

// Authorities are the certificates of those who may have signed the collector's, in PEM; nil: the system's.
func (n *NamesFrom) Authorities() ([]byte, error) {
	if n.CA == "" {
		return nil, nil
	}
	text, err := inputfile.Read(n.CA, maxAuthorities)
	if err != nil {
		return nil, problem.Wrap(err, "name a file with certificates in PEM")
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return nil, problem.New(n.CA+" has no certificate in PEM", "name the file of the authority that signed the collector's certificate")
	}
	return text, nil
}

// Password is the user's; "" without one.
func (n *NamesFrom) Password() (string, error) {
	if n.PasswordFile == "" {
		return "", nil
	}
	text, err := secretfile.Read(n.PasswordFile, maxPassword, "write the password into it, and run: chmod 600 "+n.PasswordFile)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), err
}
