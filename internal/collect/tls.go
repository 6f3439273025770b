// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// LoadTLS reads the collector's certificate and key, in PEM, and those of the
// authorities one of which must have signed each exporter's certificate. Without
// clientCA, exporters need none.
func LoadTLS(certificate, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the collector's certificate: %w; name a certificate and its key, in PEM", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(clientCA)
	if err != nil {
		return nil, fmt.Errorf("the authority of exporters' certificates: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate; name a file of certificates in PEM", clientCA)
	}
	return config, nil
}
