// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

func TestWrappedCures(t *testing.T) {
	const head = "// SPDX-License-Identifier: Apache-2.0\n\npackage p\n\n"
	const want = "a.go:5: a text after an error: give the error a cure with problem.Wrap"
	for _, test := range []struct{ name, file, content, want string }{
		{"a cure", "a.go", "var err = fmt.Errorf(\"listen: %w; run as root\", x)\n", want},
		{"raw, joined", "a.go", "var err = fmt.Errorf(`listen: %w; run`+\" as root\", x)\n", want},
		{"of another function", "a.go", "var err = Usagef(\"%w; see --help\", x)\n", want},
		{"an error at the end", "a.go", "var err = fmt.Errorf(\"stopped; listen: %w\", x)\n", ""},
		{"a comment", "a.go", "// %w; is refused\nvar a = 1\n", ""},
		{"a test", "a_test.go", "var err = fmt.Errorf(\"listen: %w; run as root\", x)\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) { onlyFinding(t, test.file, head+test.content, test.want) })
	}
}
