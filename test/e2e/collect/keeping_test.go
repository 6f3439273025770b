// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// exportTwice exports to "waymark collect" at aramis, and to the collector there that keeps what it receives.
const exportTwice = `  - {kind: ipfix, address: "tcp://[2001:db8:23::2]:4739"}
  - {kind: ipfix, address: "tcp://[2001:db8:23::2]:4740"}
`

// keeper is a running "waymark-collector run" at aramis.
type keeper struct {
	notes *e2e.Transcript
	http  http.Client
}

// keepAtAramis starts it, and waits until it answers.
func keepAtAramis(t *testing.T, l *lab.Lab) *keeper {
	t.Helper()
	directory := t.TempDir()
	file := filepath.Join(directory, "collector.yaml")
	text := fmt.Sprintf("listen: [\"tcp://[::]:4740\"]\njoin: {wait: %s}\nstore: {directory: %q}\n", patience.Of(3*time.Second), directory)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	node := l.Node("aramis")
	c := node.Command(t.Context(), filepath.Join(filepath.Dir(e2e.Program), "waymark-collector"), "run", "--config", file)
	k := &keeper{notes: &e2e.Transcript{}}
	c.Stderr = k.notes
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	k.http.Transport = &http.Transport{DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = node.Do(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("the collector that keeps wrote\n%s", k.notes)
		}
	})
	e2e.Await(t, "the collector that keeps runs", 20*time.Second, func() bool { return strings.Contains(k.notes.String(), "answers at ") })
	return k
}

// ask reads an answer of its API.
func (k *keeper) ask(t *testing.T, path string, into any) {
	t.Helper()
	response, err := k.http.Get("http://[::1]:4780" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, response.Status, err)
	}
}
