// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/settings"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/health"
)

// sound are facts without a problem.
func sound(now time.Time) *Facts {
	return &Facts{
		Now: now, Ports: []Port{{Name: "udp://[::1]:4739"}}, Directory: "/var/lib/waymark", Free: 20e9, Total: 100e9, Reserve: 500e6,
		Buffer: collect.ReceiveBuffer,
		Clock: &health.Clock{
			Synchronised: true,
			TAIOffset:    37 * time.Second,
		}, Certificates: []Ending{{Path: "/c.pem", Until: now.Add(90 * 24 * time.Hour)}}, Secrets: []Secret{{Path: "/c.key"}},
	}
}

// Each fact that is wrong has one warning, with its code and severity, and none of the others.
func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change   func(*Facts)
		code     health.Code
		severity health.Severity
		text     string
	}{
		"nothing":            {func(*Facts) {}, "", "", ""},
		"a port in use":      {func(f *Facts) { f.Ports[0].Fault = fmt.Errorf("listen: %w", syscall.EADDRINUSE) }, PortTaken, health.Error, "used by another program"},
		"no such address":    {func(f *Facts) { f.Ports[0].Fault = syscall.EADDRNOTAVAIL }, PortTaken, health.Error, "cannot assign"},
		"no permission":      {func(f *Facts) { f.Unwritable = os.ErrPermission }, StoreUnwritable, health.Error, "permission denied"},
		"another collector":  {func(f *Facts) { f.Used = true }, StoreUnwritable, health.Error, "another process has the store in /var/lib/waymark open"},
		"a full disk":        {func(f *Facts) { f.Free = 400e6 }, DiskShort, health.Error, "400 MB free, less than store.free (500 MB)"},
		"an almost full one": {func(f *Facts) { f.Free = 900e6 }, DiskShort, health.Degraded, "when it has less than 500 MB"},
		"the service's":      {func(f *Facts) { f.Buffer, f.Service = 4194304, &Unit{State: []string{"/var/lib/waymark"}} }, ReceiveBufferSmall, health.Degraded, "a UDP socket of the service gets 4194304 of 33554432 octets"},
		"a small buffer":     {func(f *Facts) { f.Buffer = 212992 }, ReceiveBufferSmall, health.Degraded, "gets 212992 of 33554432 octets"},
		"a clock on its own": {func(f *Facts) { f.Clock.Synchronised = false }, health.ClockUnsynced, health.Degraded, "packets are kept at the times of nodes"},
		"a certificate":      {func(f *Facts) { f.Certificates[0].Until = now.Add(5 * 24 * time.Hour) }, CertificateEnds, health.Degraded, "ends in 5 days, at 2026-12-03"},
		"one that ended":     {func(f *Facts) { f.Certificates[0].Until = now.Add(-time.Hour) }, CertificateEnds, health.Error, "ended at 2026-11-28"},
		"none":               {func(f *Facts) { f.Certificates[0].Fault = os.ErrNotExist }, CertificateEnds, health.Error, "/c.pem: file does not exist"},
		"a secret":           {func(f *Facts) { f.Secrets[0].Others = true }, SecretReadable, health.Degraded, "/c.key can be read by every user"},
		"a running one":      {func(f *Facts) { f.Running, f.Buffer = true, 1 }, "", "", ""},
		"the service":        {func(f *Facts) { f.Service = &Unit{State: []string{"/var/lib/waymark"}, System: true} }, "", "", ""},
		"elsewhere": {func(f *Facts) {
			f.Service, f.Directory = &Unit{State: []string{"/var/lib/waymark"}, System: true}, "/srv/store"
		}, StoreUnwritable, health.Error, "/srv/store is read-only for the service (ProtectSystem=strict, without ReadWritePaths=/srv/store)"},
		"a key of root": {func(f *Facts) { f.Service = &Unit{Dynamic: true, State: []string{"/var/lib/waymark"}} }, SettingsUnusable, health.Error, "the service cannot read /c.key"},
		"a credential": {func(f *Facts) {
			f.Service, f.Secrets[0].Path = &Unit{Dynamic: true, State: []string{"/var/lib/waymark"}}, credentials+service+"/c.key"
		}, "", "", ""},
		"settings": {func(f *Facts) { f.Unusable = errors.New("no file") }, SettingsUnusable, health.Error, "no file"},
	} {
		f := sound(now)
		c.change(f)
		expect(t, name, Judge(f), c.code, c.severity, c.text)
	}
}

