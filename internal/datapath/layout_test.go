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

	"github.com/cilium/ebpf"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/pintest"
	"github.com/waymark-net/waymark/test/testnet"
)

// An agent that renumbers outcomes finds the pins of one with other numbers,
// while packets flow: no count is mistaken for another, and the log says that
// counting starts again.
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
	d = open() // the same layout: no count is lost
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
	send() // the old agent's programs continue
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

// TestUpgradeFromOtherMaps leaves the pin of a map that this version does not
// have.
func TestUpgradeFromOtherMaps(t *testing.T) {
	testnet.NeedRoot(t)
	path := pintest.Directory(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	pin := filepath.Join(path, "exports")
	if err := m.Pin(pin); err != nil {
		t.Fatal(err)
	}
	d, err := datapath.Open(datapath.Options{PinPath: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(pin); !os.IsNotExist(err) {
		t.Errorf("the pin stayed: %v", err)
	}
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
}
