// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

// A key's file is where the command says it is, for an agent that runs elsewhere.
func TestKeyFileOfNamespace(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeAgent(t, nil)
	for args, want := range map[string]string{
		"set 124 pot /etc/../etc/a.key drop-rejected off": `PATCH /v1/namespaces/124 {"pot":{"key_file":"/etc/a.key","drop_rejected":false}}`,
		"set 124 pot a.key": `PATCH /v1/namespaces/124 {"pot":{"key_file":"` + here + `/a.key"}}`,
		"set 124 pot none":  `PATCH /v1/namespaces/124 {"pot":{"key_file":""}}`,
		"add 124 drop-rejected on pot a.key": `POST /v1/namespaces {"id":124,"data":"0xffffffff","data_wide":"0xffffffffffffffff","remove":false,"export":"none","pot":{"key_file":"` +
			here + `/a.key","drop_rejected":true,"clock_difference":"1s"},"e2e":false,"loopback":false,"terminate_active":false,"incremental":false}`,
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"--socket", f.socket, "ioam", "namespace"}, strings.Fields(args)...)...)
		if code != commandline.ExitOK || stdout+stderr != "" || f.last() != want {
			t.Errorf("%s: code %d, %q, %q, asked\n%s\nwant\n%s", args, code, stdout, stderr, f.last(), want)
		}
	}
}
