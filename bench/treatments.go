// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
)

// treatment is what the node does with the packets that it forwards.
type treatment struct {
	name   string
	config func(n0, n1 ioam.IfIndex) ioam.NodeConfig // nil: no program of ours
	attach datapath.AttachMode
	kernel bool // the kernel's own IOAM
	read   bool // somebody reads the records
}

// treatments are in the order of the first round.
func treatments() []treatment {
	return []treatment{
		{name: "none"},
		{name: "kernel", kernel: true},
		{name: "transit xdp", config: transitConfig, attach: datapath.AttachXDP},
		{name: "transit tcx", config: transitConfig, attach: datapath.AttachTCX},
		{name: "inline", config: encapConfig(ioam.ModeInline), attach: datapath.AttachTCX},
		{name: "tunnel", config: encapConfig(ioam.ModeEncap), attach: datapath.AttachTCX},
		{name: "tunnel with timestamps", config: encapTimesConfig, attach: datapath.AttachTCX},
		{name: "decapsulate", config: decapConfig, attach: datapath.AttachXDP},
		{name: "decapsulate, records read", config: decapConfig, attach: datapath.AttachXDP, read: true},
	}
}

// transitConfig serves both interfaces.
func transitConfig(n0, n1 ioam.IfIndex) ioam.NodeConfig {
	c := nodeConfig()
	c.Interfaces[0].Index, c.Interfaces[0].Name = n0, "n0"
	c.Interfaces[1].Index, c.Interfaces[1].Name = n1, "n1"
	return c
}

// encapConfig serves only the interface that packets leave by: they come from
// outside the domain.
func encapConfig(mode ioam.Mode) func(n0, n1 ioam.IfIndex) ioam.NodeConfig {
	return func(_, n1 ioam.IfIndex) ioam.NodeConfig {
		return encapsulatingAt(n1, encapsulation(mode, typeIDs, 1))
	}
}

func encapTimesConfig(_, n1 ioam.IfIndex) ioam.NodeConfig {
	return encapsulatingAt(n1, encapsulation(ioam.ModeEncap, typeTimes, 1))
}

func encapsulatingAt(n1 ioam.IfIndex, c ioam.NodeConfig) ioam.NodeConfig {
	c.Interfaces = c.Interfaces[1:]
	c.Interfaces[0].Index, c.Interfaces[0].Name = n1, "n1"
	c.Encapsulations[0].Interface = n1
	return c
}

func decapConfig(n0, n1 ioam.IfIndex) ioam.NodeConfig {
	c := transitConfig(n0, n1)
	c.Decapsulations = []ioam.Decapsulation{{TunnelDestination: tunnelEnd}}
	return c
}

// treat starts a treatment; stop ends it. counters is nil without programs.
func (n *network) treat(t treatment, pins string) (counters func() ([]datapath.Counters, error), stop func() error, err error) {
	if t.kernel {
		return nil, func() error { return n.kernelIOAM(false) }, n.kernelIOAM(true)
	}
	if t.config == nil {
		return nil, func() error { return nil }, nil
	}
	var d *datapath.Datapath
	err = inNamespace(n.node, func() error {
		if d, err = datapath.Open(datapath.Options{PinPath: filepath.Join(pins, "bench")}); err != nil {
			return err
		}
		n0, n1 := ioam.IfIndex(n.n0.Attrs().Index), ioam.IfIndex(n.n1.Attrs().Index)
		cfg := datapath.Config{Node: t.config(n0, n1), Attach: map[ioam.IfIndex]datapath.AttachMode{n0: t.attach, n1: t.attach}}
		if err := cfg.Node.Validate(); err != nil {
			return errors.Join(err, d.Remove())
		}
		if err := d.Apply(cfg); err != nil {
			return errors.Join(err, d.Remove())
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	endReading := func() error { return nil }
	if t.read {
		endReading = readRecords(d)
	}
	stop = func() error {
		return errors.Join(endReading(), inNamespace(n.node, d.Remove))
	}
	return d.Counters, stop, nil
}

// readRecords takes records off the rings as an agent does.
func readRecords(d *datapath.Datapath) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.ReadRecords(ctx, func(datapath.Record) {}) }()
	return func() error {
		cancel()
		return <-done
	}
}

// prepareKernelIOAM makes the node a kernel IOAM node with the ids of ours.
func (n *network) prepareKernelIOAM() error {
	return inNamespace(n.node, func() error {
		for _, s := range []struct{ name, value string }{
			{"net/ipv6/ioam6_id", "2"},
			{"net/ipv6/ioam6_id_wide", "22222222"},
			{"net/ipv6/conf/n0/ioam6_id", "201"},
			{"net/ipv6/conf/n1/ioam6_id", "202"},
		} {
			if err := writeSysctl(s.name, s.value); err != nil {
				return fmt.Errorf("this kernel has no IOAM of its own (CONFIG_IPV6, Linux 5.15): %w", err)
			}
		}
		out, err := exec.Command("ip", "ioam", "namespace", "add", fmt.Sprint(namespace), "data", "0xdeadbeef").CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip ioam namespace add: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}

func (n *network) kernelIOAM(on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	return inNamespace(n.node, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/n0/ioam6_enabled", []byte(value), 0)
	})
}
