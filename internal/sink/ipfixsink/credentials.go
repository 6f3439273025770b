// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/waymark-net/waymark/internal/inputfile"
	"github.com/waymark-net/waymark/internal/problem"
)

// TLSFiles are the credentials of a session over TLS, all in PEM. They are read
// again for each connection, so that certificates can be renewed.
type TLSFiles struct {
	Certificate, Key string // this node's; "" for none
	CA               string // authorities for the collector's certificate; "" for the system's
	ServerName       string // the collector's name in its certificate; "" for the address' host
}

func (f TLSFiles) load(address string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if c.ServerName == "" {
		c.ServerName = host
	}
	if faults := f.read(c); len(faults) > 0 {
		return nil, &faults[0]
	}
	return c, nil
}

// TLSFile is one of TLSFiles.
type TLSFile string

// The files, in the configuration's words.
const (
	TLSCertificate TLSFile = "certificate"
	TLSKey         TLSFile = "key"
	TLSAuthority   TLSFile = "ca"
)

// FileFault is an error in a file and how to fix it.
type FileFault struct {
	File          TLSFile
	Unread        error // why it cannot be read; nil: it can
	Problem, Cure string
}

// Error is the problem and the cure.
func (f *FileFault) Error() string { return "export ipfix: " + f.Unwrap().Error() }

// Unwrap is the error without its place, for who shows problem and cure apart.
func (f *FileFault) Unwrap() error { return problem.New(f.Problem, f.Cure) }

// Check reads the files as a session does.
func (f TLSFiles) Check() []FileFault { return f.read(&tls.Config{}) }

// mostCredentials bounds a file in bytes: an authority's bundle has some hundred thousand.
const mostCredentials = 16 << 20

// read puts the files' credentials into c.
func (f TLSFiles) read(c *tls.Config) (faults []FileFault) {
	open := func(file TLSFile, path, cure string) []byte {
		content, err := inputfile.Read(path, mostCredentials)
		if err != nil {
			faults = append(faults, FileFault{file, err, err.Error(), cure})
			return nil
		}
		return content
	}
	authorities := func(file TLSFile, path, cure string) (*x509.CertPool, []byte) {
		content, pool := open(file, path, cure), x509.NewCertPool()
		if content != nil && !pool.AppendCertsFromPEM(content) {
			faults = append(faults, FileFault{file, nil, path + " has no certificate", cure})
			content = nil
		}
		return pool, content
	}
	if f.CA != "" {
		c.RootCAs, _ = authorities(TLSAuthority, f.CA, "use a file of one or more certificates in PEM that the agent may read")
	}
	if f.Certificate == "" || f.Key == "" { // giving only one is an error in the configuration
		return faults
	}
	_, certificate := authorities(TLSCertificate, f.Certificate, "use this node's certificate in PEM, in a file that the agent may read")
	key := open(TLSKey, f.Key, "use the certificate's private key in PEM, in a file that the agent may read")
	if certificate == nil || key == nil {
		return faults
	}
	own, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return append(faults, FileFault{TLSKey, nil, fmt.Sprintf("%s is not the key of the certificate %s: %v", f.Key, f.Certificate, err),
			"use the private key of the certificate, in PEM"})
	}
	c.Certificates = []tls.Certificate{own}
	return faults
}

// credentialCure is the cure for a session that fails because of certificates; ""
// if it fails for another reason.
func credentialCure(err error) string {
	var (
		file     *FileFault
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		unproven *tls.CertificateVerificationError
		alert    *net.OpError
	)
	switch {
	case errors.As(err, &file):
		return file.Cure
	case errors.As(err, &unknown):
		return "set tls.ca to the authority that signed the collector's certificate"
	case errors.As(err, &name):
		return "set tls.server-name, or the host of address, to a name that the collector's certificate has"
	case errors.As(err, &unproven):
		return "give the collector a certificate that is valid now, and check this node's clock"
	case !errors.As(err, &alert) || alert.Op != "remote error" || !strings.Contains(err.Error(), "certificate"):
		return ""
	case strings.Contains(err.Error(), "certificate required"):
		return "set tls.certificate and tls.key: the collector requires a certificate of an authority that it trusts"
	}
	return "set tls.certificate and tls.key to a certificate that is valid now, of an authority that the collector trusts"
}