// expect compares the warnings of checks with the one that is expected; "": none.
func expect(t *testing.T, name string, checks []health.Check, code health.Code, severity health.Severity, text string) {
	t.Helper()
	var found []health.Warning
	for _, c := range checks {
		if c.Warning != nil {
			found = append(found, *c.Warning)
		}
		if (c.Warning == nil) != (c.State == "ok") || c.Detail == "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
	switch {
	case code == "" && len(found) > 0:
		t.Errorf("%s: %+v", name, found)
	case code != "" && (len(found) != 1 || found[0].Code != code || found[0].Severity != severity || !strings.Contains(found[0].Text, text) ||
		found[0].Cure == "" || found[0].Title == ""):
		t.Errorf("%s: %+v", name, found)
	}
}

func TestJudgeRunning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*query.Health)
		code     health.Code
		severity health.Severity
		text     string
	}{
		"nothing":          {func(*query.Health) {}, "", "", ""},
		"a clock ahead":    {func(h *query.Health) { h.Exporters[0].Clock = 3e9 }, ExporterClockWrong, health.Degraded, "1 of 2 exporters have clocks that differ from this machine's; that of athos is 3s ahead of it"},
		"one hours behind": {func(h *query.Health) { h.Exporters[0].Clock = 3e9; h.Exporters[1].Clock = -2 * 3600e9 }, ExporterClockWrong, health.Error, "2 of 2 exporters have clocks that differ from this machine's; that of 2001:db8::2 is 2h0m0s behind it"},
		"kernel drops":     {func(h *query.Health) { h.Counts["socket_dropped"] = 7 }, DatagramsDropped, health.Degraded, "no room for 7 datagrams"},
		"missing records":  {func(h *query.Health) { h.Exporters[1].Missed = 5; h.Sink["dropped"] = 2 }, RecordsMissing, health.Degraded, "5 records did not come, by the numbers of messages; 2 records were lost"},
		"late postcards": {func(h *query.Health) {
			h.Lost = []query.LostRecords{{Stage: "join", Cause: "postcards_late", Count: 3000}, {Stage: "decode", Cause: "sequence_gap", Count: 9}}
		}, RecordsMissing, health.Degraded, "3000 records of packets came after their path was kept (join.wait)"},
		"small buffers": {func(h *query.Health) {
			h.Buffers = []query.ReceiveBuffer{{Endpoint: "udp://[::]:4739", Sockets: 2, Bytes: 4194304}}
		}, ReceiveBufferSmall, health.Degraded, "the sockets at udp://[::]:4739 have 4194304 of 33554432 octets"},
		"a full disk":    {func(h *query.Health) { h.Store.Fault = "no space\x1b[2J" }, CollectorProblem, health.Error, "nothing is written: \"no space"},
		"a damaged file": {func(h *query.Health) { h.Store.Aside = 1 }, CollectorProblem, health.Error, "1 file cannot be read"},
	} {
		h := &query.Health{
			OK: true, Counts: map[string]uint64{}, Sink: map[string]uint64{},
			Exporters: []query.Exporter{{Name: "athos", Address: "2001:db8::1", Clock: -5e6}, {Address: "2001:db8::2", Clock: -2e6}},
		}
		c.change(h)
		checks := JudgeRunning(h)
		expect(t, name, checks, c.code, c.severity, c.text)
		if slices.ContainsFunc(checks, func(c health.Check) bool { return c.Warning != nil && strings.Contains(c.Warning.Text, "\x1b") }) {
			t.Errorf("%s: an escape sequence", name)
		}
	}
}

// A collector that got nothing says no word about clocks.
func TestJudgeWithoutExporters(t *testing.T) {
	checks := JudgeRunning(&query.Health{OK: true})
	if checks[0].Name != "exporters" || checks[0].State != "ok" || checks[0].Detail != "none has sent anything yet" {
		t.Errorf("%+v", checks[0])
	}
}

// What is said of the store's directory is what it is: not there yet, another collector's, or no directory.
func TestStoreDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := store.New(t.Context(), store.Options{Directory: filepath.Join(dir, "used")})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"new":  "is not there, and can be made",
		"used": "another process has the store in " + dir + "/used open",
		"file": dir + "/file is a file, no directory",
	} {
		text := "listen: [\"udp://[::1]:0\"]\nstore: {directory: " + dir + "/" + name + "}\napi: {address: \"http://[::1]:0\"}\n"
		s, err := settings.Parse("F", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range Judge(Read(s, false, nil)) {
			text := c.Detail
			if c.Warning != nil {
				text = c.Warning.Text
			}
			if c.Name == "store" && !strings.Contains(text, want) {
				t.Errorf("%s: %q", name, text)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory was made")
	}
}

// Facts of this machine: a port that is taken, a directory that is not there yet, a certificate that ends soon, a key
// that everybody can read.
func TestRead(t *testing.T) {
	t.Parallel()
	taken, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(3 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	octets, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "EC PRIVATE KEY", Bytes: octets}} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, pem.EncodeToMemory(block), 0o600), os.Chmod(path, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(
		"listen: [\"udp://%s\", \"tls://[::1]:0\"]\ntls: {certificate: %s/cert, key: %s/key}\nstore: {directory: %s/a/b}\n"+
			"api: {address: \"http://[::1]:0\"}\n",
		taken.LocalAddr(),
		dir,
		dir,
		dir,
	)
	s, err := settings.Parse("F", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f := Read(s, false, nil)
	if len(f.Ports) != 3 || !isTaken(f.Ports[0].Fault) || f.Ports[1].Fault != nil || f.Ports[2].Fault != nil {
		t.Errorf("%+v", f.Ports)
	}
	if f.Unwritable != nil || f.Total == 0 || f.Free > f.Total || f.Buffer <= 0 || f.Unusable != nil || f.Clock == nil {
		t.Errorf("%+v", f)
	}
	if len(f.Certificates) != 1 || time.Until(f.Certificates[0].Until).Round(24*time.Hour) != 3*24*time.Hour || len(f.Secrets) != 1 ||
		!f.Secrets[0].Others {
		t.Errorf("%+v %+v", f.Certificates, f.Secrets)
	}
	if f := Read(s, true, nil); len(f.Ports) != 0 {
		t.Error("the ports of a running collector are tried")
	}
	limit, err := os.ReadFile("/proc/sys/net/core/rmem_max")
	if err != nil {
		t.Fatal(err)
	}
	if f := Read(s, false, &Unit{}); fmt.Sprint(min(f.Buffer, collect.ReceiveBuffer)) != fmt.Sprint(f.Buffer) || f.Buffer > mostBuffer() ||
		fmt.Sprint(mostBuffer()) != strings.TrimSpace(string(limit)) {
		t.Errorf("the service gets %d, of %s", f.Buffer, limit)
	}
}
