// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Without --config, doctor judges the file of the service, and says so.
func TestDoctorJudgesTheService(t *testing.T) {
	directory := t.TempDir()
	write := func(name, store string) string {
		path := filepath.Join(directory, name)
		text := fmt.Sprintf("listen: [\"udp://[::1]:%d\"]\nstore: {directory: %q}\napi: {address: \"http://[::1]:%d\"}\n",
			freePort(t), filepath.Join(directory, store), freePort(t))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := installedSettings
	t.Cleanup(func() { installedSettings = before })
	installedSettings = write("service.yaml", "of-service")
	other := write("other.yaml", "of-other")
	for _, c := range []struct {
		args        []string
		file, store string
	}{
		{nil, installedSettings, "of-service"},
		{[]string{"--config", other}, other, "of-other"},
		{[]string{"--config="}, "", ""},
	} {
		var d diagnosis
		s := program.Start(t, append([]string{"doctor", "--json"}, c.args...)...)
		_ = s.End(t) // this machine may lack something
		err := json.Unmarshal([]byte(s.Out.String()), &d)
		if err != nil || d.Config != c.file || !strings.Contains(fmt.Sprint(d.Checks), c.store) {
			t.Errorf("%v: %v %s", c.args, err, s.Out.String())
		}
	}
	s := program.Start(t, "doctor")
	_ = s.End(t)
	if !strings.Contains(s.Out.String(), installedSettings) {
		t.Error(s.Out.String())
	}
	installedSettings = filepath.Join(directory, "none.yaml")
	s = program.Start(t, "doctor")
	_ = s.End(t)
	if !strings.Contains(s.Out.String(), "all settings have their defaults") {
		t.Error(s.Out.String())
	}
	installedSettings = write("broken.yaml", "x")
	if err := os.WriteFile(installedSettings, []byte("listen: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = program.Start(t, "doctor")
	if code := s.End(t); code != 1 || !strings.Contains(s.Errs.String(), installedSettings) {
		t.Errorf("code %d: %s", code, s.Errs.String())
	}
}

// secured writes settings with https, a certificate that has another name and signs itself, and perhaps a user.
func secured(t *testing.T, users string) (file string) {
	t.Helper()
	directory := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		DNSNames: []string{"collector.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	octets, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(directory, "collector.yaml")
	for name, text := range map[string]string{
		"cert.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"key.pem":  string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: octets})),
		"web.yaml": "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n" + users,
		"collector.yaml": fmt.Sprintf("listen: [\"udp://[::1]:%d\"]\nstore: {directory: %q}\napi: {address: \"https://[::1]:%d\", web: %q}\n",
			freePort(t), filepath.Join(directory, "store"), freePort(t), filepath.Join(directory, "web.yaml")),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// Doctor finds the running collector of settings with https by the certificate that they name, also if it does not know
// who asks; another program at its port is none.
func TestDoctorFindsASecuredCollector(t *testing.T) {
	const hash = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
	for users, want := range map[string]string{"": "running", "basic_auth_users: {alice: " + hash + "}\n": unknownUser} {
		file := secured(t, users)
		before := asDoctorSays(t, file)
		if before.Collector != "absent" || !strings.Contains(fmt.Sprint(before.Checks), "is free") {
			t.Errorf("before it runs: %+v", before)
		}
		running := program.Start(t, "run", "--config", file)
		running.Errs.Await(t, `answers at (\S+)`)
		d := asDoctorSays(t, file)
		said := fmt.Sprint(d.Checks)
		if d.Collector != want || strings.Contains(said, "{port ") || (want == "running") != strings.Contains(said, "octets for each of") {
			t.Errorf("%q: %+v", users, d)
		}
		s := program.Start(t, "doctor", "--config", file)
		_ = s.End(t)
		if !regexp.MustCompile(`(?m)^collector +running`).MatchString(s.Out.String()) {
			t.Error(s.Out.String())
		}
		renewed := secured(t, users) // another certificate at the same address
		web, err := os.ReadFile(file)
		moved := strings.ReplaceAll(string(web), filepath.Dir(file), filepath.Dir(renewed))
		if err := errors.Join(err, os.WriteFile(renewed, []byte(moved), 0o600)); err != nil {
			t.Fatal(err)
		}
		if d := asDoctorSays(t, renewed); d.Collector != "absent" || !strings.Contains(fmt.Sprint(d.Warnings), "port_taken") {
			t.Errorf("a stranger: %+v", d)
		}
		running.Interrupt()
		_ = running.End(t)
	}
}

func asDoctorSays(t *testing.T, file string) (d diagnosis) {
	t.Helper()
	s := program.Start(t, "doctor", "--json", "--config", file)
	_ = s.End(t) // this machine may lack something
	if err := json.Unmarshal([]byte(s.Out.String()), &d); err != nil {
		t.Fatalf("%v: %s %s", err, s.Out.String(), s.Errs.String())
	}
	return d
}
