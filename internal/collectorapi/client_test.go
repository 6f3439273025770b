// SPDX-License-Identifier: Apache-2.0

package collectorapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
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
	if err == nil || errors.Is(err, ErrAbsent) || !strings.HasSuffix(err.Error(), "ask by a name that it has, with --collector") {
		t.Errorf("%q", err)
	} else if !strings.Contains(err.Error(), `a\x1b[2Jb`) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}

// failure is the error of a question.
func failure(t *testing.T, a Asked) error {
	t.Helper()
	a.Words = flagWords
	c, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Ask(t.Context(), "v1/health", nil, &struct{}{})
}

// Each way in which a collector is not reached has its own cure.
func TestUnreached(t *testing.T) {
	t.Parallel()
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind":"error","error":"who are you?"}`))
	})
	plain, secure := httptest.NewServer(refuse), httptest.NewUnstartedServer(refuse)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	proper := secure.Certificate()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proper.Raw})
	other := *proper
	other.Raw = []byte("another one")
	for name, c := range map[string]struct {
		asked   Asked
		is      error
		endings string
	}{
		"nobody":           {Asked{Address: "http://[::1]:1"}, ErrAbsent, "or name its address with --collector"},
		"no user":          {Asked{Address: plain.URL}, ErrUnknown, "give --user and --password-file"},
		"a wrong password": {Asked{Address: plain.URL, User: "ann", Password: "x"}, ErrUnknown, `no user "ann", or the password is another one; look at --user and --password-file`},
		"TLS for plain":    {Asked{Address: strings.Replace(plain.URL, "http:", "https:", 1)}, nil, "answers without TLS; write http:// in --collector"},
		"plain for TLS":    {Asked{Address: strings.Replace(secure.URL, "https:", "http:", 1)}, nil, "answers over TLS only; write https:// in --collector"},
		"not trusted":      {Asked{Address: secure.URL}, nil, "name the authority that signed it with --ca"},
		"trusted":          {Asked{Address: secure.URL, CA: ca}, ErrUnknown, "give --user and --password-file"},
		"another name":     {Asked{Address: strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), CA: ca}, nil, "ask by a name that it has, with --collector"},
		"known":            {Asked{Address: strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), Certificate: proper}, ErrUnknown, "give --user and --password-file"},
		"known otherwise":  {Asked{Address: secure.URL, Certificate: &other}, ErrAbsent, "the certificate is not the one in the settings; start one with 'waymark-collector run', or name its address with --collector"},
	} {
		err := failure(t, c.asked)
		if err == nil || !strings.HasSuffix(err.Error(), c.endings) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
		for _, known := range []error{ErrAbsent, ErrUnknown} {
			if !errors.Is(known, c.is) && errors.Is(err, known) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A collector that wants a certificate of who asks is known by its own.
func TestCertificateIsWanted(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	err := failure(t, Asked{Address: s.URL, Certificate: s.Certificate()})
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "certificate required") {
		t.Error(err)
	}
}

// Flags that are not given are those of the environment; an address that the command knows is not replaced. Another
// collector than the environment's, and another user, get nothing of its user and password.
func TestEnvironment(t *testing.T) {
	heard := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		heard <- user + " " + password
		_, _ = w.Write([]byte("{}"))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := "http://[::1]:1"
	for name, c := range map[string]struct {
		address, at string
		args        []string
		want        string // "": no collector is there
	}{
		"environment":       {s.URL, "", nil, "ann secret word"},
		"flags":             {none, "", []string{"--collector", s.URL, "--user", "bob", "--password-file", file}, "bob secret word"},
		"a flag, not there": {s.URL, "", []string{"--collector", none}, ""},
		"another one":       {none, "", []string{"--collector", s.URL}, " "},
		"the same":          {s.URL, "", []string{"--collector", s.URL}, "ann secret word"},
		"known":             {none, s.URL, nil, " "},
		"known, the same":   {s.URL, s.URL, nil, "ann secret word"},
		"known, and a flag": {none, none, []string{"--collector", s.URL}, " "},
	} {
		t.Setenv("WAYMARK_COLLECTOR", c.address)
		t.Setenv("WAYMARK_COLLECTOR_USER", "ann")
		t.Setenv("WAYMARK_COLLECTOR_PASSWORD_FILE", file)
		var f Flags
		cmd := &cobra.Command{}
		f.Add(cmd)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if c.at != "" {
			f.At(c.at, nil)
		}
		client, err := f.Client()
		if err != nil {
			t.Fatal(err)
		}
		err = client.Ask(t.Context(), "v1/health", nil, &struct{}{})
		client.Close()
		switch {
		case c.want == "" && !errors.Is(err, ErrAbsent):
			t.Errorf("%s: %v", name, err)
		case c.want == "":
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if got := <-heard; got != c.want {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

// Another user than the environment's has another password; the default address is not taken for one that is not given.
func TestEnvironmentOfOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const address = "http://[::1]:1"
	t.Setenv("WAYMARK_COLLECTOR", address)
	t.Setenv("WAYMARK_COLLECTOR_USER", "ann")
	t.Setenv("WAYMARK_COLLECTOR_PASSWORD_FILE", file)
	var other Flags
	cmd := &cobra.Command{}
	other.Add(cmd)
	if err := cmd.ParseFlags([]string{"--user", "bob"}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Client(); err == nil || !strings.Contains(err.Error(), `user "bob" needs a password`) {
		t.Errorf("another user than the environment's: %v", err)
	}
	var usual Flags
	usual.Add(&cobra.Command{})
	usual.At(UsualURL, nil)
	if _, err := usual.Client(); err != nil || usual.Address != UsualURL {
		t.Errorf("%s, %v", usual.Address, err)
	}
	t.Setenv("WAYMARK_COLLECTOR_CA", file)
	var f Flags
	f.Add(&cobra.Command{})
	if _, err := f.Client(); err == nil || !strings.Contains(err.Error(), file+" has no certificate") {
		t.Errorf("WAYMARK_COLLECTOR_CA: %v", err)
	}
}
