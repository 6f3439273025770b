// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/pintest"
)

// An agent that numbers outcomes anew meets the pins of one that had other
// numbers, while packets flow: no count is taken for another, and the log says
// that counting begins anew.
func TestUpgradeFromOtherLayout(t *testing.T) {
	l := raise(t, "wm-dp-layout")
	ping := l.Topology().Traffic[0]
	path := pintest.Directory(t)
	send := func() {
		t.Helper()
		if result, err := l.Send(context.Background(), ping); err != nil || result.Received != result.Sent {
			t.Fatalf("%+v: %v", result, err)
		}
	}
	var log bytes.Buffer
	open := func() (d *datapath.Datapath) {
		t.Helper()
		err := l.Node("near").Do(func() (err error) {
			d, err = datapath.Open(datapath.Options{PinPath: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				return err
			}
			return d.Apply(configuration(index(t), datapath.AttachAuto))
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	counted := func(d *datapath.Datapath) (in, out uint64) {
		t.Helper()
		in, out = seen(t, d)
		return in, out
	}
	d := open()
	send()
	before, _ := counted(d)
	d.Close()
	d = open() // the same layout: nothing is lost
	if in, _ := counted(d); in < before || log.Len() > 0 {
		t.Errorf("counted %d before a restart and %d after it; log: %s", before, in, log.String())
	}
	d.Close()

	var renamed int
	err := filepath.WalkDir(path, func(file string, _ os.DirEntry, err error) error {
		if base := filepath.Base(file); err == nil && (strings.HasPrefix(base, "counters-") || strings.HasPrefix(base, "records-")) {
			renamed++
			name, _, _ := strings.Cut(base, "-")
			return os.Rename(file, filepath.Join(filepath.Dir(file), name+"-00000000"))
		}
		return err
	})
	if err != nil || renamed != 2 {
		t.Fatalf("%d pins have a layout in their names: %v", renamed, err)
	}
	send() // the programs that were left go on
	d = open()
	defer func() {
		if err := l.Node("near").Do(d.Remove); err != nil {
			t.Error(err)
		}
	}()
	if in, out := counted(d); in > 2 || out > 2 {
		t.Errorf("counters of another layout were taken over: %d, %d", in, out)
	}
	for _, name := range []string{"counters", "records"} {
		if !strings.Contains(log.String(), fmt.Sprintf("map=%s ", name)) {
			t.Errorf("the log says nothing of %s:\n%s", name, log.String())
		}
	}
	send()
	if in, _ := counted(d); in < uint64(ping.Count) {
		t.Errorf("%d of %d packets were counted after the upgrade", in, ping.Count)
	}
}
