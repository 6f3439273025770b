// SPDX-License-Identifier: Apache-2.0

package consoledemo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
)

// Addresses in the node of the collector.
const (
	inside = "[::1]:4780"
	// receives is what all exporters in network.yaml name.
	receives = "tcp://[2001:db8:ff::3]:4739"
)

// settings are those of the collector, but for the directory of its store.
const settings = `listen: ["` + receives + `"]
join: {wait: 1s}
store: {directory: %q, size: 1GB, free: 100MB, memory: 500MB}
api: {address: "http://` + inside + `"}
`

// startTimeout bounds the start of the collector.
var startTimeout = patience.Of(30 * time.Second)

// startCollector runs the collector in its node, and waits until it answers. The lab ends
// it; the channel has a value when it ended before.
func (d *demo) startCollector(ctx context.Context) (<-chan error, error) {
	file := filepath.Join(d.lab.Directory(), "collector.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, settings, d.store), 0o644); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(d.lab.Directory(), "collector.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	collector := d.lab.Node(exit).Command(context.WithoutCancel(ctx), d.options.Collector, "run", "--config", file)
	collector.Stdout, collector.Stderr = log, log
	if err := collector.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(collector.Wait(), errors.New(said(log.Name()))) }()
	for deadline := time.Now().Add(startTimeout); ; {
		conn, err := d.dial()
		if err == nil {
			return ended, conn.Close()
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("the collector ended at once: %w", err)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the collector does not answer after %v: %w: %s", startTimeout, err, said(log.Name()))
		}
	}
}

// said is the end of what the collector wrote.
func said(log string) string {
	const limit = 2000
	text, err := os.ReadFile(log)
	if err != nil || len(text) == 0 {
		return "it wrote nothing"
	}
	return "it wrote: " + string(text[max(0, len(text)-limit):])
}

// dial connects to the collector.
func (d *demo) dial() (conn net.Conn, err error) {
	err = d.lab.Node(exit).Do(func() error {
		conn, err = net.Dial("tcp", inside)
		return err
	})
	return conn, err
}

// relay joins connections of browsers with the collector, until the context ends.
func (d *demo) relay(ctx context.Context) error {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		browser, err := d.console.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				browser.Close()
			}
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			time.Sleep(10 * time.Millisecond)
			continue
		case err != nil:
			return fmt.Errorf("wait for browsers: %w", err)
		}
		open.Go(func() {
			defer browser.Close()
			collector, err := d.dial()
			if err != nil {
				return
			}
			defer collector.Close()
			stop := context.AfterFunc(ctx, func() { browser.Close(); collector.Close() })
			defer stop()
			join(browser, collector)
		})
	}
}

// join copies both ways until both have ended.
func join(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyTo(a, b)
	}()
	copyTo(b, a)
	<-done
}

// copyTo copies until the source ends, and says so to the target.
func copyTo(target, source net.Conn) {
	_, _ = io.Copy(target, source) // a connection that breaks ends
	if closer, ok := target.(interface{ CloseWrite() error }); ok {
		_ = closer.CloseWrite()
	}
}
