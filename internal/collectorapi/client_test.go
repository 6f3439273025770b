// SPDX-License-Identifier: Apache-2.0

package collectorapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A server with an unsigned certificate cannot write control characters to the terminal by the names in it.
func TestHostileCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a\x1b[2Jb"},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	defer s.Close()
	a := Asked{Address: strings.Replace(s.URL, "127.0.0.1", "localhost", 1), Words: flagWords}
	c, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Ask(t.Context(), "v1/health", nil, &struct{}{})
	if !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), `a\x1b[2Jb`) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}
