// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
)

// packaged is what "systemctl show" says of the package's unit.
const packaged = "DynamicUser=yes\nStateDirectory=waymark\nProtectSystem=strict\nReadWritePaths=\nLoadState=loaded\n"

// What the unit says decides where the service can keep its store.
func TestUnit(t *testing.T) {
	t.Parallel()
	static := strings.Replace(packaged, "DynamicUser=yes", "DynamicUser=no", 1)
	for name, c := range map[string]struct{ text, directory, refused string }{
		"own":                  {packaged, "/var/lib/waymark", ""},
		"below its own":        {packaged, "/var/lib/waymark/a", ""},
		"its own, in full":     {packaged, "/var/lib/private/waymark", ""},
		"next to its own":      {packaged, "/var/lib/waymark2", "the service cannot write /var/lib/waymark2: systemd makes its user"},
		"elsewhere":            {packaged, "/srv/store", "the service cannot write /srv/store: systemd makes its user"},
		"writable":             {strings.Replace(packaged, "ReadWritePaths=", "ReadWritePaths=/srv/store", 1), "/srv/store", "the service cannot write /srv/store: systemd makes its user"},
		"a user":               {static, "/srv/store", "/srv/store is read-only for the service"},
		"a user that may":      {strings.Replace(static, "ReadWritePaths=", "ReadWritePaths=/a -/srv", 1), "/srv/store", ""},
		"a bound directory":    {static + "BindPaths=/disk:/srv/store:rbind\n", "/srv/store", ""},
		"without protection":   {strings.Replace(static, "strict", "no", 1), "/srv/store", ""},
		"no unit":              {"LoadState=not-found\nProtectSystem=no\nDynamicUser=no\n", "/srv/store", ""},
		"not what is expected": {"", "/srv/store", ""},
	} {
		if got := parseUnit(c.text).refuses(c.directory); !strings.HasPrefix(got, c.refused) || (got == "") != (c.refused == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Of a service whose user exists only while it runs, the cure for a secret is a credential: without others' right to
// read it, the service would not start.
func TestCureOfSecrets(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{true, false} {
		f := sound(time.Now())
		f.Service, f.Secrets = parseUnit(packaged), []Secret{{Path: "/etc/waymark-collector/web.yaml", Others: others}}
		w := f.judgeSecret(&f.Secrets[0]).Warning
		const hand = "hand it to the service with LoadCredential=web.yaml:/etc/waymark-collector/web.yaml in a drop-in"
		if w == nil || !strings.HasPrefix(w.Cure, hand) ||
			!strings.Contains(w.Cure, "/run/credentials/waymark-collector.service/web.yaml") || strings.HasPrefix(w.Cure, "run: chmod") {
			t.Errorf("%+v", w)
		}
	}
}

// Credentials are there only while the service runs: that they are not is no error.
func TestCredentialsThatAreNotThere(t *testing.T) {
	t.Parallel()
	f := sound(time.Now())
	absent := fmt.Errorf("api.web: %w", &fs.PathError{Op: "open", Path: credentials + service + "/web.yaml", Err: os.ErrNotExist})
	f.Unusable, f.Certificates[0].Fault = absent, absent
	list := Judge(f)
	for _, c := range list {
		if c.Warning != nil || c.Name == "certificate" {
			t.Errorf("%+v", c)
		}
	}
	if list[0].State != "unknown" || list[0].Detail != credentials+service+"/web.yaml is there only while the service runs" {
		t.Errorf("%+v", list[0])
	}
}

// What is said of records is true, also while some wait or cannot be joined; a fault is whole, with its own cure.
func TestWhatIsSaidOfRecords(t *testing.T) {
	t.Parallel()
	h := &query.Health{
		Counts: map[string]uint64{"postcards_unjoinable": 7}, Sink: map[string]uint64{"waiting": 985},
		Buffers: []query.ReceiveBuffer{{Endpoint: "udp://[::]:4739", Sockets: 2, Bytes: 33554432}},
		Store: query.StoreHealth{
			Fault: "the disk has less free than the 500 MB that are to stay free (store.free), and there is no file to remove",
			Cure:  "make room",
		},
	}
	said := ""
	for _, c := range JudgeRunning(h) {
		said += c.Name + ": " + c.Detail + "\n"
		if c.Warning != nil {
			said += c.Warning.Text + " cure: " + c.Warning.Cure + "\n"
		}
	}
	for _, want := range []string{
		"records: all came that exporters numbered, and none was lost; 7 came without what joins them, and are in no path; 985 not written yet\n",
		"receive buffer: 33554432 octets for each of 2 sockets at udp://[::]:4739\n",
		"nothing is written: the disk has less free than the 500 MB that are to stay free (store.free), and there is no file to remove cure: make room\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
}
