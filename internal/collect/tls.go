// SPDX-License-Identifier: Apache-2.0

package collect

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

// mostCredentials bounds a file in bytes: an authority's bundle has some hundred thousand.
const mostCredentials = 16 << 20

// LoadTLS reads the collector's certificate and key in PEM, and the authorities that
// may sign exporters' certificates. Without clientCA, exporters need no certificate.
func LoadTLS(certificate, key, clientCA string) (*tls.Config, error) {
	chain, err := inputfile.Read(certificate, mostCredentials)
	own, fault := inputfile.Read(key, mostCredentials)
	var pair tls.Certificate
	if err = errors.Join(err, fault); err == nil {
		pair, err = tls.X509KeyPair(chain, own)
	}
	if err != nil {
		return nil, problem.Wrap(
			fmt.Errorf("the collector's certificate: %w", err),
			"use a certificate and its key, in PEM",
		)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCA == "" {
		return config, nil
	}
	pem, err := inputfile.Read(clientCA, mostCredentials)
	if err != nil {
		return nil, fmt.Errorf("the authority of exporters' certificates: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, problem.New(fmt.Sprintf("%s has no certificate", clientCA), "use a file of certificates in PEM")
	}
	return config, nil
}

// handshakeFault is why an exporter has no session, with the cure where one is
// known.
func handshakeFault(err error) error {
	var (
		alert    *net.OpError
		plain    tls.RecordHeaderError
		unproven *tls.CertificateVerificationError
		cure     string
	)
	switch {
	case errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(err.Error(), "certificate"):
		cure = "the exporter does not trust this collector's certificate: give it the authority that signed --tls-cert, and make it " +
			"send to an address or name in the certificate"
	case errors.As(err, &plain):
		cure = "the exporter does not use TLS: configure TLS there, or receive on tcp://"
	case errors.As(err, &unproven), strings.Contains(err.Error(), "didn't provide a certificate"):
		cure = "give the exporter a certificate that an authority in --tls-client-ca has signed"
	default:
		return err
	}
	return problem.Wrap(err, cure)
}
