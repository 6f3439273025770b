// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Errors of a file have keys as their cures; of a change at run time, commands.
func TestCuresAtRuntime(t *testing.T) {
	for _, tt := range []struct {
		name            string
		change          func(*Config)
		inFile, runtime string
	}{
		{"too many namespaces", func(c *Config) {
			for n := range model.MaxNamespaces {
				c.Namespaces = append(c.Namespaces, Namespace{ID: ioam.NamespaceID(1000 + n)})
			}
		}, fmt.Sprintf("use at most %d", model.MaxNamespaces), "remove one with: waymark ioam namespace del ID"},
		{"too many encapsulations", func(c *Config) {
			for n := range model.MaxEncapsulations {
				e := c.Encapsulations[0]
				e.Name = fmt.Sprint("more", n)
				c.Encapsulations = append(c.Encapsulations, e)
			}
		}, fmt.Sprintf("use at most %d", model.MaxEncapsulations), "remove one with: waymark route del name NAME"},
		{"too many decapsulations", func(c *Config) {
			first := netip.MustParseAddr("2001:db8:ff::1")
			for range model.MaxDecapsulations + 1 {
				c.Decapsulations = append(c.Decapsulations, Decapsulation{TunnelDestination: first})
				first = first.Next()
			}
		}, fmt.Sprintf("use at most %d", model.MaxDecapsulations), "remove one with: waymark decapsulation del ADDR"},
		{"a Flow-ID that is not carried", func(c *Config) {
			dex := &DirectExportOption{Namespace: 123}
			dex.FlowID.Kind = model.FlowIDLabel
			c.Encapsulations[0].Options = []Option{{DirectExport: dex}}
		}, "add extension-flags: [flow-id], or remove flow-id", "add ext-flags 0x80, or remove flow-id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, twoInterfaces)
			c.source = nil
			tt.change(c)
			cures := func(faults Faults) string {
				var all strings.Builder
				for _, f := range faults {
					all.WriteString("; " + f.Cure)
				}
				return all.String() + "; "
			}
			if got := cures(c.check()); !strings.Contains(got, "; "+tt.inFile+"; ") || strings.Contains(got, tt.runtime) {
				t.Errorf("of the file: %.300s; want %s", got, tt.inFile)
			}
			if got := cures(c.atRuntime(c.check())); !strings.Contains(got, "; "+tt.runtime+"; ") || strings.Contains(got, tt.inFile) {
				t.Errorf("at run time: %.300s; want %s", got, tt.runtime)
			}
		})
	}
}
