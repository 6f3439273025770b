// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

func TestEdits(t *testing.T) {
	base := mustParse(t, twoInterfaces)
	before := string(base.Marshal())
	extra := base.Encapsulations[0]
	extra.Name = "c"
	for _, tt := range []struct {
		name    string
		edit    func(*Config) (*Config, error)
		has     string // in the copy's text, and not in the original's
		lacks   string // in the original's text, and not in the copy's
		wantErr string
	}{
		{name: "add a namespace", edit: func(c *Config) (*Config, error) { return c.AddNamespace(Namespace{ID: 5}) }, has: "id: 5\n"},
		{name: "add it twice", edit: func(c *Config) (*Config, error) { return c.AddNamespace(Namespace{ID: 123}) },
			wantErr: "namespace 123 exists already; remove it first, or take another id"},
		{name: "remove a namespace in use", edit: func(c *Config) (*Config, error) { return c.RemoveNamespace(123) },
			wantErr: "encapsulations[0].options[0].trace.namespace: namespace 123 is not configured; configure it under namespaces\n" +
				"encapsulations[1].options[0].trace.namespace: namespace 123 is not configured; configure it under namespaces"},
		{name: "remove a namespace that is not there", edit: func(c *Config) (*Config, error) { return c.RemoveNamespace(5) },
			wantErr: "there is no namespace 5; list them with: waymark ioam namespace show"},
		{name: "remove a namespace", edit: func(c *Config) (*Config, error) {
			c, _ = c.AddNamespace(Namespace{ID: 5})
			c, _ = c.RemoveEncapsulation("a")
			c, _ = c.RemoveEncapsulation("b")
			return c.RemoveNamespace(123)
		}, has: "id: 5\n", lacks: "id: 123\n"},
		{name: "set a schema", edit: func(c *Config) (*Config, error) { return c.SetSchema(123, &Schema{ID: 9, Data: "rack 9"}) }, has: `"rack 9"`, lacks: `data: abc`},
		{name: "take a schema away", edit: func(c *Config) (*Config, error) { return c.SetSchema(123, nil) }, lacks: "schema:"},
		{name: "schema of no namespace", edit: func(c *Config) (*Config, error) { return c.SetSchema(5, nil) },
			wantErr: "there is no namespace 5; list them with: waymark ioam namespace show"},
		{name: "schema that is too long", edit: func(c *Config) (*Config, error) {
			return c.SetSchema(123, &Schema{ID: 9, Data: strings.Repeat("x", 300)})
		}, wantErr: "namespaces[0].schema.data: 300 bytes are too many; use at most 252 bytes"},
		{name: "add an encapsulation", edit: func(c *Config) (*Config, error) { return c.AddEncapsulation(extra) }, has: "name: c\n"},
		{name: "add one with a name in use", edit: func(c *Config) (*Config, error) { return c.AddEncapsulation(c.Encapsulations[0]) },
			wantErr: `encapsulations[2].name: "a" is the name of encapsulations[0] too; give each encapsulation its own name`},
		{name: "add an empty one", edit: func(c *Config) (*Config, error) { return c.AddEncapsulation(Encapsulation{Interface: "eth0"}) },
			wantErr: "encapsulations[2].name: no name; give it a name: it appears in status and metrics\nencapsulations[2].options: 0 options; give 1…9"},
		{name: "remove an encapsulation", edit: func(c *Config) (*Config, error) { return c.RemoveEncapsulation("a") }, lacks: "name: a\n"},
		{name: "remove one that is not there", edit: func(c *Config) (*Config, error) { return c.RemoveEncapsulation("z") },
			wantErr: `there is no encapsulation "z"; list them with: waymark route show`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next, err := tt.edit(base)
			if after := string(base.Marshal()); after != before {
				t.Errorf("the original changed:\n%s", after)
			}
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr || next != nil {
					t.Errorf("got %v\nwant %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := string(next.Marshal())
			if !strings.Contains(text, tt.has) || tt.has != "" && strings.Contains(before, tt.has) {
				t.Errorf("no new %q in:\n%s", tt.has, text)
			}
			if tt.lacks != "" && (strings.Contains(text, tt.lacks) || !strings.Contains(before, tt.lacks)) {
				t.Errorf("still %q in:\n%s", tt.lacks, text)
			}
			mustParse(t, text)
		})
	}
}
