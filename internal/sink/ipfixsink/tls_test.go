// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ipfix"
)

// authority makes certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.issue(t, "ca", nil)
	return a
}

// issue writes NAME.pem and NAME.key, for names and the address ::1.
func (a *authority) issue(t *testing.T, name string, names []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert == nil {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		a.key = key
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.file(name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// files are the files of an exporter that trusts the authority.
func (a *authority) files(own, server string) TLSFiles {
	f := TLSFiles{CA: a.file("ca.pem"), ServerName: server}
	if own != "" {
		f.Certificate, f.Key = a.file(own+".pem"), a.file(own+".key")
	}
	return f
}

// tls serves connections that need a certificate of the authority.
func (r *receiver) tls(a *authority, address string) string {
	r.t.Helper()
	pair, err := tls.LoadX509KeyPair(a.file("collector.pem"), a.file("collector.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	l, err := tls.Listen(
		"tcp",
		address,
		&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert},
	)
	if err != nil {
		r.t.Fatal(err)
	}
	r.stream(l)
	return l.Addr().String()
}

func TestTLS(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	a.issue(t, "collector", []string{"collector.example"})
	a.issue(t, "exporter", nil)
	stranger.issue(t, "exporter", nil)
	foreign := a.files("", "collector.example")
	foreign.Certificate, foreign.Key = stranger.file("exporter.pem"), stranger.file("exporter.key")
	for _, tt := range []struct {
		name  string
		files TLSFiles
		fault string
		cure  string
	}{
		{"right", a.files("exporter", "collector.example"), "", ""},
		{"the collector has another name", a.files("exporter", "other.example"), "valid for collector.example, not other.example", "set tls.server-name, or the host of address,"},
		{"the address is no name of it", a.files("exporter", ""), "cannot validate certificate for ::1", "set tls.server-name, or the host of address,"},
		{"its authority is not trusted", stranger.files("exporter", "collector.example"), "unknown authority", "set tls.ca"},
		{"we have no certificate", a.files("", "collector.example"), "certificate required", "set tls.certificate and tls.key: the collector requires"},
		{"our authority is not trusted", foreign, "unknown certificate authority", "set tls.certificate and tls.key to a certificate that is valid now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, x := newReceiver(t), newEncoder(t)
			c := newCollector(t, x, Config{Transport: TLS, Address: r.tls(a, "[::1]:0"), Files: tt.files})
			stop := run(c)
			offer(x, c, postcard(t), 3000)
			if tt.fault == "" {
				waitFor(t, "receiving all", func() bool { return r.records() == 3000 })
			} else {
				waitFor(t, "the refusal", func() bool { return c.Stats().Error != "" })
			}
			s := c.Stats()
			stop()
			r.close()
			if !strings.Contains(s.Error, tt.fault) || (s.Error == "") != (tt.fault == "") {
				t.Errorf("error %q; want %q", s.Error, tt.fault)
			}
			if !strings.HasPrefix(s.Cure, tt.cure) || (s.Cure == "") != (tt.cure == "") {
				t.Errorf("cure %q; want %q", s.Cure, tt.cure)
			}
			s = check(t, c)
			if want := uint64(r.records()); s.Written != want || tt.fault != "" && s.Lost != 3000 {
				t.Errorf("received %d of %+v", want, s)
			}
		})
	}
}

func TestTLSFiles(t *testing.T) {
	a := newAuthority(t)
	a.issue(t, "exporter", nil)
	a.issue(t, "other", nil)
	for _, tt := range []struct {
		files TLSFiles
		want  string
	}{
		{TLSFiles{CA: a.file("none.pem")}, "no such file"},
		{TLSFiles{CA: a.file("exporter.key")}, "has no certificate"},
		{TLSFiles{Certificate: a.file("exporter.pem"), Key: a.file("other.key")}, "does not match"},
	} {
		_, err := New(Config{Transport: TLS, Address: "[::1]:1", Files: tt.files}, newEncoder(t), testEnvironment())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%+v: %v", tt.files, err)
		}
	}
}

// OpenSSL, which checks our certificate, gets the octets that IPFIX is made of.
func TestOpenSSL(t *testing.T) {
	a := newAuthority(t)
	a.issue(t, "collector", []string{"collector.example"})
	a.issue(t, "exporter", nil)
	port := freePort(t, "tcp")
	cmd := exec.Command("openssl", "s_server", "-accept", fmt.Sprint("[::1]:", port), "-quiet", "-Verify", "1", "-verify_return_error",
		"-CAfile", a.file("ca.pem"), "-cert", a.file("collector.pem"), "-key", a.file("collector.key"))
	stdin, err := cmd.StdinPipe() // an end of it would end the server
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out := launch(t, cmd)
	x := newEncoder(t)
	c := newCollector(
		t,
		x,
		Config{Transport: TLS, Address: fmt.Sprint("[::1]:", port), Domain: 2, Files: a.files("exporter", "collector.example")},
	)
	stop := run(c)
	offer(x, c, postcard(t), 2000)
	waitFor(t, "sending all", func() bool { return c.Stats().Written == 2000 })
	stop()
	r := newReceiver(t)
	s, err := r.decoder.Open(ipfix.SessionKey{Transport: ipfix.TCP}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "OpenSSL's output", func() bool {
		messages := 0
		for in := bytes.NewReader(out.bytes()); ; messages++ {
			if _, err := ipfix.ReadMessage(in, nil); err != nil {
				return uint64(messages) == c.Stats().Messages
			}
		}
	})
	in := bytes.NewReader(out.bytes())
	for {
		b, err := ipfix.ReadMessage(in, nil)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		r.decodeMessage(s, b)
	}
	if r.records() != 2000 || r.missed != 0 {
		t.Errorf("%d records, %d missed", r.records(), r.missed)
	}
}

// freePort is a port of ::1 that was free.
func freePort(t *testing.T, network string) int {
	t.Helper()
	if network == "udp" {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.LocalAddr().(*net.UDPAddr).Port
	}
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Every wrong file is reported, and no error reveals the content of a file.
func TestTLSFilesChecked(t *testing.T) {
	a := newAuthority(t)
	a.issue(t, "exporter", nil)
	a.issue(t, "other", nil)
	none, secret := a.file("none"), a.file("exporter.key")
	for _, tt := range []struct {
		name  string
		files TLSFiles
		want  []string // file, whether it is unread, part of the problem
	}{
		{"right", a.files("exporter", ""), nil},
		{"none given", TLSFiles{}, nil},
		{"missing", TLSFiles{CA: none, Certificate: none, Key: none}, []string{
			"ca true no such file or directory", "certificate true no such file or directory", "key true no such file or directory"}},
		{"a directory", TLSFiles{CA: a.dir}, []string{"ca true is a directory"}},
		{"keys for certificates", TLSFiles{CA: secret, Certificate: secret, Key: secret}, []string{"ca false has no certificate", "certificate false has no certificate"}},
		{"the key of another", TLSFiles{Certificate: a.file("exporter.pem"), Key: a.file("other.key")}, []string{"key false does not match"}},
		{"a certificate for the key", TLSFiles{Certificate: a.file("exporter.pem"), Key: a.file("exporter.pem")}, []string{"key false is not the key of the certificate"}},
	} {
		faults := tt.files.Check()
		if len(faults) != len(tt.want) {
			t.Errorf("%s: %+v; want %q", tt.name, faults, tt.want)
			continue
		}
		for i, f := range faults {
			words := strings.SplitN(tt.want[i], " ", 3)
			if string(f.File) != words[0] || fmt.Sprint(f.Unread != nil) != words[1] || !strings.Contains(f.Problem, words[2]) || f.Cure == "" {
				t.Errorf("%s: %+v; want %s", tt.name, f, tt.want[i])
			}
			if text, cure := problem.Of(&f); text != "export ipfix: "+f.Problem || cure != f.Cure {
				t.Errorf("%s: in two parts %q and %q", tt.name, text, cure)
			}
			if strings.Contains(f.Problem, "-----") {
				t.Errorf("%s: the error reveals the content of the file: %s", tt.name, f.Problem)
			}
		}
	}
}

// Errors that are not about certificates have no cure about certificates.
func TestCuresOfOtherFaults(t *testing.T) {
	for _, err := range []error{errEnded, io.EOF, &net.OpError{Op: "dial", Err: errors.New("a certificate")},
		&net.OpError{Op: "remote error", Err: errors.New("tls: internal error")}} {
		if cure := credentialCure(err); cure != "" {
			t.Errorf("%v: %s", err, cure)
		}
		if cure := awayCure(err); !strings.HasPrefix(cure, "start it") {
			t.Errorf("%v: %s", err, cure)
		}
	}
	dial := func(err error) error { return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", err)} }
	for cure, err := range map[string]error{
		"start it, let its packets through": dial(syscall.ECONNREFUSED),
		"check this node's route":           dial(syscall.ENETUNREACH),
		"correct its name":                  &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}},
		"set tls.ca to the authority":       fmt.Errorf("handshake: %w", x509.UnknownAuthorityError{}),
	} {
		if text := awayCure(err); !strings.HasPrefix(text, cure) {
			t.Errorf("%v: %s; want %s", err, text, cure)
		}
	}
	if cure := credentialCure(fmt.Errorf("handshake: %w",
		&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}})); !strings.Contains(
		cure,
		"valid now",
	) {
		t.Errorf("expired: %q", cure)
	}
	_, err := TLSFiles{CA: "/nowhere.pem"}.load("[::1]:1")
	if cure := credentialCure(err); !strings.Contains(cure, "certificates in PEM") {
		t.Errorf("%v: %q", err, cure)
	}
}
