// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestHistory(t *testing.T) {
	c, err := Parse("x.yaml", []byte("node: {id: 1}\nhistory: {keep: 10m, rate: 0, prefixes: [{name: cust7, prefix: \"fd00:2::/64\"}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if h := c.Kept(); time.Duration(h.Keep) != 10*time.Minute || h.Rate != 0 || len(h.Prefixes) != 1 || h.Prefixes[0].Name != "cust7" {
		t.Errorf("%+v", h)
	}
	if c, err = Parse("x.yaml", []byte("node: {}\n")); err != nil || c.History != nil {
		t.Errorf("%v, %+v", err, c)
	}
	written, err := Parse("x.yaml", []byte("node: {}\nhistory: {}\n"))
	if err != nil || !reflect.DeepEqual(written.Kept(), c.Kept()) {
		t.Errorf("%v, %+v; want the same as without the section: %+v", err, written.Kept(), c.Kept())
	}
	_, err = Parse(
		"x.yaml",
		[]byte(
			"node: {}\nhistory:\n  keep: 0s\n  rate: 100001\n  prefixes:\n    - {name: \"a=b\", prefix: \"fd00::/64\"}\n"+
				"    - {name: other, prefix: \"fd00:1::/64\"}\n"+
				"    - {name: \"\\e[2J\", prefix: \"fd00:2::/64\"}\n",
		),
	)
	if err == nil || strings.Count(err.Error(), "x.yaml:") != 5 {
		t.Errorf("%v", err)
	}
	_, err = Parse(
		"x.yaml",
		[]byte("node: {}\nhistory:\n  prefixes:\n    - {name: \"a=b\", prefix: \"fd00::/64\"}\n    - {name: other, prefix: \"fd00:1::/64\"}\n"+
			"    - {name: \"\\e[2J\", prefix: \"fd00:2::/64\"}\n    - {name: a, prefix: \"fd00:3::/64\"}\n"+
			"    - {name: a, prefix: \"fd00:4::/64\"}\n"),
	)
	if err == nil || strings.Count(err.Error(), "x.yaml:") != 4 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
}
